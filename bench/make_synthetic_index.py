# SPDX-License-Identifier: Apache-2.0
"""Makes a shard set of any size out of one real shard, to measure memory and start-up with:

    python -m bench.make_synthetic_index SHARD.tar FOLDER SAMPLES

FOLDER gets a link to the shard and an index of SAMPLES samples. Each has a key of its own and
leads to a real member of the shard, one after the other and over again; so reading and decoding are
real, only the set is not. 100 million samples take about 7.5 GB.
"""

import ctypes
import ctypes.util
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from bench import program

TYPES = {
    "shard": np.uint32, "label": np.int64, "label_state": np.uint8, "first_member": np.uint64,
    "key_begin": np.uint64, "keys": np.uint8, "field": np.uint16, "offset": np.uint64,
    "size": np.uint64,
}  # fmt: skip
KEY_BYTES = 12
CHUNK_SAMPLES = 1 << 20
LABEL_MISSING, LABEL_OK, LABEL_BAD = 0, 1, 2


class Hash:
    """XXH3 of what was added, 64 bits, by the library that Feedrace itself uses."""

    def __init__(self):
        name = ctypes.util.find_library("xxhash")
        if name is None:
            sys.exit("bench: no libxxhash; run dev/setup")
        self.library = ctypes.CDLL(name)
        self.library.XXH3_createState.restype = ctypes.c_void_p
        self.library.XXH3_64bits_digest.restype = ctypes.c_uint64
        self.state = ctypes.c_void_p(self.library.XXH3_createState())
        self.library.XXH3_64bits_reset(self.state)

    def add(self, data):
        self.library.XXH3_64bits_update(self.state, data, ctypes.c_size_t(len(data)))

    def text(self):
        """16 hex digits; nothing can be added behind it."""
        digest = self.library.XXH3_64bits_digest(self.state)
        self.library.XXH3_freeState(self.state)
        return f"{digest:016x}"


class Shard:
    """The real index of one shard, in columns, and the bytes of the image of each sample."""

    def __init__(self, index):
        self.meta = json.loads((index / "meta.json").read_text())
        for name in TYPES:
            setattr(self, name, np.load(index / f"{name}.npy"))
        if self.meta["images"] != self.meta["samples"]:
            sys.exit(f"bench: {index}: samples without an image; give another shard")
        self.samples, self.members = self.meta["samples"], self.meta["members"]
        self.image_bytes = self.find_image_bytes()

    def find_image_bytes(self):
        """The first of the image fields that a sample has is its image."""
        sizes = np.zeros(self.samples, np.uint64)
        owner = np.repeat(np.arange(self.samples), np.diff(self.first_member).astype(np.int64))
        for name in reversed(json.loads(self.meta["options"])["images"]):
            if name in self.meta["fields"]:
                chosen = self.field == self.meta["fields"].index(name)
                sizes[owner[chosen]] = self.size[chosen]
        return sizes

    def fingerprint(self):
        """As Feedrace computes it: of key, image size, label and its state, sample by sample."""
        total = Hash()
        for i in range(self.samples):
            key = self.keys[int(self.key_begin[i]) : int(self.key_begin[i + 1])].tobytes()
            numbers = (self.image_bytes[i], self.label[i], self.label_state[i])
            total.add(len(key).to_bytes(8, "little") + key)
            total.add(b"".join(int(n).to_bytes(8, "little", signed=n < 0) for n in numbers))
        return total.text()


def keys_of(numbers):
    """Decimal digits, KEY_BYTES a key, as an array of bytes."""
    powers = 10 ** np.arange(KEY_BYTES - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def fingerprint_bytes(shard, keys, real):
    """What the fingerprint is computed of for samples with these keys, of these real samples."""
    record = np.dtype(
        [("length", "<u8"), ("key", "u1", KEY_BYTES), ("size", "<u8"), ("label", "<i8"),
         ("state", "<u8")]
    )  # fmt: skip
    records = np.empty(len(real), record)
    records["length"], records["key"] = KEY_BYTES, keys
    records["size"], records["label"] = shard.image_bytes[real], shard.label[real]
    records["state"] = shard.label_state[real]
    return records.tobytes()


def columns_of(shard, begin, end, keys):
    """Values of each column for the samples [begin, end); begin is at the first real sample."""
    numbers = np.arange(begin, end)
    rounds, real = np.divmod(numbers, shard.samples)
    ends = rounds.astype(np.uint64) * np.uint64(shard.members) + shard.first_member[real + 1]
    first = begin // shard.samples * shard.members
    members = np.arange(first, int(ends[-1])) % shard.members
    return real, {
        "shard": np.zeros(end - begin, np.uint32),
        "label": shard.label[real],
        "label_state": shard.label_state[real],
        "first_member": ends,
        "key_begin": (numbers + 1).astype(np.uint64) * np.uint64(KEY_BYTES),
        "keys": keys,
        "field": shard.field[members],
        "offset": shard.offset[members],
        "size": shard.size[members],
    }


class Columns:
    """The .npy files of an index. Headers come last, when counts are known."""

    HEADER_BYTES = 128

    def __init__(self, folder):
        self.files = {name: (folder / f"{name}.npy").open("wb") for name in TYPES}
        self.counts = dict.fromkeys(TYPES, 0)
        for file in self.files.values():
            file.write(bytes(self.HEADER_BYTES))
        self.append({"first_member": np.zeros(1), "key_begin": np.zeros(1)})

    def append(self, values):
        for name, column in values.items():
            self.counts[name] += column.size
            column.astype(TYPES[name], copy=False).tofile(self.files[name])

    def finish(self):
        for name, file in self.files.items():
            header = {"descr": np.dtype(TYPES[name]).str, "fortran_order": False}
            file.seek(0)
            shape = {"shape": (self.counts[name],)}
            np.lib.format.write_array_header_1_0(file, header | shape)
            if file.tell() != self.HEADER_BYTES:
                sys.exit(f"bench: header of {file.name} takes {file.tell()} bytes, not 128")
            file.close()


def write_index(shard, folder, samples):
    folder.mkdir()
    columns, fingerprint = Columns(folder), Hash()
    image_bytes, states = 0, np.zeros(3, np.int64)
    chunk = max(1, CHUNK_SAMPLES // shard.samples) * shard.samples
    for begin in range(0, samples, chunk):
        end = min(begin + chunk, samples)
        keys = keys_of(np.arange(begin, end))
        real, values = columns_of(shard, begin, end, keys)
        columns.append(values)
        fingerprint.add(fingerprint_bytes(shard, keys, real))
        image_bytes += int(shard.image_bytes[real].sum())
        states += np.bincount(shard.label_state[real], minlength=3)
    columns.finish()
    members = columns.counts["field"]
    meta = shard.meta | {
        "samples": samples,
        "members": members,
        "images": samples,
        "labelled": int(states[LABEL_OK]),
        "bad_labels": int(states[LABEL_BAD]),
        "unlabelled": int(states[LABEL_MISSING]),
        "max_image_bytes": int(shard.image_bytes[: min(samples, shard.samples)].max()),
        "mean_image_bytes": image_bytes / samples,
        "fingerprint": fingerprint.text(),
        "shards": [shard.meta["shards"][0] | {"samples": samples, "members": members}],
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def index_bytes(samples):
    """What an index of so many samples with an image and a label takes, about."""
    one_a_sample = sum(np.dtype(TYPES[name]).itemsize for name in list(TYPES)[:5])
    return samples * (one_a_sample + KEY_BYTES + 2 * (2 + 8 + 8))


def make(shard_path, folder, samples):
    """The folder of the set. Replaces what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted, free = index_bytes(samples), shutil.disk_usage(folder).free
    if wanted > free:
        sys.exit(
            f"bench: {folder}: {wanted:,} bytes needed, {free:,} free; free some, or set BENCH_DATA"
        )
    os.link(shard_path, folder / "shard.tar")
    program.feedrace("index", folder)
    index, real = folder / "shards.frindex", folder / "real.frindex"
    index.rename(real)
    shard = Shard(real)
    if shard.fingerprint() != shard.meta["fingerprint"]:
        sys.exit(f"bench: {real}: its fingerprint is computed in another way than here")
    write_index(shard, index, samples)
    shutil.rmtree(real)
    return folder


def sample_count(folder):
    """What the index in the folder of a set states."""
    return json.loads((folder / "shards.frindex" / "meta.json").read_text())["samples"]


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: python -m bench.make_synthetic_index SHARD.tar FOLDER SAMPLES")
    folder, samples = Path(sys.argv[2]), int(sys.argv[3])
    make(Path(sys.argv[1]), folder, samples)
    print(f"{folder}: {samples:,} samples")


if __name__ == "__main__":
    main()
