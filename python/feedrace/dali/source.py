# SPDX-License-Identifier: Apache-2.0
"""Opens feedrace's loader for a pipeline of DALI's operators."""

from __future__ import annotations

import csv
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedrace import _feedrace
from feedrace.dali import nodes

if TYPE_CHECKING:
    from feedrace.dali.description import Description
    from feedrace.dali.pipeline import Pipeline

_log = logging.getLogger("feedrace")


def open_loader(pipe: Pipeline, description: Description, last_batch: str) -> Any:
    """The native loader. Raises Error where the data set can't be opened."""
    reader = description.reader
    with _sources(reader) as sources:
        return _feedrace.Loader(
            sources=sources,
            steps=description.steps,
            batch_size=pipe.max_batch_size,
            shuffle="global" if reader.shuffle else "none",
            seed=_seed(pipe, reader),
            last_batch=last_batch,
            # DALI's readers take their share from their arguments alone, never from a launcher.
            rank=reader.shard_id,
            world_size=reader.shard_count,
            num_threads=pipe.num_threads,
            prefetch_factor=pipe.prefetch_queue_depth,
            image_fields=description.image_fields,
            fields=description.fields,
            label_field="" if reader.components else "auto",
            **pipe.device,
        )


def _seed(pipe: Pipeline, reader: nodes.Reader) -> int:
    if reader.seed is not None:
        return reader.seed
    if reader.shard_count == 1:
        return pipe.seed
    # Scripts add the rank to the pipeline's seed. Here the order of all shards is one, so it must
    # not depend on it, or samples would be read twice and others never.
    if pipe.seed != 0:
        _log.info(
            "dali: %s: with several shards seed=%d of the pipeline is not used, so that all of "
            "them split one order; give the reader a seed, the same on each",
            reader.operator,
            pipe.seed,
        )
    return 0


@contextmanager
def _sources(reader: nodes.Reader) -> Iterator[list[str]]:
    """The reader's sources; paths that were given one by one are written as a list, which the
    loader has read when it is open."""
    if reader.listed is None:
        yield list(reader.sources)
        return
    with tempfile.TemporaryDirectory(prefix="feedrace-dali-") as folder:
        path = Path(folder) / "files.csv"
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("path", "label"))
            writer.writerows((os.path.abspath(one), label) for one, label in reader.listed)
        yield [str(path)]
