# SPDX-License-Identifier: Apache-2.0
"""File systems that tests make and mount for themselves, and what they leave in the page cache."""

import contextlib
import ctypes
import os
import shutil
import subprocess

import pytest

from conftest import BINARY

SECONDS = 60
CLONE_NEWNS = 0x20000
CACHESTAT = 451  # cachestat(2), Linux 6.5; the same number everywhere.
C_LIBRARY = ctypes.CDLL(None, use_errno=True)

# What each needs to be made, and the least size its tool takes.
MAKERS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], 64),
    "xfs": (["mkfs.xfs", "-q", "-f"], 300),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 128),
}


def need_root():
    if os.geteuid() != 0:
        pytest.skip("mounting file systems takes root")


def make_private():
    """From now on only this process and its children see what they mount, and it goes with the last
    of them: a killed test leaves no mount behind."""
    need_root()
    if C_LIBRARY.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"no mount namespace of one's own: {os.strerror(ctypes.get_errno())}")
    tool("mount", "--make-rslave", "/")


def tool(*command):
    """Runs a program that may be missing or forbidden here: then the test is skipped, saying so."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())
        pytest.skip(f"{command[0]} can't be had here: {words}")


def unmount(at):
    # Lazily: a program of a failed test may still have a file open there.
    subprocess.run(["umount", "-l", at], capture_output=True, timeout=SECONDS)


@contextlib.contextmanager
def mounted(at, *arguments):
    """`mount ARGUMENTS AT`."""
    at.mkdir(exist_ok=True)
    tool("mount", *arguments, at)
    try:
        yield at
    finally:
        unmount(at)


@contextlib.contextmanager
def image_mounted(kind, scratch, options="loop"):
    """A new file system of this kind in an image under `scratch`."""
    scratch.mkdir(exist_ok=True)
    image = scratch / "image"
    command, mebibytes = MAKERS[kind]
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    tool(*command, image)
    try:
        with mounted(scratch / "mounted", "-t", kind, "-o", options, image) as at:
            yield at
    finally:
        image.unlink()


@contextlib.contextmanager
def overlay_mounted(lower, scratch):
    """An overlay of `lower`, as a container has it: what is written goes elsewhere."""
    upper, work = scratch / "upper", scratch / "work"
    for folder in (scratch, upper, work):
        folder.mkdir(exist_ok=True)
    layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
    with mounted(scratch / "mounted", "-t", "overlay", "-o", layers, "overlay") as at:
        yield at


@contextlib.contextmanager
def faulty_server(folder, at, *rules):
    """The process that shows the folder at `at`, with faults by rule: faulty_fs/faulty_fs.cc."""
    program = BINARY.parent / "faulty_fs"
    if not program.exists():
        pytest.skip(f"{program} is not built; build the target faulty_fs")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse can't be opened here")
    at.mkdir(exist_ok=True)
    server = subprocess.Popen(
        [program, folder, at, *rules], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        # The end of the output where it can't be mounted, so this line comes in any case.
        if server.stdout.readline() != "ready\n":
            words = " ".join(server.stderr.read().split())
            assert "is no rule" not in words, words
            pytest.skip(f"FUSE can't be had here: {words}")
        yield server
    finally:
        server.terminate()
        try:
            server.communicate(timeout=SECONDS)
        finally:
            server.kill()
            unmount(at)


@contextlib.contextmanager
def faulty_mounted(folder, at, *rules):
    with faulty_server(folder, at, *rules):
        yield at


class _CacheRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writing", "evicted", "recent")
    )


def cached_share(path):
    """The part of a file's pages that is in memory, 0 to 1."""
    whole, found = _CacheRange(0, 0), _CacheStat()
    with path.open("rb") as file:
        arguments = (file.fileno(), ctypes.byref(whole), ctypes.byref(found), 0)
        if C_LIBRARY.syscall(CACHESTAT, *arguments) != 0:
            pytest.skip(f"cachestat can't be had here: {os.strerror(ctypes.get_errno())}")
    pages = -(-path.stat().st_size // os.sysconf("SC_PAGESIZE"))
    return found.cached / pages


def drop_pages(path):
    """Takes a file out of memory."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
