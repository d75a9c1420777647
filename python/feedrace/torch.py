# SPDX-License-Identifier: Apache-2.0
"""A loader as a data set of torch, for what insists on a `DataLoader`.

Most trainers take an `ImageLoader` as it is. Where a `DataLoader` or torchdata's
`StatefulDataLoader` is asked for::

    from feedrace.torch import LoaderDataset

    wrapped = StatefulDataLoader(LoaderDataset(loader), batch_size=None, num_workers=0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import torch.utils.data

from feedrace.errors import invalid, shown
from feedrace.loader import ImageLoader

__all__ = ["LoaderDataset"]


class _WholeBatch(tuple[Any, ...]):
    """A batch as the data set hands it on. A type of its own, so that torch's collate knows it."""


def _refuse_to_collate(batch: object, *, collate_fn_map: object = None) -> NoReturn:
    found = "the DataLoader puts batches of the loader together into batches of its own"
    raise invalid("LoaderDataset", found, "take DataLoader(..., batch_size=None, num_workers=0)")


# A data set is not told how it is batched, but torch asks this table before it batches anything.
# The entry is of a type that nobody else has. Where a later torch keeps the table elsewhere, a
# DataLoader stacks batches, as it does with any data set; a test would tell.
with suppress(ImportError):
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[_WholeBatch] = _refuse_to_collate


class LoaderDataset(torch.utils.data.IterableDataset[tuple[Any, ...]]):
    """Whole batches of an `ImageLoader`, with its state, epochs and length.

    Give it to a `DataLoader` with ``batch_size=None, num_workers=0``: batches are made already, on
    the loader's own threads.

    Args:
        loader: The loader; its batches and its state are the data set's.

    Raises:
        Error: `loader` is none, a worker process asks for batches, or a `DataLoader` with another
            `batch_size` than None (and no `collate_fn` of its own) would batch them once more.
    """

    def __init__(self, loader: ImageLoader) -> None:
        super().__init__()
        if not isinstance(loader, ImageLoader):
            fix = "give it a feedrace.ImageLoader"
            raise invalid("LoaderDataset", f"loader is {shown(loader)}", fix)
        self.loader = loader

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if torch.utils.data.get_worker_info() is not None:
            fix = "take DataLoader(..., batch_size=None, num_workers=0); num_threads sets threads"
            raise invalid("LoaderDataset", "it is used in a worker process of a DataLoader", fix)
        return map(_WholeBatch, iter(self.loader))

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """As `ImageLoader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As `ImageLoader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `ImageLoader.load_state_dict`."""
        self.loader.load_state_dict(state)
