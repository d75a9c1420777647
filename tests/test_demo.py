# SPDX-License-Identifier: Apache-2.0
"""The demo's shards: the same bytes each time, and every sample with its label."""

import subprocess
import sys
import tarfile

from conftest import REPOSITORY
from pictures import make_folder


def make(folder, target):
    script = REPOSITORY / "dev" / "demo" / "make_shards.py"
    subprocess.run([sys.executable, script, folder, target], check=True, capture_output=True)
    return sorted(target.glob("*.tar"))


def test_shards_hold_every_picture_with_its_label(tmp_path):
    folder = make_folder(tmp_path / "pictures", classes=("b", "a", "c"), count=8)
    class_of = {p.read_bytes(): "abc".index(p.parent.name) for p in folder.glob("*/*.jpg")}
    assert len(class_of) == 24
    found = {}
    for path in make(folder, tmp_path / "shards"):
        with tarfile.open(path) as shard:
            members = [(m.name, shard.extractfile(m).read()) for m in shard]
        for (label_name, label), (image_name, image) in zip(
            members[::2], members[1::2], strict=True
        ):
            assert label_name.removesuffix(".cls") == image_name.removesuffix(".jpg")
            found[image] = int(label)
    assert found == class_of


def test_shards_are_the_same_bytes_each_time(tmp_path):
    folder = make_folder(tmp_path / "pictures")
    first, second = make(folder, tmp_path / "1"), make(folder, tmp_path / "2")
    assert len(first) == 8
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
