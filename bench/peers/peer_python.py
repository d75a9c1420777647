# SPDX-License-Identifier: Apache-2.0
"""Feedrace through its Python package, as a training script sees it: torch tensors in a loop."""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import feedrace as fr
from bench import layout


def batches(source, config):
    loader = fr.ImageLoader(
        str(source),
        batch_size=config.batch,
        num_threads=config.threads,
        seed=config.seed,
        transform="imagenet-train",
    )
    while True:
        yield from loader


if __name__ == "__main__":
    measure.main(
        "feedrace",
        files={"python_folder": lambda config: batches(layout.LIST, config)},
        shards={"python_shards": lambda config: batches(layout.SHARDS, config)},
    )
