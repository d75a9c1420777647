# SPDX-License-Identifier: Apache-2.0
"""The cases of kind `process` in tests/cases that a Python program can meet, by their names.

Each runs in a process of its own, which must end by itself; what it prints is what is asked.
"""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import sandboxes
from conftest import CASES, HANG_SECONDS
from small_sets import jpeg_of, write_classes, write_shard

COMMON = """
import gc, json, os, sys, threading
import numpy as np
import feedrace as fr

def resident_mb():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

def series(loader):
    return [(labels.tolist(), int(np.asarray(images).astype(np.int64).sum()))
            for images, labels in loader]
"""


def start(script, *args, **options):
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + textwrap.dedent(script), *map(str, args)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def end_of(process, code=0):
    try:
        out, err = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert process.returncode == code, f"exit code {process.returncode}: {err}"
    return out, err


def said_by(script, *args, **options):
    return json.loads(end_of(start(script, *args, **options))[0])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_classes(tmp_path_factory.mktemp("process"), {"a": 40, "b": 24})


def test_every_case_is_here_or_elsewhere():
    """Those of packing wait for it; the quota of a control group is the command line's test."""
    said = json.loads((CASES / "expectations.json").read_text())
    cases = said if isinstance(said, list) else said["cases"]
    names = {case["id"] for case in cases if case.get("kind") == "process"}
    here = {f"proc_{name.removeprefix('test_')}" for name in globals() if name.startswith("test_")}
    elsewhere = {"proc_pack_killed", "proc_pack_round_trip", "proc_cpu_quota"}
    assert names <= here | elsewhere


def test_abandon_iterators(pictures):
    script = """
        loader = fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy", num_threads=2)
        def abandon(count):
            for _ in range(count):
                next(iter(loader))
            gc.collect()
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        before, memory = abandon(20), resident_mb()
        after = abandon(200)
        print(json.dumps([before, after, resident_mb() - memory]))
    """
    before, after, grown_mb = said_by(script, pictures)
    assert after == before
    assert grown_mb < 20


def test_decode_error_leak(tmp_path):
    (tmp_path / "bad").mkdir()
    for i in range(50):
        for name in ("jpg_cut_30.jpg", "jpg_bomb_65000x65000.jpg"):
            content = (CASES / "images" / name).read_bytes()
            (tmp_path / "bad" / f"{i}{name}").write_bytes(content)
    script = """
        loader = fr.ImageLoader(sys.argv[1], batch_size=20, output="numpy", on_error="zero")
        def epochs(count):
            for _ in range(count):
                for _ in loader:
                    pass
            return resident_mb()
        memory = epochs(5)
        grown = epochs(40) - memory  # 2,000 of each.
        print(json.dumps([grown, loader.stats()["bad_samples"]]))
    """
    grown_mb, bad = said_by(script, tmp_path)
    assert bad >= 45 * 50  # The bombs; what is left of the cut ones is a picture.
    assert grown_mb < 10


def test_exception_in_loop(pictures):
    script = """
        for i, batch in enumerate(fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy")):
            if i == 2:
                raise ValueError("of the training")
    """
    _, err = end_of(start(script, pictures), code=1)
    assert err.rstrip().endswith("ValueError: of the training")


def test_fd_limit(tmp_path):
    folder = write_classes(tmp_path, {"a": 300}, lambda seed: (8, 8))
    script = """
        loader = fr.ImageLoader(sys.argv[1], batch_size=10, output="numpy", num_threads=8)
        print(json.dumps(sum(len(labels) for _, labels in loader)))
    """
    limit = sandboxes.limited(resource.RLIMIT_NOFILE, 64)
    assert said_by(script, folder, preexec_fn=limit) == 300


def test_file_shrinks(tmp_path):
    folder = write_classes(tmp_path, {"a": 6})
    script = """
        loader = fr.ImageLoader(sys.argv[1], batch_size=2, output="numpy", shuffle=False)
        victim = sys.argv[1] + "/a/3.jpg"
        os.truncate(victim, os.path.getsize(victim) // 8)
        try:
            for _ in loader:
                pass
        except fr.Error as e:
            print(json.dumps([e.code, str(e)]))
    """
    code, message = said_by(script, folder)
    assert code in ("corrupt_data", "io")
    assert "a/3.jpg" in message


def test_fork_after_init(pictures):
    script = """
        make = lambda: fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy", num_threads=2)
        expected = series(make())
        loader = make()
        iterator = iter(loader)
        first = series([next(iterator)])
        child = os.fork()
        if child == 0:
            os._exit(0 if series([next(iter(make()))]) == expected[:1] else 1)
        rest = series(iterator)
        _, status = os.waitpid(child, 0)
        print(json.dumps([status, first + rest == expected]))
    """
    assert said_by(script, pictures) == [0, True]


EPOCH = """
    loader = fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy", **json.loads(sys.argv[2]))
    print(json.dumps([series(loader), list(loader.stats()["fallbacks"]), str(loader.plan)]))
"""


def test_memlock_small(pictures):
    expected, _, _ = said_by(EPOCH, pictures, "{}")
    # As an ordinary user: root's locked memory has no limit. All is imported before, from folders
    # that may be closed to it.
    script = """
        import resource
        series(fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy"))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
    """
    path = Path(pictures)
    for folder in (path, *path.parents):
        if os.stat(folder).st_uid == os.getuid() and folder != Path("/tmp"):
            os.chmod(folder, os.stat(folder).st_mode | 0o055)
    whole = textwrap.dedent(script) + textwrap.dedent(EPOCH)
    batches, fallbacks, _ = said_by(whole, pictures, json.dumps({"io": "uring"}))
    assert batches == expected
    assert len(fallbacks) == 1, fallbacks
    assert "are not registered" in fallbacks[0]
    assert "64 KiB" in fallbacks[0]
    assert "ulimit -l" in fallbacks[0]


def test_no_io_uring(pictures):
    expected, _, _ = said_by(EPOCH, pictures, "{}")
    forbid = sandboxes.forbidden(sandboxes.IO_URING_SETUP, errno.EPERM)
    batches, _, text = said_by(EPOCH, pictures, "{}", preexec_fn=forbid)
    assert batches == expected
    assert "io_uring_setup" in text


def test_sigint(pictures, tmp_path):
    script = """
        loader = fr.ImageLoader(sys.argv[1], batch_size=8, output="numpy", num_threads=2)
        print("runs", flush=True)
        while True:
            for _ in loader:
                pass
    """
    memory_before = set(os.listdir("/dev/shm"))
    process = start(script, pictures, cwd=tmp_path, start_new_session=True)
    assert process.stdout.readline() == "runs\n"
    time.sleep(0.5)  # In the middle of something, wherever that is.
    process.send_signal(signal.SIGINT)
    _, err = end_of(process, code=-signal.SIGINT)  # As Python ends by KeyboardInterrupt: 130.
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert set(os.listdir("/dev/shm")) <= memory_before
    assert os.listdir(tmp_path) == []
    with pytest.raises(ProcessLookupError):  # Nobody is left of its group.
        os.killpg(process.pid, 0)


def test_two_loaders(tmp_path):
    shards = []
    for s in range(2):
        samples = {f"{s}{i:03}": {"jpg": jpeg_of(s * 40 + i), "cls": b"1"} for i in range(40)}
        shards.append(str(write_shard(tmp_path / f"{s}.tar", samples)))
    script = """
        make = lambda seed: fr.ImageLoader(json.loads(sys.argv[1]), batch_size=8, seed=seed,
                                           output="numpy", num_threads=2)
        alone = [series(make(1)), series(make(2))]
        together = [series([]), series([])]
        for pair in zip(make(1), make(2)):
            for i, batch in enumerate(pair):
                together[i] += series([batch])
        print(json.dumps([together == alone, len(together[0])]))
    """
    assert said_by(script, json.dumps(shards)) == [True, 10]
