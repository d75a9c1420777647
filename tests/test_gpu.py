# SPDX-License-Identifier: Apache-2.0
"""The program where a GPU is, is not, or fails, on stub libraries: gpu-info, plan and bench loader
--device, the rows of bench io that end in a GPU's memory."""

import json
import os
import signal
import subprocess

import pytest
from stub_gpus import CUFILE, LIBRARIES, NVJPEG, PLUGIN, machine, needs_stubs

from conftest import BINARY, HANG_SECONDS, run
from pictures import jpeg, make_folder

GOOD, BAD_DATA, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130

__all__ = ["machine"]
pytestmark = needs_stubs


def without(*names):
    return tuple(name for name in LIBRARIES if name not in names)


def one_line(result, *codes):
    """The message of a run that failed, which is one line."""
    message = result.error(*codes)
    assert len(message.splitlines()) == 1, message
    return message


# gpu-info.


def test_gpu_info_says_what_there_is(machine):
    result = machine(devices=2).run("gpu-info")
    assert result.code == GOOD, result.err
    lines = {line[:10].strip(): line[10:] for line in result.out.decode().splitlines()}
    assert list(lines) == ["plug-in", "driver", "NVML", "nvJPEG", "cuFile", "GPU 0", "GPU 1"]
    assert os.fspath(PLUGIN) in lines["plug-in"]
    assert lines["driver"].startswith("13.0, ")
    names = ("driver", "NVML", "nvJPEG", "cuFile")
    for name, library in zip(names, LIBRARIES, strict=True):
        assert library in lines[name]
    assert "Stub GPU 1" in lines["GPU 1"]
    assert "compute 9.0" in lines["GPU 1"]
    assert "PCIe 5 x16" in lines["GPU 1"]
    assert "JPEG engines" in lines["GPU 1"]


def test_gpu_info_as_json(machine):
    facts = machine(devices=2).run("gpu-info", "--json").json()
    assert [device["ordinal"] for device in facts["devices"]] == [0, 1]
    assert [device["name"] for device in facts["devices"]] == ["Stub GPU 0", "Stub GPU 1"]
    assert all(device["memory_bytes"] == 1 << 30 for device in facts["devices"])
    assert [each["ordinal"] for each in facts["nvjpeg"]["hardware"]] == [0, 1]
    assert facts["plugin"]["path"] == os.fspath(PLUGIN)
    assert "devices_missing" not in facts


def test_gpu_info_without_a_driver_says_what_to_do(machine):
    absent = machine(libraries=())
    result = absent.run("gpu-info")
    assert result.code == ENVIRONMENT
    text = result.out.decode()
    assert "driver    missing: libcuda.so.1" in text
    assert "install the driver" in text
    assert "GPU       none: " in text
    facts = absent.run("gpu-info", "--json")
    assert facts.code == ENVIRONMENT
    assert b'"devices": []' in facts.out


@pytest.mark.parametrize(("stubs", "said"), [({"devices": 0}, "100"), ({"driver": 12040}, "13.0")])
def test_gpu_info_where_the_driver_has_no_gpu_or_is_old(machine, stubs, said):
    result = machine(**stubs).run("gpu-info")
    text = result.out.decode()
    assert said in text
    assert result.code == (ENVIRONMENT if "devices" in stubs else GOOD), text


@pytest.mark.parametrize(
    ("library", "name", "remedy"),
    [(NVJPEG, "nvJPEG", "pip install nvidia-nvjpeg"), (CUFILE, "cuFile", "nvidia-cufile")],
)
def test_gpu_info_names_the_library_that_is_not_there(machine, library, name, remedy):
    result = machine(libraries=without(library)).run("gpu-info")
    assert result.code == GOOD, result.err
    (line,) = (x for x in result.out.decode().splitlines() if x.startswith(name))
    assert f"missing: {library}" in line
    assert remedy in line
    assert "GPU 0" in result.out.decode()


@pytest.mark.parametrize(
    "call",
    ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2",
     "cuDevicePrimaryCtxRetain", "nvmlInit_v2", "nvjpegCreateEx", "cuDriverGetVersion"],
)  # fmt: skip
def test_gpu_info_with_a_call_that_fails_still_speaks(machine, call):
    result = machine(fail=f"{call}:0:1").run("gpu-info")
    assert result.code in (GOOD, ENVIRONMENT), result.err
    assert "terminate" not in result.err
    assert result.out.decode().startswith("plug-in   ") or len(result.err.splitlines()) == 1


@pytest.mark.parametrize("cwd", ["there", "elsewhere"])
def test_the_program_finds_its_plug_in_by_whatever_name_it_is_called(machine, tmp_path, cwd):
    there = machine()
    environment = there.environment | {
        "PATH": f"{BINARY.parent}:{os.environ['PATH']}",
        "FEEDRACE_CUDA_LIBRARIES": str(there.places[3]),
    }
    folder = BINARY.parent if cwd == "there" else tmp_path
    found = subprocess.run(
        ["feedrace", "gpu-info"], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert found.returncode == GOOD, found.stderr
    place = found.stdout.splitlines()[0].split(", ")[1]
    assert os.path.realpath(place) == os.path.realpath(PLUGIN)


def test_gpu_info_without_the_plug_in_is_json_too(tmp_path):
    found = run("gpu-info", "--json", "--cuda-plugin", tmp_path / "none.so")
    assert found.code == ENVIRONMENT
    facts = json.loads(found.out)
    assert facts["devices"] == []
    assert "none.so" in facts["plugin"]["missing"]


def test_gpu_info_without_the_plug_in(tmp_path):
    result = run("gpu-info", "--cuda-plugin", tmp_path / "nowhere.so")
    message = one_line(result, ENVIRONMENT)
    assert "nowhere.so" in message
    assert "install feedrace-cuda" in message


@pytest.mark.parametrize("arguments", [["--cuda-plugin", ""], ["--cuda-libraries", ""], ["extra"]])
def test_gpu_info_refuses_wrong_use(arguments):
    one_line(run("gpu-info", *arguments), WRONG_USE)


# plan and bench loader.


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "pictures")


def plan(machine, folder, *more):
    return machine.run("plan", folder, "--batch", "4", *more)


def bench(machine, folder, *more):
    return machine.run("bench", "loader", folder, "--batch", "4", "--epochs", "1", "--json", *more)


@pytest.mark.parametrize(("name", "wanted"), [("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_plan_names_the_gpu(machine, folder, name, wanted):
    two = machine(devices=2)
    assert plan(two, folder, "--device", name, "--json").json()["device"].startswith(wanted)
    assert wanted in plan(two, folder, "--device", name).out.decode()


def test_auto_takes_a_gpu_where_there_is_one_and_says_why_not(machine, folder):
    there = plan(machine(), folder, "--device", "auto", "--json").json()
    assert there["device"].startswith("cuda:0")
    assert there["device_reason"]
    absent = machine(libraries=())
    none = plan(absent, folder, "--device", "auto", "--json").json()
    assert none["device"] == "cpu"
    assert "libcuda.so.1" in none["device_reason"]
    assert "no GPU can be used" in plan(absent, folder, "--device", "auto").out.decode()
    report = bench(absent, folder, "--device", "auto").json()
    assert report["images"] == 8
    assert report["device"] is None


@pytest.mark.parametrize("command", [plan, bench])
def test_a_gpu_that_is_not_there_is_one_line(machine, folder, command):
    for absent, said in [
        (machine(libraries=()), "libcuda.so.1"),
        (machine(devices=0), "cuInit"),
    ]:
        message = one_line(command(absent, folder, "--device", "cuda"), ENVIRONMENT)
        assert said in message
    assert "2" in one_line(command(machine(devices=2), folder, "--device", "cuda:2"), ENVIRONMENT)


@pytest.mark.parametrize("command", [plan, bench])
def test_a_driver_too_old_for_the_kernels_copies_and_says_why_it_does_not_decode(
    machine, folder, command
):
    old = machine(driver=12040)
    told = plan(old, folder, "--device", "cuda", "--json").json()
    assert told["device"] == "cuda:0"
    assert told["decode_device"] == "cpu"
    assert "13.0" in told["decode_device_reason"]
    counts = bench(old, folder, "--device", "cuda").json()["device"]
    assert counts["host_decoded"] >= 8
    assert counts["hardware_decoded"] + counts["software_decoded"] == 0
    message = one_line(
        command(old, folder, "--device", "cuda", "--decode-device", "cuda"), ENVIRONMENT
    )
    assert "13.0" in message


def test_decoded_shards_need_no_nvjpeg(machine, folder, tmp_path):
    there = machine(libraries=without(NVJPEG))
    packed = run("pack", folder, tmp_path / "decoded", "--raw", "64", "--shards", "1")
    assert packed.code == GOOD, packed.err
    told = plan(there, tmp_path / "decoded", "--device", "cuda", "--json").json()
    assert told["decode_device"] == "cuda:0"
    assert "decoded already (.npy)" in told["decode_device_reason"]
    report = bench(there, tmp_path / "decoded", "--device", "cuda").json()
    assert report["device"]["already_decoded"] >= 8
    assert report["device"]["host_decoded"] == 0
    on_host = bench(there, tmp_path / "decoded", "--device", "cpu").json()
    assert report["output"]["mean"] == pytest.approx(on_host["output"]["mean"], abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "gpu"], "cuda:N"),
        (["--device", "cuda:"], "cuda:N"),
        (["--device", "cuda:-1"], "cuda:N"),
        (["--device", ""], "--device"),
        (["--decode-device", "gpu"], "--decode-device"),
        (["--hardware-share", "1.5"], "--hardware-share"),
        (["--hardware-share", "nan"], "--hardware-share"),
    ],
)
def test_wrong_devices_are_wrong_use(machine, folder, arguments, said):
    for command in (plan, bench):
        assert said in one_line(command(machine(), folder, *arguments), WRONG_USE)


@pytest.mark.parametrize("recipe", ["imagenet-train", "imagenet-val"])
def test_a_gpu_gets_the_same_batches(machine, folder, recipe):
    more = ("--recipe", recipe, "--decode-device", "cpu")
    there = machine()
    on_host = bench(there, folder, *more).json()
    on_gpu = bench(there, folder, *more, "--device", "cuda").json()
    for key in ("images", "epochs", "bad_samples", "padded_samples", "output"):
        assert on_gpu[key] == on_host[key], key
    assert on_host["device"] is None


def test_bad_pictures_are_the_same_on_a_gpu(machine, folder):
    (folder / "cat" / "003.jpg").write_bytes(jpeg()[:200])
    there = machine()
    more = ("--on-error", "replace")
    counts = ("images", "bad_samples", "substituted_samples", "flagged_samples")
    on_host = bench(there, folder, *more).json()
    on_gpu = bench(there, folder, *more, "--device", "cuda").json()
    assert on_host["bad_samples"] == 1
    assert [on_gpu[key] for key in counts] == [on_host[key] for key in counts]


@pytest.mark.parametrize(
    "failure",
    ["cuMemcpyHtoDAsync_v2:2:719", "cuEventRecord:3:719", "cuMemAlloc_v2:1:2",
     "cuStreamCreateWithPriority:1:2", "cuMemHostRegister_v2:0:2", "cuMemcpyDtoHAsync_v2:1:719"],
)  # fmt: skip
def test_a_gpu_that_fails_under_way_is_one_line_or_counted(machine, folder, failure):
    result = bench(machine(fail=failure), folder, "--device", "cuda", "--decode-device", "cpu")
    if "HostRegister" in failure:
        fallbacks = result.json()["fallbacks"]
        assert any("not pinned" in each["reason"] for each in fallbacks)
        return
    message = one_line(result, ENVIRONMENT)
    assert f"error {failure.split(':')[2]} (" in message or "memory" in message


# bench io.

GPU_ROWS = {"gpu pageable": 2, "gpu buffered": 1, "gpu direct": 0, "gpu uring": 0}
ALL_GPU_ROWS = [*GPU_ROWS, "cufile"]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(4 << 20))
    return path


def bench_io(machine, path, *more, rows=ALL_GPU_ROWS):
    return machine.run("bench", "io", path, "--seconds", "0.05", "--rows", ",".join(rows), *more)


def test_rows_into_a_gpu_have_figures_or_a_reason(machine, data):
    rows = bench_io(machine(), data, "--json").json()
    measured = {row["path"] for row in rows if "reason" not in row}
    assert {"gpu pageable", "gpu buffered"} <= measured
    for row in rows:
        if "reason" in row:
            assert len(row["reason"].splitlines()) == 1
            continue
        assert row["gb_per_second"] > 0
        assert row["cpu_seconds_per_gb"] > 0
        assert 0 < row["latency_us"]["p50"] <= row["latency_us"]["p99"] <= row["latency_us"]["max"]
        assert row["device"] == "cuda:0 (Stub GPU 0)"
        if row["path"] == "cufile":
            assert row["way"] == "direct"
            assert row["copies_per_byte"] == row["device_copies_per_byte"] == 0
        else:
            assert row["way"] is None
            assert row["copies_per_byte"] == GPU_ROWS[row["path"]]
            assert row["device_copies_per_byte"] == 1


def test_cufile_is_measured_or_refused_by_the_machine(machine, data):
    for row in bench_io(machine(), data, "--json", rows=["cufile"]).json():
        for path in ("/proc/modules", "/run/udev"):
            if not os.access(path, os.R_OK):
                assert path in row["reason"]
                return
        assert row["way"] == "direct"


def test_a_person_sees_what_the_gpu_copies(machine, data):
    result = bench_io(machine(), data, "--device", "cuda", rows=["gpu pageable"])
    assert result.code == GOOD, result.err
    lines = result.out.decode().splitlines()
    assert lines[-1] == "cuda:0 (Stub GPU 0) copies each byte once more: gpu pageable" or (
        "pages left" in lines[-1]
    )
    assert max(map(len, lines[2:])) <= 120


def test_without_a_gpu_the_rows_are_listed_with_the_reason(machine, data):
    for absent, said in [(machine(libraries=()), "libcuda.so.1"), (machine(devices=0), "cuInit")]:
        result = bench_io(absent, data, "--json")
        assert result.code == GOOD
        rows = result.json()
        assert {row["path"] for row in rows} == set(ALL_GPU_ROWS)
        for row in rows:
            assert said in row["reason"]
            assert len(row["reason"].splitlines()) == 1
        message = one_line(bench_io(absent, data, "--device", "cuda"), ENVIRONMENT)
        assert said in message


def test_without_the_plug_in_the_other_rows_are_measured(data, tmp_path):
    more = ("--seconds", "0.05", "--json", "--cuda-plugin", tmp_path / "nowhere.so")
    rows = run("bench", "io", data, "--rows", "mmap,cufile", *more).json()
    assert [row["path"] for row in rows] == ["mmap", "mmap", "cufile"]
    assert "install feedrace-cuda" in rows[2]["reason"]
    assert all("reason" not in row or "cold" in row["state"] for row in rows)


def test_rows_into_a_gpu_can_be_left_out(machine, data):
    result = machine().run("bench", "io", data, "--seconds", "0.05", "--device", "cpu", "--json")
    assert not {row["path"] for row in result.json()} & set(ALL_GPU_ROWS)
    one_line(bench_io(machine(), data, "--device", "cpu"), WRONG_USE)
    assert "cuda:N" in one_line(bench_io(machine(), data, "--device", "gpu"), WRONG_USE)


@pytest.mark.parametrize("row", ["gpu pageable", "gpu buffered"])
@pytest.mark.parametrize("call", ["cuMemcpyHtoDAsync_v2", "cuEventRecord"])
def test_a_copy_that_fails_is_the_rows_reason(machine, data, row, call):
    rows = bench_io(machine(fail=f"{call}:0:719"), data, "--json", rows=[row]).json()
    assert all("reason" in each for each in rows)
    assert any("719" in each["reason"] for each in rows)


def test_memory_that_the_gpu_does_not_have_is_said_with_the_sizes(machine, data):
    (row, *_) = bench_io(machine(memory=65536), data, "--json", rows=["gpu pageable"]).json()
    assert "memory" in row["reason"]


def test_late_copies_are_waited_for(machine, data):
    """Each row compares what came with the file, so a slot that is used too early is an error."""
    late = machine(delay_us=300)
    more = ("--queue-depth", "4", "--block-size", "4K", "--json")
    rows = bench_io(late, data, *more, rows=["gpu pageable", "gpu buffered"]).json()
    assert sum("reason" not in row for row in rows) >= 2


def test_a_signal_ends_rows_into_a_gpu(machine, data):
    there = machine()
    process = subprocess.Popen(
        there.command("bench", "io", data, "--seconds", "600", "--rows", "gpu buffered"),
        env=there.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout.readline()  # The title: it measures now.
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
