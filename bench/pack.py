# SPDX-License-Identifier: Apache-2.0
"""Packing beside copying: python -m bench.pack DATA [--files 20000] [--rounds 3] [--work FOLDER]

Makes a folder of so many files of the pictures in DATA, and then in turns
  copy    cp -r of it, then sync,
  pack    feedrace pack of it, which brings every shard to the disk before it names it,
each into an empty folder, with the source in the page cache. Then the crop index that packing makes
is weighed, the headers of the shards are read, and aligned and plain shards are loaded by O_DIRECT.
Ends with 1 where a count, a byte or a bound is not as it should be.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench import layout, program

SHARDS = 8
LEAST_SHARE_OF_COPY = 0.8
MOST_CROP_SHARE = 0.02
# Of a large set hardly two samples that are wanted at a time lie side by side and share a read.
FAR_APART = "0,0.1"
LEAST_MEMBERS_A_MINUTE = 10_000_000


def make_source(pictures, folder, count):
    """Real copies: hard links would all be the same pages."""
    stamp = folder / ".made"
    if stamp.exists() and stamp.read_text() == str(count):
        return
    shutil.rmtree(folder, ignore_errors=True)
    for i in range(count):
        class_name, path = pictures[i % len(pictures)]
        target = folder / class_name / f"{i:06}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    os.sync()
    stamp.write_text(str(count))


def run(command, log):
    """Wall and CPU seconds, and the most memory in MB, of a command that succeeds."""
    start = time.perf_counter()
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode != 0:
        sys.exit(f"bench: {command}: exit {child.returncode}: {log.read_text()[-500:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def copy(source, target, log):
    wall, cpu, _ = run(["cp", "-r", source, target], log)
    more, more_cpu, _ = run(["sync"], log)
    return wall + more, cpu + more_cpu, 0


def pack(source, target, log, *options):
    command = [program.FEEDRACE, "pack", source, target, "--shards", str(SHARDS), "--json"]
    return run([*command, *options], log)


def warm(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            path.read_bytes()


def in_turns(args, source, work):
    found = {"copy": [], "pack": []}
    for number in range(args.rounds):
        order = ("copy", "pack") if number % 2 == 0 else ("pack", "copy")
        for what in order:
            target = work / what
            shutil.rmtree(target, ignore_errors=True)
            os.sync()
            time.sleep(args.rest)
            warm(source)
            done = (copy if what == "copy" else pack)(source, target, work / "log")
            found[what].append(done)
            print(f"{what}: {done[0]:.1f} s, {done[1]:.1f} s of CPU", flush=True)
    return found


def check_packed(folder, count):
    manifest = json.loads((folder / "manifest.json").read_text())
    made = sum(shard["samples"] for shard in manifest["shards"])
    if made != count:
        sys.exit(f"bench: {folder}: {made:,} samples, not {count:,}")
    program.feedrace("verify", folder, "--no-decode")


def report_rate(found, payload_bytes, plan):
    """Whether packing keeps its share of the rate of copying, and its memory."""
    seconds = {what: [one[0] for one in runs] for what, runs in found.items()}
    for what, runs in found.items():
        walls = seconds[what]
        cpu = median(one[1] for one in runs)
        print(
            f"{what}: median {median(walls):.1f} s ({min(walls):.1f} to {max(walls):.1f}), "
            f"{payload_bytes / median(walls) / 1e6:,.0f} MB/s, {cpu:.1f} s of CPU"
        )
    share = median(seconds["copy"]) / median(seconds["pack"])
    memory = max(one[2] for one in found["pack"])
    planned = plan["memory_bytes"] / 2**20
    print(f"rate of packing / rate of copying: {share:.2f} (at least {LEAST_SHARE_OF_COPY})")
    print(f"memory: {memory:.0f} MB at most, {planned:.0f} MB planned and the program itself")
    return share >= LEAST_SHARE_OF_COPY


def report_crop_index(source, work):
    target = work / "indexed"
    shutil.rmtree(target, ignore_errors=True)
    wall, cpu, _ = pack(source, target, work / "log", "--crop-index")
    shards = sum(path.stat().st_size for path in target.glob("*.tar"))
    crops = sum(path.stat().st_size for path in target.glob("*.frindex/crop_index*.npy"))
    print(
        f"with --crop-index: {wall:.1f} s, {cpu:.1f} s of CPU; {100 * crops / shards:.2f} % more "
        f"bytes (at most {100 * MOST_CROP_SHARE:g} %)"
    )
    shutil.rmtree(target)
    return 0 < crops <= MOST_CROP_SHARE * shards


def report_headers(folder, count, rounds):
    rates = []
    for _ in range(rounds + 1):  # The first one warms.
        made = json.loads(program.feedrace("index", folder, "--rebuild", "--json"))
        if made["samples"] != count:
            sys.exit(f"bench: {folder}: {made['samples']:,} samples, not {count:,}")
        rates.append(2 * count / made["seconds"] * 60)
    rate = median(rates[1:])
    print(f"headers: {rate / 1e6:.0f} million members a minute, of real shards, warm")
    return rate >= LEAST_MEMBERS_A_MINUTE


def report_alignment(source, work, args):
    """Images/s of aligned to plain shards, read past the page cache, and that nothing is copied."""
    folders = {name: work / name for name in ("plain", "aligned")}
    for name, target in folders.items():
        shutil.rmtree(target, ignore_errors=True)
        pack(source, target, work / "log", *(["--align"] if name == "aligned" else []))
    is_good = True
    for recipe, share in (("read", "0,1"), ("read", FAR_APART), ("imagenet-train", "0,1")):
        rates = {name: [] for name in folders}
        for number in range(2 * args.rounds):
            for name in sorted(folders, reverse=number % 2 == 1):
                options = ("--backend", "direct", "--recipe", recipe, "--share", share)
                made = program.bench_loader(folders[name], *options, seconds=args.seconds)
                rates[name].append(made["images_per_second"])
                if set(made["bytes_by_path"]) != {"direct"} or made["copies_per_byte"] != 0:
                    print(f"{name}: {made['bytes_by_path']}: not all of it by O_DIRECT")
                    is_good = False
        ratios = [a / p for a, p in zip(rates["aligned"], rates["plain"], strict=True)]
        print(
            f"O_DIRECT, recipe {recipe}, share {share}: aligned {median(rates['aligned']):,.0f}, "
            f"plain "
            f"{median(rates['plain']):,.0f} images/s; ratio {median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}); 0 bytes copied"
        )
    for target in folders.values():
        shutil.rmtree(target)
    return is_good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of a window of loading")
    parser.add_argument("--rest", type=float, default=2, help="seconds before each turn")
    parser.add_argument("--work", type=Path, default=Path("build/bench-pack"))
    args = parser.parse_args()
    source = args.work / "source"
    make_source(layout.find_pictures(Path(args.data)), source, args.files)
    payload = sum(path.stat().st_size for path in source.rglob("*.jpg"))
    print(f"{program.machine_line()}; load {os.getloadavg()[0]:.1f}")
    print(f"{args.files:,} files, {payload / 1e9:.2f} GB")
    plan = json.loads(
        program.feedrace(
            "pack", source, args.work / "planned", "--shards", SHARDS, "--dry-run", "--json"
        )
    )
    found = in_turns(args, source, args.work)
    check_packed(args.work / "pack", args.files)
    kept = [
        report_rate(found, payload, plan),
        report_headers(args.work / "pack", args.files, args.rounds),
    ]
    for what in found:
        shutil.rmtree(args.work / what)
    kept += [report_crop_index(source, args.work), report_alignment(source, args.work, args)]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
