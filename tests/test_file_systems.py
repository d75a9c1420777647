# SPDX-License-Identifier: Apache-2.0
"""Each file system, and each machine that forbids something.

The batches are the same, the bytes take the way that they should, and what is not as it was wanted
is said. Prints the table of it, and leaves it in build/test-output/file-systems.md.
"""

import contextlib
import json
import os
import re
import resource
import shutil
from pathlib import Path

import pytest

import mounts
import sandboxes
from conftest import REPOSITORY, run
from digests import quick
from pictures import jpeg, make_shard
from storage_sets import (
    BACKENDS,
    BATCH,
    FORMS,
    batches,
    fallbacks,
    make_sets,
    padded,
    read_report,
)

ENVIRONMENT = 3
PLACES = (
    "ext4", "ext4, read only", "xfs", "btrfs", "tmpfs", "overlay of ext4", "overlay of tmpfs",
    "fuse", "fuse without O_DIRECT",
)  # fmt: skip
IN_MEMORY = ("tmpfs", "overlay of tmpfs")
DROP = ("--page-cache", "drop")
NOT_UNCACHED = r"uncached reads \(RWF_DONTCACHE\) are not supported"


@pytest.fixture(scope="module")
def table(request):
    """By place, data and back end: what the table says of them. Tests fill it in."""
    rows = {}
    yield rows
    heads = ("used", "bytes", "batches", "fell back because")
    lines = [("place", "data", "back end", *heads), ("---",) * 7]
    lines += [(*key, *(row.get(head, "") for head in heads)) for key, row in rows.items()]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    out = REPOSITORY / "build" / "test-output" / "file-systems.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{text}", end="")


def note(table, key, **cells):
    table.setdefault(key, {}).update({head.replace("_", " "): text for head, text in cells.items()})


def note_report(table, key, report):
    ways, said = ", ".join(report["bytes_by_path"]), "; ".join(fallbacks(report))
    used = report["settings"]["backend"]
    note(table, key, used=used, bytes=ways, fell_back_because=said)


def note_batches(table, key, delivered, wanted):
    is_same = delivered == wanted
    note(table, key, batches="same" if is_same else "DIFFERENT")
    return is_same


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_sets(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def reference(original):
    """The batches of each form, read the plain way from a plain folder."""
    made = {form: batches(original / form, "--backend", "buffered") for form in FORMS}
    digests = {form: [line["digest"] for line in lines] for form, lines in made.items()}
    assert digests["folder"] == digests["shards"]
    return made


@pytest.fixture(scope="module")
def private_mounts():
    mounts.make_private()


def mount(stack, name, original, scratch):
    """A folder with the data in a file system of this name."""
    if name.startswith("fuse"):
        rules = ("no-direct:0:*",) if "without" in name else ()
        return stack.enter_context(mounts.faulty_mounted(original, scratch / "fuse", *rules))
    lower = name.split(",")[0].split()[-1]
    if lower == "tmpfs":
        at = stack.enter_context(mounts.mounted(scratch / "tmpfs", "-t", "tmpfs", "tmpfs"))
    else:
        at = stack.enter_context(mounts.image_mounted(lower, scratch / lower))
    shutil.copytree(original, at / "data")
    if "read only" in name:
        mounts.tool("mount", "-o", "remount,ro", at)
    if name.startswith("overlay"):
        at = stack.enter_context(mounts.overlay_mounted(at, scratch / "overlay"))
    return at / "data"


@pytest.fixture(scope="module", params=PLACES)
def place(request, original, table, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        try:
            request.getfixturevalue("private_mounts")
            folder = mount(stack, request.param, original, tmp_path_factory.mktemp("place"))
        except pytest.skip.Exception as skipped:
            note(
                table, (request.param, "", ""), batches="not tried", fell_back_because=str(skipped)
            )
            raise
        yield request.param, folder


@pytest.fixture(scope="module")
def needs_uring(original):
    """Skips a back end that this machine's owner forbids."""
    report = read_report(original / "folder", "--backend", "uring")
    reason = next((text for text in fallbacks(report) if "io_uring can't be used" in text), None)

    def check(backend):
        if reason and backend in ("auto", "uring"):
            pytest.skip(reason)

    return check


def has_uncached_reads(path):
    """Whether its file system has RWF_DONTCACHE, which depends on the kernel."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(4096)], 0, 0x80) >= 0
        except OSError:
            return False


def expected(name, backend, folder):
    """The way that bytes take, and what is said about it; None: nothing."""
    if name in IN_MEMORY:
        return "page_cache", "keeps files in memory" if backend == "direct" else None
    if backend != "buffered" and name != "fuse without O_DIRECT":
        return "direct", None
    if backend == "direct":
        return "uncached", r"O_DIRECT open fails \(Invalid argument\)"
    picture = next((folder / "folder" / "cat").iterdir())
    return "uncached", None if has_uncached_reads(picture) else NOT_UNCACHED


def one_line(message):
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS)
class TestEveryFileSystem:
    def test_gives_the_same_batches(
        self, place, form, backend, reference, table, tmp_path, needs_uring
    ):
        needs_uring(backend)
        name, folder = place
        options = ("--backend", backend, *DROP, "--cache-dir", tmp_path)
        delivered = batches(folder / form, *options)
        assert note_batches(table, (name, form, backend), delivered, reference[form])

    def test_is_read_the_best_way_and_says_what_it_lacks(
        self, place, form, backend, table, tmp_path, needs_uring
    ):
        needs_uring(backend)
        name, folder = place
        way, why = expected(name, backend, folder)
        report = read_report(folder / form, "--backend", backend, *DROP, "--cache-dir", tmp_path)
        note_report(table, (name, form, backend), report)
        assert list(report["bytes_by_path"]) == [way]
        assert bool(fallbacks(report)) == bool(why)
        assert all(re.search(why, text) for text in fallbacks(report))

    def test_refuses_another_way_when_told_to(self, place, form, backend, tmp_path, needs_uring):
        needs_uring(backend)
        name, folder = place
        _, why = expected(name, backend, folder)
        options = ("--backend", backend, *DROP, "--cache-dir", tmp_path, "--fallback", "error")
        result = run("digest", folder / form, *quick(BATCH), *options)
        if why is None:
            assert result.code == 0, result.err
        else:
            assert re.search(why, one_line(result.error(ENVIRONMENT)))


# Machines that forbid something.


@pytest.mark.parametrize("name", sandboxes.WITHOUT_IO_URING)
def test_without_io_uring_threads_read_the_same(
    name, open_dir, original, reference, table, ordinary_user, needs_uring
):
    needs_uring("uring")
    shutil.copytree(original / "shards", open_dir / "shards")
    source = open_dir / "shards"
    assert run("index", source).code == 0
    with sandboxes.without_io_uring(name, ordinary_user) as (options, why):
        backend = ("--backend", "auto", *DROP)
        delivered = batches(source, *backend, **options)
        report = read_report(source, *backend, **options)
        strict = run("digest", source, *quick(BATCH), *backend, "--fallback", "error", **options)
    key = (name, "shards", "auto")
    note_report(table, key, report)
    assert note_batches(table, key, delivered, reference["shards"])
    assert report["settings"]["backend"] in ("direct", "buffered")
    assert any(re.search(why, text) for text in fallbacks(report))
    assert re.search(why, one_line(strict.error(ENVIRONMENT)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_little_locked_memory_is_said_and_costs_no_batch(
    backend, open_dir, original, reference, table, ordinary_user, needs_uring
):
    needs_uring(backend)
    if os.geteuid() == 0:
        # A user of its own, since locked memory is counted by user.
        ordinary_user = {**ordinary_user, "user": 200_000 + os.getpid() % 100_000}
    limit = sandboxes.limited(resource.RLIMIT_MEMLOCK, 8 << 20)
    options = {**ordinary_user, "preexec_fn": limit}
    source = shutil.copytree(original / "folder", open_dir / "folder")
    way = ("--backend", backend, *DROP)
    report = read_report(source, *way, **options)
    key = ("8 MiB of locked memory", "folder", backend)
    note_report(table, key, report)
    delivered = batches(source, *way, **options)
    assert note_batches(table, key, delivered, reference["folder"])
    said = [text for text in fallbacks(report) if "are not registered" in text]
    assert len(said) == (1 if backend in ("auto", "uring") else 0)
    assert all("8192 KiB" in text and "ulimit -l" in text for text in said)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS)
def test_few_descriptors_cost_no_batch(form, backend, tmp_path, table, needs_uring):
    """More files than may be open at a time."""
    needs_uring(backend)
    folder = make_sets(tmp_path, sizes=[2000 + i for i in range(320)])
    wanted = batches(folder / form, "--backend", "buffered")
    way = ("--backend", backend, *DROP)
    options = {"preexec_fn": sandboxes.limited(resource.RLIMIT_NOFILE, 64)}
    key = ("64 open files", form, backend)
    note_report(table, key, read_report(folder / form, *way, **options))
    assert note_batches(table, key, batches(folder / form, *way, **options), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_file_is_named_and_the_others_are_read(
    backend, original, tmp_path, table, needs_uring
):
    needs_uring(backend)
    source = shutil.copytree(original / "folder", tmp_path / "folder")
    (source / "cat" / "empty.jpg").touch()
    wanted = batches(source, "--backend", "buffered", "--on-error", "zero")
    quarantine = tmp_path / "quarantine"
    bad = ("--on-error", "zero", "--quarantine", quarantine)
    delivered = batches(source, "--backend", backend, *DROP, *bad)
    key = ("a file of 0 bytes", "folder", backend)
    assert note_batches(table, key, delivered, wanted)
    note_report(table, key, read_report(source, "--backend", backend, *DROP, *bad))
    first, *_ = quarantine.read_text().splitlines()
    assert json.loads(first)["key"] == "cat/empty.jpg"
    assert "0 bytes" in json.loads(first)["reason"]
    flags = [flag for line in delivered for flag in line["flags"]]
    assert flags.count("blank") == 1


# What stays in memory.


@pytest.fixture(scope="module")
def large_shard(tmp_path_factory):
    """16 MiB."""
    picture = padded(jpeg(), 1 << 16)
    members = [(f"{i:03}.{kind}", b"1" if kind == "cls" else picture)
               for i in range(256) for kind in ("cls", "jpg")]  # fmt: skip
    return make_shard(tmp_path_factory.mktemp("large") / "large.tar", members)


@pytest.fixture(scope="module", params=mounts.MAKERS)
def large_place(request, private_mounts, large_shard, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("large-place")
    with mounts.image_mounted(request.param, scratch / request.param) as at:
        shard = Path(shutil.copy(large_shard, at))
        assert run("index", shard).code == 0
        yield request.param, shard


def share_left(shard, *options):
    """The part of the shard that is in memory when an epoch of it was read."""
    mounts.drop_pages(shard)
    assert mounts.cached_share(shard) < 0.02
    read_report(shard, *options)
    return mounts.cached_share(shard)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropped_pages_are_gone(large_place, backend, needs_uring):
    needs_uring(backend)
    _, shard = large_place
    # The kernel gives up the pages that it can lock at that moment. On a busy machine one read in
    # some hundred stays, as one large folio: of the file's 84 reads two are more than the bound.
    shares = sorted(share_left(shard, "--backend", backend, "--no-shuffle", *DROP) for _ in "123")
    assert shares[1] < 0.02, shares


@pytest.mark.parametrize("backend", ["auto", "uring", "buffered"])
def test_kept_pages_stay(large_place, backend, needs_uring):
    needs_uring(backend)
    _, shard = large_place
    assert share_left(shard, "--backend", backend, "--page-cache", "keep") >= 0.9
