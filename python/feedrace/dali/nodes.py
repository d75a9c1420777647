# SPDX-License-Identifier: Apache-2.0
"""What the operators of a pipeline take and give: descriptions of data, not data.

A node knows the reader that it comes from and, for pictures, the steps that lead to it, so that
making a node is all there is to building the pipeline.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from feedrace import errors
from feedrace.calls import checked_methods
from feedrace.dali.types import DALIDataType
from feedrace.missing import not_there

Step = dict[str, Any]


@dataclass
class Graph:
    """What is being described between ``with pipe:`` and its end."""

    draw_count: int = 0
    readers: list[Reader] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    uses_gpu: bool = False  # Some operator is on one, or an output is brought there.
    decode_device: str = "cpu"
    hardware_share: float | None = None  # DALI's hw_decoder_load, where it is given.

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


_current: contextvars.ContextVar[Graph | None] = contextvars.ContextVar("graph", default=None)


def enter(graph: Graph) -> contextvars.Token[Graph | None]:
    return _current.set(graph)


def leave(token: contextvars.Token[Graph | None]) -> None:
    _current.reset(token)


def current(where: str) -> Graph:
    """The graph that operators add to now."""
    graph = _current.get()
    if graph is None:
        fix = "call it in a function decorated with @pipeline_def, or inside `with pipe:`"
        raise errors.invalid(where, "called outside of a pipeline", fix)
    return graph


@dataclass(frozen=True)
class Reader:
    """Where samples come from and in which order; the arguments of a reader operator."""

    operator: str  # "fn.readers.file"
    name: str
    sources: tuple[str, ...] = ()
    # Given one by one: (path, label). Written as a list when the pipeline opens.
    listed: tuple[tuple[str, int], ...] | None = None
    shuffle: bool = False
    shard_id: int = 0
    shard_count: int = 1
    pads_last_batch: bool = False
    sticks_to_shard: bool = False
    seed: int | None = None
    components: tuple[str, ...] = ()  # Of a shard's samples: "jpg;png", "cls".
    may_lack_components: bool = True


def _refuse(self: DataNode, what: str) -> NoReturn:
    fix = "do it on the tensors that the iterator gives, or by an operator of fn"
    raise errors.unsupported(f"{what} of {self.kind}", "it is not in feedrace.dali", fix)


@checked_methods
class DataNode:
    """One output of an operator. What one can do with it is pass it on, or return it."""

    kind = "a node"

    def gpu(self) -> DataNode:
        """Itself, on the pipeline's GPU, where it has one: all outputs of a batch are there."""
        if (graph := _current.get()) is not None:
            graph.uses_gpu = True
        return self

    def cpu(self) -> DataNode:
        """Itself: what a pipeline with a GPU gives is on it all the same."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        fix = "do it by an operator of fn, or on the tensors that the iterator gives"
        raise not_there(f"{name} of {self.kind}: it is not in feedrace.dali; {fix}")

    def __bool__(self) -> bool:
        _refuse(self, "if")

    def __iter__(self) -> Iterator[Any]:
        raise errors.invalid(
            f"iteration over {self.kind}",
            "it is one output",
            "take operators of several outputs apart as they come: jpegs, labels = fn.readers…(…)",
        )

    def __getitem__(self, index: object) -> DataNode:
        _refuse(self, "indexing")

    def _arithmetic(self, other: object = None) -> DataNode:
        _refuse(self, "arithmetic")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __neg__ = __pos__ = _arithmetic
    __pow__ = __rpow__ = __and__ = __or__ = __xor__ = __lt__ = __le__ = __gt__ = _arithmetic
    __ge__ = _arithmetic


@dataclass(frozen=True, eq=False)
class Encoded(DataNode):
    """Bytes of one component of each sample: `uint8 [N, bytes]` where they are an output."""

    reader: Reader
    component: int | None = None  # Of `reader.components`; None: the files themselves.
    dtype: DALIDataType = DALIDataType.UINT8

    kind = "encoded bytes"


@dataclass(frozen=True, eq=False)
class Labels(DataNode):
    """Class numbers: `[N, 1]`, or `[N]` where they are squeezed."""

    reader: Reader
    dtype: DALIDataType = DALIDataType.INT32
    is_squeezed: bool = False

    kind = "labels"


@dataclass(frozen=True, eq=False)
class Images(DataNode):
    """Pictures: uint8 HWC until an operator has made tensors of them."""

    source: Encoded
    steps: tuple[Step, ...]
    dtype: DALIDataType = DALIDataType.UINT8
    layout: str = "HWC"
    # The crop of decoders.image_random_crop, whose resize is still to come.
    random_crop: Step | None = None

    kind = "images"

    @property
    def reader(self) -> Reader:
        return self.source.reader

    @property
    def is_tensor(self) -> bool:
        return self.dtype is not DALIDataType.UINT8 or self.layout != "HWC"

    def then(self, *steps: Step, **changes: Any) -> Images:
        return replace(self, steps=(*self.steps, *steps), **changes)


@dataclass(frozen=True, eq=False)
class Draw(DataNode):
    """A random number for each sample."""

    number: dict[str, Any]

    kind = "a random number"
