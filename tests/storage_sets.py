# SPDX-License-Identifier: Apache-2.0
"""Data sets that are hard on storage, and what was read of them."""

from conftest import run
from digests import digest
from pictures import jpeg, pack_shards

BACKENDS = ("auto", "uring", "direct", "buffered")
FORMS = ("folder", "shards")
BATCH = ("--batch", "4", "--last-batch", "partial")

# Around the edges of sectors, of pages, and of a read buffer of 256 KiB.
SIZES = (
    1535, 1536, 1537, 4095, 4096, 4097, 8192, 20000, 65536, 262143, 262144, 262145, 266240, 300001,
)  # fmt: skip


def padded(picture, size):
    """The picture in a file of `size` bytes: comments fill it up."""
    rest = size - len(picture)
    comments = []
    while rest > 0:
        length = min(rest, 65537)
        if 0 < rest - length < 4:  # Too little for the next one.
            length -= 4
        assert length >= 4, "no comment is that short"
        comments.append(b"\xff\xfe" + (length - 2).to_bytes(2, "big") + b" " * (length - 4))
        rest -= length
    return picture[:2] + b"".join(comments) + picture[2:]


def make_sets(root, sizes=SIZES):
    """The same pictures as a folder and as shards."""
    for number, size in enumerate(sizes):
        picture = root / "folder" / ("cat", "dog")[number % 2] / f"{number:03}.jpg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(padded(jpeg(number), size))
        assert picture.stat().st_size == size
    pack_shards(root / "folder", root / "shards", per_shard=4)
    return root


def batches(source, *options, **more):
    """What a run delivered, batch by batch."""
    return digest(source, *BATCH, *options, **more)


def read_report(source, *options, **more):
    """The report of an epoch that was read and not decoded."""
    arguments = ("--recipe", "read", "--epochs", "1", "--json", *BATCH)
    return run("bench", "loader", source, *arguments, *options, **more).json()


def fallbacks(report):
    return [entry["reason"] for entry in report["fallbacks"]]
