# SPDX-License-Identifier: Apache-2.0
"""A machine with GPUs, for a program that a test runs: the plug-in of the build, and stub libraries
in the place of NVIDIA's that work in the host's memory. Both lie where `make test` builds them."""

import os

import pytest

from conftest import BINARY, command, run

BUILD = BINARY.parent.parent
PLUGIN = BUILD / "libfeedrace_cuda.so"
STUBS = BUILD / "stubs"
DRIVER, NVML, NVJPEG, CUFILE = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvjpeg.so.13",
    "libcufile.so.0",
)
LIBRARIES = (DRIVER, NVML, NVJPEG, CUFILE)
# What would make a machine of its own of the one that a test makes.
VARIABLES = ("FEEDRACE_CUDA_PLUGIN", "FEEDRACE_CUDA_LIBRARIES", "LD_LIBRARY_PATH")

needs_stubs = pytest.mark.skipif(
    not (PLUGIN.exists() and STUBS.exists()),
    reason=f"{BUILD} was built without the CUDA plug-in (FEEDRACE_CUDA=ON)",
)


class Machine:
    """Runs the program where `libraries` are installed. Further arguments steer the stubs:
    devices=2 is FEEDRACE_STUB_DEVICES=2."""

    def __init__(self, folder, libraries=LIBRARIES, **stubs):
        folder.mkdir()
        for name in libraries:
            (folder / name).symlink_to(STUBS / name)
        self.places = ("--cuda-plugin", PLUGIN, "--cuda-libraries", folder)
        self.environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        for name, value in stubs.items():
            self.environment[f"FEEDRACE_STUB_{name.upper()}"] = str(value)

    def run(self, *arguments):
        return run(*arguments, *self.places, env=self.environment)

    def command(self, *arguments):
        return command(*arguments, *self.places)


@pytest.fixture
def machine(tmp_path):
    """Makes machines."""

    def make(libraries=LIBRARIES, **stubs):
        make.count += 1
        return Machine(tmp_path / f"machine{make.count}", libraries, **stubs)

    make.count = 0
    return make
