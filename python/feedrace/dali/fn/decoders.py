# SPDX-License-Identifier: Apache-2.0
"""Encoded bytes to pictures: JPEG, PNG and WebP, by their content, as 8-bit RGB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrace import errors
from feedrace.dali import nodes, operators, types
from feedrace.dali.fn import geometry

_HINTS = (
    "affine",
    "device_memory_padding",
    "device_memory_padding_jpeg2k",
    "host_memory_padding",
    "host_memory_padding_jpeg2k",
    "hybrid_huffman_threshold",
    "memory_stats",
    "preallocate_height_hint",
    "preallocate_width_hint",
    "split_stages",
    "use_chunk_allocator",
    "jpeg_fancy_upsampling",  # Of DALI's GPU decoder; chroma is always interpolated here.
)
_CACHE_HINTS = ("cache_batch_copy", "cache_debug", "cache_size", "cache_threshold", "cache_type")
_ONLY = {
    "output_type": (types.RGB,),
    "dtype": (types.UINT8, None),
    "use_fast_idct": (False,),
}


def _decode(name: str, encoded: Any, adjust_orientation: Any, hw_decoder_load: Any) -> nodes.Images:
    if not isinstance(encoded, nodes.Encoded):
        found = encoded.kind if isinstance(encoded, nodes.DataNode) else errors.shown(encoded)
        fix = "it takes the first output of fn.readers.file or fn.readers.webdataset"
        raise errors.invalid(name, f"its input is {found}", fix)
    is_upright = errors.check_bool(name, "adjust_orientation", adjust_orientation)
    if hw_decoder_load is not None:
        share = errors.check_real(name, "hw_decoder_load", hw_decoder_load, 0, 1)
        nodes.current(name).hardware_share = share
    step = {"op": "decode", "orientation": "upright" if is_upright else "keep"}
    return nodes.Images(encoded, (step,))


@operators.operator("fn.decoders.image", hints=(*_HINTS, *_CACHE_HINTS), only=_ONLY)
def image(
    encoded: Any, *, adjust_orientation: bool = True, hw_decoder_load: Any = None
) -> nodes.Images:
    """uint8 HWC pictures; `adjust_orientation`: turned upright by their EXIF tag.

    `hw_decoder_load`: share of the encoded bytes for a GPU's JPEG engine; None: 0.65.
    """
    return _decode("fn.decoders.image", encoded, adjust_orientation, hw_decoder_load)


@operators.operator(
    "fn.decoders.image_crop",
    hints=(*_HINTS, "rounding"),
    only={**_ONLY, "crop_d": (0.0, 0), "crop_pos_z": (0.5,)},
)
def image_crop(
    encoded: Any,
    *,
    crop: Any = None,
    crop_h: Any = 0.0,
    crop_w: Any = 0.0,
    crop_pos_x: Any = 0.5,
    crop_pos_y: Any = 0.5,
    adjust_orientation: bool = True,
    hw_decoder_load: Any = None,
) -> nodes.Images:
    """A part of (height, width) pixels; only what it needs is decoded."""
    name = "fn.decoders.image_crop"
    node = _decode(name, encoded, adjust_orientation, hw_decoder_load)
    sides = geometry.sides_of_crop(name, crop, crop_h, crop_w)
    if sides is None:
        raise errors.invalid(name, "no size is given", "give crop=(height, width)")
    return geometry.cut(name, node, sides, crop_pos_x, crop_pos_y)


@operators.operator("fn.decoders.image_random_crop", hints=_HINTS, only=_ONLY)
def image_random_crop(
    encoded: Any,
    *,
    random_area: Any = (0.08, 1.0),
    random_aspect_ratio: Any = (3 / 4, 4 / 3),
    num_attempts: int = 10,
    adjust_orientation: bool = True,
    hw_decoder_load: Any = None,
) -> nodes.Images:
    """A part of random place and size, for fn.resize, which has to follow, to bring to one size."""
    name = "fn.decoders.image_random_crop"
    node = _decode(name, encoded, adjust_orientation, hw_decoder_load)
    step = geometry.random_crop_step(name, random_area, random_aspect_ratio, num_attempts)
    return node.then(random_crop=step)


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> operators.MissingModule:
        return operators.missing(__name__, name)
