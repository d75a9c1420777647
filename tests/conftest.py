# SPDX-License-Identifier: Apache-2.0
"""Runs the program for the tests. FEEDRACE_BIN names it; default: the build of `make test`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
BINARY = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace")).resolve()
CASES = REPOSITORY / "tests" / "cases"
NOBODY = 65534
# Far above what anything here takes: a guard against hangs, not a measurement.
HANG_SECONDS = 120

# Ctrl-C may be ignored here, as it is behind a shell's "&", and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What launchers tell their processes: it would make each run here one rank of several.
LAUNCHER_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SLURM_PROCID", "SLURM_NPROCS"),
)
for pair in LAUNCHER_VARIABLES:
    for variable in pair:
        os.environ.pop(variable, None)

sys.path.insert(0, str(CASES))


@dataclass
class Run:
    """How a run of the program ended."""

    code: int
    out: bytes
    err: str

    def json(self):
        """What it printed with --json, of a run that must have gone well."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def error(self, *codes):
        """The message of a run that must have failed with one of `codes`."""
        assert self.code in codes, f"exit code {self.code}, not {codes}: {self.err}"
        lines = self.err.splitlines()
        assert lines, "failed without a word"
        assert not any(ord(c) < 32 for line in lines for c in line), f"control bytes: {self.err!r}"
        assert "terminate called" not in self.err
        return self.err


def command(*args):
    words = (os.fsencode(a) if isinstance(a, Path) else a for a in args)
    return [os.fspath(BINARY), *(w if isinstance(w, str | bytes) else str(w) for w in words)]


def start(*args, **options):
    """Starts the program; the caller ends it."""
    if not BINARY.exists():
        pytest.exit(f"{BINARY}: no such program; build it, or set FEEDRACE_BIN", returncode=2)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(command(*args), stdin=subprocess.DEVNULL, **options)


def run(*args, stdout=subprocess.PIPE, **options):
    """Runs the program to its end."""
    process = start(*args, stdout=stdout, **options)
    try:
        out, err = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    return Run(process.returncode, out, err.decode("utf-8", "surrogateescape"))


# Memory is measured of a child of a small process: what a child of the tests' own large process
# reports as its peak includes that of its parent.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_mb(*args):
    """The peak of the resident memory of a run of the program."""
    with tempfile.NamedTemporaryFile("r") as file:
        launcher = [sys.executable, "-S", "-c", MEASURE, file.name, *command(*args)]
        subprocess.run(launcher, capture_output=True, timeout=HANG_SECONDS)
        return int(file.read()) / 1024


@pytest.fixture
def open_dir():
    """A temporary folder that other users may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="feedrace-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def ordinary_user():
    """Options for `run` that make the program run as a user to whom permissions apply."""
    if os.geteuid() != 0:
        return {}
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        run("--help", **user)
    except PermissionError:
        pytest.skip("another user cannot reach the program in this checkout")
    return user
