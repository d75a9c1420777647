# SPDX-License-Identifier: Apache-2.0
"""Where samples come from: image folders, lists, and WebDataset shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from feedrace import errors
from feedrace.dali import nodes, operators, types
from feedrace.names import printable

if TYPE_CHECKING:
    from typing_extensions import Unpack

_HINTS = (
    "dont_use_mmap",
    "lazy_init",
    "prefetch_queue_depth",
    "read_ahead",
    "skip_cached_images",
    "tensor_init_bytes",
)
_LIST_SUFFIXES = (".txt", ".lst")


class Order(TypedDict, total=False):
    """What all readers take: which samples come when, and to whom."""

    random_shuffle: bool  # False. Any sample may follow any other, anew each epoch.
    shuffle_after_epoch: bool  # False.
    initial_fill: Any  # Of DALI's buffer; not needed.
    shard_id: int  # 0. Which part of each epoch this process takes; split anew each epoch.
    num_shards: int  # 1.
    pad_last_batch: bool  # False.
    stick_to_shard: bool  # False.
    seed: Any  # None: the pipeline's.
    name: Any  # None: "Reader_0".


_ORDER = tuple(Order.__annotations__)


def _order(where: str, given: Order) -> dict[str, Any]:
    """The arguments that all readers share, as `nodes.Reader` has them."""
    graph = nodes.current(where)
    flags = {
        key: errors.check_bool(where, key, given.get(key, False))
        for key in ("random_shuffle", "shuffle_after_epoch", "pad_last_batch", "stick_to_shard")
    }
    count = errors.check_int(where, "num_shards", given.get("num_shards", 1), 1)
    shard = errors.check_int(where, "shard_id", given.get("shard_id", 0), 0)
    if shard >= count:
        fix = f"it must be from 0 to {count - 1}, as num_shards is {count}"
        raise errors.invalid(where, f"shard_id is {shard}", fix)
    _note_order(where, given.get("initial_fill"), flags)
    name = given.get("name")
    return {
        "name": f"Reader_{len(graph.readers)}" if name is None else _name(where, name),
        "shuffle": flags["random_shuffle"] or flags["shuffle_after_epoch"],
        "shard_id": shard,
        "shard_count": count,
        "pads_last_batch": flags["pad_last_batch"],
        "sticks_to_shard": flags["stick_to_shard"],
        "seed": operators.seed_of(where, given.get("seed")),
    }


def _name(where: str, name: object) -> str:
    text = errors.check_text(where, "name", name)
    if not text:
        raise errors.invalid(where, "name is ''", "give a name, or leave it out")
    return text


def _note_order(where: str, initial_fill: Any, flags: dict[str, bool]) -> None:
    """Says what of the arguments has another effect than in DALI."""
    graph = nodes.current(where)
    if initial_fill is not None:
        errors.check_int(where, "initial_fill", initial_fill, 1)
        graph.note(
            f"{where}: initial_fill is not needed: a permutation of all samples replaces the buffer"
        )
    if flags["shuffle_after_epoch"]:
        graph.note(f"{where}: shuffle_after_epoch shuffles the first epoch too")
    if flags["stick_to_shard"]:
        graph.note(
            f"{where}: stick_to_shard has no effect: each epoch is split anew over all shards"
        )


def _add(operator: str, **arguments: Any) -> nodes.Reader:
    graph = nodes.current(operator)
    if graph.readers:
        fix = "read from one; several data sets mix in feedrace.ImageLoader"
        raise errors.unsupported(operator, "a second reader in one pipeline", fix)
    reader = nodes.Reader(operator=operator, **arguments)
    graph.readers.append(reader)
    return reader


@operators.operator(
    "fn.readers.file",
    hints=(*_HINTS, "case_sensitive_filter", "shuffle_after_epoch_seed", "use_o_direct"),
    only={"dir_filters": (None,), "file_filters": (None,)},
    also=_ORDER,
)
def file(
    *,
    file_root: Any = None,
    file_list: Any = None,
    files: Any = None,
    labels: Any = None,
    **order: Unpack[Order],
) -> tuple[nodes.Encoded, nodes.Labels]:
    """Image files and their labels: (encoded, labels), labels int32 [N, 1].

    Args:
        file_root: A folder of class folders, numbered in code-point order; or what relative paths
            of `files` and `file_list` are relative to.
        file_list: A file with lines "path label".
        files: Paths; with `labels`, as many whole numbers, else numbered from 0.
        order: See `Order`.
    """
    where = "fn.readers.file"
    settings = _order(where, order)
    root = None if file_root is None else errors.check_path(where, "file_root", file_root)
    if file_list is not None and files is not None:
        raise errors.invalid(where, "file_list beside files", "give one of them")
    if labels is not None and files is None:
        raise errors.invalid(where, "labels without files", "give files too, or leave labels out")
    if files is not None:
        settings["listed"] = _numbered(where, root, files, labels)
    elif file_list is not None:
        settings.update(_from_list(where, root, errors.check_path(where, "file_list", file_list)))
    elif root is not None:
        settings["sources"] = (root,)
    else:
        fix = "give file_root, file_list, or files with labels"
        raise errors.invalid(where, "nothing to read is given", fix)
    reader = _add(where, **settings)
    return nodes.Encoded(reader), nodes.Labels(reader)


def _numbered(where: str, root: str | None, files: Any, labels: Any) -> tuple[tuple[str, int], ...]:
    paths = errors.as_tuple(files)
    if not paths:
        found = f"files is {errors.shown(files)}"
        raise errors.invalid(where, found, "it must be a list of paths")
    numbers = tuple(range(len(paths))) if labels is None else errors.as_tuple(labels)
    if numbers is None or len(numbers) != len(paths):
        count = "no list" if numbers is None else f"{len(numbers)} labels"
        raise errors.invalid(where, f"{count} for {len(paths)} files", "give one label a file")
    return tuple(
        (
            os.path.join(root or "", errors.check_path(where, f"files[{i}]", path)),
            errors.check_int(where, f"labels[{i}]", label, -(2**31), 2**31 - 1),
        )
        for i, (path, label) in enumerate(zip(paths, numbers, strict=True))
    )


def _from_list(where: str, root: str | None, path: str) -> dict[str, Any]:
    """A list that feedrace reads itself, or else its lines."""
    if root is None and path.endswith(_LIST_SUFFIXES):
        return {"sources": (path,)}
    folder = os.path.dirname(path) if root is None else root
    pairs = []
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as problem:
        found = f"{printable(path)}: {problem.strerror}"
        raise errors.error("not_found", f"{where}: {found}; give a readable file_list") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        words = os.fsdecode(line).strip().rsplit(None, 1)
        if len(words) != 2 or not words[1].lstrip("+-").isdigit():
            place = f"{where}: {printable(path)}:{number}"
            raise errors.invalid(place, errors.shown(words), "write lines path label")
        pairs.append((os.path.join(folder, words[0]), int(words[1])))
    return {"listed": tuple(pairs)}


@operators.operator(
    "fn.readers.webdataset",
    hints=(*_HINTS, "case_sensitive_extensions", "index_paths", "shuffle_after_epoch_seed"),
    also=_ORDER,
)
def webdataset(
    *,
    paths: Any,
    ext: Any,
    dtypes: Any = None,
    missing_component_behavior: Any = "",
    **order: Unpack[Order],
) -> Any:
    """Tar shards: one output for each of `ext`, the bytes of that component.

    Args:
        paths: Shards, as one path or a list; patterns such as "train-{000..499}.tar" are taken.
        ext: Components: "jpg", or alternatives "jpg;png".
        dtypes: How bytes that are an output are to be read; not given: uint8.
        missing_component_behavior: "error": a sample without one of them is a bad sample; "" or
            "empty": its bytes are none, which only an output that is not decoded may be.
        order: See `Order`.

    Feedrace makes the index itself, so `index_paths` is not needed. A component that is an output
    must have the same number of bytes in all samples of a batch, or be taken by `.at(i)`.
    """
    where = "fn.readers.webdataset"
    settings = _order(where, order)
    sources = errors.as_tuple(paths) or (paths,)
    components = errors.as_tuple(ext) or (ext,)
    names = tuple(errors.check_text(where, f"ext[{i}]", one) for i, one in enumerate(components))
    if len(set(names)) != len(names):
        raise errors.invalid(where, f"ext is {errors.shown(ext)}", "name each component once")
    errors.check_choice(
        where, "missing_component_behavior", missing_component_behavior, ("", "empty", "error")
    )
    reader = _add(
        where,
        sources=tuple(
            errors.check_path(where, f"paths[{i}]", one) for i, one in enumerate(sources)
        ),
        components=names,
        may_lack_components=missing_component_behavior != "error",
        **settings,
    )
    outputs = tuple(
        nodes.Encoded(reader, i, one) for i, one in enumerate(_dtypes(where, dtypes, len(names)))
    )
    return outputs if len(outputs) > 1 else outputs[0]


def _dtypes(where: str, dtypes: Any, count: int) -> tuple[types.DALIDataType, ...]:
    if dtypes is None:
        return (types.UINT8,) * count
    given = errors.as_tuple(dtypes) or (dtypes,)
    if len(given) != count:
        raise errors.invalid(where, f"{len(given)} dtypes for {count} components", "give one each")
    for i, one in enumerate(given):
        if not isinstance(one, types.DALIDataType) or one is types.NO_TYPE:
            found = f"dtypes[{i}] is {errors.shown(one)}"
            raise errors.invalid(where, found, "it must be a data type, such as types.UINT8")
    return given


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> operators.MissingModule:
        return operators.missing(__name__, name)
