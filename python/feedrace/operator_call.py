# SPDX-License-Identifier: Apache-2.0
"""What the operators of `feedrace.fn` share: the call itself, and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, get_args, get_type_hints

from feedrace.calls import check_call
from feedrace.errors import (
    as_tuple,
    check_int,
    check_interval,
    check_numbers,
    check_real,
    invalid,
    shown,
)
from feedrace.graph import Kind, Node, Trace, at, caller_place, check_owner, current_trace, take

_P = ParamSpec("_P")
_R = TypeVar("_R")

DRAW_FIX = (
    "a random number is for x and y of fn.crop, horizontal and vertical of fn.flip, and apply"
)
# What to do about an input that is no picture.
_FIXES: dict[Kind, str] = {
    "encoded": "put fn.decode between them",
    "field": "give it the decoded picture; a field goes to fn.python_function(..., batch=True), "
    "or is returned as it is",
    "draw": "give it the decoded picture; " + DRAW_FIX,
    "batch": "put it before the batch function, or make it one: "
    "fn.python_function(..., batch=True)",
}


class Call:
    """One call of an operator in the user's function: its nodes and its messages."""

    def __init__(self, operator: str, trace: Trace, place: str) -> None:
        self.operator = operator
        self.trace = trace
        self.place = place
        self.where = f"{operator} at {place}"

    def node(self, kind: Kind, **members: Any) -> Node:
        return self.trace.add(Node(kind, self.operator, self.place, **members))

    def step(
        self,
        image: object,
        result: Kind = "image",
        takes: tuple[Kind, ...] = ("image",),
        op: str = "",
        **members: Any,
    ) -> Node:
        """The next link of the picture's chain: from one of the kinds `takes` to `result`.

        Its step is called as the operator is, or `op`.
        """
        source = self.picture(image, takes)
        name = op or self.operator.removeprefix("fn.")
        made = self.node(result, step={"op": name, **members}, source=source)
        source.used_by = made
        return made

    def picture(self, image: object, takes: tuple[Kind, ...]) -> Node:
        fix = f"put {self.operator} before it"
        if isinstance(image, Node) and image.kind in _FIXES:
            fix = _FIXES[image.kind]
        elif isinstance(image, Node) and image.operator == self.operator:
            fix = "leave one of them out"
        return take(self.trace, self.where, image, takes, fix)

    def number(self, name: str, value: object, low: float, high: float) -> Any:
        """A plain number, or a random one that this operator draws for each sample."""
        if not isinstance(value, Node):
            if isinstance(value, bool):
                return float(value)
            return check_real(self.where, name, value, low, high)
        check_owner(self.trace, self.where, value)
        if value.kind != "draw":
            fix = "give a number, fn.coin_flip() or fn.uniform()"
            raise invalid(self.where, f"{name} is {shown(value)}", fix)
        value.is_taken = True
        return dict(value.step or {})

    def refuse(self, found: str, fix: str) -> NoReturn:
        raise invalid(self.where, found, fix)


def operator(function: Callable[Concatenate[Call, _P], _R]) -> Callable[_P, _R]:
    """Makes a function an operator: usable in a pipeline only, with its arguments checked."""
    whole = inspect.signature(function)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    # When first called, and not when imported: reading the types of all operators takes 10 ms.
    plain = cache(lambda: _plain_arguments(function))
    its_name = f"fn.{function.__name__}"

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        place = caller_place()
        where = f"{its_name} at {place}"
        trace = current_trace()
        if trace is None:
            fix = "call it inside a function with @feedrace.pipeline"
            raise invalid(where, "it is called outside of a pipeline", fix)
        check_call(where, signature, args, kwargs)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            for part in _parts(value) if name in plain() else ():
                if isinstance(part, Node):
                    _refuse_node(where, name, part)
        return function(Call(its_name, trace, place), *args, **kwargs)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _plain_arguments(function: Callable[..., Any]) -> set[str]:
    """Arguments that are the same for all samples: those whose type has no node in it."""
    hints = get_type_hints(function)
    hints.pop("return")
    return {name for name, hint in hints.items() if Node not in (hint, *get_args(hint))}


def _parts(value: object) -> tuple[object, ...]:
    """A value and, of a pair or a list, what is in it."""
    return (value, *value) if isinstance(value, (list, tuple)) else (value,)


def _refuse_node(where: str, name: str, node: Node) -> NoReturn:
    fix = "give a plain value, the same for all samples"
    if node.kind == "draw":
        fix += f"; {DRAW_FIX}"
    raise invalid(where, f"{name} is {node.words} from {at(node)}", fix)


def add_draw(call: Call, **members: Any) -> Node:
    number = call.trace.draw_count
    call.trace.draw_count += 1
    return call.node("draw", step={**members, "id": number})


def check_side(call: Call, name: str, value: object) -> int:
    return check_int(call.where, name, value, 1, 65535, "pixels")


def check_share(call: Call, name: str, value: object) -> Any:
    number = call.number(name, value, 0, 1)
    if isinstance(number, dict) and number["draw"] == "uniform":
        low, high = number["range"]
        if low < 0 or high > 1:
            fix = "take it from [0, 1], the room that is left"
            call.refuse(f"{name} is drawn from [{low:g}, {high:g})", fix)
    return number


def check_switch(call: Call, name: str, value: object) -> Any:
    """0, 1, or a coin flip: a probability in its place would always be true."""
    number = call.number(name, value, 0, 1)
    is_draw = isinstance(number, dict)
    if is_draw and number["draw"] != "coin_flip":
        call.refuse(f"{name} is fn.uniform(...)", "give fn.coin_flip(probability)")
    if not is_draw and number not in (0.0, 1.0):
        fix = f"give True, False, or fn.coin_flip({number:g}) for that probability"
        call.refuse(f"{name} is {number:g}", fix)
    return number


def check_factors(call: Call, name: str, value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if as_tuple(value) is not None:
        return check_interval(call.where, name, value, low=0)
    span = check_real(call.where, name, value, 0)
    return max(0.0, 1 - span), 1 + span


def check_turns(call: Call, value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if as_tuple(value) is not None:
        return check_interval(call.where, "hue", value, -0.5, 0.5)
    span = check_real(call.where, "hue", value, 0, 0.5)
    return -span, span


def check_channels(call: Call, name: str, value: object, above: float | None = None) -> Any:
    if as_tuple(value) is None:
        return (check_real(call.where, name, value, above=above),) * 3
    return check_numbers(call.where, name, value, 3, above)
