# SPDX-License-Identifier: Apache-2.0
"""What a comparison has found, as data, text and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from feedrace.names import printable

if TYPE_CHECKING:
    import numpy

_SHOWN_LINES = 20


@dataclass
class StepResult:
    """Differences of one step over all files, in levels of 0 to 255.

    Attributes:
        name: "decode", "resize + crop", "random crop" or "normalize".
        promise: What Feedrace promises of it, in words.
        files: Files compared.
        largest: The largest difference of a value.
        worst: The file that has it; empty where no value differs.
        outside: Files whose differences are larger than promised.
    """

    name: str
    promise: str
    files: int = 0
    largest: float = 0.0
    worst: str = ""
    outside: list[str] = field(default_factory=list)
    _sum: float = 0.0
    _count: int = 0

    @property
    def mean(self) -> float:
        """The mean difference over all values of all files."""
        return self._sum / self._count if self._count else 0.0

    def add(self, name: str, difference: numpy.ndarray, is_within: bool) -> None:
        """The absolute differences of one file, in any shape."""
        largest = float(difference.max(initial=0))
        self.files += 1
        self._sum += float(difference.sum(dtype=float))
        self._count += difference.size
        if largest > self.largest:
            self.largest, self.worst = largest, name
        if not is_within:
            self.outside.append(name)

    def add_other_size(self, name: str) -> None:
        """A file whose pictures have different sizes, so that no value can be compared."""
        self.files += 1
        self.largest, self.worst = 255.0, name
        self.outside.append(name)


@dataclass
class Report:
    """The certificate.

    Attributes:
        source: The folder or shards, as given.
        found: Pictures in it; None where they were not counted.
        chosen: How many of them were looked at.
        versions: Of the reference: {"Pillow": "13.0.0", "torchvision": ...}.
        steps: In the order of the pipeline.
        skipped: File and reason of each that could not be compared in a step.
    """

    source: str
    found: int | None
    chosen: int
    versions: dict[str, str]
    steps: list[StepResult]
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_within(self) -> bool:
        """Whether something was compared and each difference is within what is promised."""
        return all(step.files and not step.outside for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source,
            "found": self.found,
            "chosen": self.chosen,
            "reference": self.versions,
            "steps": [_step_dict(step) for step in self.steps],
            "skipped": [{"file": name, "reason": reason} for name, reason in self.skipped],
            "within_promise": self.is_within,
        }

    def __str__(self) -> str:
        chosen = str(self.chosen) if self.found is None else f"{self.chosen} of {self.found}"
        against = " and ".join(f"{name} {version}" for name, version in self.versions.items())
        lines = [
            f"{printable(self.source)}: {chosen} pictures against {against}",
            f"{'step':<14} {'files':>7} {'largest':>9} {'mean':>10}  promised; worst file",
        ]
        for step in self.steps:
            worst = f"; {printable(step.worst)}" if step.worst else ""
            lines.append(
                f"{step.name:<14} {step.files:>7} {step.largest:>9.4g} {step.mean:>10.4g}  "
                f"{step.promise}{worst}"
            )
        lines += _shortened("skipped", [f"{name}: {reason}" for name, reason in self.skipped])
        for step in self.steps:
            lines += _shortened(f"outside the promise of {step.name}", step.outside)
        if self.is_within:
            lines.append("ok: all differences are within what Feedrace promises")
        else:
            empty = [step.name for step in self.steps if not step.files]
            lines.append(
                f"not ok: nothing could be compared of {', '.join(empty)}"
                if empty
                else "not ok: differences are larger than promised; please report the worst file"
            )
        return "\n".join(lines)


def _step_dict(step: StepResult) -> dict[str, Any]:
    return {
        "name": step.name,
        "promise": step.promise,
        "files": step.files,
        "largest_levels": step.largest,
        "mean_levels": step.mean,
        "worst_file": step.worst or None,
        "outside_promise": step.outside,
    }


def _shortened(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = len(lines) - _SHOWN_LINES
    tail = [f"  ... and {more} more; --json lists all"] if more > 0 else []
    return [
        f"{title}: {len(lines)}",
        *(f"  {printable(line)}" for line in lines[:_SHOWN_LINES]),
        *tail,
    ]
