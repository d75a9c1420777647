# SPDX-License-Identifier: Apache-2.0
"""What the tests of feedrace.dali share: 13 pictures of 3 classes and many sizes, and pipelines."""

import numpy as np
from PIL import Image

import feedrace.dali.fn as fn
import feedrace.dali.types as types
from feedrace.dali import pipeline_def
from pictures import make_shard

COUNTS = {"ape": 4, "bee": 6, "cow": 3}
COUNT = sum(COUNTS.values())
LABELS = [label for label, count in enumerate(COUNTS.values()) for _ in range(count)]
BATCH = 4

# Of ImageNet, in the units of DALI's scripts.
MEAN_255 = [0.485 * 255, 0.456 * 255, 0.406 * 255]
STD_255 = [0.229 * 255, 0.224 * 255, 0.225 * 255]


def picture(number):
    """Smooth, so that the two filters that are compared have something to agree on."""
    width, height = 40 + 7 * number, 90 - 5 * number
    y, x = np.mgrid[0:height, 0:width]
    red = 127 + 120 * np.sin(x / (5 + number)) * np.cos(y / 9)
    green = 255 * y / height
    blue = np.full_like(green, 19 * number)
    return Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))


def write_folder(root):
    """An image folder; PNG, so that decoding has one right answer. Odd numbers are JPEG."""
    number = 0
    for name, count in COUNTS.items():
        (root / name).mkdir(parents=True)
        for i in range(count):
            suffix = "jpg" if number % 2 else "png"
            picture(number).save(root / name / f"{i}.{suffix}", quality=92)
            number += 1
    return root


def paths(root):
    """The files in the order of their numbers."""
    return sorted(path for path in root.rglob("*") if path.suffix in (".jpg", ".png"))


def write_shard(root, folder):
    """The same samples as a shard: key, class as text and as 4 bytes, picture."""
    members = []
    for number, path in enumerate(paths(folder)):
        label = LABELS[number]
        members += [
            (f"{number:04}.cls", b"%d" % label),
            (f"{number:04}.bin", int(label).to_bytes(4, "little")),
            (f"{number:04}.txt", b"x" * (1 + number % 3)),
            (f"{number:04}{path.suffix}", path.read_bytes()),
        ]
    return make_shard(root / "set.tar", members)


@pipeline_def
def training_pipeline(data_dir, crop_size=224):
    """The article's: shuffled files, decoded, cropped, flipped, normalized to FP16."""
    encoded, labels = fn.readers.file(
        file_root=data_dir, random_shuffle=True, initial_fill=4096, name="Reader"
    )
    images = fn.decoders.image(encoded, device="mixed", output_type=types.RGB)
    images = fn.random_resized_crop(images, size=crop_size, random_area=(0.08, 1.0), device="gpu")
    images = fn.flip(images, horizontal=fn.coin_flip())
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT16,
        output_layout="CHW",
        mean=MEAN_255,
        std=STD_255,
        device="gpu",
    )
    return images, labels


def make_training(folder, **options):
    return training_pipeline(
        data_dir=str(folder),
        **{"batch_size": BATCH, "num_threads": 2, "device_id": None, **options},
    )


def make(chain, folder, batch_size=COUNT, reader=None):
    """A pipeline over the folder in its order; `chain` makes outputs of encoded and labels."""

    @pipeline_def(batch_size=batch_size, device_id=None)
    def described():
        return chain(*fn.readers.file(file_root=str(folder), name="Reader", **(reader or {})))

    return described()


def pixels(chain, folder):
    """What `chain` makes of the decoded pictures, in the folder's order."""
    return make(lambda encoded, _: chain(fn.decoders.image(encoded)), folder).run()[0]
