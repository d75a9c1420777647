# SPDX-License-Identifier: Apache-2.0
"""Applies remedies that a verdict names, and compares predicted gains with the measured ones.

    python -m bench.gains DATA [--seconds 5] [--rounds 3]

DATA is a folder of JPEG files. Each line: a remedy, images/s before, predicted, and measured.
Before and after are run in turn, so that a machine that slows down slows both; medians. Ends with 1
when a measured gain is more than 25 % away from the predicted one, or a verdict does not name the
remedy. Takes two cores; what takes root or FUSE is left out where they can't be had, and said.
"""

import argparse
import json
import os
import statistics
import sys
import tarfile
import tempfile
from pathlib import Path

from bench.program import feedrace, machine_line
from bench.situations import Data, UnavailableError, explain, need_root, slow_store, warm

TOLERANCE = 0.25


class Remedy:
    """One that was applied: its rates before and after, by rounds, and what was predicted."""

    def __init__(self, name):
        self.name = name
        self.before, self.predicted, self.after = [], [], []

    def add(self, verdict, action, after):
        offered = [r for r in verdict["remedies"] if action in r["action"]]
        if not offered or offered[0]["images_per_second"] is None:
            sys.exit(f"gains: {self.name}: the verdict predicts nothing for it: {verdict['text']}")
        self.before.append(verdict["images_per_second"])
        self.predicted.append(offered[0]["images_per_second"])
        self.after.append(after["images_per_second"])

    def line(self):
        before, predicted, after = map(statistics.median, (self.before, self.predicted, self.after))
        error = predicted / after - 1
        print(f"{self.name:24}{before:10.0f}{predicted:10.0f}{after:10.0f}{100 * error:+9.0f} %",
              flush=True)  # fmt: skip
        return abs(error) <= TOLERANCE


def threads(data, seconds, rounds):
    warm(data.shards)
    remedy = Remedy("1 -> 2 threads")
    for _ in range(rounds):
        one = explain(data.shards, seconds, "--threads", 1)
        remedy.add(one, "2 decode threads", explain(data.shards, seconds, "--threads", 2))
    return remedy


def ceilings_of(path, seconds, *options):
    return json.loads(feedrace("bench", "ceilings", path, "--seconds", seconds, "--json", *options))


def with_ceilings(data, found):
    file = data.root / "ceilings.json"
    file.write_text(json.dumps(found))
    return "--ceilings", file


def crop_index(data, seconds, rounds):
    """Beside a set without: its shards are linked to another folder, where the index lies."""
    warm(data.shards)
    indexed = data.root / "indexed"
    indexed.mkdir()
    for shard in data.shards.glob("*.tar"):
        os.link(shard, indexed / shard.name)
    feedrace("index", indexed, "--crop-index")
    remedy = Remedy("crop index")
    measured = with_ceilings(data, ceilings_of(data.shards, seconds / 2))
    for _ in range(rounds):
        plain = explain(data.shards, seconds, "--threads", 1, *measured)
        remedy.add(plain, "a crop index", explain(indexed, seconds, "--threads", 1))
    return remedy


def shards(data, seconds, rounds):
    need_root()
    options = ("--page-cache", "drop", "--backend", "direct", "--shuffle", "window")
    remedy = Remedy("folder -> shards")
    # A shard of some of the files stands for all, as `--scratch` makes it where it can write.
    sample = data.root / "sample"
    sample.mkdir()
    with tarfile.open(sample / "0.tar", "w") as tar:
        for file in sorted(data.folder.rglob("*.jpg"))[::4]:
            tar.add(file, file.name)
    with slow_store(data.root, 4, parallel=False) as at:
        for _ in range(rounds):
            found = ceilings_of(at / "folder", seconds / 2, *options)
            packed = ceilings_of(at / "sample", seconds / 2, *options)
            found["ceilings"]["packed"] = packed["ceilings"]["storage"]
            files = explain(at / "folder", seconds, *with_ceilings(data, found), *options)
            remedy.add(files, "shards", explain(at / "shards", seconds, *options))
    return remedy


def prefetch(data, seconds, rounds):
    """A window of one batch of two pictures on a store that answers late, but several at a time."""
    need_root()
    options = ("--page-cache", "drop", "--backend", "direct", "--batch", 2)
    remedy = Remedy("prefetch 1 -> 2")
    with slow_store(data.root, 40, parallel=True) as at:
        measured = with_ceilings(data, ceilings_of(at / "folder", seconds, *options))
        for _ in range(rounds):
            one = explain(at / "folder", seconds, *measured, *options, "--prefetch-factor", 1)
            two = explain(at / "folder", seconds, *options, "--prefetch-factor", 2)
            remedy.add(one, "decoding further ahead", two)
    return remedy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only")
    parser.add_argument("--pictures", type=int, default=1000)
    given = parser.parse_args()
    pictures = sorted(p for p in given.data.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    if not pictures:
        sys.exit(f"gains: {given.data}: no JPEG files; give a folder with some")
    print(machine_line())
    print(f"{'remedy':24}{'before':>10}{'predicted':>10}{'measured':>10}{'off by':>10}")
    is_good = True
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as root:
        data = Data(pictures, Path(root), given.pictures)
        for make in (threads, crop_index, shards, prefetch):
            if given.only not in (None, make.__name__):
                continue
            try:
                is_good &= make(data, given.seconds, given.rounds).line()
            except UnavailableError as e:
                print(f"{make.__name__:24}left out: {e}")
    if not is_good:
        sys.exit(1)


if __name__ == "__main__":
    main()
