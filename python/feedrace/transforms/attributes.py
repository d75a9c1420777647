# SPDX-License-Identifier: Apache-2.0
"""Reads the attributes of torchvision's transforms in the form that native steps have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from feedrace.errors import shown
from feedrace.transforms.walk import Member, NotNativeError, Walk

_PIL_BILINEAR = 2

Sides = tuple[int, int, int, int]


def require_bilinear(transform: Any, walk: Walk) -> None:
    """Pillow always antialiases; tensors only where they are told to."""
    mode = getattr(transform.interpolation, "value", transform.interpolation)
    if mode not in ("bilinear", _PIL_BILINEAR):
        raise NotNativeError(f"its interpolation is {mode}, native is bilinear")
    if transform.antialias is not True and walk.holder != "pil":
        raise NotNativeError(f"its antialias is {transform.antialias}, native is True")


def fill(value: Any, walk: Walk) -> tuple[int, int, int]:
    """Levels of R, G, B. Fills of a float tensor are in [0, 1]."""
    if isinstance(value, Mapping):
        value = walk.choose(value)
    if value is None:
        value = 0
    values = list(value) if isinstance(value, Sequence) else [value]
    if len(values) == 1:
        values *= 3
    levels = [float(one) * (1 if walk.dtype is None else 255) for one in values]
    if len(levels) != 3 or not all(level.is_integer() and 0 <= level <= 255 for level in levels):
        raise NotNativeError(f"its fill is {shown(value)}, native is 3 whole levels of 0 to 255")
    red, green, blue = (int(level) for level in levels)
    return red, green, blue


def padding(member: Member) -> Sides:
    """Left, top, right, bottom in pixels, from 1, 2 or 4 numbers."""
    value = member.transform.padding
    values = list(value) if isinstance(value, Sequence) else [value]
    if len(values) not in (1, 2, 4):
        raise member.refuse(f"padding is {shown(value)}", "give 1, 2 or 4 numbers of pixels")
    if any(int(one) != one or one < 0 for one in values):
        raise NotNativeError(f"its padding is {shown(value)}, native is whole pixels from 0 up")
    left, top, right, bottom = (int(values[side % len(values)]) for side in range(4))
    return left, top, right, bottom


def size(member: Member, attribute: str = "size") -> tuple[int, int]:
    """Height and width in pixels; one number is both."""
    value = getattr(member.transform, attribute)
    values = list(value) if isinstance(value, Sequence) else [value]
    if len(values) in (1, 2) and all(_is_pixels(one) for one in values):
        return int(values[0]), int(values[-1])
    raise member.refuse(f"{attribute} is {shown(value)}", "give one or two whole numbers from 1 up")


def pixels(member: Member, attribute: str) -> int:
    """One whole number of pixels from 1 up."""
    value = getattr(member.transform, attribute)
    if _is_pixels(value):
        return int(value)
    raise member.refuse(f"{attribute} is {shown(value)}", "give a whole number from 1 up")


def probability(member: Member) -> float:
    """The attribute p, in [0, 1]."""
    (value,) = numbers(member, "p", (1,))
    if 0 <= value <= 1:
        return value
    raise member.refuse(f"p is {value}", "give a probability from 0 to 1")


def interval(member: Member, attribute: str) -> tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    low, high = numbers(member, attribute, (2,))
    if low > high:
        raise member.refuse(f"{attribute} is ({low}, {high})", "give the smaller number first")
    return low, high


def channels(member: Member, attribute: str) -> tuple[float, float, float]:
    """A number for each of R, G, B; one number is all three."""
    values = numbers(member, attribute, (1, 3))
    return values * 3 if len(values) == 1 else values  # type: ignore[return-value]


def numbers(member: Member, attribute: str, lengths: tuple[int, ...]) -> tuple[float, ...]:
    """Finite numbers, as many as one of `lengths`; a tensor or an array will do."""
    value = getattr(member.transform, attribute)
    try:
        values = tuple(float(one) for one in (value if hasattr(value, "__len__") else [value]))
    except (TypeError, ValueError):
        values = ()
    if len(values) in lengths and all(math.isfinite(one) for one in values):
        return values
    wanted = " or ".join(str(length) for length in lengths)
    raise member.refuse(f"{attribute} is {shown(value)}", f"give {wanted} finite numbers")


def _is_pixels(value: Any) -> bool:
    try:
        return int(value) == value and value >= 1
    except (TypeError, ValueError, OverflowError):
        return False
