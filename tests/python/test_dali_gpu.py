# SPDX-License-Identifier: Apache-2.0
"""Pipelines of DALI's operators whose batches are on a GPU, by the stub libraries."""

import numpy as np
import pytest
from gpu_stubs import PLUGIN, STUBS

import feedrace.dali.fn as fn
from dali_sets import make_training
from feedrace import Error
from feedrace.dali import pipeline_def, types
from feedrace.dali.tensors import TensorGPU, TensorListCPU, TensorListGPU


@pytest.fixture
def on_gpu(stubs, monkeypatch):
    monkeypatch.setenv("FEEDRACE_CUDA_PLUGIN", str(PLUGIN))
    monkeypatch.setenv("FEEDRACE_CUDA_LIBRARIES", str(STUBS))
    return stubs


@pipeline_def(batch_size=4, num_threads=1)
def cropped(folder, device="cpu", load=None, to_gpu=False):
    encoded, labels = fn.readers.file(file_root=str(folder), name="Reader")
    images = fn.decoders.image(encoded, device="cpu", hw_decoder_load=load)
    images = fn.crop_mirror_normalize(images, crop=(24, 24), dtype=types.FLOAT, device=device)
    return (images.gpu() if to_gpu else images), labels


def test_images_are_on_the_gpu_and_the_same(on_gpu, dali_folder):
    on_gpu.set_delay_us(300)
    images, labels = cropped(dali_folder, device="gpu", device_id=0).run()
    expected, expected_labels = cropped(dali_folder, device_id=None).run()
    assert isinstance(images, TensorListGPU)
    assert isinstance(labels, TensorListCPU)
    assert np.array_equal(images.as_cpu().as_array(), expected.as_array())
    assert np.array_equal(labels.as_array(), expected_labels.as_array())


def test_lists_and_tensors_of_the_gpu(on_gpu, dali_folder):
    on_gpu.set_devices(2)
    images, _ = cropped(dali_folder, device="gpu", device_id=1).run()
    assert (len(images), images.shape(), images.layout()) == (4, [(3, 24, 24)] * 4, "CHW")
    assert (images.dtype, images.device_id(), images.is_dense_tensor()) == (types.FLOAT, 1, True)
    whole = images.as_tensor()
    assert isinstance(whole, TensorGPU)
    assert (whole.shape(), whole.layout(), whole.dtype) == ([4, 3, 24, 24], "NCHW", types.FLOAT)
    assert whole.device_id() == 1
    assert whole.__dlpack_device__() == (2, 1)
    assert "dltensor" in str(whole.__dlpack__(stream=1))
    assert whole.__cuda_array_interface__["shape"] == (4, 3, 24, 24)
    values = np.asarray(whole.as_cpu())
    assert all(np.array_equal(np.asarray(one.as_cpu()), values[i]) for i, one in enumerate(images))


@pytest.mark.parametrize(
    ("options", "is_there"),
    [
        ({"device": "gpu", "device_id": 0}, True),
        ({"to_gpu": True, "device_id": 0}, True),
        ({"device_id": 0}, False),
        ({"device": "gpu", "device_id": None}, False),
    ],
)
def test_where_outputs_are(on_gpu, dali_folder, options, is_there):
    images, _ = cropped(dali_folder, **options).run()
    assert isinstance(images, TensorListGPU) == is_there


def test_what_the_loader_is_told(on_gpu, dali_folder):
    places = {"cuda_plugin": [str(PLUGIN)], "cuda_libraries": [str(STUBS)]}
    on_cpu = cropped(dali_folder, device="gpu", load=0.4, device_id=0)
    assert on_cpu.device == {
        "device": "cuda:0",
        "decode_device": "cpu",
        "hardware_share": 0.4,
        **places,
    }
    mixed = make_training(dali_folder, device_id=1)
    assert mixed.device == {
        "device": "cuda:1",
        "decode_device": "cuda",
        "hardware_share": None,
        **places,
    }
    assert make_training(dali_folder, device_id=None).device == {}


@pytest.mark.parametrize("load", [-0.1, 1.1, "all"])
def test_a_share_that_can_not_be(dali_folder, load):
    with pytest.raises(Error, match="fn.decoders.image: hw_decoder_load is"):
        cropped(dali_folder, load=load)


def test_an_iterator_needs_a_torch_with_cuda(on_gpu, dali_folder, dali_pytorch):
    pipe = cropped(dali_folder, device="gpu", device_id=0)
    with pytest.raises(Error, match="is built without CUDA.* or give the pipeline device_id=None"):
        dali_pytorch.DALIClassificationIterator(pipe, reader_name="Reader")


@pytest.mark.parametrize("to_gpu", [False, True])
def test_an_iterator_gives_tensors_of_the_gpu(on_gpu, cuda, dali_folder, dali_pytorch, to_gpu):
    def batches(**options):
        pipe = cropped(dali_folder, to_gpu=to_gpu, **options)
        iterator = dali_pytorch.DALIClassificationIterator(pipe, reader_name="Reader")
        for (batch,) in iterator:
            yield batch["data"].clone(), batch["label"].clone()

    cuda.synchronize = on_gpu.synchronize
    on_gpu.set_delay_us(300)
    before = on_gpu.calls("cuStreamWaitEvent")
    found = list(batches(device="gpu", device_id=0))
    assert on_gpu.calls("cuStreamWaitEvent") >= before + 2 * len(found)
    expected = list(batches(device_id=None))
    assert len(found) == len(expected) > 1
    for (image, label), (wanted, number) in zip(found, expected, strict=True):
        assert image.equal(wanted)
        assert label.dtype == number.dtype
        assert label.equal(number)
