# SPDX-License-Identifier: Apache-2.0
"""Crop indexes whose pictures changed, that are damaged, or whose making is interrupted: nothing is
passed over in silence."""

import io
import json
import os
import shutil
import signal
import time

import pytest
from PIL import Image

from conftest import HANG_SECONDS, run, start
from pictures import jpeg, make_shard

SIZE = (500, 375)
WRONG_USE, INTERRUPTED = 2, 130
AN_HOUR_AND_MORE = 4000


def fill(folder):
    (folder / "cat").mkdir(parents=True)
    for i in range(4):
        (folder / "cat" / f"{i}.jpg").write_bytes(jpeg(i, SIZE))


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path / "train")
    return tmp_path / "train"


def progressive(content):
    out = io.BytesIO()
    Image.open(io.BytesIO(content)).save(out, "JPEG", quality=90, progressive=True)
    return out.getvalue()


def make(source, **options):
    return run("index", source, "--crop-index", "--json", **options).json()


def warnings(source):
    return run("digest", source, "--batch", "2").err


def test_pictures_that_were_replaced_are_refused_and_made_anew(folder):
    make(folder)
    for path in (folder / "cat").iterdir():
        path.write_bytes(progressive(path.read_bytes()))
    report = run("bench", "loader", folder, "--batch", "2", "--epochs", "1", "--json").json()
    assert report["crop_index_refused"] > 0
    assert "of another file" in json.dumps(report["fallbacks"])
    made = make(folder)
    assert made["crop_indexes"] == 0
    assert "4 of 4 pictures changed" in json.dumps(made["warnings"])
    assert make(folder)["warnings"] == []


@pytest.mark.parametrize("damage", ["column", "meta", "empty", "link", "file", "fifo"])
def test_what_lies_in_its_place_but_is_none_is_told(folder, damage):
    make(folder)
    index = folder.parent / "train.crops.frindex"
    if damage in ("column", "fifo"):
        (index / "crop_index.npy").unlink()
        if damage == "fifo":
            os.mkfifo(index / "crop_index.npy")
    elif damage == "meta":
        (index / "meta.json").unlink()
    else:
        shutil.rmtree(index)
        if damage == "empty":
            index.mkdir()
        elif damage == "link":
            index.symlink_to("nowhere")
        else:
            index.write_text("none")
    said = warnings(folder)
    assert "train.crops.frindex: not used: " in said
    assert f"feedrace index {folder} --crop-index" in said
    assert ("not a regular file" in said) == (damage == "fifo")


@pytest.mark.parametrize("name", ["meta.json", "label.npy", "crop_index.npy"])
def test_a_shard_index_that_is_made_anew_says_that_they_are_lost(tmp_path, name):
    members = [("a.jpg", jpeg(1, SIZE)), ("a.cls", b"1"), ("b.jpg", jpeg(2, SIZE)), ("b.cls", b"2")]
    shards = make_shard(tmp_path / "s" / "a.tar", members).parent
    make(shards)
    (shards / "shards.frindex" / name).write_text("{}")
    said = warnings(shards)
    assert "have no crop index any more" in said
    assert "json.exception" not in said
    assert make(shards)["crop_indexes"] == 2


def test_unreadable_pictures_are_named_and_tried_again(open_dir, ordinary_user):
    folder = open_dir / "train"
    fill(folder)
    open_dir.chmod(0o777)  # The index lies beside the folder.
    for i in (1, 2):
        (folder / "cat" / f"{i}.jpg").chmod(0)
    made = make(folder, **ordinary_user)
    assert "cat/1.jpg and 1 more can't be read" in json.dumps(made["warnings"])
    assert made["without_crop_index"] == {"can't be read": 2}
    for i in (1, 2):
        (folder / "cat" / f"{i}.jpg").chmod(0o644)
    assert make(folder, **ordinary_user)["crop_indexes"] == 4


def left_overs(folder):
    return [p for p in folder.parent.iterdir() if ".tmp-" in p.name]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_making_leaves_nothing_behind(folder, ending):
    content = jpeg(1, (3000, 2000))
    for i in range(300):
        (folder / "cat" / f"big{i}.jpg").write_bytes(content)
    process = start("index", folder, "--crop-index", "--threads", "1")
    until = time.monotonic() + HANG_SECONDS
    while not left_overs(folder) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(ending)
    _, said = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == INTERRUPTED
    assert b"interrupted" in said
    assert left_overs(folder) == []


def test_old_left_overs_go_even_if_the_index_fits(folder):
    make(folder)
    old = folder.parent / ".train.crops.frindex.tmp-0123456789abcdef"
    old.mkdir()
    then = time.time() - AN_HOUR_AND_MORE
    os.utime(old, (then, then))
    make(folder)
    assert left_overs(folder) == []


def test_decode_wants_a_region_that_is_one(folder, tmp_path):
    picture, out = folder / "cat" / "0.jpg", tmp_path / "x.npy"
    run("decode", picture, "--out", out, "--region", "").error(WRONG_USE)
    made = run("decode", picture, "--out", out, "--region", "0,0,501,1")
    assert "ends inside" in made.error(WRONG_USE)
    png = tmp_path / "x.png"
    Image.new("RGB", (4, 4)).save(png)
    assert "not a JPEG by its name" in run("bench", "decode", png).error(WRONG_USE)
