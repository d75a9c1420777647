# SPDX-License-Identifier: Apache-2.0
"""Further fields of samples, from bytes to values."""

import numpy as np
import pytest

import feedrace as fr
from feedrace.fields import decode_field
from small_sets import fields_of, npy_of, write_shard


def loader_of(source, fields, **arguments):
    arguments = {"batch_size": 4, "transform": "imagenet-val", "output": "numpy", **arguments}
    return fr.ImageLoader(source, fields=fields, **arguments)


def raise_it(error):
    raise error


def rows_of(loader):
    return [row for batch in loader for row in zip(*batch, strict=True)]


def test_fields_come_along_with_the_batch(shard):
    fields = ("key", "json", "txt", "cls", "npy", "bin", "image")
    rows = rows_of(loader_of(shard, fields))
    assert len(rows) == 6
    for i, (key, json, text, number, array, content, image) in enumerate(rows):
        assert key == f"{i:04}"
        assert json == {"caption": f"picture {i}", "box": [i, 2]}
        assert text == f"größe {i}"
        assert number == i % 3
        assert array.dtype == np.float32
        assert array.tolist() == list(range(i + 1))
        assert content == bytes([i, 255])
        assert image.shape == (3, 224, 224)


def test_a_field_that_some_samples_lack_is_none(shard):
    rows = rows_of(loader_of(shard, ("rare?", "index")))
    assert [value for value, _ in rows] == [b"here" if i % 2 else None for i in range(6)]


def test_a_field_that_must_be_there_makes_a_bad_sample(shard):
    with pytest.raises(fr.Error, match="rare") as caught:
        rows_of(loader_of(shard, ("rare",)))
    assert "0000" in str(caught.value)


def test_the_pictures_own_bytes_are_a_field(shard):
    rows = rows_of(loader_of(shard, ("jpg",), transform="read"))
    assert [content for (content,) in rows] == [fields_of(i)["jpg"] for i in range(6)]


def test_fields_of_a_pipeline(shard):
    @fr.pipeline(batch_size=4, output="numpy")
    def captioned(root):
        image, meta, rare = fr.fn.read(root, fields=("image", "json", "rare?"))
        return rare, fr.fn.resize(fr.fn.decode(image), 8), meta

    rows = rows_of(captioned(shard))
    assert [meta["caption"] for _, _, meta in rows] == [f"picture {i}" for i in range(6)]
    assert [rare for rare, _, _ in rows][:2] == [None, b"here"]


def test_a_field_that_is_not_what_its_name_says(tmp_path):
    samples = {f"{i}": fields_of(i) for i in range(4)}
    samples["2"]["json"] = b"{broken"
    path = write_shard(tmp_path / "a.tar", samples)
    loader = loader_of(path, ("index", "json"), batch_size=2)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    with pytest.raises(fr.Error) as caught:
        next(iterator)
    assert caught.value.code == "corrupt_data"
    message = str(caught.value)
    assert "a.tar: sample 2" in message
    assert "field 'json' is no JSON" in message
    assert "\n" not in message
    # The batch did not come: neither state nor loop is behind it.
    assert loader.state_dict() == state
    with pytest.raises(fr.Error, match="is no JSON"):
        next(iterator)


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("json", b"[1, 2]", [1, 2]),
        ("meta.json", b"null", None),
        ("JSON", b"3", 3),
        ("txt", "ä".encode(), "ä"),
        ("caption.txt", b"", ""),
        ("cls", b" 17\n", 17),
        ("cls", b"-1", -1),
        ("bin", b"\0\1", b"\0\1"),
        ("jsonl", b"{", b"{"),
        ("txt", None, None),
    ],
)
def test_values_by_the_end_of_the_name(name, content, value):
    assert decode_field(name, [content], str, raise_it) == [value]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("json", b"\xff", "JSON"),
        ("txt", b"\xff", "UTF-8 text"),
        ("cls", b"cat", "whole number as text"),
        ("cls", "１".encode(), "whole number as text"),
        ("npy", b"", "NumPy array without objects"),
        ("npy", b"\x93NUMPY", "NumPy array without objects"),
        ("npy", npy_of(np.arange(1000))[:200], "NumPy array without objects"),
    ],
)
def test_bytes_that_are_not_what_the_name_says(name, content, kind):
    with pytest.raises(fr.Error) as caught:
        decode_field(name, [None, content], lambda place: f"sample {place}", raise_it)
    assert caught.value.code == "corrupt_data"
    assert str(caught.value).startswith(f"sample 1: field {name!r} is no {kind} (")
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(fr.Error, match="without objects"):
        decode_field("npy", [path.read_bytes()], str, raise_it)
    np.savez(tmp_path / "a.npz", np.arange(3))
    with pytest.raises(fr.Error, match="an archive of arrays"):
        decode_field("npy", [(tmp_path / "a.npz").read_bytes()], str, raise_it)


def test_on_error_covers_fields_that_can_not_be_parsed(tmp_path, caplog):
    samples = {f"{i:04}": {**fields_of(i), "json": b"{" if i == 2 else b"[1]"} for i in range(6)}
    shard = write_shard(tmp_path / "odd.tar", samples)
    with pytest.raises(fr.Error, match="no JSON"):
        rows_of(loader_of(shard, ("json",)))
    for policy in ("replace", "zero"):
        caplog.clear()
        loader = loader_of(shard, ("json", "label"), on_error=policy)
        rows = rows_of(loader)
        assert [value for value, _ in rows] == [[1], [1], None, [1], [1], [1]]
        assert [label for _, label in rows] == [0, 1, 2, 0, 1, 2]
        assert loader.stats()["bad_fields"] == 1
        assert "0002" in caplog.text
