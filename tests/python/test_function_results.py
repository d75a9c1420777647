# SPDX-License-Identifier: Apache-2.0
"""What functions of pictures may give back, and what becomes of the rest."""

import subprocess
import sys

import numpy as np
import pytest

import feedrace as fr
from small_sets import write_classes

fn = fr.fn


def loader_of(folder, function, **arguments):
    @fr.pipeline(batch_size=4, output="numpy", num_threads=2, **arguments)
    def piped(root):
        jpeg, label = fn.read(root)
        image = fn.resize(fn.decode(jpeg), (6, 8))
        image = fn.python_function(image, function=function)
        return fn.to_tensor(image, dtype="uint8", layout="HWC"), label

    return piped(folder)


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError("no text")


def throw(error):
    raise error


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda p: p / 255.0, "ndarray of float64 (6, 8, 3)"),
        (lambda p: p.astype(np.int16) + 256, "ndarray of int16 (6, 8, 3)"),
        (lambda p: p > 3, "ndarray of bool (6, 8, 3)"),
        (lambda p: p[:3], "ndarray of uint8 (3, 8, 3)"),
        (lambda p: p.transpose(2, 0, 1), "ndarray of uint8 (3, 6, 8)"),
        (lambda p: p[0], "ndarray of uint8 (8, 3)"),
        (lambda p: None, "NoneType"),
        (lambda p: p.tolist(), "list"),
        (lambda p: throw(ValueError("two\nlines")), r"ValueError: two\x0alines"),
        (lambda p: throw(ValueError("x" * 10_000)), "ValueError: x"),
        (lambda p: throw(ValueError("\udc80")), "ValueError"),
        (lambda p: throw(UnprintableError()), "UnprintableError: (no text)"),
    ],
)
def test_anything_else_is_named_and_nothing_is_converted(folder, function, found):
    with pytest.raises(fr.Error) as caught:
        next(iter(loader_of(folder, function)))
    message = str(caught.value)
    assert found in message
    assert "\n" not in message
    assert len(message) < 1_000
    assert ".jpg: " in message


def test_an_exit_is_no_bad_sample(folder):
    for error in (SystemExit(3), KeyboardInterrupt("stop")):
        loader = loader_of(folder, lambda p, error=error: throw(error), on_error="zero")
        with pytest.raises(type(error)):
            next(iter(loader))
        loader.close()


def test_a_function_that_asks_its_own_loader_is_told_so(folder):
    loader = None

    def ask(picture):
        next(iterator)

    loader = loader_of(folder, ask)
    iterator = iter(loader)
    with pytest.raises(fr.Error, match="asks for a batch meanwhile"):
        next(iterator)


CTRL_C = """
import os, signal, sys, threading, time
import feedrace as fr

def slow(picture):
    time.sleep(0.01)
    return picture

@fr.pipeline(batch_size=1, output="numpy", num_threads=1, prefetch_factor=1, shuffle=False)
def piped(root):
    jpeg, index = fr.fn.read(root, fields=("image", "index"))
    image = fr.fn.python_function(fr.fn.resize(fr.fn.decode(jpeg), 8), function=slow)
    return fr.fn.to_tensor(image, dtype="uint8"), index

loader = piped(sys.argv[1])
seen, is_waiting, is_over, pressed = [], False, False, 0

def press():
    while not is_over:
        time.sleep(0.003)
        if is_waiting:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)

threading.Thread(target=press, daemon=True).start()
iterator = iter(loader)
while not is_over:
    try:
        is_waiting = True
        batch = next(iterator, None)
        is_waiting = False
        if batch is None:
            is_over = True
        else:
            seen += batch[1].tolist()
    except KeyboardInterrupt:
        pressed += 1
        is_waiting = False
time.sleep(0.1)
print(pressed, len(seen), seen == sorted(set(seen)))
"""


def test_ctrl_c_loses_no_batch(tmp_path):
    """Of some dozens, a few may hit the loop's own lines, behind next()."""
    folder = write_classes(tmp_path, {"a": 60})
    script = [sys.executable, "-c", CTRL_C, str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pressed, count, in_order = done.stdout.split()
    assert in_order == "True"
    assert int(pressed) > 15
    assert int(count) >= 60 - 4
