# SPDX-License-Identifier: Apache-2.0
"""Loaders that run while a test looks at them."""

import signal
import time
from contextlib import contextmanager

from conftest import HANG_SECONDS, start


@contextmanager
def loading(folder, *extra, **options):
    """A loader that runs until the block ends; gives its process."""
    args = ("bench", "loader", folder, "--batch", "4", "--seconds", "600", "--no-plan")
    process = start(*args, *extra, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_SECONDS)


def wait_until(condition):
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
