# SPDX-License-Identifier: Apache-2.0
"""What the peer scripts share: constants of the recipe, and the measuring.

A peer script calls `main(library, files={...}, shards={...})` with its variants by where they read
from; each is a function of the configuration that returns an endless iterator of batches
(images, labels). One process measures one variant and prints one line, `RESULT {json}`.
"""

import time

T_START = time.perf_counter()  # Imports of the peer come after this one.

import argparse  # noqa: E402
import contextlib  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections import Counter  # noqa: E402

from bench import layout  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MEAN_255, STD_255 = tuple(255 * m for m in MEAN), tuple(255 * s for s in STD)
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
SIDE_PX = 224

WARM_IMAGES = 1024
BATCHES_CHECKED = 12
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def processes():
    """This process and those below it, straight from /proc: walking all would itself cost time."""
    todo, found = [os.getpid()], []
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    todo += map(int, file.read().split())
    return found


def cpu_seconds():
    """User and system time of the process tree, ended children included."""
    ticks = 0
    for pid in processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def resident_bytes():
    """Of the process tree; pages that two processes share count twice."""
    pages = 0
    for pid in processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as file:
            pages += int(file.read().split()[1])
    return pages * PAGE_BYTES


def machine_busy_seconds():
    """CPU time of everybody on this machine, time stolen by its host included."""
    with open("/proc/stat") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS


class Window:
    """Wall time, own CPU time and the load of others between two moments."""

    def __init__(self):
        self.cpu, self.busy = cpu_seconds(), machine_busy_seconds()
        self.start = time.perf_counter()

    def elapsed(self):
        return time.perf_counter() - self.start

    def close(self, images):
        wall, cpu = self.elapsed(), cpu_seconds() - self.cpu
        foreign = max(0.0, machine_busy_seconds() - self.busy - cpu) / wall
        return {
            "img_s": round(images / wall, 1),
            "cpu_s_per_1000": round(1000 * cpu / images, 3),
            "foreign_cores": round(foreign, 2),
        }


class OutputCheck:
    """Gathers what tells a training batch from a heap of bytes; table.py judges it."""

    def __init__(self):
        self.batches, self.count, self.sum, self.squares, self.finite = 0, 0, 0.0, 0.0, True
        self.labels = Counter()

    def look_at(self, images, labels):
        import numpy as np

        if self.batches == BATCHES_CHECKED:
            return
        images = np.asarray(images.numpy() if hasattr(images, "numpy") else images)
        values = images.astype(np.float32)
        self.shape, self.dtype = list(images.shape), str(images.dtype)
        self.batches += 1
        self.count += values.size
        self.sum += float(values.sum(dtype=np.float64))
        self.squares += float(np.square(values).sum(dtype=np.float64))
        self.finite = self.finite and bool(np.isfinite(values).all())
        self.labels.update(int(label) for label in labels)

    def report(self):
        mean = self.sum / self.count
        seen, drawn = Counter(label for _, label in layout.samples()), self.labels.total()
        files = seen.total()
        expected = sum(1 - (1 - count / files) ** drawn for count in seen.values())
        return {
            "shape": self.shape,
            "dtype": self.dtype,
            "finite": self.finite,
            "mean": round(mean, 3),
            "std": round(max(0.0, self.squares / self.count - mean**2) ** 0.5, 3),
            "labels": len(self.labels),
            "labels_expected": round(expected, 1),
            "labels_unknown": len(set(self.labels) - set(seen)),
        }


def arguments(names):
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=names)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xFFFF)
    return parser.parse_args()


def watch_memory(peak, stop):
    while not stop.wait(0.2):
        peak[0] = max(peak[0], resident_bytes())


def measure(batches, config):
    """Warms up and checks, then times windows."""
    started, check, images_seen = time.perf_counter(), OutputCheck(), 0
    images, labels = next(batches)
    first_batch_s = time.perf_counter() - started
    while images_seen < WARM_IMAGES:
        check.look_at(images, labels)
        images_seen += len(labels)
        images, labels = next(batches)
    windows = []
    for _ in range(config.windows):
        window, count = Window(), 0
        while window.elapsed() < config.seconds:
            images, labels = next(batches)
            count += len(labels)
        windows.append(window.close(count))
    return {"first_batch_s": round(first_batch_s, 3), "windows": windows, **check.report()}


def main(library, files, shards=None, decoded=None):
    imported = time.perf_counter()
    sources = {"files": files, "shards": shards or {}, "decoded": decoded or {}}
    variants = {name: build for group in sources.values() for name, build in group.items()}
    config = arguments([*variants])
    peak, stop = [0], threading.Event()
    threading.Thread(target=watch_memory, args=(peak, stop), daemon=True).start()
    batches = iter(variants[config.variant](config))
    result = measure(batches, config)
    stop.set()
    result |= {
        "version": f"{library} {version_of(library)}",
        "source": next(name for name, group in sources.items() if config.variant in group),
        "import_s": round(imported - T_START, 3),
        "peak_rss_mb": round(peak[0] / 2**20),
    }
    print_result(config, result)
    # Workers of some libraries outlive a plain exit and would load the next measurement.
    for pid in processes()[1:]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def version_of(library):
    """As installed; a package that is linked into the environment tells it itself."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return sys.modules[library].__version__


def print_result(config, result):
    settings = {"variant": config.variant, "batch": config.batch, "threads": config.threads}
    print("RESULT " + json.dumps(settings | result), flush=True)
