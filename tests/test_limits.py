# SPDX-License-Identifier: Apache-2.0
"""What a loader must never do in silence when the machine runs short or the input is odd."""

import json
import os
import resource
import shutil

import numpy as np
import pytest

from conftest import run
from pictures import make_folder, make_shards

GOOD, BAD_DATA, WRONG_USE, ENVIRONMENT = 0, 1, 2, 3


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "pictures")


def limited(which, value):
    return lambda: resource.setrlimit(which, (value, value))


@pytest.mark.parametrize("descriptors", range(5, 12))
def test_without_descriptors_the_list_of_samples_is_whole_or_an_error(tmp_path, descriptors):
    deep = tmp_path / "deep"
    for depth in ("a", "a/b", "a/b/c", "a/b/c/d"):
        make_folder(deep / "one" / depth, classes=("x",), count=2)
    whole = run("ls", deep, "--json").json()
    result = run("ls", deep, "--json", preexec_fn=limited(resource.RLIMIT_NOFILE, descriptors))
    if result.code == GOOD:
        assert result.json() == whole
    else:
        assert "ulimit -n" in result.error(ENVIRONMENT) or "Too many open files" in result.err


def test_a_file_size_limit_is_an_error_and_leaves_nothing_behind(folder, tmp_path):
    out = tmp_path / "out"
    result = run(
        "batch", folder, "--batch", "4", "--out", out,
        preexec_fn=limited(resource.RLIMIT_FSIZE, 1000),
    )  # fmt: skip
    assert "File too large" in result.error(ENVIRONMENT)
    assert list(out.iterdir()) == []


def test_a_quarantine_that_nobody_reads_is_refused_at_once(folder, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run("bench", "loader", folder, "--batch", "4", "--epochs", "1", "--quarantine", pipe)
    assert "quarantine" in result.error(ENVIRONMENT)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seconds", "nan"),
        ("--seconds", "-1"),
        ("--epochs", "-1"),
        ("--epochs", "0"),
        ("--seed", "-1"),
        ("--seed", "99999999999999999999"),
        ("--threads", "010"),
        ("--threads", " 4"),
        ("--threads", "-1"),
        ("--batch", "0"),
        ("--queue-depth", "5000"),
        ("--error-budget", "-1"),
        ("--memory-limit", "-1"),
        ("--dtype", "x\ny"),
    ],
)
def test_a_number_that_is_none_is_refused_with_its_range(folder, arguments):
    message = run("bench", "loader", folder, *arguments).error(WRONG_USE)
    assert len(message.splitlines()) == 1
    assert arguments[0] in message


def test_what_was_left_out_is_said_on_standard_error(tmp_path):
    shards = make_shards(tmp_path / "shards", shard_count=2)
    run("index", shards)
    next(shards.glob("*.tar")).unlink()
    result = run("batch", shards, "--batch", "4", "--out", tmp_path / "out")
    assert result.code == GOOD
    assert "index refreshed" in result.err


def test_a_shard_that_is_a_link_to_nothing_is_an_error(tmp_path):
    shards = make_shards(tmp_path / "shards", shard_count=2)
    (shards / "gone.tar").symlink_to("nowhere.tar")
    assert "gone.tar" in run("plan", shards, "--batch", "4").error(WRONG_USE)


def test_a_file_that_vanishes_is_bad_data_not_wrong_use(folder, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text(f"{folder}/cat/000.jpg 0\n{folder}/gone.jpg 1\n")
    result = run("bench", "loader", listing, "--batch", "2", "--epochs", "1")
    message = result.error(BAD_DATA)
    assert message.count("gone.jpg") == 1


def test_replaced_samples_are_in_the_report(folder):
    (folder / "cat" / "000.jpg").write_bytes(b"no picture")
    options = ("--batch", "4", "--epochs", "1", "--on-error", "replace", "--no-shuffle")
    text = run("bench", "loader", folder, *options)
    assert b"1 bad: 1 replaced" in text.out
    report = run("bench", "loader", folder, *options, "--json").json()
    assert (report["bad_samples"], report["substituted_samples"]) == (1, 1)


def test_the_size_of_the_output_can_be_chosen(folder, tmp_path):
    for recipe in ("imagenet-train", "imagenet-val"):
        out = tmp_path / recipe
        result = run(
            "batch", folder, "--batch", "4", "--recipe", recipe, "--size", "96", "--out", out
        )
        assert json.loads(result.out)["shape"] == [4, 3, 96, 96]
        assert np.load(out / "images.npy").shape == (4, 3, 96, 96)


def test_validation_keeps_every_sample_in_its_stored_order(folder):
    plan = run("plan", folder, "--recipe", "imagenet-val", "--batch", "5", "--json").json()
    assert (plan["steps"], plan["dropped_samples"], plan["order"]) == (3, 0, "as stored")


def test_threads_and_back_ends_give_the_same_bytes(tmp_path):
    shards = make_shards(tmp_path / "shards", shard_count=2)
    copy = tmp_path / "copy"
    shutil.copytree(shards, copy)
    for source, threads, backend in ((shards, "1", "buffered"), (copy, "4", "auto")):
        result = run(
            "batch", source, "--batch", "8", "--seed", "7", "--threads", threads,
            "--backend", backend, "--out", tmp_path / threads,
        )  # fmt: skip
        assert result.code == GOOD, result.err
    first, second = (np.load(tmp_path / threads / "images.npy") for threads in "14")
    assert np.array_equal(first, second)
