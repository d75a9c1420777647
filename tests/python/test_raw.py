# SPDX-License-Identifier: Apache-2.0
"""Samples that are arrays already."""

import numpy as np
import pytest

import feedrace as fr


@pytest.fixture
def arrays(tmp_path):
    """12 samples, float32 [2, 3], in folders of three classes."""
    for i in range(12):
        folder = tmp_path / "arrays" / f"c{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{i:02}.npy", np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * i)
    return tmp_path / "arrays"


def batches_of(source, **arguments):
    return list(fr.ImageLoader(source, batch_size=4, output="numpy", **arguments))


def test_arrays_come_as_they_are(arrays):
    numbers = [i for first in range(3) for i in range(first, 12, 3)]
    found = batches_of(arrays, transform="raw")
    images = np.concatenate([images for images, _ in found])
    assert images.dtype == np.float32
    assert images.shape == (12, 2, 3)
    wanted = np.stack([np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * i for i in numbers])
    np.testing.assert_array_equal(images, wanted)
    labels = np.concatenate([labels for _, labels in found])
    assert labels.tolist() == [i % 3 for i in numbers]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_numbers_without_a_header_have_the_dtype_and_shape_given(tmp_path, dtype):
    folder = tmp_path / "plain" / "one"
    folder.mkdir(parents=True)
    for i in range(4):
        (folder / f"{i}.bin").write_bytes(np.full((2, 2), i, dtype).tobytes())
    step = {"op": "raw", "dtype": dtype, "shape": (2, 2), "header": False}
    ((images, _),) = batches_of(tmp_path / "plain", transform=fr.Pipeline([step]))
    assert images.dtype == dtype
    np.testing.assert_array_equal(images[:, 0, 0], np.arange(4))


def test_another_shape_is_a_bad_sample_that_says_both(arrays):
    np.save(arrays / "c2" / "99.npy", np.zeros((3, 2), np.float16))
    with pytest.raises(fr.Error, match=r"float16 \[3, 2\].*float32 \[2, 3\]") as caught:
        batches_of(arrays, transform="raw")
    assert caught.value.code == "corrupt_data"
    found = batches_of(arrays, transform="raw", on_error="replace", last_batch="drop")
    assert len(found) == 3


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"dtype": "float64"}, "dtype is"),
        ({"shape": (0,)}, "at least 1"),
        ({"header": False}, "both dtype and shape"),
        ({"size": 3}, "there is no argument"),
    ],
)
def test_a_step_that_can_not_be_is_refused(step, message):
    with pytest.raises(fr.Error, match=message):
        fr.Pipeline([{"op": "raw", **step}])


def test_it_stands_alone():
    with pytest.raises(fr.Error, match="stands behind"):
        fr.Pipeline([{"op": "raw"}, {"op": "resize", "shorter": 8}])


def test_the_recipe_is_described():
    described = fr.Pipeline.recipe("raw").describe()
    assert described["text"] == "raw .npy, as the first sample is"
    assert described["size"] is None
    assert described["dtype"] is None
