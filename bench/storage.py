# SPDX-License-Identifier: Apache-2.0
"""Reading alone, without decoding: python -m bench.storage FOLDER [--only loader|files|small]

loader: shards by O_DIRECT through the whole loader, whose consumer throws the samples away, in
turns with fio (io_uring, registered buffers and files, 256 KiB, 32 in flight) on the same shards.
files: files of 110 KB opened, read and closed by chains of io_uring with O_DIRECT from one
thread, in turns with 8 threads that read through the page cache, and 8 threads with O_DIRECT.
small: files of 16 KiB, cold, from a folder and from shards, through the loader.

FOLDER, on the disk in question, keeps the data between runs: 12 GB, made at the first one. Needs
root to drop what the kernel remembers of files.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from statistics import median, quantiles

from bench import program

CLASSES = 100
SAMPLE_BYTES = 110_000


def write_sample(folder, tar, number, sample):
    label = number % CLASSES
    (folder / f"c{label:03d}" / f"{number:06d}.jpg").write_bytes(sample)
    for kind, content in (("jpg", sample), ("cls", b"%d" % label)):
        info = tarfile.TarInfo(f"{number:06d}.{kind}")
        info.size = len(content)
        tar.addfile(info, BytesIO(content))


def write_set(folder, shards, count, size, shard_count):
    """The same samples as files and as shards; random bytes, since nothing decodes them."""
    if (folder / "done").exists():
        return
    noise = os.urandom(64 << 20)
    for i in range(CLASSES):
        (folder / f"c{i:03d}").mkdir(parents=True, exist_ok=True)
    shards.mkdir(exist_ok=True)
    numbers = range(count)
    for shard in range(shard_count):
        with tarfile.open(shards / f"s-{shard:03d}.tar", "w") as tar:
            for i in numbers[count * shard // shard_count : count * (shard + 1) // shard_count]:
                at = i * 7919 % (len(noise) - size)
                write_sample(folder, tar, i, noise[at : at + size])
    os.sync()
    (folder / "done").write_text("")


def drop_caches():
    """Pages, and what the kernel remembers of names and inodes."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def read_only(path, *options):
    """A run of the loader that decodes nothing, as JSON."""
    text = program.feedrace("bench", "loader", path, "--recipe", "read", "--json", *options)
    return json.loads(text)


def loader_rate(shards, shuffle, seconds):
    """GB/s of the loader, and the copies of a byte."""
    run = read_only(
        shards, "--page-cache", "drop", "--backend", "uring", "--fallback", "error",
        "--shuffle", shuffle, "--seconds", seconds,
    )  # fmt: skip
    size = sum(run["bytes_by_path"].values())
    if run["bytes_by_path"].get("direct", 0) != size:
        sys.exit(f"bench: not all bytes came by O_DIRECT: {run['bytes_by_path']}")
    # Of samples alone: tar headers and what lies between samples are read too, but not counted.
    return run["images_per_second"] * SAMPLE_BYTES / 1e9, run["copies_per_byte"]


def fio_rate(shards, order, seconds):
    names = ":".join(str(path) for path in sorted(shards.glob("*.tar")))
    command = [
        "fio", "--name=x", f"--filename={names}", "--readonly", "--direct=1", f"--rw={order}",
        "--bs=256k", "--ioengine=io_uring", "--iodepth=32", "--fixedbufs", "--registerfiles",
        "--time_based", f"--runtime={seconds}", "--randrepeat=0", "--norandommap",
        "--iomem_align=4096", "--file_service_type=sequential", "--output-format=json",
    ]  # fmt: skip
    environment = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(text.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e9


def line(what, values, wanted, is_good):
    low, _, high = quantiles(values, n=4)
    verdict = "yes" if is_good else "**no**"
    print(f"| {what} | {median(values):.3f} ({low:.3f}–{high:.3f}) | {wanted} | {len(values)} "
          f"| {verdict} |", flush=True)  # fmt: skip
    return is_good


def compare_loader(shards, args):
    good = True
    for shuffle, order in (("none", "read"), ("global", "randread")):
        ratios, copies = [], set()
        for pair in range(args.pairs):
            if pair % 2:
                fio = fio_rate(shards, order, args.seconds)
            ours, copied = loader_rate(shards, shuffle, args.seconds)
            if not pair % 2:
                fio = fio_rate(shards, order, args.seconds)
            ratios.append(ours / fio)
            copies.add(copied)
        title = f"loader / fio, shuffle {shuffle}, rate; copies a byte {sorted(copies)}"
        good &= line(title, ratios, "≥ 0.9", median(ratios) >= 0.9 and copies == {0})
    return good


def compare_files(folder, args):
    runs = []
    for _ in range(args.rounds):
        drop_caches()
        text = program.feedrace("bench", "files", folder, "--json", "--limit", args.files)
        runs.append({row["path"]: row for row in json.loads(text)})
    good = True
    for other in ("threads", "threads+direct"):
        for key, wanted in (("files_per_second", 1.0), ("cpu_us_per_file", 0.5)):
            ratios = [run["uring+direct"][key] / run[other][key] for run in runs]
            is_rate = key == "files_per_second"
            reached = median(ratios) >= wanted if is_rate else median(ratios) <= wanted
            title = f"chains / 8 {other}, {'rate' if is_rate else 'CPU a file'}"
            result = line(title, ratios, f"{'≥' if is_rate else '≤'} {wanted}", reached)
            good &= result or other != "threads"
    for name in runs[0]:
        rate = median(run[name]["files_per_second"] for run in runs)
        cpu = median(run[name]["cpu_us_per_file"] for run in runs)
        print(f"|  {name}: {rate:.0f} files/s, {cpu:.1f} us of CPU a file | | | | |", flush=True)
    return good


def small_rate(path, shuffle, seconds):
    drop_caches()
    options = ("--page-cache", "drop", "--shuffle", shuffle, "--seconds", seconds)
    return read_only(path, *options)["images_per_second"]


def compare_small(folder, shards, args):
    """Shards in the orders that they are read in, against the folder in any order."""
    ratios = {"none": [], "window": [], "global": []}
    for _ in range(args.rounds):
        files = small_rate(folder, "global", args.seconds)
        rates = {shuffle: small_rate(shards, shuffle, args.seconds) for shuffle in ratios}
        for shuffle, rate in rates.items():
            ratios[shuffle].append(rate / files)
        text = ", ".join(f"{shuffle} {rate:.0f}/s" for shuffle, rate in rates.items())
        print(f"|  folder {files:.0f}/s; shards {text} | | | | |", flush=True)
    good = True
    for shuffle, values in ratios.items():
        title = f"16 KiB cold, shards / folder, shuffle {shuffle}, rate"
        good &= line(title, values, "≥ 3", median(values) >= 3)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data lie, or are made: 24 GB")
    parser.add_argument("--only", choices=("loader", "files", "small"))
    parser.add_argument("--pairs", type=int, default=30, help="of loader and fio")
    parser.add_argument("--rounds", type=int, default=5, help="of files and small")
    parser.add_argument("--seconds", type=float, default=3, help="of a turn")
    parser.add_argument("--files", type=int, default=100_000, help="of 110 KB")
    args = parser.parse_args()
    large, small = args.folder / "files-110k", args.folder / "files-16k"
    write_set(large, args.folder / "shards-110k", args.files, SAMPLE_BYTES, 16)
    write_set(small, args.folder / "shards-16k", 100_000, 16 << 10, 8)
    print(f"{program.machine_line()}\n")
    print(
        "| what | median (quartiles) | wanted | turns | reached |\n| --- | --- | --- | --- | --- |"
    )
    good = True
    if args.only in (None, "loader"):
        good &= compare_loader(args.folder / "shards-110k", args)
    if args.only in (None, "files"):
        good &= compare_files(large, args)
    if args.only in (None, "small"):
        good &= compare_small(small, args.folder / "shards-16k", args)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
