# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack` of shards that are damaged, or whose stored index lies: no sample is lost, or
packed as another, in silence."""

import json
import tarfile

import numpy as np
import pytest

from conftest import run
from pictures import jpeg, make_folder, make_shard

BAD_DATA = 1


def twice(path):
    make_shard(path, [("a.jpg", jpeg(1)), ("b.jpg", jpeg(2)), ("a.jpg", jpeg(3))])
    return "a"


def second_archive(path):
    make_shard(path, [("a.jpg", jpeg(1))])
    make_shard(path.with_suffix(".more"), [("b.jpg", jpeg(2))])
    path.write_bytes(path.read_bytes() + path.with_suffix(".more").read_bytes())
    path.with_suffix(".more").unlink()
    return "offset"


def no_end(path):
    make_shard(path, [("a.jpg", jpeg(1))])
    whole = path.read_bytes()
    with tarfile.open(path) as shard:
        member = shard.getmembers()[-1]
    path.write_bytes(whole[: member.offset_data + (member.size + 511) // 512 * 512])
    return "s.tar"


@pytest.mark.parametrize("damage", [twice, second_archive, no_end])
def test_damage_stops_the_run_or_is_listed(tmp_path, damage):
    name = damage(tmp_path / "s.tar")
    out = tmp_path / "out"
    message = run("pack", tmp_path / "s.tar", out).error(BAD_DATA)
    assert "s.tar: " in message
    assert name in message
    assert "samples would be missing: mend it, or leave them out with on_error skip" in message
    assert not out.exists()
    ran = run("pack", tmp_path / "s.tar", out, "--on-error", "skip", "--json")
    assert ran.code == BAD_DATA
    report = json.loads(ran.out)
    assert report["failed"] == 1
    assert name in report["left_out"][0]["key"] + report["left_out"][0]["reason"]
    assert any("s.tar" in line for line in report["warnings"])


def test_a_stored_index_that_lies_is_not_believed(tmp_path):
    make_folder(tmp_path / "src", count=6)
    packed = tmp_path / "packed"
    assert run("pack", tmp_path / "src", packed, "--shards", "1").code == 0
    offsets = np.load(packed / "shards.frindex/offset.npy")
    offsets[0] = offsets[2]
    np.save(packed / "shards.frindex/offset.npy", offsets)
    assert run("pack", packed, tmp_path / "again", "--shards", "1").code == 0
    for name in ("shard-000000.tar", "classes.txt"):
        assert (tmp_path / "again" / name).read_bytes() == (packed / name).read_bytes()
