# SPDX-License-Identifier: Apache-2.0
"""An iterator that gives batches as JAX arrays."""

from __future__ import annotations

from typing import Any

from feedrace import errors
from feedrace.calls import checked_methods
from feedrace.dali.plugin.base_iterator import BaseIterator, LastBatchPolicy

__all__ = ["DALIGenericIterator", "LastBatchPolicy"]


@checked_methods
class DALIGenericIterator(BaseIterator):
    """Batches as a dict of JAX arrays by `output_map`'s names, of one pipeline.

    Images are memory of the loader without a copy. Arguments: see `BaseIterator`.
    """

    framework = "jax"

    def __init__(self, pipelines: Any, output_map: list[str], **arguments: Any) -> None:
        if isinstance(pipelines, list) and len(pipelines) != 1:
            found = f"{len(pipelines)} pipelines"
            fix = "give one a process, and join arrays by jax.make_array_from_process_local_data"
            raise errors.unsupported(self.where, found, fix)
        super().__init__(pipelines, output_map, **arguments)

    def gather(self, batches: list[dict[str, Any]]) -> Any:
        return batches[0]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.unsupported(
        f"plugin.jax.{name}", "it is not in feedrace.dali", f"there are {errors.listed(__all__)}"
    )
