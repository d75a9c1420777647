# SPDX-License-Identifier: Apache-2.0
"""Batches as arrays of torch, JAX and NumPy: the loader's own memory, writable, theirs to keep."""

import gc
import importlib.util
import sys

import numpy as np
import pytest

import feedrace as fr
from feedrace import outputs

OUTPUTS = ["numpy", "torch", "jax"]
SIZES = [(20 - i, 10 + i) for i in range(5)]  # Height, width of odd_folder's pictures.


def needs(output):
    if importlib.util.find_spec(output) is None:
        pytest.skip(f"{output} is not installed")


def loader_of(source, **arguments):
    arguments = {
        "batch_size": 4,
        "transform": "imagenet-val",
        "fields": ("image", "label", "index", "flag"),
        **arguments,
    }
    return fr.ImageLoader(source, **arguments)


def as_is(source, **arguments):
    """A loader that leaves pictures as large as they are."""
    steps = [
        {"op": "decode", "orientation": "keep"},
        {"op": "to_tensor", "dtype": "uint8", "layout": arguments.pop("layout", "CHW")},
    ]
    transform = fr.Pipeline(steps)
    return loader_of(source, transform=transform, fields=("image",), batch_size=5, **arguments)


def address_of(array):
    if hasattr(array, "data_ptr"):
        return array.data_ptr()
    if hasattr(array, "unsafe_buffer_pointer"):
        return array.unsafe_buffer_pointer()
    return array.ctypes.data


@pytest.mark.parametrize("output", OUTPUTS)
def test_arrays_are_of_the_framework(folder, output):
    needs(output)
    batch = next(iter(loader_of(folder, output=output)))
    module = {"torch": "torch", "numpy": "numpy", "jax": "jaxlib"}[output]
    for array in batch:
        assert type(array).__module__.partition(".")[0] == module
    image, label, index, flag = (np.asarray(array) for array in batch)
    assert (image.dtype, image.shape) == (np.float16, (4, 3, 224, 224))
    assert flag.dtype == np.uint8
    # JAX has 64-bit numbers where a program asks for them.
    for array in (label, index):
        assert array.dtype in ((np.int64, np.int32) if output == "jax" else (np.int64,))
    assert index.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_image_is_the_loaders_own_memory(folder, output):
    needs(output)
    loader = loader_of(folder, output=output)
    native = loader._native.next()
    (image, *_) = loader._maker.make(native)
    assert address_of(image) % 64 == 0
    # The same memory a second time: a copy would lie elsewhere.
    assert address_of(np.from_dlpack(native.images)) == address_of(image)
    assert address_of(loader._maker.make(native)[0]) == address_of(image)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_arrays_are_writable(folder, output):
    needs(output)
    image, label, index, flag = next(iter(loader_of(folder, output=output)))
    for array in (image, label, index, flag):
        array[0] = 1
        assert np.asarray(array[0]).min() == 1
    image *= 2
    assert np.asarray(image[0]).max() == 2


def test_numpy_before_2_1_gets_writable_arrays_too(folder):
    """It asks for no version of DLPack, and takes what has none for read-only."""
    loader = loader_of(folder, output="numpy")
    image = loader._native.next().images

    class Unversioned:
        def __dlpack__(self, **_):
            return image.__dlpack__()

        def __dlpack_device__(self):
            return image.__dlpack_device__()

    array = outputs.converter("numpy")(Unversioned())
    assert address_of(array) == address_of(np.from_dlpack(image))
    array[:] = 3
    assert np.from_dlpack(image).max() == 3


@pytest.mark.parametrize("output", OUTPUTS)
def test_outputs_hold_the_same_values(folder, output):
    needs(output)
    loaders = [loader_of(folder, output=name) for name in ("numpy", output)]
    for expected, found in zip(*loaders, strict=True):
        for one, other in zip(expected, found, strict=True):
            assert np.array_equal(one, np.asarray(other))


@pytest.mark.parametrize("output", OUTPUTS)
def test_kept_batches_are_never_written_again(folder, output):
    """Some arrays are kept for a while, views of others for ever; each must stay as it was."""
    needs(output)
    loader = loader_of(folder, output=output, batch_size=2, transform="imagenet-train")
    random = np.random.default_rng(3)
    kept = []
    seen = set()
    for _ in range(12):
        for image, *_ in loader:
            address = address_of(image)
            held = {address_of(other) for other, _ in kept}
            assert address not in held
            seen.add(address)
            kept.append((image, np.asarray(image).copy()))
            while len(kept) > 6:
                array, copied = kept.pop(int(random.integers(len(kept))))
                assert np.array_equal(np.asarray(array), copied)
                del array
            gc.collect(0)
    for array, copied in kept:
        assert np.array_equal(np.asarray(array), copied)
    # Memory comes back: far fewer places than the 72 batches.
    assert len(seen) < 30


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_view_holds_the_batch(folder, output):
    needs(output)
    loader = loader_of(folder, output=output, batch_size=2)
    iterator = iter(loader)
    view = next(iterator)[0][1, :, 3:5]
    copied = np.asarray(view).copy()
    for _ in range(3):
        list(loader)
    loader.close()
    del loader, iterator
    gc.collect()
    assert np.array_equal(np.asarray(view), copied)


@pytest.mark.parametrize("output", OUTPUTS)
def test_pictures_of_different_sizes_are_a_list(odd_folder, output):
    needs(output)
    (images,) = next(iter(as_is(odd_folder, output=output)))
    assert isinstance(images, list)
    assert [tuple(image.shape) for image in images] == [(3, h, w) for h, w in SIZES]
    (images,) = next(iter(as_is(odd_folder, output=output, layout="HWC")))
    assert [tuple(image.shape) for image in images] == [(h, w, 3) for h, w in SIZES]


@pytest.mark.parametrize("output", OUTPUTS)
def test_pictures_of_different_sizes_in_one_buffer(odd_folder, output):
    needs(output)
    (listed,) = next(iter(as_is(odd_folder, output="numpy")))
    (jagged,) = next(iter(as_is(odd_folder, output=output, ragged="jagged")))
    assert isinstance(jagged, fr.Jagged)
    assert len(jagged) == 5
    assert jagged.values.shape == (sum(3 * h * w for h, w in SIZES),)
    assert np.asarray(jagged.offsets).tolist() == np.cumsum([0, *(i.size for i in listed)]).tolist()
    assert np.asarray(jagged.shapes).tolist() == [[3, h, w] for h, w in SIZES]
    for found, expected in zip(jagged, listed, strict=True):
        assert np.array_equal(np.asarray(found), expected)
    assert np.array_equal(np.asarray(jagged[-1]), listed[4])
    assert [image.shape for image in jagged[1:3]] == [image.shape for image in listed[1:3]]
    for place in (5, -6):
        with pytest.raises(IndexError, match="of 5"):
            jagged[place]
    assert "5 pictures" in repr(jagged)


def test_jagged_pictures_are_views(odd_folder):
    (jagged,) = next(iter(as_is(odd_folder, output="numpy", ragged="jagged")))
    jagged[2][:] = 7
    begin, end = jagged.offsets[2:4]
    assert set(jagged.values[begin:end].tolist()) == {7}


# torch calls nested tensors a prototype.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_jagged_becomes_a_nested_tensor(odd_folder):
    needs("torch")
    (jagged,) = next(iter(as_is(odd_folder, output="torch", ragged="jagged")))
    nested = jagged.to_nested()
    for found, expected in zip(nested.unbind(), jagged, strict=True):
        assert np.array_equal(found, expected)
    (plain,) = next(iter(as_is(odd_folder, output="numpy", ragged="jagged")))
    with pytest.raises(fr.Error, match="take output='torch'"):
        plain.to_nested()


def test_pictures_of_one_size_are_one_array_all_the_same(folder):
    for ragged in ("list", "jagged"):
        loader = fr.ImageLoader(folder, batch_size=4, output="numpy", ragged=ragged)
        assert next(iter(loader))[0].shape == (4, 3, 224, 224)


def test_the_default_is_torch_where_it_is_and_else_numpy(monkeypatch):
    def only(*present):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: name if name in present else None
        )

    only("torch", "numpy", "jax")
    assert outputs.choose_output(None) == "torch"
    only("numpy", "jax")
    assert outputs.choose_output(None) == "numpy"
    assert outputs.choose_output("jax") == "jax"
    with pytest.raises(fr.Error, match="output is 'torch', but it is not installed; pip inst") as e:
        outputs.choose_output("torch")
    assert e.value.code == "unsupported"


def test_an_output_is_imported_with_the_first_batch(folder):
    needs("torch")
    from test_import import modules_after

    script = f"""
        loader = feedrace.ImageLoader({str(folder)!r}, batch_size=4)
        assert "torch" not in sys.modules
        next(iter(loader))
        assert "torch" in sys.modules
    """
    assert "torch" in modules_after(script)
    assert sys.modules.get("feedrace") is fr
