# SPDX-License-Identifier: Apache-2.0
"""Indexes of other loaders, with the real tools: DALI's wds2idx and reader, wids, Energon."""

import importlib
import itertools
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from small_sets import fields_of, write_shard

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace"))


def run(*args, code=0):
    made = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
    assert made.returncode == code, made.stderr
    return made


def as_json(*args):
    return json.loads(run(*args, "--json").stdout)


@pytest.fixture
def shards(tmp_path):
    """Three shards of 5 samples with all fields; the last has a long and a non-ASCII name more."""
    for shard in range(3):
        samples = {f"d/{shard}{i}": fields_of(5 * shard + i) for i in range(5)}
        if shard == 2:
            samples["y" * 150] = fields_of(20)
            samples["schön"] = fields_of(21)
        write_shard(tmp_path / f"t-{shard}.tar", samples)
    return tmp_path


def columns(index):
    """All that an index says, without times."""
    meta = json.loads((index / "meta.json").read_text())
    return meta, {p.name: np.load(p).tolist() for p in index.glob("*.npy")}


def read_by_headers(shards):
    index = Path(as_json("index", shards, "--rebuild")["index"])
    return columns(index)


def wds2idx(tar, idx):
    module = pytest.importorskip("wds2idx", reason="DALI is not installed")
    with module.IndexCreator(str(tar), str(idx), verbose=False) as creator:
        creator.create_index()


def write_their_indexes(shards):
    for tar in shards.glob("*.tar"):
        wds2idx(tar, tar.with_suffix(".idx"))


def members_of(tar):
    with tarfile.open(tar) as opened:
        return [(m.name, m.offset_data, m.size) for m in opened if m.isfile()]


def test_dali_indexes_are_those_of_dalis_own_program(shards, tmp_path):
    (tmp_path / "ours").mkdir()
    written = as_json("index", shards, "--format", "dali", "--to", tmp_path / "ours")["files"]
    assert [Path(p).name for p in written] == ["t-0.idx", "t-1.idx", "t-2.idx"]
    for tar in sorted(shards.glob("*.tar"))[:2]:
        wds2idx(tar, tmp_path / "theirs.idx")
        ours = tmp_path / "ours" / tar.with_suffix(".idx").name
        assert ours.read_text() == (tmp_path / "theirs.idx").read_text()


def test_dali_indexes_have_the_places_that_tarfile_finds(shards):
    run("index", shards, "--format", "dali")
    for tar in shards.glob("*.tar"):
        words = tar.with_suffix(".idx").read_text().split("\n", 1)[1].split()
        listed = list(zip(words[3::4], map(int, words[1::4]), map(int, words[2::4]), strict=True))
        assert listed == members_of(tar)


def test_dalis_reader_takes_our_index(shards):
    dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
    fn = importlib.import_module("nvidia.dali.fn")
    tars = [shards / "t-0.tar", shards / "t-1.tar"]
    run("index", *tars, "--format", "dali")

    @dali.pipeline_def(batch_size=10, num_threads=1, device_id=None)
    def described():
        paths = [str(tar) for tar in tars]
        indexes = [str(tar.with_suffix(".idx")) for tar in tars]
        return tuple(fn.readers.webdataset(paths=paths, index_paths=indexes, ext=["jpg", "cls"]))

    pipe = described()
    pipe.build()
    pictures, labels = pipe.run()
    wanted = [fields_of(i) for i in range(10)]
    assert [np.array(pictures[i]).tobytes() for i in range(10)] == [w["jpg"] for w in wanted]
    assert [np.array(labels[i]).tobytes() for i in range(10)] == [w["cls"] for w in wanted]


def test_names_with_blanks_are_refused(tmp_path):
    write_shard(tmp_path / "s.tar", {"a b": fields_of(0)})
    message = run("index", tmp_path / "s.tar", "--format", "dali", code=2).stderr
    assert "s.tar" in message
    assert "a b." in message
    assert "blanks" in message
    assert list(tmp_path.glob("*.idx")) == []


def test_an_import_gives_the_index_that_reading_headers_gives(shards):
    expected = read_by_headers(shards)
    run("index", shards, "--format", "dali")
    imported = as_json("index", shards, "--import", shards)
    assert imported["imported"] == "DALI"
    assert imported["samples"] == 17
    assert columns(Path(imported["index"])) == expected


def test_indexes_of_dalis_program_are_imported(shards):
    (shards / "t-2.tar").unlink()
    expected = read_by_headers(shards)
    write_their_indexes(shards)
    imported = as_json("index", shards, "--import", shards)
    assert columns(Path(imported["index"])) == expected


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def last_line(text):
    return text.rstrip("\n").rsplit("\n", 1)[1]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda idx: edit(idx, "v1.2 5", "v1.2 4"), "more lines"),
        (lambda idx: edit(idx, "v1.2 5", "v1.2 6"), "ends after 5 of 6"),
        (lambda idx: edit(idx, "v1.2", "v1.1"), "v1.1"),
        (lambda idx: edit(idx, " 512 ", " x "), "line 2"),
        (lambda idx: edit(idx, " 512 ", " 99999999999999 "), "t-1.tar"),
        (lambda idx: edit(idx, " d/10.", " d/1x."), "t-1.tar"),
        (lambda idx: idx.write_text(idx.read_text().replace(last_line(idx.read_text()) + "\n", "")
                                    .replace("v1.2 5", "v1.2 4")), "lacks d/14"),
        (lambda idx: idx.write_text(""), "v1.2"),
        (lambda idx: idx.unlink(), "t-1.idx"),
    ],
)  # fmt: skip
def test_a_wrong_dali_index_is_refused(shards, damage, reason):
    run("index", shards, "--format", "dali")
    damage(shards / "t-1.idx")
    made = subprocess.run(
        [PROGRAM, "index", shards, "--import", shards], capture_output=True, text=True
    )
    assert made.returncode in (1, 2), made.stderr
    assert "t-1." in made.stderr, made.stderr
    assert reason in made.stderr, made.stderr
    assert not (shards / "shards.frindex").exists()


def test_two_samples_of_one_size_that_changed_places_are_seen(tmp_path):
    samples = [("a", b"1"), ("b", b"2")]
    write_shard(tmp_path / "s.tar", {key: {"cls": label, "jpg": b"x"} for key, label in samples})
    run("index", tmp_path / "s.tar", "--format", "dali")
    idx = tmp_path / "s.idx"
    idx.write_text(idx.read_text().replace("a.", "@.").replace("b.", "a.").replace("@.", "b."))
    message = run("index", tmp_path / "s.tar", "--import", tmp_path, code=1).stderr
    assert "there is a.cls" in message


def test_an_index_of_another_shard_of_the_name_is_refused(shards):
    run("index", shards, "--format", "dali")
    write_shard(shards / "t-0.tar", {"d/00": fields_of(3)})
    run("index", shards, "--import", shards, code=1)


# wids


def test_the_shard_list_of_wids(shards):
    (path,) = as_json("index", shards, "--format", "wids")["files"]
    listed = json.loads(Path(path).read_text())
    sizes = [(shards / f"t-{i}.tar").stat().st_size for i in range(3)]
    assert Path(path).name == "shardindex.json"
    assert listed["wids_version"] == 1
    assert listed["__kind__"] == "wids-shard-index-v1"
    assert listed["shardlist"] == [
        {"url": f"t-{i}.tar", "nsamples": count, "filesize": sizes[i]}
        for i, count in enumerate((5, 5, 7))
    ]
    imported = as_json("index", shards, "--import", path)
    assert (imported["imported"], imported["samples"]) == ("wids", 17)

    edit(Path(path), '"nsamples": 7', '"nsamples": 8')
    message = run("index", shards, "--import", path, code=1).stderr
    assert message.startswith(f"feedrace: {shards}/t-2.tar: ")
    assert "8 samples, and there are 7" in message
    edit(Path(path), f'"filesize": {sizes[0]}', f'"filesize": {sizes[0] + 512}')
    message = run("index", shards, "--import", path, code=1).stderr
    assert message.startswith(f"feedrace: {shards}/t-0.tar: ")
    assert "and 1 more of 3 shards" in message
    edit(Path(path), "t-2.tar", "t-9.tar")
    run("index", shards, "--import", path, code=2)


def test_wids_reads_by_our_list(shards):
    wids = pytest.importorskip("wids", reason="wids is not installed: pip install webdataset<1")
    (shards / "t-2.tar").unlink()  # wids itself knows no long names.
    (path,) = as_json("index", shards, "--format", "wids")["files"]
    dataset = wids.ShardListDataset(path, keep=True)
    assert len(dataset) == 10
    assert [dataset[i]["__key__"] for i in range(10)] == [
        f"d/{s}{i}" for s in range(2) for i in range(5)
    ]


# Energon


def write_energon(shards, order=None):
    """As `energon prepare` of version 7 writes it: see test_energon_itself."""
    meta = shards / ".nv-meta"
    meta.mkdir()
    database = sqlite3.connect(meta / "index.sqlite")
    database.execute(
        "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, "
        "sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)"
    )
    database.execute(
        "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
        "content_byte_offset INTEGER, content_byte_size INTEGER)"
    )
    counts = {}
    for number, tar in enumerate(sorted(shards.glob("*.tar"))):
        keys = {}
        for name, offset, size in members_of(tar):
            key, part = name.split(".", 1)
            index = keys.setdefault(key, len(keys))
            row = (number, index, part, offset, size)
            database.execute("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", row)
        for key, index in keys.items():
            database.execute(
                "INSERT INTO samples VALUES (?, ?, ?, ?, ?)", (number, key, index, 0, 0)
            )
        counts[tar.name] = len(keys)
    database.commit()
    database.close()
    info = {"energon_version": "7.4.1", "shard_counts": counts}
    (meta / ".info.json").write_text(json.dumps(info, indent=2))
    return meta


def change(meta, statement):
    database = sqlite3.connect(meta / "index.sqlite")
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize("named", [".nv-meta", ".nv-meta/index.sqlite", "."])
def test_energons_index_is_imported(shards, named):
    expected = read_by_headers(shards)
    write_energon(shards)
    imported = as_json("index", shards, "--import", shards / named)
    assert imported["imported"] == "Energon"
    assert columns(Path(imported["index"])) == expected


def test_energons_older_yaml_is_read(shards):
    meta = write_energon(shards)
    counts = json.loads((meta / ".info.json").read_text())["shard_counts"]
    text = "".join(f"  {name}: {count}\n" for name, count in counts.items())
    (meta / ".info.json").unlink()
    (meta / ".info.yaml").write_text("energon_version: 3.0.0\nshard_counts:\n" + text)
    assert as_json("index", shards, "--import", meta)["samples"] == 17
    (meta / ".info.yaml").write_text("shard_counts: {t-0.tar: 5}\n")
    assert ".info.yaml" in run("index", shards, "--import", meta, code=1).stderr


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM sample_parts WHERE tar_file_id = 1 AND sample_index = 4", "lacks d/14"),
        ("DELETE FROM samples WHERE tar_file_id = 1 AND sample_index = 2", "and there are 4"),
        ("UPDATE sample_parts SET content_byte_offset = -5 WHERE tar_file_id = 1", "no number"),
        ("UPDATE sample_parts SET content_byte_size = 'x' WHERE tar_file_id = 1", "no number"),
        ("UPDATE sample_parts SET content_byte_size = 1 << 60 WHERE tar_file_id = 1", "t-1.tar"),
        ("UPDATE samples SET sample_key = 'd/1x' WHERE sample_key = 'd/10'", "d/1x"),
        ("DROP TABLE sample_parts", "sample_parts"),
        ("INSERT INTO sample_parts VALUES (1, 0, 'x', 99, 1)", "t-1.tar"),
        ("INSERT INTO sample_parts VALUES (7, 0, 'x', 99, 1)", "of no shard that the info names"),
        ("INSERT INTO samples VALUES (1, 'd/99', 5, 0, 0)", "t-1.tar"),
        ("UPDATE samples SET sample_index = 4 - sample_index WHERE tar_file_id = 1", "t-1.tar"),
    ],
)
def test_a_wrong_energon_index_is_refused(shards, statement, reason):
    change(write_energon(shards), statement)
    message = run("index", shards, "--import", shards / ".nv-meta", code=1).stderr
    assert reason in message, message
    assert not (shards / "shards.frindex").exists()


@pytest.mark.parametrize("table", ["samples", "sample_parts"])
def test_an_energon_database_that_is_a_program_ends_at_once(shards, table):
    meta = write_energon(shards)
    database = sqlite3.connect(meta / "index.sqlite")
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    database.execute(f"DROP TABLE {table}")
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    named = ", ".join(f"x AS {name}" for name in columns)
    database.execute(f"CREATE VIEW {table} AS {endless} SELECT {named} FROM n")
    database.commit()
    database.close()
    message = run("index", shards, "--import", meta, code=1).stderr
    assert "has no tables samples and sample_parts" in message
    assert sorted(p.name for p in meta.iterdir()) == [".info.json", "index.sqlite"]


def test_an_energon_database_whose_pages_lead_back_ends_at_once(shards):
    """Each page of pages names the next one some forty times: 40^16 rows to walk over."""
    meta = write_energon(shards)
    path = meta / "index.sqlite"
    database = sqlite3.connect(path)
    row = (1, 0, "x" * 60, 0, 0)
    database.execute("PRAGMA page_size = 512")
    database.execute("VACUUM")
    database.executemany("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", [row] * 12_000)
    root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sample_parts'")
    root = root.fetchone()[0]
    database.commit()
    database.close()
    content = bytearray(path.read_bytes())

    def header(page):
        return (page - 1) * 512 + (100 if page == 1 else 0)

    inner = [p for p in range(2, len(content) // 512 + 1) if content[header(p)] == 5 and p != root]
    chain = [root, *inner[:16]]
    assert len(chain) == 17
    for page, child in itertools.pairwise(chain):
        at = header(page)
        (cells,) = struct.unpack_from(">H", content, at + 3)
        struct.pack_into(">I", content, at + 8, child)
        for i in range(cells):
            (cell,) = struct.unpack_from(">H", content, at + 12 + 2 * i)
            struct.pack_into(">I", content, (page - 1) * 512 + cell, child)
    path.write_bytes(content)
    message = run("index", shards, "--import", meta, code=1).stderr
    assert "takes longer to read than any file of its size" in message


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        # Nothing is inserted, so that nothing of it ever runs.
        (
            "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM samples; END",
            None,
        ),
        (
            "ALTER TABLE sample_parts ADD COLUMN more AS (length(part_name))",
            "table sample_parts has a computed column",
        ),
        (
            "CREATE VIRTUAL TABLE words USING fts5(word)",
            "has a virtual table or column",
        ),
        (
            "UPDATE sample_parts SET part_name = printf('%.2000000c', 'x') WHERE tar_file_id = 1",
            "string or blob too big",
        ),
        (
            "UPDATE sample_parts SET content_byte_offset = 512 WHERE tar_file_id = 1",
            "t-1.tar",
        ),
    ],
)
def test_what_energons_database_may_hold(shards, script, reason):
    meta = write_energon(shards)
    change(meta, script)
    if reason is None:
        assert as_json("index", shards, "--import", meta)["samples"] == 17
    else:
        message = run("index", shards, "--import", meta, code=1).stderr
        assert reason in message, message
        assert not (shards / "shards.frindex").exists()


def test_shards_of_one_name_are_told_apart_or_refused(tmp_path):
    for folder, first in (("a", 0), ("b", 100)):
        (tmp_path / folder).mkdir()
        write_shard(tmp_path / folder / "s.tar", {f"{first + i}": fields_of(i) for i in range(5)})
        run("index", tmp_path / folder / "s.tar", "--format", "dali")
    both = (tmp_path / "a/s.tar", tmp_path / "b/s.tar")
    shutil.copy(tmp_path / "a/s.idx", tmp_path / "s.idx")
    message = run("index", *both, "--import", tmp_path, code=2).stderr
    assert "s.tar" in message
    assert not list(tmp_path.glob("**/*.frindex"))


def test_an_energon_database_that_is_a_pipe_or_huge_ends_at_once(shards):
    meta = write_energon(shards)
    os.truncate(meta / "index.sqlite", 1 << 40)  # Holes behind what SQLite looks at.
    assert as_json("index", shards, "--import", meta)["samples"] == 17
    (meta / "index.sqlite").unlink()
    os.mkfifo(meta / "index.sqlite")
    assert "not a regular file" in run("index", shards, "--import", meta, code=3).stderr


@pytest.mark.parametrize("change", ["swap", "extension", "offset", "size", "name"])
def test_lies_about_shards_without_labels_are_refused(tmp_path, change):
    samples = {f"{i}": {"jpg": fields_of(0)["jpg"]} for i in range(200)}
    write_shard(tmp_path / "s.tar", samples)
    run("index", tmp_path / "s.tar", "--format", "dali")
    idx = tmp_path / "s.idx"
    lines = idx.read_text().splitlines()
    field, offset, size, name = lines[150].split()
    if change == "swap":
        lines[150], lines[151] = lines[151], lines[150]
    else:
        lines[150] = {
            "extension": f"png {offset} {size} {name}",
            "offset": f"{field} {int(offset) + 512} {size} {name}",
            "size": f"{field} {offset} {int(size) - 1} {name}",
            "name": f"{field} {offset} {size} x{name}",
        }[change]
    idx.write_text("\n".join(lines) + "\n")
    run("index", tmp_path / "s.tar", "--import", tmp_path, code=1)
    assert not list(tmp_path.glob("*.frindex"))


def test_options_that_an_export_would_ignore_are_refused(shards):
    for option in ("--crop-index", "--rebuild"):
        message = run("index", shards, "--format", "dali", option, code=2).stderr
        assert option in message
        assert not list(shards.glob("*.idx"))


def test_what_is_no_index_is_refused(shards, tmp_path):
    meta = write_energon(shards)
    (meta / "index.sqlite").write_bytes(b"no database" * 100)
    assert "index.sqlite" in run("index", shards, "--import", meta, code=1).stderr
    (meta / ".info.json").write_text("{}")
    assert ".info.json" in run("index", shards, "--import", meta, code=1).stderr
    (tmp_path / "x.json").write_text("[]")
    assert "x.json" in run("index", shards, "--import", tmp_path / "x.json", code=1).stderr
    run("index", shards, "--import", tmp_path / "none", code=2)
    run("index", shards, "--import", shards / "t-0.tar", code=2)
    run("index", shards, "--import", meta, "--format", "dali", code=2)


def test_energon_itself(shards):
    pytest.importorskip("megatron.energon", reason="not installed: pip install megatron-energon")
    expected = read_by_headers(shards)
    options = ["--non-interactive", "--split-ratio", "1,0,0", "--skip-dataset-yaml"]
    command = [sys.executable, "-m", "megatron.energon.cli.main", "prepare", *options, str(shards)]
    subprocess.run(command, check=True, capture_output=True)
    imported = as_json("index", shards, "--import", shards)
    assert imported["imported"] == "Energon"
    assert columns(Path(imported["index"])) == expected
