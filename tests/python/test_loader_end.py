# SPDX-License-Identifier: Apache-2.0
"""ImageLoader: how it ends, and where it must not go on."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from small_loaders import error_of, indices, loader_of


def test_a_closed_loader_says_so(folder):
    with loader_of(folder, fields=("image",)) as loader:
        iterator = iter(loader)
        (image,) = next(iterator)
    before = image.copy()
    for use in (
        lambda: iter(loader),
        lambda: next(iterator),
        lambda: loader.set_epoch(0),
        loader.state_dict,
        loader.stats,
        loader.explain,
        lambda: loader.classes,
        lambda: loader.load_state_dict({}),
    ):
        assert "it is closed" in error_of(use)
    loader.close()
    assert np.array_equal(image, before)
    assert len(loader) == 3
    assert loader.plan.steps == 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_loader_is_not_copied(folder, copied):
    message = error_of(copied, loader_of(folder))
    assert "can't be copied, pickled" in message
    assert "num_workers=0" in message


FORK = """
import os, sys
import feedrace as fr

loader = fr.ImageLoader(
    sys.argv[1], batch_size=4, output="numpy", transform="imagenet-val", num_threads=1
)
iterator = iter(loader)
next(iterator)
reader, writer = os.pipe()
if os.fork() == 0:
    said = []
    for use in (lambda: next(iterator), lambda: iter(loader), loader.state_dict, loader.stats):
        try:
            use()
        except fr.Error as e:
            said.append(e.code)
            message = str(e)
    loader.close()
    del iterator, loader
    os.write(writer, f"{said} {message}".encode())
    os._exit(0)
os.close(writer)
print(os.read(reader, 10000).decode())
os.wait()
print(len(list(iterator)))
"""


def run_python(script, *args):
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(folder):
    said, rest = run_python(FORK, folder).splitlines()
    assert said.startswith(str(["invalid_argument"] * 4))
    assert "threads don't survive a fork" in said
    assert rest == "2"


INTERRUPT = """
import os, signal, sys, threading
import feedrace as fr

loader = fr.ImageLoader(sys.argv[1], batch_size=4, output="numpy", num_threads=1)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        for _ in loader:
            pass
except KeyboardInterrupt:
    print("interrupted")
loader.close()
"""


def test_ctrl_c_ends_a_loop(folder):
    assert run_python(INTERRUPT, folder) == "interrupted\n"


INTERRUPT_WAITING = """
import os, signal, sys, threading
import feedrace as fr

healed = threading.Event()

def stuck(picture):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    healed.wait()
    return picture

@fr.pipeline(batch_size=4, output="numpy", num_threads=1)
def waiting(root):
    jpeg, label = fr.fn.read(root)
    image = fr.fn.python_function(fr.fn.resize(fr.fn.decode(jpeg), 8), function=stuck)
    return image, label

iterator = iter(waiting(sys.argv[1]))
try:
    next(iterator)
except KeyboardInterrupt:
    healed.set()
    print("interrupted")
print(len(next(iterator)[1]))
"""


def test_ctrl_c_ends_a_wait_and_loses_no_batch(folder):
    assert run_python(INTERRUPT_WAITING, folder) == "interrupted\n4\n"


def test_two_loaders_run_side_by_side_on_two_threads(folder):
    results = {}

    def work(name):
        results[name] = indices(loader_of(folder, transform="imagenet-train"))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
