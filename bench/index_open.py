# SPDX-License-Identifier: Apache-2.0
"""How fast are headers of shards found, and how soon is an index of them open?

    python -m bench.index_open FOLDER [ROUNDS]

makes 500 shards of 3,000 small samples each (hard links of one, 11 MB), reads their headers with a
warm cache, opens their index, and then one of a billion samples: the same shards, and columns that
are holes, as opening looks at few of their values. Medians of ROUNDS=5; ends with 1 where a number
that the program states is not what was made, or a bound is not kept.
"""

import io
import json
import os
import shutil
import statistics
import sys
import tarfile
from pathlib import Path

import numpy as np

from bench import program

SHARDS = 500
SAMPLES_A_SHARD = 3_000
MEMBERS_A_SAMPLE = 2
PICTURE_BYTES = 2_000
BILLION = 1_000_000_000
KEY_BYTES = 8
LEAST_MEMBERS_A_MINUTE = 10_000_000
MOST_MS = {SHARDS * SAMPLES_A_SHARD: 20, BILLION: 100}
HEADER_BYTES = 128


def make_shards(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    first = folder / "s-000.tar"
    with tarfile.open(first, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(SAMPLES_A_SHARD):
            for name, content in (("jpg", bytes(PICTURE_BYTES)), ("cls", b"%d" % (i % 10))):
                info = tarfile.TarInfo(f"{i:0{KEY_BYTES}}.{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    for i in range(1, SHARDS):
        os.link(first, folder / f"s-{i:03}.tar")


def index(folder, samples, *options):
    """Seconds that the program states, of an index that has all samples."""
    made = json.loads(program.feedrace("index", folder, "--json", *options))
    if (made["shards"], made["samples"], made["images"]) != (SHARDS, samples, samples):
        sys.exit(f"bench: {folder}: {made}: not {samples:,} samples in {SHARDS} shards")
    if made["warnings"]:
        sys.exit(f"bench: {folder}: {made['warnings']}")
    return made["seconds"]


def column_counts(samples):
    return {
        "shard": samples, "label": samples, "label_state": samples, "first_member": samples + 1,
        "key_begin": samples + 1, "keys": samples * KEY_BYTES, "field": samples * MEMBERS_A_SAMPLE,
        "offset": samples * MEMBERS_A_SAMPLE, "size": samples * MEMBERS_A_SAMPLE,
    }  # fmt: skip


def widen(folder, samples):
    """Makes the index one of so many samples, all of them holes but for the last ends."""
    place = folder / "shards.frindex"
    meta = json.loads((place / "meta.json").read_text())
    counts = column_counts(samples)
    ends = {"first_member": samples * MEMBERS_A_SAMPLE, "key_begin": samples * KEY_BYTES}
    for path in place.glob("*.npy"):
        dtype = np.load(path, mmap_mode="r").dtype
        count = counts[path.stem]
        with path.open("wb") as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": (count,)}
            np.lib.format.write_array_header_1_0(file, header)
            if file.tell() != HEADER_BYTES:
                sys.exit(f"bench: {path}: its header takes {file.tell()} bytes, not {HEADER_BYTES}")
            file.truncate(HEADER_BYTES + count * dtype.itemsize)
            if path.stem in ends:
                file.seek(-dtype.itemsize, os.SEEK_END)
                file.write(np.array(ends[path.stem], dtype).tobytes())
    each = samples // SHARDS
    of_shard = {"samples": each, "images": each, "members": each * MEMBERS_A_SAMPLE}
    meta["shards"] = [shard | of_shard for shard in meta["shards"]]
    meta |= {"samples": samples, "images": samples, "members": samples * MEMBERS_A_SAMPLE}
    meta |= {"labelled": samples}
    (place / "meta.json").write_text(json.dumps(meta))


def report(what, values, unit, is_kept):
    print(
        f"{what}: median {statistics.median(values):,.1f} {unit} "
        f"({min(values):,.1f} to {max(values):,.1f}){'' if is_kept else ', beyond the bound'}"
    )
    return is_kept


def time_headers(folder, rounds):
    samples = SHARDS * SAMPLES_A_SHARD
    index(folder, samples, "--rebuild")  # Into the page cache.
    members = samples * MEMBERS_A_SAMPLE
    rates = [members / index(folder, samples, "--rebuild") * 60 / 1e6 for _ in range(rounds)]
    is_kept = statistics.median(rates) * 1e6 >= LEAST_MEMBERS_A_MINUTE
    return report(
        "headers read, labels and index written", rates, "million members a minute", is_kept
    )


def time_opening(folder, samples, rounds):
    index(folder, samples)
    times = [index(folder, samples) * 1e3 for _ in range(rounds)]
    is_kept = statistics.median(times) <= MOST_MS[samples]
    return report(f"index of {samples:,} samples in {SHARDS} shards open", times, "ms", is_kept)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m bench.index_open FOLDER [ROUNDS]")
    folder = Path(sys.argv[1]) / "index-open"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"{program.machine_line()}; load {os.getloadavg()[0]:.1f}")
    make_shards(folder)
    kept = [time_headers(folder, rounds), time_opening(folder, SHARDS * SAMPLES_A_SHARD, rounds)]
    widen(folder, BILLION)
    kept.append(time_opening(folder, BILLION, rounds))
    shutil.rmtree(folder)
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
