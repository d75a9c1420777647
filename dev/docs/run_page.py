#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python and shell blocks of a page in order, in this process: run_page.py PAGE DATA

The current folder is the blocks' own. Where they say /data, DATA is meant. A block with a title is
written to the file of that name, for a shell block behind it. A line that says how many seconds
something shall take takes one. A text block below <!-- printed --> must be among what the block in
front of it printed; it may leave out an end as " ...".
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import traceback
from pathlib import Path

from pages import SHELLS, Block, blocks_of

# What no test may do to its machine, or takes minutes.
REFUSED = re.compile(
    r"\b(apt-get|sudo|git clone|pip install|cmake --install)\b|^make ", re.MULTILINE
)
SECONDS = re.compile(r"--seconds \d+")


def placed(code: str, data: str) -> str:
    """The code with its data where they are; as many lines as before."""
    return SECONDS.sub("--seconds 1", re.sub(r"(?<![\w.])/data\b", data, code))


def run_python(page: Path, block: Block, code: str, names: dict[str, object]) -> str:
    """Gives what it printed."""
    printed = io.StringIO()
    # Empty lines in front, so that a traceback has the page's line numbers.
    compiled = compile("\n" * (block.line - 1) + code, str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(compiled, names)
    print(printed.getvalue(), end="", flush=True)
    return printed.getvalue()


def run_shell(page: Path, block: Block, code: str) -> str:
    """Gives what it printed."""
    # A prompt marks what was typed; the rest is what came of it.
    if block.language == "console":
        typed = [line[2:] for line in code.splitlines() if line.startswith("$ ")]
        code = "\n".join(typed)
    refused = REFUSED.search(code)
    if refused:
        found = f"{page}: line {block.line}: {refused[0].strip()} is not for a test"
        raise RuntimeError(f"{found}; put <!-- not run: why --> above the block")
    command = ["bash", "-euxo", "pipefail", "-c", code]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    printed = result.stdout.decode("utf-8", "replace")  # A member of a shard may be any bytes.
    print(printed, end="", flush=True)
    if result.returncode != 0:
        raise RuntimeError(f"{page}: line {block.line}: the commands end with {result.returncode}")
    return printed


def run(page: Path, data: str) -> int:
    """Runs the blocks that run here; gives their number."""
    names: dict[str, object] = {"__name__": "__main__"}
    count = 0
    printed = ""
    for block in blocks_of(page):
        if block.not_run:
            continue
        if block.is_printed and block.code.strip().removesuffix(" ...") not in printed:
            raise RuntimeError(f"{page}: line {block.line}: not printed: {block.code}")
        code = placed(block.code, data)
        if block.title:
            Path(block.title).write_text(code)
        elif block.language == "python":
            printed = run_python(page, block, code, names)
            count += 1
        elif block.language in SHELLS:
            printed = run_shell(page, block, code)
            count += 1
    return count


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit("usage: run_page.py PAGE DATA")
    try:
        print(f"{run(Path(sys.argv[1]), sys.argv[2])} blocks ran")
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
