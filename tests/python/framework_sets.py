# SPDX-License-Identifier: Apache-2.0
"""What the tests with real frameworks share: small pictures, loaders over them, scripts."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import feedrace as fr

# Far above what anything here takes: a guard against hangs, not a measurement.
HANG_SECONDS = 120


def draw_pictures(root, count, classes=3):
    """Class folders with `count` PNGs of 40 x 48 in turn, each of a colour of its own."""
    for i in range(count):
        picture = Image.new("RGB", (40, 48), (i * 7 % 256, i * 31 % 256, i * 101 % 256))
        ImageDraw.Draw(picture).ellipse((5, 5, 10 + i % 30, 40), fill=(255 - i % 256, 90, i % 256))
        path = root / f"class-{i % classes}" / f"{i:04}.png"
        path.parent.mkdir(exist_ok=True)
        picture.save(path)
    return root


def random_crops(dtype="uint8", side=16):
    """Crops at random, mirrors at random: the loader shuffles."""
    coin = {"draw": "coin_flip", "probability": 0.5, "id": 0}
    crop = {"scale": (0.2, 1.0), "ratio": (0.75, 1.25), "size": (side, side)}
    return fr.Pipeline(
        [
            {"op": "decode", "orientation": "keep"},
            {"op": "random_resized_crop", **crop},
            {"op": "flip", "horizontal": coin, "vertical": 0.0},
            {"op": "to_tensor", "dtype": dtype, "layout": "CHW"},
        ]
    )


def with_function(function):
    """Random crops behind a function of yours, which runs on the decode threads."""
    first, *others = random_crops().steps
    step = {"op": "python_function", "function": function, "name": "own", "size": None}
    return fr.Pipeline([first, step, *others])


def loader_of(source, **arguments):
    """Batches of 4 pictures with their samples' numbers, by default shuffled random crops."""
    defaults = {"batch_size": 4, "num_threads": 1, "fields": ("image", "index")}
    return fr.ImageLoader(source, **{"transform": random_crops(), **defaults, **arguments})


def plain(batch):
    """A batch of pictures and numbers as (numbers, bytes of the pictures), to be compared."""
    images, index = batch
    return np.asarray(index).tolist(), np.asarray(images).tobytes()


def thread_count():
    return len(os.listdir("/proc/self/task"))


def falls_to(count):
    """Whether no more threads are left, in a moment: the kernel lists those that were joined."""
    deadline = time.monotonic() + HANG_SECONDS / 4
    while thread_count() > count and time.monotonic() < deadline:
        time.sleep(0.01)
    return thread_count() <= count


def environment(**variables):
    """That of a script which imports what this process does."""
    path = os.pathsep.join(p for p in (str(Path(__file__).parent), *sys.path) if p)
    return {**os.environ, "PYTHONPATH": path, **variables}


def start_python(script, *args, **variables):
    """Starts a script; `variables` are of its environment."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(process):
    """What it printed; it must end by itself, and well."""
    try:
        out, err = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, f"exit code {process.returncode}: {err}"
    return out


def run_python(script, *args, **variables):
    return end_of(start_python(script, *args, **variables))
