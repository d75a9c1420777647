# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack` onto a disk that is full, or becomes full on the way: on a small file system."""

import os
import random
import time

import pytest
from test_pack import tree

import mounts
from conftest import HANG_SECONDS, run, start
from pictures import jpeg, make_folder

# Moments at which the disk fills up: more in `make pack-crashes`.
FILLS = int(os.environ.get("FEEDRACE_PACK_FILLS", "3"))
OPTIONS = ("--shards", "40", "--seed", "2", "--shuffle")


@pytest.fixture(scope="module", autouse=True)
def private_mounts():
    mounts.make_private()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Pictures for many shards, and the set that an undisturbed run makes of them."""
    root = tmp_path_factory.mktemp("full")
    make_folder(root / "src", count=1)
    picture = jpeg(3)
    for name in ("cat", "dog"):
        for i in range(1, 101):
            (root / "src" / name / f"{i:04}.jpg").write_bytes(picture + bytes(20_000 + i))
    assert run("pack", *OPTIONS, root / "src", root / "whole").code == 0
    return root / "src", tree(root / "whole")


def fill(path):
    """Takes all that is free."""
    with open(path, "wb", buffering=0) as file:
        at = 0
        for size in (1 << 20, 1 << 16, 1 << 12):
            try:
                while True:
                    os.posix_fallocate(file.fileno(), at, size)
                    at += size
            except OSError:
                continue


def test_what_can_not_fit_is_refused_before_it_begins(source, tmp_path):
    with mounts.mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        out = tmp_path / "small/out"
        error = run("pack", *OPTIONS, source[0], out).error(3)
        assert "needed" in error
        assert "free" in error
        assert not list(out.glob("*"))
        plan = run("pack", *OPTIONS, source[0], out, "--dry-run")
        assert plan.code == 3
        assert "does not fit" in plan.err


def test_a_disk_that_fills_up_leaves_nothing_half_made(source, tmp_path):
    source, expected = source
    moments = random.Random(11)
    failed = 0
    for i in range(FILLS):
        at = tmp_path / str(i)
        with mounts.mounted(at, "-t", "tmpfs", "-o", "size=16m", "tmpfs"):
            process = start("pack", *OPTIONS, source, at / "out")
            shards = moments.randrange(20)
            while process.poll() is None and len(list(at.glob("out/*.tar"))) < shards:
                time.sleep(0.0005)
            fill(at / "filler")
            _, err = process.communicate(timeout=HANG_SECONDS)
            if process.returncode != 0:  # It may have been faster.
                failed += 1
                assert process.returncode == 3, err
                assert b"needed: free them, then give the same command to go on" in err, err
            # What has its name is whole.
            for path in (at / "out").glob("shard-*.tar"):
                assert path.read_bytes() == expected[path.name]
            assert not list((at / "out").glob(".*.tmp"))
            (at / "filler").unlink()
            assert run("pack", *OPTIONS, source, at / "out").code == 0
            assert tree(at / "out") == expected
    assert failed > 0
