# SPDX-License-Identifier: Apache-2.0
"""What the package says of GPUs, and where it finds the plug-in and NVIDIA's libraries."""

import json
import subprocess

import pytest
from gpu_stubs import BUILD, ON_STUBS, PLUGIN, STUBS, run_python

import feedrace as fr
from small_loaders import error_of

PROGRAM = BUILD / "bin/feedrace"
SAY_WHERE = "import feedrace as fr; print(fr.gpu_info()['plugin']['path'])"
NOWHERE = {"FEEDRACE_CUDA_PLUGIN": "", "FEEDRACE_CUDA_LIBRARIES": ""}


def test_it_has_the_facts_of_the_program(stubs):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    places = ["--cuda-plugin", PLUGIN, "--cuda-libraries", STUBS]
    printed = subprocess.run([PROGRAM, "gpu-info", "--json", *places], capture_output=True)
    facts = fr.gpu_info(**ON_STUBS)
    assert facts == json.loads(printed.stdout)
    assert facts["driver"]["version"]
    assert len(facts["devices"]) == 1


def test_a_machine_without_a_gpu_has_facts_all_the_same(stubs):
    stubs.set_devices(0)
    facts = fr.gpu_info(**ON_STUBS)
    assert facts["devices"] == []
    assert "devices_missing" in facts
    assert facts["plugin"]["path"] == str(PLUGIN)


def test_a_plugin_that_is_not_there_is_one_error(tmp_path):
    message = error_of(fr.gpu_info, cuda_plugin=tmp_path / "none.so", code="unsupported")
    assert "none.so" in message
    assert "install feedrace-cuda" in message


def test_arguments_that_can_not_be():
    assert "1 arguments without a name" in error_of(fr.gpu_info, "x")
    assert "There are cuda_plugin, cuda_libraries" in error_of(fr.gpu_info, plugin="x")
    assert "cuda_plugin is 3" in error_of(fr.gpu_info, cuda_plugin=3)


@pytest.fixture
def site(tmp_path):
    """A site-packages with the plug-in's package, which can't be imported, and NVIDIA's wheels."""
    package = tmp_path / "feedrace_cuda"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it was imported')")
    (package / PLUGIN.name).symlink_to(PLUGIN)
    libraries = tmp_path / "nvidia/cu13/lib"
    libraries.parent.mkdir(parents=True)
    libraries.symlink_to(STUBS)
    return tmp_path


def in_site(site, code):
    return run_python(f"import sys; sys.path.insert(0, {str(site)!r})\n{code}", **NOWHERE)


def test_an_installed_package_has_the_plugin_and_wheels_the_libraries(stubs, site):
    assert in_site(site, SAY_WHERE) == f"{site / 'feedrace_cuda' / PLUGIN.name}\n"
    code = "import feedrace as fr; print(fr.gpu_info()['nvjpeg']['library'])"
    assert in_site(site, code).startswith(str(site / "nvidia/cu13/lib"))


def test_the_environment_stands_above_the_package(stubs, site):
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{SAY_WHERE}"
    assert run_python(code) == f"{PLUGIN}\n"


def test_an_argument_stands_above_the_environment(stubs, site):
    place = str(site / "feedrace_cuda")
    code = f"import feedrace as fr; print(fr.gpu_info(cuda_plugin={place!r})['plugin']['path'])"
    assert run_python(code) == f"{site / 'feedrace_cuda' / PLUGIN.name}\n"
