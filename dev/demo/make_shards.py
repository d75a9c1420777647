#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an image folder into tar shards with GNU tar: make_shards.py FOLDER DIR

Each sample is KEY.jpg (or its own suffix) beside KEY.cls, which holds the class number. Samples
are mixed by a fixed seed, so that every shard has every class. Of a large folder it takes 2,000
pictures spread evenly.
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

SHARD_COUNT = 8
MAX_PICTURES = 2000
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}


def labelled_pictures(folder):
    """(picture, class number) in the order of classes and names; classes count from 0."""
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    return [
        (picture, number)
        for number, class_folder in enumerate(classes)
        for picture in sorted(class_folder.iterdir())
        if picture.suffix.lower() in SUFFIXES
    ]


def write_shard(path, samples):
    """Stages links and labels, and lets GNU tar follow the links."""
    with tempfile.TemporaryDirectory() as stage:
        names = []
        for key, (picture, label) in samples:
            image, text = f"{key:06}{picture.suffix.lower()}", f"{key:06}.cls"
            os.symlink(picture.resolve(), f"{stage}/{image}")
            Path(stage, text).write_text(f"{label}\n")
            names += [text, image]
        command = ["tar", "--create", "--dereference", "--sort=name", "--format=ustar"]
        command += ["--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=0644"]
        partial = f"{path}.partial"
        subprocess.run([*command, "-C", stage, "-f", partial, *names], check=True)
        os.rename(partial, path)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_shards.py FOLDER DIR")
    folder, target = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    pictures = labelled_pictures(folder)
    if not pictures:
        sys.exit(f"make_shards: {folder}: no pictures in class folders; give another folder")
    count = min(len(pictures), MAX_PICTURES)
    chosen = [pictures[i * len(pictures) // count] for i in range(count)]
    random.Random(0).shuffle(chosen)
    samples = list(enumerate(chosen))
    target.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARD_COUNT):
        part = samples[shard * count // SHARD_COUNT : (shard + 1) * count // SHARD_COUNT]
        if part:
            write_shard(target / f"demo-{shard:03}.tar", part)
    print(f"shards: {count:,} samples in {len(list(target.glob('*.tar')))} tar files, in {target}")


if __name__ == "__main__":
    main()
