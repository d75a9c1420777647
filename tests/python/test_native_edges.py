# SPDX-License-Identifier: Apache-2.0
"""The native module where Python ends, collects garbage, or has no memory; and its interpreters."""

import gc
import time
import weakref
from contextlib import suppress

import numpy as np
import pytest

import feedrace as fr
from framework_sets import (
    HANG_SECONDS,
    draw_pictures,
    loader_of,
    run_python,
    start_python,
    with_function,
)
from small_loaders import error_of, thread_count, threads_fall_to

COUNT = 22


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


# Exit handlers that leave a loader running, whose threads call a function.

HANDLER = """
import atexit, sys

def leave_running():
    global loader, iterator
    import time
    import feedrace as fr
    from framework_sets import loader_of, with_function

    def draw(image, sleep=time.sleep):
        sleep(0.001)
        return image

    try:
        own = with_function(draw)
        loader = loader_of(sys.argv[1], output="numpy", num_threads=2, transform=own)
        iterator = iter(loader)
        print(len(next(iterator)[0]))
    except fr.Error as e:
        print(e.code, e)
"""
HANDLERS = {
    "registered before the import": (
        "atexit.register(leave_running)\nimport feedrace, framework_sets",
        "invalid_argument ImageLoader: the interpreter exits, and nothing would end",
    ),
    "registered behind the import": (
        "import feedrace\natexit.register(leave_running)",
        "4",
    ),
    "that imports it": ("atexit.register(leave_running)", ""),
}


@pytest.mark.parametrize("handler", HANDLERS)
def test_an_exit_handler_may_leave_a_loader_running(pictures, handler):
    script, said = HANDLERS[handler]
    process = start_python(HANDLER + script, pictures)
    try:
        out, err = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.startswith(said)
    assert len(out.splitlines()) == 1


# Other interpreters of the process.

SECOND_INTERPRETER = """
import sys
from test.support import run_in_subinterp
import feedrace as fr
from framework_sets import loader_of

code = '''
import sys
sys.path[:] = {path!r}
try:
    import feedrace
except ImportError as e:
    print("refused:", e, flush=True)
'''
assert run_in_subinterp(code.format(path=sys.path)) == 0
print(len(list(loader_of(sys.argv[1], output="numpy"))))
try:
    fr.ImageLoader("/nowhere/at/all")
except fr.Error as e:
    print(e.code)
"""


def test_another_interpreter_is_refused_and_the_main_one_goes_on(pictures):
    said, *others = run_python(SECOND_INTERPRETER, pictures).splitlines()
    assert said.startswith("refused: ")
    assert "feedrace" in said
    assert "main" in said or "subinterpreters" in said  # From 3.13 on it is Python that refuses.
    assert others == ["5", "not_found"]


# Loaders that their own functions refer to.


class Owner:
    """Its method is the function of its loader."""

    def __init__(self, source):
        transform = with_function(self.of_a_picture)
        self.loader = loader_of(source, output="numpy", num_threads=2, transform=transform)
        self.iterator = iter(self.loader)
        next(self.iterator)

    def of_a_picture(self, image):
        return image


def garbage_of(owner):
    return [weakref.ref(each) for each in (owner, owner.loader, owner.loader._native)]


def wait_for_end(garbage):
    """The collector may run on one of the loader's own threads, which it then lets end first."""
    deadline = time.monotonic() + HANG_SECONDS / 4
    while any(each() is not None for each in garbage) and time.monotonic() < deadline:
        time.sleep(0.001)
        gc.collect()
    return [each() for each in garbage] == [None] * len(garbage)


def test_a_loader_that_its_function_refers_to_is_collected(pictures):
    before = thread_count()
    for _ in range(3):
        owner = Owner(pictures)
        garbage = garbage_of(owner)
        del owner
        assert wait_for_end(garbage)
    assert threads_fall_to(before)


def loader_of_batches(source, function):
    @fr.pipeline(batch_size=4, output="numpy", num_threads=1)
    def piped(root):
        image, label = fr.fn.read(root)
        image = fr.fn.to_tensor(fr.fn.resize(fr.fn.decode(image), (8, 8)), dtype="uint8")
        return fr.fn.python_function(image, label, function=function, batch=True)

    return piped(source)


def test_a_loader_that_its_function_of_batches_refers_to_is_collected(pictures):
    before = thread_count()

    def leave_half_way():
        loader = loader_of_batches(pictures, lambda *values: values if loader else None)
        next(iter(loader))
        return [weakref.ref(loader), weakref.ref(loader._native)]

    assert wait_for_end(leave_half_way())
    assert threads_fall_to(before)


def test_a_loader_in_garbage_is_collected_on_its_own_thread(pictures):
    """The function makes so much garbage that the collector runs inside it."""
    before = thread_count()

    def leave_half_way():
        def litter(image):
            assert iterator
            loops = [[] for _ in range(5000)]
            loops[0].append(loops)
            return image

        transform = with_function(litter)
        loader = loader_of(pictures, output="numpy", num_threads=2, transform=transform)
        iterator = iter(loader)
        next(iterator)
        return [weakref.ref(iterator), weakref.ref(loader), weakref.ref(loader._native)]

    assert wait_for_end(leave_half_way())
    assert threads_fall_to(before)


def test_a_function_may_drop_the_last_reference_to_its_loader(pictures):
    before = thread_count()
    kept = {}
    seen = []

    def drop(image):
        kept.pop("iterator", None)
        kept.pop("loader", None)
        seen.append(image.shape)
        return image

    kept["loader"] = loader_of(pictures, output="numpy", transform=with_function(drop))
    native = weakref.ref(kept["loader"]._native)
    kept["iterator"] = iter(kept["loader"])
    with suppress(fr.Error):  # Of the first batch only, if any: a race that the threads have.
        next(kept["iterator"])
    assert wait_for_end([native])
    assert threads_fall_to(before)
    assert seen


def test_a_function_of_a_loader_does_not_use_it(pictures):
    said = []

    def ask(image):
        said.append(error_of(loader.state_dict))
        return image

    loader = loader_of(pictures, output="numpy", transform=with_function(ask))
    assert len(list(loader)) == len(loader)
    assert all("a function of the pipeline uses the loader that calls it" in each for each in said)
    assert said


# What a function raises.


def test_the_exception_of_a_function_is_the_cause(pictures):
    def refuse(image):
        big = np.zeros(1000)
        raise KeyError("no such colour", len(big))

    with pytest.raises(fr.Error) as caught:
        list(loader_of(pictures, output="numpy", transform=with_function(refuse)))
    cause = caught.value.__cause__
    assert type(cause) is KeyError
    assert cause.args == ("no such colour", 1000)
    frames = []
    trace = cause.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    assert frames[-1].f_code.co_name == "refuse"
    assert not frames[-1].f_locals  # They would hold pictures.
    assert "class-" in str(caught.value)


def test_other_errors_have_no_cause(pictures, tmp_path):
    (tmp_path / "class-a").mkdir()
    (tmp_path / "class-a" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(fr.Error) as caught:
        list(loader_of(tmp_path, output="numpy", transform=with_function(lambda image: image)))
    assert caught.value.__cause__ is None


# Memory that the system refuses.

SHORT_OF_MEMORY = """
import resource, sys
import numpy
import feedrace as fr

loader = fr.ImageLoader(sys.argv[1], batch_size=16, num_threads=1, output="numpy")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20),) * 2)
try:
    next(iter(loader))
except fr.Error as e:
    print(e.code, e)
"""


def test_memory_that_the_system_refuses_is_one_clear_error(pictures):
    (said,) = run_python(SHORT_OF_MEMORY, pictures).splitlines()
    assert said.startswith("invalid_argument memory: too little is left of the address space")
    assert "for batch slots" in said
    assert "lower batch_size, prefetch_factor or num_threads, or raise that limit" in said


HUGE_SUBSET = """
import resource, sys
import feedrace as fr

resource.setrlimit(resource.RLIMIT_AS, (1 << 31,) * 2)
try:
    fr.ImageLoader(sys.argv[1], subset=range(1 << 39))
except fr.Error as e:
    print(e.code, e)
"""


def test_a_subset_beyond_memory_is_one_clear_error(pictures):
    (said,) = run_python(HUGE_SUBSET, pictures).splitlines()
    assert said.startswith("invalid_argument memory: ")
    assert "subset: indices lists 549755813888 samples" in said
