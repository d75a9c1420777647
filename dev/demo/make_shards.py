#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an image folder or a list into tar shards with GNU tar: make_shards.py DATA DIR

What `feedrace ls DATA` names is packed, folders in folders too. Each sample is KEY.jpg (or its own
suffix) beside KEY.cls, which holds the class number. Samples are mixed by a fixed seed, so that
every shard has every class. Of a large set it takes 2,000 pictures spread evenly.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

FEEDRACE = os.environ.get("FEEDRACE_BIN", "build/release/bin/feedrace")
SHARD_COUNT = 8
MAX_PICTURES = 2000
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}


def path_of(entry):
    """A path as `feedrace ls --json` gives it: a text, or hex digits where it is not UTF-8."""
    return entry if isinstance(entry, str) else os.fsdecode(bytes.fromhex(entry["path_hex"]))


def labelled_pictures(data):
    """(picture, class number) of at most MAX_PICTURES, in the order of the data set."""
    result = subprocess.run([FEEDRACE, "ls", data, "--json"], stdout=subprocess.PIPE)
    if result.returncode != 0:
        sys.exit(result.returncode)
    samples = json.loads(result.stdout)["samples"]
    count = min(len(samples), MAX_PICTURES)
    chosen = [samples[i * len(samples) // count] for i in range(count)]
    # Paths are relative to the folder, or to the folder that the list lies in.
    root = data if data.is_dir() else data.parent
    return [(root / path_of(entry), label) for entry, label in chosen]


def without_missing(pictures):
    """Those that are there: a list may name files that are not, which tar would refuse."""
    found = [(picture, label) for picture, label in pictures if picture.is_file()]
    if not found:
        sys.exit(f"make_shards: {pictures[0][0]} and all others are not there; check the list")
    if len(found) < len(pictures):
        missing = next(picture for picture, _ in pictures if not picture.is_file())
        left_out = len(pictures) - len(found)
        print(f"shards: {left_out:,} pictures are not there and left out, such as {missing}")
    return found


def write_shard(path, samples):
    """Stages links and labels, and lets GNU tar follow the links."""
    with tempfile.TemporaryDirectory() as stage:
        names = []
        for key, (picture, label) in samples:
            # The field's name only has to say that it is a picture; which kind, its content does.
            suffix = picture.suffix.lower()
            image = f"{key:06}{suffix if suffix in SUFFIXES else '.jpg'}"
            os.symlink(picture.resolve(), f"{stage}/{image}")
            if label >= 0:  # -1: the list has no labels.
                Path(stage, f"{key:06}.cls").write_text(f"{label}\n")
                names.append(f"{key:06}.cls")
            names.append(image)
        command = ["tar", "--create", "--dereference", "--sort=name", "--format=ustar"]
        command += ["--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=0644"]
        partial = f"{path}.partial"
        subprocess.run([*command, "-C", stage, "-f", partial, *names], check=True)
        os.rename(partial, path)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_shards.py DATA DIR")
    data, target = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    pictures = without_missing(labelled_pictures(data))
    random.Random(0).shuffle(pictures)
    samples = list(enumerate(pictures))
    count = len(samples)
    target.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARD_COUNT):
        part = samples[shard * count // SHARD_COUNT : (shard + 1) * count // SHARD_COUNT]
        if part:
            write_shard(target / f"demo-{shard:03}.tar", part)
    print(f"shards: {count:,} samples in {len(list(target.glob('*.tar')))} tar files, in {target}")


if __name__ == "__main__":
    main()
