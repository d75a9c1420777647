# SPDX-License-Identifier: Apache-2.0
"""The pictures as Feedrace gives them, one after another."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from feedrace.loader import ImageLoader
from feedrace.parity.files import Picture
from feedrace.parity.reference import NotComparableError
from feedrace.pipeline import Pipeline

_BATCH_SIZE = 4
# Several streams run side by side.
_THREADS = 2
_BLANK = 3


def link_all(pictures: Sequence[Picture], scratch: Path) -> Path:
    """Makes a list of the pictures, in order, under names that a list can hold; gives its path."""
    folder = scratch / "links"
    folder.mkdir()
    lines = []
    for number, picture in enumerate(pictures):
        link = folder / f"{number:08d}{picture.path.suffix.lower()}"
        link.symlink_to(picture.path)
        # A label each, or the loader would warn that there are none.
        lines.append(json.dumps({"path": str(link), "label": 0}) + "\n")
    listed = scratch / "pictures.jsonl"
    listed.write_text("".join(lines), encoding="utf-8")
    return listed


class Stream:
    """One native pipeline over a list of pictures, in its order.

    Attributes:
        array: The present picture; None where Feedrace refuses it, and before the first `advance`.
    """

    def __init__(self, listed: Path, steps: Sequence[dict[str, Any]], name: str) -> None:
        self._quarantine = listed.with_name(f"{name}.quarantine")
        self._loader = ImageLoader(
            listed,
            batch_size=_BATCH_SIZE,
            transform=Pipeline(steps),
            shuffle="none",
            last_batch="partial",
            fields=("image", "flag"),
            output="numpy",
            num_threads=_THREADS,
            on_error="zero",
            quarantine_file=self._quarantine,
            rank=0,
            world_size=1,
        )
        self._arrays = self._all()
        self._number = -1
        self.array: Any = None

    def advance(self) -> None:
        """Goes on to the next picture."""
        self.array = next(self._arrays)
        self._number += 1

    def require(self) -> Any:
        """The present picture.

        Raises:
            NotComparableError: Feedrace refuses it, for this reason.
        """
        if self.array is None:
            raise NotComparableError(f"Feedrace: {self._refusal()}")
        return self.array

    def trace(self) -> list[dict[str, Any]]:
        """What was done to the present picture."""
        return self._loader.trace_sample(self._number, 0)

    def close(self) -> None:
        """Ends its threads."""
        self._arrays.close()
        self._loader.close()

    def _all(self) -> Generator[Any, None, None]:
        for images, flags in self._loader:
            for image, flag in zip(images, flags, strict=True):
                yield None if flag == _BLANK else image

    def _refusal(self) -> str:
        for line in self._quarantine.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["sample"] == self._number and entry["code"] != "flagged":
                # The report names the file; the link to it is gone when that is read.
                return str(entry["reason"]).removeprefix(f"{entry['key']}: ")
        return "no reason is known"
