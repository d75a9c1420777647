# SPDX-License-Identifier: Apache-2.0
"""Operators of a pipeline. Call them inside a function with `@feedrace.pipeline`.

Each takes nodes and returns nodes; nothing is computed while the pipeline is described. A picture
goes through one chain of operators, from `read` to what the function returns. Sizes are in pixels,
one number for a square or a pair (height, width). What an operator does not accept is a
`feedrace.Error` that names the operator, its line, and the fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from feedrace.errors import (
    as_tuple,
    check_choice,
    check_int,
    check_interval,
    check_real,
    check_size,
    check_text,
    shown,
)
from feedrace.function_operator import python_function
from feedrace.graph import Kind, Node, at, take
from feedrace.missing import missing_name
from feedrace.operator_call import (
    Call,
    add_draw,
    check_channels,
    check_factors,
    check_share,
    check_side,
    check_switch,
    check_turns,
    operator,
)

__all__ = [
    "center_crop",
    "coin_flip",
    "color_jitter",
    "crop",
    "decode",
    "flip",
    "grayscale",
    "normalize",
    "pad",
    "python_function",
    "random_crop",
    "random_erasing",
    "random_resized_crop",
    "read",
    "resize",
    "to_tensor",
    "uniform",
]

Source = str | PathLike[str] | Sequence[str | PathLike[str]]
Number = float | Node
Size = int | tuple[int, int]
Pair = tuple[float, float]
Padding = int | tuple[int, ...]
Fill = float | tuple[float, float, float]
PadMode = Literal["constant", "edge", "reflect", "symmetric"]


@operator
def read(
    call: Call,
    root: Source | None = None,
    *,
    shuffle: bool | str | None = None,
    seed: int | None = None,
    fields: Sequence[str] = ("image", "label"),
    subset: Any = None,
    sets: Any = None,
    last_batch: str | None = None,
    shuffle_chunk: int | None = None,
    shuffle_window: int | None = None,
    label_field: str | None = None,
    label_json_key: str | None = None,
    label_file: str | PathLike[str] | None = None,
    image_fields: Sequence[str] | None = None,
) -> tuple[Node, ...]:
    """Reads samples: the beginning of each pipeline.

    Args:
        root: A folder of class folders, tar shards, or a list; a path or several.
        shuffle: As `ImageLoader` has it: None, True, False, "global", "window" or "none".
        seed: Of the order and of everything that is drawn.
        fields: What each sample has: "image" (encoded), "label" (int64), "index", "key", "flag",
            and any field of the shards.
        subset, sets, last_batch, shuffle_chunk, shuffle_window, label_field, label_json_key,
            label_file, image_fields: As `ImageLoader` has them.

    Returns:
        A node for each of `fields`, in that order: ``jpeg, label = fr.fn.read(root)``.
    """
    trace = call.trace
    if trace.read is not None:
        fix = "give both sources to one: read(['a', 'b']), or read(sets=[...])"
        call.refuse(f"{at(trace.read)} reads already", fix)
    names = (fields,) if isinstance(fields, str) else as_tuple(fields)
    if not names:
        call.refuse(f"fields is {shown(fields)}", "give names, such as ('image', 'label')")
    checked = [check_text(call.where, "fields", name) for name in names or ()]
    if len(set(checked)) < len(checked):
        call.refuse(f"fields is {shown(fields)}", "name each field once")
    given = {
        "shuffle": shuffle,
        "seed": seed,
        "subset": subset,
        "sets": sets,
        "last_batch": last_batch,
        "shuffle_chunk": shuffle_chunk,
        "shuffle_window": shuffle_window,
        "label_field": label_field,
        "label_json_key": label_json_key,
        "label_file": label_file,
        "image_fields": image_fields,
    }
    trace.read_options = {name: value for name, value in given.items() if value is not None}
    trace.sources = root
    kinds: dict[str, Kind] = {"image": "encoded"}
    nodes = [call.node(kinds.get(name, "field"), name=name) for name in checked]
    trace.read = nodes[0]
    return tuple(nodes)


@operator
def decode(call: Call, encoded: Node, *, orientation: Literal["keep", "upright"] = "keep") -> Node:
    """Decodes JPEG, PNG or WebP to 8-bit RGB.

    Args:
        encoded: The "image" of `read`.
        orientation: "keep": as stored, as torchvision and Pillow do; "upright": turned by EXIF.
    """
    fix = "decode what fn.read gave as 'image', once"
    source = take(call.trace, call.where, encoded, ("encoded",), fix)
    check_choice(call.where, "orientation", orientation, ("keep", "upright"))
    made = call.node("image", step={"op": "decode", "orientation": orientation}, source=source)
    source.used_by = made
    return made


@operator
def random_resized_crop(
    call: Call,
    image: Node,
    size: Size,
    *,
    scale: Pair = (0.08, 1.0),
    ratio: Pair = (3 / 4, 4 / 3),
) -> Node:
    """Cuts a random part and resizes it (bilinear, antialiased), as torchvision's of that name.

    Args:
        size: Of the result.
        scale: Smallest and largest share of the picture's area, in (0, 1].
        ratio: Smallest and largest width divided by height, above 0.
    """
    return call.step(
        image,
        size=check_size(call.where, "size", size),
        scale=check_interval(call.where, "scale", scale, high=1, above=0),
        ratio=check_interval(call.where, "ratio", ratio, above=0),
    )


@operator
def resize(
    call: Call,
    image: Node,
    size: Size | None = None,
    *,
    shorter: int | None = None,
    longest: int | None = None,
    longer: int | None = None,
) -> Node:
    """Resizes (bilinear, antialiased). Give one of `size`, `shorter` and `longer`.

    Args:
        size: Of the result; one number is a square. torchvision's ``Resize(256)`` is
            ``shorter=256``.
        shorter: Of the shorter side; the other one follows from the picture's shape.
        longest: With `shorter`: what the longer side may have at most.
        longer: Of the longer side.
    """
    given = [
        name
        for name, value in (("size", size), ("shorter", shorter), ("longer", longer))
        if value is not None
    ]
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "no size is given"
        call.refuse(found, "give one of size, shorter and longer")
    if longest is not None and shorter is None:
        call.refuse("longest is given without shorter", "give both, or longer alone")
    if size is not None:
        return call.step(image, size=check_size(call.where, "size", size))
    if longer is not None:
        return call.step(image, longer=check_side(call, "longer", longer))
    side = check_side(call, "shorter", shorter)
    most = None if longest is None else check_side(call, "longest", longest)
    if most is not None and most <= side:
        call.refuse(f"longest is {most} and shorter {side}", "make longest the larger one")
    return call.step(image, shorter=side, longest=most)


@operator
def center_crop(call: Call, image: Node, size: Size) -> Node:
    """Cuts the middle; where the picture is smaller, zeros stand around it, as in torchvision."""
    return call.step(image, size=check_size(call.where, "size", size))


@operator
def crop(call: Call, image: Node, size: Size, *, x: Number = 0.5, y: Number = 0.5) -> Node:
    """Cuts a window.

    Args:
        size: Of the window; a picture that is smaller is a bad sample.
        x, y: Where it lies in the room that is left, each in [0, 1]: 0 is left or top, 1 right or
            bottom. ``fn.uniform()`` is anywhere.
    """
    return call.step(
        image,
        size=check_size(call.where, "size", size),
        x=check_share(call, "x", x),
        y=check_share(call, "y", y),
    )


@operator
def random_crop(
    call: Call,
    image: Node,
    size: Size,
    *,
    padding: Padding = 0,
    fill: Fill = 0,
    mode: PadMode = "constant",
) -> Node:
    """Cuts a window at a random place, each as likely, as torchvision's RandomCrop.

    Args:
        size: Of the window. A picture that is smaller, with its border, is a bad sample: put
            `resize` before it, or give `padding`. There is no pad_if_needed.
        padding, fill, mode: The border that is put around the picture first, as `pad` has it.
    """
    height, width = check_size(call.where, "size", size)
    border = _border(call, padding, fill, mode)
    if any(border[side] for side in ("left", "top", "right", "bottom")):
        image = call.step(image, op="pad", **border)
    return call.step(image, size=(height, width))


@operator
def pad(
    call: Call, image: Node, padding: Padding, *, fill: Fill = 0, mode: PadMode = "constant"
) -> Node:
    """Puts a border around the picture.

    Args:
        padding: Pixels: one number for all sides, (left and right, top and bottom), or
            (left, top, right, bottom).
        fill: Level from 0 to 255 of the border, or one each for red, green, blue.
        mode: As torchvision's Pad; `fill` is for "constant".
    """
    return call.step(image, **_border(call, padding, fill, mode))


def _border(call: Call, padding: object, fill: object, mode: object) -> dict[str, Any]:
    """What the step "pad" consists of."""
    sides = as_tuple(padding) or (padding,)
    if len(sides) not in (1, 2, 4):
        call.refuse(f"padding is {shown(padding)}", "give one number, two, or four")
    checked = [check_int(call.where, "padding", side, 0, 65535, "pixels") for side in sides]
    left, top, right, bottom = (checked * 4)[:4]
    levels = as_tuple(fill) or (fill,)
    if len(levels) not in (1, 3):
        call.refuse(f"fill is {shown(fill)}", "give one level from 0 to 255, or three")
    rgb = [check_real(call.where, "fill", level, 0, 255) for level in levels]
    modes = ("constant", "edge", "reflect", "symmetric")
    return {
        "left": left,
        "top": top,
        "right": right,
        "bottom": bottom,
        "fill": tuple((rgb * 3)[:3]),
        "mode": check_choice(call.where, "mode", mode, modes),
    }


@operator
def flip(
    call: Call,
    image: Node,
    *,
    horizontal: Number | bool = False,
    vertical: Number | bool = False,
) -> Node:
    """Mirrors the picture: left to right, top to bottom, or both.

    Args:
        horizontal, vertical: True, False, or ``fn.coin_flip(probability)``.
    """
    return call.step(
        image,
        horizontal=check_switch(call, "horizontal", horizontal),
        vertical=check_switch(call, "vertical", vertical),
    )


@operator
def grayscale(call: Call, image: Node, *, apply: Number | bool = True) -> Node:
    """Makes red, green and blue equal to the picture's luma, as Pillow's mode L has it.

    Args:
        apply: True, False, or ``fn.coin_flip(probability)``.
    """
    return call.step(image, apply=check_switch(call, "apply", apply))


@operator
def color_jitter(
    call: Call,
    image: Node,
    *,
    brightness: float | Pair | None = None,
    contrast: float | Pair | None = None,
    saturation: float | Pair | None = None,
    hue: float | Pair | None = None,
    apply: Number | bool = True,
) -> Node:
    """Changes the colours by random factors, in random order, as torchvision's ColorJitter.

    Args:
        brightness, contrast, saturation: A number b draws the factor from [max(0, 1 - b), 1 + b];
            a pair is that range itself, from 0 up.
        hue: A number h in [0, 0.5] turns it by [-h, h] of the circle; a pair is that range.
        apply: True, False, or ``fn.coin_flip(probability)``.
    """
    factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    ranges: dict[str, Any] = {
        name: check_factors(call, name, value) for name, value in factors.items()
    }
    ranges["hue"] = check_turns(call, hue)
    if all(value is None for value in ranges.values()):
        call.refuse("nothing is changed", "give brightness, contrast, saturation or hue")
    return call.step(image, **ranges, apply=check_switch(call, "apply", apply))


@operator
def normalize(
    call: Call, image: Node, mean: float | Sequence[float], std: float | Sequence[float]
) -> Node:
    """(value - mean) / std of values in [0, 1], RGB. Behind it only random_erasing and to_tensor.

    Args:
        mean, std: One number for each channel, or one for all; of values in [0, 1], not of levels.
    """
    means = check_channels(call, "mean", mean)
    stds = check_channels(call, "std", std, above=0)
    if not all(0 <= value <= 1 for value in means):
        fix = "means are of values in [0, 1]; divide those of levels by 255, and std likewise"
        call.refuse(f"mean is {shown(mean)}", fix)
    return call.step(image, "normalized", ("image", "erased"), mean=means, std=stds)


@operator
def random_erasing(
    call: Call,
    image: Node,
    *,
    probability: float = 0.5,
    scale: Pair = (0.02, 0.33),
    ratio: Pair = (0.3, 3.3),
    value: float | tuple[float, float, float] | Literal["random"] = 0,
) -> Node:
    """Overwrites a random rectangle, as torchvision's RandomErasing.

    Args:
        probability: That a picture loses one, in [0, 1].
        scale: Smallest and largest share of the area, in (0, 1].
        ratio: Smallest and largest width divided by height, above 0.
        value: One number or one for each channel, in [0, 1], or in the units of `normalize` behind
            it; "random" draws each element from a standard normal distribution.
    """
    if isinstance(value, str):
        check_choice(call.where, "value", value, ("random",))
        written: Any = value
    else:
        written = check_channels(call, "value", value)
    members = {
        "probability": check_real(call.where, "probability", probability, 0, 1),
        "scale": check_interval(call.where, "scale", scale, high=1, above=0),
        "ratio": check_interval(call.where, "ratio", ratio, above=0),
        "value": written,
    }
    is_normalized = isinstance(image, Node) and image.kind == "normalized"
    result: Kind = "normalized" if is_normalized else "erased"
    return call.step(image, result, ("image", "erased", "normalized"), **members)


@operator
def to_tensor(
    call: Call,
    image: Node,
    *,
    dtype: Any = "float32",
    layout: Literal["CHW", "HWC"] = "CHW",
) -> Node:
    """The end of the picture's chain: element type and layout of the batch's tensor.

    Left out, it is float32 CHW.

    Args:
        dtype: "float16", "float32" or "uint8", or torch's or NumPy's name for it. Without
            `normalize`, floats are in [0, 1] and uint8 in 0..255.
        layout: "CHW": [N, 3, H, W]; "HWC": [N, H, W, 3].
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    if name not in ("float16", "float32", "uint8"):
        check_choice(call.where, "dtype", dtype, ("float16", "float32", "uint8"))
    check_choice(call.where, "layout", layout, ("CHW", "HWC"))
    if name == "uint8" and isinstance(image, Node) and image.kind == "normalized":
        fix = "take float16 or float32, or leave normalize out"
        call.refuse(f"dtype is 'uint8' behind {at(image)}", fix)
    takes: tuple[Kind, ...] = ("image", "erased", "normalized")
    return call.step(image, "tensor", takes, dtype=name, layout=layout)


@operator
def coin_flip(call: Call, probability: float = 0.5) -> Node:
    """1 with this probability, else 0; drawn for each sample, from (seed, epoch, sample)."""
    return add_draw(
        call, draw="coin_flip", probability=check_real(call.where, "probability", probability, 0, 1)
    )


@operator
def uniform(call: Call, low: float = 0.0, high: float = 1.0) -> Node:
    """A number from [low, high), drawn for each sample, from (seed, epoch, sample)."""
    return add_draw(
        call, draw="uniform", range=check_interval(call.where, "(low, high)", (low, high))
    )


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        fix = "python_function calls a function of yours, on pictures or on batches"
        raise missing_name("feedrace.fn", name, __all__, fix)
