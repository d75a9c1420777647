# SPDX-License-Identifier: Apache-2.0
"""Runs the program `feedrace` (FEEDRACE_BIN, else that of the release build)."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

FEEDRACE = os.environ.get("FEEDRACE_BIN", "build/release/bin/feedrace")


def feedrace(*arguments):
    """Its standard output. Ends the caller, with the program's message, when it fails."""
    command = [FEEDRACE, *map(str, arguments)]
    if not Path(FEEDRACE).exists():
        sys.exit(f"bench: {FEEDRACE}: no such file; run make build, or set FEEDRACE_BIN")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def bench_loader(path, *arguments, seconds):
    """What `feedrace bench loader` reports."""
    return json.loads(feedrace("bench", "loader", path, "--seconds", seconds, "--json", *arguments))


def machine():
    """The machine in one line of facts; results without it mean nothing."""
    model = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model[0] if model else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "feedrace": feedrace("--version").strip().removeprefix("feedrace").strip(),
    }


def machine_line():
    facts = machine()
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, "
        f"Linux {facts['kernel']}, feedrace {facts['feedrace']}"
    )
