# SPDX-License-Identifier: Apache-2.0
"""Where a loop gets its batches from: the native loader itself, or a thread that runs one ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
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
    hand_over: Callable[[], None] | None = None  # To the stream of the thread that takes it.


def make_next(native: Any, maker: BatchMaker, keep_state: bool) -> Delivery | None:
    """The next batch; None at the end of the epoch. A batch that fails is one that did not come."""
    maker.prepare()
    batch = native.next()
    if batch is None:
        return None
    # Here and not later: the batch itself must not be kept for the state's sake.
    state = native.state() if keep_state else None
    began = perf_counter()
    try:
        values = maker.make(batch)
    except BaseException:
        native.load_state(native.state_before(batch))
        raise
    if not keep_state:  # The loop waits for it; a thread that runs ahead takes nobody's time.
        native.note_handing(perf_counter() - began)
    hand_over = maker.hand_over_later(batch, values) if keep_state else None
    return Delivery(values, batch.epoch, batch.position, state, hand_over)


class DirectBatches:
    """Batches made on the loop's thread, straight from the native loader."""

    def __init__(self, native: Any, maker: BatchMaker) -> None:
        self._native = native
        self._maker = maker

    def take(self) -> Delivery | None:
        """The next batch; None at the end of the epoch."""
        return make_next(self._native, self._maker, keep_state=False)

    def is_past(self, epoch: int) -> bool:
        """Whether the end of this epoch was taken, by a call that Ctrl-C ended."""
        return int(self._native.epoch) != epoch

    def stop(self) -> None:
        """Nothing runs between two calls."""


class BatchesAhead:
    """Batches made on a thread that works on the next one while the loop has this one."""

    def __init__(self, native: Any, maker: BatchMaker) -> None:
        self._native = native
        self._maker = maker
        self._thread: _Worker | None = None
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
            if delivery is not None and delivery.hand_over is not None:
                delivery.hand_over()
        if delivery is not None:
            if self._thread is None:
                self._thread = _Worker()
            self._next = self._thread.submit(self._make)
        return delivery

    def is_past(self, epoch: int) -> bool:
        """Never: what was taken stays here until it is asked for."""
        return False

    def stop(self) -> None:
        """Ends the thread, also where it waits for a batch."""
        thread, self._thread, self._next = self._thread, None, None
        if thread is None:
            return
        self._native.interrupt(True)
        try:
            thread.end()
        finally:  # Ctrl-C may end the wait for a slow function.
            self._native.interrupt(False)

    def _make(self) -> Delivery | None:
        return make_next(self._native, self._maker, keep_state=True)


class _Worker:
    """A thread that makes one batch after another.

    A daemon: the interpreter would wait for another kind before it lets the loader end it.
    """

    def __init__(self) -> None:
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_run, args=(self._orders,), name="feedrace-batches", daemon=True
        )
        self._thread.start()

    def submit(self, make: Callable[[], Delivery | None]) -> Future[Delivery | None]:
        from concurrent.futures import Future  # Imports logging, which few loaders need.

        made: Future[Delivery | None] = Future()

        def fill() -> None:
            try:
                made.set_result(make())
            except BaseException as e:
                made.set_exception(e)

        self._orders.put(fill)
        return made

    def end(self) -> None:
        self._orders.put(None)
        if threading.current_thread() is not self._thread:  # A function may drop its own loader.
            self._thread.join()


def _run(orders: SimpleQueue[Callable[[], None] | None]) -> None:
    while (order := orders.get()) is not None:
        order()
        del order  # It holds the batch.
