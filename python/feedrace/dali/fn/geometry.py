# SPDX-License-Identifier: Apache-2.0
"""Crops, sizes and flips of uint8 pictures."""

from __future__ import annotations

import math
import numbers
from typing import Any

from feedrace import errors
from feedrace.dali import nodes, operators, types

# What feedrace has: bilinear, widened when shrinking. INTERP_TRIANGULAR is DALI's name of it too.
_BILINEAR = (types.INTERP_LINEAR, types.INTERP_TRIANGULAR)
_FILTERS: dict[str, tuple[Any, ...]] = {
    "antialias": (True,),
    "interp_type": _BILINEAR,
    "mag_filter": _BILINEAR,
    "min_filter": _BILINEAR,
    "dtype": (None, types.UINT8),
}
_RESIZE_HINTS = ("minibatch_size", "temp_buffer_hint", "image_type")
_DEFAULT_AREA = (0.08, 1.0)
_DEFAULT_RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10


def random_crop_step(name: str, area: Any, ratio: Any, attempts: Any) -> nodes.Step:
    """The step "random_resized_crop", still without its size."""
    if errors.check_int(name, "num_attempts", attempts, 1) != _ATTEMPTS:
        nodes.current(name).note(f"{name}: num_attempts is {_ATTEMPTS} here, not {attempts}")
    return {
        "op": "random_resized_crop",
        "scale": errors.check_interval(name, "random_area", area, high=1.0, above=0.0),
        "ratio": errors.check_interval(name, "random_aspect_ratio", ratio, above=0.0),
    }


@operators.operator("fn.random_resized_crop", hints=_RESIZE_HINTS, only=_FILTERS)
def random_resized_crop(
    images: Any,
    *,
    size: Any,
    random_area: Any = _DEFAULT_AREA,
    random_aspect_ratio: Any = _DEFAULT_RATIO,
    num_attempts: int = _ATTEMPTS,
) -> nodes.Images:
    """A part of random place and size, resized.

    Args:
        images: uint8 pictures.
        size: One number of pixels, or (height, width).
        random_area: Share of the picture's area, (lowest, highest).
        random_aspect_ratio: Width by height, (lowest, highest).
    """
    name = "fn.random_resized_crop"
    node = operators.images(name, images)
    step = random_crop_step(name, random_area, random_aspect_ratio, num_attempts)
    return node.then({**step, "size": errors.check_size(name, "size", size)})


@operators.operator(
    "fn.resize",
    hints=_RESIZE_HINTS,
    only={
        **_FILTERS,
        "resize_z": (0.0, 0),
        "roi_start": (None,),
        "roi_end": (None,),
        "roi_relative": (False,),
        "save_attrs": (False,),
    },
)
def resize(
    images: Any,
    *,
    size: Any = None,
    resize_x: Any = 0.0,
    resize_y: Any = 0.0,
    resize_shorter: Any = 0.0,
    resize_longer: Any = 0.0,
    max_size: Any = None,
    mode: str = "default",
    subpixel_scale: bool = True,
) -> nodes.Images:
    """Resizes; sizes in pixels.

    Args:
        images: uint8 pictures.
        size: One number, or (height, width). `mode` "not_smaller" and "not_larger" keep the aspect
            and take one number.
        resize_x, resize_y: Width and height; both are needed.
        resize_shorter: Of the shorter side; the other keeps the aspect, up to `max_size`.
        resize_longer: Of the longer side.
    """
    name = "fn.resize"
    node = operators.images(name, images)
    errors.check_bool(name, "subpixel_scale", subpixel_scale)
    ways = {"size": size, "resize_shorter": resize_shorter, "resize_longer": resize_longer}
    given = [key for key, value in ways.items() if _is_set(value)]
    given += ["resize_x and resize_y"] if _is_set(resize_x) or _is_set(resize_y) else []
    if len(given) != 1:
        found = f"given are {errors.listed(given)}" if given else "no size is given"
        fix = "give one of size, resize_x with resize_y, resize_shorter, resize_longer"
        raise errors.invalid(name, found, fix)
    step = _resize_step(name, given[0], ways, (resize_y, resize_x), max_size, mode)
    if node.random_crop is not None:
        return _resized_random_crop(name, node, step)
    if "size" not in step:
        nodes.current(name).note(
            f"{name}: the side that keeps the aspect is rounded down as torchvision does, where "
            "DALI rounds to nearest; subpixel_scale shifts nothing"
        )
    return node.then(step)


def _is_set(value: Any) -> bool:
    return value is not None and not (isinstance(value, numbers.Real) and not value)


def _resize_step(
    name: str, way: str, ways: dict[str, Any], sides: Any, max_size: Any, mode: Any
) -> nodes.Step:
    errors.check_choice(name, "mode", mode, ("default", "stretch", "not_smaller", "not_larger"))
    keeps_aspect = mode in ("not_smaller", "not_larger")
    if max_size is not None and way != "resize_shorter" and mode != "not_smaller":
        raise errors.unsupported(name, "max_size without resize_shorter", "leave max_size out")
    if way.startswith("resize_x"):
        if keeps_aspect or not all(_is_set(side) for side in sides):
            fix = "give both sides, or resize_shorter or resize_longer"
            raise errors.unsupported(name, "one side, or a mode that keeps the aspect", fix)
        return {"op": "resize", "size": tuple(_pixels(name, way, side) for side in sides)}
    if way == "resize_longer":
        return {"op": "resize", "longer": _pixels(name, way, ways[way])}
    if way == "resize_shorter":
        return _shorter(name, way, ways[way], max_size)
    height, width = errors.check_size(name, "size", ways["size"])
    if not keeps_aspect:
        return {"op": "resize", "size": (height, width)}
    if height != width:
        fix = "give one number, or leave mode out"
        raise errors.unsupported(name, f"mode={mode!r} of two different sides", fix)
    if mode == "not_larger":
        return {"op": "resize", "longer": height}
    return _shorter(name, "size", height, max_size)


def _shorter(name: str, key: str, value: Any, max_size: Any) -> nodes.Step:
    longest = None if max_size is None else _pixels(name, "max_size", max_size)
    return {"op": "resize", "shorter": _pixels(name, key, value), "longest": longest}


def _pixels(name: str, key: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return errors.check_int(name, key, value, 1, 65535, "pixels")


def _resized_random_crop(name: str, node: nodes.Images, step: nodes.Step) -> nodes.Images:
    if "size" not in step:
        fix = "give fn.resize both sides"
        raise errors.unsupported(name, "an aspect that is kept behind image_random_crop", fix)
    return node.then({**(node.random_crop or {}), "size": step["size"]}, random_crop=None)


def sides_of_crop(name: str, crop: Any, crop_h: Any, crop_w: Any) -> tuple[int, int] | None:
    """Height and width, by either way to say it; None: no crop."""
    if crop is not None:
        if _is_set(crop_h) or _is_set(crop_w):
            raise errors.invalid(name, "crop beside crop_h or crop_w", "give crop alone")
        items = errors.as_tuple(crop)
        if items is None:
            items = (crop, crop)
        if len(items) != 2:
            found = f"crop is {errors.shown(crop)}"
            raise errors.invalid(name, found, "it must be (height, width)")
        return _pixels(name, "crop[0]", items[0]), _pixels(name, "crop[1]", items[1])
    if not _is_set(crop_h) and not _is_set(crop_w):
        return None
    return _pixels(name, "crop_h", crop_h), _pixels(name, "crop_w", crop_w)


def cut(name: str, node: nodes.Images, sides: tuple[int, int], x: Any, y: Any) -> nodes.Images:
    """The crop of `sides` at the share `x`, `y` of the room that is left."""
    place = {
        "x": operators.number(name, "crop_pos_x", x, 0, 1),
        "y": operators.number(name, "crop_pos_y", y, 0, 1),
    }
    return node.then({"op": "crop", "size": sides, **place})


@operators.operator(
    "fn.crop",
    hints=("rounding", "image_type"),
    only={
        "crop_d": (0.0, 0),
        "crop_pos_z": (0.5,),
        "dtype": (None, types.UINT8),
        "fill_values": (0.0, 0, None),
        "out_of_bounds_policy": ("error",),
        "output_dtype": (None,),
    },
)
def crop(
    images: Any,
    *,
    crop: Any = None,
    crop_h: Any = 0.0,
    crop_w: Any = 0.0,
    crop_pos_x: Any = 0.5,
    crop_pos_y: Any = 0.5,
) -> nodes.Images:
    """Cuts (height, width) pixels at a share, in [0, 1], of the room that is left."""
    name = "fn.crop"
    node = operators.images(name, images)
    sides = sides_of_crop(name, crop, crop_h, crop_w)
    if sides is None:
        raise errors.invalid(name, "no size is given", "give crop=(height, width)")
    return cut(name, node, sides, crop_pos_x, crop_pos_y)


def turn(name: str, node: nodes.Images, key: str, horizontal: Any, vertical: Any) -> nodes.Images:
    """A flip where the numbers are not 0; no step where both are."""
    numbers = {
        "horizontal": _coin(name, key, horizontal),
        "vertical": _coin(name, "vertical", vertical),
    }
    if all(number == 0.0 for number in numbers.values()):
        return node
    return node.then({"op": "flip", **numbers})


def _coin(name: str, key: str, value: Any) -> Any:
    if isinstance(value, nodes.Draw) and value.number["draw"] != "coin_flip":
        raise errors.invalid(name, f"{key} is a uniform draw", "give 0, 1 or fn.random.coin_flip()")
    number = operators.number(name, key, value, -math.inf, math.inf)
    return number if isinstance(number, dict) else float(number != 0)


@operators.operator("fn.flip", only={"depthwise": (0,)})
def flip(images: Any, *, horizontal: Any = 1, vertical: Any = 0) -> nodes.Images:
    """Flips left to right and upside down where the numbers are not 0: 0, 1, or a coin flip."""
    name = "fn.flip"
    return turn(name, operators.images(name, images), "horizontal", horizontal, vertical)
