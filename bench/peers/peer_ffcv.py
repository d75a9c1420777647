# SPDX-License-Identifier: Apache-2.0
"""FFCV, which reads its own container: the same JPEG bytes as the others, put there as they are.

Its own writer encodes every picture anew (OpenCV, quality 90 by default). Give pictures that are
encoded so already, as `bench/jpeg.py` makes them (q90_420), and the bytes are those it would write.
"""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import numpy as np
import torch  # noqa: F401  FFCV's transforms need it loaded.
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import (
    NormalizeImage,
    RandomHorizontalFlip,
    Squeeze,
    ToTensor,
    ToTorchImage,
)
from ffcv.writer import DatasetWriter
from PIL import Image

from bench import layout

CONTAINER = layout.BENCH_DATA / "pictures.beton"
STAMP = layout.BENCH_DATA / "beton.json"  # Of which layout the container is.
DECODED = layout.BENCH_DATA / "decoded.beton"
DECODED_STAMP = layout.BENCH_DATA / "decoded-beton.json"
MODE_JPEG = 0


class Encoded:
    """Bytes, width and height of each picture, with its label."""

    def __init__(self):
        self.samples = layout.samples()

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        with open(path, "rb") as file, Image.open(file) as picture:
            file.seek(0)
            return (np.frombuffer(file.read(), np.uint8), *picture.size), label


def store_as_is(self, destination, value, malloc):
    """In the place of RGBImageField.encode."""
    encoded, width, height = value
    destination["mode"], destination["height"], destination["width"] = MODE_JPEG, height, width
    destination["data_ptr"], storage = malloc(encoded.nbytes)
    storage[:] = encoded


def write_container():
    """(the container, its samples)"""
    stamp, count = layout.STAMP.read_text(), len(layout.samples())
    if CONTAINER.exists() and STAMP.exists() and STAMP.read_text() == stamp:
        return CONTAINER, count
    STAMP.unlink(missing_ok=True)
    RGBImageField.encode = store_as_is
    fields = {"image": RGBImageField(write_mode="jpg"), "label": IntField()}
    DatasetWriter(str(CONTAINER), fields, num_workers=2).from_indexed_dataset(Encoded())
    STAMP.write_text(stamp)
    return CONTAINER, count


class Decoded:
    """Pixels of each square picture, with its label."""

    def __init__(self):
        self.samples = layout.square_samples()

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        return np.asarray(Image.open(path)), label


def write_decoded_container():
    """(the container, its samples)"""
    stamp = layout.STAMP.read_text()
    if not DECODED.exists() or not DECODED_STAMP.exists() or DECODED_STAMP.read_text() != stamp:
        DECODED_STAMP.unlink(missing_ok=True)
        fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
        DatasetWriter(str(DECODED), fields, num_workers=2).from_indexed_dataset(Decoded())
        DECODED_STAMP.write_text(stamp)
    return DECODED, len(layout.square_samples())


def build(config, stored, passes):
    container, count = stored
    side = (measure.SIDE_PX, measure.SIDE_PX)
    image = [
        RandomResizedCropRGBImageDecoder(side, scale=measure.AREA, ratio=measure.RATIO),
        RandomHorizontalFlip(),
        NormalizeImage(np.array(measure.MEAN_255), np.array(measure.STD_255), np.float16),
        ToTensor(),
        ToTorchImage(),
    ]
    loader = Loader(
        str(container),
        batch_size=config.batch,
        num_workers=config.threads,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        indices=np.tile(np.arange(count), passes),
        pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]},
        seed=config.seed,
    )
    while True:
        yield from loader


if __name__ == "__main__":
    measure.main(
        "ffcv",
        files={"ffcv_rrc": lambda c: build(c, write_container(), layout.PASSES)},
        decoded={"ffcv_raw": lambda c: build(c, write_decoded_container(), 1)},
    )
