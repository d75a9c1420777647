# SPDX-License-Identifier: Apache-2.0
"""The demo's shards: the same bytes each time, and every sample with its label."""

import os
import shutil
import subprocess
import sys
import tarfile

from conftest import BINARY, REPOSITORY
from pictures import make_folder

DEMO = REPOSITORY / "dev" / "demo"


def pack(data, target):
    return subprocess.run(
        [sys.executable, DEMO / "make_shards.py", data, target],
        capture_output=True,
        text=True,
        env={**os.environ, "FEEDRACE_BIN": os.fspath(BINARY)},
    )


def make(data, target):
    result = pack(data, target)
    assert result.returncode == 0, result.stderr
    return sorted(target.glob("*.tar"))


def packed(shards):
    """The label of each picture in the shards, by its bytes; None where it has none."""
    found = {}
    for path in shards:
        with tarfile.open(path) as shard:
            members = {m.name: shard.extractfile(m).read() for m in shard}
        for name, content in members.items():
            key, suffix = os.path.splitext(name)
            if suffix != ".cls":
                label = members.get(f"{key}.cls")
                found[content] = None if label is None else int(label)
    return found


def test_shards_hold_every_picture_with_its_label(tmp_path):
    folder = make_folder(tmp_path / "pictures", classes=("b", "a", "c"), count=8)
    class_of = {p.read_bytes(): "abc".index(p.parent.name) for p in folder.glob("*/*.jpg")}
    assert len(class_of) == 24
    assert packed(make(folder, tmp_path / "shards")) == class_of


def test_shards_are_the_same_bytes_each_time(tmp_path):
    folder = make_folder(tmp_path / "pictures")
    first, second = make(folder, tmp_path / "1"), make(folder, tmp_path / "2")
    assert len(first) == 8
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_folders_in_class_folders_are_packed_too(tmp_path):
    folder = make_folder(tmp_path / "two words", classes=("a", "b"), count=4)
    # The same name twice in a class: keys must not clash.
    for picture in folder.glob("b/*.jpg"):
        inner = folder / "b" / "deep" / "er"
        inner.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, inner / picture.name)
        with open(inner / picture.name, "ab") as file:
            file.write(b"\0")
    class_of = {
        p.read_bytes(): "ab".index(p.relative_to(folder).parts[0]) for p in folder.rglob("*.jpg")
    }
    assert len(class_of) == 12
    assert packed(make(folder, tmp_path / "shards")) == class_of


def test_a_list_is_packed_with_its_labels(tmp_path):
    folder = make_folder(tmp_path / "pictures", classes=("a",), count=3)
    pictures = sorted(folder.glob("a/*.jpg"))
    lines = [f"pictures/a/{p.name} {7 + i}\n" for i, p in enumerate(pictures)]
    (tmp_path / "list.txt").write_text("".join(lines) + "pictures/a/gone.jpg 1\n")
    shards = make(tmp_path / "list.txt", tmp_path / "shards")
    assert packed(shards) == {p.read_bytes(): 7 + i for i, p in enumerate(pictures)}


def test_a_list_without_labels_gives_shards_without_labels(tmp_path):
    folder = make_folder(tmp_path / "pictures", classes=("a",), count=2)
    pictures = sorted(folder.glob("a/*.jpg"))
    (tmp_path / "list.csv").write_text("path\n" + "".join(f"{p}\n" for p in pictures))
    shards = make(tmp_path / "list.csv", tmp_path / "shards")
    assert packed(shards) == {p.read_bytes(): None for p in pictures}


def test_a_list_of_missing_files_is_refused_by_name(tmp_path):
    (tmp_path / "list.txt").write_text("gone.jpg 1\n")
    result = pack(tmp_path / "list.txt", tmp_path / "shards")
    assert result.returncode == 1
    assert "gone.jpg" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_demo_looks_at_its_data_before_it_builds(tmp_path):
    (tmp_path / "no list.bin").write_bytes(b"")
    for data, finding in (
        (tmp_path / "not there", "no such file"),
        (tmp_path / "no list.bin", "neither a folder"),
    ):
        result = subprocess.run(
            ["make", "demo", f"DATA={data}"], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert result.returncode == 2
        assert finding in result.stderr
        assert str(data) in result.stderr
        assert result.stdout == ""
