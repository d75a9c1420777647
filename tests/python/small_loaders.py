# SPDX-License-Identifier: Apache-2.0
"""Loaders of the small data sets, and what tests ask of them."""

import os
import time

import pytest

import feedrace as fr


def loader_of(source, **arguments):
    arguments = {
        "batch_size": 4,
        "transform": "imagenet-val",
        "fields": ("index",),
        "output": "numpy",
        "num_threads": 1,
        **arguments,
    }
    return fr.ImageLoader(source, **arguments)


def indices(batches):
    return [batch[0].tolist() for batch in batches]


def error_of(function, *args, code="invalid_argument", **kwargs):
    with pytest.raises(fr.Error) as caught:
        function(*args, **kwargs)
    assert caught.value.code == code, str(caught.value)
    message = str(caught.value)
    assert "\n" not in message
    return message


IN_ORDER = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def thread_count():
    return len(os.listdir("/proc/self/task"))


def threads_fall_to(count):
    """Whether no more threads are left than that. The kernel lists one that was joined a little
    longer, so it is asked again for a while."""
    deadline = time.monotonic() + 30
    while thread_count() > count and time.monotonic() < deadline:
        time.sleep(0.001)
    return thread_count() <= count
