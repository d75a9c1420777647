# SPDX-License-Identifier: Apache-2.0
"""A picture of a batch, for eyes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from feedrace._feedrace import DeviceArray
from feedrace.errors import (
    as_tuple,
    check_int,
    check_names,
    check_path,
    check_text,
    error,
    invalid,
    shown,
    text_of,
)

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
    *extra: NoReturn,
    loader: ImageLoader | None = None,
    limit: int = 64,
    **others: NoReturn,
) -> Image:
    """The pictures of a batch side by side, with their labels, as one Pillow image.

    Args:
        batch: What the loop got: (images, labels, ...), or images alone; of torch, NumPy or JAX,
            [N, 3, H, W] or [N, H, W, 3], a list of [3, H, W] or [H, W, 3], or `Jagged`; uint8 or
            finite floats.
        classes: Names by label. None: those of `loader`, else the numbers.
        path: Where to write it as well; the ending says in which format.
        loader: The batch's loader, whose normalisation is undone. Without it, floats that do not
            lie in [0, 1] are taken as normalized by ImageNet's mean and std.
        limit: Pictures at most.

    Raises:
        Error: There are no pictures in it, its labels are no whole numbers, it can't be written
            ("io"), or Pillow is not installed ("unsupported").
    """
    check_names(_WHERE, "argument", others, ("batch", "classes", "path", "loader", "limit"))
    if extra:
        found = f"{3 + len(extra)} arguments without a name"
        raise invalid(_WHERE, found, "name those behind batch, classes and path: loader=loader")
    try:
        from PIL import Image
    except ImportError:
        found = f"{_WHERE}: it draws with Pillow, which is not installed; pip install pillow"
        raise error("unsupported", found) from None

    names = _names(classes, loader)
    target = None if path is None else check_path(_WHERE, "path", path)
    most = check_int(_WHERE, "limit", limit, 1)
    images, labels = _parts(batch, loader)
    count = min(len(images), most)
    scale = _normalization(loader)
    tiles = [Image.fromarray(_levels(images[i], scale)) for i in range(count)]
    captions = [_caption(labels, names, i) for i in range(count)]
    sheet = _sheet(tiles, captions)
    if target is not None:
        _write(sheet, target)
    return sheet


def _names(classes: Any, loader: Any) -> Sequence[str]:
    """Names by label, as far as they are known."""
    if loader is not None and not (hasattr(loader, "fields") and hasattr(loader, "transform")):
        found = f"loader is {shown(loader)}"
        raise invalid(_WHERE, found, "give the ImageLoader that the batch came from, or none")
    if classes is None:
        return () if loader is None else loader.classes
    names = as_tuple(classes)
    if names is None:
        raise invalid(_WHERE, f"classes is {shown(classes)}", "give a list of names, by label")
    return [check_text(_WHERE, f"classes[{i}]", name) for i, name in enumerate(names)]


def _parts(batch: Any, loader: Any) -> tuple[Any, Any]:
    """Images and labels of a batch, by the loader's fields, else by place."""
    # A DataLoader makes lists of tuples; a list of pictures has 3 dimensions in each.
    is_tuple = isinstance(batch, tuple) or (
        isinstance(batch, list) and len(batch) > 0 and getattr(batch[0], "ndim", 4) != 3
    )
    if is_tuple:
        fields = getattr(loader, "fields", ("image", "label"))
        members: dict[str, Any] = dict(zip(fields, batch, strict=False))
        images: Any = members.get("image", batch[0] if batch else None)
        labels = members.get("label")
    else:
        images, labels = batch, None
    images, labels = (v.numpy() if isinstance(v, DeviceArray) else v for v in (images, labels))
    try:
        is_some = len(images) > 0 and hasattr(images[0], "shape")
    except Exception:  # Whatever an object throws that only looks like a list.
        is_some = False
    if not is_some:
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

    array = _array(image)
    if array.ndim != 3 or 3 not in (array.shape[0], array.shape[2]) or array.size == 0:
        found = f"a picture has shape {tuple(array.shape)}"
        raise invalid(_WHERE, found, "it must be [3, H, W] or [H, W, 3]")
    if array.shape[2] != 3:
        array = array.transpose(1, 2, 0)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    # By name: NumPy counts bfloat16 among the types that it does not know.
    if "float" not in array.dtype.name:
        found = f"a picture is of {array.dtype.name}"
        raise invalid(_WHERE, found, "give uint8 (levels 0 to 255) or floats")
    with np.errstate(over="ignore"):  # What float32 can't hold is found to be infinite below.
        values = array.astype(np.float32)
    if not np.isfinite(values).all():
        count = values.size - np.count_nonzero(np.isfinite(values))
        found = f"a picture has {count} of {values.size} values that are NaN or infinite"
        raise invalid(_WHERE, found, "look at what made them; batches of the loader have none")
    if scale is None and (values.min() < 0 or values.max() > 1):
        scale = (IMAGENET_MEAN, IMAGENET_STD)
    if scale is not None:
        values = values * np.float32(scale[1]) + np.float32(scale[0])
    return (values.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _array(image: Any) -> Any:
    """A picture as an array of NumPy, with the elements that it has."""
    import numpy as np

    try:
        if hasattr(image, "detach"):
            image = image.detach().cpu()
            # NumPy has no bfloat16 that torch could hand over.
            image = image.float() if image.is_floating_point() else image
        return np.asarray(image)
    except Exception as e:  # Whatever a foreign array throws that has no plain memory.
        reason = text_of(e)
        fix = "give arrays of torch, NumPy or JAX"
        raise invalid(_WHERE, f"a picture is {shown(image)} ({reason})", fix) from e


def _caption(labels: Any, names: Sequence[str], place: int) -> str:
    if labels is None:
        return ""
    fix = "labels must be whole numbers, one a picture; give the images alone to leave them out"
    try:
        label = labels[place]
    except Exception as e:  # Whatever indexing throws of what is no list, or is too short.
        raise invalid(_WHERE, f"picture {place} has no label in {shown(labels)}", fix) from e
    try:
        number = operator.index(label)
    except Exception as e:
        raise invalid(_WHERE, f"the label of picture {place} is {shown(label)}", fix) from e
    return str(names[number]) if 0 <= number < len(names) else str(number)


def _write(sheet: Image, path: str) -> None:
    try:
        sheet.save(path)
    except OSError as e:
        reason = e.strerror or e
        found = f"{_WHERE}: {path!r} can't be written ({reason}); give a path that can"
        raise error("io", found) from e
    except (ValueError, KeyError) as e:
        reason = text_of(e)
        raise invalid(_WHERE, f"path is {path!r} ({reason})", "let it end with .png or .jpg") from e


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
