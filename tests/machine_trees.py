# SPDX-License-Identifier: Apache-2.0
"""Lays out a machine's /proc and /sys from tests/machines/NAME.tree, a path a line:

PATH: TEXT     a file; TEXT has the escapes of Python
PATH: @acs XX  a PCI configuration whose ACS control register is XX
PATH: @config SIZE AT:HEX ...  a PCI configuration: its size, and what is not zero in it
PATH -> PATH   a relative link
PATH/          a folder
"""

import os
from pathlib import Path

MACHINES = Path(__file__).parent / "machines"


def pci_config(acs_control):
    """256 bytes that tell nothing here, and the first extended capability: ACS."""
    header = (0x000D | 1 << 16).to_bytes(4, "little")
    return bytes(256) + header + bytes([0xFF, 0]) + bytes([acs_control, 0])


def recorded_config(text):
    size, *runs = text.split()
    content = bytearray(int(size))
    for run in runs:
        at, digits = run.split(":")
        content[int(at, 16) : int(at, 16) + len(digits) // 2] = bytes.fromhex(digits)
    return bytes(content)


def content_of(text):
    if text.startswith("@config "):
        return recorded_config(text.removeprefix("@config "))
    if text.startswith("@acs "):
        return pci_config(int(text.removeprefix("@acs "), 16))
    return text.encode().decode("unicode_escape").encode()


def lay_out(name, root):
    for line in (MACHINES / f"{name}.tree").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if " -> " in line:
            path, target = line.split(" -> ")
            link = root / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(root / target, link.parent))
        elif line.endswith("/"):
            (root / line).mkdir(parents=True, exist_ok=True)
        else:
            path, text = line.split(": ", 1)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content_of(text))
    return root
