# SPDX-License-Identifier: Apache-2.0
"""Storage that fails, stalls, gives less than it was asked for, or changes during a run.

What is wrong is named, nothing hangs, and no batch is short or wrong in silence.
"""

import errno
import json
import os
import re
import shutil

import pytest

import mounts
from conftest import HANG_SECONDS, Run, run, start
from digests import digest, lines_of, places, quick
from storage_sets import BACKENDS, BATCH, FORMS, batches, fallbacks, make_sets, read_report

GOOD, BAD_DATA, ENVIRONMENT = 0, 1, 3
SIZES = (3000, 5000, 9000, 20000, 70000, 300001, 4096, 8192, 12000, 3500)
MANNERS = ((), ("--page-cache", "drop"))
FILE = "folder/cat/004.jpg"
SHARD = "shards/packed-000.tar"
# By the form of the data: where the one sample lies that is to suffer, and how messages name it.
VICTIMS = {
    "folder": (FILE, 0, r"folder/cat/004\.jpg: "),
    "shards": (
        SHARD,
        88000,
        r"packed-000\.tar: sample cat/006\.jpg \(offset 87552, 4096 bytes\): ",
    ),
}
KEYS = {"folder": "cat/004.jpg", "shards": "cat/006"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    mounts.make_private()
    folder = make_sets(tmp_path_factory.mktemp("original"), SIZES)
    # Before anything fails, or making it would be what fails.
    assert run("index", folder / "shards").code == GOOD
    return folder


@pytest.fixture(scope="module")
def reference(original):
    return {form: batches(original / form, "--backend", "buffered") for form in FORMS}


@pytest.fixture
def faulty(original, tmp_path):
    """Mounts the data behind rules."""
    return lambda *rules: mounts.faulty_mounted(original, tmp_path / "mounted", *rules)


def message(source, backend, manners, *codes):
    """What a run that must fail says, on one line."""
    result = run("digest", source, *quick(BATCH), "--backend", backend, *manners)
    *notes, last = result.error(*codes).splitlines()
    assert all("(RWF_DONTCACHE)" in note or "io_uring can't be used" in note for note in notes)
    return last


both_manners = pytest.mark.parametrize("manners", MANNERS, ids=["auto", "drop"])
all_backends = pytest.mark.parametrize("backend", BACKENDS)
both_forms = pytest.mark.parametrize("form", FORMS)


@both_forms
@all_backends
@both_manners
class TestEveryBackEnd:
    def test_names_the_sample_that_the_device_does_not_give(self, faulty, form, backend, manners):
        path, offset, name = VICTIMS[form]
        with faulty(f"read-error:{offset}:{path}") as at:
            said = message(at / form, backend, manners, ENVIRONMENT)
        assert re.search(name, said)
        assert re.search(r"at offset \d+ failed \(.*: Input/output error\)", said)

    def test_goes_on_without_it_when_told_to(self, faulty, form, backend, manners, tmp_path):
        path, offset, _ = VICTIMS[form]
        quarantine = tmp_path / "quarantine"
        options = ("--on-error", "replace", "--quarantine", quarantine, "--backend", backend)
        with faulty(f"read-error:{offset}:{path}") as at:
            lines = digest(at / form, *BATCH, *options, *manners)
        flags = [flag for line in lines for flag in line["flags"]]
        assert sorted(flags) == ["real"] * (len(SIZES) - 1) + ["substituted"]
        (entry,) = map(json.loads, quarantine.read_text().splitlines())
        assert (entry["key"], entry["code"]) == (KEYS[form], "io")

    def test_reads_on_after_short_reads(self, faulty, form, backend, manners, reference):
        with faulty("short:1000:*", "uncached:0:*") as at:
            assert batches(at / form, "--backend", backend, *manners) == reference[form]

    def test_waits_for_slow_reads(self, faulty, form, backend, manners, reference):
        with faulty("delay:200:folder/cat/004.jpg", "delay:100:shards/packed-001.tar") as at:
            assert batches(at / form, "--backend", backend, *manners) == reference[form]

    def test_names_a_file_that_is_shorter_than_its_size(self, faulty, form, backend, manners):
        path, _, name = VICTIMS[form]
        end = {"folder": 15000, "shards": 88000}[form]
        with faulty(f"shrink:{end}:{path}") as at:
            said = message(at / form, backend, manners, BAD_DATA)
        assert re.search(name, said)
        assert {"folder": "ends after 15000 bytes", "shards": "ends 448 bytes into"}[form] in said

    def test_names_a_file_that_can_not_be_opened(self, faulty, form, backend, manners):
        path, _, _ = VICTIMS[form]
        with faulty(f"open-error:{errno.EACCES}:{path}") as at:
            said = message(at / form, backend, manners, ENVIRONMENT)
            assert re.search(rf"{path}: can't be opened \(.*openat: Permission denied\)", said)
        with faulty(f"open-error:{errno.ENOENT}:{path}") as at:
            said = message(at / form, backend, manners, BAD_DATA)
            assert re.search(rf"{path}: can't be opened \(.*openat: No such file", said)


@all_backends
@both_forms
def test_a_read_that_hangs_is_named(faulty, form, backend):
    # None that is looked at before it is read, which is waited for too.
    path = {"folder": FILE, "shards": "shards/packed-001.tar"}[form]
    # Others wait behind it, and the message names three: so no more than two at a time.
    waits = ("--no-shuffle", "--timeout", "0.2", "--queue-depth", "2", "--backend", backend)
    with faulty(f"delay:500:{path}") as at:
        said = run("digest", at / form, *quick(BATCH), *waits).error(ENVIRONMENT)
    assert "no batch within 0.2 s" in said
    assert path.split("/")[-1] in said


def test_a_shard_whose_opening_hangs_is_named(faulty):
    options = ("--backend", "direct", "--no-shuffle", "--timeout", "0.2")
    with faulty(f"delay:700:{SHARD}") as at:
        said = run("digest", at / "shards", *quick(BATCH), *options).error(ENVIRONMENT)
    assert "no batch within 0.2 s" in said
    assert "packed-000.tar" in said


@all_backends
def test_o_direct_that_some_files_refuse_is_given_up(faulty, backend, reference):
    with faulty("no-direct:0:*/dog/*", "no-direct:0:*-001.tar") as at:
        for form in FORMS:
            options = ("--backend", backend, "--page-cache", "drop")
            assert batches(at / form, *options) == reference[form]
            said = fallbacks(read_report(at / form, *options))
            is_given_up = any("O_DIRECT is not used on fuse" in text for text in said)
            assert is_given_up == (backend != "buffered")


@pytest.mark.parametrize("on_error", ["raise", "replace", "zero"])
def test_a_way_that_is_refused_is_no_bad_sample(faulty, on_error):
    refused = ("--backend", "direct", "--fallback", "error", "--on-error", on_error)
    with faulty("no-direct:0:*/dog/*") as at:
        said = run("digest", at / "folder", *quick(BATCH), *refused).error(ENVIRONMENT)
    assert "O_DIRECT is not used on fuse" in said


# What changes during a run.


def changed_during_run(source, change, backend, *options):
    """A run of four epochs; `change` is called when the first batch was delivered. Its lines."""
    # Slow enough that the files of later epochs are read after the change.
    slow = ("--epochs", "4", "--sleep-ms", "30", "--prefetch", "1")
    command = ("digest", source, *quick(BATCH), *slow, "--backend", backend, *options)
    process = start(*command)
    try:
        first = process.stdout.readline()
        change()
        rest, said = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    lines = lines_of(first + rest)
    assert lines
    return lines, Run(process.returncode, rest, said.decode())


@pytest.fixture
def changing(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


@all_backends
@both_forms
@both_manners
def test_a_file_that_is_cut_off_is_named(changing, form, backend, manners):
    path, _, name = VICTIMS[form]
    cut = {"folder": 20000, "shards": 88000}[form]
    _, result = changed_during_run(
        changing / form, lambda: os.truncate(changing / path, cut), backend, *manners
    )
    assert re.search(name, result.error(BAD_DATA))


def copy_over(source, target):
    """As programs that write safely do: under another name, then renamed."""
    shutil.copy(source, target.with_suffix(".new"))
    os.replace(target.with_suffix(".new"), target)


@all_backends
@both_manners
def test_a_picture_that_is_replaced_is_read_as_it_is_then(changing, backend, manners):
    # Neither crop nor flip depends on the epoch, so a file has one digest.
    source, fixed = changing / "folder", ("--recipe", "imagenet-val")
    before = places(batches(source, *fixed))
    lines, result = changed_during_run(
        source,
        lambda: copy_over(source / "dog/003.jpg", changing / FILE),
        backend,
        *fixed,
        *manners,
    )
    assert result.code == GOOD, result.err
    after = places(batches(source, *fixed))
    assert before != after
    for (epoch, position), content in places(lines).items():
        assert content == after[0, position] or (epoch < 3 and content == before[0, position])


@all_backends
@both_manners
def test_a_shard_that_is_replaced_stays_as_it_was_opened(changing, backend, manners):
    source, fixed = changing / "shards", ("--recipe", "imagenet-val")
    wanted = places(batches(source, *fixed))
    lines, result = changed_during_run(
        source, lambda: copy_over(source / "packed-002.tar", changing / SHARD), backend, *fixed,
        *manners,
    )  # fmt: skip
    assert result.code == GOOD, result.err
    assert all(content == wanted[0, place] for (_, place), content in places(lines).items())


@all_backends
@both_manners
@both_forms
def test_a_mount_that_dies_is_named(original, tmp_path, form, backend, manners):
    at = tmp_path / "mounted"
    with mounts.faulty_server(original, at) as server:
        _, result = changed_during_run(at / form, server.kill, backend, *manners)
    said = result.error(ENVIRONMENT)
    assert "Transport endpoint is not connected" in said or "Software caused" in said
