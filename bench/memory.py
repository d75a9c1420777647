# SPDX-License-Identifier: Apache-2.0
"""Compares the memory that the loader takes with the memory that it planned.

    python -m bench.memory DATA

Runs the loader on the pictures in DATA, as files and as shards, and on synthetic shard sets of 10
thousand and of 100 million samples, which are removed afterwards. Memory is RssAnon: what the
process has for itself, without mapped files. Exits 1 when one differs from its plan by over 10 %.
"""

import argparse
import shutil
import sys
from pathlib import Path

from bench import layout, make_synthetic_index, program

TOLERANCE = 0.10


def measure(name, path, args):
    options = ("--threads", args.threads, "--batch", args.batch)
    report = program.bench_loader(path, *options, seconds=args.seconds)
    planned, taken = report["planned_memory_bytes"], report["anonymous_memory_bytes"]
    off = taken / planned - 1
    is_good = abs(off) <= TOLERANCE
    print(
        f"| {name} | {planned / 1e6:.1f} | {taken / 1e6:.1f} | {100 * off:+.1f} % | "
        f"{report['first_batch_seconds']:.2f} | {'' if is_good else 'off'} |",
        flush=True,
    )
    return is_good


def measure_synthetic(samples, args):
    folder = layout.BENCH_DATA / f"synthetic-{samples}"
    try:
        make_synthetic_index.make(Path(layout.shards()[0]), folder, samples)
        is_good = measure(f"{samples:,} synthetic samples", folder, args)
        # Had the loader not accepted the index, it would have made one of the real samples.
        if make_synthetic_index.sample_count(folder) != samples:
            sys.exit(f"bench: {folder}: the loader refused the synthetic index and made its own")
        return is_good
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--samples", type=int, nargs="*", default=[10_000, 100_000_000])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    layout.lay_out(args.data)
    print(f"{program.machine_line()}\n")
    print("| set | planned MB | RssAnon MB | off by | first batch s | |")
    print("| --- | --- | --- | --- | --- | --- |")
    good = [measure("files", layout.LIST, args), measure("shards", layout.SHARDS, args)]
    good += [measure_synthetic(samples, args) for samples in args.samples]
    if not all(good):
        wrong = f"{good.count(False)} of {len(good)} sets"
        sys.exit(f"bench: {wrong} differ from the plan by over {100 * TOLERANCE:g} %")


if __name__ == "__main__":
    main()
