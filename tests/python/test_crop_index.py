# SPDX-License-Identifier: Apache-2.0
"""Crop indexes from Python: used by default, switched off, counted."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import feedrace as fr
from small_sets import jpeg_of

PROGRAM = Path(
    os.environ.get("FEEDRACE_BIN", Path(__file__).parents[2] / "build/release/bin/feedrace")
)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "train" / "a").mkdir(parents=True)
    for i in range(4):
        picture = jpeg_of(int(rng.integers(1000)), (500, 375))
        (tmp_path / "train" / "a" / f"{i}.jpg").write_bytes(picture)
    return tmp_path / "train"


def images_of(folder, **arguments):
    loader = fr.ImageLoader(folder, batch_size=2, seed=3, output="numpy", **arguments)
    images = np.concatenate([batch[0] for batch in loader])
    return loader, images


def test_without_an_index_nothing_is_said_of_it(folder):
    loader, _ = images_of(folder)
    assert loader.plan.crop_index == ""
    assert loader.stats()["crop_indexed"] == 0


def test_the_plan_says_that_libjpeg_turbo_does_not_use_it(folder):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    subprocess.run([PROGRAM, "index", folder, "--crop-index"], check=True)
    loader, images = images_of(folder)
    assert loader.plan.crop_index == "4 of 4 pictures"
    assert loader.stats()["crop_indexed"] > 0
    other, same = images_of(folder, jpeg_engine="libjpeg-turbo")
    said = "not used by libjpeg-turbo, though there is one of 4 of 4 pictures"
    assert other.plan.crop_index == said
    assert other.stats()["crop_indexed"] == 0
    assert np.array_equal(images, same)


def test_another_choice_is_refused(folder):
    with pytest.raises(fr.Error, match="crop_index"):
        fr.ImageLoader(folder, crop_index="on")
