# SPDX-License-Identifier: Apache-2.0
"""Measures what the Python loop costs over the program: python -m bench.python_loop DATA

Pairs of windows, one of `feedrace bench loader`, one of a `for` loop over `feedrace.ImageLoader` in
a fresh process, with the same settings; the order within a pair alternates. Batches are checked:
the first one is compared with what `feedrace batch` writes. "Python a batch" is the time in the
iterator's `next` less the time that the native loader waited for the batch, which includes waits
for a core that decodes meanwhile; "CPU a batch" is what `next` took of the loop's thread.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench import layout, program

SEED = 1


def make_loader(path, args):
    import feedrace as fr

    return fr.ImageLoader(
        path, batch_size=args.batch, num_threads=args.threads, seed=SEED, output=args.output
    )


def check_first_batch(path, args):
    import numpy as np

    with make_loader(path, args) as loader, tempfile.TemporaryDirectory() as folder:
        images, labels = next(iter(loader))
        options = ("--batch", args.batch, "--seed", SEED, "--step", 0)
        program.feedrace("batch", path, "--out", folder, *options)
        for name, values in (("images", images), ("labels", labels)):
            if not np.array_equal(np.asarray(values), np.load(Path(folder, f"{name}.npy"))):
                sys.exit(f"bench: {name} of the first batch are not those of `feedrace batch`")


def run_loop(path, args):
    """In a process of its own: one window through the package, as JSON on standard output.

    From the first batch on, as the program's.
    """
    check_first_batch(path, args)
    loader = make_loader(path, args)
    iterator = iter(loader)
    next(iterator)
    count, batches, inside, inside_cpu = 0, 0, 0.0, 0.0
    cpu_before = time.process_time()
    waited_before = loader.stats()["stages"]["consumer"]["wait_seconds"]
    start = time.perf_counter()
    while time.perf_counter() - start < args.seconds:
        asked, asked_cpu = time.perf_counter(), time.thread_time()
        batch = next(iterator, None)
        inside += time.perf_counter() - asked
        inside_cpu += time.thread_time() - asked_cpu
        if batch is None:
            iterator = iter(loader)
            continue
        count += len(batch[1])
        batches += 1
    wall = time.perf_counter() - start
    waited = loader.stats()["stages"]["consumer"]["wait_seconds"] - waited_before
    found = {
        "images_per_second": count / wall,
        "cpu_seconds_per_1000": 1000 * (time.process_time() - cpu_before) / count,
        "python_us_per_batch": 1e6 * (inside - waited) / batches,
        "cpu_us_per_batch": 1e6 * inside_cpu / batches,
    }
    print(json.dumps(found))


def loop_window(path, args):
    command = [sys.executable, "-m", "bench.python_loop", args.data, "--one", str(path)]
    for name in ("batch", "threads", "seconds", "output"):
        command += [f"--{name}", str(getattr(args, name))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: exit {done.returncode}")
    return json.loads(done.stdout)


def program_window(path, args):
    options = ("--batch", args.batch, "--threads", args.threads, "--seed", SEED)
    return program.bench_loader(path, *options, seconds=args.seconds)


def spread(values, digits):
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def measure(name, path, args):
    native, python = [], []
    for pair in range(args.pairs):
        order = [(program_window, native), (loop_window, python)]
        for window, results in order if pair % 2 == 0 else reversed(order):
            results.append(window(path, args))
    pairs = zip(native, python, strict=True)
    rates = [ours["images_per_second"] / own["images_per_second"] for own, ours in pairs]
    cells = [
        spread([one["images_per_second"] for one in native], 0),
        spread([one["images_per_second"] for one in python], 0),
        spread(rates, 3),
        spread([one["cpu_seconds_per_1000"] for one in native], 3),
        spread([one["cpu_seconds_per_1000"] for one in python], 3),
        spread([one["python_us_per_batch"] for one in python], 0),
        spread([one["cpu_us_per_batch"] for one in python], 0),
    ]
    print(f"| {name} | {' | '.join(cells)} | {args.pairs} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5, help="of a window")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", default="torch", choices=["torch", "numpy", "jax"])
    parser.add_argument("--only", choices=["folder", "shards"], help="one of the two sets")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        run_loop(args.one, args)
        return
    layout.lay_out(args.data)
    print(f"{program.machine_line()}; batches of {args.batch} as {args.output}\n")
    print(
        "| set | program img/s | Python img/s | ratio | program CPU s per 1,000 | Python CPU s per "
        "1,000 | Python µs a batch | CPU µs a batch | pairs |\n" + "| --- " * 9 + "|"
    )
    for name, path in (("folder", layout.IMAGES), ("shards", layout.SHARDS)):
        if args.only in (None, name):
            measure(name, path, args)


if __name__ == "__main__":
    main()
