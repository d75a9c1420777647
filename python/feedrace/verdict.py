# SPDX-License-Identifier: Apache-2.0
"""Why batches do not come faster, as data; and a loop fed from one batch, to know its own pace."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Any

from feedrace.errors import check_path, error, invalid, shown, text_of

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader

__all__ = ["CachedBatches", "Ceiling", "Remedy", "Verdict"]

Path = str | PathLike[str]

_WHERE = "ImageLoader.verdict"
_CEILINGS = "the file that feedrace bench ceilings PATH --json wrote"
_DMON = "the file that nvidia-smi dmon -s u wrote while the loop ran"
# Steps before the loop runs at its pace: memory is allocated, kernels are compiled.
_WARM_STEPS = 3


@dataclass(frozen=True)
class Ceiling:
    """What a part could give if everything else were free."""

    part: str  # "storage", "decode", "cores", "consumer", "loader".
    images_per_second: float
    is_measured: bool  # By `feedrace bench ceilings` or `cached()`; else it follows from the run.
    is_at_least: bool  # The part was never seen busy enough to know more.


@dataclass(frozen=True)
class Remedy:
    """Something to do about it."""

    action: str
    command: str  # That does it; may be empty.
    images_per_second: float | None  # Predicted; None where it can't be told.


@dataclass(frozen=True)
class Verdict:
    """What limits, from the last half of the run or more. `str()` is the sentence."""

    limit: str  # "decode", "storage", "small_files", "consumer", ...
    text: str
    headline: str
    images_per_second: float
    evidence: tuple[str, ...]
    ceilings: tuple[Ceiling, ...]
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]

    @classmethod
    def of_json(cls, text: str) -> Verdict:
        """From what the native loader gives."""
        found = json.loads(text)
        lists = {
            "evidence": tuple(found.pop("evidence")),
            "ceilings": tuple(Ceiling(**one) for one in found.pop("ceilings")),
            "remedies": tuple(Remedy(**one) for one in found.pop("remedies")),
            "notes": tuple(found.pop("notes")),
        }
        return cls(**found, **lists)

    def __str__(self) -> str:
        return self.text


def ceilings_text(ceilings: Path | Mapping[str, Any] | None, consumer: float | None) -> str:
    """What was measured, as the native loader reads it; `consumer` is what `cached()` saw."""
    if ceilings is None:
        found: Any = {"ceilings": {}}
    elif isinstance(ceilings, Mapping):
        found = dict(ceilings)
    else:
        text = _text_in("ceilings", ceilings, _CEILINGS)
        try:
            found = json.loads(text)
        except ValueError as e:
            what = f"ceilings {shown(ceilings)} is no JSON"
            raise invalid(_WHERE, what, f"give {_CEILINGS}") from e
    if consumer is not None and isinstance(found, dict):
        parts = found.get("ceilings")
        parts = dict(parts) if isinstance(parts, Mapping) else {}
        found["ceilings"] = {"consumer": {"images_per_second": consumer}, **parts}
    try:
        return json.dumps(found)
    except (TypeError, ValueError) as e:
        raise invalid(_WHERE, f"ceilings can't be JSON ({e})", f"give {_CEILINGS}") from e


def dmon_text(dmon: Path | None) -> str | None:
    """What `nvidia-smi dmon` wrote."""
    return None if dmon is None else _text_in("dmon", dmon, _DMON)


def _text_in(name: str, given: Path, instead: str) -> str:
    path = check_path(_WHERE, name, given)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as e:
        found = f"{_WHERE}: {shown(path)}: {text_of(e)}"
        raise error("not_found", f"{found}; give {instead}") from e


class CachedBatches:
    """One batch of a loader, `steps` times: `loader.cached(steps)` makes it.

    A loop over it never waits for data, so `images_per_second` is the loop's own ceiling: no loader
    makes it faster than that. Where the loop gives work to a GPU, let it wait for it at each step,
    or at the last (``torch.cuda.synchronize()``), or use enough steps that it can't run ahead.
    """

    def __init__(self, loader: ImageLoader, steps: int) -> None:
        self._loader = loader
        self._steps = steps
        self._seconds: list[float] = []

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The batch, again and again. The loader stands where it stood before."""
        state = self._loader.state_dict()
        batches = iter(self._loader)
        try:
            values = next(batches, None)
        finally:
            batches.close()
            self._loader.load_state_dict(state)
        if values is None:
            fix = "give it at least a batch of samples, or last_batch='partial'"
            raise invalid("ImageLoader.cached", "the loader has no batch", fix)
        self._seconds = []
        for _ in range(self._steps):
            began = perf_counter()
            yield values
            self._seconds.append(perf_counter() - began)
        if len(self._seconds) > _WARM_STEPS:
            self._loader._consumer_rate = self.images_per_second

    @property
    def images_per_second(self) -> float:
        """Of the steps so far, without the first three; the mean, as work may lag behind a step."""
        seconds = self._seconds[_WARM_STEPS:]
        if not seconds:
            found = f"{len(self._seconds)} steps are done"
            fix = f"loop over it, {_WARM_STEPS + 1} steps at least"
            raise invalid("ImageLoader.cached", found, fix)
        return self._loader.batch_size / max(statistics.fmean(seconds), 1e-9)
