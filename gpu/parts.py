# SPDX-License-Identifier: Apache-2.0
"""The parts of the check: each runs programs within a budget and adds to the results."""

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from gpu import gtest_lines, peers_list
from gpu.running import run

HERE = Path(__file__).resolve().parent
# Of the measurements "with 3 cores": what a GPU gets of a machine with eight of them.
FEW_CORES = 3
# What one loop in Python may take, most of it the imports, and what it needs to be begun.
PEER_SECONDS = 40
LEAST_PEER_SECONDS = 8
SANITIZER_FOUND = 9
# Of `feedrace bench io`: by a buffer that is not pinned, by one that is, and without the CPU.
TABLE_ROWS = "gpu pageable,gpu buffered,gpu direct,gpu uring,cufile"
SANITIZER_PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")


def take_line(session, line, prefix="", name=None):
    """A line of JSON of a program; whether it was one. `name` stands for the program's own."""
    try:
        said = json.loads(line)
    except ValueError:
        return False
    if not isinstance(said, dict):
        return False
    if "figure" in said:
        session.results.figure(prefix + said["figure"], said["unit"], said["values"])
    elif "check" in said:
        session.results.check(prefix + said["check"], said["status"], said["reason"])
    return True


def run_reporting(session, name, command, seconds, cores=None, prefix="", environment=None):
    """Runs a program that prints figures and checks. 3 is a skip, anything else but 0 a failure."""
    failed_before = session.results.count("fail")
    outcome = run(
        command,
        seconds,
        {**session.environment, **(environment or {})},
        cores,
        on_line=lambda line: take_line(session, line, prefix),
    )
    if outcome.timed_out:
        session.results.check(name, "fail", outcome.ending())
    elif outcome.code == 3:
        session.results.check(name, "skip", outcome.last_word())
    elif outcome.code and session.results.count("fail") == failed_before:
        session.results.check(name, "fail", outcome.ending())
    return outcome


def bench(session, part, seconds, *more, cores=None, prefix=""):
    quick = ["--quick", "--seconds", "1"] if session.quick else []
    name = prefix + part
    command = [session.bench, part, *more, *quick]
    return run_reporting(session, name, command, seconds, cores, prefix)


def tests(session, seconds):
    """The tests that open the real libraries."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.json"
        command = [session.tests, f"--gtest_output=json:{report}"]
        found = gtest_lines.Reader(session.results)
        environment = {**session.environment, "FEEDRACE_GPU_TEST_FOLDER": str(session.data_parent)}
        outcome = run(command, seconds, environment, on_line=found.take)
        found.end(outcome)
        gtest_lines.add_properties(session.results, report)


def find_sanitizer():
    """On PATH, or where the toolkit puts it."""
    name = "compute-sanitizer"
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SANITIZER_PLACES))


def sanitizer(session, seconds, tool, tests_to_run):
    """One tool of compute-sanitizer over some tests."""
    name, program = f"sanitizer.{tool}", find_sanitizer()
    if program is None:
        why = (
            "compute-sanitizer is not on PATH or in /usr/local/cuda/bin; it is in the CUDA toolkit"
        )
        session.results.check(name, "skip", why)
        return
    command = [program, "--tool", tool, "--error-exitcode", SANITIZER_FOUND]
    command += [session.tests, f"--gtest_filter={tests_to_run}"]
    outcome = run(command, seconds, session.environment)
    if outcome.code == 0 and not outcome.timed_out:
        session.results.check(name, "pass", f"{tests_to_run}: nothing found")
        return
    said = [line for line in outcome.lines if line.startswith("=========")]
    why = f"{tests_to_run}: {outcome.ending()}"
    session.results.check(name, "fail", f"{why}; {' '.join(said[:4])}" if said else why)


def memcheck(session, seconds):
    sanitizer(session, seconds, "memcheck", "GpuMemory.*:GpuUpload.*:GpuFusedPass.ABatch*")


def racecheck(session, seconds):
    sanitizer(session, seconds, "racecheck", "GpuFusedPass.ABatch*")


def copies(session, seconds):
    bench(session, "copies", seconds)


def fused(session, seconds):
    bench(session, "fused", seconds)


def decode(session, seconds):
    bench(session, "decode", seconds, "--pictures", session.pictures)


def copies_table(session, seconds):
    """The three ways of a byte from the drive to the device, by `feedrace bench io`."""
    name = "table_of_copies"
    if not session.program.exists():
        session.results.check(name, "skip", f"{session.program} is not built")
        return
    said = run([session.program, "bench", "io", "--help"], 30, session.environment)
    if "--device" not in "\n".join(said.lines):
        session.results.check(name, "skip", "this feedrace has no `bench io --device`")
        return
    path = Path(session.data_parent) / "table_of_copies.bin"
    size = (16 if session.quick else 1024) << 20
    try:
        with open(path, "wb") as file:
            block = random.Random(1).randbytes(1 << 20)
            for _ in range(size >> 20):
                file.write(block)
            os.fsync(file.fileno())
        row_seconds = "0.2" if session.quick else "2"
        command = [session.program, "bench", "io", path, "--device", "cuda", "--json"]
        command += ["--rows", TABLE_ROWS, "--rounds", "1", "--seconds", row_seconds]
        outcome = run(command, seconds, session.environment)
    finally:
        path.unlink(missing_ok=True)
    try:
        rows = json.loads("\n".join(outcome.lines))
    except ValueError:
        state = "skip" if outcome.code == 3 else "fail"
        session.results.check(name, state, outcome.ending())
        return
    session.results.about["table_of_copies"] = rows
    add_rows(session, name, rows)


def add_rows(session, name, rows):
    for row in rows:
        title = f"{name}.{row['path']}".replace(" ", "_")
        if "gb_per_second" not in row:
            session.results.check(title, "skip", row["reason"])
            continue
        session.results.figure(title, "GB/s", row["gb_per_second_rounds"])
        session.results.figure(f"{title}.cpu", "s of CPU a GB", [row["cpu_seconds_per_gb"]])
    measured = sum("gb_per_second" in row for row in rows)
    session.results.check(name, "pass" if measured else "fail", f"{measured} of {len(rows)} rows")


def core_sets(session):
    """All cores, and a few of them where there are more."""
    cores = sorted(os.sched_getaffinity(0))
    sets = [("all_cores", set(cores))]
    if len(cores) > FEW_CORES:
        sets.append((f"{FEW_CORES}_cores", set(cores[:FEW_CORES])))
    elif not session.said_few_cores:
        session.said_few_cores = True
        why = f"this machine has {len(cores)} cores: all_cores is that already"
        session.results.check(f"{FEW_CORES}_cores", "skip", why)
    return sets


def loader(session, seconds):
    run_loader(session, seconds, session.pictures)


def decoded(session, seconds):
    """The loader on decoded shards, whose pixels come to the device by the host and by cuFile."""
    shards, begin = session.data_parent / "decoded", time.monotonic()
    count = "64" if session.quick else "2000"
    made = bench(session, "shards", seconds, "--pictures", shards, "--count", count)
    if made.code == 0 and not made.timed_out:
        left = (seconds - (time.monotonic() - begin)) / 2
        run_loader(session, left, shards, "decoded.")
        run_loader(session, left, shards, "decoded.cufile.", "--backend", "cufile")
    shutil.rmtree(shards, ignore_errors=True)


def run_loader(session, seconds, pictures, prefix="", *options):
    sets = core_sets(session)
    for name, cores in sets:
        more = ["--pictures", pictures, *options, *([] if session.quick else ["--seconds", "5"])]
        bench(session, "loader", seconds / len(sets), *more, cores=cores, prefix=f"{name}.{prefix}")


def peers(session, seconds):
    run_peers(session, seconds, peers_list.LOADERS)


def training(session, seconds):
    run_peers(session, seconds, peers_list.TRAININGS)


def run_peers(session, seconds, names):
    """Loops in Python, each in a process of its own: on few cores first, which says most."""
    end = time.monotonic() + seconds
    # Under the stubs there is no CUDA for others: what can run on the CPU shows that it works.
    device = "cpu" if session.libraries else "cuda"
    for cores_name, cores in core_sets(session)[::-1]:
        for name in names:
            title, left = f"{cores_name}.{name}", end - time.monotonic()
            if left < LEAST_PEER_SECONDS:
                session.results.check(title, "skip", "the time of this part is spent")
                continue
            command = [session.python, HERE / "peers.py", name, "--pictures", session.pictures]
            command += ["--device", device, "--seconds", str(session.peer_seconds)]
            command += ["--batch-size", "4" if session.quick else "256"]
            budget = min(left, PEER_SECONDS)
            run_reporting(session, title, command, budget, cores, f"{cores_name}.")


def goals(session, seconds):
    """Compares figures with what the project set out to reach; a miss is a failed check."""
    del seconds
    if session.libraries or session.quick:
        session.results.check(
            "goals", "skip", "figures of stub libraries or quick runs mean nothing"
        )
        return
    for goal in peers_list.GOALS:
        value, why = goal.value(session.results)
        if value is None:
            session.results.check(goal.name, "skip", why)
            continue
        reached = value <= goal.bound if goal.is_at_most else value >= goal.bound
        sign = "at most" if goal.is_at_most else "at least"
        found = f"{value:.2f}, wanted {sign} {goal.bound:g} {goal.unit}"
        session.results.check(goal.name, "pass" if reached else "fail", found)


# Name, what it may take in seconds, likewise in quick mode (a guard against hangs alone), and what
# it does. Where a part does not use up its time the rest of the eight minutes is longer; the tests
# come first, for they say most.
PARTS = (
    ("tests", 75, 100, tests),
    ("sanitizer.memcheck", 45, 60, memcheck),
    ("sanitizer.racecheck", 45, 60, racecheck),
    ("copies", 20, 30, copies),
    ("fused", 20, 20, fused),
    ("decode", 30, 30, decode),
    ("table_of_copies", 30, 30, copies_table),
    ("loader", 40, 60, loader),
    ("decoded", 40, 60, decoded),
    ("peers", 150, 90, peers),
    ("training", 100, 60, training),
    ("goals", 1, 1, goals),
)
