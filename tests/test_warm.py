# SPDX-License-Identifier: Apache-2.0
"""feedrace warm: what a loader would read is in memory afterwards, or it says why not."""

import json
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from conftest import HANG_SECONDS, REPOSITORY, run, start
from pictures import make_folder, make_shards

GOOD, BAD_DATA, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130
MEMORY = Path("/dev/shm")


@pytest.fixture
def disk():
    """A folder of the disk that the checkout is on; the one of `tmp_path` may be memory."""
    build = REPOSITORY / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="warm-test-", dir=build) as name:
        yield Path(name)


@pytest.fixture
def shards(disk):
    return drop(make_shards(disk / "shards"))


@pytest.fixture
def folder(disk):
    return drop(make_folder(disk / "pictures"))


def files_of(root):
    return sorted(path for path in root.rglob("*") if path.is_file())


def drop(root):
    """Takes the files below `root` out of memory, as far as the file system lets go."""
    for path in files_of(root):
        fd = os.open(path, os.O_RDWR)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    return root


def size_of(root):
    return sum(path.stat().st_size for path in files_of(root) if path.suffix in (".tar", ".jpg"))


def check(source, *more):
    """The report of --check; skips where the kernel does not tell."""
    result = run("warm", source, "--check", "--json", *more)
    if result.code == ENVIRONMENT:
        pytest.skip(json.loads(result.out)["cached_unknown"])
    return result.json()


def test_what_was_warmed_is_in_memory(shards, folder):
    for source in (shards, folder):
        report = run("warm", source, "--json").json()
        assert report["bytes"] == report["planned_bytes"] == report["read_bytes"] == size_of(source)
        assert report["left_out_bytes"] == report["failed_files"] == report["in_memory_files"] == 0
        # As much as the command itself asks for: other programs need memory too.
        assert check(source)["cached_bytes"] >= 0.9 * size_of(source)


def test_check_reads_nothing(folder):
    before = check(folder)
    if before["cached_bytes"] == before["bytes"]:
        pytest.skip("this file system keeps its pages")
    assert check(folder)["cached_bytes"] <= before["cached_bytes"]
    assert "read_bytes" not in before


def test_check_leaves_the_folder_as_it_is(shards):
    check(shards)
    assert [path.suffix for path in files_of(shards)] == [".tar"] * 4


def test_a_limit_stops_it_in_stored_order(folder):
    first, second, *_ = files_of(folder)
    limit = first.stat().st_size + second.stat().st_size
    report = run("warm", folder, "--limit", str(limit), "--json").json()
    assert report["limit_bytes"] == report["planned_bytes"] == report["read_bytes"] == limit
    assert report["planned_files"] == 2
    assert report["left_out_files"] == 10
    assert report["left_out_bytes"] == size_of(folder) - limit
    said = run("warm", folder, "--limit", str(limit)).out.decode()
    assert "left out  10 files" in said
    assert "--limit" in said


def test_sizes_are_decimal(folder):
    assert run("warm", folder, "--limit", "10GB", "--json").json()["limit_bytes"] == 10**10


def test_a_list_that_names_a_file_twice_counts_it_once(folder):
    names = [f"{path.relative_to(folder)} 0" for path in files_of(folder)]
    listing = folder / "list.txt"
    listing.write_text("".join(f"{name}\n" for name in names + names))
    report = run("warm", listing, "--json").json()
    assert report["files"] == 12
    assert report["bytes"] == size_of(folder)


def test_a_person_reads_how_much_and_how_fast(folder):
    said = run("warm", folder).out.decode()
    assert "read " in said
    assert "12 files" in said
    assert "/s" in said
    assert "resident " in said


def test_files_in_memory_are_left_alone():
    if not MEMORY.is_dir():
        pytest.skip("there is no /dev/shm")
    with tempfile.TemporaryDirectory(prefix="feedrace-test-", dir=MEMORY) as name:
        folder = make_folder(Path(name) / "pictures")
        report = run("warm", folder, "--json").json()
        assert report["in_memory_files"] == 12
        assert report["in_memory_bytes"] == size_of(folder)
        assert report["planned_files"] == report["read_bytes"] == 0
        said = run("warm", folder)
        assert said.code == GOOD
        assert "in memory 12 files" in said.out.decode()
        assert "resident" not in said.out.decode()


def test_a_file_that_is_gone_is_named_and_the_others_are_read(folder):
    listing = folder / "list.txt"
    listing.write_text("cat/000.jpg 0\ncat/gone.jpg 0\ndog/000.jpg 1\n")
    result = run("warm", listing, "--json")
    assert "gone.jpg" in result.error(WRONG_USE, BAD_DATA)
    if result.out:  # Where the list was not refused before.
        assert json.loads(result.out)["failed_files"] == 1
        assert check(folder)["cached_bytes"] > 0


def test_another_users_files_are_warmed_though_the_kernel_does_not_tell(open_dir, ordinary_user):
    folder = make_folder(open_dir / "pictures")
    if not ordinary_user:
        pytest.skip("needs root, to be another user")
    warmed = run("warm", folder, "--json", **ordinary_user).json()
    assert warmed["read_bytes"] + warmed["in_memory_bytes"] == size_of(folder)
    checked = run("warm", folder, "--check", **ordinary_user)
    if warmed["cached_bytes"] is None:
        assert checked.code == ENVIRONMENT
        assert "n/a: " in checked.out.decode()
    else:
        assert checked.code == GOOD


@pytest.mark.parametrize(
    "arguments",
    [[], ["no-such-folder"], ["pictures", "--limit", "-1GB"], ["pictures", "--limit", "lots"]]
    + [["pictures", "--threads", number] for number in ("0", "-1", "many")],
)
def test_wrong_use_is_told_apart(tmp_path, arguments):
    make_folder(tmp_path / "pictures", count=1)
    run("warm", *arguments, cwd=tmp_path).error(WRONG_USE)


def test_a_signal_ends_it_at_once(disk):
    """A sparse file has no disk to wait for, but enough to read for the signal to come first."""
    folder = make_folder(disk / "pictures", classes=("cat",), count=1)
    with open(folder / "cat" / "huge.jpg", "wb") as huge:
        huge.truncate(1 << 36)
    process = start("warm", folder, "--threads", "2", "--limit", "60GB")
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while len(os.listdir(f"/proc/{process.pid}/task")) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert b"terminate" not in error
