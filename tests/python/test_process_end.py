# SPDX-License-Identifier: Apache-2.0
"""Loaders in processes that fork, are interrupted, or end: nothing hangs, nothing crashes."""

import os
import signal
import subprocess

import pytest

from framework_sets import HANG_SECONDS, draw_pictures, loader_of, run_python, start_python

COUNT = 22


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


SETUP = """
import os, signal, sys, threading, time
import feedrace as fr
from framework_sets import loader_of, plain, with_function
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
