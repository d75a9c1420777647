# SPDX-License-Identifier: Apache-2.0
"""The arguments of `ImageLoader`: checked one by one, and put into the native loader's form."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from feedrace import devices
from feedrace.errors import (
    as_tuple,
    check_bool,
    check_choice,
    check_int,
    check_interval,
    check_names,
    check_path,
    check_real,
    check_text,
    invalid,
    plain,
    shown,
)
from feedrace.sample_numbers import sample_numbers

WHERE = "ImageLoader"
_MAX_U64 = (1 << 64) - 1
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_PREFIXES = "kmgt"
_SUBSET_KEYS = (
    "indices",
    "keys",
    "key_pattern",
    "key_filter",
    "key_filter_name",
    "share",
    "share_salt",
)
_SET_KEYS = ("name", "sources", "number_like", "subset", "repeat", "weight")
_MAX_REPEAT = 10**6
_CACHE_KEYS = ("limit", "name", "folder")
_MIN_CACHE_BYTES = 1 << 20
# Fields that every sample has; any other name is one of the shards'.
RESERVED_FIELDS = ("image", "label", "index", "key", "flag")


def bytes_of(name: str, value: object, low: int, where: str = WHERE) -> int:
    """A number of bytes: an int, or text such as "4GB" (1000s) or "512MiB" (1024s)."""
    if not isinstance(value, str):
        return check_int(where, name, value, low, _MAX_U64, 'bytes, or a text such as "4GB"')
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        fix = 'it must be a number of bytes, or a text such as "4GB" or "512MiB"'
        raise invalid(where, f"{name} is {shown(value)}", fix)
    number, prefix, binary = match.groups()
    power = _PREFIXES.index(prefix.lower()) + 1 if prefix else 0
    wanted = float(number) * (1024 if binary else 1000) ** power
    if wanted > _MAX_U64:
        raise invalid(where, f"{name} is {shown(value)}", "give less than 18 EB")
    return check_int(where, name, int(wanted), low)


def paths(name: str, value: object, where: str = WHERE) -> list[str]:
    """One path or several, as texts."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return [check_path(where, name, value)]
    items = as_tuple(value)
    if not items:
        fix = "give a folder, tar shards or a list, as a path or a list of paths"
        if name.startswith("cuda_"):
            fix = "give a path, or a list of paths"
        raise invalid(where, f"{name} is {shown(value)}", fix)
    return [check_path(where, f"{name}[{i}]", item) for i, item in enumerate(items)]


def names(name: str, value: object) -> list[str]:
    items = (value,) if isinstance(value, str) else as_tuple(value)
    if not items:
        raise invalid(WHERE, f"{name} is {shown(value)}", "give a name or several, as str")
    return [check_text(WHERE, name, item) for item in items]


def subset(name: str, value: object) -> dict[str, Any] | None:
    """Which samples: a dict, a list of numbers or keys, or a filter of keys."""
    if value is None:
        return None
    where = f"{WHERE}: {name}"
    if not isinstance(value, Mapping):
        if not isinstance(value, (list, tuple, range)) and not hasattr(value, "tolist"):
            fix = 'give a dict such as {"share": (0, 0.9)}, or a list of sample numbers or of keys'
            raise invalid(WHERE, f"{name} is {shown(value)}", fix)
        value = {_kind_of(value): value}
    check_names(where, "member", value, _SUBSET_KEYS)
    checks: dict[str, Callable[[Any], Any]] = {
        "indices": lambda v: sample_numbers(where, "indices", v),
        "keys": lambda v: [_key(where, "keys", key) for key in _list(v)],
        "key_pattern": lambda v: check_text(where, "key_pattern", v),
        "key_filter": lambda v: _callable(where, "key_filter", v),
        "key_filter_name": lambda v: check_text(where, "key_filter_name", v),
        "share": lambda v: check_interval(where, "share", v, 0, 1),
        "share_salt": lambda v: check_int(where, "share_salt", v, 0, _MAX_U64),
    }
    return {member: checks[member](given) for member, given in value.items()}


def _kind_of(items: Any) -> str:
    """Of a list that is a subset: the name of what is in it."""
    if isinstance(items, (list, tuple)):
        return "keys" if items and isinstance(items[0], str) else "indices"
    dtype = getattr(items, "dtype", None)  # A range has none.
    return "keys" if getattr(dtype, "kind", "") in ("U", "O") else "indices"


def _key(where: str, name: str, value: object) -> str:
    """A key of a sample, which may hold bytes that are not UTF-8 as `os.fsdecode` has them."""
    key = plain(value)
    if not isinstance(key, str):
        raise invalid(where, f"{name} has {shown(value)}", "it must be a list of str")
    try:
        os.fsencode(key)
    except UnicodeEncodeError:
        fix = "give keys as loader.dataset.key(i) has them"
        raise invalid(where, f"{name} has {shown(value)}", fix) from None
    return key


def sets(name: str, value: object) -> list[dict[str, Any]] | None:
    """Several data sets, each a dict of `_SET_KEYS`, of which "sources" must be there."""
    if value is None:
        return None
    fix = 'give a list of dicts such as {"sources": "a.tar", "weight": 2}'
    items = as_tuple(value)
    if not items:
        raise invalid(WHERE, f"{name} is {shown(value)}", fix)
    checked = []
    for i, item in enumerate(items):
        where = f"{name}[{i}]"
        if not isinstance(item, Mapping) or "sources" not in item:
            raise invalid(WHERE, f"{where} is {shown(item)}", fix)
        check_names(f"{WHERE}: {where}", "member", item, _SET_KEYS)
        made = {
            "name": check_text(WHERE, f"{where}['name']", item.get("name", "")),
            "sources": paths(f"{where}['sources']", item["sources"]),
            "number_like": _or_none(paths)(f"{where}['number_like']", item.get("number_like")),
            "subset": subset(f"{where}['subset']", item.get("subset")),
            "repeat": check_int(WHERE, f"{where}['repeat']", item.get("repeat", 1), 1, _MAX_REPEAT),
            "weight": check_real(WHERE, f"{where}['weight']", item.get("weight", 0), 0),
        }
        checked.append(made)
    return checked


def shared_cache(name: str, value: object) -> dict[str, Any] | None:
    """Memory that the processes of this machine share: its size, or a dict of `_CACHE_KEYS`."""
    if value is None:
        return None
    given = value if isinstance(value, Mapping) else {"limit": value}
    check_names(f"{WHERE}: {name}", "member", given, _CACHE_KEYS)
    if "limit" not in given:
        raise invalid(WHERE, f"{name} has no limit", 'give one, such as {"limit": "20GB"}')
    return {
        "limit": bytes_of(name, given["limit"], _MIN_CACHE_BYTES),
        "name": check_text(WHERE, f"{name}['name']", given.get("name", "")),
        "folder": check_path(WHERE, f"{name}['folder']", given.get("folder", "/dev/shm")),
    }


def shuffle(name: str, value: object) -> str | None:
    """None: by the pipeline; True: "global"; False: "none"."""
    choices = (None, True, False, "global", "window", "none")
    if isinstance(value, int) and not isinstance(value, bool) and value > 1:
        fix = f"take True, which mixes all samples, or shuffle='window', shuffle_window={value}"
        raise invalid(WHERE, f"{name} is {value}, as WebDataset counts its buffer", fix)
    chosen = check_choice(WHERE, name, value, choices)
    if isinstance(chosen, bool):
        return "global" if chosen else "none"
    return None if chosen is None else str(chosen)


def device(name: str, value: object) -> str:
    """Where batches go: "cpu", "auto", "cuda" or "cuda:N"."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"cuda:{value}"  # As torch counts them.
    text = "cpu" if value is None else str(plain(value))  # A torch.device says its name so.
    if text in ("cpu", "auto") or re.fullmatch(r"cuda(:\d{1,9})?", text):
        return text
    fix = "it must be None, 'cpu', 'auto', 'cuda', 'cuda:1' or the number of a GPU"
    if text in ("gpu", "mixed"):
        fix = "take device='cuda', and decode_device says where pictures are decoded"
    raise invalid(WHERE, f"{name} is {shown(value)}", fix)


def fields(name: str, value: object) -> tuple[str, ...]:
    found = names(name, value)
    for field in found:
        if not field or field == "?":
            raise invalid(WHERE, f"{name} has {shown(field)}", "give names of fields")
        if found.count(field) > 1:
            raise invalid(WHERE, f"{name} has {shown(field)} twice", "name each field once")
        if field.endswith("?") and field[:-1] in RESERVED_FIELDS:
            raise invalid(WHERE, f"{name} has {shown(field)}", f"{field[:-1]!r} is always there")
    return tuple(found)


def _list(value: object) -> tuple[Any, ...]:
    items = tuple(value) if isinstance(value, (range, set, frozenset)) else as_tuple(value)
    if items is None:
        raise invalid(WHERE, f"subset has {shown(value)}", "give a list")
    return items


def _callable(where: str, name: str, value: object) -> Any:
    if callable(value):
        return value
    raise invalid(where, f"{name} is {shown(value)}", "give a function of the key, or leave it out")


def _whole(low: int, high: int) -> Callable[[str, object], int]:
    return lambda name, value: check_int(WHERE, name, value, low, high)


def _choice(*choices: Any) -> Callable[[str, object], Any]:
    return lambda name, value: check_choice(WHERE, name, value, choices)


def _flag(name: str, value: object) -> bool:
    return check_bool(WHERE, name, value)


def _text(name: str, value: object) -> str:
    return check_text(WHERE, name, value)


def _or_none(check: Callable[[str, Any], Any], none: Any = None) -> Callable[[str, object], Any]:
    """A check that lets None stand for `none`."""
    return lambda name, value: none if value is None else check(name, value)


def _path(name: str, value: object) -> str:
    return check_path(WHERE, name, value)


def _port(name: str, value: object) -> str:
    """Where metrics are served: a port, or "ADDRESS:PORT"."""
    if isinstance(value, str):
        return check_text(WHERE, name, value)
    return str(check_int(WHERE, name, value, 0, 65535, 'a port, or "ADDRESS:PORT"'))


def _share(name: str, value: object) -> float:
    return check_real(WHERE, name, value, 0, 1)


def _seconds(name: str, value: object) -> float:
    seconds = check_real(WHERE, name, value, 0, 1e9)
    if seconds == 0:
        # For ever to torch's DataLoader, at once to most of Python.
        fix = "it must be above 0, or None to wait for ever"
        raise invalid(WHERE, f"{name} is {shown(value)}", fix)
    return seconds


# Each argument by its name: how it is checked. The order is that of the signature.
ARGUMENTS: dict[str, Callable[[str, Any], Any]] = {
    "source": _or_none(paths),
    "batch_size": _whole(1, 1 << 20),
    "transform": lambda _, value: value,  # The loader knows what it may be.
    "shuffle": shuffle,
    "seed": _whole(0, _MAX_U64),
    "last_batch": _choice(None, "drop", "pad", "partial", "fill"),
    "subset": subset,
    "num_threads": _or_none(_whole(0, 1024), 0),
    "prefetch_factor": _whole(1, 1024),
    "device": device,
    "decode_device": _choice("auto", "cpu", "cuda"),
    "hardware_share": _share,
    "jpeg_engine": _choice("feedrace", "libjpeg-turbo"),
    "fields": fields,
    "output": _choice(None, "torch", "jax", "numpy", "dlpack"),
    "ragged": _choice("list", "jagged"),
    "on_error": _choice("raise", "replace", "zero"),
    "error_budget": _or_none(_whole(0, _MAX_U64)),
    "error_budget_share": _or_none(_share),
    "quarantine_file": _or_none(_path, ""),
    "io": _choice("auto", "uring", "direct", "buffered", "cufile"),
    "io_fallback": _choice("warn", "error"),
    "page_cache": _choice("auto", "keep", "drop"),
    "queue_depth": _whole(1, 4096),
    "memory_limit": _or_none(lambda name, value: bytes_of(name, value, 1), 0),
    "rank": _or_none(_whole(0, _MAX_U64)),
    "world_size": _or_none(_whole(1, _MAX_U64)),
    "rank_check": _flag,
    "on_unknown": _choice("python", "error"),
    "orientation": _choice(None, "keep", "upright"),
    "sets": sets,
    "number_like": _or_none(paths),
    "repeat": _whole(1, _MAX_REPEAT),
    "epoch_samples": _or_none(_whole(1, _MAX_U64), 0),
    "shuffle_chunk": _whole(1, _MAX_U64),
    "shuffle_window": _whole(1, _MAX_U64),
    "image_fields": _or_none(names),
    "label_field": _choice("auto", "cls", "json", "none"),
    "label_json_key": _text,
    "label_file": _or_none(_path, ""),
    "cache_dir": _or_none(_path, ""),
    "shared_cache": shared_cache,
    "timeout": _or_none(_seconds, 0.0),
    "max_pixels": _whole(1, _MAX_U64),
    "crop_index": _choice("auto", "off"),
    "metrics": _or_none(_port, ""),
    "live_socket": _flag,
    "sqpoll": _or_none(_flag),
    "iopoll": _flag,
    "cuda_plugin": _or_none(paths),
    "cuda_libraries": _or_none(paths),
}

# Of the arguments, what the native loader calls otherwise, and what it has no part in.
_RENAMED = {"source": "sources", "io": "backend"}
_PYTHON_ONLY = {
    "transform",
    "output",
    "ragged",
    "rank_check",
    "on_unknown",
    "orientation",
}


def check(given: dict[str, Any]) -> dict[str, Any]:
    """All arguments, checked, under their own names."""
    checked = {name: ARGUMENTS[name](name, value) for name, value in given.items()}
    if checked["sets"] is not None:
        for name in ("subset", "number_like"):
            if checked[name] is not None:
                fix = "give it to each of the sets"
                raise invalid(WHERE, f"{name} is given beside sets", fix)
    if (checked["source"] is None) == (checked["sets"] is None):
        found = "both source and sets are given" if checked["sets"] else "no source is given"
        raise invalid(WHERE, found, "give a folder, shards or a list, or sets=[...] for several")
    if (checked["rank"] is None) != (checked["world_size"] is None):
        missing = "rank" if checked["rank"] is None else "world_size"
        raise invalid(WHERE, f"{missing} is not given", "give rank and world_size, or neither")
    if checked["rank"] is not None and checked["rank"] >= checked["world_size"]:
        found = f"rank is {checked['rank']} of world_size {checked['world_size']}"
        raise invalid(WHERE, found, "ranks count from 0")
    if checked["output"] == "numpy" and checked["device"].startswith("cuda"):
        fix = "take device='cpu', or output='torch', 'jax' or 'dlpack'"
        found = f"output is 'numpy' and device is {checked['device']!r}; NumPy has host memory only"
        raise invalid(WHERE, found, fix)
    return checked


def native(checked: dict[str, Any]) -> dict[str, Any]:
    """Those of the checked arguments that the native loader takes, under its names."""
    made = {
        _RENAMED.get(name, name): value
        for name, value in checked.items()
        if name not in _PYTHON_ONLY
    }
    if checked["label_field"] == "none":
        made["label_field"] = ""
    made["fields"] = [name for name in checked["fields"] if name not in RESERVED_FIELDS]
    made["device"] = devices.native_device(checked["device"])
    made["cuda_plugin"] = devices.plugin_places(checked["cuda_plugin"])
    made["cuda_libraries"] = devices.library_folders(checked["cuda_libraries"])
    return made
