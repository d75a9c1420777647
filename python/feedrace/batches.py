# SPDX-License-Identifier: Apache-2.0
"""From a native batch to what the loop gets: a tuple of arrays and fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from feedrace.errors import Error, error, shown, text_of
from feedrace.fields import decode_field
from feedrace.graph import BatchCall
from feedrace.outputs import Convert, Jagged, converter
from feedrace.pipeline import BatchInfo, Pipeline
from feedrace.streams import hand_over_later


class BatchMaker:
    """Makes batches of one loader. Holds nothing of them, and not the loader itself."""

    def __init__(
        self, native: Any, pipeline: Pipeline, fields: Sequence[str], seed: int, **form: str
    ) -> None:
        """`form`: `output`, `ragged` and `on_error`, as `ImageLoader` has them."""
        self._native = native
        self._pipeline = pipeline
        self._fields = tuple(fields)
        self._outputs = pipeline.outputs or self._fields
        self._seed = seed
        self._output = form["output"]
        self._is_jagged = form["ragged"] == "jagged"
        self._raises = form["on_error"] == "raise"
        # Values of fields that could not be parsed and are None instead.
        self.bad_fields = 0
        self._convert: Convert | None = None
        self._to_numpy: Convert | None = None
        self._calls: tuple[tuple[BatchCall, _Clock], ...] = tuple(
            (call, _Clock()) for call in pipeline.batch_calls
        )

    @property
    def runs_ahead(self) -> bool:
        """Whether batches are worth a thread of their own."""
        return bool(self._calls)

    def prepare(self) -> None:
        """Imports a framework that takes seconds: a verdict would count them as the loop's."""
        if self._convert is None and self._output in ("torch", "jax"):
            self._convert = converter(self._output)

    def make(self, batch: Any) -> tuple[Any, ...]:
        """The batch as the loop gets it."""
        if self._convert is None:
            self._convert = converter(self._output)
        values = {name: self._value(batch, name) for name in self._fields}
        if self._pipeline.batch_function is not None:
            self._run_batch_function(batch, values)
        for call, clock in self._calls:
            began = perf_counter()
            self._run(batch, call, values)
            clock.add(perf_counter() - began)
        return tuple(values[name] for name in self._outputs)

    def hand_over_later(self, batch: Any, values: tuple[Any, ...]) -> Callable[[], None] | None:
        """What the thread that takes the batch must call; None: nothing."""
        if batch.device < 0 or self._output != "torch":
            return None
        return hand_over_later(batch, values)

    def sentences(self) -> list[str]:
        """What functions of batches cost, for `explain()`."""
        found = [clock.sentence(call) for call, clock in self._calls if clock.count]
        explain = getattr(self._pipeline.batch_function, "explain", None)
        if callable(explain) and (text := explain()):
            found.append(str(text))
        return found

    def _value(self, batch: Any, name: str) -> Any:
        convert = self._convert
        assert convert is not None
        if name == "image":
            return self._images(batch, convert)
        if name == "label":
            return convert(batch.labels)
        if name == "index":
            return convert(batch.indices)
        if name == "flag":
            return convert(batch.flags)
        if name == "key":
            return batch.keys
        plain = name.removesuffix("?")
        contents = batch.field(plain)
        return decode_field(plain, contents, lambda place: self._where(batch, place), self._refuse)

    def _refuse(self, error: Error) -> None:
        """The value of a field can't be parsed: the picture and its label may well be good."""
        if self._raises:
            raise error
        self.bad_fields += 1
        if self.bad_fields == 1:
            import logging

            text = "%s; on_error gives None instead, stats()['bad_fields'] counts"
            logging.getLogger("feedrace").warning(text, error)

    def _images(self, batch: Any, convert: Convert) -> Any:
        if batch.images is not None:
            return convert(batch.images)
        if self._is_jagged:
            return Jagged(*(convert(array) for array in batch.jagged()))
        return [convert(image) for image in batch.image_list]

    def _run_batch_function(self, batch: Any, values: dict[str, Any]) -> None:
        function = self._pipeline.batch_function
        assert function is not None
        convert = self._convert
        assert convert is not None
        images = values["image"] if "image" in values else self._images(batch, convert)
        labels = values["label"] if "label" in values else convert(batch.labels)
        name = getattr(function, "__qualname__", type(function).__name__)
        with_place = _Guard(lambda: self._describe(batch), name)
        results = with_place.call(function, (images, labels, self._info(batch)), {}, 2)
        values["image"], values["label"] = results

    def _run(self, batch: Any, call: BatchCall, values: dict[str, Any]) -> None:
        inputs = tuple(values[name] for name in call.inputs)
        named = {"info": self._info(batch)} if call.takes_info else {}
        guard = _Guard(lambda: self._describe(batch), f"{call.name} at {call.place}")
        results = guard.call(call.function, inputs, named, len(call.outputs))
        values.update(zip(call.outputs, results, strict=True))

    def _info(self, batch: Any) -> BatchInfo:
        if self._to_numpy is None:
            self._to_numpy = converter("numpy")
        indices = self._to_numpy(batch.indices)
        return BatchInfo(self._seed, batch.epoch, batch.step, indices)

    def _where(self, batch: Any, place: int) -> str:
        return str(self._native.where(int(self._info(batch).indices[place])))

    def _describe(self, batch: Any) -> str:
        rest = f" and {batch.size - 1} more" if batch.size > 1 else ""
        return f"batch {batch.step} of epoch {batch.epoch}, {self._where(batch, 0)}{rest}"


class _Guard:
    """Calls a function of the user's so that its errors say which samples it was given."""

    def __init__(self, describe: Callable[[], str], name: str) -> None:
        self._describe = describe
        self._name = name

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], count: int
    ) -> tuple[Any, ...]:
        try:
            result = function(*args, **named)
        except Error:
            raise  # Says itself which sample and what to do.
        except Exception as e:
            reason = f"{type(e).__name__}: {text_of(e)}"
            raise self._error(f"it threw {reason}", "correct the function") from e
        if count == 1:
            return (result,)
        if not isinstance(result, (tuple, list)) or len(result) != count:
            found = f"it gave {shown(type(result))}"
            if isinstance(result, (tuple, list)):
                found = f"it gave {len(result)} values"
            raise self._error(found, f"return a tuple of {count}")
        return tuple(result)

    def _error(self, found: str, fix: str) -> Error:
        return error("invalid_argument", f"{self._name}: {self._describe()}: {found}; {fix}")


class _Clock:
    """How long the calls of a function took."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def sentence(self, call: BatchCall) -> str:
        mean_ms = 1000 * self.seconds / self.count
        return (
            f"{call.name} at {call.place} took {mean_ms:.2f} ms a batch, on a Python thread of its "
            "own that runs one batch ahead"
        )
