# SPDX-License-Identifier: Apache-2.0
"""What modules and objects say of a name that they do not have."""

from __future__ import annotations

from collections.abc import Iterable

from feedrace.errors import Error, closest, listed

__all__ = ["MissingNameError", "missing_name", "not_there"]


class MissingNameError(Error, AttributeError):
    """An `Error` that `hasattr` and `getattr` with a default take for what it is."""


def not_there(message: str) -> MissingNameError:
    """The error of a name that is not there, with its message; to be raised in `__getattr__`."""
    made = MissingNameError(message)
    made.code = "unsupported"
    return made


def missing_name(where: str, name: str, known: Iterable[str], fix: str = "") -> AttributeError:
    """The error of ``where.name``, with the names that there are.

    Names that begin with an underscore are those that Python itself looks for, as copying and
    pickling do: nobody reads a message about them.
    """
    if name.startswith("_"):
        return AttributeError(f"{where} has no attribute {name!r}")
    names = list(known)
    meant = closest(name, names)
    there = "there is" if len(names) == 1 else "there are"
    hint = f"did you mean {meant}? {there.capitalize()}" if meant else there
    tail = f"; {fix}" if fix else ""
    return not_there(f"{where}: no attribute {name!r}; {hint} {listed(names)}{tail}")
