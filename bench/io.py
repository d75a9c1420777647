# SPDX-License-Identifier: Apache-2.0
"""Compares our default way to read a file with fio's best: python -m bench.io FILE

io_uring with O_DIRECT, registered buffers and files, 256 KiB blocks, 32 in flight, random and from
front to end, in turns with fio and the same job. Two things are to be seen: at least 97 % of fio's
rate, and at most 115 % of its CPU per byte. Take a file of some GB on the disk in question and
leave the machine alone meanwhile.
"""

import argparse
import json
import sys
from statistics import median, quantiles

from bench import program

ROW = "uring+defer"
LEAST_RATE = 0.97
MOST_CPU = 1.15


def compare(path, order, args):
    """The row of `feedrace bench io` and what it says of fio."""
    options = ("--rows", ROW, "--compare-fio", "--pairs", args.pairs, "--seconds", args.seconds)
    job = (f"--{order}", "--queue-depth", 32, "--block-size", "256K", "--size", args.size)
    (row,) = json.loads(program.feedrace("bench", "io", path, *job, *options, "--json"))
    reason = row.get("reason") or row["fio"].get("reason")
    if reason:
        sys.exit(f"bench: {path}: {ROW}: {reason}")
    return row


def line(order, name, ratios, limit, is_good):
    low, _, high = quantiles(ratios, n=4)
    verdict = "yes" if is_good else "**no**"
    middle = f"{median(ratios):.3f} ({low:.3f}–{high:.3f})"
    print(f"| {order} | {name} | {middle} | {limit} | {len(ratios)} | {verdict} |", flush=True)
    return is_good


def judge(path, order, args):
    """Prints the two ratios; True when both are as they should be."""
    fio = compare(path, order, args)["fio"]
    rates, cpu = fio["ratios"], fio["cpu_ratios"]
    if len(cpu) < 2:
        sys.exit("bench: fio counted no CPU; give more --seconds")
    has_rate = line(order, "rate", rates, f"≥ {LEAST_RATE}", median(rates) >= LEAST_RATE)
    has_cpu = line(order, "CPU per GB", cpu, f"≤ {MOST_CPU}", median(cpu) <= MOST_CPU)
    return has_rate and has_cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a large file, or a block device")
    parser.add_argument("--pairs", type=int, default=30, help="turns of each; at least 2")
    parser.add_argument("--seconds", type=float, default=2, help="of a turn")
    parser.add_argument("--size", default="4G", help="read no more than the first so much")
    args = parser.parse_args()
    if args.pairs < 2:
        parser.error("--pairs: quartiles need at least 2")
    print(f"{program.machine_line()}\n")
    print("Feedrace / fio, the median of the pairs and the middle half of them\n")
    print("| order | ratio | median (quartiles) | wanted | pairs | reached |")
    print("| --- | --- | --- | --- | --- | --- |")
    results = [judge(args.file, order, args) for order in ("random", "sequential")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
