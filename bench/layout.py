# SPDX-License-Identifier: Apache-2.0
"""Lays out photographs for the benchmarks, the same for every loader.

From a folder of class folders, or a flat folder of JPEGs, it makes in the bench folder
(BENCH_DATA, else build/bench-data):

    images/CLASS/FILE  hard links to the pictures
    list.txt           "images/CLASS/FILE NUMBER" a line, PASSES times all of them
    shards/*.tar       the same samples mixed: KEY.jpg and KEY.cls
    pictures.tar       on request: entry k is the picture of line k, without labels
    square/CLASS/FILE  on request: PASSES times a PNG of SQUARE_PX x SQUARE_PX pixels

An epoch is PASSES passes over the files, so that its end does not dominate the rate.
"""

import io
import json
import os
import random
import shutil
import sys
import tarfile
from pathlib import Path

PASSES = 10
SAMPLES_PER_SHARD = 100
SUFFIXES = {".jpg", ".jpeg"}
SQUARE_PX = 256  # turboloader squeezes pictures so when it stores them decoded.
BENCH_DATA = Path(os.environ.get("BENCH_DATA", "build/bench-data"))

IMAGES, LIST, SHARDS = BENCH_DATA / "images", BENCH_DATA / "list.txt", BENCH_DATA / "shards"
SQUARE = BENCH_DATA / "square"
FLAT_TAR, STAMP = BENCH_DATA / "pictures.tar", BENCH_DATA / "layout.json"


def samples():
    """(path, label) of one pass; labels number the sorted class folders."""
    classes = sorted(folder for folder in IMAGES.iterdir() if folder.is_dir())
    return [
        (str(picture), label)
        for label, folder in enumerate(classes)
        for picture in sorted(folder.iterdir())
    ]


def shards():
    return sorted(str(path) for path in SHARDS.glob("*.tar"))


def epoch():
    """(path, label) of an epoch, in the order of list.txt."""
    return samples() * PASSES


def lay_out(source, with_flat_tar=False):
    """Makes what is missing; everything anew when `source` is another or has changed."""
    pictures = find_pictures(Path(source))
    stamp = describe(source, pictures)
    if not STAMP.exists() or json.loads(STAMP.read_text()) != stamp:
        check_room(stamp["bytes"])
        for old in (IMAGES, SHARDS, SQUARE, BENCH_DATA / "decoded"):
            shutil.rmtree(old, ignore_errors=True)
        for old in (LIST, FLAT_TAR, STAMP):
            old.unlink(missing_ok=True)
        link_pictures(pictures)
        write_list()
        write_shards()
        STAMP.write_text(json.dumps(stamp))
    if with_flat_tar and not FLAT_TAR.exists():
        write_flat_tar()
    print(f"data: {stamp['files']:,} pictures, {stamp['bytes'] / 1e6:.1f} MB, in {BENCH_DATA}")


def find_pictures(source):
    """(class name, path) of each JPEG of a folder of class folders, else of a flat folder."""
    if not source.is_dir():
        sys.exit(f"bench: {source}: no such folder; give DATA= a folder of class folders of JPEGs")
    nested = [
        (folder.name, path)
        for folder in sorted(source.iterdir())
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES
    ]
    flat = [
        (path.name.split("_")[0], path)
        for path in sorted(source.iterdir())
        if path.suffix.lower() in SUFFIXES
    ]
    if not nested and not flat:
        sys.exit(f"bench: {source}: no .jpg or .jpeg in it or its folders; give another folder")
    return nested or flat


def describe(source, pictures):
    sizes = [path.stat() for _, path in pictures]
    return {
        "source": str(Path(source).resolve()),
        "files": len(pictures),
        "bytes": sum(status.st_size for status in sizes),
        "newest_ns": max(status.st_mtime_ns for status in sizes),
        "passes": PASSES,
    }


def check_room(picture_bytes):
    BENCH_DATA.mkdir(parents=True, exist_ok=True)
    wanted, free = 2 * PASSES * picture_bytes, shutil.disk_usage(BENCH_DATA).free
    if wanted > free:
        sys.exit(
            f"bench: {BENCH_DATA}: {PASSES} passes as shards and tar take {wanted / 1e9:.1f} GB, "
            f"{free / 1e9:.1f} GB are free; give DATA= fewer pictures, or BENCH_DATA= another disk"
        )


def link_pictures(pictures):
    for class_name, path in pictures:
        folder = IMAGES / class_name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path.resolve(), folder / path.name)
        except OSError:  # Another file system.
            shutil.copyfile(path, folder / path.name)


def write_list():
    lines = [f"{os.path.relpath(path, BENCH_DATA)} {label}\n" for path, label in epoch()]
    LIST.write_text("".join(lines))


def write_shards():
    # A shard holds a random mix, as from a real packer; the seed keeps it the same everywhere.
    mixed = samples()
    random.Random(0).shuffle(mixed)
    mixed *= PASSES
    SHARDS.mkdir()
    for begin in range(0, len(mixed), SAMPLES_PER_SHARD):
        name = SHARDS / f"shard-{begin // SAMPLES_PER_SHARD:05}.tar"
        with tarfile.open(name, "w", format=tarfile.USTAR_FORMAT) as tar:
            part = mixed[begin : begin + SAMPLES_PER_SHARD]
            for key, (path, label) in enumerate(part, begin):
                add(tar, f"{key:08}.jpg", Path(path).read_bytes())
                add(tar, f"{key:08}.cls", str(label).encode())


def write_flat_tar():
    partial = FLAT_TAR.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, (path, _) in enumerate(epoch()):
            add(tar, f"{key:08}.jpg", Path(path).read_bytes())
    partial.rename(FLAT_TAR)


def square_samples():
    """(path, label) of all passes."""
    classes = sorted(folder for folder in SQUARE.iterdir() if folder.is_dir())
    return [
        (str(path), label)
        for label, folder in enumerate(classes)
        for path in sorted(folder.iterdir())
    ]


def write_squares():
    """What loaders of decoded pictures store, all from the same pixels."""
    from PIL import Image

    partial = SQUARE.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for path, _ in samples():
        picture = Image.open(path).convert("RGB").resize((SQUARE_PX, SQUARE_PX))
        folder = partial / Path(path).parent.name
        folder.mkdir(parents=True, exist_ok=True)
        first = folder / f"{Path(path).stem}-0.png"
        picture.save(first, compress_level=1)
        for i in range(1, PASSES):
            os.link(first, folder / f"{Path(path).stem}-{i}.png")
    partial.rename(SQUARE)


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
