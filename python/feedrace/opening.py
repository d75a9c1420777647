# SPDX-License-Identifier: Apache-2.0
"""Makes the native loader, on the GPU or on the host as the arguments and the machine allow."""

from __future__ import annotations

from typing import Any

from feedrace import _feedrace, arguments
from feedrace.errors import Error, text_of, unsupported
from feedrace.outputs import torch_refusal
from feedrace.pipeline import Pipeline
from feedrace.plan import Plan
from feedrace.ranks import find_world


def open_native(checked: dict[str, Any], transform: Pipeline, output: str) -> tuple[Any, Plan]:
    """The native loader and its plan."""
    world = find_world(checked["rank"], checked["world_size"], checked["rank_check"])
    given = arguments.native(checked)
    given.update(rank=world.rank, world_size=world.world_size, all_gather=world.all_gather)
    given["steps"] = list(transform.steps)
    refusal = _device_refusal(checked, transform, output)
    is_auto = checked["device"] == "auto"
    if refusal and not is_auto:
        found = f"device is {checked['device']!r}, but {refusal}"
        raise unsupported(arguments.WHERE, found, "or take device='cpu'")
    if not refusal:
        try:
            return _opened(given)
        except Error as e:
            # Of "auto" by itself the native loader takes the host. What it says of a GPU comes
            # before ranks are compared, so that all of them do that once.
            is_other_gpu = is_auto and given["device"] != "auto" and str(e).startswith("device ")
            if not is_other_gpu:
                raise
            refusal = text_of(e)
    given.update(device="cpu", decode_device="auto")
    return _opened(given, f"no GPU can be used: {refusal}")


def _opened(given: dict[str, Any], device_reason: str = "") -> tuple[Any, Plan]:
    native = _feedrace.Loader(**given)
    return native, Plan(native.plan_text(), native.plan_json(), device_reason)


def _device_refusal(checked: dict[str, Any], transform: Pipeline, output: str) -> str:
    """Why the loop can't have batches on a GPU, whether or not there is one; "": it can."""
    if checked["device"] == "cpu":
        return ""
    if checked["output"] == "numpy":
        return "NumPy has host memory only: take output='torch', 'jax' or 'dlpack'"
    if transform.batch_function is not None:
        return "members of the transform run as Python, on the CPU: use native operators"
    return torch_refusal() if output == "torch" else ""
