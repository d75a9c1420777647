# SPDX-License-Identifier: Apache-2.0
"""The one error class, and checks of arguments that end in one-line messages.

A message is one line: where, what was found, what to do. Each check returns the value in the form
that the rest of the package works with, or raises ``Error`` with code ``"invalid_argument"``.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from feedrace._feedrace import Error

__all__ = ["Error", "error", "invalid", "unknown"]

Code = Literal["invalid_argument", "not_found", "io", "corrupt_data", "unsupported", "cancelled"]
_SHOWN_CHARACTERS = 80


def error(code: Code, message: str) -> Error:
    """An ``Error`` with its ``.code``, to be raised."""
    made = Error(message)
    made.code = code
    return made


def invalid(where: str, found: str, fix: str) -> Error:
    """The error of a call that must be put right: "where: found; fix"."""
    return error("invalid_argument", f"{where}: {found}; {fix}")


def unsupported(where: str, found: str, fix: str) -> Error:
    """The error of something that this version or machine lacks."""
    return error("unsupported", f"{where}: {found}; {fix}")


def shown(value: object) -> str:
    """A value as messages show it: on one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # A user's own __repr__ must not hide what is wrong.
        text = f"<{type(value).__name__}>"
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 3] + "..."
    return text


def text_of(thrown: BaseException) -> str:
    """What an exception of other code says, on one line."""
    try:
        return " ".join(str(thrown).split())
    except Exception:  # A user's own __str__ must not hide the place.
        return "(no text)"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def closest(name: object, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # Only ever needed on the way to an error.

    by_lower = {word.lower(): word for word in known}
    found = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def unknown(where: str, kind: str, name: object, known: Iterable[str]) -> Error:
    """The error of a name that is none of the known ones, with the one that was meant."""
    names = list(known)
    meant = closest(name, names)
    hint = f"did you mean {meant!r}? There are" if meant else "there are"
    return invalid(where, f"no {kind} {shown(name)}", f"{hint} {listed(names)}")


def check_names(where: str, kind: str, given: Iterable[object], known: Iterable[str]) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise unknown(where, kind, name, names)


def plain(value: object) -> object:
    """A str of a subclass (NumPy's, an Enum's) as a str, a bool of NumPy as a bool; else itself."""
    if isinstance(value, str):
        return str.__str__(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    return value


def check_choice(where: str, name: str, value: object, choices: Sequence[Any]) -> Any:
    """The choice that `value` is."""
    exact = plain(value)
    for choice in choices:
        # By type too: True must not slip through as a choice of 1.
        if type(exact) is type(choice) and exact == choice:
            return choice
    words = [choice for choice in choices if isinstance(choice, str)]
    meant = closest(value, words) if isinstance(value, str) else None
    hint = f"did you mean {meant!r}? It" if meant else "it"
    allowed = listed(repr(choice) for choice in choices)
    raise invalid(where, f"{name} is {shown(value)}", f"{hint} must be one of {allowed}")


def check_bool(where: str, name: str, value: object) -> bool:
    exact = plain(value)
    if isinstance(exact, bool):
        return exact
    raise invalid(where, f"{name} is {shown(value)}", "it must be True or False")


def check_int(
    where: str, name: str, value: object, low: int, high: int | None = None, unit: str = ""
) -> int:
    """A whole number in [low, high]; integers of numpy and torch are taken too."""
    span = f"from {low} to {high}" if high is not None else f"of at least {low}"
    allowed = f"it must be a whole number {span}{' ' if unit else ''}{unit}"
    if isinstance(plain(value), (bool, str)):
        raise invalid(where, f"{name} is {shown(value)}", allowed)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # Whatever a type that is no number raises.
        raise invalid(where, f"{name} is {shown(value)}", allowed) from None
    if number < low or (high is not None and number > high):
        raise invalid(where, f"{name} is {shown(value)}", allowed)
    return number


def check_real(
    where: str,
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
) -> float:
    """A finite number in [low, high], greater than `above` if that is given."""
    parts = []
    if above is not None:
        parts.append(f"above {above:g}")
    elif low > -math.inf:
        parts.append(f"of at least {low:g}")
    if high < math.inf:
        parts.append(f"at most {high:g}")
    allowed = f"it must be a number {' and '.join(parts)}".rstrip()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise invalid(where, f"{name} is {shown(value)}", allowed)
    try:
        number = float(value)
    except OverflowError:  # An int beyond all floats.
        number = math.inf
    is_in = math.isfinite(number) and low <= number <= high
    if not is_in or (above is not None and number <= above):
        raise invalid(where, f"{name} is {shown(value)}", allowed)
    return number


def check_interval(
    where: str,
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
) -> tuple[float, float]:
    """Two numbers (first, last) with first <= last, each as `check_real` has it."""
    items = as_tuple(value)
    if items is None or len(items) != 2:
        raise invalid(where, f"{name} is {shown(value)}", "it must be two numbers (low, high)")
    first = check_real(where, f"{name}[0]", items[0], low, high, above)
    last = check_real(where, f"{name}[1]", items[1], low, high, above)
    if first > last:
        raise invalid(where, f"{name} is {shown(value)}", "give the smaller number first")
    return first, last


def check_size(where: str, name: str, value: object, high: int = 65535) -> tuple[int, int]:
    """Height and width in pixels: one number for a square, or (height, width)."""
    items = as_tuple(value)
    if items is None:
        side = check_int(where, name, value, 1, high, "pixels, or a pair (height, width)")
        return side, side
    if len(items) != 2:
        fix = "it must be one number or a pair (height, width)"
        raise invalid(where, f"{name} is {shown(value)}", fix)
    height = check_int(where, f"{name}[0]", items[0], 1, high, "pixels")
    width = check_int(where, f"{name}[1]", items[1], 1, high, "pixels")
    return height, width


def check_numbers(
    where: str, name: str, value: object, count: int, above: float | None = None
) -> tuple[float, ...]:
    items = as_tuple(value)
    if items is None or len(items) != count:
        raise invalid(where, f"{name} is {shown(value)}", f"it must be {count} numbers")
    return tuple(
        check_real(where, f"{name}[{i}]", item, above=above) for i, item in enumerate(items)
    )


def check_text(where: str, name: str, value: object) -> str:
    exact = plain(value)
    if not isinstance(exact, str):
        raise invalid(where, f"{name} is {shown(value)}", "it must be a str")
    try:
        exact.encode()
    except UnicodeEncodeError:
        fix = "it must be text that UTF-8 can write"
        raise invalid(where, f"{name} is {shown(value)}", fix) from None
    return exact


def check_path(where: str, name: str, value: object) -> str:
    """A path or address as text; bytes that are not UTF-8 are kept as the file system has them."""
    if isinstance(value, (str, bytes, os.PathLike)):
        try:
            text = str.__str__(os.fsdecode(value))
            os.fsencode(text)
        except Exception:  # A __fspath__ that fails, or half of a pair of UTF-16.
            text = ""
        if text and "\0" not in text:
            return text
    raise invalid(where, f"{name} is {shown(value)}", "it must be a path, as str or PathLike")


def as_tuple(value: object) -> tuple[Any, ...] | None:
    """The items of a list, tuple, or one-dimensional array; None of anything else."""
    if isinstance(value, (list, tuple)):
        return tuple(value)
    to_list = getattr(value, "tolist", None)
    if callable(to_list) and not isinstance(value, (numbers.Number, type)):
        items = to_list()
        if isinstance(items, list):
            return tuple(items)
    return None
