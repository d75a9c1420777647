# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack` into a folder that an earlier run has left, whole or not: nothing that is gone or
changed since is taken for packed, and nothing that a dead run left stays."""

import json
import os

import pytest

from conftest import run
from pictures import jpeg, make_folder

BAD_DATA = 1
REFUSED = 2


@pytest.fixture
def source(tmp_path):
    return make_folder(tmp_path / "src", count=6)


@pytest.fixture
def packed(source, tmp_path):
    out = tmp_path / "out"
    assert run("pack", source, out, "--shards", "3").code == 0
    return out


def again(source, out, *options):
    return run("pack", source, out, "--shards", "3", *options)


def lose(out):
    (out / "shard-000001.tar").unlink()


def cut(out):
    os.truncate(out / "shard-000001.tar", 5 * 512)


def swap(out):
    link = out / "shard-000001.tar"
    link.unlink()
    link.symlink_to("shard-000000.tar")


@pytest.mark.parametrize("harm", [lose, cut, swap])
def test_a_shard_of_a_finished_set_that_is_not_there_as_packed_is_named(source, packed, harm):
    harm(packed)
    index = sorted(path.name for path in (packed / "shards.frindex").iterdir())
    for command in (again(source, packed), run("pack", "--finish", packed)):
        message = command.error(BAD_DATA)
        assert "shard-000001.tar: " in message
        assert "copy the shard again, or pack into an empty folder" in message
    assert sorted(path.name for path in (packed / "shards.frindex").iterdir()) == index


def test_a_manifest_that_counts_other_samples_is_refused(source, packed):
    path = packed / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["samples"] -= 1
    manifest["shards"][0]["samples"] -= 1
    path.write_text(json.dumps(manifest))
    assert "manifest.json names 11 samples in 3 shards, and there are 12 in 3" in again(
        source, packed
    ).error(REFUSED)


def test_what_a_killed_run_left_of_an_index_is_removed(source, packed):
    (packed / ".shards.frindex.tmp-114455ce367476c7").mkdir()
    (packed / ".shards.frindex.tmp-114455ce367476c7/keys.npy").write_bytes(b"half")
    before = sorted(path.name for path in packed.iterdir() if ".tmp-" not in path.name)
    assert again(source, packed).code == 0
    assert sorted(path.name for path in packed.iterdir()) == before


def test_an_index_of_another_name_is_no_stranger(source, packed):
    assert run("index", f"{packed}/shard-*.tar").code == 0
    assert len(list(packed.glob("*.frindex"))) == 2
    assert again(source, packed).code == 0


def test_a_repaired_picture_does_not_keep_a_run_from_going_on(source, tmp_path):
    broken = source / "cat/003.jpg"
    whole = broken.read_bytes()
    broken.write_bytes(b"\xff\xd8\xff" + bytes(len(whole) - 3))
    out = tmp_path / "out"
    assert "cat/003.jpg" in again(source, out, "--raw", "16").error(BAD_DATA)
    times = broken.stat().st_mtime_ns
    broken.write_bytes(whole)
    os.utime(broken, ns=(times, times))
    assert again(source, out, "--raw", "16").code == 0
    assert run("verify", out).code == 0


def test_what_differs_is_said_by_name(source, tmp_path):
    out = tmp_path / "out"
    (source / "dog/005.jpg").write_bytes(b"no picture")
    assert again(source, out, "--raw", "16").code == BAD_DATA
    message = again(source, out).error(REFUSED)
    assert "pictures.raw is not given, and was" in message
    message = again(source, out, "--raw", "24").error(REFUSED)
    assert "pictures.resize.px is 24, and was 16" in message
    (source / "dog/006.jpg").write_bytes(jpeg())
    assert "samples came, went" in again(source, out, "--raw", "16").error(REFUSED)


def test_parts_agree_about_the_crop_index_and_the_finish_makes_it(source, tmp_path):
    for path in source.rglob("*.jpg"):  # Small ones have no use for it.
        path.write_bytes(jpeg(size=(500, 375)))
    out = tmp_path / "out"
    assert again(source, out, "--part", "1/2", "--crop-index").code == 0
    message = again(source, out, "--part", "2/2").error(REFUSED)
    assert "crop_index is false, and was true" in message
    assert again(source, out, "--part", "2/2", "--crop-index").code == 0
    assert "crop index: of 12 pictures" in run("pack", "--finish", out).out.decode()
    whole = tmp_path / "whole"
    assert again(source, whole, "--crop-index").code == 0
    for name in ("shard-000000.tar", "shard-000001.tar", "shard-000002.tar", "manifest.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
