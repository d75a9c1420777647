# SPDX-License-Identifier: Apache-2.0
"""Epochs over pipelines, whatever framework the tensors are for."""

from __future__ import annotations

import enum
import logging
from typing import Any

from feedrace import errors
from feedrace.calls import checked_methods
from feedrace.dali import operators
from feedrace.dali.pipeline import Pipeline
from feedrace.outputs import converter, torch_refusal

_log = logging.getLogger("feedrace")


class LastBatchPolicy(enum.Enum):
    """What becomes of samples that do not fill the last batch of an epoch."""

    FILL = 0  # Repeats of the same epoch fill it.
    DROP = 1  # They are left out.
    PARTIAL = 2  # They come as a smaller batch.


@checked_methods
class BaseIterator:
    """Goes through pipelines in epochs of equal length.

    Args:
        pipelines: One, or a list: one for each shard that this process feeds.
        output_map: Names of the pipeline's outputs, in order.
        size: Samples of an epoch of all `pipelines`, where `reader_name` is not given. Neither: the
            iterator never ends.
        reader_name: The reader whose epoch it is.
        auto_reset: Begin the next epoch at the end of one; else `reset()` or a new `for` does.
        last_batch_policy: See `LastBatchPolicy`. With several shards PARTIAL repeats a sample where
            shards would differ in length.
        last_batch_padded: Accepted: feedrace's epochs never run into each other.
        prepare_first_batch: Fetch the first batch at once.

    Raises:
        Error: Arguments that contradict each other; a reader or data set that is not there.
    """

    where = "DALIGenericIterator"
    framework = "torch"

    def __init__(
        self,
        pipelines: Pipeline | list[Pipeline],
        output_map: list[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: Any = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: Any = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self._pipes = pipelines if isinstance(pipelines, list) else [pipelines]
        self._check_pipes()
        self.output_map = self._check_map(output_map)
        self._auto_reset = _check_auto_reset(self.where, auto_reset)
        if fill_last_batch is not None:
            is_full = errors.check_bool(self.where, "fill_last_batch", fill_last_batch)
            last_batch_policy = LastBatchPolicy.FILL if is_full else LastBatchPolicy.PARTIAL
        if not isinstance(last_batch_policy, LastBatchPolicy):
            found = f"last_batch_policy is {errors.shown(last_batch_policy)}"
            raise errors.invalid(self.where, found, "give LastBatchPolicy.FILL, DROP or PARTIAL")
        errors.check_bool(self.where, "last_batch_padded", last_batch_padded)
        self._policy = last_batch_policy
        if reader_name is not None:
            errors.check_text(self.where, "reader_name", reader_name)
        self._reader_name = reader_name
        self._size = (
            -1 if operators.is_unset(size) else errors.check_int(self.where, "size", size, 1)
        )
        if reader_name is not None and (self._size > 0 or last_batch_padded):
            other = "size" if self._size > 0 else "last_batch_padded"
            fix = f"leave {other} out: the reader tells"
            raise errors.invalid(self.where, f"{other} beside reader_name", fix)
        self.batch_size = self._pipes[0].max_batch_size
        is_on_gpu = any(pipe.device for pipe in self._pipes)
        if is_on_gpu and self.framework == "torch" and (refusal := torch_refusal()):
            raise errors.unsupported(self.where, refusal, "or give the pipeline device_id=None")
        self._convert = converter(self.framework)
        self._steps: int | None = None
        self._last_size: int | None = None  # Samples of the last step, where `size` cuts it.
        self._open()
        self._step = 0
        self._first: Any = None
        if errors.check_bool(self.where, "prepare_first_batch", prepare_first_batch):
            self._first = self._fetch()

    def _check_pipes(self) -> None:
        for pipe in self._pipes:
            if not isinstance(pipe, Pipeline):
                fix = "give what a function with @feedrace.dali.pipeline_def returns"
                raise errors.invalid(self.where, f"{errors.shown(pipe)} is no pipeline", fix)
        if len({pipe.max_batch_size for pipe in self._pipes}) != 1:
            found = f"{len(self._pipes)} pipelines, not of one batch_size"
            raise errors.invalid(self.where, found, "give pipelines of one batch_size")

    def _check_map(self, output_map: Any) -> list[str]:
        names = errors.as_tuple(output_map)
        if names is None or len(set(names)) != len(names):
            found = f"output_map is {errors.shown(output_map)}"
            raise errors.invalid(self.where, found, "it must be a list of different names")
        for pipe in self._pipes:
            count = len(pipe.description.outputs)
            if count != len(names):
                found = f"{len(names)} names in output_map for {count} outputs of the pipeline"
                raise errors.invalid(self.where, found, "give one name an output")
        return [errors.check_text(self.where, "output_map", name) for name in names]

    def _open(self) -> None:
        """Opens the pipelines and finds how many steps an epoch has."""
        rule = self._rule()
        if self._reader_name is None and self._size < 0:
            _log.warning(
                "dali: %s: neither reader_name nor size is given: it never ends", self.where
            )
        for pipe in self._pipes:
            pipe.start(rule)
            if self._reader_name is not None:
                pipe.reader_meta(self._reader_name)
        if self._reader_name is not None:
            self._steps = min(pipe.steps() for pipe in self._pipes)
        elif self._size > 0:
            self._open_sized()

    def _rule(self) -> str:
        """feedrace's word for what becomes of the last batch."""
        if self._policy is LastBatchPolicy.DROP:
            return "drop"
        if self._policy is LastBatchPolicy.FILL or (self._reader_name is None and self._size < 0):
            return "fill"
        shards = max(pipe.description.reader.shard_count for pipe in self._pipes)
        return "partial" if shards == 1 else "pad"

    def _open_sized(self) -> None:
        step_size = self.batch_size * len(self._pipes)
        is_dropping = self._policy is LastBatchPolicy.DROP
        self._steps = self._size // step_size if is_dropping else -(-self._size // step_size)
        own = sum(pipe.shard_size() for pipe in self._pipes)
        has_other_steps = any(pipe.steps() != self._steps for pipe in self._pipes)
        is_cut = self._policy is LastBatchPolicy.PARTIAL and self._size != own
        if not has_other_steps and not is_cut:
            return
        _log.warning(
            "dali: %s: size is %d, and an epoch of the pipeline has %d samples; "
            "reader_name=%r would take that",
            self.where,
            self._size,
            own,
            self._pipes[0].description.reader.name,
        )
        if self._policy is LastBatchPolicy.PARTIAL:
            # Batches are cut here, so they have to come full.
            for pipe in self._pipes:
                pipe.start("fill")
            self._last_size = self._size - (self._steps - 1) * step_size

    @property
    def size(self) -> int:
        """Samples of an epoch; -1 where it never ends."""
        return self._size if self._steps is None else self._steps * self.batch_size

    def __len__(self) -> int:
        """Batches of an epoch: of every one."""
        if self._steps is None:
            fix = "give reader_name, or size"
            raise errors.invalid(self.where, "it never ends, so it has no length", fix)
        return self._steps

    def __iter__(self) -> Any:
        if self._step and self._first is None:
            self.reset()
        return self

    def __next__(self) -> Any:
        if self._first is not None:
            batch, self._first = self._first, None
            return batch
        if self._steps is not None and self._step >= self._steps:
            if self._auto_reset:
                self.reset()
            raise StopIteration
        return self._fetch()

    def next(self) -> Any:
        return self.__next__()

    def reset(self) -> None:
        """Begins the next epoch, at the end of one; before it, the epoch goes on, as in DALI."""
        if self._steps is None:
            return
        if self._step >= self._steps:
            self._step = 0
        else:
            _log.warning(
                "dali: %s: reset() after %d of %d batches: the epoch goes on",
                self.where,
                self._step,
                self._steps,
            )

    def _fetch(self) -> Any:
        batches = [
            {
                name: output.converted(batch, self._convert)
                for name, output in zip(self.output_map, pipe.description.outputs, strict=True)
            }
            for pipe in self._pipes
            for batch in [pipe.take()]
        ]
        self._step += 1
        if self._last_size is not None and self._step == self._steps:
            batches = self._cut(batches, self._last_size)
        return self.gather(batches)

    def _cut(self, batches: list[dict[str, Any]], left: int) -> list[dict[str, Any]]:
        kept = []
        for batch in batches:
            if left <= 0:
                break
            count = min(left, self.batch_size)
            kept.append({name: tensor[:count] for name, tensor in batch.items()})
            left -= count
        return kept

    def gather(self, batches: list[dict[str, Any]]) -> Any:
        """What the iterator gives of the pipelines' batches."""
        return batches


def _check_auto_reset(where: str, value: Any) -> bool:
    choices = {"no": False, "yes": True, False: False, True: True, None: False}
    errors.check_choice(where, "auto_reset", value, tuple(choices))
    return choices[value]
