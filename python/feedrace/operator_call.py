# SPDX-License-Identifier: Apache-2.0
"""What the operators of `feedrace.fn` share: the call itself, and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from feedrace.errors import (
    as_tuple,
    check_int,
    check_interval,
    check_names,
    check_numbers,
    check_real,
    invalid,
    listed,
    shown,
)
from feedrace.graph import Kind, Node, Trace, caller_place, check_owner, current_trace, take

_P = ParamSpec("_P")
_R = TypeVar("_R")


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
        **members: Any,
    ) -> Node:
        """The next link of the picture's chain: from one of the kinds `takes` to `result`."""
        source = self.picture(image, takes)
        op = self.operator.removeprefix("fn.")
        made = self.node(result, step={"op": op, **members}, source=source)
        source.used_by = made
        return made

    def picture(self, image: object, takes: tuple[Kind, ...]) -> Node:
        fix = f"put {self.operator} before it"
        if isinstance(image, Node) and image.kind == "encoded":
            fix = "put fn.decode between them"
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
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p.name for p in parameters if p.default is p.empty and p.name in names]
    its_name = f"fn.{function.__name__}"

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        place = caller_place()
        where = f"{its_name} at {place}"
        trace = current_trace()
        if trace is None:
            fix = "call it inside a function with @feedrace.pipeline"
            raise invalid(where, "it is called outside of a pipeline", fix)
        check_names(where, "argument", kwargs, names)
        if len(args) > most and not takes_more:
            found = f"{len(args)} arguments without a name, of {most} at most"
            raise invalid(where, found, f"name the others, of {listed(names)}")
        by_position = names[: len(args)] if not takes_more else []
        for name in required:
            if name not in kwargs and name not in by_position:
                raise invalid(where, f"{name} is missing", f"it takes {listed(names)}")
            if name in kwargs and name in by_position:
                raise invalid(where, f"{name} is given twice", "give it once")
        return function(Call(its_name, trace, place), *args, **kwargs)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


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
