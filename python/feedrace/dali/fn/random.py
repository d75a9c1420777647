# SPDX-License-Identifier: Apache-2.0
"""Random numbers, one a sample: functions of (seed, epoch, sample), whatever the threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrace import errors
from feedrace.dali import nodes, operators

_ONE_NUMBER = {"shape": (None,)}


@operators.operator("fn.random.coin_flip", hints=("dtype",), only=_ONE_NUMBER)
def coin_flip(*, probability: float = 0.5) -> nodes.Draw:
    """1 with `probability`, in [0, 1], else 0."""
    name = "fn.random.coin_flip"
    share = errors.check_real(name, "probability", probability, 0, 1)
    return _draw(name, {"draw": "coin_flip", "probability": share})


@operators.operator("fn.random.uniform", hints=("dtype",), only={**_ONE_NUMBER, "values": (None,)})
def uniform(*, range: Any = (-1.0, 1.0)) -> nodes.Draw:  # noqa: A002  DALI's spelling
    """A number between range[0] and range[1]."""
    name = "fn.random.uniform"
    return _draw(name, {"draw": "uniform", "range": errors.check_interval(name, "range", range)})


def _draw(name: str, number: dict[str, Any]) -> nodes.Draw:
    graph = nodes.current(name)
    node = nodes.Draw({**number, "id": graph.draw_count})
    graph.draw_count += 1
    return node


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> operators.MissingModule:
        return operators.missing(__name__, name)
