# SPDX-License-Identifier: Apache-2.0
"""Iterators that give batches as torch tensors."""

from __future__ import annotations

from typing import Any

from feedrace import errors
from feedrace.calls import checked_methods
from feedrace.dali.pipeline import Pipeline
from feedrace.dali.plugin.base_iterator import BaseIterator, LastBatchPolicy

__all__ = ["DALIClassificationIterator", "DALIGenericIterator", "LastBatchPolicy"]


class DALIGenericIterator(BaseIterator):
    """Batches as a list with, for each pipeline, a dict of torch tensors by `output_map`'s names.

    Images: [N, 3, H, W] or [N, H, W, 3], memory of the loader without a copy. They are the user's
    for as long as they live. Labels: int32 [N, 1]. Arguments: see `BaseIterator`.
    """


@checked_methods
class DALIClassificationIterator(DALIGenericIterator):
    """`DALIGenericIterator` of pipelines with the outputs "data" and "label"."""

    where = "DALIClassificationIterator"

    def __init__(
        self, pipelines: Pipeline | list[Pipeline], size: int = -1, **arguments: Any
    ) -> None:
        super().__init__(pipelines, ["data", "label"], size, **arguments)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.unsupported(
        f"plugin.pytorch.{name}",
        "it is not in feedrace.dali",
        f"there are {errors.listed(__all__)}",
    )
