# SPDX-License-Identifier: Apache-2.0
"""feedrace bench io: what it reports, what it refuses, how it ends. Nothing is timed."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import run, start

GOOD, BAD_DATA, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130

ROWS = [
    "read+copy",
    "mmap",
    "buffered",
    "uncached",
    "direct",
    "uring",
    "uring+buffers",
    "uring+files",
    "uring+defer",
    "uring+sqpoll",
    "uring+iopoll",
    "uring buffered",
    "gpu pageable",
    "gpu buffered",
    "gpu direct",
    "gpu uring",
    "cufile",
]
CACHED = {
    "read+copy": 2, "mmap": 1, "buffered": 1, "uncached": 1, "uring buffered": 1,
    "gpu pageable": 2, "gpu buffered": 1,
}  # fmt: skip
QUICK = ("--seconds", "0.05")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(4 << 20))
    return path


@pytest.fixture
def memory_folder():
    """A folder on tmpfs."""
    shm = Path("/dev/shm")
    kind = subprocess.run(["stat", "-f", "-c", "%T", shm], capture_output=True, text=True)
    if kind.stdout.strip() != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.TemporaryDirectory(prefix="feedrace-test-", dir=shm) as name:
        yield Path(name)


def bench(path, *more):
    return run("bench", "io", path, *QUICK, *more)


def check_figures(row):
    for name in ("gb_per_second", "iops", "cpu_seconds_per_gb"):
        assert row[name] > 0, row
    assert 0 < row["latency_us"]["p50"] <= row["latency_us"]["p99"] <= row["latency_us"]["max"]
    for name in ("context_switches_per_gb", "system_calls_per_gb"):
        assert row[name] >= 0, row
    assert row["copies_per_byte"] == CACHED.get(row["path"], 0), row
    if row["pages_left"] is None:
        assert row["pages_reason"]
    else:
        assert 0 <= row["pages_left"] <= 1024 + 64


def test_every_row_has_figures_or_a_reason(data):
    rows = bench(data, "--json").json()
    wanted = [(name, s) for name in ROWS for s in ("cold", "warm") if s == "cold" or name in CACHED]
    assert [(row["path"], row["state"]) for row in rows] == wanted
    for row in rows:
        if "reason" in row:
            assert row["reason"]
            assert len(row["reason"].splitlines()) == 1
            assert "gb_per_second" not in row
        else:
            check_figures(row)
    measured = {row["path"] for row in rows if "reason" not in row}
    assert {"read+copy", "mmap", "buffered"} <= measured
    (cufile,) = (row for row in rows if row["path"] == "cufile")
    assert "GPU" in cufile["reason"]


def test_system_calls_are_counted(data):
    rows = bench(data, "--json", "--rows", "read+copy,mmap").json()
    reads_per_gb = 1e9 / (256 << 10)
    for row in rows:
        if "reason" not in row:
            wanted = reads_per_gb if row["path"] == "read+copy" else 0
            assert row["system_calls_per_gb"] == pytest.approx(wanted, rel=0.01)


def test_warm_reads_find_the_whole_file_in_the_page_cache(data):
    rows = bench(data, "--json", "--rows", "buffered").json()
    (warm,) = (row for row in rows if row["state"] == "warm")
    assert warm["pages_left"] in (1024, None)


def test_a_person_gets_a_table_that_fits(data):
    lines = bench(data, "--rounds", "2", "--sequential").out.decode().splitlines()
    assert "Linux" in lines[0]
    assert "sequential" in lines[1]
    assert "256 KiB" in lines[1]
    assert lines[2].split()[:3] == ["path", "state", "GB/s"]
    table = [line for line in lines[3:] if not line.startswith(("note ", "pages left"))]
    assert len(table) == len(ROWS) + len(CACHED)
    assert max(map(len, table)) <= 120
    for line in table:
        assert line.startswith(tuple(ROWS))
        assert "nan" not in line
        assert "inf" not in line


def test_rounds_are_kept(data):
    rows = bench(data, "--json", "--rows", "mmap", "--rounds", "3").json()
    for row in rows:
        assert "reason" in row or len(row["gb_per_second_rounds"]) == 3


def test_folders_and_several_files_are_read(tmp_path, data):
    shutil.copy(data, tmp_path / "second.bin")
    (tmp_path / "small.txt").write_bytes(b"too small to matter")
    for source in ([tmp_path], [data, tmp_path / "second.bin"]):
        result = run("bench", "io", *source, *QUICK, "--rows", "buffered")
        assert result.code == GOOD
        assert "2 files" in result.out.decode()


def test_size_bounds_what_is_read(data):
    for size, shown in [("1M", "1.0 MB"), ("2048K", "2.1 MB"), ("1G", "4.2 MB")]:
        result = bench(data, "--rows", "mmap", "--size", size)
        assert result.code == GOOD
        assert shown in result.out.decode()


def test_small_blocks_are_read_or_refused_with_what_works(data):
    rows = bench(data, "--json", "--block-size", "512", "--rows", "buffered,direct").json()
    for row in rows:
        if row["path"] == "buffered" and "reason" not in row:
            check_figures(row)
        if row["path"] == "direct" and "reason" in row:
            assert "--block-size" in row["reason"] or "tmpfs" in row["reason"]


def test_tmpfs_has_no_cold_rows(memory_folder):
    path = memory_folder / "data.bin"
    path.write_bytes(os.urandom(1 << 20))
    for row in bench(path, "--json").json():
        if row["state"] == "cold" and not row["path"].startswith(("gpu", "cufile")):
            assert "tmpfs" in row["reason"]
        elif row["path"] in ("read+copy", "mmap", "buffered"):
            check_figures(row)


# Wrong use.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--block-size", "1000"], ["1000", "1024"]),
        (["--block-size", "0"], ["512"]),
        (["--block-size", "2G"], ["1G"]),
        (["--block-size", "-4K"], ["negative"]),
        (["--block-size", "large"], ["large"]),
        (["--queue-depth", "0"], ["1", "4096"]),
        (["--queue-depth", "1000000"], ["1", "4096"]),
        (["--threads", "0"], ["1"]),
        (["--seconds", "0"], ["0.01"]),
        (["--seconds", "nan"], ["nan"]),
        (["--rounds", "0"], ["1"]),
        (["--pairs", "0"], ["1"]),
        (["--rows", "carrier-pigeon"], ["carrier-pigeon", "uring+defer"]),
        (["--random", "--sequential"], ["--random"]),
    ],
)
def test_wrong_options_are_refused_with_what_would_do(data, arguments, said):
    message = run("bench", "io", data, *arguments).error(WRONG_USE)
    assert len(message.splitlines()) == 1
    for words in said:
        assert words in message


def test_more_memory_than_there_is_is_refused(data):
    arguments = ["--queue-depth", "4096", "--block-size", "1G"]
    message = run("bench", "io", data, *arguments).error(WRONG_USE)
    assert "--queue-depth" in message


def test_paths_that_cannot_be_read_are_named(tmp_path):
    small = tmp_path / "small.bin"
    small.write_bytes(b"abc")
    empty = tmp_path / "empty"
    empty.mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (small, empty, fifo, tmp_path / "missing"):
        message = run("bench", "io", path).error(WRONG_USE)
        assert path.name in message
        assert len(message.splitlines()) == 1
    assert "--block-size" in run("bench", "io", small).error(WRONG_USE)


def test_a_file_without_permission_is_named(open_dir, ordinary_user):
    path = open_dir / "locked.bin"
    path.write_bytes(bytes(1 << 20))
    path.chmod(0)
    message = run("bench", "io", path, **ordinary_user).error(ENVIRONMENT)
    assert "locked.bin" in message
    assert "ermission" in message


def test_a_device_without_permission_says_what_to_do(ordinary_user):
    devices = [f"/dev/{name}" for name in os.listdir("/sys/block") if name[0] != "."]
    devices = [path for path in devices if Path(path).is_block_device()]
    devices = [path for path in devices if not os.stat(path).st_mode & 0o004]
    if not devices:
        pytest.skip("there is no block device that other users may not read")
    message = run("bench", "io", devices[0], **ordinary_user).error(ENVIRONMENT)
    assert devices[0] in message
    assert "group" in message


def test_a_user_who_may_only_read_the_file_gets_the_rows(open_dir, ordinary_user):
    path = open_dir / "data.bin"
    path.write_bytes(os.urandom(1 << 20))
    path.chmod(0o444)
    rows = run("bench", "io", path, *QUICK, "--json", "--rows", "buffered", **ordinary_user).json()
    for row in rows:
        if "reason" not in row:
            check_figures(row)


# Comparing with fio.


def test_fio_runs_the_same_job_in_turns(data):
    more = ("--compare-fio", "--pairs", "2", "--rows", "mmap,direct,uring+defer")
    for row in bench(data, "--json", *more).json():
        if "reason" in row:
            continue
        if "reason" in row["fio"]:
            assert row["fio_ratio"] is None
            assert row["path"] == "mmap" or "fio" in row["fio"]["reason"]
            continue
        assert row["fio_ratio"] > 0
        assert len(row["fio"]["ratios"]) == 2
        assert "--bs=262144" in row["fio"]["arguments"]


def test_without_fio_the_rows_are_there_all_the_same(data, tmp_path):
    env = os.environ | {"PATH": os.fspath(tmp_path)}
    options = (*QUICK, "--json", "--compare-fio", "--rows", "uring,buffered")
    for row in run("bench", "io", data, *options, env=env).json():
        if "reason" not in row:
            check_figures(row)
            assert row["fio_ratio"] is None
            assert "apt-get install fio" in row["fio"]["reason"]


# Interruption.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(data, number):
    process = start("bench", "io", data, "--seconds", "600")
    try:
        assert process.stdout.readline()  # The title: it measures now.
        process.send_signal(number)
        _, error = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert error == b""
