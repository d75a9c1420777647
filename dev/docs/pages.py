# SPDX-License-Identifier: Apache-2.0
"""Finds the code blocks of Markdown pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
PRINTED = "<!-- printed -->"
SHELLS = ("sh", "bash", "console")


@dataclass
class Block:
    """A fenced block."""

    line: int  # Of its first line of code, counted from 1.
    language: str
    title: str  # The file that it is, or "".
    code: str
    not_run: str  # Why it can't run, or "".
    is_printed: bool  # It shows what the block before it prints.


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: Block | None = None
    last = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if opened and line == "```":
            found.append(opened)
            opened = None
        elif opened:
            opened.code += line + "\n"
        elif fence:
            title = TITLE.search(fence[2])
            reason = NOT_RUN.match(last)
            name, why = title[1] if title else "", reason[1] if reason else ""
            opened = Block(number + 1, fence[1], name, "", why, last == PRINTED)
        last = line.strip() or last
    if opened:
        raise ValueError(f"{page}: the block at line {opened.line - 1} has no end")
    return found
