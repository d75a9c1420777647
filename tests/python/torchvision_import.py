# SPDX-License-Identifier: Apache-2.0
"""Imports torchvision beside a build of torch that its compiled part does not fit."""

import importlib
import importlib.util
import sys

import pytest

# Kept alive: operators go when their library does.
_operators = []


def import_torchvision():
    """torchvision, or the test is skipped where it is not installed.

    Beside a CPU build of torch, PyPI's torchvision can't load its compiled part and then stops at
    operators that nobody has defined. Defined without a body they let everything in Python work,
    and the transforms are that.
    """
    if "torchvision" in sys.modules:
        return sys.modules["torchvision"]
    torch = pytest.importorskip("torch")
    pytest.importorskip("PIL")
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as cause:
        if "torchvision::nms" not in str(cause):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.append(library)
    return importlib.import_module("torchvision")
