# SPDX-License-Identifier: Apache-2.0
"""How far long work is, on standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_REDRAW_SECONDS = 0.2
_CELLS = 24


class ProgressLine:
    """One line that is drawn anew on a terminal; elsewhere, as in a log, a line each tenth."""

    def __init__(self, what: str, to: TextIO | None = None) -> None:
        self._what = what
        self._to = sys.stderr if to is None else to
        self._is_terminal = self._to.isatty()
        self._begun = self._drawn = time.monotonic()
        self._tenth = 0
        self._is_shown = False

    def update(self, done: int, share: float, what: str | None = None) -> None:
        if what is not None and what != self._what:
            self.close()
            self._what, self._begun, self._tenth = what, time.monotonic(), 0
        share = min(1.0, max(0.0, share))
        now = time.monotonic()
        tenth = int(10 * share)
        is_due = now - self._drawn >= _REDRAW_SECONDS if self._is_terminal else tenth > self._tenth
        if not is_due:
            return
        self._drawn, self._tenth, self._is_shown = now, tenth, True
        text = self._text(done, share, now - self._begun)
        self._to.write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")
        self._to.flush()

    def close(self) -> None:
        """Nothing of it stays on a terminal."""
        if self._is_terminal and self._is_shown:
            self._to.write("\r\x1b[K")
            self._to.flush()
        self._is_shown = False

    def _text(self, done: int, share: float, seconds: float) -> str:
        cells = int(share * _CELLS)
        bar = "#" * cells + " " * (_CELLS - cells)
        left = f", {seconds / share - seconds:.0f} s left" if 0 < share < 1 else ""
        return f"{self._what} [{bar}] {done:,} samples, {100 * share:.0f} %{left}"
