# SPDX-License-Identifier: Apache-2.0
"""Feedrace by its own program: a process a window, as it measures one window itself."""

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import layout, program
from bench.peers import measure

UNINDEXED = ("--crop-index", "off")
FLOAT32 = ("--dtype", "float32", *UNINDEXED)
DECODED = layout.BENCH_DATA / "decoded"
INDEXED = ("--crop-index", "auto")
VARIANTS = {
    "feedrace_folder": ("files", layout.LIST, UNINDEXED),
    "feedrace_folder_fp32": ("files", layout.LIST, FLOAT32),
    "feedrace_shards": ("shards", layout.SHARDS, UNINDEXED),
    "feedrace_shards_fp32": ("shards", layout.SHARDS, FLOAT32),
    "feedrace_shards_indexed": ("shards", layout.SHARDS, INDEXED),
    "feedrace_decoded": ("decoded", DECODED, UNINDEXED),
    "feedrace_decoded_fp32": ("decoded", DECODED, FLOAT32),
}
STEPS_CHECKED = 4


def children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check_output(path, options):
    """Looks at real batches; this also puts the index and the page cache in place."""
    check = measure.OutputCheck()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(STEPS_CHECKED):
            program.feedrace("batch", path, "--out", folder, "--step", step, *options)
            check.look_at(np.load(Path(folder, "images.npy")), np.load(Path(folder, "labels.npy")))
    return check.report()


def run_window(path, options, seconds):
    busy, cpu, start = measure.machine_busy_seconds(), children_cpu_seconds(), time.perf_counter()
    report = program.bench_loader(path, *options, seconds=seconds)
    wall = time.perf_counter() - start
    foreign = measure.machine_busy_seconds() - busy - (children_cpu_seconds() - cpu)
    window = {
        "img_s": round(report["images_per_second"], 1),
        "cpu_s_per_1000": round(report["cpu_seconds_per_1000"], 3),
        "foreign_cores": round(max(0.0, foreign) / wall, 2),
    }
    return window, report


def main():
    config = measure.arguments(list(VARIANTS))
    source, path, more = VARIANTS[config.variant]
    if more == INDEXED:
        program.feedrace("index", path, "--crop-index")
    if source == "decoded" and not (path / "manifest.json").exists():
        program.feedrace("pack", layout.SQUARE, path, "--raw", 0, "--shuffle", "--shards", 8)
    options = ("--batch", config.batch, "--threads", config.threads, "--seed", config.seed, *more)
    result = {"source": source, **check_output(path, options)}
    runs = [run_window(path, options, config.seconds) for _ in range(config.windows)]
    reports = [report for _, report in runs]
    result |= {
        "version": f"feedrace {reports[0]['machine']['version']}",
        "first_batch_s": round(reports[0]["first_batch_seconds"], 3),
        "import_s": 0,
        "windows": [window for window, _ in runs],
        "peak_rss_mb": round(max(report["peak_rss_mb"] for report in reports)),
    }
    measure.print_result(config, result)


if __name__ == "__main__":
    main()
