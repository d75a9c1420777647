# SPDX-License-Identifier: Apache-2.0
"""Runs Feedrace and the reference side by side."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedrace.calls import checked
from feedrace.errors import check_choice, check_int, check_path
from feedrace.parity.files import Picture, find_pictures
from feedrace.parity.reference import EXACT, NotComparableError, Reference, Tolerance
from feedrace.parity.report import Report, StepResult
from feedrace.parity.streams import Stream, link_all

if TYPE_CHECKING:
    import numpy
    from PIL import Image

TRANSFORMS = ("decode", "imagenet-val", "imagenet-train")
_RESIZE_PX, _CROP_PX = 256, 224
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

_DECODE = {"op": "decode", "orientation": "keep"}
_BYTES = {"op": "to_tensor", "dtype": "uint8", "layout": "HWC"}
_NORMALIZE = {"op": "normalize", "mean": _MEAN, "std": _STD}
_HALVES = {"op": "to_tensor", "dtype": "float16", "layout": "HWC"}
_MIDDLE = (
    {"op": "resize", "shorter": _RESIZE_PX, "longest": None},
    {"op": "center_crop", "size": (_CROP_PX, _CROP_PX)},
)
_COIN = {"draw": "coin_flip", "probability": 0.5, "id": 0}
_AT_RANDOM = (
    {
        "op": "random_resized_crop",
        "size": (_CROP_PX, _CROP_PX),
        "scale": (0.08, 1.0),
        "ratio": (3 / 4, 4 / 3),
    },
    {"op": "flip", "horizontal": _COIN, "vertical": 0.0},
)


@checked("compare")
def compare(
    source: str | os.PathLike[str], *, limit: int = 200, transform: str | None = None
) -> Report:
    """Compares pixels on a user's own files.

    Args:
        source: A folder in which pictures lie in any depth, a tar shard, or a folder of shards.
        limit: How many pictures at most, at even distances; of shards the first ones of each.
        transform: "decode": decoding alone. "imagenet-val": also resizing and cropping, and the
            normalised float16 tensor. "imagenet-train": the same with random crops, flipped or
            not. None: all steps.

    Returns:
        The report; `report.is_within` says whether all differences are within what is promised.

    Raises:
        feedrace.Error: "not_found", "io", "corrupt_data" (of a shard), "invalid_argument";
            "unsupported" without Pillow.
    """
    root = Path(check_path("parity", "source", source))
    check_int("parity", "limit", limit, 1, unit="pictures")
    check_choice("parity", "transform", transform, (*TRANSFORMS, None))
    reference = Reference()
    with tempfile.TemporaryDirectory(prefix="feedrace-parity-") as scratch:
        pictures, found = find_pictures(root, limit, Path(scratch))
        listed = link_all(pictures, Path(scratch))
        checks: list[_CropCheck] = []
        with ExitStack() as open_streams:
            decoded = Stream(listed, (_DECODE, _BYTES), "decode")
            open_streams.callback(decoded.close)
            normalize = StepResult("normalize", "rounded to float16")
            for kind in (_MiddleCheck, _RandomCheck):
                if transform in (None, kind.transform):
                    checks.append(kind(listed, reference, normalize))
                    open_streams.callback(checks[-1].close)
            decode, skipped = _run(pictures, reference, decoded, checks)
    steps = [decode, *(check.result for check in checks), *([normalize] if checks else [])]
    return Report(str(root), found, len(pictures), reference.versions, steps, skipped)


def _run(
    pictures: Sequence[Picture],
    reference: Reference,
    decoded: Stream,
    checks: Sequence[_CropCheck],
) -> tuple[StepResult, list[tuple[str, str]]]:
    """All pictures through all checks; gives the decoder's result, and files that were skipped."""
    decode = StepResult("decode", "equal; JPEG and WebP 2, CMYK 4, 16 bits 1")
    skipped: list[tuple[str, str]] = []
    for picture in pictures:
        decoded.advance()
        for check in checks:
            check.advance()
        try:
            ours = decoded.require()
            theirs, tolerance = reference.decode(picture.path)
            tolerance = _add(decode, picture.name, ours, theirs, tolerance)
        except NotComparableError as reason:
            skipped.append((picture.name, str(reason)))
            continue
        for check in checks:
            try:
                check.compare(picture.name, theirs, tolerance)
            except NotComparableError as reason:
                skipped.append((picture.name, f"{check.result.name}: {reason}"))
    return decode, skipped


def _add(
    result: StepResult, name: str, ours: Any, theirs: Image.Image, tolerance: Tolerance
) -> Tolerance:
    """Adds a picture to a result; gives what may differ behind a resize of it."""
    import numpy

    pixels = numpy.asarray(theirs)
    if pixels.shape != ours.shape:
        result.add_other_size(name)
        raise NotComparableError(f"it is {ours.shape}, and {pixels.shape} by the reference")
    difference = numpy.abs(ours.astype(numpy.int16) - pixels)
    result.add(name, difference, tolerance.covers(difference))
    # Means of values that differ, rounded twice.
    return tolerance + Tolerance(1, 1) if difference.any() else EXACT


class _CropCheck:
    """Compares a crop, and the tensor that is made of it."""

    transform: str
    name: str
    steps: tuple[dict[str, Any], ...]

    def __init__(self, listed: Path, reference: Reference, normalize: StepResult) -> None:
        promise = "equal where decode is; 1 where Pillow >= 13 resizes the height first"
        self.result = StepResult(self.name, promise)
        self.reference = reference
        self._normalize = normalize
        self.bytes = Stream(listed, (_DECODE, *self.steps, _BYTES), self.transform)
        halves = (_DECODE, *self.steps, _NORMALIZE, _HALVES)
        self._halves = Stream(listed, halves, f"{self.transform}-float16")

    def advance(self) -> None:
        """Goes on to the next picture."""
        self.bytes.advance()
        self._halves.advance()

    def close(self) -> None:
        """Ends its threads."""
        self.bytes.close()
        self._halves.close()

    def compare(self, name: str, picture: Image.Image, tolerance: Tolerance) -> None:
        """Compares the present picture with what the reference makes of `picture`."""
        ours = self.bytes.require()
        theirs, order_tolerance = self.expected(picture)
        _add(self.result, name, ours, theirs, tolerance + order_tolerance)
        difference, is_within = _normalize_difference(ours, self._halves.require())
        self._normalize.add(name, difference, is_within)

    def expected(self, picture: Image.Image) -> tuple[Image.Image, Tolerance]:
        """The reference's crop, and how close ours must come to it."""
        raise NotImplementedError


class _MiddleCheck(_CropCheck):
    transform, name, steps = "imagenet-val", "resize + crop", _MIDDLE

    def expected(self, picture: Image.Image) -> tuple[Image.Image, Tolerance]:
        return self.reference.resized_middle(picture, _RESIZE_PX, _CROP_PX)


class _RandomCheck(_CropCheck):
    transform, name, steps = "imagenet-train", "random crop", _AT_RANDOM

    def expected(self, picture: Image.Image) -> tuple[Image.Image, Tolerance]:
        drawn = {step["op"]: step for step in self.bytes.trace()}
        box = drawn["random_resized_crop"]["box"]
        crop, tolerance = self.reference.resized_crop(picture, box, _CROP_PX)
        if drawn["flip"]["horizontal"]:
            crop = self.reference.flipped(crop)
        return crop, tolerance


def _normalize_difference(pixels: Any, halves: Any) -> tuple[numpy.ndarray, bool]:
    """Levels between our tensor and (x / 255 - mean) / std of our own pixels in float64; and
    whether each value is the nearest float16 to it, but for ties that float32 decided before."""
    import numpy

    expected = (pixels.astype(numpy.float64) / 255 - _MEAN) / _STD
    difference = numpy.abs(halves.astype(numpy.float64) - expected)
    spacing = numpy.spacing(numpy.abs(expected).astype(numpy.float16)).astype(numpy.float64)
    is_within = bool((difference <= 0.51 * spacing).all())
    return difference * _STD * 255, is_within
