# SPDX-License-Identifier: Apache-2.0
"""feedrace index --crop-index: crops are decoded from it, and pixels stay as they are."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from conftest import run
from pictures import jpeg, make_shard

SIZE = (500, 375)
WRONG_USE = 2


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(3):
            (tmp_path / "train" / name / f"{i}.jpg").write_bytes(jpeg(3 * number + i, SIZE))
    return tmp_path / "train"


@pytest.fixture
def shards(tmp_path):
    for shard in range(2):
        members = []
        for i in range(3):
            members.append((f"{shard}{i}.cls", b"1"))
            members.append((f"{shard}{i}.jpg", jpeg(3 * shard + i, SIZE)))
        make_shard(tmp_path / "shards" / f"{shard}.tar", members)
    return tmp_path / "shards"


def digest(source, *more):
    return run("digest", source, "--batch", "2", *more).json()


def bench(source, *more):
    report = run("bench", "loader", source, "--batch", "2", "--epochs", "1", "--json", *more).json()
    return report["crop_indexed"], report["crop_index_refused"], report["fallbacks"]


@pytest.mark.parametrize("kind", ["folder", "shards"])
def test_all_crops_are_decoded_from_it(kind, request):
    source = request.getfixturevalue(kind)
    plain = run("digest", source, "--batch", "2").out
    assert bench(source)[:2] == (0, 0)
    assert run("index", source, "--crop-index", "--json").json()["crop_indexes"] == 6
    plan = run("plan", source, "--batch", "2").out.decode()
    assert "crop index: 6 of 6 pictures" in plan
    assert run("digest", source, "--batch", "2").out == plain
    used, refused, _ = bench(source)
    assert used > 0
    assert refused == 0
    assert bench(source, "--crop-index", "off")[:2] == (0, 0)
    assert bench(source, "--jpeg-engine", "libjpeg-turbo")[:2] == (0, 0)


def test_the_plan_says_why_none_is_used(folder):
    run("index", folder, "--crop-index")
    for choice, said in (
        (("--crop-index", "off"), "off, though there is one of 6 of 6 pictures"),
        (
            ("--jpeg-engine", "libjpeg-turbo"),
            "not used by libjpeg-turbo, though there is one of 6 of 6 pictures",
        ),
    ):
        assert run("plan", folder, "--batch", "2", "--json", *choice).json()["crop_index"] == said


def test_a_picture_that_changed_is_decoded_without_it(folder):
    run("index", folder, "--crop-index", "--json").json()
    (folder / "cat" / "1.jpg").write_bytes(jpeg(9, SIZE))
    _, refused, fallbacks = bench(folder)
    assert refused > 0
    said = json.dumps(fallbacks)
    assert "of another file" in said
    assert f"the first that of {folder}/cat/1.jpg: " in said
    assert f"feedrace index {folder} --crop-index --rebuild" in said
    run("index", folder, "--crop-index", "--rebuild", "--json").json()
    assert bench(folder)[1] == 0


def test_it_takes_at_most_one_and_a_half_percent(shards):
    run("index", shards, "--crop-index")
    stored = sum(
        (shards / "shards.frindex" / f"{name}.npy").stat().st_size - 128
        for name in ("crop_index", "crop_index_begin")
    )
    assert 0 < stored <= 0.015 * sum(shard.stat().st_size for shard in shards.glob("*.tar"))


def test_its_columns_are_numpy_arrays(shards):
    run("index", shards, "--crop-index")
    begin = np.load(shards / "shards.frindex" / "crop_index_begin.npy", mmap_mode="r")
    content = np.load(shards / "shards.frindex" / "crop_index.npy", mmap_mode="r")
    assert begin.dtype == np.uint64
    assert content.dtype == np.uint8
    assert len(begin) == 7
    assert begin[-1] == len(content)
    assert all(content[begin[:-1]] == 1)  # The version.


def test_a_folder_has_no_other_index(folder):
    said = run("index", folder).error(WRONG_USE)
    assert f"{folder}: an image folder needs no index; --crop-index makes its crop index" in said


def test_an_empty_folder_is_no_image_folder(tmp_path):
    assert "needs no index" not in run("index", tmp_path).error(WRONG_USE)


def test_a_list_has_none(folder):
    path = folder.parent / "l.txt"
    path.write_text("train/cat/0.jpg 0\n")
    said = run("index", path, "--crop-index").error(WRONG_USE)
    assert f"{path}: a list has no crop index; give its image folder or tar shards" in said
    assert "a list needs no index" in run("index", path).error(WRONG_USE)


def test_it_takes_no_value(folder):
    said = run("index", folder, "--crop-index=auto").error(WRONG_USE)
    assert "takes no value; auto and off are for commands that load" in said


def test_it_says_where_a_folders_lies(folder):
    index = folder.parent / "train.crops.frindex"
    assert f"index: {index}\n" in run("index", folder, "--crop-index").out.decode()
    assert run("index", folder, "--crop-index", "--json").json()["index"] == str(index)
    assert index.is_dir()


def progressive(seed):
    buffer = io.BytesIO()
    Image.open(io.BytesIO(jpeg(seed, SIZE))).save(buffer, "JPEG", quality=90, progressive=True)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["folder", "shards"])
def test_it_says_why_pictures_have_none(kind, tmp_path):
    pictures = [
        jpeg(1, SIZE),
        progressive(1),
        progressive(2),
        jpeg(1, (16, 16)),
        b"none",
    ]
    source = tmp_path / kind
    if kind == "folder":
        (source / "cat").mkdir(parents=True)
        for i, picture in enumerate(pictures):
            (source / "cat" / f"{i}.jpg").write_bytes(picture)
    else:
        members = [(f"{i}.jpg", picture) for i, picture in enumerate(pictures)]
        make_shard(source / "a.tar", members)
    for _ in range(2):  # When it is made, and of the stored one.
        assert (
            "crop index: 1 of 5 pictures; without: 2 left to libjpeg-turbo (progressive), "
            "1 not JPEG, 1 too small\n" in run("index", source, "--crop-index").out.decode()
        )
    assert run("index", source, "--crop-index", "--json").json()["without_crop_index"] == {
        "left to libjpeg-turbo (progressive)": 2,
        "not JPEG": 1,
        "too small": 1,
    }


def test_one_that_is_dropped_is_named(shards):
    gone = "have no crop index any more, as the index was made anew"
    assert gone not in run("index", shards, "--rebuild").err
    run("index", shards, "--crop-index")
    assert gone not in run("index", shards, "--crop-index", "--rebuild").err
    assert gone in run("index", shards, "--rebuild").err
    assert gone not in run("index", shards, "--rebuild").err


def test_the_command_that_is_suggested_names_the_source(folder, shards):
    run("index", folder, "--crop-index")
    (folder / "cat" / "new.jpg").write_bytes(jpeg(7, SIZE))
    said = run("plan", folder, "--batch", "2").out.decode()
    assert f"make it anew with feedrace index {folder} --crop-index" in said
    run("index", shards, "--crop-index")
    make_shard(shards / "new.tar", [("n.jpg", jpeg(7, SIZE)), ("n.cls", b"1")])
    said = run("plan", shards, "--batch", "2").out.decode()
    assert f"make it with feedrace index {shards} --crop-index" in said
