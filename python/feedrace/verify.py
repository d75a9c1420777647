# SPDX-License-Identifier: Apache-2.0
"""Reading all of a data set to find what is wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from feedrace import _feedrace
from feedrace.errors import (
    as_tuple,
    check_bool,
    check_int,
    check_path,
    check_text,
    invalid,
    shown,
)
from feedrace.progress_line import ProgressLine

__all__ = ["VerifyReport", "verify"]

_WHERE = "fr.verify"
_MAX_THREADS = 1024
_MOST_PIXELS = 178_956_970
Path = str | PathLike[str]


class VerifyReport:
    """What `verify` found.

    The members of ``feedrace verify --json`` are its attributes: good, samples, pictures, decoded,
    flagged, bad_samples, shards, checksums, index, fields, bytes, pixels, classes, findings and
    the rest. It is true when nothing is bad.
    """

    def __init__(self, found: dict[str, Any], text: str) -> None:
        self._found = found
        self._text = text

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_found"][name]
        except KeyError:
            raise AttributeError(f"VerifyReport has no {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._found]

    def __bool__(self) -> bool:
        return bool(self._found["good"])

    def as_dict(self) -> dict[str, Any]:
        """All of it, as ``feedrace verify --json`` prints it."""
        return self._found

    def __str__(self) -> str:
        """As ``feedrace verify`` prints it."""
        return self._text

    def __repr__(self) -> str:
        kinds = [f for f in self._found["findings"] if f["bad"]]
        lines = [f"{f['check']}: {f['what']}: {f['count']:,}" for f in kinds]
        head = f"<VerifyReport: {'good' if self else 'bad'}, {self._found['samples']:,} samples"
        return "; ".join([head, *lines]) + ">"


def verify(
    data: Path | Sequence[Path],
    *,
    decode: bool = True,
    allow_flagged: bool = False,
    require: Sequence[str] = (),
    bad_file: Path | None = None,
    num_threads: int | None = None,
    max_pixels: int = _MOST_PIXELS,
    image_fields: Sequence[str] | None = None,
    label_field: str | None = "auto",
    label_json_key: str = "label",
    label_file: Path | None = None,
    progress: Callable[[int, float], object] | bool | None = None,
) -> VerifyReport:
    """Reads a data set as the loader would, all of it, and says what is wrong.

    Args:
        data: An image folder, tar shards (file, folder, glob or brace pattern), a list, or several.
        decode: Decode each picture, all of it.
        allow_flagged: Pictures that decode with a complaint don't make the set bad.
        require: Fields that each sample of a shard must have.
        bad_file: Where the list of bad samples goes, which ``feedrace pack --exclude`` takes.
        num_threads: That read, hash and decode. None: the cores that this process may use.
        max_pixels: Larger pictures are bad.
        image_fields, label_field, label_json_key, label_file: As `ImageLoader` has them.
        progress: True: a line on standard error. A function: called several times a second with the
            samples that are done and the share of all. What it raises ends the work, and so does
            Ctrl-C; no list is written then.

    Returns:
        What was found; true when nothing is bad.

    Raises:
        Error: What keeps it from looking, such as a path that is not there; damage is reported.
    """
    line = ProgressLine("verified") if progress is True else None
    if line is not None:
        progress = line.update
    elif progress is False:
        progress = None
    if progress is not None and not callable(progress):
        raise invalid(_WHERE, f"progress is {shown(progress)}", "give True, a function, or None")
    if label_field is None:
        label_field = ""
    try:
        found, text = _feedrace.verify(
            sources=[os.fsencode(path) for path in _paths("data", data)],
            decode=check_bool(_WHERE, "decode", decode),
            allow_flagged=check_bool(_WHERE, "allow_flagged", allow_flagged),
            require=[os.fsencode(name) for name in _texts("require", require)],
            bad_file=_path("bad_file", bad_file),
            threads=0
            if num_threads is None
            else check_int(_WHERE, "num_threads", num_threads, 1, _MAX_THREADS),
            max_pixels=check_int(_WHERE, "max_pixels", max_pixels, 1, 1 << 40),
            image_fields=None if image_fields is None else _texts("image_fields", image_fields),
            label_field=check_text(_WHERE, "label_field", label_field),
            label_json_key=check_text(_WHERE, "label_json_key", label_json_key),
            label_file=_path("label_file", label_file),
            progress=progress,
        )
    finally:
        if line is not None:
            line.close()
    return VerifyReport(json.loads(found), text.rstrip("\n"))


def _paths(name: str, given: Any) -> list[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        return [check_path(_WHERE, name, given)]
    items = as_tuple(given)
    if not items:
        raise invalid(_WHERE, f"{name} is {shown(given)}", "give a path, or a list of paths")
    return [check_path(_WHERE, f"{name}[{i}]", item) for i, item in enumerate(items)]


def _texts(name: str, given: Any) -> list[str]:
    items = as_tuple(given)
    if items is None:
        raise invalid(_WHERE, f"{name} is {shown(given)}", "give a list of names")
    return [check_text(_WHERE, f"{name}[{i}]", item) for i, item in enumerate(items)]


def _path(name: str, given: Any) -> bytes:
    return b"" if given is None else os.fsencode(check_path(_WHERE, name, given))
