# SPDX-License-Identifier: Apache-2.0
"""Calls whose arguments are looked at first: a wrong one is an `Error` that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from feedrace.errors import check_names, invalid, listed, shown

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Class = TypeVar("_Class", bound=type)
_BY_PLACE = inspect.Parameter.POSITIONAL_ONLY
_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def check_call(
    where: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Whether Python could make this call.

    Raises:
        Error: An argument is unknown, missing, given twice, or one too many.
    """
    parameters = signature.parameters.values()
    kinds = {one.kind for one in parameters}
    most = [one.name for one in parameters if one.kind in (_BY_PLACE, _EITHER)]
    named = [one.name for one in parameters if one.kind in (_EITHER, _BY_NAME)]
    names = list(dict.fromkeys((*most, *named)))
    takes = f"it takes {listed(names) or 'no arguments'}"
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        _check_known(where, kwargs, named, takes)
    if len(args) > len(most) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        found = f"{len(args)} arguments without a name, of {len(most)} at most"
        has_others = len(names) > len(most)
        raise invalid(where, found, f"name the others, of {listed(names)}" if has_others else takes)
    by_position = most[: len(args)]
    for one in parameters:
        if one.name in kwargs and one.name in by_position and one.name in named:
            raise invalid(where, f"{one.name} is given twice", "give it once")
        is_needed = one.default is one.empty and one.name in names
        if is_needed and one.name not in kwargs and one.name not in by_position:
            raise invalid(where, f"{one.name} is missing", takes)


def _check_known(where: str, kwargs: Mapping[str, Any], named: list[str], takes: str) -> None:
    if named:
        check_names(where, "argument", kwargs, named)
    for name in kwargs if not named else ():
        raise invalid(where, f"no argument {shown(name)}", takes)


def checked(where: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function one that checks how it is called; `where` is its name in messages."""

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            check_call(where, signature, args, kwargs)
            return function(*args, **kwargs)

        return call

    return wrap


def checked_methods(kind: _Class) -> _Class:
    """Makes the public methods of a class, and how it is made, check how they are called.

    Messages begin with the attribute `where` of the class, or its name.
    """
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(kind, name, _checked_method(name, member))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(_checked_method(name, member.__func__)))
    return kind


def _checked_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    own = signature.replace(parameters=list(signature.parameters.values())[1:])

    @wraps(function)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner = self if isinstance(self, type) else type(self)
        kind = getattr(owner, "where", owner.__name__)
        check_call(kind if name == "__init__" else f"{kind}.{name}", own, args, kwargs)
        return function(self, *args, **kwargs)

    return call
