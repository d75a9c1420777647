# SPDX-License-Identifier: Apache-2.0
"""Decoded pictures (.npy, squeezed or not) are loaded as encoded ones are, with numpy's pixels."""

import io
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from conftest import run
from pictures import jpeg, make_shard

BAD_DATA = 1


def pixels(seed=0, size=(300, 260)):
    return np.asarray(Image.open(io.BytesIO(jpeg(seed, size))))


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def squeezed(content, program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return subprocess.run([program, "-c"], input=content, capture_output=True, check=True).stdout


FORMS = {
    "npy": npy,
    "npy.lz4": lambda array: squeezed(npy(array), "lz4"),
    "npy.zst": lambda array: squeezed(npy(array), "zstd"),
}


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def shard(path, form, encode):
    members = []
    for i in range(8):
        members += [(f"{i}.{form}", encode(pixels(i))), (f"{i}.cls", b"%d" % (i % 3))]
    return make_shard(path, members)


@pytest.mark.parametrize("form", FORMS)
def test_decode_gives_the_array_and_its_parts(form, tmp_path):
    array = pixels(3)
    (tmp_path / f"a.{form}").write_bytes(FORMS[form](array))
    done = run("decode", tmp_path / f"a.{form}", "--out", tmp_path / "all.npy")
    assert done.code == 0, done.err
    assert np.array_equal(np.load(tmp_path / "all.npy"), array)
    for x, y, w, h in (
        (0, 0, 1, 1),
        (17, 20, 100, 90),
        (299, 259, 1, 1),
        (0, 130, 300, 130),
    ):
        out = tmp_path / "part.npy"
        part = run(
            "decode",
            tmp_path / f"a.{form}",
            "--out",
            out,
            "--region",
            f"{x},{y},{w},{h}",
        )
        assert part.code == 0, part.err
        assert np.array_equal(np.load(out), array[y : y + h, x : x + w])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recipe", ["imagenet-train", "imagenet-val"])
def test_batches_are_those_of_the_same_pixels_in_png(form, recipe, tmp_path):
    shard(tmp_path / "png" / "a.tar", "png", png)
    shard(tmp_path / "decoded" / "a.tar", form, FORMS[form])
    arrays = []
    for name in ("png", "decoded"):
        out = tmp_path / f"out-{name}"
        done = run("batch", tmp_path / name, "--recipe", recipe, "--batch", "8", "--out", out)
        assert done.code == 0, done.err
        arrays.append((np.load(out / "images.npy"), np.load(out / "labels.npy")))
    assert np.array_equal(arrays[0][0], arrays[1][0])
    assert np.array_equal(arrays[0][1], arrays[1][1])


def test_an_array_beside_a_picture_is_not_the_picture(tmp_path):
    members = []
    for i in range(4):
        members += [
            (f"{i}.npy", npy(np.zeros((4, 4), np.float32))),
            (f"{i}.jpg", jpeg(i)),
        ]
    path = make_shard(tmp_path / "a.tar", members)
    assert run("batch", path, "--batch", "4", "--out", tmp_path / "out").code == 0


def test_the_recipe_raw_takes_them_as_they_are(tmp_path):
    path = shard(tmp_path / "a.tar", "npy", npy)
    out = tmp_path / "out"
    done = run(
        "batch",
        path,
        "--recipe",
        "raw",
        "--batch",
        "8",
        "--no-shuffle",
        "--out",
        out,
    )
    assert done.code == 0, done.err
    assert np.array_equal(np.load(out / "images.npy"), [pixels(i) for i in range(8)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.zeros((3, 4, 3), np.float32)), "float32 [3, 4, 3]"),
        (npy(np.asfortranarray(np.zeros((3, 4, 3), np.uint8))), "Fortran order"),
        (npy(np.zeros((3, 4, 4), np.uint8)), "uint8 [3, 4, 4]"),
        (npy(pixels())[:-1], "truncated .npy data"),
        (npy(pixels()) + b"x", "corrupt .npy data"),
    ],
)
def test_other_arrays_are_refused_with_what_was_found(content, message, tmp_path):
    (tmp_path / "a.npy").write_bytes(content)
    done = run("decode", tmp_path / "a.npy", "--out", tmp_path / "out.npy")
    assert message in done.error(BAD_DATA)
