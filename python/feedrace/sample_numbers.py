# SPDX-License-Identifier: Apache-2.0
"""Lists of sample numbers, checked as a whole: ten million one by one would take seconds."""

from __future__ import annotations

from array import array
from typing import Any

from feedrace.errors import as_tuple, check_int, invalid, shown

_MAX_U64 = (1 << 64) - 1
_FIX = "give a list of whole numbers, a range, or a one-dimensional array of integers"


def sample_numbers(where: str, name: str, value: Any) -> Any:
    """A range, or a buffer of uint64 [N].

    Args:
        value: A list, tuple, set or range of ints, or an array [N] of integers, as NumPy's, torch's
            and JAX's are.

    Raises:
        Error: It is another thing, or holds what is no whole number from 0 to 2^64 - 1.
    """
    if isinstance(value, range):
        return _checked_range(where, name, value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _checked_array(where, name, value)
    if isinstance(value, (set, frozenset)):
        items: tuple[Any, ...] | None = tuple(value)
    else:
        items = as_tuple(value)
    if items is None:
        raise invalid(where, f"{name} is {shown(value)}", _FIX)
    if all(kind is int for kind in set(map(type, items))):
        try:
            return array("Q", items)
        except OverflowError:
            pass  # Below it is named.
    return array("Q", [check_int(where, name, item, 0, _MAX_U64) for item in items])


def _checked_range(where: str, name: str, value: range) -> range:
    most = 1 << 40  # More samples than any data set has, and all of these would be listed.
    if not value:
        return range(0)
    if min(value[0], value[-1]) < 0 or max(value[0], value[-1]) >= most:
        fix = f"it must stay within 0 to {most - 1}"
        raise invalid(where, f"{name} is {shown(value)}", fix)
    return value if len(value) > 1 else range(value[0], value[0] + 1)  # Its step may be anything.


def _checked_array(where: str, name: str, value: Any) -> Any:
    import numpy as np  # Of a program that gives an array.

    try:
        given = np.asarray(value)
    except Exception as e:  # One of torch on a GPU, for instance.
        found = f"{name} is a {type(value).__name__} that can't be read ({shown(e)})"
        raise invalid(where, found, "give it in host memory") from e
    if given.ndim != 1 or given.dtype.kind not in "iu":
        found = f"{name} is an array of {given.dtype} {given.shape}"
        # A mask is what people have at hand.
        hint = ": np.flatnonzero(mask)" if given.dtype.kind == "b" else ""
        raise invalid(where, found, _FIX + hint)
    if given.size and given.min() < 0:
        raise invalid(where, f"{name} has {given.min()}", "samples count from 0")
    return np.ascontiguousarray(given, np.uint64)
