# SPDX-License-Identifier: Apache-2.0
"""Machines that forbid something, for a program that a test runs."""

import contextlib
import ctypes
import errno
import os
import resource
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import HANG_SECONDS
from mounts import C_LIBRARY

IO_URING_SETUP = 425  # The same number everywhere.
IO_URING_DISABLED = Path("/proc/sys/kernel/io_uring_disabled")
WITHOUT_IO_URING = (
    "seccomp, EPERM", "seccomp, ENOSYS", "io_uring_disabled = 1", "io_uring_disabled = 2",
)  # fmt: skip


def forbidden(call, error_number):
    """A function that makes a system call fail in this process, as a container's profile does."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF: a word of seccomp_data; a jump; the answer.
    allow, fail = 0x7FFF0000, 0x00050000
    lines = ((load, 0, 0, 0), (equal, 0, 1, call), (give, 0, 0, fail | error_number),
             (give, 0, 0, allow))  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    no_new_privileges, set_filter, filter_mode = 38, 22, 2

    def forbid(keep=code):  # What the kernel copies must live until then.
        assert keep is code
        if C_LIBRARY.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or (
            C_LIBRARY.prctl(set_filter, filter_mode, program) != 0
        ):
            raise OSError(ctypes.get_errno(), "seccomp")

    return forbid


def limited(which, value):
    return lambda: resource.setrlimit(which, (value, value))


@contextlib.contextmanager
def uring_disabled(value):
    """Sets the sysctl kernel.io_uring_disabled. A process of its own sets it back, also when the
    tests are killed: the end of its input tells it."""
    if not os.access(IO_URING_DISABLED, os.W_OK):
        pytest.skip(f"{IO_URING_DISABLED} can't be written here")
    before = IO_URING_DISABLED.read_text().strip()
    script = 'trap "" INT TERM HUP; echo "$2" >"$1" && echo set; read -r _; echo "$3" >"$1"'
    guard = subprocess.Popen(
        ["sh", "-c", script, "sh", IO_URING_DISABLED, value, before],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        if guard.stdout.readline() != "set\n":
            pytest.skip(f"{IO_URING_DISABLED} can't be written here")
        yield
    finally:
        guard.communicate(timeout=HANG_SECONDS)
        assert IO_URING_DISABLED.read_text().strip() == before


@contextlib.contextmanager
def without_io_uring(name, ordinary_user):
    """Options for `run`, and what is said there about io_uring."""
    not_permitted = r"io_uring_setup: Operation not permitted"
    if name == "seccomp, EPERM":
        filtered = forbidden(IO_URING_SETUP, errno.EPERM)
        yield {"preexec_fn": filtered}, not_permitted + r".*a seccomp filter forbids it"
    elif name == "seccomp, ENOSYS":
        filtered = forbidden(IO_URING_SETUP, errno.ENOSYS)
        yield {"preexec_fn": filtered}, r"io_uring_setup: Function not implemented"
    else:
        value = name[-1]
        with uring_disabled(value):
            user = ordinary_user if value == "1" else {}
            yield user, not_permitted + rf".*kernel.io_uring_disabled is {value}"
