# SPDX-License-Identifier: Apache-2.0
"""The types of the native module, as editors and type checkers read them."""

import subprocess
import sys
from pathlib import Path

STUBS = Path(__file__).parents[2] / "python/feedrace/_feedrace.pyi"


def test_stubs_are_those_of_the_native_module(tmp_path):
    made = tmp_path / "made.pyi"
    stubgen = [sys.executable, "-m", "nanobind.stubgen", "-q", "--exclude-values"]
    subprocess.run([*stubgen, "-m", "feedrace._feedrace", "-o", made], check=True, timeout=120)
    assert STUBS.read_text() == made.read_text(), "they differ; run make stubs"
