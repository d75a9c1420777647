# SPDX-License-Identifier: Apache-2.0
"""Which of a user's pictures are compared."""

from __future__ import annotations

import itertools
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from feedrace.errors import error
from feedrace.names import printable

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
            "corrupt_data": a shard is no tar file.
    """
    where = printable(root)
    try:
        pictures, found = _chosen(root, limit, scratch)
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise _missing(cause.filename, root) from None
    except OSError as cause:
        place = where if cause.filename is None else printable(os.fsdecode(cause.filename))
        fix = "look at the file and its permissions"
        raise error("io", f"{place}: {cause.strerror or cause}; {fix}") from cause
    if not pictures:
        fix = f"give a folder or tar shards with {', '.join(ENDINGS)}"
        raise error("not_found", f"{where}: there are no pictures in it; {fix}")
    return pictures, found


def _missing(name: str | bytes | None, root: Path) -> Exception:
    where = printable(root if name is None else os.fsdecode(name))
    if not root.is_symlink():
        return error("not_found", f"{where}: there is no such file or folder; give one that exists")
    found = f"a link to {printable(os.readlink(root))}, which is not there"
    return error("not_found", f"{where}: {found}; give one that exists")


def _chosen(root: Path, limit: int, scratch: Path) -> tuple[list[Picture], int | None]:
    mode = root.stat().st_mode
    if stat.S_ISREG(mode):
        files = [root]
    elif stat.S_ISDIR(mode):
        files = sorted(_walk(root))
    else:
        fix = "give a folder of pictures, or tar shards"
        raise error("not_found", f"{printable(root)}: neither a file nor a folder; {fix}")
    paths = [path for path in files if path.suffix.lower() in ENDINGS]
    if paths:
        chosen = [Picture(path.absolute(), _name(path, root)) for path in _evenly(paths, limit)]
        return chosen, len(paths)
    shards = _evenly([path for path in files if path.suffix == ".tar"], limit)
    return _copied(shards, limit, scratch), None


def _walk(root: Path) -> Iterator[Path]:
    def refuse(cause: OSError) -> None:
        raise cause

    for folder, _, names in os.walk(root, onerror=refuse):
        yield from (path for path in (Path(folder, name) for name in names) if _is_content(path))


def _is_content(path: Path) -> bool:
    """Not a pipe, a socket or a device: opening one may wait for ever. A link that leads nowhere
    is one: the report says what is wrong with it."""
    return path.is_file() or path.is_symlink() and not path.exists()


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
        try:
            pictures += _members(shard, share, scratch / f"{number:08d}")
        except tarfile.TarError as cause:
            fix = "copy the shard again, or leave it out"
            raise error("corrupt_data", f"{printable(shard)}: {cause}; {fix}") from cause
    return pictures


def _members(shard: Path, limit: int, folder: Path) -> Iterator[Picture]:
    """The first pictures of a shard, copied into a folder of its own."""
    folder.mkdir()
    with tarfile.open(shard, "r:") as tar:
        members = (one for one in tar if one.isfile() and _is_picture(one.name))
        for number, member in enumerate(itertools.islice(members, limit)):
            path = folder / f"{number:08d}{Path(member.name).suffix}"
            content = tar.extractfile(member)
            assert content is not None, "a regular member has content"
            path.write_bytes(content.read())
            yield Picture(path, f"{shard.name}: {member.name}")


def _is_picture(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.lower().endswith(ENDINGS) and not base.startswith(".")
