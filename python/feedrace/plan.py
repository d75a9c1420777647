# SPDX-License-Identifier: Apache-2.0
"""What a loader shows of itself: its plan, its data set, and what trainers call its sampler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from feedrace.errors import check_int, closest, invalid, listed

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader


class Plan:
    """What will happen, known before the first read. ``print(loader.plan)`` shows it to a person.

    Attributes are the members of its JSON: `steps`, `samples`, `epoch_samples`, `world_size`,
    `backend`, `backend_reason`, `memory` (bytes), `warnings`, and more; ``plan.to_dict()`` has all
    of them, and the documentation's page on arguments a table.
    """

    def __init__(self, text: str, members: str, device_reason: str = "") -> None:
        """`device_reason`: of the host, where the native loader was not asked for another."""
        self._text = text
        self._members: dict[str, Any] = json.loads(members)
        if device_reason:
            self._members["device_reason"] = device_reason
            self._text += f"{'device':<10}cpu: {device_reason}\n"

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members", {})
        if name in members:
            return members[name]
        meant = closest(name, members)
        hint = f"did you mean {meant!r}?" if meant else f"it has {listed(members)}"
        raise AttributeError(f"plan: no {name!r}; {hint}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._members]

    def to_dict(self) -> dict[str, Any]:
        """All members, as plain data of one's own."""
        copied: dict[str, Any] = json.loads(json.dumps(self._members))
        return copied

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<feedrace.Plan of {self._members.get('steps')} steps>\n{self._text}"


class DatasetView:
    """The samples behind a loader: as many as `subset` chose, each by its number in the whole.

    Numbers count all samples, chosen or not: they are what the field "index" has, and what `key`,
    `where` and `label` take, from 0 to `sample_count` - 1.
    """

    def __init__(self, native: Any) -> None:
        self._native = native

    def __len__(self) -> int:
        """Samples that are chosen, of all ranks together: all of them without a `subset`."""
        sets = json.loads(self._native.plan_json())["sets"]
        return sum(int(chosen["selected"]) for chosen in sets)

    def __getitem__(self, index: object) -> NoReturn:
        """Refused: a `DataLoader` that is given this, or its loader, asks for single samples."""
        found = "samples are not given one by one, but as batches, by the loader"
        raise invalid("dataset", found, instead_of_a_data_loader())

    @property
    def sample_count(self) -> int:
        """All samples, before any subset."""
        return int(self._native.sample_count)

    @property
    def classes(self) -> list[str]:
        """Class names by number; empty where only numbers are known."""
        return list(self._native.classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def key(self, index: int) -> str:
        """Of a shard's sample its key, of a file its path under the root."""
        return str(self._native.key(self._checked(index)))

    def where(self, index: int) -> str:
        """Where the sample lies, as messages name it."""
        return str(self._native.where(self._checked(index)))

    def label(self, index: int) -> int:
        """The class number; -1 where the set has no labels."""
        return int(self._native.label(self._checked(index)))

    def _checked(self, index: int) -> int:
        return check_int("dataset", "index", index, 0, self.sample_count - 1)

    def __repr__(self) -> str:
        chosen, count = len(self), self.sample_count
        of_all = "" if chosen == count else f" of {count}"
        return f"<feedrace data set of {chosen}{of_all} samples>"


def instead_of_a_data_loader() -> str:
    """What to do instead of giving a loader, or its samples, to torch's `DataLoader`."""
    return (
        "loop over the loader itself: for images, labels in loader; where a DataLoader must be: "
        "DataLoader(feedrace.torch.LoaderDataset(loader), batch_size=None)"
    )


class Sampler:
    """What trainers look for as `.sampler`: it passes the epoch on to the loader."""

    def __init__(self, loader: ImageLoader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """As `ImageLoader.set_epoch`."""
        self._loader.set_epoch(epoch)

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def __len__(self) -> int:
        """Samples of an epoch on this rank."""
        return int(self._loader.plan.samples_a_rank)
