# SPDX-License-Identifier: Apache-2.0
"""A trace that a loader writes."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader


class TraceFile:
    """What every thread of a loader does, written to a file until `stop`."""

    def __init__(self, loader: ImageLoader, path: str) -> None:
        self._loader: ImageLoader | None = loader
        self.path = path
        loader._living().start_trace(os.fsencode(path))

    def stop(self) -> None:
        """Ends the file. Once; a loader that was closed has ended it.

        Raises:
            Error: The file could not be written to its end ("io").
        """
        loader, self._loader = self._loader, None
        if loader is not None and loader._native is not None and not loader._is_forked():
            loader._native.stop_trace()

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<feedrace trace {self.path!r}, {'ended' if self._loader is None else 'written'}>"
