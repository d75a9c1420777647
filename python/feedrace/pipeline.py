# SPDX-License-Identifier: Apache-2.0
"""What happens to samples: `Pipeline`, plain data, and `@feedrace.pipeline`, to describe one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from feedrace import _feedrace
from feedrace.calls import check_call, checked_methods
from feedrace.errors import (
    check_int,
    check_names,
    check_text,
    invalid,
    shown,
    unknown,
    unsupported,
)
from feedrace.graph import BatchCall, Compiled, caller_place, compile_trace, tracing

if TYPE_CHECKING:
    from feedrace.loader import ImageLoader

__all__ = ["Pipeline", "PipelineFunction", "pipeline"]

# Called with the batch's images, labels and a `BatchInfo`; gives images and labels.
BatchFunction = Callable[[Any, Any, Any], tuple[Any, Any]]


class BatchInfo(NamedTuple):
    """Which batch a function works on: enough to make its random numbers repeatable."""

    seed: int
    epoch: int
    step: int
    indices: Any  # int64 [N], NumPy: global sample numbers.


@checked_methods
class Pipeline:
    """What happens to a sample from its bytes to the batch. Immutable; checked when made.

    Args:
        steps: Plain dicts in order, from "decode" to "to_tensor"; see docs/pipelines.md.
        batch_function: Called for each batch behind the native part, on the thread that asks for
            it, with images, labels and `BatchInfo`; gives images and labels. An attribute
            `explain` of it, a callable, adds a sentence to the loader's `explain()`.
        notes: Sentences about what is done in another way than was asked for, and what it costs.
        batch_calls, outputs: What `feedrace.pipeline` records: functions of whole batches, and
            which of their results and of the fields make up a batch.

    Raises:
        Error: A step is unknown, out of order, or has a value that it can't have.
    """

    __slots__ = ("_batch_calls", "_batch_function", "_description", "_notes", "_outputs", "_steps")

    def __init__(
        self,
        steps: Iterable[Mapping[str, Any]],
        batch_function: BatchFunction | None = None,
        notes: Iterable[str] = (),
        *,
        batch_calls: Iterable[BatchCall] = (),
        outputs: Iterable[str] | None = None,
    ) -> None:
        self._steps = _checked_steps(steps)
        if batch_function is not None and not callable(batch_function):
            fix = "give a callable, or None"
            raise invalid("Pipeline", f"batch_function is {shown(batch_function)}", fix)
        self._batch_function = batch_function
        self._notes = tuple(notes)
        self._batch_calls = tuple(batch_calls)
        self._outputs = None if outputs is None else tuple(outputs)
        self._description = _feedrace.describe(list(self._steps))

    @classmethod
    def recipe(cls, name: str, *, size: int | None = None) -> Pipeline:
        """The pipeline of a recipe, such as "imagenet-train"; see `feedrace.recipe_names()`.

        Args:
            size: Height and width of the pictures, from 1 to 65535 pixels; None: the recipe's. What
                is resized before a centre crop grows and shrinks with it, as 256 is to 224.

        Raises:
            Error: There is no such recipe, or no such size; "read" has no pictures to size.
        """
        where = "Pipeline.recipe"
        check_text(where, "name", name)
        if name not in _feedrace.recipe_names():
            raise unknown(where, "recipe", name, _feedrace.recipe_names())
        made = cls(_feedrace.recipe(name))
        if size is None:
            return made
        return cls(_resized(made, check_int(where, "size", size, 1, 65535, "pixels")))

    @property
    def steps(self) -> tuple[dict[str, Any], ...]:
        return tuple(dict(step) for step in self._steps)

    @property
    def batch_function(self) -> BatchFunction | None:
        return self._batch_function

    @property
    def batch_calls(self) -> tuple[BatchCall, ...]:
        return self._batch_calls

    @property
    def outputs(self) -> tuple[str, ...] | None:
        return self._outputs

    @property
    def fields(self) -> tuple[str, ...] | None:
        """What a loader must deliver for `outputs`; None where that is its own choice."""
        if self._outputs is None:
            return None
        made = {name for call in self._batch_calls for name in call.outputs}
        needed = [*self._outputs, *(name for call in self._batch_calls for name in call.inputs)]
        return tuple(dict.fromkeys(name for name in needed if name not in made))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is done in another way than was asked for, and what that costs."""
        return self._notes

    @property
    def unfused(self) -> tuple[str, ...]:
        """A sentence for each step that takes a pass of its own, and why."""
        return tuple(self._description.get("notes", ()))

    def step(self, op: str) -> dict[str, Any] | None:
        """The last step of this kind, if there is one."""
        found = [step for step in self._steps if step["op"] == op]
        return dict(found[-1]) if found else None

    def with_orientation(self, orientation: str) -> Pipeline:
        """The same, with pictures turned by EXIF ("upright") or not ("keep")."""
        steps = [
            {**step, "orientation": orientation} if step["op"] == "decode" else step
            for step in self._steps
        ]
        return Pipeline(
            steps,
            self._batch_function,
            self._notes,
            batch_calls=self._batch_calls,
            outputs=self._outputs,
        )

    def describe(self) -> dict[str, Any]:
        """Members "text" (one line), "notes", "size" ((height, width), or None where pictures
        differ), "dtype" and "layout" of the batch's images."""
        return {**self._description, "notes": [*self._notes, *self.unfused]}

    def __str__(self) -> str:
        behind = [call.name for call in self._batch_calls]
        if self._batch_function is not None:
            name = getattr(
                self._batch_function, "__qualname__", type(self._batch_function).__name__
            )
            behind.append(name)
        return " > ".join([str(self._description["text"]), *behind])

    def __repr__(self) -> str:
        return f"<feedrace.Pipeline {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        return (
            _plain(self._steps) == _plain(other._steps)
            and self._batch_function == other._batch_function
            and self._batch_calls == other._batch_calls
        )

    # Equal by steps, which are dicts.
    __hash__ = None  # type: ignore[assignment]


def _resized(recipe: Pipeline, size_px: int) -> list[dict[str, Any]]:
    """The steps of a recipe for another size of its pictures."""
    before = recipe.describe()["size"]
    if before is None:
        fix = "leave size out, or take another recipe"
        raise invalid("Pipeline.recipe", "size is given, but it reads without pictures", fix)
    steps = list(recipe.steps)
    for step in steps:
        if "size" in step:
            step["size"] = (size_px, size_px)
        if "shorter" in step:
            step["shorter"] = step["shorter"] * size_px // before[0]
    return steps


def _checked_steps(steps: object) -> tuple[dict[str, Any], ...]:
    fix = 'give dicts such as {"op": "decode", "orientation": "keep"}'
    if isinstance(steps, (str, bytes, Mapping)) or not isinstance(steps, Iterable):
        raise invalid("Pipeline", f"steps is {shown(steps)}", fix)
    checked: list[dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, Mapping) or not isinstance(step.get("op"), str):
            raise invalid("Pipeline", f"step {len(checked)} is {shown(step)}", fix)
        # Functions are shared, containers are not: a pipeline must not change behind its back.
        checked.append({key: _own(value) for key, value in step.items()})
    return tuple(checked)


def _plain(steps: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Steps without what None says: the same as what is left out."""
    return [{key: value for key, value in step.items() if value is not None} for step in steps]


def _own(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_own(item) for item in value)
    return deepcopy(value) if isinstance(value, (dict, tuple)) else value


class PipelineFunction:
    """A function that describes a pipeline. Calling it gives an `ImageLoader`."""

    def __init__(self, function: Callable[..., Any], given: dict[str, Any], fixed: dict[str, Any]):
        functools.update_wrapper(self, function)
        self._function = function
        self._given = given  # By the decorator.
        self._fixed = fixed  # By `options`: stands above what `fn.read` says.

    def __call__(self, *args: Any, **kwargs: Any) -> ImageLoader:
        """Runs the function once, on nodes, and makes the loader that it describes."""
        from feedrace.loader import ImageLoader

        compiled, sources, read_options = self._trace(args, kwargs)
        where = f"pipeline {self._function.__name__}"
        for name in self._given:
            if name in read_options and self._given[name] != read_options[name]:
                found = f"{name} is given to the decorator and to fn.read, with different values"
                raise invalid(where, found, "give it once")
        options = {**self._given, **read_options, **self._fixed}
        _take_gds(where, options)
        return ImageLoader(sources, transform=_pipeline_of(compiled), **options)

    def options(self, **options: Any) -> PipelineFunction:
        """The same pipeline with other arguments of its loader: ``train.options(batch_size=64)``.

        They stand above those of the decorator and of `fn.read`.
        """
        _check_options(f"pipeline {self._function.__name__}", options)
        return PipelineFunction(self._function, self._given, {**self._fixed, **options})

    def describe(self, *args: Any, **kwargs: Any) -> Pipeline:
        """The pipeline for these arguments, without a loader; nothing of the data is touched."""
        return _pipeline_of(self._trace(args, kwargs)[0])

    def _trace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Compiled, Any, dict[str, Any]]:
        where = f"pipeline {self._function.__name__}"
        check_call(where, inspect.signature(self._function), args, kwargs)
        with tracing(self._function.__name__) as trace:
            returned = self._function(*args, **kwargs)
        return compile_trace(trace, returned), trace.sources, trace.read_options


def _pipeline_of(compiled: Compiled) -> Pipeline:
    return Pipeline(compiled.steps, batch_calls=compiled.batch_calls, outputs=compiled.outputs)


@overload
def pipeline(function: Callable[..., Any], /) -> PipelineFunction: ...
@overload
def pipeline(
    *, gds: Literal["auto", "off"] = ..., **options: Any
) -> Callable[[Callable[..., Any]], PipelineFunction]: ...
def pipeline(function: Any = None, /, **options: Any) -> Any:
    """Makes a function that describes a pipeline: ``@fr.pipeline(batch_size=256)``.

    The function takes what it likes, calls operators of `feedrace.fn`, and returns the picture and
    the fields that a batch consists of. Each call of the decorated function gives a new loader.

    Args:
        gds: "auto" or "off". Reading straight into device memory is not in this version;
            device="cuda" delivers by way of pinned host memory.
        options: Arguments of `ImageLoader`, but for the source, `transform` and `fields`.

    Raises:
        Error: An argument is unknown.
    """
    where = f"@feedrace.pipeline at {caller_place()}"
    _check_options(where, options)
    if function is None:
        return lambda decorated: _decorated(where, decorated, options)
    return _decorated(where, function, options)


def _decorated(where: str, function: object, options: dict[str, Any]) -> PipelineFunction:
    if not callable(function) or isinstance(function, PipelineFunction):
        fix = "put it above a function, with arguments by name: @fr.pipeline(batch_size=256)"
        raise invalid(where, f"it got {shown(function)}", fix)
    return PipelineFunction(function, options, {})


def _check_options(where: str, options: dict[str, Any]) -> None:
    from feedrace.arguments import ARGUMENTS

    chosen_by_function = ("source", "transform", "fields")
    for name in chosen_by_function:
        if name in options:
            fix = "the function itself says that: fn.read, operators, and what it returns"
            raise invalid(where, f"{name} is given", fix)
    known = [name for name in ARGUMENTS if name not in chosen_by_function]
    check_names(where, "argument", options, [*known, "gds"])


def _take_gds(where: str, options: dict[str, Any]) -> None:
    gds = options.pop("gds", "auto")
    if gds in ("auto", "off", False):
        return
    if gds in ("on", True):
        fix = "leave it at 'auto'; device='cuda' delivers by way of pinned host memory"
        found = f"gds is {shown(gds)}, but this version reads no pictures straight into a GPU"
        raise unsupported(where, found, fix)
    raise invalid(where, f"gds is {shown(gds)}", "it must be one of 'auto', 'off', 'on'")
