# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU, by stub libraries: what they hold, whom they wait for, how long they live."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from gpu_stubs import ON_STUBS, PLUGIN, STUBS, memory_of

import feedrace as fr
from small_loaders import error_of, loader_of
from small_sets import npy_of, write_shard
from torchvision_import import import_torchvision

FIELDS = ("image", "label", "index")
# Decoded on the CPU, so that pictures are the host's to the last bit.
ON_GPU = {
    "device": "cuda",
    "decode_device": "cpu",
    "output": "dlpack",
    "fields": FIELDS,
    **ON_STUBS,
}


@fr.pipeline()
def levels(root):
    jpeg, label, index = fr.fn.read(root, fields=FIELDS)
    image = fr.fn.center_crop(fr.fn.decode(jpeg), 24)
    return fr.fn.to_tensor(image, dtype="uint8", layout="HWC"), label, index


def on_host(source, **arguments):
    loader = loader_of(source, fields=FIELDS, **arguments)
    return [tuple(np.array(value) for value in batch) for batch in loader]


def copied(batch):
    """A batch of the GPU, copied to the host."""
    image, label, index = batch
    return image.numpy(), label.numpy(), np.array(index)


def are_equal(batches, expected):
    return len(batches) == len(expected) and all(
        np.array_equal(one, other)
        for batch, wanted in zip(batches, expected, strict=True)
        for one, other in zip(batch, wanted, strict=True)
    )


@pytest.mark.parametrize("transform", ["imagenet-val", "imagenet-train"])
def test_batches_are_those_of_the_host(stubs, folder, transform):
    stubs.set_delay_us(300)
    loader = loader_of(folder, transform=transform, **ON_GPU)
    assert [copied(batch) for batch in loader][0][0].dtype == np.float16
    again = loader_of(folder, transform=transform, **ON_GPU)
    assert are_equal([copied(batch) for batch in again], on_host(folder, transform=transform))


def test_levels_of_a_pipeline_in_hwc(stubs, folder):
    arguments = {"batch_size": 4, "num_threads": 1}
    options = {**{name: ON_GPU[name] for name in ON_GPU if name != "fields"}, **arguments}
    loader = levels.options(**options)(folder)
    expected = [
        tuple(np.array(value) for value in batch)
        for batch in levels.options(output="numpy", **arguments)(folder)
    ]
    batches = [copied(batch) for batch in loader]
    assert batches[0][0].shape == (4, 24, 24, 3)
    assert are_equal(batches, expected)


@pytest.mark.parametrize("decode_device", ["auto", "cuda"])
def test_pictures_that_the_gpu_decodes_are_near_those_of_the_host(stubs, folder, decode_device):
    loader = loader_of(folder, **{**ON_GPU, "decode_device": decode_device, "hardware_share": 1})
    batches = [copied(batch) for batch in loader]
    for (image, *rest), (wanted, *others) in zip(batches, on_host(folder), strict=True):
        assert are_equal([rest], [others])
        # 2 levels of 255, on the scale of the normalized values.
        assert np.abs(image.astype(np.float32) - wanted).mean() < 2 / 255 / 0.22


def test_an_array_says_what_it_is(stubs, folder):
    stubs.set_devices(2)
    image, label, index = next(iter(loader_of(folder, **{**ON_GPU, "device": "cuda:1"})))
    assert (image.shape, image.ndim, image.dtype) == ((4, 3, 224, 224), 4, "float16")
    assert (label.shape, label.dtype, label.nbytes, len(label)) == ((4,), "int64", 32, 4)
    assert image.device == "cuda:1"
    assert image.__dlpack_device__() == (2, 1)
    assert repr(image) == "<feedrace.DeviceArray of (4, 3, 224, 224) float16 on cuda:1>"
    address = image.__cuda_array_interface__["data"][0]
    assert stubs.is_device_memory(address, image.nbytes)
    assert isinstance(index, np.ndarray)


def test_one_of_an_array(stubs, folder):
    image, label, _ = next(iter(loader_of(folder, **ON_GPU)))
    whole, labels = image.numpy(), label.numpy()
    assert np.array_equal(image[1].numpy(), whole[1])
    assert np.array_equal(image[-1][2].numpy(), whole[-1][2])
    assert label[3].numpy() == labels[3]
    assert [one.shape for one in image] == [(3, 224, 224)] * 4
    with pytest.raises(IndexError, match="4 of 4"):
        image[4]
    with pytest.raises(TypeError):
        len(label[0])


# Who waits for whom.


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_the_default_stream_by_dlpack(stubs, folder, stream):
    stubs.set_delay_us(2000)
    image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
    before = stubs.calls("cuStreamWaitEvent")
    assert "dltensor" in str(image.__dlpack__(stream=stream))
    assert stubs.calls("cuStreamWaitEvent") == before + 1
    stubs.synchronize()
    assert np.array_equal(memory_of(image), on_host(folder)[0][0])


def test_a_stream_of_the_consumers_waits_for_the_copies(stubs, folder):
    stubs.set_delay_us(2000)
    with stubs.stream() as stream:
        image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
        capsule = image.__dlpack__(stream=stream, max_version=(1, 0))
        assert "dltensor_versioned" in str(capsule)
        assert np.array_equal(stubs.read(image, stream), on_host(folder)[0][0])


def test_the_stream_of_the_cuda_array_interface_waits(stubs, folder):
    stubs.set_delay_us(2000)
    _, label, _ = next(iter(loader_of(folder, **ON_GPU)))
    interface = label.__cuda_array_interface__
    assert {name: interface[name] for name in interface if name != "data"} == {
        "shape": (4,),
        "typestr": "<i8",
        "strides": None,
        "version": 3,
        "stream": 1,
    }
    assert interface["data"][1] is False
    assert np.array_equal(stubs.read(label, 0), on_host(folder)[0][1])


def test_no_stream_waits_where_none_is_wanted(stubs, folder):
    image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
    before = stubs.calls("cuStreamWaitEvent")
    image.__dlpack__(stream=-1)
    assert stubs.calls("cuStreamWaitEvent") == before
    image.synchronize()
    assert stubs.calls("cuStreamWaitEvent") == before


def test_memory_goes_back_behind_the_work_of_the_stream_that_it_was_handed_to(stubs, folder):
    """The stream reads the first batch so late that the loader is epochs further by then."""
    loader = loader_of(folder, **ON_GPU)
    expected = on_host(folder)[0][0]
    with stubs.stream() as stream:
        image, _, _ = next(batches := iter(loader))
        image.synchronize()
        stubs.set_delay_us(20_000)
        image.hand_over(stream)
        target, read = stubs.begin_read(image, stream)
        stubs.set_delay_us(0)
        del image
        for _ in range(4):
            for batch in batches:
                del batch
            batches = iter(loader)
        read()
    assert np.array_equal(target, expected)


@pytest.mark.parametrize(
    ("stream", "message"),
    [(0, "stream is 0, which DLPack leaves open"), (-2, "stream is -2"), ("a", "stream is 'a'")],
)
def test_streams_that_can_not_be(stubs, folder, stream, message):
    image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
    assert message in error_of(image.__dlpack__, stream=stream)


# Copies to the host.


def test_numpy_must_ask_by_name(stubs, folder):
    image, label, _ = next(iter(loader_of(folder, **ON_GPU)))
    message = error_of(np.asarray, image)
    assert message == (
        "DeviceArray: NumPy asks for memory of cuda:0, which only the GPU reads; copy it by "
        '.numpy(), or take device="cpu"'
    )
    error_of(np.array, label, dtype=np.int32)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(image)


def test_dlpack_copies_to_the_host_where_that_is_asked_for(stubs, folder):
    image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
    expected = on_host(folder)[0][0]
    assert np.array_equal(np.from_dlpack(image, device="cpu"), expected)
    with pytest.raises(BufferError, match="by a copy alone"):
        image.__dlpack__(dl_device=(1, 0), copy=False)
    for refused in ({"dl_device": (2, 1)}, {"copy": True}):
        before = stubs.calls("cuStreamWaitEvent")
        with pytest.raises(BufferError):
            image.__dlpack__(**refused)
        assert stubs.calls("cuStreamWaitEvent") == before


def test_show_draws_a_batch_of_the_gpu(stubs, folder):
    loader = loader_of(folder, **ON_GPU)
    batch = next(iter(loader))
    drawn = fr.show(batch, loader=loader)
    expected = fr.show(on_host(folder)[0], loader=loader)
    assert np.array_equal(np.asarray(drawn), np.asarray(expected))


# Lifetimes.


def test_batches_that_are_kept_stay_as_they_are_and_outlive_the_loader(stubs, folder):
    stubs.set_delay_us(300)
    loader = loader_of(folder, **ON_GPU)
    kept = list(loader) + list(loader)
    loader.close()
    del loader
    expected = on_host(folder)
    assert are_equal([copied(batch) for batch in kept], expected + expected)


def test_an_array_alone_keeps_its_memory(stubs, folder):
    capsules = [image.__dlpack__(stream=1) for image, _, _ in loader_of(folder, **ON_GPU)]
    gc.collect()
    assert stubs.memory_in_use > 0
    del capsules
    gc.collect()
    assert stubs.memory_in_use == 0


def test_batches_are_dropped_in_any_order_by_any_thread(stubs, folder):
    stubs.set_delay_us(100)
    expected = on_host(folder)
    loader = loader_of(folder, **ON_GPU)
    for _ in range(3):
        kept = list(loader)
        found = [None] * len(kept)

        def look(place, kept=kept, found=found):
            for stream in (1, 2, 1):
                kept[place][0].__dlpack__(stream=stream)
            found[place] = copied(kept[place])
            kept[place] = None

        threads = [threading.Thread(target=look, args=(i,)) for i in (2, 0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert are_equal(found, expected)


def test_threads_hand_over_one_batch(stubs, folder):
    image, _, _ = next(iter(loader_of(folder, **ON_GPU)))
    with stubs.stream() as one, stubs.stream() as other:
        threads = [
            threading.Thread(target=lambda s=s: [image.hand_over(s) for _ in range(200)])
            for s in (one, other, 1, one)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert np.array_equal(stubs.read(image, other), on_host(folder)[0][0])


# The loop.


def test_a_loop_goes_on_behind_a_break_and_a_state(stubs, folder):
    expected = on_host(folder)
    first = loader_of(folder, **ON_GPU)
    batches = iter(first)
    assert are_equal([copied(next(batches))], expected[:1])
    state = first.state_dict()
    batches.close()
    assert are_equal([copied(batch) for batch in first], on_host(folder))
    second = loader_of(folder, **ON_GPU)
    second.load_state_dict(state)
    assert are_equal([copied(batch) for batch in second], expected[1:])
    on_cpu = loader_of(folder, fields=FIELDS)
    on_cpu.load_state_dict(state)
    assert are_equal([tuple(batch) for batch in on_cpu], expected[1:])


@pytest.mark.parametrize(("decode_device", "place"), [("cuda", "gpu"), ("cpu", "host")])
def test_statistics_say_where_pictures_were_decoded(stubs, folder, decode_device, place):
    loader = loader_of(folder, **{**ON_GPU, "decode_device": decode_device})
    delivered = sum(len(label.numpy()) for _, label, _ in loader)
    counts = loader.stats()["device"]
    on_gpu = counts["hardware_decoded"] + counts["software_decoded"]
    assert {"gpu": on_gpu, "host": counts["host_decoded"]}[place] == delivered
    assert on_gpu + counts["host_decoded"] == delivered
    assert counts["copied_bytes"] > 0
    assert loader_of(folder).stats()["device"] is None


def test_decoded_pictures_come_as_pixels(stubs, tmp_path):
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (260 + i, 300, 3), np.uint8) for i in range(8)]
    samples = {f"{i}": {"npy": npy_of(pictures[i]), "cls": b"%d" % i} for i in range(8)}
    shard = write_shard(tmp_path / "decoded.tar", samples)
    loader = loader_of(shard, **{**ON_GPU, "decode_device": "auto"})
    assert "decoded already" in str(loader.plan)
    assert are_equal([copied(batch) for batch in loader], on_host(shard))
    counts = loader.stats()["device"]
    assert counts["already_decoded"] == 8
    assert counts["host_decoded"] == counts["hardware_decoded"] + counts["software_decoded"] == 0
    # imagenet-val resizes the whole picture; batches of the next epoch may be there already.
    assert counts["copied_bytes"] >= sum(picture.nbytes for picture in pictures) + 8 * 8


def test_the_plan_names_the_gpu(stubs, folder):
    loader = loader_of(folder, **ON_GPU)
    assert loader.plan.device.startswith("cuda:0")
    assert [line.split()[1] for line in str(loader.plan).splitlines() if "device" in line[:8]] == [
        loader.plan.device.split()[0]
    ]


@pytest.mark.parametrize("device", ["cuda:0", 0, "cuda", "auto"])
def test_names_of_the_first_gpu(stubs, folder, device):
    assert loader_of(folder, **{**ON_GPU, "device": device}).plan.device.startswith("cuda:0")


def test_a_lost_device_is_one_error(stubs, folder):
    loader = loader_of(folder, **ON_GPU)
    batches = iter(loader)
    image, _, _ = next(batches)
    stubs.fail("cuStreamWaitEvent", 0, 700)
    assert "700" in error_of(image.hand_over, 1, code="unsupported")
    stubs.fail("cuMemcpyHtoDAsync_v2", 0, 700)
    assert "700" in error_of(list, batches, code="unsupported")


# Where there is none.


def test_a_gpu_that_is_not_there_is_one_error_with_the_chain(stubs, folder, tmp_path):
    stubs.set_devices(0)
    message = error_of(loader_of, folder, **ON_GPU, code="unsupported")
    assert 'device "cuda" can\'t be had: cuInit' in message
    stubs.set_devices(1)
    message = error_of(loader_of, folder, **{**ON_GPU, "device": "cuda:3"}, code="unsupported")
    assert 'device "cuda:3" can\'t be had' in message
    missing = {**ON_GPU, "cuda_plugin": tmp_path / "none.so"}
    message = error_of(loader_of, folder, **missing, code="unsupported")
    assert "none.so" in message
    assert 'install feedrace-cuda (in a checkout: make cuda), or take device="cpu"' in message


def test_a_fork_of_a_process_that_used_a_gpu_is_told(folder):
    """CUDA does not work there, and calls of it may never return."""
    program = """
import os, sys
import feedrace as fr
arguments = dict(batch_size=4, cuda_plugin=sys.argv[2], cuda_libraries=sys.argv[3])
loader = fr.ImageLoader(sys.argv[1], device="cuda", output="dlpack", **arguments)
next(iter(loader))
child = os.fork()
if child == 0:
    on_host = fr.ImageLoader(sys.argv[1], device="auto", output="numpy", **arguments)
    next(iter(on_host))
    try:
        fr.ImageLoader(sys.argv[1], device="cuda", output="dlpack", **arguments)
    except fr.Error as error:
        print(error.code, error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", program, folder, PLUGIN, STUBS]
    end = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert end.stdout.startswith("unsupported "), end.stderr
    assert "this process is a fork of" in end.stdout
    assert "start processes by spawn" in end.stdout


def test_auto_takes_the_host_and_says_why(stubs, folder):
    stubs.set_devices(0)
    loader = loader_of(folder, **{**ON_GPU, "device": "auto"})
    assert loader.plan.device == "cpu"
    assert loader.plan.device_reason.startswith("no GPU can be used: cuInit")
    assert loader.plan.device_reason in str(loader.plan)
    assert are_equal(list(loader), on_host(folder))


def test_numpy_has_host_memory_only(stubs, folder):
    arguments = {**ON_GPU, "output": "numpy"}
    message = error_of(loader_of, folder, **arguments)
    assert "NumPy has host memory only" in message
    loader = loader_of(folder, **{**arguments, "device": "auto"})
    assert loader.plan.device == "cpu"
    assert "NumPy has host memory only" in loader.plan.device_reason
    assert loader.plan.device_reason in str(loader.plan)
    assert are_equal(list(loader), on_host(folder))


def test_members_that_run_as_python_stay_on_the_host(stubs, folder):
    import_torchvision()
    v2 = pytest.importorskip("torchvision.transforms.v2")
    compose = v2.Compose([v2.Resize((24, 24)), v2.ToImage(), v2.GaussianNoise()])
    arguments = {**ON_GPU, "transform": compose}
    message = error_of(loader_of, folder, **arguments, code="unsupported")
    assert "members of the transform run as Python" in message
    loader = loader_of(folder, **{**arguments, "device": "auto"})
    assert "members of the transform run as Python" in loader.plan.device_reason
    assert len(list(loader)) == 3
