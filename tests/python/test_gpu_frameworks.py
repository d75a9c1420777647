# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU as tensors of a framework, by stand-ins for those that have CUDA."""

import gc
import threading

import numpy as np
import pytest
from gpu_stubs import ON_STUBS, run_python

import feedrace as fr
from small_loaders import error_of, loader_of

torch = pytest.importorskip("torch")

FIELDS = ("image", "label", "index")
ON_GPU = {
    "device": "cuda",
    "decode_device": "cpu",
    "output": "torch",
    "fields": FIELDS,
    **ON_STUBS,
}


def on_host(source, **arguments):
    return list(loader_of(source, output="torch", fields=FIELDS, **arguments))


def are_equal(batches, expected):
    return len(batches) == len(expected) and all(
        torch.equal(one, other)
        for batch, wanted in zip(batches, expected, strict=True)
        for one, other in zip(batch, wanted, strict=True)
    )


def test_tensors_are_those_of_the_host_behind_the_current_stream(cuda, stubs, folder):
    stubs.set_delay_us(2000)
    with stubs.stream() as stream:
        cuda.use(stream)
        loader = loader_of(folder, **ON_GPU)
        expected = on_host(folder)
        before = stubs.calls("cuStreamWaitEvent")
        batches = []
        for batch in loader:
            stubs.synchronize(stream)
            batches.append(batch)
        assert stubs.calls("cuStreamWaitEvent") >= before + 2 * len(batches)
        assert are_equal(batches, expected)
        assert loader.plan.device.startswith("cuda:0")
        del batch, batches


def test_tensors_hold_their_memory_beyond_the_loader(cuda, stubs, folder):
    loader = loader_of(folder, **ON_GPU)
    images = [image for image, _, _ in loader]
    loader.close()
    del loader
    stubs.synchronize()
    assert torch.equal(images[1], on_host(folder)[1][0])
    assert stubs.memory_in_use > 0
    part = images[2][1:2, 0]
    expected = part.clone()
    del images
    gc.collect()
    assert torch.equal(part, expected)
    assert stubs.memory_in_use > 0
    del part
    gc.collect()
    assert stubs.memory_in_use == 0


def test_a_function_of_batches_runs_ahead_and_the_loop_waits_for_it(cuda, stubs, folder):
    threads = []

    def doubled(image, label):
        threads.append(threading.get_ident())
        return image * 2, label

    @fr.pipeline(batch_size=4, num_threads=1, **{k: v for k, v in ON_GPU.items() if k != "fields"})
    def pipeline(root):
        jpeg, label = fr.fn.read(root)
        image = fr.fn.to_tensor(fr.fn.center_crop(fr.fn.decode(jpeg), 24), dtype="uint8")
        return fr.fn.python_function(image, label, function=doubled, batch=True)

    with stubs.stream() as stream:
        cuda.use(stream)
        loader = pipeline(folder)
        batches = list(loader)
        assert threads[0] == threading.get_ident()
        assert threading.get_ident() not in threads[1:]
        # The first batch was made on this thread; the other ones on the default stream of another.
        assert cuda.waits == [(stream, 0)] * (len(batches) - 1)
        stubs.synchronize(stream)
        stubs.synchronize()
        plain = pipeline.options(device="cpu")(folder)
        assert all(torch.equal(one[1], other[1]) for one, other in zip(batches, plain, strict=True))
        loader.close()
        del batches, loader


def test_cuda_is_the_current_gpu_of_torch(cuda, stubs, folder):
    stubs.set_devices(2)
    cuda.current = 1
    assert loader_of(folder, **ON_GPU).plan.device.startswith("cuda:0")
    cuda.is_in_use = True
    assert loader_of(folder, **ON_GPU).plan.device.startswith("cuda:1")
    auto = {**ON_GPU, "device": "auto"}
    assert loader_of(folder, **auto).plan.device.startswith("cuda:1")
    named = {**ON_GPU, "device": torch.device("cuda:0")}
    assert loader_of(folder, **named).plan.device.startswith("cuda:0")


def test_auto_takes_the_host_where_the_current_gpu_can_not_be_used(cuda, stubs, folder):
    cuda.current = 1
    cuda.is_in_use = True
    loader = loader_of(folder, **{**ON_GPU, "device": "auto"})
    assert loader.plan.device == "cpu"
    assert 'no GPU can be used: device "cuda:1" can\'t be had' in loader.plan.device_reason
    assert are_equal(list(loader), on_host(folder))


def test_a_torch_without_cuda(stubs, folder):
    assert not torch.backends.cuda.is_built()
    message = error_of(loader_of, folder, **ON_GPU, code="unsupported")
    assert f"torch {torch.__version__} is built without CUDA" in message
    loader = loader_of(folder, **{**ON_GPU, "device": "auto"})
    assert "is built without CUDA" in loader.plan.device_reason
    assert loader.plan.device_reason in str(loader.plan)
    assert are_equal(list(loader), on_host(folder))


def test_a_jax_without_cuda(stubs, folder):
    pytest.importorskip("jax")
    batches = iter(loader_of(folder, **{**ON_GPU, "output": "jax"}))
    message = error_of(next, batches, code="unsupported")
    assert "JAX takes no memory of cuda:0" in message
    assert "install jax[cuda13], or take device='cpu'" in message


def test_nothing_imports_torch_but_its_output(stubs, folder):
    code = f"""
import sys
import feedrace as fr
loader = fr.ImageLoader({str(folder)!r}, batch_size=4, transform="imagenet-val", device="cuda",
                        output="dlpack", num_threads=1)
for image, label in loader:
    image.__dlpack__(stream=2)
print(loader.plan.device.split()[0], "torch" in sys.modules, fr.gpu_info()["devices"][0]["ordinal"])
"""
    assert run_python(code) == "cuda:0 False 0\n"


def test_values_on_the_gpu_are_exact(cuda, stubs, folder):
    stubs.set_delay_us(100)
    for image, label, index in loader_of(folder, **ON_GPU):
        stubs.synchronize()
        assert image.dtype == torch.float16
        assert label.dtype == index.dtype == torch.int64
        assert np.isfinite(image.float().numpy()).all()
