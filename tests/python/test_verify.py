# SPDX-License-Identifier: Apache-2.0
"""`fr.verify`: the report as an object, and how it ends early."""

import json

import pytest

import feedrace as fr
from small_sets import fields_of, write_classes, write_shard


def test_decoded_shards_are_looked_at_as_by_the_command(tmp_path):
    (tmp_path / "src").mkdir()
    write_classes(tmp_path / "src", {"cat": 3, "dog": 3})
    assert fr.pack(tmp_path / "src", tmp_path / "out", raw=16).samples == 6
    report = fr.verify(tmp_path / "out")
    assert report
    assert report.pictures == report.decoded == 6
    assert report.index == "fresh"


def test_a_good_folder(folder):
    report = fr.verify(folder)
    assert report
    assert report.good
    assert (report.kind, report.samples, report.decoded) == ("image folder", 12, 12)
    assert report.classes["largest"] == {"label": 1, "samples": 5}
    assert report.findings == []
    assert report.as_dict()["samples"] == 12
    assert repr(report) == "<VerifyReport: good, 12 samples>"
    assert "pixels" in dir(report)
    with pytest.raises(AttributeError, match="no_such"):
        _ = report.no_such


def test_a_bad_shard_and_its_list(tmp_path):
    samples = {f"{i}": fields_of(i) for i in range(6)}
    samples["3"]["jpg"] = b"no picture"
    shard = write_shard(tmp_path / "s.tar", samples)
    report = fr.verify(
        [shard], bad_file=tmp_path / "bad.jsonl", num_threads=2, require=("jpg", "cls")
    )
    assert not report
    assert report.bad_samples == 1
    assert "picture: pictures that can't be decoded: 1" in repr(report)
    (line,) = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == "3"
    assert fr.verify(shard, decode=False)
    assert not fr.verify(shard, decode=False, require=["rare"])
    assert fr.verify(shard, image_fields=["npy"], label_field=None)


def test_a_function_is_told_and_may_end_it(tmp_path):
    root = write_classes(tmp_path, {"only": 300}, lambda seed: (900, 800))
    told = []
    assert fr.verify(root, progress=lambda done, share: told.append((done, share)), num_threads=1)
    assert told == sorted(told)
    assert all(0 <= share <= 1 for _, share in told)

    def stop(done, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fr.verify(root, progress=stop, bad_file=tmp_path / "bad.jsonl")
    assert not list(tmp_path.glob("bad*"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"data": []}, "data"),
        ({"data": 5}, "data"),
        ({"decode": 2}, "decode"),
        ({"num_threads": -1}, "num_threads"),
        ({"require": "jpg"}, "require"),
        ({"bad_file": ""}, "bad_file"),
        ({"progress": 3}, "progress"),
        ({"label_field": 3}, "label_field"),
    ],
)
def test_wrong_arguments_are_named(folder, given, told):
    with pytest.raises(fr.Error, match=f"fr.verify: {told}") as caught:
        fr.verify(**{"data": folder, **given})
    assert caught.value.code == "invalid_argument"


def test_what_is_not_there(tmp_path):
    with pytest.raises(fr.Error, match="none") as caught:
        fr.verify(tmp_path / "none")
    assert caught.value.code == "not_found"
