# SPDX-License-Identifier: Apache-2.0
"""Which of a user's pictures are compared."""

from __future__ import annotations

import itertools
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from feedrace.errors import error

ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Picture:
    """One picture of the user's.

    Attributes:
        path: Where its bytes lie as a file of their own, absolute.
        name: As reports call it: the path below the folder, or "shard.tar: member".
    """

    path: Path
    name: str


def find_pictures(root: Path, limit: int, scratch: Path) -> tuple[list[Picture], int | None]:
    """Pictures at even distances through a folder, or the first ones of shards.

    Args:
        root: A folder, in any depth below which what ends as a picture counts; a tar file; or a
            folder of tar files. Links to folders are not followed.
        limit: How many at most, from 1 up.
        scratch: An empty folder, into which members of shards are copied.

    Returns:
        The pictures, and how many there were to choose from; None: not counted.

    Raises:
        feedrace.Error: "not_found": there is no such path, or no picture. "io": it can't be read.
    """
    if not root.exists():
        raise error("not_found", f"{root}: there is no such file or folder; give one that exists")
    try:
        files = [root] if root.is_file() else sorted(_walk(root))
        paths = [path for path in files if path.suffix.lower() in ENDINGS]
        if paths:
            chosen = [Picture(path.absolute(), _name(path, root)) for path in _evenly(paths, limit)]
            return chosen, len(paths)
        shards = _evenly([path for path in files if path.suffix == ".tar"], limit)
        pictures = _copied(shards, limit, scratch)
    except (OSError, tarfile.TarError) as cause:
        raise error("io", f"{root}: {cause}; look at the files and their permissions") from cause
    if not pictures:
        fix = f"give a folder or tar shards with {', '.join(ENDINGS)}"
        raise error("not_found", f"{root}: there are no pictures in it; {fix}")
    return pictures, None


def _walk(root: Path) -> Iterator[Path]:
    def refuse(cause: OSError) -> None:
        raise cause

    for folder, _, names in os.walk(root, onerror=refuse):
        yield from (Path(folder, name) for name in names)


def _name(path: Path, root: Path) -> str:
    return path.name if path == root else str(path.relative_to(root))


def _evenly(items: Sequence[Item], limit: int) -> list[Item]:
    if len(items) <= limit:
        return list(items)
    return [items[number * len(items) // limit] for number in range(limit)]


def _copied(shards: list[Path], limit: int, scratch: Path) -> list[Picture]:
    """About as many pictures from each shard, copied to files that are numbered."""
    pictures: list[Picture] = []
    for number, shard in enumerate(shards, start=1):
        share = limit * number // len(shards) - len(pictures)
        with tarfile.open(shard, "r:") as tar:
            members = (one for one in tar if one.isfile() and _is_picture(one.name))
            for member in itertools.islice(members, share):
                path = scratch / f"{len(pictures):08d}{Path(member.name).suffix}"
                content = tar.extractfile(member)
                assert content is not None, "a regular member has content"
                path.write_bytes(content.read())
                pictures.append(Picture(path, f"{shard.name}: {member.name}"))
    return pictures


def _is_picture(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.lower().endswith(ENDINGS) and not base.startswith(".")
