# SPDX-License-Identifier: Apache-2.0
"""A progress bar around a loader: batches, images a second, and the share of time spent waiting."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from feedrace.errors import check_choice, check_names, check_text, invalid, shown

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader

__all__ = ["progress"]

_SHOWN_EVERY_SECONDS = 0.1


class _Bar(Protocol):
    def advance(self, text: str) -> None: ...
    def close(self) -> None: ...


def progress(
    loader: ImageLoader,
    *,
    description: str | None = None,
    style: Literal["auto", "tqdm", "rich", "plain", "none"] = "auto",
    **others: NoReturn,
) -> Iterator[tuple[Any, ...]]:
    """Loops over a loader and shows how far it is: ``for images, labels in fr.progress(loader)``.

    Shown are batches, images a second, and "waiting": the share of the loop's time in which it
    waited for a batch. Leaving the loop ends the loader's threads, as leaving its own does.

    Args:
        description: In front of the bar. None: "epoch N".
        style: "tqdm" (in notebooks too), "rich", "plain" (one line on standard error), "none";
            "auto" takes the first of them that is installed, and on standard error that is no
            terminal nothing in place of "plain".

    Raises:
        Error: `loader` is no loader, or `style` is unknown or not installed.
    """
    where = "fr.progress"
    check_names(where, "argument", others, ("loader", "description", "style"))
    if not all(hasattr(loader, name) for name in ("batch_size", "epoch", "__len__")):
        fix = "give it an ImageLoader, without a DataLoader around it"
        raise invalid(where, f"it got {shown(loader)}", fix)
    if description is not None:
        check_text(where, "description", description)
    chosen = check_choice(where, "style", style, ("auto", "tqdm", "rich", "plain", "none"))
    if chosen == "auto":
        chosen = _installed_style()
    elif chosen in ("tqdm", "rich") and not _is_installed(chosen):
        fix = f"pip install {chosen}, or take style='plain'"
        raise invalid(where, f"style is {chosen!r}, which is not installed", fix)
    # The checks above at the call, the rest with the loop.
    return _loop(loader, description, chosen)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _installed_style() -> str:
    for module in ("tqdm", "rich"):
        if _is_installed(module):
            return module
    return "plain" if sys.stderr is not None and sys.stderr.isatty() else "none"


def _loop(loader: ImageLoader, description: str | None, style: str) -> Iterator[tuple[Any, ...]]:
    batches = iter(loader)
    text = f"epoch {loader.epoch}" if description is None else description
    bar = _BARS[style](len(loader), text)
    meter = Meter()
    try:
        while True:
            meter.ask()
            batch = next(batches, None)
            if batch is None:
                return
            meter.get(count_samples(batch, loader.batch_size))
            bar.advance(meter.text())
            yield batch
    finally:
        bar.close()
        batches.close()


def count_samples(batch: tuple[Any, ...], batch_size: int) -> int:
    """Of the first member that has a length."""
    for member in batch:
        if hasattr(member, "__len__"):
            return len(member)
    return batch_size


class Meter:
    """Images a second and the share of waiting, from the times of asking and getting."""

    def __init__(self) -> None:
        self.samples = 0
        self.waited_seconds = 0.0
        self._began: float | None = None
        self._asked = 0.0
        self._got = 0.0

    def ask(self) -> None:
        self._asked = monotonic()

    def get(self, samples: int) -> None:
        self._got = monotonic()
        if self._began is None:
            # The first batch pays for the start of everything, and would be shown as waiting long
            # after that.
            self._began = self._got
            return
        self.samples += samples
        self.waited_seconds += self._got - self._asked

    def text(self) -> str:
        seconds = self._got - (self._began if self._began is not None else self._got)
        if seconds <= 0:
            return "starting"
        rate = self.samples / seconds
        return f"{rate:,.0f} images/s, waiting {100 * self.waited_seconds / seconds:.0f} %"


class _NoBar:
    def __init__(self, total: int, description: str) -> None:
        pass

    def advance(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class _PlainBar:
    """One line on standard error, written over."""

    def __init__(self, total: int, description: str) -> None:
        self._total = total
        self._description = description
        self._count = 0
        self._written = 0.0
        self._width = 0

    def advance(self, text: str) -> None:
        self._count += 1
        now = monotonic()
        if now - self._written >= _SHOWN_EVERY_SECONDS or self._count == self._total:
            self._written = now
            self._write(f"{self._description}: {self._count}/{self._total} batches, {text}")

    def close(self) -> None:
        if self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _write(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)


class _TqdmBar:
    def __init__(self, total: int, description: str) -> None:
        from tqdm.auto import tqdm

        # Its own rate would be batches a second beside ours.
        layout = (
            "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
        )
        self._bar = tqdm(total=total, desc=description, unit="batch", bar_format=layout)

    def advance(self, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(1)

    def close(self) -> None:
        self._bar.close()


class _RichBar:
    def __init__(self, total: int, description: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rates]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(description, total=total, rates="")
        self._progress.start()

    def advance(self, text: str) -> None:
        self._progress.update(self._task, advance=1, rates=text)

    def close(self) -> None:
        self._progress.stop()


_BARS: dict[str, Any] = {
    "tqdm": _TqdmBar,
    "rich": _RichBar,
    "plain": _PlainBar,
    "none": _NoBar,
}
