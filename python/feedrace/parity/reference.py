# SPDX-License-Identifier: Apache-2.0
"""What Pillow, or torchvision on PIL images, makes of a picture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedrace.errors import error

if TYPE_CHECKING:
    import numpy
    from PIL import Image

# Above it Pillow itself refuses a file; a resized picture would take as much.
MAX_PIXELS = 178_956_970


class NotComparableError(Exception):
    """A file of which there is no reference; the text is the reason."""


@dataclass(frozen=True)
class Tolerance:
    """Differences in levels of 0 to 255 that are within what is promised for a file."""

    largest: float
    mean: float

    def __add__(self, other: Tolerance) -> Tolerance:
        return Tolerance(self.largest + other.largest, self.mean + other.mean)

    def covers(self, difference: numpy.ndarray) -> bool:
        """Whether absolute differences are within it."""
        mean = difference.mean(dtype=float) if difference.size else 0
        return difference.max(initial=0) <= self.largest and mean <= self.mean


EXACT = Tolerance(0, 0)
# Two builds of libjpeg-turbo or libwebp may round in another way. Pillow converts CMYK in integers.
_ROUNDING = Tolerance(2, 0.25)
_CMYK = Tolerance(4, 0.7)
# Pillow keeps the upper byte of 16 bits, Feedrace rounds.
_16_BITS = Tolerance(1, 1)
# Widths and heights resized in another order are rounded in another way in between.
_OTHER_ORDER = Tolerance(1, 1)
_FIRST_PILLOW_WITH_ORDERS = 13


class Reference:
    """Pillow, with torchvision's arithmetic for sizes and boxes where it can be imported.

    Raises:
        feedrace.Error: "unsupported": Pillow or NumPy is not installed.
    """

    def __init__(self) -> None:
        try:
            import numpy
            import PIL.Image
        except ImportError as cause:
            found = f"the reference does not import ({cause})"
            raise error("unsupported", f"parity: {found}; pip install pillow numpy") from cause
        self._pil = PIL.Image
        self._major = int(PIL.__version__.partition(".")[0])
        self.versions = {"Pillow": PIL.__version__, "NumPy": numpy.__version__}
        self._functional = _import_functional()
        if self._functional is not None:
            import torchvision

            self.versions["torchvision"] = torchvision.__version__

    def decode(self, path: Path) -> tuple[Image.Image, Tolerance]:
        """The picture as RGB, not turned, and how close a decoder must come to it.

        Raises:
            NotComparableError: Pillow can't read it, or gives it another meaning.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self._pil.open(path) as picture:
                    if picture.mode.startswith(("I", "F")):
                        raise NotComparableError("16 bits of grey, which Pillow clips to 8")
                    tolerance = _tolerance(picture, path)
                    return picture.convert("RGB"), tolerance
        except NotComparableError:
            raise
        except Exception as cause:  # Pillow raises what its decoders do, SyntaxError among it.
            raise NotComparableError(f"Pillow: {' '.join(str(cause).split())}") from cause

    def resized_middle(
        self, picture: Image.Image, shorter: int, size: int
    ) -> tuple[Image.Image, Tolerance]:
        """Resize by the shorter side, then CenterCrop; and how close one must come to it.

        Raises:
            NotComparableError: The resized picture would be too large to be held.
        """
        width, height = _shorter_side(picture.size, shorter)
        if width * height > MAX_PIXELS:
            raise NotComparableError(f"resized it would have {width} x {height} pixels")
        tolerance = self._order_tolerance(picture.size, (width, height))
        if self._functional is not None:
            resized = self._functional.resize(picture, [shorter])
            return self._functional.center_crop(resized, [size, size]), tolerance
        resized = picture.resize((width, height), self._pil.Resampling.BILINEAR)
        left, top = round((width - size) / 2.0), round((height - size) / 2.0)
        return resized.crop((left, top, left + size, top + size)), tolerance

    def resized_crop(
        self, picture: Image.Image, box: Any, size: int
    ) -> tuple[Image.Image, Tolerance]:
        """The box (left, top, width, height) resized to a square; and how close one must come."""
        left, top, width, height = box
        tolerance = self._order_tolerance((width, height), (size, size))
        if self._functional is not None:
            resized = self._functional.resized_crop(picture, top, left, height, width, [size, size])
            return resized, tolerance
        cut = picture.crop((left, top, left + width, top + height))
        return cut.resize((size, size), self._pil.Resampling.BILINEAR), tolerance

    def flipped(self, picture: Image.Image) -> Image.Image:
        """Left to right."""
        return picture.transpose(self._pil.Transpose.FLIP_LEFT_RIGHT)

    def _order_tolerance(self, before: tuple[int, int], behind: tuple[int, int]) -> Tolerance:
        """Pillow begins with the width, as Feedrace does; from 13 on with the height where that
        shrinks by more than twice as many pixels as the width."""
        width_loss, height_loss = (old - new for old, new in zip(before, behind, strict=True))
        height_first = height_loss > 0 and height_loss > 2 * width_loss
        is_other = self._major >= _FIRST_PILLOW_WITH_ORDERS and height_first
        return _OTHER_ORDER if is_other else EXACT


def _import_functional() -> Any | None:
    """torchvision's functions; None where it is absent or built for another torch."""
    try:
        from torchvision.transforms.v2 import functional
    except (ImportError, RuntimeError, OSError):
        return None
    return functional


def _tolerance(picture: Image.Image, path: Path) -> Tolerance:
    if picture.mode == "CMYK":
        return _CMYK
    if picture.format == "PNG":
        with path.open("rb") as file:
            # Signature, length and name of the first chunk, width, height, then the bit depth.
            return _16_BITS if file.read(25)[24] == 16 else EXACT
    return _ROUNDING


def _shorter_side(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Width and height as torchvision's Resize(shorter) computes them."""
    width, height = size
    if width <= height:
        return shorter, int(shorter * height / width)
    return int(shorter * width / height), shorter
