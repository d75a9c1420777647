# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack` where something around it is forbidden, too small or interrupted: it says what is
wrong and what to do, and leaves nothing half-made."""

import json
import re
import resource
import shutil
import signal
import time

import pytest
from test_pack import members, tree

import mounts
from conftest import HANG_SECONDS, run, start
from pictures import jpeg, make_folder
from sandboxes import limited

ENVIRONMENT = 3
INTERRUPTED = 130
SIGINT_BIT = 1 << (signal.SIGINT - 1)


def in_one_line(ran, *codes):
    message = ran.error(*codes)
    assert len(message.splitlines()) == 1, message
    return message


@pytest.fixture
def source(open_dir):
    """Twelve pictures that anybody may read."""
    return make_folder(open_dir / "src", count=6)


@pytest.fixture
def target(open_dir, ordinary_user):
    """A folder that the ordinary user may write to."""
    folder = open_dir / "target"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_a_picture_that_can_not_be_read_stops_the_run_or_is_listed(source, target, ordinary_user):
    (source / "cat/001.jpg").chmod(0)
    message = in_one_line(run("pack", source, target / "out", **ordinary_user), 1, ENVIRONMENT)
    assert "cat/001.jpg: " in message
    assert "Permission denied" in message
    assert not list((target / "out").glob("*.tar"))
    ran = run("pack", source, target / "out", "--on-error", "skip", **ordinary_user)
    assert ran.code == 1, ran.err
    assert "cat/001.jpg" in ran.err
    names = [name for name, _ in members((target / "out").glob("*.tar")) if name.endswith(".jpg")]
    assert len(names) == 11
    assert "cat/001.jpg" not in names


@pytest.mark.parametrize("closed", ["dog", "cat/inner"])
def test_a_folder_that_can_not_be_read_is_never_left_out_in_silence(
    source, target, ordinary_user, closed
):
    (source / closed).mkdir(exist_ok=True)
    (source / closed).chmod(0)
    message = in_one_line(run("pack", source, target / "out", **ordinary_user), ENVIRONMENT)
    assert f"{closed}: folders left out, as they cannot be read" in message
    assert "Permission denied" in message
    assert not (target / "out").exists()
    ran = run("pack", source, target / "out", "--on-error", "skip", **ordinary_user)
    assert ran.code == 1, ran.err
    assert f"left out: {closed}: " in ran.err
    left_out = json.loads((target / "out/manifest.json").read_text())["left_out"]
    assert [one["key"] for one in left_out] == [closed]


def test_a_shard_that_can_not_be_read_is_named(source, target, ordinary_user):
    assert run("pack", source, target / "set", "--shards", "2", **ordinary_user).code == 0
    (target / "set/shard-000001.tar").chmod(0)
    message = in_one_line(run("pack", target / "set", target / "out", **ordinary_user), ENVIRONMENT)
    assert "shard-000001.tar" in message
    assert "Permission denied" in message
    assert not list((target / "out").glob("*.tar"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_target_that_can_not_be_written_to_is_named(source, target, ordinary_user, is_there):
    out = target / "locked/out"
    (out if is_there else out.parent).mkdir(parents=True)
    for folder in (target / "locked", out):
        if folder.exists():
            folder.chmod(0o555)
    message = in_one_line(run("pack", source, out, **ordinary_user), ENVIRONMENT)
    assert str(out) in message
    assert "Permission denied; get the right to write there, or write elsewhere" in message
    assert not list(target.rglob("*.tar*"))


def test_a_read_only_mount_is_named(source, tmp_path):
    mounts.make_private()
    with mounts.mounted(tmp_path / "ro", "-t", "tmpfs", "-o", "ro", "tmpfs"):
        message = in_one_line(run("pack", source, tmp_path / "ro/out"), ENVIRONMENT)
        assert "ro/out: make folder: Read-only file system; it is mounted read-only" in message
        message = in_one_line(run("pack", source, tmp_path / "ro"), ENVIRONMENT)
        assert "Read-only file system; it is mounted read-only" in message


def test_a_limit_of_file_sizes_is_an_error_that_names_it(source, tmp_path):
    (source / "cat/large.jpg").write_bytes(jpeg() + bytes(3_000_000))
    limit = limited(resource.RLIMIT_FSIZE, 1_000_000)
    for _ in range(2):  # The second run meets what the first left.
        ran = run("pack", source, tmp_path / "out", "--shards", "3", preexec_fn=limit)
        message = in_one_line(ran, ENVIRONMENT)
        assert "out/shard-000001.tar: write: File too large" in message
        assert "raise ulimit -f" in message
        assert not list((tmp_path / "out").glob(".*.tmp"))
    assert run("pack", source, tmp_path / "out", "--shards", "3").code == 0
    assert run("pack", source, tmp_path / "whole", "--shards", "3").code == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_an_index_larger_than_files_may_be_leaves_the_shards(tmp_path):
    """Every shard fits, and the index of all of them does not."""
    big = tmp_path / "big"
    (big / "a").mkdir(parents=True)
    for i in range(3000):
        (big / "a" / f"{i:060}.jpg").write_bytes(b"picture")
    limit = limited(resource.RLIMIT_FSIZE, 100_000)
    ran = run("pack", big, tmp_path / "out", "--shards", "100", preexec_fn=limit)
    message = in_one_line(ran, ENVIRONMENT)
    assert "File too large" in message
    assert ".frindex" in message
    assert not (tmp_path / "out/manifest.json").exists()
    assert len(list((tmp_path / "out").glob("*.tar"))) == 100
    before = tree(tmp_path / "out")
    report = run("pack", big, tmp_path / "out", "--shards", "100", "--json").json()
    assert report["shards_found_finished"] == 100
    assert all(tree(tmp_path / "out")[name] == content for name, content in before.items()
               if name.endswith(".tar"))  # fmt: skip


def test_a_full_disk_at_the_finish_says_how_much_is_missing(source, tmp_path):
    mounts.make_private()
    with mounts.mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=4m", "tmpfs"):
        out = tmp_path / "small/out"
        for part in ("1/2", "2/2"):
            assert run("pack", source, out, "--shards", "4", "--part", part).code == 0
        before = tree(out)
        before.pop(".feedrace-pack.lock")  # Which a run of the whole takes away.
        filler = tmp_path / "small/filler"
        free = shutil.disk_usage(out).free
        filler.write_bytes(bytes(free - 300_000))
        message = in_one_line(run("pack", "--finish", out), ENVIRONMENT)
        assert re.search(
            r"index and manifest need 1\.0 MB, 29\d\.\d kB free; free 75\d\.\d kB more", message
        )
        assert tree(out) == before
        filler.unlink()
        assert run("pack", "--finish", out).code == 0
        assert (out / "manifest.json").exists()


def blocks_interrupts(process):
    """True when the program has taken over Ctrl-C."""
    with open(f"/proc/{process.pid}/status") as file:
        (mask,) = [line.split()[1] for line in file if line.startswith("SigBlk:")]
    return int(mask, 16) & SIGINT_BIT != 0


def test_the_first_interrupt_while_planning_ends_it(tmp_path):
    """The plan of a list whose files are all asked for takes far longer than a signal does."""
    lines = [f"none/{i:07}.jpg 0\n" for i in range(400_000)]
    (tmp_path / "l.txt").write_text("".join(lines))
    process = start("pack", tmp_path / "l.txt", tmp_path / "out", "--on-error", "skip")
    deadline = time.monotonic() + HANG_SECONDS
    while not blocks_interrupts(process) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == INTERRUPTED
    assert out == b""
    assert not (tmp_path / "out").exists()
