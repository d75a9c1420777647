# SPDX-License-Identifier: Apache-2.0
"""Which process this is, from torch.distributed where a program uses it.

Without it, and without arguments, the native loader reads the environment of the launcher.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

# Gives every rank's text to every rank, by rank.
AllGather = Callable[[str], list[str]]


class World(NamedTuple):
    """None: not known here; the environment may say more."""

    rank: int | None
    world_size: int | None
    all_gather: AllGather | None


def find_world(rank: int | None, world_size: int | None, check: bool) -> World:
    """Arguments first, then torch.distributed, if it is initialised in this process.

    Args:
        check: Whether ranks shall compare their settings. That takes torch.distributed, of which
            this loader's ranks must be the same processes.
    """
    distributed = _initialized_distributed()
    if distributed is None:
        return World(rank, world_size, None)
    own = (int(distributed.get_rank()), int(distributed.get_world_size()))
    if rank is None or world_size is None:
        rank, world_size = own
    is_same = (rank, world_size) == own
    return World(rank, world_size, _all_gather(distributed) if check and is_same else None)


def _initialized_distributed() -> Any:
    # A program that has not imported torch has not initialised its process group either.
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _all_gather(distributed: Any) -> AllGather:
    def gather(text: str) -> list[str]:
        texts: list[Any] = [None] * int(distributed.get_world_size())
        distributed.all_gather_object(texts, text)
        return [str(found) for found in texts]

    return gather
