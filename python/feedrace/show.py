# SPDX-License-Identifier: Apache-2.0
"""A picture of a batch, for eyes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from feedrace.errors import check_int, check_names, check_path, error, invalid, shown

if TYPE_CHECKING:
    from PIL.Image import Image

    from feedrace.loader import ImageLoader

__all__ = ["show"]

_WHERE = "fr.show"
_GAP_PX = 4
_CAPTION_PX = 12  # Height of Pillow's built-in font.
_BACKGROUND = (255, 255, 255)
_INK = (0, 0, 0)


def show(
    batch: Any,
    classes: Sequence[str] | None = None,
    path: str | PathLike[str] | None = None,
    *,
    loader: ImageLoader | None = None,
    limit: int = 64,
    **others: NoReturn,
) -> Image:
    """The pictures of a batch side by side, with their labels, as one Pillow image.

    Args:
        batch: What the loop got: (images, labels, ...), or images alone; of torch, NumPy or JAX,
            [N, 3, H, W] or [N, H, W, 3], a list of [3, H, W] or [H, W, 3], or `Jagged`.
        classes: Names by label. None: those of `loader`, else the numbers.
        path: Where to write it as well; the ending says in which format.
        loader: The batch's loader, whose normalisation is undone. Without it, floats that do not
            lie in [0, 1] are taken as normalized by ImageNet's mean and std.
        limit: Pictures at most.

    Raises:
        Error: There are no pictures in it, or Pillow is not installed ("unsupported").
    """
    check_names(_WHERE, "argument", others, ("batch", "classes", "path", "loader", "limit"))
    try:
        from PIL import Image
    except ImportError:
        found = f"{_WHERE}: it draws with Pillow, which is not installed; pip install pillow"
        raise error("unsupported", found) from None

    images, labels = _parts(batch, loader)
    count = min(len(images), check_int(_WHERE, "limit", limit, 1))
    names = classes if classes is not None else (loader.classes if loader is not None else ())
    scale = _normalization(loader)
    tiles = [Image.fromarray(_levels(images[i], scale)) for i in range(count)]
    captions = [_caption(labels, names, i) for i in range(count)]
    sheet = _sheet(tiles, captions)
    if path is not None:
        sheet.save(check_path(_WHERE, "path", path))
    return sheet


def _parts(batch: Any, loader: Any) -> tuple[Any, Any]:
    """Images and labels of a batch, by the loader's fields, else by place."""
    if not isinstance(batch, tuple):
        images, labels = batch, None
    else:
        fields = getattr(loader, "fields", ("image", "label"))
        members = dict(zip(fields, batch, strict=False))
        images, labels = members.get("image", batch[0] if batch else None), members.get("label")
    if not hasattr(images, "__len__") or not len(images) or not hasattr(images[0], "shape"):
        fix = "give it what the loop got, with images in it"
        raise invalid(_WHERE, f"the batch is {shown(batch)}", fix)
    return images, labels


def _normalization(loader: Any) -> tuple[Any, Any] | None:
    """Mean and std of the loader; None where there is no loader to know them."""
    if loader is None:
        return None
    step = loader.transform.step("normalize")
    return (step["mean"], step["std"]) if step else ((0.0,) * 3, (1.0,) * 3)


def _levels(image: Any, scale: tuple[Any, Any] | None) -> Any:
    """A picture as uint8 [H, W, 3]."""
    import numpy as np

    from feedrace import IMAGENET_MEAN, IMAGENET_STD

    if hasattr(image, "detach"):
        image = image.detach().cpu()
    array = np.asarray(image)
    if array.ndim != 3 or 3 not in (array.shape[0], array.shape[2]):
        found = f"a picture has shape {tuple(array.shape)}"
        raise invalid(_WHERE, found, "it must be [3, H, W] or [H, W, 3]")
    if array.shape[2] != 3:
        array = array.transpose(1, 2, 0)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    values = array.astype(np.float32)
    if scale is None and (values.min() < 0 or values.max() > 1):
        scale = (IMAGENET_MEAN, IMAGENET_STD)
    if scale is not None:
        values = values * np.float32(scale[1]) + np.float32(scale[0])
    return (values.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _caption(labels: Any, names: Sequence[str], place: int) -> str:
    if labels is None:
        return ""
    number = int(labels[place])
    return str(names[number]) if 0 <= number < len(names) else str(number)


def _sheet(tiles: list[Image], captions: list[str]) -> Image:
    from PIL import Image, ImageDraw

    columns = math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    width = max(tile.width for tile in tiles)
    line = _CAPTION_PX if any(captions) else 0
    height = max(tile.height for tile in tiles) + line
    size = (_GAP_PX + columns * (width + _GAP_PX), _GAP_PX + rows * (height + _GAP_PX))
    sheet = Image.new("RGB", size, _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    for i, (tile, caption) in enumerate(zip(tiles, captions, strict=True)):
        left = _GAP_PX + i % columns * (width + _GAP_PX)
        top = _GAP_PX + i // columns * (height + _GAP_PX)
        sheet.paste(tile, (left, top + line))
        if caption:
            draw.text((left, top), _fitting(draw, caption, width), fill=_INK)
    return sheet


def _fitting(draw: Any, text: str, width: int) -> str:
    """As much of a caption as its picture is wide; what Pillow's font lacks becomes "?"."""
    text = text.encode("latin-1", "replace").decode("latin-1")
    while len(text) > 1 and draw.textlength(text) > width:
        text = text[:-1]
    return text
