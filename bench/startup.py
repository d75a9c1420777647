# SPDX-License-Identifier: Apache-2.0
"""Measures the time from the start of the process to its first batch: python -m bench.startup DATA

The median of ten starts, with files in the page cache and the index of the shards in place.
"""

import argparse
from statistics import median

from bench import layout, program


def measure(name, path, args):
    options = ("--threads", args.threads, "--batch", args.batch)
    program.bench_loader(path, *options, "--epochs", 1, seconds=1)  # Reads everything once.
    starts = [
        program.bench_loader(path, *options, seconds=0.01)["first_batch_seconds"]
        for _ in range(args.starts)
    ]
    low, high = min(starts), max(starts)
    print(f"| {name} | {median(starts):.3f} ({low:.3f}–{high:.3f}) | {len(starts)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    layout.lay_out(args.data)
    print(f"{program.machine_line()}\n")
    print("| set | first batch s: median (min–max) | starts |\n| --- | --- | --- |")
    measure("folder", layout.IMAGES, args)
    measure("shards", layout.SHARDS, args)


if __name__ == "__main__":
    main()
