# SPDX-License-Identifier: Apache-2.0
"""What a command writes never takes the place of what it reads."""

import os

import pytest

from conftest import run
from pictures import jpeg, make_folder, make_shards

WRONG_USE, ENVIRONMENT = 2, 3
LOAD = ("--batch", "4", "--threads", "1", "--recipe", "imagenet-val")


def commands(data, output):
    """Each that writes a file whose name is given."""
    return {
        "verify": ("verify", data, "--bad", output),
        "report": ("report", data, "--out", output, "--seconds", "0.2", *LOAD),
        "trace": ("bench", "loader", data, "--trace", output, "--seconds", "0.2", *LOAD),
        "quarantine": ("digest", data, "--quarantine", output, "--batches", "1", *LOAD),
        "state": ("digest", data, "--state", output, "--batches", "1", *LOAD),
    }


NAMES = tuple(commands("", ""))


def content(folder):
    """Of all its files that are there before a command runs."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(name, data, output, folder):
    before = content(folder)
    message = run(*commands(data, output)[name]).error(WRONG_USE)
    after = content(folder)
    assert {p: after[p] for p in before} == before
    assert not {p for p in set(after) - set(before) if ".frindex" not in str(p)}
    return message


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "set")


@pytest.fixture
def shards(tmp_path):
    return make_shards(tmp_path / "set")


@pytest.mark.parametrize("name", NAMES)
def test_no_picture_of_a_folder_is_written_over(name, folder):
    picture = sorted(folder.rglob("*.jpg"))[0]
    assert str(picture) in refused(name, folder, picture, folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_no_shard_is_written_over_by_a_link(name, link, shards, tmp_path):
    shard = sorted(shards.glob("*.tar"))[0]
    link(shard, tmp_path / "out.json")
    assert "which is read" in refused(name, shards, tmp_path / "out.json", shards)
    assert shard.name in refused(name, shard, shard, shards)
    assert shard.name in refused(name, f"{shards}/*.tar", shard, shards)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_becomes_a_sample_of_the_folder(name, folder, shards):
    assert "would be a sample" in refused(name, folder, folder / "new/../cat.JPG", folder)
    assert "would be a sample" in refused(name, shards, shards / "new.tar", shards)


@pytest.mark.parametrize("name", NAMES)
def test_no_other_file_of_the_folder_is_written_over(name, folder):
    (folder / "classes.txt").write_text("cat\ndog\n")
    message = refused(name, folder, folder / "classes.txt", folder)
    assert "is a file in the data set's folder" in message


@pytest.mark.parametrize("name", NAMES)
def test_neither_a_list_nor_what_it_names_is_written_over(name, tmp_path):
    pictures = make_folder(tmp_path / "elsewhere")
    listed = sorted(pictures.rglob("*.jpg"))
    (tmp_path / "lists").mkdir()
    names = tmp_path / "lists/list.csv"
    names.write_text("".join(f"{p},0\n" for p in listed))
    assert str(names) in refused(name, names, names, tmp_path)
    assert str(listed[3]) in refused(name, names, listed[3], tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_writes_over_what_it_wrote(name, folder):
    (sorted(folder.rglob("*.jpg"))[0]).write_bytes(jpeg()[:200])
    output = folder / "output.txt"
    command = (
        *commands(folder, output)[name],
        *(() if name == "verify" else ("--on-error", "zero")),
    )
    for _ in range(2):
        assert run(*command).code in (0, 1)
        assert output.stat().st_size > 0


def test_the_label_file_is_not_written_over(folder, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("a 1\n")
    run("verify", folder, "--label-file", labels, "--bad", labels).error(WRONG_USE)
    assert labels.read_text() == "a 1\n"


def test_a_picture_is_not_decoded_into_itself(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(jpeg())
    os.link(picture, tmp_path / "b.png")
    for output in (picture, tmp_path / "b.png"):
        run("decode", picture, "--out", output).error(WRONG_USE)
    assert picture.read_bytes() == jpeg()


def test_arrays_of_a_batch_become_no_samples(folder):
    run("batch", folder, "--out", folder / "ant", *LOAD).error(WRONG_USE)
    assert not list(folder.rglob("*.npy"))


def test_exported_indexes_write_over_their_own_only(shards, tmp_path):
    shard = sorted(shards.glob("*.tar"))[0]
    before = shard.read_bytes()
    run("index", shards, "--format", "wids", "--to", shard).error(WRONG_USE)
    assert shard.read_bytes() == before
    for _ in range(2):
        run("index", shards, "--format", "wids", "--to", shards / "list.json", "--json").json()
        run("index", shards, "--format", "dali", "--json").json()
    os.link(shard, tmp_path / f"{shard.stem}.idx")
    run("index", shards, "--format", "dali", "--to", tmp_path).error(WRONG_USE)
    assert shard.read_bytes() == before


@pytest.mark.parametrize(
    "more",
    [
        ("--format", "dali", "--image-fields", "png"),
        ("--format", "dali", "--label-field", "json"),
        ("--format", "dali", "--label-file", "labels.txt"),
        ("--format", "dali", "--cache-dir", "cache"),
        ("--import", ".", "--rebuild"),
        ("--import", ".", "--crop-index"),
        ("--import", ".", "--format", "wids"),
    ],
)
def test_options_of_an_exchange_that_would_change_nothing_are_refused(shards, more):
    message = run("index", shards, *more).error(WRONG_USE)
    assert more[-2] in message or more[-1] in message
    assert {path.suffix for path in shards.iterdir()} == {".tar"}


def test_devices_and_pipes_are_written_to(folder):
    assert run("verify", folder, "--bad", "/dev/null").code == 0


@pytest.mark.parametrize("name", ["verify", "report", "trace"])
def test_a_pipe_that_nobody_reads_is_not_waited_for(folder, tmp_path, name):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    message = run(*commands(folder, pipe)[name]).error(ENVIRONMENT)
    assert f"{pipe}: open: No such device or address; a pipe that nobody reads" in message


@pytest.mark.parametrize("name", ["verify", "report"])
def test_what_takes_long_is_not_begun_for_an_output_that_can_not_be(folder, tmp_path, name):
    for output, reason in (
        (tmp_path, "it is a folder: name a file"),
        (tmp_path / "absent/file", "make the folder first"),
    ):
        words = [str(word) for word in commands(folder, output)[name]]
        words = ["600" if word == "0.2" else word for word in words]
        message = run(*words).error(ENVIRONMENT)
        assert str(output) in message
        assert reason in message
    assert {p.name for p in tmp_path.iterdir()} == {folder.name}
