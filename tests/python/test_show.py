# SPDX-License-Identifier: Apache-2.0
"""fr.show: the pictures of a batch as one picture."""

import importlib.util

import numpy as np
import pytest
from PIL import Image

import feedrace as fr

RED, GREEN = (200, 30, 40), (20, 180, 60)
GAP, CAPTION = 4, 12


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A red class and a green one, a picture each."""
    root = tmp_path_factory.mktemp("plain")
    for name, color in (("red", RED), ("green", GREEN)):
        (root / name).mkdir()
        Image.new("RGB", (24, 24), color).save(root / name / "0.png")
    return root


def loader_of(root, output="numpy", **tensor):
    @fr.pipeline(batch_size=2, output=output)
    def sized(root):
        jpeg, label = fr.fn.read(root)
        image = fr.fn.resize(fr.fn.decode(jpeg), 24)
        if tensor.get("dtype") != "uint8":
            image = fr.fn.normalize(image, fr.IMAGENET_MEAN, fr.IMAGENET_STD)
        return fr.fn.to_tensor(image, **tensor), label

    return sized(root)


def is_close(pixel, color):
    return max(abs(a - b) for a, b in zip(pixel, color, strict=True)) <= 1


def check(sheet, captions=True):
    line = CAPTION if captions else 0
    assert sheet.size == (GAP + 2 * (24 + GAP), GAP + 24 + line + GAP)
    middle = GAP + line + 12
    # Classes in code-point order: green is 0.
    assert is_close(sheet.getpixel((GAP + 12, middle)), GREEN)
    assert is_close(sheet.getpixel((GAP + 24 + GAP + 12, middle)), RED)
    assert sheet.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_normalisation_is_undone(plain, output, dtype, layout):
    if importlib.util.find_spec(output) is None:
        pytest.skip(f"{output} is not installed")
    loader = loader_of(plain, output, dtype=dtype, layout=layout)
    batch = next(iter(loader))
    check(fr.show(batch, loader=loader))
    check(fr.show(batch))


def test_floats_in_0_to_1_are_shown_as_they_are():
    images = np.zeros((2, 3, 24, 24), np.float32)
    images[0] += np.float32(GREEN)[:, None, None] / 255
    images[1] += np.float32(RED)[:, None, None] / 255
    check(fr.show(images), captions=False)
    check(fr.show((images,)), captions=False)


def test_the_loaders_own_mean_and_std_count(plain):
    @fr.pipeline(batch_size=2, output="numpy")
    def other(root):
        jpeg, label = fr.fn.read(root)
        image = fr.fn.resize(fr.fn.decode(jpeg), 24)
        return label, fr.fn.normalize(image, (0.9, 0.1, 0.5), (0.01, 3, 1))

    loader = other(plain)
    check(fr.show(next(iter(loader)), loader=loader))


def test_captions_are_class_names_or_numbers(plain):
    loader = loader_of(plain, dtype="uint8")
    batch = next(iter(loader))
    named, numbered = fr.show(batch, loader=loader), fr.show(batch)
    assert named.tobytes() != numbered.tobytes()
    assert fr.show(batch, classes=["green", "red"]).tobytes() == named.tobytes()
    assert fr.show(batch, classes=["green"]).size == named.size
    long = fr.show(batch, classes=["a very long name of a class", "größer 大"])
    assert long.size == named.size


def test_pictures_of_different_sizes(odd_folder):
    steps = [
        {"op": "decode", "orientation": "keep"},
        {"op": "to_tensor", "dtype": "uint8", "layout": "CHW"},
    ]
    for ragged in ("list", "jagged"):
        loader = fr.ImageLoader(
            odd_folder, batch_size=5, transform=fr.Pipeline(steps), output="numpy", ragged=ragged
        )
        sheet = fr.show(next(iter(loader)), loader=loader)
        # 3 columns of the widest, 2 rows of the highest.
        assert sheet.size == (GAP + 3 * (14 + GAP), GAP + 2 * (20 + CAPTION + GAP))


def test_it_is_written_where_the_path_says(plain, tmp_path):
    batch = next(iter(loader_of(plain, dtype="uint8")))
    sheet = fr.show(batch, path=tmp_path / "batch.png")
    with Image.open(tmp_path / "batch.png") as written:
        assert written.tobytes() == sheet.tobytes()


def test_a_limit_of_pictures():
    images = np.zeros((100, 3, 8, 8), np.uint8)
    assert fr.show(images).size == (GAP + 8 * (8 + GAP),) * 2
    assert fr.show(images, limit=4).size == (GAP + 2 * (8 + GAP),) * 2


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (3, "the batch is 3"),
        ((), "the batch is ()"),
        ([], "the batch is []"),
        (([1, 2], [3, 4]), "the batch is ([1, 2], [3, 4])"),
        (np.zeros((2, 8, 8), np.uint8), "a picture has shape (8, 8)"),
        (np.zeros((2, 1, 8, 8), np.uint8), "a picture has shape (1, 8, 8)"),
    ],
)
def test_what_is_no_batch_of_pictures(batch, found):
    with pytest.raises(fr.Error) as caught:
        fr.show(batch)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_limit_below_one_is_refused():
    with pytest.raises(fr.Error, match="limit is 0"):
        fr.show(np.zeros((2, 3, 8, 8), np.uint8), limit=0)
    with pytest.raises(fr.Error, match="no argument 'class_names'"):
        fr.show(np.zeros((2, 3, 8, 8), np.uint8), class_names=["a"])
