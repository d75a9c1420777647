# SPDX-License-Identifier: Apache-2.0
"""turboloader, which reads one local tar without labels.

It shrinks the whole picture while decoding until it just covers the output, and crops from that,
so its crops have less detail than those of the others. It runs one thread a CPU whatever it is
told.
"""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import itertools

import numpy as np
import turboloader
from turboloader.tbl import TblRawImageLoader, preprocess_to_tbl

from bench import layout


def build(config, **options):
    labels = np.array([label for _, label in layout.epoch()])
    loader = turboloader.DataLoader(
        str(layout.FLAT_TAR),
        batch_size=config.batch,
        num_workers=config.threads,
        shuffle=True,
        seed=config.seed,
        image_size=measure.SIDE_PX,
        output_format="pytorch",
        transform=turboloader.ImageNetNormalize(),
        train_aug=True,
        drop_last=True,
        **options,
    )
    for epoch in itertools.count():
        loader.set_epoch(epoch)  # Without it every epoch has the same order and crops.
        for images, about in loader:
            yield images, labels[about["indices"]]


TBL = layout.BENCH_DATA / "pictures.tbl"
TBL_STAMP = layout.BENCH_DATA / "tbl.json"  # Of which layout it is.


def build_decoded(config, dtype):
    """Its store of decoded pictures, squeezed to a square."""
    stamp = layout.STAMP.read_text()
    if not TBL.exists() or not TBL_STAMP.exists() or TBL_STAMP.read_text() != stamp:
        preprocess_to_tbl(str(layout.FLAT_TAR), str(TBL), image_size=layout.SQUARE_PX)
        TBL_STAMP.write_text(stamp)
    labels = np.array([label for _, label in layout.epoch()])
    loader = TblRawImageLoader(
        str(TBL),
        batch_size=config.batch,
        seed=config.seed,
        drop_last=True,
        hflip_prob=0.5,
        train_aug=True,
        image_size=measure.SIDE_PX,
        dtype=dtype,
    )
    for epoch in itertools.count():
        loader.set_epoch(epoch)
        for images, about in loader:
            yield images, labels[about["indices"]]


if __name__ == "__main__":
    measure.main(
        "turboloader",
        files={},
        shards={
            "turbo_aug": build,
            "turbo_aug_ring": lambda c: build(c, pin_memory=True),  # Buffers of torch, used again.
            "turbo_aug_aa": lambda c: build(c, antialias=True),
        },
        decoded={
            "turbo_tbl": lambda c: build_decoded(c, "float16"),
            "turbo_tbl_fp32": lambda c: build_decoded(c, "float32"),
        },
    )
