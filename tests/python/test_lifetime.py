# SPDX-License-Identifier: Apache-2.0
"""What is left of loaders, loops and batches that end: no thread, no memory, no changed value."""

import gc
import json
import random
import textwrap
import threading
import zlib

import numpy as np
import pytest

import feedrace as fr
from framework_sets import (
    HANG_SECONDS,
    draw_pictures,
    falls_to,
    loader_of,
    plain,
    run_python,
    thread_count,
)

COUNT = 22
STEPS = 5


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


def expected_epochs(pictures, count):
    loader = loader_of(pictures, output="numpy")
    return [[plain(batch) for batch in loader] for _ in range(count)]


# A thousand loaders.

DROPPED = """
import gc, json, os, sys
from framework_sets import falls_to, loader_of, thread_count

threads_before = thread_count()

def counted():
    gc.collect()
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return {
        "no_thread_left": falls_to(threads_before),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "resident_kib": int(status["VmRSS"].split()[0]),
    }

def leave(way):
    loader = loader_of(sys.argv[1], output="numpy", num_threads=2)
    iterator = iter(loader)
    kept = [next(iterator), next(iterator)]
    if way == 0:
        iterator.close()
    elif way == 1:
        loader.close()
    elif way == 2:
        for _ in iterator:
            break
    elif way == 3:
        del loader
    return kept

def run(count):
    kept = None
    for i in range(count):
        kept = leave(i % 5)  # The last way does nothing: the batches outlive all else.
    del kept
    return counted()

print(json.dumps([run(100), run(1000)]))
"""

# The first loaders touch memory that stays, so counted is from the hundredth on. Later ones leave
# less than 1 KiB each, of holes in the allocator's memory; 4 KiB each is more than that, and less
# than a batch, a thread's stack, or what a loader knows of its files.
RESIDENT_TOLERANCE_KIB = 4 * 1000


def test_a_thousand_loaders_dropped_half_way_leave_nothing(pictures):
    before, after = json.loads(run_python(DROPPED, pictures))
    assert before["no_thread_left"]
    assert after["no_thread_left"]
    assert after["descriptors"] == before["descriptors"]
    assert after["resident_kib"] - before["resident_kib"] < RESIDENT_TOLERANCE_KIB


# Batches that are kept.


class Kept:
    """Arrays with their checksums, dropped in random order by several threads."""

    def __init__(self, seed):
        self._arrays = []
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self.checked = 0
        self.changed = []

    def add(self, array):
        with self._lock:
            self._arrays.append((array, zlib.crc32(np.asarray(array))))

    def drop(self, leave=0):
        """Checks one and lets go of it; False where no more than `leave` are left."""
        with self._lock:
            if len(self._arrays) <= leave:
                return False
            place = self._random.randrange(len(self._arrays))
            self._arrays[place], self._arrays[-1] = self._arrays[-1], self._arrays[place]
            array, checksum = self._arrays.pop()
        is_same = zlib.crc32(np.asarray(array)) == checksum
        del array
        with self._lock:
            self.checked += 1
            if not is_same:
                self.changed.append(checksum)
        return True


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_kept_batches_are_never_written_over(pictures, output):
    pytest.importorskip(output)
    kept = Kept(seed=7)
    made = []
    is_over = threading.Event()

    def feed(seed):
        # Few slots in the window, so that they are used again and again; loaders come and go.
        for _ in range(6):
            loader = loader_of(
                pictures, output=output, seed=seed, batch_size=3, prefetch_factor=1, num_threads=2
            )
            for _ in range(3):
                for images, _ in loader:
                    made.append(1)
                    kept.add(images)
            seed += 10

    def drop():
        while not is_over.is_set():
            if not kept.drop(leave=20):
                is_over.wait(0.001)

    feeders = [threading.Thread(target=feed, args=(seed,)) for seed in range(3)]
    droppers = [threading.Thread(target=drop) for _ in range(2)]
    for thread in feeders + droppers:
        thread.start()
    for thread in feeders:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    is_over.set()
    for thread in droppers:
        thread.join(HANG_SECONDS)
    while kept.drop():
        pass
    assert not kept.changed
    assert kept.checked == len(made) == 3 * 6 * 3 * (COUNT // 3)


def test_a_list_of_an_epoch_has_the_values_of_a_loop(pictures):
    one_by_one = expected_epochs(pictures, 2)
    loader = loader_of(pictures, output="numpy")
    listed = [list(loader), list(loader)]
    assert [[plain(batch) for batch in epoch] for epoch in listed] == one_by_one
    addresses = {images.ctypes.data for epoch in listed for images, _ in epoch}
    assert len(addresses) == 2 * STEPS


def test_memory_for_kept_batches_has_a_limit_that_is_said(pictures):
    whole = loader_of(pictures, output="numpy", transform="imagenet-train", batch_size=16)
    limit = whole.plan.memory["total_bytes"]
    del whole
    loader = loader_of(
        pictures,
        output="numpy",
        transform="imagenet-train",
        batch_size=16,
        last_batch="fill",
        memory_limit=limit,
    )
    kept = []
    with pytest.raises(fr.Error) as caught:  # noqa: PT012
        for _ in range(50):
            kept += [(images, zlib.crc32(images)) for images, _ in loader]
    assert "memory" in str(caught.value)
    assert all(zlib.crc32(images) == checksum for images, checksum in kept)


# Loops that fail, and loops side by side.


def test_an_exception_in_the_body_ends_the_threads_and_the_next_loop_goes_on(pictures):
    gc.collect()
    before = thread_count()
    epochs = expected_epochs(pictures, 2)
    loader = loader_of(pictures, output="numpy", num_threads=2)

    def fail():
        for number, _ in enumerate(loader):
            if number == 2:
                raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body") as caught:
        fail()
    # The traceback holds the frame, and that the iterator.
    del caught
    gc.collect()
    assert falls_to(before)
    assert [plain(batch) for batch in loader] == epochs[1]


def test_loaders_in_several_threads_do_not_disturb_each_other(pictures):
    expected = expected_epochs(pictures, 4)
    seen = {}

    def loop(name):
        loader = loader_of(pictures, output="numpy", num_threads=2)
        seen[name] = [[plain(batch) for batch in loader] for _ in range(4)]

    threads = [threading.Thread(target=loop, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert seen == dict.fromkeys(range(4), expected)


CYCLES = {
    # Python can't see through the native loader, so the loader stays; its threads don't.
    "its function": """
def own(image):
    return image if own.loader else None

own.loader = loader = loader_of(
    sys.argv[1], output="numpy", num_threads=2, transform=with_function(own)
)
next(iter(loader))
""",
    "its iterator": """
loader = loader_of(sys.argv[1], output="numpy", num_threads=2)
loader.iterator = iter(loader)
next(loader.iterator)
""",
}


CYCLE = """
import gc, sys
from framework_sets import falls_to, loader_of, thread_count, with_function

def loop():
{body}

before = thread_count()
for _ in range(20):
    loop()
gc.collect()
print(falls_to(before))
"""


@pytest.mark.parametrize("what", CYCLES)
def test_a_loader_in_a_cycle_leaves_no_thread(pictures, what):
    body = textwrap.indent(CYCLES[what], "    ")
    assert run_python(CYCLE.format(body=body), pictures) == "True\n"
