# SPDX-License-Identifier: Apache-2.0
"""Measures what watching a loader costs: python -m bench.overhead DATA

Interleaved, each round in another order, on the training recipe:

    plain    statistics, as always; a socket that nobody asks
    watched  also `feedrace top`, and metrics fetched each second
    traced   also a trace of all threads, written to a file

A ratio is that of a round's two runs; its median is given with the range of the middle half. What
statistics cost cannot be switched off: their calls for one sample are timed alone
(stage_clock_bench.cc) and set against the CPU time of a sample.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from statistics import median, quantiles

from bench import layout, program

VARIANTS = ("plain", "watched", "traced")
BENCH = Path("build/release/bin/feedrace_pipeline_bench")


def load(data, args, *more):
    options = ("--threads", args.threads, "--batch", 64, "--recipe", "imagenet-train")
    return program.bench_loader(data, *options, *more, seconds=args.seconds)


def fetch_until(over, port):
    """As Prometheus does, but each second."""
    while not over.wait(1):
        with contextlib.suppress(OSError):  # Not begun, or ended.
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()


def watched(data, args):
    port = random.randrange(20000, 30000)
    over = threading.Event()
    scraper = threading.Thread(target=fetch_until, args=(over, port))
    scraper.start()
    top = subprocess.Popen([program.FEEDRACE, "top", "--json"], stdout=subprocess.DEVNULL)
    try:
        return load(data, args, "--metrics", port)
    finally:
        over.set()
        top.terminate()
        top.wait()
        scraper.join()


def traced(data, args):
    with tempfile.TemporaryDirectory(dir=layout.BENCH_DATA) as folder:
        file = Path(folder) / "trace.json"
        found = load(data, args, "--trace", file)
        end = json.loads(last_line(file))
        found["trace_bytes"] = file.stat().st_size
        found["dropped_events"] = end["args"]["dropped_events"]
        return found


def last_line(file):
    """The last event: the line before the end of the list."""
    with file.open("rb") as text:
        text.seek(-min(file.stat().st_size, 4096), os.SEEK_END)
        return text.read().decode().splitlines()[-2]


def measure(data, args):
    runs = {name: [] for name in VARIANTS}
    how = {"plain": load, "watched": watched, "traced": traced}
    for number in range(args.rounds):
        order = VARIANTS[number % 3 :] + VARIANTS[: number % 3]
        for name in order:
            runs[name].append(how[name](data, args))
            print(f"round {number + 1}: {name} {runs[name][-1]['images_per_second']:.0f} images/s",
                  file=sys.stderr)  # fmt: skip
            time.sleep(0.2)
    return runs


def statistics_ns():
    """Of one sample."""
    if not BENCH.exists():
        sys.exit(
            f"bench: {BENCH}: no such file; run ninja -C build/release feedrace_pipeline_bench"
        )
    options = ("--benchmark_filter=Statistics/Sample", "--benchmark_format=json")
    found = subprocess.run([BENCH, *options], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)["benchmarks"][0]["cpu_time"]


def ratio_row(name, runs, key):
    """Of each round, to the plain run of the same round."""
    ratios = [a[key] / b[key] for a, b in zip(runs[name], runs["plain"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    return (
        f"{100 * (median(ratios) - 1):+.1f} % ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f})"
    )


def report(runs, ns):
    print("| run | images/s: median | to plain | CPU s per 1,000 | to plain | rounds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in VARIANTS:
        rate = median(run["images_per_second"] for run in runs[name])
        cpu = median(run["cpu_seconds_per_1000"] for run in runs[name])
        to_rate = "" if name == "plain" else ratio_row(name, runs, "images_per_second")
        to_cpu = "" if name == "plain" else ratio_row(name, runs, "cpu_seconds_per_1000")
        print(f"| {name} | {rate:,.0f} | {to_rate} | {cpu:.3f} | {to_cpu} | {len(runs[name])} |")
    cpu_ns = median(run["cpu_seconds_per_1000"] for run in runs["plain"]) * 1e6
    print(f"\nStatistics: {ns:,.0f} ns of {cpu_ns:,.0f} ns a sample: {100 * ns / cpu_ns:.2f} %")
    size = median(run["trace_bytes"] for run in runs["traced"]) * 1e-6
    dropped = sum(run["dropped_events"] for run in runs["traced"])
    print(f"A trace: {size:.1f} MB a run; {dropped} events dropped in all of them")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5, help="of each run")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    layout.lay_out(args.data)
    load(layout.SHARDS, args)  # Reads everything once.
    runs = measure(layout.SHARDS, args)
    print(f"{program.machine_line()}; {args.threads} threads, {args.seconds} s a run\n")
    report(runs, statistics_ns())


if __name__ == "__main__":
    main()
