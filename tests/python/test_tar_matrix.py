# SPDX-License-Identifier: Apache-2.0
"""Shards of many tools read by us, and ours by theirs: the same keys, fields and bytes.

FEEDRACE_PACK names a command that packs, as `COMMAND SHARD FOLDER` packs FOLDER into shards of its
own: those are read by the other tools too.
"""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace"))

PLAIN = ["a", "b", "class/c"]
NAMES = {
    "plain": PLAIN,
    "blanks": ["a b", "class one/c d"],
    "non-ascii": ["größe", "文件/猫"],
    "latin-1": [os.fsdecode(b"gr\xf6\xdfe"), "b"],
    "long": ["x" * 140, "d/" + "y" * 90 + "/" + "z" * 120],
    "long folder": ["f" * 60 + "/" + "g" * 60 + "/h", "i"],
    "quotes": ["it's", 'say "yes"', "back\\slash"],
    "leading dash": ["-rf", "--help"],
}
# The fields of sample `i`, in the order in which they are packed; dots in a field belong to it.
FIELDS = ("jpg", "cls", "seg.png", "0001.json")


def content_of(key, field):
    """Of all lengths around a block's."""
    name = os.fsencode(f"{key}/{field}")
    return (name * 40)[: len(name) * 7 % 530]


def samples_of(names):
    return {key: {field: content_of(key, field) for field in FIELDS} for key in names}


def members_of(names):
    return [(f"{k}.{f}", data) for k, fields in samples_of(names).items() for f, data in
            fields.items()]  # fmt: skip


def read_by_us(shard):
    """{key as bytes: {field: bytes}} in order."""
    made = subprocess.run([PROGRAM, "ls", shard, "--json"], capture_output=True)
    assert made.returncode == 0, made.stderr
    content = shard.read_bytes()
    found = {}
    for sample in json.loads(made.stdout)["samples"]:
        key = bytes.fromhex(sample["key_hex"]) if "key_hex" in sample else sample["key"].encode()
        found[key] = {
            name: content[place["offset"] : place["offset"] + place["size"]]
            for name, place in sample["fields"].items()
        }
    return found


def expected(names):
    return {os.fsencode(key): fields for key, fields in samples_of(names).items()}


# How others write. Each takes the shard's path, members in order and an empty folder.


def by_tarfile(form):
    def write(shard, members, _):
        with tarfile.open(shard, "w", format=form, encoding="utf-8") as tar:
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))

    return write


def lay_out(members, folder):
    for name, data in members:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def by_command(*command):
    """A program that reads the names, each with a NUL behind it, from a file."""

    def write(shard, members, folder):
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        lay_out(members, folder)
        listing = folder.parent / "names"
        listing.write_bytes(b"".join(os.fsencode(name) + b"\0" for name, _ in members))
        filled = [part.format(shard=shard, names=listing) for part in command]
        made = subprocess.run(filled, cwd=folder, capture_output=True)
        # bsdtar leaves such a member out, says so, and ends with 0.
        if re.search(b"too long", made.stderr):
            pytest.skip(f"this form can't hold the name: {made.stderr[:80]!r}")
        assert made.returncode == 0, made.stderr

    return write


def gnu_tar(form):
    return by_command(
        "tar", f"--format={form}", "-cf", "{shard}", "--null", "--no-recursion",
        "--verbatim-files-from", "-T", "{names}",
    )  # fmt: skip


def bsdtar(form):
    return by_command("bsdtar", "--format", form, "-cnf", "{shard}", "--null", "-T", "{names}")


def by_webdataset(shard, members, _):
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(shard), encoder=False) as writer:
        samples = {}
        for name, data in members:
            folder, _, base = name.rpartition("/")
            key, _, field = base.partition(".")
            samples.setdefault(f"{folder}/{key}" if folder else key, {})[field] = data
        for key, fields in samples.items():
            writer.write({"__key__": key, **fields})


WRITERS = {
    "tarfile ustar": by_tarfile(tarfile.USTAR_FORMAT),
    "tarfile gnu": by_tarfile(tarfile.GNU_FORMAT),
    "tarfile pax": by_tarfile(tarfile.PAX_FORMAT),
    "tar v7": gnu_tar("v7"),
    "tar ustar": gnu_tar("ustar"),
    "tar gnu": gnu_tar("gnu"),
    "tar posix": gnu_tar("posix"),
    "bsdtar ustar": bsdtar("ustar"),
    "bsdtar pax": bsdtar("pax"),
    "bsdtar gnutar": bsdtar("gnutar"),
    "bsdtar v7": bsdtar("v7"),
    "webdataset": by_webdataset,
}


def write(writer, shard, names, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    try:
        WRITERS[writer](shard, members_of(NAMES[names]), folder)
    except (ValueError, UnicodeEncodeError) as error:
        pytest.skip(f"this form can't hold the name: {error}")


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("writer", WRITERS)
def test_shards_of_other_tools_are_read(writer, names, tmp_path):
    shard = tmp_path / "s.tar"
    write(writer, shard, names, tmp_path)
    found, wanted = read_by_us(shard), expected(NAMES[names])
    if writer == "webdataset":
        # It sorts the fields of a sample.
        wanted = {k: {f: v[f] for f in sorted(v)} for k, v in wanted.items()}
    assert found == wanted
    assert list(found) == list(wanted)


# How others read. Each gives {key as bytes: {field: bytes}}.


def split(name):
    folder, _, base = os.fsencode(name).rpartition(b"/")
    key, _, field = base.partition(b".")
    return (folder + b"/" + key if folder else key), field.decode().lower()


def grouped(members):
    found = {}
    for name, data in members:
        key, field = split(name)
        found.setdefault(key, {})[field] = data
    return found


def read_by_tarfile(shard):
    with tarfile.open(shard) as tar:
        return grouped((m.name, tar.extractfile(m).read()) for m in tar if m.isfile())


def read_by_program(program):
    def read(shard):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        folder = shard.parent / f"out-{program}"
        folder.mkdir()
        subprocess.run([program, "-xf", shard], cwd=folder, check=True)
        paths = [p for p in folder.rglob("*") if p.is_file()]
        found = grouped((str(p.relative_to(folder)), p.read_bytes()) for p in paths)
        shutil.rmtree(folder)
        return found

    return read


def read_by_webdataset(shard):
    webdataset = pytest.importorskip("webdataset")
    dataset = webdataset.WebDataset(str(shard), shardshuffle=False, empty_check=False)
    return {
        os.fsencode(s["__key__"]): {k: v for k, v in s.items() if not k.startswith("__")}
        for s in dataset
    }


def read_by_dali(shard):
    dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
    import numpy as np
    import nvidia.dali.fn as fn

    made = subprocess.run([PROGRAM, "index", shard, "--format", "dali"], capture_output=True)
    if b"blanks" in made.stderr:
        pytest.skip("DALI's index can't hold names with blanks")
    assert made.returncode == 0, made.stderr
    keys = list(read_by_us(shard))

    @dali.pipeline_def(batch_size=len(keys), num_threads=1, device_id=None)
    def described():
        idx = str(shard.with_suffix(".idx"))
        read = fn.readers.webdataset(paths=str(shard), index_paths=idx, ext=list(FIELDS))
        return tuple(read)

    pipe = described()
    pipe.build()
    outputs = pipe.run()
    return {
        key: {f: np.array(out[i]).tobytes() for f, out in zip(FIELDS, outputs, strict=True)}
        for i, key in enumerate(keys)
    }


READERS = {
    "tarfile": read_by_tarfile,
    "tar": read_by_program("tar"),
    "bsdtar": read_by_program("bsdtar"),
    "webdataset": read_by_webdataset,
    "dali": read_by_dali,
}


@pytest.fixture(params=NAMES)
def packed(request, tmp_path):
    """A shard that the packer made of one that tarfile made, and the names in it."""
    command = os.environ.get("FEEDRACE_PACK", "").split()
    if not command:
        helped = subprocess.run([PROGRAM, "--help"], capture_output=True)
        if not re.search(rb"^  pack ", helped.stdout, re.MULTILINE):
            pytest.skip("this program has no `pack` yet; FEEDRACE_PACK names one")
        command = [str(PROGRAM), "pack"]
    source = tmp_path / "source.tar"
    by_tarfile(tarfile.PAX_FORMAT)(source, members_of(NAMES[request.param]), None)
    made = subprocess.run([*command, source, tmp_path / "packed"], capture_output=True)
    assert made.returncode == 0, made.stderr
    (shard,) = (tmp_path / "packed").glob("*.tar")
    return shard, NAMES[request.param]


@pytest.mark.parametrize("reader", READERS)
def test_our_shards_are_read_by_other_tools(packed, reader):
    shard, names = packed
    assert READERS[reader](shard) == expected(names) == read_by_us(shard)


@pytest.mark.parametrize("reader", READERS)
def test_the_readers_of_this_matrix_read_what_tarfile_writes(reader, tmp_path):
    """What the tests of our own shards compare with is right for sure."""
    shard = tmp_path / "s.tar"
    by_tarfile(tarfile.USTAR_FORMAT)(shard, members_of(PLAIN), None)
    assert READERS[reader](shard) == expected(PLAIN)
