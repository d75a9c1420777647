# SPDX-License-Identifier: Apache-2.0
"""File names on one line that every terminal and every log can take."""

from __future__ import annotations

import os


def printable(name: str | os.PathLike[str]) -> str:
    """A name with what is no character of a line, or no UTF-8, escaped as in Python's strings."""
    text = os.fspath(name)
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    # A byte that is no UTF-8 is held as U+DC00 and the byte.
    is_byte = 0xDC80 <= ord(character) <= 0xDCFF
    return f"\\x{ord(character) - 0xDC00:02x}" if is_byte else ascii(character)[1:-1]
