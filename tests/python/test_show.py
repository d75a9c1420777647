# SPDX-License-Identifier: Apache-2.0
"""fr.show: the pictures of a batch as one picture."""

import importlib.util

import numpy as np
import pytest
from PIL import Image

import feedrace as fr
from small_loaders import error_of

RED, GREEN = (200, 30, 40), (20, 180, 60)
GAP, CAPTION = 4, 12
UINT8 = np.zeros((2, 3, 8, 8), np.uint8)


def one_element_is(value):
    images = np.zeros((2, 3, 8, 8))
    images[0, 1, 2, 3] = value
    return images


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
        (np.zeros((2, 3, 0, 8), np.uint8), "a picture has shape (3, 0, 8)"),
        (None, "the batch is None"),
        ("pictures", "the batch is 'pictures'"),
        ({"image": UINT8}, "the batch is {'image'"),
        ((image for image in UINT8), "the batch is <generator"),
        (np.float32(1), "the batch is np.float32(1.0)"),
        ([UINT8[0], 3], "a picture has shape ()"),
        (UINT8.astype(complex), "a picture is of complex128; give uint8"),
        (UINT8.astype(bool), "a picture is of bool; give uint8"),
        (UINT8.astype(np.int64), "a picture is of int64; give uint8"),
        (UINT8.astype(object), "a picture is of object; give uint8"),
        (one_element_is(np.nan), "a picture has 1 of 192 values that are NaN or infinite"),
        (one_element_is(-np.inf), "a picture has 1 of 192 values that are NaN or infinite"),
        (one_element_is(1e300), "a picture has 1 of 192 values that are NaN or infinite"),
        ((UINT8, [1]), "picture 1 has no label in [1]"),
        ((UINT8, 3), "picture 0 has no label in 3"),
        ((UINT8, "ab"), "the label of picture 0 is 'a'"),
        ((UINT8, [0, float("nan")]), "the label of picture 1 is nan"),
        ((UINT8, np.array([0.5, 1])), "the label of picture 0 is np.float64(0.5)"),
        ((UINT8, np.zeros((2, 5))), "the label of picture 0 is array([0., 0., 0., 0., 0.])"),
    ],
)
def test_what_is_no_batch_of_pictures(batch, found):
    assert found in error_of(fr.show, batch)


def test_tensors_that_are_no_pictures():
    torch = pytest.importorskip("torch")
    images = torch.zeros(2, 3, 8, 8)
    assert "a picture has shape ()" in error_of(fr.show, torch.zeros(3))
    assert "a picture is of complex64" in error_of(fr.show, images.to(torch.complex64))
    for odd in (images.to_sparse(), images.to("meta")):
        assert "a picture is tensor(" in error_of(fr.show, odd)
    labels = torch.tensor([1.0, 2.0])
    assert "the label of picture 0 is tensor(1.)" in error_of(fr.show, (images, labels))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": "x"}, "limit is 'x'"),
        ({"class_names": ["a"]}, "no argument 'class_names'; did you mean 'classes'?"),
        ({"classes": 3}, "classes is 3; give a list of names"),
        ({"classes": "ab"}, "classes is 'ab'; give a list of names"),
        ({"classes": [1, 2]}, "classes[0] is 1; it must be a str"),
        ({"path": 3}, "path is 3"),
        ({"path": "batch.odd"}, "path is 'batch.odd' (unknown file extension: .odd)"),
        ({"path": "batch"}, "path is 'batch' (unknown file extension:); let it end with .png"),
        ({"loader": 3}, "loader is 3; give the ImageLoader"),
    ],
)
def test_arguments_that_can_not_be(arguments, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert found in error_of(fr.show, (UINT8, [0, 1]), **arguments)
    assert not list(tmp_path.iterdir())


def test_a_path_that_can_not_be_written(tmp_path):
    message = error_of(fr.show, UINT8, path=tmp_path / "none" / "batch.png", code="io")
    assert "batch.png' can't be written (No such file or directory)" in message


def test_only_three_arguments_go_without_a_name():
    assert "4 arguments without a name" in error_of(fr.show, UINT8, None, None, None)


def test_what_a_data_loader_makes_of_a_batch_is_one_too():
    torch = pytest.importorskip("torch")
    images, labels = torch.zeros(2, 3, 24, 24), torch.tensor([0, 1])
    expected = fr.show((images, labels)).tobytes()
    assert fr.show([images, labels]).tobytes() == expected
    assert fr.show([list(images), labels]).tobytes() == expected
    assert fr.show((images.bfloat16(), labels)).tobytes() == expected
