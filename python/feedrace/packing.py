# SPDX-License-Identifier: Apache-2.0
"""Packs image folders, lists and shards into tar shards, as ``feedrace pack`` does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, NamedTuple, NoReturn

from feedrace import _feedrace
from feedrace.arguments import bytes_of, paths
from feedrace.errors import (
    as_tuple,
    check_bool,
    check_choice,
    check_int,
    check_names,
    check_path,
    invalid,
    shown,
)
from feedrace.progress_line import ProgressLine

__all__ = ["PackPlan", "PackProgress", "PackReport", "finish_pack", "pack"]

Path = str | PathLike[str]
_MAX_SHARDS = 1_000_000
_MAX_THREADS = 4096
_MAX_SIDE_PX = 65_500
_MAX_RESTART_ROWS = 65_535
_MAX_U64 = (1 << 64) - 1


@dataclass(frozen=True)
class PackPlan:
    """What packing would do, known before anything is written."""

    source: str
    """ "image folder", "webdataset shards" or "file list"."""
    fingerprint: str
    samples: int
    excluded: int
    """Left out by the list."""
    unreadable: int
    """Left out as they can't be read, with ``on_error="skip"``."""
    shards: int
    shards_of_part: int
    shards_finished: int
    """By an earlier run."""
    packed_already: bool
    """The folder has all shards and the manifest: nothing to do."""
    source_bytes: int
    """Of all members that are packed, as the sources have them."""
    payload_bytes: int
    """Of the same in the shards; about, where pictures are changed."""
    size_bytes: int
    largest_shard_bytes: int
    threads: int
    memory_bytes: int
    needed_bytes: int
    """On the disk, for what is not there yet."""
    free_bytes: int
    fits: bool
    storage: str
    """How the sources are read."""
    change: str
    """What is done to pictures, and what that costs and wins; "" for nothing. Sizes are then
    estimates from some of the pictures."""
    change_size_ratio: float
    """Bytes of changed pictures to those of now; 0: not known."""
    change_speed_ratio: float
    """Training crops that a core makes of them, likewise; reading apart."""
    warnings: list[str]
    _text: str = field(repr=False, compare=False)

    def __str__(self) -> str:
        """As ``feedrace pack --dry-run`` prints it."""
        return self._text


class LeftOut(NamedTuple):
    """A sample that is in no shard."""

    key: str
    reason: str


@dataclass(frozen=True)
class PackReport:
    """What a run has packed."""

    shards: int
    """In the folder: of the part, or all."""
    shards_found_finished: int
    packed_already: bool
    """The set was there with its manifest, and nothing was packed."""
    samples: int
    size_bytes: int
    seconds: float
    """From the making of the plan on."""
    failed: int
    """Of `left_out`, by an error rather than by the list."""
    key_fingerprint: str
    """Of the finished set; "" of a part."""
    crop_indexes: int
    changed: int
    """Pictures that this run has changed."""
    warnings: list[str]
    manifest: str
    """Its path; "" of a part."""
    index: str
    left_out: list[LeftOut]
    fallbacks: dict[str, int]
    """What was wanted of the storage and could not be had, and how often."""
    _text: str = field(repr=False, compare=False)

    def __str__(self) -> str:
        """As ``feedrace pack`` prints it."""
        return self._text


class PackProgress(NamedTuple):
    """How far packing is."""

    phase: Literal["plan", "shards", "index"]
    samples: int
    """Done by this run; of "plan" files looked at, of "index" pictures."""
    size_bytes: int
    share: float
    """Of this phase's work, in [0, 1]."""


Progress = Callable[[PackProgress], Any]


def _check_used(where: str, *options: tuple[str, object, str, bool]) -> None:
    """Refuses options that would be ignored: (name, value, what stands beside it, is used)."""
    for name, value, beside, is_used in options:
        if value is not None and not is_used:
            raise invalid(where, f"{name} is given with {beside}", f"leave {name} out")


def pack(
    sources: Path | Sequence[Path],
    folder: Path,
    *extra: NoReturn,
    shards: int | None = None,
    shard_size: int | str | None = None,
    prefix: str = "shard",
    shuffle: bool = False,
    seed: int | None = None,
    align: bool = False,
    crop_index: bool = False,
    resize: int | None = None,
    raw: int | None = None,
    side: Literal["shortest", "longest"] | None = None,
    compress: Literal["none", "lz4", "zstd"] = "none",
    quality: int | None = None,
    baseline: bool = False,
    restart_rows: int = 0,
    on_error: Literal["stop", "skip"] = "stop",
    exclude: Path | None = None,
    num_threads: int | None = None,
    io: Literal["auto", "uring", "direct", "buffered"] = "auto",
    part: tuple[int, int] | None = None,
    dry_run: bool = False,
    progress: Progress | bool | None = None,
    **others: NoReturn,
) -> PackReport | PackPlan:
    """Packs samples into tar shards that every WebDataset reader reads.

    The same sources and options give the same bytes. A run that ended at any moment goes on with
    the same call, and leaves finished shards as they are.

    Args:
        sources: An image folder, tar shards (file, folder, glob or brace pattern) or a list
            (.csv, .jsonl, .txt); several in a list.
        folder: Where to. Must be empty, or hold what the same call has left.
        shards: Shards of as equal sample counts as can be. None: by `shard_size`.
        shard_size: Without `shards`: the largest size of a shard, as bytes or "1GB", which it is by
            default.
        prefix: Shards are named PREFIX-000000.tar and on.
        shuffle: In an order that `seed` gives, rather than as stored.
        seed: Of `shuffle`, from 0 to 2^64 - 1; 0 by default.
        align: Payloads of 512 bytes and more begin at multiples of 4,096 bytes, for direct reads.
        crop_index: Also make the index with which crops are decoded faster.
        resize: Larger pictures are made smaller: the side that `side` names, in pixels. What was
            JPEG or lossy WebP is encoded again, the others without loss.
        raw: Decoded pictures are stored (.npy), larger ones made so small; 0: as large as they are.
        side: Of `resize` and `raw`: the side that is made so long, the shortest by default; the
            other one in proportion.
        compress: Of `raw`, without loss.
        quality: From 1 to 100: every picture is encoded as JPEG, 4:2:0. None: 90, of those that
            are resized.
        baseline: JPEG is rewritten as baseline, without loss: progressive ones decode faster then.
        restart_rows: JPEG gets a restart marker every so many rows of blocks, without loss.
            0: as they are.
        on_error: Of files that vanish, change or can't be read: "stop", or "skip" and list them.
        exclude: A list of samples to leave out, as ``feedrace verify --bad`` or a quarantine
            writes it.
        num_threads: Shards written at a time. None: the cores that this process may use.
        io: How sources are read: "auto", "uring", "direct" (O_DIRECT) or "buffered".
        part: (i, n): only every n-th shard, from the i-th, for n machines that pack into one
            folder; `finish_pack` makes one set of them.
        dry_run: Only plan, and return a `PackPlan`.
        progress: True: a line on standard error. A function: called with a `PackProgress` ten times
            a second at most; what it raises ends the run in order.

    Raises:
        Error: An argument can't be, two samples have one key, or the folder holds something else
            ("invalid_argument"), nothing is there ("not_found"), a source or the disk fails ("io"),
            sources are damaged ("corrupt_data").
    """
    where = "fr.pack"
    _check_extra(where, pack, extra, others)
    given: dict[str, Any] = {
        "sources": [os.fsencode(path) for path in paths("sources", sources, where)],
        "folder": os.fsencode(check_path(where, "folder", folder)),
        "prefix": os.fsencode(check_path(where, "prefix", prefix)),
        "shuffle": check_bool(where, "shuffle", shuffle),
        "align": check_bool(where, "align", align),
        "crop_index": check_bool(where, "crop_index", crop_index),
        "skips": check_choice(where, "on_error", on_error, ("stop", "skip")) == "skip",
        "io": check_choice(where, "io", io, ("auto", "uring", "direct", "buffered")).encode(),
    }
    _check_used(
        where,
        ("shard_size", shard_size, "shards", shards is None),
        ("seed", seed, "no shuffle", bool(shuffle)),
        ("side", side, "neither resize nor raw", resize is not None or raw is not None),
    )
    if shard_size is not None:
        given["shard_size"] = bytes_of("shard_size", shard_size, 1, where)
    if seed is not None:
        given["seed"] = check_int(where, "seed", seed, 0, _MAX_U64)
    given |= _pictures(where, resize, raw, side, compress)
    given["baseline"] = check_bool(where, "baseline", baseline)
    given["restart_rows"] = check_int(where, "restart_rows", restart_rows, 0, _MAX_RESTART_ROWS)
    if quality is not None:
        given["quality"] = check_int(where, "quality", quality, 1, 100)
    if shards is not None:
        given["shards"] = check_int(where, "shards", shards, 1, _MAX_SHARDS)
    if exclude is not None:
        given["exclude"] = os.fsencode(check_path(where, "exclude", exclude))
    if num_threads is not None:
        given["num_threads"] = check_int(where, "num_threads", num_threads, 1, _MAX_THREADS)
    if part is not None:
        given["part"] = _check_part(where, part)
    is_plan = check_bool(where, "dry_run", dry_run)
    with _told(where, progress) as tell:
        made = _feedrace.pack(given, tell, is_plan)
    return _plan(made) if is_plan else _report(made)


def finish_pack(
    folder: Path,
    *extra: NoReturn,
    crop_index: bool = False,
    progress: Progress | bool | None = None,
    **others: NoReturn,
) -> PackReport:
    """Makes one set of what `pack` has packed in parts: index and manifest.

    Args:
        folder: That of the parts.
        crop_index, progress: As `pack` has them.

    Raises:
        Error: Shards are missing, by name ("not_found"), or parts are of different sets
            ("invalid_argument").
    """
    where = "fr.finish_pack"
    _check_extra(where, finish_pack, extra, others)
    given = {
        "folder": os.fsencode(check_path(where, "folder", folder)),
        "crop_index": check_bool(where, "crop_index", crop_index),
    }
    with _told(where, progress) as tell:
        return _report(_feedrace.finish_pack(given, tell))


def _pictures(
    where: str, resize: object, raw: object, side: object, compress: object
) -> dict[str, Any]:
    if resize is not None and raw is not None:
        raise invalid(where, "resize and raw", "give one: raw=256 resizes too")
    form = check_choice(where, "compress", compress, ("none", "lz4", "zstd"))
    if raw is None and form != "none":
        raise invalid(where, f"compress={form!r} without raw", "give raw=256, or leave it out")
    chosen = "shortest" if side is None else side
    is_longest = check_choice(where, "side", chosen, ("shortest", "longest")) == "longest"
    if raw is not None:
        side_px = check_int(where, "raw", raw, 0, _MAX_SIDE_PX)
        return {"raw": side_px, "compress": form, "is_longest": is_longest}
    if resize is not None:
        side_px = check_int(where, "resize", resize, 1, _MAX_SIDE_PX)
        return {"resize": side_px, "is_longest": is_longest}
    return {}


def _check_extra(where: str, function: Callable[..., Any], extra: Any, others: Any) -> None:
    check_names(where, "argument", others, list(function.__kwdefaults__ or ()))
    if extra:
        found = f"{len(extra)} more arguments without a name"
        raise invalid(where, found, "name those behind sources and folder: shards=500")


def _check_part(where: str, part: object) -> tuple[int, int]:
    items = as_tuple(part)
    if items is None or len(items) != 2:
        raise invalid(where, f"part is {shown(part)}", "give part and number of parts, as (3, 16)")
    count = check_int(where, "part[1]", items[1], 1)
    return check_int(where, "part[0]", items[0], 1, count), count


@contextmanager
def _told(
    where: str, progress: Progress | bool | None
) -> Generator[Callable[..., None] | None, None, None]:
    """What the work calls, for as long as it goes on."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        line = ProgressLine("shards")
        try:
            yield lambda phase, samples, _, share: line.update(samples, share, phase)
        finally:
            line.close()
    elif callable(progress):
        yield lambda *values: progress(PackProgress(*values))
    else:
        found = f"progress is {shown(progress)}"
        raise invalid(where, found, "give True, a function, or leave it out")


def _plan(made: tuple[bytes, bytes]) -> PackPlan:
    return PackPlan(**json.loads(made[0]), _text=_shown(made[1]))


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace").rstrip("\n")


def _report(made: tuple[bytes, bytes]) -> PackReport:
    report = _texts(json.loads(made[0]))
    report["left_out"] = [LeftOut(**_texts(one)) for one in report["left_out"]]
    report["fallbacks"] = {one["what"]: one["count"] for one in report["fallbacks"]}
    return PackReport(**report, _text=_shown(made[1]))


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    """NAME_hex, a text that is not UTF-8, as os.fsdecode has it."""
    texts = {}
    for name, value in values.items():
        if name.endswith("_hex"):
            texts[name.removesuffix("_hex")] = os.fsdecode(bytes.fromhex(value))
        else:
            texts[name] = value
    return texts
