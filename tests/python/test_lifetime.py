# SPDX-License-Identifier: Apache-2.0
"""What is left when loaders, batches, processes and interpreters end; nothing may be.

Scripts run in processes of their own, as what they test is that process and its end.
"""

import gc
import json
import os
import random
import signal
import subprocess
import threading
import zlib

import numpy as np
import pytest

import feedrace as fr
from framework_sets import (
    HANG_SECONDS,
    draw_pictures,
    loader_of,
    plain,
    run_python,
    start_python,
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
from framework_sets import loader_of

def counted():
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    gc.collect()
    return {
        "threads": len(os.listdir("/proc/self/task")),
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
    assert after["threads"] == before["threads"]
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


# Processes that end.

SETUP = """
import os, signal, sys, threading, time
import feedrace as fr
from framework_sets import loader_of, plain, random_crops

def with_function(function):
    first, *others = random_crops().steps
    step = {"op": "python_function", "function": function, "name": "own", "size": None}
    return fr.Pipeline([first, step, *others])

"""

FORKED = (
    SETUP
    + """
loader = loader_of(sys.argv[1], output="numpy", num_threads=2)
iterator = iter(loader)
seen = [plain(next(iterator))]
child = os.fork()
if child == 0:
    # Ends as any program does: what the parent made is taken down by the interpreter.
    for use in (lambda: next(iterator), lambda: list(loader), lambda: loader.load_state_dict({})):
        try:
            use()
        except fr.Error as e:
            assert e.code == "invalid_argument" and "forked child" in str(e), e
        else:
            sys.exit("the parent's loader worked in its child")
    assert len(list(loader_of(sys.argv[1], output="numpy"))) == len(loader)
    sys.exit(7)
_, status = os.waitpid(child, 0)
seen += [plain(batch) for batch in iterator]
assert seen == [plain(batch) for batch in loader_of(sys.argv[1], output="numpy")]
print(os.waitstatus_to_exitcode(status))
"""
)


def test_a_forked_child_is_told_and_ends_and_the_parent_goes_on(pictures):
    assert run_python(FORKED, pictures) == "7\n"


SLOW_CONSUMER = """
loader = loader_of(sys.argv[1], output="numpy")
print("ready", flush=True)
while True:
    for _ in loader:
        time.sleep(600)
"""

# The loop waits inside next(): for a FIFO that nobody writes to, on the thread of the reader.
SLOW_STORAGE = """
loader = loader_of(sys.argv[1], output="numpy", shuffle=False, timeout=None)
iterator = iter(loader)
next(iterator)
print("ready", flush=True)
next(iterator)
"""

# The same, for a function that runs on a decode thread until the main thread's Ctrl-C comes.
SLOW_FUNCTION = """
gate = threading.Event()

def wait(image):
    print("ready", flush=True)
    gate.wait()
    return image

loader = loader_of(sys.argv[1], output="numpy", transform=with_function(wait), timeout=None)
try:
    next(iter(loader))
except KeyboardInterrupt:
    gate.set()
    raise
"""


def interrupt(script, *args):
    """Sends Ctrl-C to a script that is ready and waits for its end; gives what it said."""
    process = start_python(SETUP + script, *args)
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        # Not at once: the loop must have come to where it waits.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS / 4)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT, err
    return err


@pytest.mark.parametrize("script", [SLOW_CONSUMER, SLOW_FUNCTION])
def test_ctrl_c_ends_a_loop_that_waits(pictures, script):
    assert interrupt(script, pictures).splitlines()[-1] == "KeyboardInterrupt"


@pytest.fixture
def slow_list(pictures, tmp_path):
    """A list of 6 pictures and one that never comes."""
    fifo = tmp_path / "slow.png"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    paths = [*sorted(pictures.glob("*/*.png"))[:6], fifo]
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(f"{path} 0" for path in paths))
    with loader_of(listed, output="numpy") as loader:
        if loader.plan.backend != "uring":
            pytest.skip("without io_uring a FIFO is an error at once")
    yield listed
    os.close(writer)


def test_ctrl_c_ends_a_wait_for_storage(slow_list):
    assert interrupt(SLOW_STORAGE, slow_list).splitlines()[-1] == "KeyboardInterrupt"


# Batch functions run ahead of the loop, on a thread that waits inside next().
BATCH_FUNCTION = """
@fr.pipeline(batch_size=4, num_threads=1, shuffle=False, output="numpy", timeout=None)
def inverted(root):
    image, label = fr.fn.read(root)
    image = fr.fn.to_tensor(fr.fn.resize(fr.fn.decode(image), (16, 16)), dtype="uint8")
    return fr.fn.python_function(image, function=lambda images: 255 - images, batch=True), label

loader = inverted(sys.argv[1])
iterator = iter(loader)
next(iterator)
"""


def test_ctrl_c_ends_a_wait_for_a_thread_that_waits_for_storage(slow_list):
    script = BATCH_FUNCTION + 'print("ready", flush=True)\nnext(iterator)'
    assert interrupt(script, slow_list).strip().splitlines()[-1] == "KeyboardInterrupt"


# Interpreters that end with live loaders; `loader` and `iterator` are of the module.

LEAVE_BEHIND = """
def draw(image):
    time.sleep(0.001)
    return 255 - image if sum(range(10000)) else image

loader = loader_of(sys.argv[1], output="numpy", num_threads=3, transform=with_function(draw))
iterator = iter(loader)
kept = next(iterator)
"""

ENDINGS = {
    "end of the script": ("", 0),
    "sys.exit in the loop": ("for _ in iterator: sys.exit(3)", 3),
    "an exception in the loop": ("for _ in iterator: raise ValueError('of the body')", 1),
    "os._exit": ("os._exit(4)", 4),
    "a reference that lives longer": ("sys.kept_for_ever = iterator, loader", 0),
    "a thread in the middle of a loop": (
        """
other = loader_of(sys.argv[1], output="numpy", transform=with_function(draw))

def loop():
    while True:
        for _ in other:
            begun.set()

begun = threading.Event()
threading.Thread(target=loop, daemon=True).start()
begun.wait()
""",
        0,
    ),
    "a thread that waits for a loader": (
        """
other = loader_of(sys.argv[2], output="numpy", timeout=None, shuffle=False)
thread = threading.Thread(target=lambda: list(other), daemon=True)
thread.start()
time.sleep(0.3)
""",
        0,
    ),
}


def exit_code(script, *args):
    process = start_python(SETUP + script, *args)
    try:
        _, err = process.communicate(timeout=HANG_SECONDS / 4)
    finally:
        process.kill()
    assert "Fatal" not in err
    assert "terminate called" not in err
    return process.returncode


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_ends_with_live_loaders(pictures, slow_list, ending):
    code, expected = ENDINGS[ending]
    assert exit_code(LEAVE_BEHIND + code, pictures, slow_list) == expected


def test_an_interpreter_ends_while_a_batch_function_waits_for_storage(slow_list):
    assert exit_code(BATCH_FUNCTION, slow_list) == 0


# Loops that fail, and loops side by side.


def test_an_exception_in_the_body_ends_the_threads_and_the_next_loop_goes_on(pictures):
    epochs = expected_epochs(pictures, 2)
    loader = loader_of(pictures, output="numpy", num_threads=2)
    before = threading.active_count(), len(os.listdir("/proc/self/task"))

    def fail():
        for number, _ in enumerate(loader):
            if number == 2:
                raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body") as caught:
        fail()
    # The traceback holds the frame, and that the iterator.
    del caught
    gc.collect()
    assert (threading.active_count(), len(os.listdir("/proc/self/task"))) == before
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


CYCLE = """
import gc, weakref

def loop():
    loader = None

    def own(image):
        assert loader is not None
        return image

    loader = loader_of(sys.argv[1], output="numpy", num_threads=2, transform=with_function(own))
    iterator = iter(loader)
    next(iterator)
    return weakref.ref(loader)

loaders = [loop() for _ in range(20)]
gc.collect()
print(len(os.listdir("/proc/self/task")), sum(loader() is not None for loader in loaders))
"""


def test_a_loader_that_its_own_function_refers_to_stops_and_is_collected(pictures):
    alone = "import os, numpy; print(len(os.listdir('/proc/self/task')), 0)"
    assert run_python(SETUP + CYCLE, pictures) == run_python(alone)
