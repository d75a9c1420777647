# SPDX-License-Identifier: Apache-2.0
"""gpu/check, on the stub libraries in NVIDIA's place."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import BINARY, HANG_SECONDS, REPOSITORY

sys.path.insert(0, str(REPOSITORY))

from gpu import gtest_lines, results, running  # noqa: E402

BUILD = BINARY.parent.parent
STUBS = BUILD / "stubs"

needs_stubs = pytest.mark.skipif(
    not (STUBS / "libcuda.so.1").exists() or not (BUILD / "bin/feedrace_gpu_bench").exists(),
    reason=f"{BUILD} is built without the CUDA plug-in",
)


def start(tmp_path, *arguments, **environment):
    command = [sys.executable, REPOSITORY / "gpu/check", "--output", tmp_path / "found.json"]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=tmp_path,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(tmp_path, *arguments, **environment):
    """Exit code, output, and what it wrote (None: nothing)."""
    process = start(tmp_path, *arguments, **environment)
    out, err = process.communicate(timeout=2 * HANG_SECONDS)
    path = tmp_path / "found.json"
    found = json.loads(path.read_text()) if path.exists() else None
    return process.returncode, out, err, found


def on_stubs(tmp_path, *arguments, **environment):
    options = ["--quick", "--build", BUILD, "--libraries", STUBS]
    return check(tmp_path, *options, *arguments, **environment)


def states(found):
    return {one["check"]: one["status"] for one in found["checks"]}


def reason(found, name):
    return next(one["reason"] for one in found["checks"] if one["check"] == name)


@pytest.fixture
def fake_build(tmp_path):
    """A build of scripts: `copies` gives a figure, `fused` never ends, `decode` dies."""
    facts = {"driver": {"version": "13.0"}, "devices": [{"name": "a GPU", "memory_bytes": 1 << 30}]}
    figure = {"figure": "copies.link", "unit": "GB/s", "values": [1.0, 2.0, 3.0]}
    script = f"""#!/bin/sh
case $1 in
facts) echo '{json.dumps(facts)}' ;;
copies) echo '{json.dumps(figure)}' ;;
fused) echo begun; sleep 1000 ;;
decode) kill -SEGV $$ ;;
esac
"""
    folder = tmp_path / "fake"
    (folder / "bin").mkdir(parents=True)
    (folder / "libfeedrace_cuda.so").touch()
    for name in ("feedrace_gpu_bench", "feedrace_cuda_gpu_test"):
        (folder / "bin" / name).write_text(script)
        (folder / "bin" / name).chmod(0o755)
    return folder


def test_without_a_driver_it_says_so_in_a_line(tmp_path):
    code, out, err, found = check(tmp_path, "--libraries", tmp_path)
    assert (code, out, found) == (3, "", None)
    assert len(err.splitlines()) == 1
    assert "gpu/check: no GPU: " in err
    assert "libcuda.so.1" in err


@needs_stubs
def test_without_a_device_it_says_so_in_a_line(tmp_path):
    code, out, err, found = on_stubs(tmp_path, FEEDRACE_STUB_DEVICES="0")
    assert (code, out, found) == (3, "", None)
    assert len(err.splitlines()) == 1
    assert "no GPU: cuInit gave 100" in err


@needs_stubs
def test_everything_runs_on_the_stubs_or_is_skipped_with_a_reason(tmp_path):
    code, out, err, found = on_stubs(tmp_path)
    assert code == 0, out + err
    assert found["ended"] == "complete"
    assert found["stub_libraries"] == str(STUBS)
    for word in ("GiB", "driver", "cores", "Linux"):
        assert word in found["machine"]
    assert all(one["reason"] for one in found["checks"] if one["status"] == "skip")
    assert states(found)["goals"] == "skip"
    for name in ("GpuMemory.BytesComeBackAsTheyWere", "copies.output", "fused.output"):
        assert states(found)[name] == "pass"
    for name in ("decode.hardware.output", "decode.software.output", "all_cores.loader.output"):
        assert states(found)[name] == "pass"
    assert states(found)["all_cores.decoded.loader.output"] == "pass"
    skipped = [name for name in states(found) if states(found)[name] == "skip" and "Gpu" in name]
    assert skipped == [], "a test that the stubs could run"
    for name in (
        "copies.link",
        "fused.images",
        "decode.both",
        "all_cores.loader.images",
        "all_cores.decoded.loader.images",
        "all_cores.decoded.loader.already_decoded",
    ):
        figure = next(one for one in found["figures"] if one["figure"] == name)
        assert figure["median"] > 0
        assert figure["runs"] == len(figure["values"])
        assert name in out


@needs_stubs
def test_a_call_that_fails_is_a_failed_check_by_name(tmp_path):
    fail = "cuMemcpyDtoDAsync_v2:0:700"
    code, out, _, found = on_stubs(tmp_path, "--only", "tests", FEEDRACE_STUB_FAIL=fail)
    assert code == 1
    assert states(found)["GpuMemory.BytesComeBackAsTheyWere"] == "fail"
    assert "700" in reason(found, "GpuMemory.BytesComeBackAsTheyWere")
    assert states(found)["GpuUpload.EveryBatchIsWholeWhileSlotsGoRound"] == "pass"
    assert "fail  GpuMemory.BytesComeBackAsTheyWere" in out


@needs_stubs
@pytest.mark.parametrize(("exit_code", "state"), [(0, "pass"), (9, "fail")])
def test_the_sanitizer_runs_the_tests_and_its_findings_fail(tmp_path, exit_code, state):
    fake = tmp_path / "compute-sanitizer"
    said = tmp_path / "arguments"
    fake.write_text(f'#!/bin/sh\necho "$@" >>{said}\necho "========= said"\nexit {exit_code}\n')
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    only = "sanitizer.memcheck,sanitizer.racecheck"
    code, _, _, found = on_stubs(tmp_path, "--only", only, PATH=path)
    assert code == (1 if exit_code else 0)
    assert states(found) == {"sanitizer.memcheck": state, "sanitizer.racecheck": state}
    assert "--tool memcheck --error-exitcode 9" in said.read_text()
    if exit_code:
        assert "========= said" in reason(found, "sanitizer.racecheck")


@needs_stubs
def test_a_part_that_hangs_or_dies_is_named_and_the_others_run(tmp_path, fake_build):
    options = ["--quick", "--build", fake_build, "--libraries", STUBS]
    options += ["--data", tmp_path, "--only", "copies,fused,decode"]
    code, _, _, found = check(tmp_path, *options)
    assert code == 1
    assert [one["part"] for one in found["parts"]] == ["copies", "fused", "decode"]
    assert found["figures"][0]["median"] == 2
    assert found["figures"][0]["spread_percent"] == 50
    assert "no end after" in reason(found, "fused")
    assert "begun" in reason(found, "fused")
    assert "SIGSEGV" in reason(found, "decode")


@needs_stubs
def test_an_interrupt_keeps_what_was_found(tmp_path, fake_build):
    options = ["--build", fake_build, "--libraries", STUBS, "--data", tmp_path]
    process = start(tmp_path, *options, "--only", "copies,fused")
    path, deadline = tmp_path / "found.json", time.monotonic() + HANG_SECONDS
    while not (path.exists() and json.loads(path.read_text())["parts"]):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    found = json.loads(path.read_text())
    assert found["ended"] == "interrupted"
    assert found["figures"][0]["figure"] == "copies.link"
    assert "copies.link" in out


@needs_stubs
def test_a_build_that_is_not_there_is_said_in_a_line(tmp_path):
    code, _, err, found = check(tmp_path, "--build", tmp_path / "none", "--libraries", STUBS)
    assert (code, found) == (2, None)
    assert len(err.splitlines()) == 1
    assert "feedrace_cuda_gpu_test is not there" in err


def test_no_such_part_is_said_in_a_line(tmp_path):
    code, _, err, _ = check(tmp_path, "--only", "copies,nonsense")
    assert code == 2
    assert "--only nonsense: no such part; tests, " in err


def read_tests(tmp_path, lines, outcome):
    found = results.Results(tmp_path / "found.json", {})
    reader = gtest_lines.Reader(found)
    for line in lines:
        reader.take(line)
    reader.end(outcome)
    return {one["check"]: (one["status"], one["reason"]) for one in found.checks}


def test_the_test_that_ran_when_the_program_hung_is_named(tmp_path):
    lines = [
        "[ RUN      ] Gpu.First",
        "[       OK ] Gpu.First (3 ms)",
        "[ RUN      ] Gpu.Skipped",
        "gpu/tests/a_test.cc:7: Skipped",
        "no engine",
        "[  SKIPPED ] Gpu.Skipped (0 ms)",
        "[ RUN      ] Gpu.Hangs",
    ]
    outcome = running.Outcome(code=-9, timed_out=True, seconds=75, lines=lines)
    found = read_tests(tmp_path, lines, outcome)
    assert found["Gpu.First"] == ("pass", "")
    assert found["Gpu.Skipped"] == ("skip", "no engine")
    assert found["Gpu.Hangs"][0] == "fail"
    assert "no end after 75 s" in found["Gpu.Hangs"][1]


def test_a_program_of_tests_that_says_nothing_has_failed(tmp_path):
    found = read_tests(tmp_path, [], running.Outcome(code=1, errors="no such library\n"))
    assert found == {"tests": ("fail", "exit 1: no such library")}


def test_a_program_that_closes_its_output_and_stays_is_ended():
    command = ["sh", "-c", "echo said; exec >&-; sleep 1000"]
    outcome = running.run(command, 0.5)
    assert outcome.timed_out
    assert outcome.lines == ["said"]
