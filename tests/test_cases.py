# SPDX-License-Identifier: Apache-2.0
"""Drives the program over tests/cases: small inputs with known right answers."""

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import cases
from conftest import CASES, peak_mb, run
from pictures import jpeg, make_shard

# What the process takes before it has looked at any data, and its index.
IDLE_MB = 64


def of_kind(kind):
    return pytest.mark.parametrize("case", cases.load(kind), ids=lambda case: case["id"])


def source_of(case, where):
    """The path to give to the program: a copy under `where`, as an index is written beside it."""
    if "recipe" in case:
        return Path(cases.materialize(case, str(where / case["id"])))
    source = CASES / (case.get("file") or case["folder"])
    copy = shutil.copytree if source.is_dir() else shutil.copyfile
    return Path(copy(source, where / source.name))


def check_message(result, case, file, key="k"):
    """The message of an error names what it must; a match of one of the hints is required too."""
    message = result.error(1, 2, 3)
    assert cases.message_ok(message, case["expect"], file=file, key=key), message


def check_memory(case, *args):
    limit = case["expect"].get("allocation_limit_mb")
    assert limit is None or peak_mb(*args) < limit + IDLE_MB


def check_reported(result, case):
    for thing in case["expect"].get("must_be_reported", []):
        assert thing in result.err, f"nothing said of {thing}: {result.err!r}"


def may_fail(case):
    return case["expect"]["outcome"] in ("ok_or_error", "error_or_flagged")


def must_fail(case):
    return case["expect"]["outcome"] == "error"


@of_kind("decode")
def test_a_picture_decodes_to_the_reference_or_names_its_fault(case, tmp_path):
    picture, out = source_of(case, tmp_path), tmp_path / "x.npy"
    check_memory(case, "decode", picture, "--out", tmp_path / "measured.npy")
    result = run("decode", picture, "--out", out)
    if must_fail(case) or (may_fail(case) and result.code != 0):
        check_message(result, case, picture.name)
        assert not out.exists(), "an error left a file behind"
        return
    assert result.code == 0, result.err
    if "pixels" in case["expect"]:
        assert cases.pixels_match(np.load(out), case["expect"])
    if case["expect"]["outcome"] == "error_or_flagged":
        assert picture.name in result.err, "a damaged picture was delivered in silence"


@pytest.mark.parametrize(
    "case",
    [c for c in cases.load("decode") if "pixels_oriented" in c["expect"]],
    ids=lambda case: case["id"],
)
def test_a_picture_is_turned_upright_on_request(case, tmp_path):
    out = tmp_path / "x.npy"
    result = run("decode", source_of(case, tmp_path), "--out", out, "--orientation", "upright")
    assert result.code == 0, result.err
    expect = {"pixels": case["expect"]["pixels_oriented"], "tolerance": case["expect"]["tolerance"]}
    assert cases.pixels_match(np.load(out), expect)


def key_of(sample):
    """The key as bytes, of a case's sample or of one that `ls --json` printed."""
    return bytes.fromhex(sample["key_hex"]) if "key_hex" in sample else os.fsencode(sample["key"])


def content_of(shard, fields):
    """What `ls` says of a sample's fields, in the form of the expectations."""
    with open(shard, "rb") as file:
        found = {}
        for name, place in fields.items():
            file.seek(place["offset"])
            content = file.read(place["size"])
            found[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return found


def matches(listed, shard, expected, read_only=None):
    """True when `ls` listed exactly the expected samples with the expected bytes."""
    if [key_of(s) for s in listed] != [key_of(s) for s in expected]:
        return False
    for got, want in zip(listed, expected, strict=True):
        if set(got["fields"]) != set(want["fields"]):
            return False
        names = [n for n in want["fields"] if read_only is None or n in read_only]
        content = content_of(shard, {n: got["fields"][n] for n in names})
        if any(content[n] != {k: want["fields"][n][k] for k in content[n]} for n in names):
            return False
    return True


@of_kind("tar")
def test_a_shard_lists_its_samples_or_names_its_fault(case, tmp_path):
    shard = source_of(case, tmp_path)
    check_memory(case, "ls", shard, "--json")
    result = run("ls", shard, "--json")
    expect = case["expect"]
    if must_fail(case) or (may_fail(case) and result.code != 0):
        check_message(result, case, shard.name)
        return
    listed = result.json()["samples"]
    fair = [expect["samples"], *(a["samples"] for a in expect.get("alternatives", []))]
    read_only = expect.get("read_only_fields")
    assert any(matches(listed, shard, f, read_only) for f in fair), listed
    if expect["outcome"] == "error_or_flagged":
        assert shard.name in result.err, "a damaged shard was listed in silence"
    if listed == [] or matches(listed, shard, expect["samples"], read_only):
        check_reported(result, case)


@pytest.mark.parametrize(
    "case",
    [c for c in cases.load("tar") if c["expect"]["outcome"] == "ok" and "file" in c],
    ids=lambda case: case["id"],
)
def test_cat_writes_the_bytes_of_a_field(case, tmp_path):
    shard = source_of(case, tmp_path)
    for sample in run("ls", shard, "--json").json()["samples"]:
        for name, place in sample["fields"].items():
            result = run("cat", shard, key_of(sample), name)
            assert result.code == 0, result.err
            content = shard.read_bytes()[place["offset"] : place["offset"] + place["size"]]
            assert result.out == content


@of_kind("tar-set")
def test_shards_that_belong_together_are_listed_in_order(case, tmp_path):
    folder = source_of(case, tmp_path)
    samples = run("ls", folder, "--json").json()["samples"]
    expect = case["expect"]
    assert len(samples) == expect["total"]
    names = sorted(p.name for p in folder.glob("*.tar"))
    shards = [Path(s["shard"]).name for s in samples]
    assert [shards.count(name) for name in names] == expect["shard_sizes"]
    assert shards == sorted(shards)
    if "samples_in_order" in expect:
        described = [
            f"{Path(s['shard']).name}:{s['key']}{{{'+'.join(sorted(s['fields']))}}}"
            for s in samples
        ]
        assert described == expect["samples_in_order"]


def path_bytes(entry):
    """A path of the expectations or of `ls --json`, which writes what is not UTF-8 as hex."""
    if isinstance(entry, dict):
        return bytes.fromhex(entry["path_hex"])
    return os.fsencode(entry)


def folder_result(classes, samples):
    return classes, [(path_bytes(path), number) for path, number in samples]


@of_kind("folder")
def test_a_folder_lists_its_classes_and_pictures(case, open_dir, request):
    options = request.getfixturevalue("ordinary_user") if case.get("needs") == "not root" else {}
    root = source_of(case, open_dir)
    result = run("ls", root, "--json", **options)
    expect = case["expect"]
    if must_fail(case) or (may_fail(case) and result.code != 0):
        check_message(result, case, root.name)
        return
    listed = result.json()
    got = folder_result(listed["classes"], listed["samples"])
    alternatives = expect.get("alternatives", [])
    fair = [(a.get("classes", expect["classes"]), a["samples"]) for a in alternatives]
    fair.insert(0, (expect["classes"], expect["samples"]))
    assert got in [folder_result(*f) for f in fair]
    check_reported(result, case)


def shard_with_label(case, tmp_path):
    """A shard of one sample `k` whose label is the case's file."""
    content = (CASES / case["file"]).read_bytes()
    members = [(f"k.{case['sub']}", content), ("k.jpg", jpeg())]
    return make_shard(tmp_path / f"{case['id']}.tar", members)


@pytest.mark.parametrize(
    "case", [c for c in cases.load("label") if c["sub"] != "list"], ids=lambda case: case["id"]
)
def test_a_label_member_gives_its_number_or_names_its_fault(case, tmp_path):
    shard = shard_with_label(case, tmp_path)
    result = run("batch", shard, "--batch", "1", "--out", tmp_path / "batch")
    value = case["expect"].get("value")
    if must_fail(case) or (may_fail(case) and result.code != 0):
        check_message(result, case, shard.name)
        return
    assert result.code == 0, result.err
    # Good JSON without the member `label` is a sample without a label.
    wanted = value.get("label", -1) if isinstance(value, dict) else value
    assert result.json()["samples"][0]["label"] == wanted
    assert np.load(tmp_path / "batch" / "labels.npy").tolist() == [wanted]


@pytest.mark.parametrize(
    "case", [c for c in cases.load("label") if c["sub"] == "list"], ids=lambda case: case["id"]
)
def test_a_list_gives_paths_and_labels_or_names_its_fault(case, tmp_path):
    source = source_of(case, tmp_path)
    result = run("ls", source, "--json")
    if must_fail(case):
        check_message(result, case, source.name)
        return
    assert result.json()["samples"] == case["expect"]["entries"]
