# SPDX-License-Identifier: Apache-2.0
"""dev/check_layers.py must report what it is there for."""

import subprocess
import sys

import pytest

from conftest import REPOSITORY

CHECK = REPOSITORY / "dev" / "check_layers.py"


def check(root):
    result = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)
    return result.returncode, result.stderr.splitlines()


@pytest.fixture
def tree(tmp_path):
    """Writes one file that includes `include`, and checks the tree."""

    def write(name, include):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#pragma once\n#include <vector>\n#include "{include}"\n')
        return check(tmp_path)

    return write


def test_this_repository_is_in_order():
    assert check(REPOSITORY) == (0, [])


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("src/feedrace/storage/x.h", "feedrace/core/text.h"),
        ("src/feedrace/storage/x.h", "feedrace/backend.h"),
        ("src/feedrace/pipeline/x.cc", "feedrace/formats/x.h"),
        ("src/feedrace/decode/x_test.cc", "feedrace/testing/temp_dir.h"),
        ("src/feedrace/formats/test_tar.h", "feedrace/testing/temp_dir.h"),
        ("src/feedrace/formats/x_test.cc", "feedrace/formats/test_tar.h"),
        ("src/feedrace/tools/main.cc", "feedrace/loader.h"),
        ("include/feedrace/pipeline.h", "feedrace/op.h"),
        ("src/feedrace/cuda/plugin/x.cc", "feedrace/cuda/plugin/handles.h"),
        ("src/feedrace/cuda/stubs/x.cc", "feedrace/cuda/plugin_abi.h"),
        ("src/feedrace/cuda/kernels/x.cu", "feedrace/cuda/fused_pass_block.h"),
        ("src/feedrace/cuda/fused_pass_x.h", "feedrace/core/host_device.h"),
        ("src/feedrace/cuda/x_test.cc", "feedrace/cuda/stubs/stub_control.h"),
        ("src/feedrace/cuda/x.cc", "feedrace/cuda/fused_pass_batch.h"),
    ],
)
def test_an_allowed_include_passes(tree, name, include):
    assert tree(name, include) == (0, [])


@pytest.mark.parametrize(
    ("name", "include", "message"),
    [
        (
            "src/feedrace/storage/x.h",
            "feedrace/pipeline/stage.h",
            "storage/x.h: storage must not include pipeline",
        ),
        (
            "src/feedrace/cuda/plugin/x.cc",
            "feedrace/core/text.h",
            "cuda/plugin/x.cc: cuda/plugin must not include feedrace/core/text.h, which is not "
            "linked into it",
        ),
        (
            "src/feedrace/cuda/stubs/x.cc",
            "feedrace/cuda/plugin_loader.h",
            "cuda/stubs/x.cc: cuda/stubs must not include feedrace/cuda/plugin_loader.h, which is "
            "not linked into it",
        ),
        (
            "src/feedrace/cuda/kernels/x.cu",
            "feedrace/cuda/plugin/handles.h",
            "cuda/kernels/x.cu: only cuda/plugin may include feedrace/cuda/plugin/handles.h",
        ),
        (
            "src/feedrace/cuda/x.cc",
            "feedrace/cuda/stubs/stub_control.h",
            "cuda/x.cc: only cuda/stubs may include feedrace/cuda/stubs/stub_control.h",
        ),
        (
            "src/feedrace/cuda/x_test.cc",
            "feedrace/cuda/plugin/handles.h",
            "cuda/x_test.cc: only cuda/plugin may include feedrace/cuda/plugin/handles.h",
        ),
        (
            "src/feedrace/cuda/fused_pass_x.h",
            "feedrace/core/text.h",
            "cuda/fused_pass_x.h: what both sides share must not include feedrace/core/text.h",
        ),
        (
            "src/feedrace/decode/x.cc",
            "feedrace/backend.h",
            "decode/x.cc: decode must not include storage",
        ),
        (
            "src/feedrace/core/x.cc",
            "feedrace/testing/temp_dir.h",
            "core/x.cc: core must not include testing",
        ),
        (
            "src/feedrace/formats/x.cc",
            "feedrace/formats/test_tar.h",
            "formats/x.cc: only tests may include feedrace/formats/test_tar.h",
        ),
        (
            "src/feedrace/core/x.cc",
            "text.h",
            'core/x.cc: "text.h" is in no known layer; write "feedrace/<layer>/<file>"',
        ),
        (
            "include/feedrace/loader.h",
            "feedrace/core/text.h",
            "include/feedrace/loader.h: a public header must not include the private "
            "feedrace/core/text.h",
        ),
        (
            "include/feedrace/op.h",
            "feedrace/loader.h",
            "include/feedrace/op.h: ops must not include pipeline",
        ),
        (
            "include/feedrace/new.h",
            "feedrace/error.h",
            "include/feedrace/new.h: no layer in dev/check_layers.py; add it to PUBLIC",
        ),
        (
            "src/feedrace/new/x.h",
            "feedrace/error.h",
            "new/x.h: no layer in dev/check_layers.py; add it to MAY_USE",
        ),
    ],
)
def test_a_forbidden_include_is_reported(tree, name, include, message):
    assert tree(name, include) == (1, [message])
