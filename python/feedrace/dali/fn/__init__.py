# SPDX-License-Identifier: Apache-2.0
"""DALI's operators, as far as feedrace has them. Any other name says what there is.

Pixels are what `feedrace` makes everywhere: decoded as libjpeg-turbo does, resized as Pillow does
(bilinear, antialiased). DALI decodes the same; its resize clamps at the picture's edge where
Pillow narrows the filter, and with `subpixel_scale` it shifts by less than a pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrace import errors
from feedrace.dali import nodes, operators, types
from feedrace.dali.fn import decoders, geometry, random, readers
from feedrace.dali.fn.geometry import crop, flip, random_resized_crop, resize
from feedrace.dali.fn.random import coin_flip, uniform

__all__ = [
    "cast",
    "coin_flip",
    "copy",
    "crop",
    "crop_mirror_normalize",
    "decoders",
    "flip",
    "random",
    "random_resized_crop",
    "readers",
    "reshape",
    "resize",
    "squeeze",
    "transpose",
    "uniform",
]

_WHITE = 255.0
_FLOATS = (types.FLOAT, types.FLOAT16)


def _as_levels(dtype: types.DALIDataType) -> list[nodes.Step]:
    """Steps that keep floats at 0..255, where feedrace's own are in [0, 1]."""
    if dtype is types.UINT8:
        return []
    return [{"op": "normalize", "mean": [0.0] * 3, "std": [1 / _WHITE] * 3}]


@operators.operator(
    "fn.crop_mirror_normalize",
    hints=("rounding", "image_type"),
    only={
        "crop_d": (0.0, 0),
        "crop_pos_z": (0.5,),
        "fill_values": (0.0, 0, None),
        "out_of_bounds_policy": ("error",),
        "output_dtype": (None,),
        "pad_output": (False,),
    },
)
def crop_mirror_normalize(
    images: Any,
    *,
    mean: Any = 0.0,
    std: Any = 1.0,
    scale: float = 1.0,
    shift: float = 0.0,
    mirror: Any = 0,
    crop: Any = None,
    crop_h: Any = 0.0,
    crop_w: Any = 0.0,
    crop_pos_x: Any = 0.5,
    crop_pos_y: Any = 0.5,
    dtype: types.DALIDataType = types.FLOAT,
    output_layout: str = "CHW",
) -> nodes.Images:
    """Crops, flips and gives (x - mean) / std * scale + shift of x in 0..255 as a tensor.

    Args:
        images: uint8 pictures.
        mean, std: One number, or three in the order R, G, B, in units of 0..255.
        mirror: 0, 1, or `fn.random.coin_flip`: flipped left to right.
        crop: Height and width in pixels; not given: nothing is cut.
        crop_pos_x, crop_pos_y: Where, in [0, 1] of the room that is left; 0.5 is the middle.
        dtype: FLOAT, FLOAT16, or UINT8 without mean, std, scale and shift.
        output_layout: "CHW" or "HWC".
    """
    name = "fn.crop_mirror_normalize"
    node = operators.images(name, images)
    operators.dtype(name, "dtype", dtype, (types.FLOAT, types.FLOAT16, types.UINT8))
    errors.check_choice(name, "output_layout", output_layout, ("CHW", "HWC"))
    sides = geometry.sides_of_crop(name, crop, crop_h, crop_w)
    if sides is not None:
        node = geometry.cut(name, node, sides, crop_pos_x, crop_pos_y)
    node = geometry.turn(name, node, "mirror", mirror, 0)
    steps = _normalization(name, mean, std, scale, shift, dtype)
    return node.then(*steps, dtype=dtype, layout=output_layout)


def _normalization(
    name: str, mean: Any, std: Any, scale: Any, shift: Any, dtype: types.DALIDataType
) -> list[nodes.Step]:
    means = _channels(name, "mean", mean)
    stds = _channels(name, "std", std, above=0.0)
    factor = errors.check_real(name, "scale", scale, above=0.0)
    offset = errors.check_real(name, "shift", shift)
    if dtype is types.UINT8:
        if (*means, *stds, factor, offset) != (0.0,) * 3 + (1.0,) * 4 + (0.0,):
            fix = "leave out mean, std, scale and shift, or take types.FLOAT or types.FLOAT16"
            raise errors.unsupported(name, "types.UINT8 of normalized values", fix)
        return []
    # (x - mean) / std * scale + shift = (x - (mean - shift * std / scale)) / (std / scale)
    divisors = [one / factor for one in stds]
    centres = [one - offset * divisor for one, divisor in zip(means, divisors, strict=True)]
    return [
        {
            "op": "normalize",
            "mean": [one / _WHITE for one in centres],
            "std": [one / _WHITE for one in divisors],
        }
    ]


def _channels(name: str, key: str, value: Any, above: float | None = None) -> tuple[float, ...]:
    items = errors.as_tuple(value)
    if items is None or len(items) == 1:
        one = errors.check_real(name, key, items[0] if items else value, above=above)
        return (one,) * 3
    return errors.check_numbers(name, key, items, 3, above=above)


@operators.operator("fn.cast")
def cast(node: Any, *, dtype: types.DALIDataType) -> nodes.DataNode:
    """Pictures as FLOAT or FLOAT16 in 0..255; labels as INT32, INT64 or another whole number."""
    name = "fn.cast"
    if isinstance(node, nodes.Labels):
        whole = (types.INT32, types.INT64, types.UINT8, types.INT16, *_FLOATS)
        return nodes.Labels(
            node.reader, operators.dtype(name, "dtype", dtype, whole), node.is_squeezed
        )
    pictures = operators.images(name, node, needs_pixels=False)
    if pictures.dtype is types.UINT8:
        operators.dtype(name, "dtype", dtype, (*_FLOATS, types.UINT8))
        return pictures.then(*_as_levels(dtype), dtype=dtype)
    return pictures.then(dtype=operators.dtype(name, "dtype", dtype, _FLOATS))


@operators.operator("fn.transpose", only={"transpose_layout": (True,), "output_layout": (None,)})
def transpose(images: Any, *, perm: Any) -> nodes.Images:
    """HWC pictures to CHW by [2, 0, 1], and back by [1, 2, 0]."""
    name = "fn.transpose"
    node = operators.images(name, images, needs_pixels=False)
    layouts = {("HWC", (2, 0, 1)): "CHW", ("CHW", (1, 2, 0)): "HWC"}
    layout = layouts.get((node.layout, errors.as_tuple(perm) or ()))
    if layout is None:
        found = f"perm={errors.shown(perm)} of {node.layout}"
        fix = "feedrace.dali has [2, 0, 1] of HWC and [1, 2, 0] of CHW"
        raise errors.unsupported(name, found, fix)
    return node.then(layout=layout)


@operators.operator("fn.squeeze", only={"axis_names": (None,)})
def squeeze(labels: Any, *, axes: Any) -> nodes.Labels:
    """Labels [N, 1] as [N], by axes=0: samples do not count as an axis."""
    name = "fn.squeeze"
    if errors.as_tuple(axes) not in ((0,), None) or (errors.as_tuple(axes) is None and axes != 0):
        raise errors.unsupported(name, f"axes={errors.shown(axes)}", "feedrace.dali has axes=0")
    return _scalars(name, labels)


@operators.operator(
    "fn.reshape", only={"layout": (None,), "rel_shape": (None,), "src_dims": (None,)}
)
def reshape(labels: Any, *, shape: Any) -> nodes.Labels:
    """Labels [N, 1] as [N], by shape=[]."""
    name = "fn.reshape"
    if errors.as_tuple(shape) != ():
        raise errors.unsupported(name, f"shape={errors.shown(shape)}", "feedrace.dali has shape=[]")
    return _scalars(name, labels)


def _scalars(name: str, node: Any) -> nodes.Labels:
    if not isinstance(node, nodes.Labels):
        found = node.kind if isinstance(node, nodes.DataNode) else errors.shown(node)
        raise errors.unsupported(name, f"its input is {found}", "feedrace.dali has it of labels")
    return nodes.Labels(node.reader, node.dtype, is_squeezed=True)


@operators.operator("fn.copy")
def copy(node: Any) -> nodes.DataNode:
    """The same node: what an iterator gives is the user's own."""
    if not isinstance(node, nodes.DataNode):
        fix = "it takes an output of an operator"
        raise errors.invalid("fn.copy", f"its input is {errors.shown(node)}", fix)
    return node


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> operators.MissingModule:
        return operators.missing(__name__, name)
