# SPDX-License-Identifier: Apache-2.0
"""Where a loop gets its batches from: the native loader itself, or a thread that runs one ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from feedrace.batches import BatchMaker

if TYPE_CHECKING:
    from concurrent.futures import Future


class Delivery(NamedTuple):
    """A batch, as the loop gets it."""

    values: tuple[Any, ...]
    epoch: int
    position: int  # In the epoch, of the first sample of all ranks' batches.
    state: str | None  # Right behind it; None: as the native loader says.


def make_next(native: Any, maker: BatchMaker, keep_state: bool) -> Delivery | None:
    """The next batch; None at the end of the epoch. A batch that fails is one that did not come."""
    before = native.state() if maker.may_fail else None
    batch = native.next()
    if batch is None:
        return None
    # Here and not later: the batch itself must not be kept for the state's sake.
    state = native.state() if keep_state else None
    try:
        values = maker.make(batch)
    except BaseException:
        if before is not None:
            native.load_state(before)
        raise
    return Delivery(values, batch.epoch, batch.position, state)


class DirectBatches:
    """Batches made on the loop's thread, straight from the native loader."""

    def __init__(self, native: Any, maker: BatchMaker) -> None:
        self._native = native
        self._maker = maker

    def take(self) -> Delivery | None:
        """The next batch; None at the end of the epoch."""
        return make_next(self._native, self._maker, keep_state=False)

    def stop(self) -> None:
        """Nothing runs between two calls."""


class BatchesAhead:
    """Batches made on a thread that works on the next one while the loop has this one."""

    def __init__(self, native: Any, maker: BatchMaker) -> None:
        self._native = native
        self._maker = maker
        self._executor: Any = None
        self._next: Future[Delivery | None] | None = None

    def take(self) -> Delivery | None:
        """The next batch; None at the end of the epoch."""
        if self._next is None:
            # Here and not on the thread: the first batch may compare ranks, which must happen
            # where the program's own collective calls do.
            delivery = self._make()
        else:
            self._next.exception()  # Waits; Ctrl-C leaves it for the next call.
            pending, self._next = self._next, None
            delivery = pending.result()
        if delivery is not None:
            self._next = self._submit()
        return delivery

    def stop(self) -> None:
        """Waits for what the thread is doing, and ends it."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self._executor = None
        self._next = None

    def _submit(self) -> Future[Delivery | None]:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, thread_name_prefix="feedrace-batches")
        made: Future[Delivery | None] = self._executor.submit(self._make)
        return made

    def _make(self) -> Delivery | None:
        return make_next(self._native, self._maker, keep_state=True)
