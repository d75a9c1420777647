# SPDX-License-Identifier: Apache-2.0
"""output="jax": arrays over the loader's own memory, and global arrays made of them."""

import gc

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from framework_sets import draw_pictures, loader_of, plain, random_crops, run_python  # noqa: E402

COUNT = 22
STEPS = 5


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


@pytest.fixture
def addresses(monkeypatch):
    """Of each array that JAX takes over: its number of dimensions, where it lay, where it lies."""
    found = []
    from_dlpack = jax.dlpack.from_dlpack

    def noting(array):
        made = from_dlpack(array)
        before = np.from_dlpack(array).ctypes.data
        found.append((made.ndim, before, made.unsafe_buffer_pointer()))
        return made

    monkeypatch.setattr(jax.dlpack, "from_dlpack", noting)
    return found


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_arrays_have_the_values_of_numpy_in_each_epoch(pictures, dtype):
    loaders = [
        loader_of(pictures, output=output, transform=random_crops(dtype))
        for output in ("jax", "numpy")
    ]
    for _ in range(2):
        epoch = list(loaders[0])
        for images, index in epoch:
            assert isinstance(images, jax.Array)
            assert isinstance(index, jax.Array)
            assert (images.dtype, images.shape) == (dtype, (4, 3, 16, 16))
        assert [plain(batch) for batch in epoch] == [plain(batch) for batch in loaders[1]]
        assert len(epoch) == STEPS


@pytest.mark.parametrize("batch_size", [1, 3, 4])
def test_pictures_are_not_copied(pictures, addresses, batch_size):
    loader = loader_of(pictures, output="jax", batch_size=batch_size, fields="image")
    kept = list(loader)
    assert len(addresses) == len(kept) == len(loader)
    for dimensions, before, now in addresses:
        assert dimensions == 4
        assert now == before
        assert now % 64 == 0
    assert len({now for _, _, now in addresses}) == len(kept)


LABELS = """
import sys
import jax
import numpy as np
jax.config.update("jax_enable_x64", True)
from framework_sets import loader_of

from_dlpack = jax.dlpack.from_dlpack
found = []

def noting(array):
    made = from_dlpack(array)
    found.append(made.unsafe_buffer_pointer() - np.from_dlpack(array).ctypes.data)
    return made

jax.dlpack.from_dlpack = noting
labels = [label for (label,) in loader_of(sys.argv[1], output="jax", fields="label")]
print({str(label.dtype) for label in labels}, set(found))
"""


def test_labels_are_int32_unless_jax_has_64_bits(pictures):
    labels = [label for (label,) in loader_of(pictures, output="jax", fields="label")]
    expected = [label for (label,) in loader_of(pictures, output="numpy", fields="label")]
    assert {label.dtype.name for label in labels} == {"int32"}
    assert [label.tolist() for label in labels] == [label.tolist() for label in expected]
    assert run_python(LABELS, pictures) == "{'int64'} {0}\n"


def test_arrays_that_are_still_computed_with_are_held(pictures):
    """JAX computes behind the loop's back; nothing writes into what it has not read yet."""
    total = jax.jit(lambda images: (images.astype("float32") ** 2).sum((1, 2, 3)))
    loader = loader_of(pictures, output="jax", prefetch_factor=1)
    results = []
    for _ in range(4):
        for images, index in loader:
            results.append((index, total(images)))
            del images
    expected = loader_of(pictures, output="numpy")
    batches = [batch for _ in range(4) for batch in expected]
    for (index, sums), (images, numbers) in zip(results, batches, strict=True):
        assert index.tolist() == numbers.tolist()
        right = (images.astype(np.float64) ** 2).sum((1, 2, 3))
        assert np.allclose(sums, right, rtol=1e-5)


def test_a_donated_array_leaves_the_others_alone(pictures):
    loader = loader_of(pictures, output="jax")
    double = jax.jit(lambda images: images * 2, donate_argnums=0)
    kept = list(loader)
    copies = [np.array(images) for images, _ in kept]
    doubled = double(kept[0][0])
    del kept[0]
    gc.collect()
    again = list(loader)
    assert np.array_equal(doubled, copies[0] * 2)
    for (images, _), copied in zip(kept, copies[1:], strict=True):
        assert np.array_equal(images, copied)
    assert len(again) == STEPS


GLOBAL = """
import json, sys
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from framework_sets import loader_of

devices = jax.devices()
mesh = Mesh(np.array(devices), ("data",))
sharding = NamedSharding(mesh, PartitionSpec("data"))
expected = loader_of(sys.argv[1], output="numpy")
mean = jax.jit(lambda images: images.astype("float32").mean((1, 2, 3)))
for local, right in zip(loader_of(sys.argv[1], output="jax"), expected, strict=True):
    images, index = (jax.make_array_from_process_local_data(sharding, part) for part in local)
    assert images.sharding == sharding and images.shape == right[0].shape
    assert np.array_equal(images, right[0]) and np.array_equal(index, right[1])
    parts = sorted(images.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    assert [shard.device for shard in parts] == devices
    rows = len(right[0]) // len(devices)
    for place, shard in enumerate(parts):
        assert np.array_equal(shard.data, right[0][place * rows : (place + 1) * rows])
    assert np.allclose(mean(images), right[0].mean((1, 2, 3)), rtol=1e-5)
print(len(devices))
"""


@pytest.mark.parametrize("device_count", [1, 4])
def test_global_arrays_over_the_devices_of_a_mesh(pictures, device_count):
    flags = f"--xla_force_host_platform_device_count={device_count}"
    out = run_python(GLOBAL, pictures, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
    assert out == f"{device_count}\n"
