#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an image folder of real photographs of ImageNet-like sizes: make_photos.py DIR

Cuts regions at random, by a fixed seed, from the photographs that the scikit-image wheel ships as
files (dozens more of its pictures are downloaded on demand; those are not used). Nine ship in
colour and six in grey; each is a class. Most pictures are 4:4:4, the rest 4:2:0, as in ImageNet;
the same machine and the same versions give the same bytes.
"""

import importlib.util
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from PIL import Image

COLOUR = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "motorcycle_left": "motorcycle_left.png",
    "motorcycle_right": "motorcycle_right.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
    "tissue": "ihc.png",
}
GREY = {
    "brick": "brick.png",
    "cameraman": "camera.png",
    "coins": "coins.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "moon": "moon.png",
}
COLOUR_COUNT = 200
GREY_COUNT = 34
DONE = ".complete"  # A name that begins with a dot is no class.


def shipped_photos():
    """The folder of pictures inside the scikit-image package, found without importing it."""
    spec = importlib.util.find_spec("skimage")
    if spec is None:
        sys.exit("make_photos: scikit-image is not installed; run dev/setup")
    return Path(spec.origin).parent / "data"


def cut(photo, rng):
    """A random region of `photo`, scaled to an ImageNet-like size."""
    width = rng.randrange(400, 501)
    height = round(width * rng.uniform(0.66, 1.2))
    # As large a region of this shape as fits, then between a half and all of it.
    scale = min(photo.width / width, photo.height / height) * rng.uniform(0.5, 1.0)
    region_width, region_height = width * scale, height * scale
    left = rng.uniform(0, photo.width - region_width)
    top = rng.uniform(0, photo.height - region_height)
    box = (left, top, left + region_width, top + region_height)
    return photo.resize((width, height), Image.Resampling.BICUBIC, box=box)


def make_class(name, source, count, folder):
    """Writes `count` pictures of one class; seeded by its name, so classes may run in any order."""
    rng = random.Random(name)
    with Image.open(source) as opened:
        photo = opened.convert("L" if source.name in GREY.values() else "RGB")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        quality = rng.randrange(93, 98)
        subsampling = "4:4:4" if rng.random() < 0.75 else "4:2:0"
        options = {} if photo.mode == "L" else {"subsampling": subsampling}
        cut(photo, rng).save(folder / f"{number:04}.jpg", quality=quality, **options)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_photos.py DIR")
    target = Path(sys.argv[1])
    classes = [(name, file, COLOUR_COUNT) for name, file in COLOUR.items()]
    classes += [(name, file, GREY_COUNT) for name, file in GREY.items()]
    if not (target / DONE).exists():
        data = shipped_photos()
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(make_class, n, data / f, c, target / n) for n, f, c in classes]
            for job in jobs:
                job.result()
        (target / DONE).touch()
    pictures = list(target.glob("*/*.jpg"))
    size = sum(picture.stat().st_size for picture in pictures)
    print(
        f"photos: {len(pictures):,} pictures in {len(classes)} classes, "
        f"{size / len(pictures) / 1000:.0f} KB on average, in {target}"
    )


if __name__ == "__main__":
    main()
