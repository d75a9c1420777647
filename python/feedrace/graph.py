# SPDX-License-Identifier: Apache-2.0
"""What `@fr.pipeline` records while the user's function runs: nodes, and the chain that they form.

Nothing is computed then. A function of `feedrace.fn` takes nodes and returns nodes; `compile_trace`
turns the returned ones into steps. Whatever can be known to be wrong is said at the operator's own
call, so that the traceback ends at the user's line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from feedrace.errors import invalid, shown
from feedrace.missing import not_there

# What a node stands for: the stored bytes of the picture; the picture, as levels; with parts of it
# erased; normalised; the tensor of the batch; another field of the sample; a random number of the
# sample; what a function of whole batches gave.
Kind = Literal["encoded", "image", "erased", "normalized", "tensor", "field", "draw", "batch"]
PICTURES: tuple[Kind, ...] = ("image", "erased", "normalized", "tensor")
_WORDS: dict[Kind, str] = {
    "encoded": "an encoded picture",
    "image": "a decoded picture",
    "erased": "an erased picture",
    "normalized": "a normalized picture",
    "tensor": "the batch's tensor",
    "field": "a field",
    "draw": "a random number",
    "batch": "the result of a batch function",
}
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True)
class BatchCall:
    """A function of whole batches: which values it takes and what its results are called."""

    function: Callable[..., Any]
    name: str
    place: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    takes_info: bool = False


@dataclass(eq=False, repr=False)
class Node:
    """A value of each sample or batch to come; it has no content while a pipeline is described."""

    kind: Kind
    operator: str
    place: str
    name: str = ""
    step: dict[str, Any] | None = None
    source: Node | None = None
    used_by: Node | None = None  # Of a picture: the next operator of its chain.
    is_taken: bool = False  # By a batch function, or, of a random number, by an operator.
    trace: Trace | None = None

    @property
    def words(self) -> str:
        """What it is, as messages say it: "a decoded picture"."""
        return _WORDS[self.kind]

    def __repr__(self) -> str:
        return f"<{self.words} from {self.operator} at {self.place}>"

    def _refuse(self, attempt: str) -> NoReturn:
        fix = "use an operator of feedrace.fn, such as fn.python_function, instead"
        raise invalid(
            f"{self.operator} at {self.place}",
            f"its result is {attempt}, but has no value while the pipeline is described",
            fix,
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # What Python itself looks for, as copying does.
            raise AttributeError(f"'Node' object has no attribute {name!r}")
        fix = "use an operator of feedrace.fn, such as fn.python_function, instead"
        found = f"no attribute {name!r}, as it has no value while the pipeline is described"
        raise not_there(f"{self!r}: {found}; {fix}")

    def __bool__(self) -> NoReturn:
        self._refuse("used as True or False")

    def __iter__(self) -> NoReturn:
        self._refuse("unpacked or looped over")

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse("indexed")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse("turned into an array")

    def _arithmetic(self, *others: object) -> NoReturn:
        self._refuse("calculated with")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __truediv__ = __rtruediv__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _arithmetic
    __float__ = __int__ = __index__ = __invert__ = __and__ = __or__ = _arithmetic


@dataclass
class Trace:
    """One run of a pipeline's function."""

    name: str
    sources: Any = None
    read: Node | None = None
    read_options: dict[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    batch_calls: list[BatchCall] = field(default_factory=list)
    draw_count: int = 0

    def add(self, node: Node) -> Node:
        node.trace = self
        self.nodes.append(node)
        return node


# Per thread and per task, so that two threads may describe pipelines at the same time.
_trace: ContextVar[Trace | None] = ContextVar("feedrace_trace", default=None)


@contextmanager
def tracing(name: str) -> Iterator[Trace]:
    trace = Trace(name)
    token = _trace.set(trace)
    try:
        yield trace
    finally:
        _trace.reset(token)


def current_trace() -> Trace | None:
    return _trace.get()


def caller_place() -> str:
    """File and line of the innermost frame that is not of this package: "train.py:12"."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    path = frame.f_code.co_filename
    below = os.path.join(os.getcwd(), "")
    return f"{path.removeprefix(below)}:{frame.f_lineno}"


def take(trace: Trace, where: str, node: object, kinds: tuple[Kind, ...], fix: str) -> Node:
    """The node that an operator takes as its picture, which nothing else has taken yet."""
    if not isinstance(node, Node):
        wanted = " or ".join(_WORDS[kind] for kind in kinds)
        given = shown(node)
        raise invalid(where, f"its input is {given}", f"give it {wanted}, from another operator")
    check_owner(trace, where, node)
    if node.kind not in kinds:
        raise invalid(where, f"its input is {_WORDS[node.kind]} from {at(node)}", fix)
    if node.used_by is not None or node.is_taken:
        user = at(node.used_by) if node.used_by is not None else "a batch function"
        raise invalid(
            where,
            f"the picture of {at(node)} is already used by {user}",
            "a picture goes through one chain of operators: put this one behind that, or describe "
            "a second pipeline",
        )
    return node


def check_owner(trace: Trace, where: str, node: Node) -> None:
    if node.trace is not trace:
        fix = "call the operators inside the function that returns them"
        raise invalid(where, f"the result of {at(node)} comes from another pipeline", fix)


def at(node: Node) -> str:
    return f"{node.operator} at {node.place}"


@dataclass(frozen=True)
class Compiled:
    """What a trace amounts to."""

    steps: tuple[dict[str, Any], ...]
    outputs: tuple[str, ...]  # What a batch consists of: fields, or results of batch calls.
    batch_calls: tuple[BatchCall, ...]


def compile_trace(trace: Trace, returned: object) -> Compiled:
    """Checks what the function returned and turns it into steps."""
    where = f"pipeline {trace.name}"
    nodes = _returned_nodes(trace, where, returned)
    if trace.read is None:
        fix = "begin with image, label = fr.fn.read(root)"
        raise invalid(where, "it reads nothing", fix)
    _check_all_used(trace, where, nodes)
    ends = [node for node in trace.nodes if is_picture(node) and node.used_by is None]
    steps = _steps_behind(ends[0]) if ends else ({"op": "read_only"},)
    calls = tuple(trace.batch_calls)
    return Compiled(steps, tuple(value_name(node) for node in nodes), calls)


def value_name(node: Node) -> str:
    """What the value of a node is called in a batch."""
    return "image" if is_picture(node) else node.name


def is_picture(node: Node) -> bool:
    return node.kind in PICTURES


def _returned_nodes(trace: Trace, where: str, returned: object) -> list[Node]:
    items: list[Any] = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if not items:
        raise invalid(where, "it returns nothing", "return a picture and what goes with it")
    for item in items:
        if not isinstance(item, Node):
            fix = "return what operators of feedrace.fn gave, such as image, label"
            raise invalid(where, f"it returns {shown(item)}", fix)
        check_owner(trace, where, item)
        if item.kind == "encoded":
            fix = "put fn.decode behind it, or read the bytes as a field: fields=('image', 'jpg')"
            raise invalid(where, f"it returns the undecoded picture of {at(item)}", fix)
        if item.kind == "draw":
            fix = "give it to an operator, such as fn.flip"
            raise invalid(where, f"it returns the random number of {at(item)}", fix)
        if is_picture(item) and item.used_by is not None:
            fix = "return the picture of the chain's last operator"
            found = f"it returns the picture of {at(item)}, which {at(item.used_by)} uses"
            raise invalid(where, found, fix)
        if items.count(item) > 1:
            raise invalid(where, f"it returns the result of {at(item)} twice", "return it once")
    return items


def _check_all_used(trace: Trace, where: str, nodes: list[Node]) -> None:
    """An operator whose result goes nowhere is a mistake, not a wish."""
    for node in trace.nodes:
        is_lost = node.used_by is None and not node.is_taken and node not in nodes
        if is_lost and node.kind not in ("field", "encoded"):
            fix = "use or return it, or leave the operator out"
            raise invalid(where, f"the result of {at(node)} is not used", fix)


def _steps_behind(end: Node) -> tuple[dict[str, Any], ...]:
    steps: list[dict[str, Any]] = []
    node: Node | None = end
    while node is not None and node.kind != "encoded":
        if node.step is not None:
            steps.append(node.step)
        node = node.source
    steps.reverse()
    if end.kind != "tensor":
        steps.append({"op": "to_tensor", "dtype": "float32", "layout": "CHW"})
    return tuple(steps)
