# SPDX-License-Identifier: Apache-2.0
"""How the commands behave towards a person and a script: exit codes, messages, interruption."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from PIL import Image

from conftest import HANG_SECONDS, run, start
from pictures import jpeg, make_folder, make_shard, make_shards

GOOD, BAD_DATA, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "pictures")


@pytest.fixture
def shards(tmp_path):
    return make_shards(tmp_path / "shards")


def bench(source, *more):
    return run("bench", "loader", source, "--batch", "4", "--epochs", "1", "--json", *more)


# What a script reads.


def test_bench_loader_reports_what_it_measured(folder, shards):
    for source in (folder, shards):
        report = bench(source, "--threads", "2").json()
        assert report["images_per_second"] > 0
        assert report["cpu_seconds_per_1000"] > 0
        assert report["first_batch_seconds"] > 0
        assert report["peak_rss_mb"] > 0
        assert sum(report["bytes_by_path"].values()) > 0
        assert report["copies_per_byte"] in (0, 1)
        assert {"io", "decode", "consumer"} <= set(report["stages"])
        assert report["verdict"]


@pytest.mark.parametrize("backend", ["auto", "buffered"])
@pytest.mark.parametrize("recipe", ["imagenet-train", "imagenet-val"])
def test_bench_loader_takes_every_documented_choice(folder, backend, recipe):
    report = bench(folder, "--backend", backend, "--recipe", recipe).json()
    assert report["images_per_second"] > 0


def test_plan_says_how_much_there_is(folder):
    plan = run("plan", folder, "--batch", "4", "--json").json()
    assert plan["samples"] == 12
    assert plan["classes"] == 2
    assert plan["steps"] == 3
    assert plan["memory"]["total_bytes"] > 0
    assert "12 samples" in run("plan", folder, "--batch", "4").out.decode()


def test_ls_lists_a_folder_and_shards(folder, shards):
    listed = run("ls", folder, "--json").json()
    assert listed["classes"] == ["cat", "dog"]
    assert listed["samples"][0] == ["cat/000.jpg", 0]
    assert listed["samples"][-1] == ["dog/005.jpg", 1]
    samples = run("ls", shards, "--json").json()["samples"]
    assert [s["key"] for s in samples] == [f"{i:06}" for i in range(100)]
    assert set(samples[0]["fields"]) == {"cls", "jpg"}


@pytest.mark.parametrize("pattern", ["s-*.tar", "s-{000..003}.tar"])
def test_ls_takes_patterns(shards, pattern):
    assert len(run("ls", shards / pattern, "--json").json()["samples"]) == 100


def test_decode_writes_npy_and_png_alike(tmp_path):
    source = tmp_path / "a.jpg"
    source.write_bytes(jpeg())
    for name in ("a.npy", "a.png"):
        assert run("decode", source, "--out", tmp_path / name).code == GOOD
    array = np.load(tmp_path / "a.npy")
    assert array.dtype == np.uint8
    assert array.shape == (40, 48, 3)
    with Image.open(tmp_path / "a.png") as picture:
        assert np.array_equal(np.asarray(picture), array)


def test_a_region_equals_the_full_decode_cut(tmp_path):
    source, out = tmp_path / "a.jpg", tmp_path / "a.npy"
    source.write_bytes(jpeg(size=(97, 61)))
    assert run("decode", source, "--out", out).code == GOOD
    full = np.load(out)
    for x, y, width, height in [(0, 0, 97, 61), (13, 7, 40, 30), (96, 60, 1, 1), (1, 17, 33, 1)]:
        region = f"{x},{y},{width},{height}"
        assert run("decode", source, "--out", out, "--region", region).code == GOOD
        assert np.array_equal(np.load(out), full[y : y + height, x : x + width])


def test_without_a_command_the_commands_are_listed():
    result = run()
    assert result.code == 2
    assert result.out == b""
    lines = result.err.splitlines()
    assert any(line.split()[:1] == ["verify"] for line in lines)
    assert lines[-1] == "feedrace: no command was given; name one of these"


def test_every_command_explains_itself():
    for name in ("index", "ls", "cat", "decode", "plan", "bench"):
        result = run(name, "--help")
        assert result.code == GOOD
        assert name in result.out.decode()


# Wrong use and bad data.


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["ls"],
        ["ls", "--no-such-option", "x"],
        ["decode", "a.jpg"],
        ["decode", "a.jpg", "--out", "a.bmp"],
        ["decode", "a.jpg", "--out", "a.npy", "--region", "1,2,3"],
        ["decode", "a.jpg", "--out", "a.npy", "--region", "0,0,0,5"],
        ["decode", "a.jpg", "--out", "a.npy", "--orientation", "sideways"],
        ["bench", "loader", "pictures", "--batch", "0"],
        ["bench", "loader", "pictures", "--batch", "-4"],
        ["bench", "loader", "pictures", "--backend", "carrier-pigeon"],
        ["bench", "loader", "pictures", "--recipe", "no-such-recipe"],
    ],
)
def test_wrong_use_is_told_apart(tmp_path, arguments):
    make_folder(tmp_path / "pictures", count=1)
    (tmp_path / "a.jpg").write_bytes(jpeg())
    run(*arguments, cwd=tmp_path).error(WRONG_USE)


def test_a_region_outside_the_picture_is_refused(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(size=(48, 40)))
    result = run("decode", "a.jpg", "--out", "a.npy", "--region", "40,0,10,10", cwd=tmp_path)
    message = result.error(WRONG_USE, BAD_DATA)
    assert "48" in message
    assert not (tmp_path / "a.npy").exists()


@pytest.mark.parametrize("command", ["ls", "plan", "index", "bench loader"])
@pytest.mark.parametrize("name", ["missing", "missing.tar", "missing-{0..3}.tar", "missing-*.tar"])
def test_a_missing_path_is_named(tmp_path, command, name):
    message = run(*command.split(), tmp_path / name).error(BAD_DATA, WRONG_USE, ENVIRONMENT)
    assert "missing" in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("command", ["ls", "plan", "index", "bench loader"])
def test_an_empty_folder_is_named(tmp_path, command):
    empty = tmp_path / "nothing-here"
    empty.mkdir()
    message = run(*command.split(), empty).error(BAD_DATA, WRONG_USE)
    assert "nothing-here" in message
    assert len(message.splitlines()) == 1


def test_fewer_samples_than_a_batch_are_said(folder):
    message = run("bench", "loader", folder, "--batch", "100", "--epochs", "1").error(
        BAD_DATA, WRONG_USE
    )
    assert "12" in message
    assert "100" in message


def test_shards_without_the_wanted_field_list_what_there_is(tmp_path):
    shard = make_shard(tmp_path / "t.tar", [("0.txt", b"hello"), ("0.cls", b"1")])
    message = bench(shard).error(BAD_DATA, WRONG_USE)
    assert "t.tar" in message or str(tmp_path) in message
    assert "txt" in message


def test_a_bad_picture_stops_the_epoch_and_is_named(folder):
    (folder / "cat" / "003.jpg").write_bytes(b"this is no picture")
    assert "003.jpg" in bench(folder).error(BAD_DATA)


def test_a_name_of_any_bytes_cannot_forge_a_message(folder):
    (folder / "cat" / "x\x1b[31m\nfeedrace: all is well.jpg").write_bytes(b"bad")
    message = bench(folder).error(BAD_DATA)
    assert "\x1b" not in message
    assert len(message.splitlines()) == 1


# Outputs that cannot be written.


def test_an_output_in_a_missing_folder_is_named(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    message = run("decode", "a.jpg", "--out", "nowhere/a.npy", cwd=tmp_path).error(ENVIRONMENT)
    assert "nowhere/a.npy" in message


def test_an_output_without_permission_is_named(open_dir, ordinary_user):
    (open_dir / "a.jpg").write_bytes(jpeg())
    target = open_dir / "locked"
    target.mkdir(mode=0o555)
    if not ordinary_user:
        target.chmod(0o555)
    result = run("decode", open_dir / "a.jpg", "--out", target / "a.npy", **ordinary_user)
    message = result.error(ENVIRONMENT)
    assert "a.npy" in message
    assert "ermission" in message


@pytest.mark.parametrize(
    "arguments",
    [["ls", "shards", "--json"], ["ls", "shards"], ["cat", "shards/s-000.tar", "000000", "jpg"]],
)
def test_a_full_disk_behind_standard_output_is_an_error(tmp_path, arguments):
    make_shards(tmp_path / "shards")
    assert run(*arguments, cwd=tmp_path).code == GOOD
    with open("/dev/full", "wb") as full:
        result = run(*arguments, cwd=tmp_path, stdout=full)
    assert "o space left" in result.error(ENVIRONMENT)


def fill(path):
    """Writes until the disk takes no more."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_an_index_on_a_full_disk_is_an_error_and_leaves_nothing_behind(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "feedrace-test", os.fspath(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root and a machine that allows it")
    try:
        make_shards(disk, shard_count=2)
        fill(disk / "ballast")
        env = os.environ | {"XDG_CACHE_HOME": os.fspath(disk / "cache")}
        result = run("index", disk, env=env)
        assert "space" in result.error(ENVIRONMENT)
        assert not list(disk.rglob("*.frindex"))
    finally:
        subprocess.run(["umount", os.fspath(disk)], check=True)


def test_a_reader_that_leaves_ends_ls_quietly(tmp_path):
    folder = make_folder(tmp_path / "many", count=1)
    for i in range(4000):
        os.link(folder / "cat" / "000.jpg", folder / "cat" / f"{'long-name-' * 8}{i}.jpg")
    process = start("ls", folder, "--json")
    assert process.stdout.read(10)
    process.stdout.close()
    error = process.stderr.read().decode()
    assert process.wait(HANG_SECONDS) in (GOOD, ENVIRONMENT, -signal.SIGPIPE)
    assert "terminate" not in error
    assert len(error.splitlines()) <= 1


# Interruption.


def wait_until_threads_run(process):
    """Until the loader's threads exist; the process is then in the middle of its epochs."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is None and len(os.listdir(f"/proc/{process.pid}/task")) >= 4:
            return
        time.sleep(0.02)
    raise AssertionError("the loader's threads did not start")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_epoch_ends_the_process(folder, number):
    options = ["--batch", "4", "--threads", "2", "--epochs", "1000000", "--seconds", "600"]
    process = start("bench", "loader", folder, *options)
    try:
        wait_until_threads_run(process)
        process.send_signal(number)
        _, error = process.communicate(timeout=10)
    finally:
        process.kill()
    wanted = (INTERRUPTED,) if number == signal.SIGINT else (143, INTERRUPTED, -signal.SIGTERM)
    assert process.returncode in wanted
    assert b"terminate" not in error


# Indexes.


def keys(source, **options):
    return [s["key"] for s in run("ls", source, "--json", **options).json()["samples"]]


def test_an_index_is_made_once_and_made_anew_when_a_shard_changed(shards):
    assert run("index", shards).code == GOOD
    (index,) = shards.glob("*.frindex")
    made = (index / "meta.json").stat().st_ino
    json.loads((index / "meta.json").read_text())
    assert len(keys(shards)) == 100
    assert (index / "meta.json").stat().st_ino == made
    make_shard(shards / "s-001.tar", [("new.cls", b"3"), ("new.jpg", jpeg())])
    assert len(keys(shards)) == 76
    assert "new" in keys(shards)


def test_data_that_cannot_be_written_is_indexed_in_the_cache(open_dir, ordinary_user):
    data = make_shards(open_dir / "data")
    data.chmod(0o555)
    cache = open_dir / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    env = os.environ | {"XDG_CACHE_HOME": os.fspath(cache)}
    assert run("index", data, env=env, **ordinary_user).code == GOOD
    assert not list(data.glob("*.frindex"))
    assert list(cache.rglob("*.frindex"))
    assert len(keys(data, env=env, **ordinary_user)) == 100


def test_processes_that_index_at_once_agree(shards):
    processes = [start("ls", shards, "--json") for _ in range(6)]
    outputs = []
    readers = [
        threading.Thread(target=lambda p=p: outputs.append(p.communicate()[0])) for p in processes
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(HANG_SECONDS)
    assert [p.returncode for p in processes] == [GOOD] * 6
    assert len(set(outputs)) == 1
    assert len(keys(shards)) == 100
    left = [p.name for p in shards.iterdir() if p.suffix != ".tar"]
    assert left == [p.name for p in shards.glob("*.frindex")]


def test_a_kill_while_indexing_leaves_a_usable_state(tmp_path):
    shards = make_shards(tmp_path / "shards", shard_count=20, count=200)
    wanted = [f"{i:06}" for i in range(4000)]
    for delay_ms in (0, 2, 4, 8, 16, 32, 64):
        subprocess.run(["rm", "-rf", *map(os.fspath, shards.glob("*.frindex"))], check=True)
        process = start("index", shards)
        time.sleep(delay_ms / 1000)
        process.kill()
        process.communicate()
        assert keys(shards) == wanted, f"killed after {delay_ms} ms"


def test_a_damaged_index_is_made_anew(shards):
    assert run("index", shards).code == GOOD
    (index,) = shards.glob("*.frindex")
    for column in sorted(index.iterdir()):
        content = column.read_bytes()
        for damage in (content[: len(content) // 2], b"", b"\xff" * len(content)):
            column.write_bytes(damage)
            assert len(keys(shards)) == 100, f"{column.name} damaged"
            column.write_bytes(content)
