# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel-cuda`: what is in it, what it needs, and that the library opens it."""

import ctypes
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = REPOSITORY / "build/release/bin/feedrace"
SECONDS = 300  # Guards against hangs.
# The rules for such wheels leave these to the system.
SYSTEM = re.compile(r"^(ld-linux-[\w-]+|libc|libm|libdl|libgcc_s|libstdc\+\+)\.so[.0-9]*$")


@pytest.fixture(scope="module")
def wheel():
    found = sorted((REPOSITORY / "build/wheel-cuda").glob("*.whl"))
    assert len(found) == 1, f"{found}: make wheel-cuda leaves one wheel"
    return found[0]


@pytest.fixture(scope="module")
def root(wheel, tmp_path_factory):
    """Where the wheel is installed, by pip and without an index."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--no-index", "--target", folder, wheel], check=True, timeout=SECONDS)
    return folder


@pytest.fixture(scope="module")
def library(root):
    return root / "feedrace_cuda/libfeedrace_cuda.so"


def version():
    text = (REPOSITORY / "CMakeLists.txt").read_text()
    return re.search(r"project\(feedrace VERSION ([0-9.]+)", text)[1]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_is_for_any_python_3_and_other_machines(wheel):
    name = rf"feedrace_cuda-{re.escape(version())}-py3-none-(manylinux_2_\d+_\w+\.?)+\.whl"
    assert re.fullmatch(name, wheel.name), wheel.name


def test_holds_the_plug_in_and_nothing_of_nvidia(wheel):
    info = f"feedrace_cuda-{version()}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        licence = archive.read(f"{info}/licenses/LICENSE")
    assert licence == (REPOSITORY / "LICENSE").read_bytes()
    assert names - {f"{info}/sboms/auditwheel.cdx.json"} == {
        "feedrace_cuda/__init__.py",
        "feedrace_cuda/libfeedrace_cuda.so",
        f"{info}/METADATA",
        f"{info}/RECORD",
        f"{info}/WHEEL",
        f"{info}/licenses/LICENSE",
        f"{info}/licenses/libfmt-dev/copyright",
        f"{info}/licenses/nlohmann-json3-dev/copyright",
    }


def test_requires_nothing_but_by_extras(root):
    metadata = next(root.glob("*.dist-info")).joinpath("METADATA").read_text()
    wanted = re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)
    assert len(wanted) == 2
    assert all(re.search(r'; extra == "(nvjpeg|cufile)"$', line) for line in wanted), wanted
    assert f"Version: {version()}\n" in metadata


def test_exports_one_symbol(library):
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    assert [line.split()[-1] for line in lines] == ["feedrace_cuda_plugin_get"]


def test_needs_only_the_system(library):
    needed = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", library))
    assert needed
    assert [name for name in needed if not SYSTEM.match(name)] == []


def test_has_kernels_for_each_device(library):
    class Head(ctypes.Structure):
        """What the table of plugin_abi.h begins with."""

        _fields_ = (
            ("abi_version", ctypes.c_uint32),
            ("struct_bytes", ctypes.c_uint32),
            ("version", ctypes.c_char_p),
            ("built_for_cuda", ctypes.c_uint32),
            ("architectures", ctypes.c_char_p),
        )

    get = ctypes.CDLL(str(library)).feedrace_cuda_plugin_get
    get.restype = ctypes.POINTER(Head)
    head = get().contents
    assert head.version.decode() == version()
    assert head.built_for_cuda == 13000
    assert head.architectures == b"sm_80 sm_90 sm_100 sm_120 compute_80"


def test_tells_where_the_plug_in_is(root, library):
    code = "import feedrace_cuda as f; print(f.__version__, f.plugin_path)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout == f"{version()} {library}\n", done.stderr


def test_is_opened_by_the_program(library):
    stubs = REPOSITORY / "build/release/stubs"
    said = run(PROGRAM, "gpu-info", "--cuda-plugin", library, "--cuda-libraries", stubs)
    assert str(library) in said
