# SPDX-License-Identifier: Apache-2.0
"""Which epoch, which batch: how loops over one loader follow each other."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from feedrace.batches import BatchMaker
from feedrace.delivery import BatchesAhead, Delivery, DirectBatches
from feedrace.errors import Error, invalid
from feedrace.plan import Plan

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader

MAX_EPOCH = (1 << 40) - 1


class BatchIterator:
    """The batches of the rest of an epoch. Dropped half-way, it ends the loader's threads."""

    _is_over = True  # Of one that was never made whole: there is nothing to end.

    def __init__(self, loader: ImageLoader, number: int) -> None:
        self._loader = loader
        self.number = number  # The loader serves the iterator that it made last.
        self.is_complete = False  # Its last batch was the epoch's.
        self._is_over = False

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> tuple[Any, ...]:
        values = None if self._is_over else self._loader._take(self)
        if values is None:
            self._is_over = True
            raise StopIteration
        return values

    def __len__(self) -> int:
        """Batches of a whole epoch, as of the loader."""
        return len(self._loader)

    def close(self) -> None:
        """Ends the loader's threads and gives their memory back, until the next loop."""
        if not self._is_over:
            self._is_over = True
            self._loader._leave(self)

    def __del__(self) -> None:
        with suppress(Error):  # Dropped by a function of the loader's own, which ends with it.
            self.close()


class Course:
    """Where the loop stands. The native loader may be further, by what was made ahead of it.

    Nothing but its loader holds it: the two are dropped, or collected, together.

    A new loop begins the next epoch, unless the loop before it came to its end, or a state or
    `set_epoch` said where to go on.
    """

    def __init__(self, native: Any, maker: BatchMaker, plan: Plan) -> None:
        self._native = native
        self._pid = os.getpid()
        kind = BatchesAhead if maker.runs_ahead else DirectBatches
        self._batches: BatchesAhead | DirectBatches = kind(native, maker)
        self._taking = threading.Lock()
        self._step_samples: int = plan.world_size * plan.batch_size
        self._epoch_samples: int = plan.epoch_samples
        self._drops_rest: bool = plan.last_batch == "drop"
        self._iterator_number = 0
        # The epoch of the last batch of a loop that was not told of the epoch's end, and whether
        # there is nothing behind that batch.
        self._begun_epoch: int | None = None
        self._is_complete = False
        # Where the loop stands, where the native loader is ahead of it.
        self._state: str | None = None

    def begin(self) -> int:
        """Begins a loop; gives the number of its iterator."""
        self._end_epoch_if_complete()
        self._rest()
        if self._begun_epoch is not None:
            self._native.set_epoch(self._begun_epoch + 1)
            self._begun_epoch = None
        self._iterator_number += 1
        return self._iterator_number

    def take(self, iterator: BatchIterator) -> tuple[Any, ...] | None:
        """The next batch of an iterator; None at the epoch's end."""
        is_current = iterator.number == self._iterator_number
        if iterator.is_complete and (self._begun_epoch is None or not is_current):
            return None  # Somebody else took the end of its epoch.
        if not is_current:
            found = "a newer loop over the same loader has begun, or its position was set"
            fix = "run one loop at a time, or make a second loader"
            raise invalid("this iterator of an ImageLoader", found, fix)
        delivery = self._take_alone()
        if delivery is None:
            self._finish_epoch()
            return None
        self._begun_epoch = delivery.epoch
        self._state = delivery.state
        self._is_complete = iterator.is_complete = self._is_last(delivery.position)
        return delivery.values

    def _take_alone(self) -> Delivery | None:
        is_mine = False
        try:
            is_mine = self._taking.acquire(blocking=False)
            if not is_mine:
                found = "another thread, or a function of the pipeline, asks for a batch meanwhile"
                fix = "let one thread run the loop, and functions not ask for batches"
                raise invalid("this iterator of an ImageLoader", found, fix)
            if self._begun_epoch is not None and self._batches.is_past(self._begun_epoch):
                return None
            return self._batches.take()
        finally:
            if is_mine:
                self._taking.release()

    def leave(self, iterator: BatchIterator) -> None:
        """An iterator was dropped: unless its epoch was complete, no thread goes on for it."""
        if iterator.number == self._iterator_number and not iterator.is_complete:
            self._rest()
            self._native.pause()

    @property
    def epoch(self) -> int:
        if self._begun_epoch is None:
            return int(self._native.epoch)
        return self._begun_epoch + int(self._is_complete)

    def set_epoch(self, epoch: int) -> None:
        self._end_epoch_if_complete()
        self._rest()
        if self._begun_epoch is not None:
            self._iterator_number += 1
            if self._begun_epoch == epoch:
                # Named alone, the native loader would go on in the epoch that it stands in.
                self._native.set_epoch(epoch + 1 if epoch < MAX_EPOCH else epoch - 1)
        self._begun_epoch = None
        self._native.set_epoch(epoch)

    def state(self) -> str:
        return self._state if self._state is not None else str(self._native.state())

    def load_state(self, text: str, accept_changed_data: bool) -> list[str]:
        """Gives what differs and may. An Error changes nothing."""
        self._rest()
        notes: list[str] = self._native.load_state(text, accept_changed_data)
        if self._begun_epoch is not None:
            self._iterator_number += 1
        self._begun_epoch = None
        return notes

    def stop(self) -> None:
        self._batches.stop()

    def __del__(self) -> None:
        """The native loader ends its threads by itself; the one that runs ahead does not."""
        if os.getpid() == self._pid:
            self._batches.stop()

    def leave_for_good(self) -> None:
        """Ends all threads, also where one waits for a batch; nothing can be asked for again."""
        self._batches.stop()
        self._native.leave()

    def _is_last(self, position: int) -> bool:
        """Whether the batch at this position of the epoch is its last one."""
        left = self._epoch_samples - position - self._step_samples
        return left < self._step_samples if self._drops_rest else left <= 0

    def _end_epoch_if_complete(self) -> None:
        """Takes the end of an epoch whose last batch was the last thing that a loop asked for.

        Many trainers count batches. The native loader is well into the next epoch by then, and
        must not begin that once more.
        """
        if self._begun_epoch is not None and self._is_complete and self._batches.take() is None:
            self._finish_epoch()

    def _finish_epoch(self) -> None:
        self._batches.stop()
        self._begun_epoch = None
        self._state = None

    def _rest(self) -> None:
        """Ends what runs ahead in Python, and takes the native loader back to the loop."""
        self._batches.stop()
        if self._state is not None:
            self._native.load_state(self._state)
            self._state = None
