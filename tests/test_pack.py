# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack`: right samples, the same bytes whatever happens, nothing overwritten."""

import fcntl
import io
import json
import os
import random
import signal
import subprocess
import tarfile
import time

import pytest

from conftest import HANG_SECONDS, run, start
from pictures import jpeg, make_folder, make_shards

BLOCK = 4096
# Moments at which runs are killed: more in `make pack-crashes`.
KILLS = int(os.environ.get("FEEDRACE_PACK_KILLS", "4"))


@pytest.fixture
def folder(tmp_path):
    make_folder(tmp_path / "src", count=12)
    return tmp_path / "src"


def tree(folder):
    """All files below a folder, but for the index, which holds times."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if ".frindex" not in str(path)
    }


def members(shards):
    """(name, bytes) of all members, in order, by Python's own reader."""
    found = []
    for shard in sorted(shards):
        with tarfile.open(shard) as tar:
            found += [(member.name, tar.extractfile(member).read()) for member in tar]
    return found


def samples(shards):
    """Of each key its fields."""
    found = {}
    for name, content in members(shards):
        key, field = name.split(".", 1)
        found.setdefault(key, {})[field] = content
    return found


def pack(*args, **options):
    return run("pack", *args, **options)


def test_a_folder_becomes_samples_with_class_numbers(folder, tmp_path):
    report = pack(folder, tmp_path / "out", "--shards", "5", "--json").json()
    assert (report["shards"], report["samples"], report["failed"]) == (5, 24, 0)
    expected = {
        f"{name}/{i:03}": {
            "jpg": (folder / name / f"{i:03}.jpg").read_bytes(),
            "cls": str(number).encode(),
        }
        for number, name in enumerate(("cat", "dog"))
        for i in range(12)
    }
    assert samples(tmp_path.glob("out/*.tar")) == expected
    assert (tmp_path / "out/classes.txt").read_text() == "cat\ndog\n"
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert [shard["samples"] for shard in manifest["shards"]] == [4, 5, 5, 5, 5]
    assert not list(tmp_path.glob("out/.*"))


def test_order_and_keys_are_those_of_the_folder(folder, tmp_path):
    report = pack(folder, tmp_path / "out", "--json").json()
    names = [name for name, _ in members(tmp_path.glob("out/*.tar")) if name.endswith(".jpg")]
    listing = run("ls", folder, "--json").json()
    assert names == [path for path, _ in listing["samples"]]
    again = pack(tmp_path / "out", tmp_path / "again", "--shuffle", "--json").json()
    assert again["key_fingerprint"] != report["key_fingerprint"]
    back = [name for name, _ in members(tmp_path.glob("again/*.tar")) if name.endswith(".jpg")]
    assert sorted(back) == names
    assert back != names


def test_what_lies_beside_a_picture_becomes_its_fields(folder, tmp_path):
    (folder / "cat/000.json").write_text('{"a": 1}')
    (folder / "cat/000.mask.PNG").write_bytes(b"mask")
    (folder / "cat/stray.txt").write_text("of nobody")
    (folder / "cat/000").write_text("no ending")
    ran = pack(folder, tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "1 picture of a name such as NAME.mask.png" in ran.err
    assert "2 files left out, as no picture has their name" in ran.err
    found = samples(tmp_path.glob("out/*.tar"))
    assert len(found) == 24
    assert found["cat/000"] == {
        "jpg": (folder / "cat/000.jpg").read_bytes(),
        "cls": b"0",
        "json": b'{"a": 1}',
        "mask.png": b"mask",
    }


def test_endings_are_those_that_readers_ask_for(tmp_path):
    (tmp_path / "src/a").mkdir(parents=True)
    (tmp_path / "src/a/x.JPEG").write_bytes(jpeg(1))
    (tmp_path / "src/a/y.b.jpg").write_bytes(jpeg(2))
    assert pack(tmp_path / "src", tmp_path / "out").code == 0
    assert sorted(name for name, _ in members(tmp_path.glob("out/*.tar"))) == [
        "a/x.cls",
        "a/x.jpg",
        "a/y.cls",
        "a/y.jpg",
    ]


@pytest.mark.parametrize("names", [("x.jpg", "x.png"), ("x.a.jpg", "x.b.jpg")])
def test_two_files_of_one_key_are_an_error_that_names_both(tmp_path, names):
    (tmp_path / "src/a").mkdir(parents=True)
    for i, name in enumerate(names):
        (tmp_path / "src/a" / name).write_bytes(jpeg(i))
    error = pack(tmp_path / "src", tmp_path / "out").error(2)
    assert all(name in error for name in names)
    assert "key a/x" in error
    assert not (tmp_path / "out").exists()


def test_a_list_gives_its_labels(folder, tmp_path):
    (tmp_path / "list.txt").write_text(f"src/dog/001.jpg 7\n{folder}/cat/002.jpg -1\n")
    ran = pack(tmp_path / "list.txt", tmp_path / "out")
    assert "1 key loses / or ../ in front" in ran.err
    absolute = str(folder).lstrip("/")
    assert samples(tmp_path.glob("out/*.tar")) == {
        "src/dog/001": {"jpg": (folder / "dog/001.jpg").read_bytes(), "cls": b"7"},
        f"{absolute}/cat/002": {"jpg": (folder / "cat/002.jpg").read_bytes(), "cls": b"-1"},
    }


def test_shards_are_packed_with_all_of_their_members(tmp_path):
    given = [
        ("b/1.jpg", jpeg(1)),
        ("b/1.big.npy", bytes(range(256)) * 40000),  # Larger than what is read at once.
        ("b/1.json", b"{}"),
        ("a.txt", b"without a picture"),
        ("a.empty", b""),
        ("\u00e9/2.cls", b"5"),
        ("\u00e9/2.png", b"no png"),
    ]
    with tarfile.open(tmp_path / "one.tar", "w") as tar:
        for name, content in given:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    for align in ([], ["--align"]):
        out = tmp_path / f"out{len(align)}"
        report = pack(tmp_path / "one.tar", out, "--json", *align).json()
        assert report["samples"] == 3
        assert members(out.glob("*.tar")) == given


def test_aligned_shards_are_read_by_all(folder, tmp_path):
    (folder / "cat" / ("n" * 120 + ".jpg")).write_bytes(jpeg(5))
    (folder / "cat" / "\u00e9.jpg").write_bytes(jpeg(6))
    assert pack(folder, tmp_path / "out", "--align", "--shards", "2").code == 0
    listed = []
    for shard in sorted(tmp_path.glob("out/*.tar")):
        assert shard.stat().st_size % BLOCK == 0
        with tarfile.open(shard) as tar:
            assert [
                member.name for member in tar if member.offset_data % BLOCK and member.size >= 512
            ] == []
        for reader in (("tar", "tf"), ("bsdtar", "tf")):
            ran = subprocess.run(
                [*reader, shard], capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
            )
            assert (ran.returncode, ran.stderr) == (0, b"")
            listed.append((reader[0], len(ran.stdout.splitlines())))
    assert sum(count for name, count in listed if name == "tar") == 2 * 26
    assert sum(count for name, count in listed if name == "bsdtar") == 2 * 26


def test_the_same_bytes_whatever_the_threads_and_parts(folder, tmp_path):
    options = ("--shards", "7", "--shuffle", "--seed", "3", "--align")
    assert pack(folder, tmp_path / "one", "--threads", "1", *options).code == 0
    expected = tree(tmp_path / "one")
    assert pack(folder, tmp_path / "four", "--threads", "4", *options).code == 0
    assert tree(tmp_path / "four") == expected
    for part in ("2/3", "1/3", "3/3"):
        ran = pack(folder, tmp_path / "parts", "--part", part, *options)
        assert ran.code == 0, ran.err
    assert pack("--finish", tmp_path / "parts").code == 0
    assert tree(tmp_path / "parts") == expected
    assert not list(tmp_path.glob("parts/.*"))


def test_parts_that_are_missing_are_named(folder, tmp_path):
    options = ("--shards", "4")
    assert pack(folder, tmp_path / "out", "--part", "1/2", *options).code == 0
    assert pack(folder, tmp_path / "out", *options).error(2)
    assert "shards is 5, and was 4" in pack(
        folder, tmp_path / "out", "--part", "2/2", "--shards", "5"
    ).error(2)
    error = pack("--finish", tmp_path / "out").error(2)
    assert "2 of 4 shards are missing: shard-000001.tar, shard-000003.tar" in error
    assert not (tmp_path / "out/manifest.json").exists()
    assert pack(folder, tmp_path / "out", "--part", "2/2", *options).code == 0
    assert pack("--finish", tmp_path / "out", "--json").json()["samples"] == 24


def test_shard_sizes_are_kept(folder, tmp_path):
    limit = 20_000
    assert pack(folder, tmp_path / "out", "--shard-size", "20kB").code == 0
    sizes = [shard.stat().st_size for shard in sorted(tmp_path.glob("out/*.tar"))]
    assert len(sizes) > 1
    assert max(sizes) <= limit
    plan = pack(folder, tmp_path / "x", "--shard-size", "20kB", "--dry-run", "--json").json()
    assert (plan["shards"], plan["size_bytes"]) == (len(sizes), sum(sizes))
    assert plan["largest_shard_bytes"] == max(sizes)
    assert plan["fits"]
    assert not (tmp_path / "x").exists()


def test_a_finished_set_is_left_alone(folder, tmp_path):
    assert pack(folder, tmp_path / "out", "--shards", "2").code == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*")}
    report = pack(folder, tmp_path / "out", "--shards", "2", "--json").json()
    assert report["shards_found_finished"] == 2
    shards = [path for path in before if path.suffix == ".tar"]
    assert [before[path] for path in shards] == [path.stat().st_mtime_ns for path in shards]
    error = pack(folder, tmp_path / "out", "--shards", "3").error(2)
    assert "holds a finished set, and shards is 3, and was 2" in error
    (folder / "cat/000.jpg").write_bytes(b"other")
    error = pack(folder, tmp_path / "out", "--shards", "2").error(2)
    assert "files of the sources have other sizes than when it was packed" in error
    (folder / "cat/000.jpg").unlink()
    assert "samples came, went" in pack(folder, tmp_path / "out", "--shards", "2").error(2)


@pytest.mark.parametrize("name", ["other.tar", "shard-000000.tar", "manifest.json", "notes.txt"])
def test_a_folder_that_holds_something_else_is_refused(folder, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_bytes(b"precious")
    for extra in ([], ["--dry-run"], ["--part", "1/2"]):
        error = pack(folder, tmp_path / "out", *extra).error(2)
        assert "give an empty folder" in error
    assert tree(tmp_path / "out") == {name: b"precious"}


def test_a_folder_inside_the_source_is_refused(folder):
    assert "lies in the source" in pack(folder, folder / "packed").error(2)
    assert "lies in the source" in pack(folder, folder).error(2)


def test_a_second_packer_is_refused_with_the_first_ones_process(folder, tmp_path):
    (tmp_path / "out").mkdir()
    with open(tmp_path / "out/.feedrace-pack.lock", "w") as lock:
        lock.write("process 4242 on somewhere\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for extra in ([], ["--part", "1/2", "--shards", "2"]):
            assert "process 4242 on somewhere" in pack(folder, tmp_path / "out", *extra).error(2)
    assert pack(folder, tmp_path / "out").code == 0


def test_a_part_keeps_the_whole_out_but_no_other_part(folder, tmp_path):
    (tmp_path / "out").mkdir()
    with (
        open(tmp_path / "out/.feedrace-pack.lock", "w") as shared,
        open(tmp_path / "out/.feedrace-pack.part-1-of-2.lock", "w") as own,
    ):
        own.write("process 4242 on somewhere\n")
        own.flush()
        fcntl.flock(shared, fcntl.LOCK_SH)
        fcntl.flock(own, fcntl.LOCK_EX)
        for extra in ([folder], [folder, "--part", "1/2", "--shards", "2"], ["--finish"]):
            assert "process 4242" in pack(*extra, tmp_path / "out").error(2)
        assert pack(folder, tmp_path / "out", "--part", "2/2", "--shards", "2").code == 0


def test_files_that_are_not_there_stop_the_run_or_are_listed(folder, tmp_path):
    (tmp_path / "list.txt").write_text("src/cat/001.jpg 0\nsrc/cat/gone.jpg 0\nsrc 1\n")
    assert "src" in pack(tmp_path / "list.txt", tmp_path / "out").error(2)
    (tmp_path / "list.txt").write_text("src/cat/001.jpg 0\nsrc/cat/gone.jpg 0\n")
    assert "gone.jpg" in pack(tmp_path / "list.txt", tmp_path / "out").error(2)
    ran = pack(tmp_path / "list.txt", tmp_path / "out", "--on-error", "skip", "--json")
    assert ran.code == 1, ran.err
    report = json.loads(ran.out)
    assert (report["samples"], report["failed"]) == (1, 1)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert [one["key"] for one in manifest["left_out"]] == ["src/cat/gone.jpg"]
    assert "not_found" in manifest["left_out"][0]["reason"]


def test_listed_samples_are_left_out(folder, tmp_path):
    lines = [
        {"shard": None, "key": "cat/003.jpg", "code": "corrupt_data", "reason": "no picture"},
        {"shard": None, "key_hex": "646f672f3030302e6a7067", "reason": "dark"},
        {"shard": "elsewhere.tar", "key": "cat/004.jpg", "reason": "of another set"},
    ]
    (tmp_path / "bad").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = pack(folder, tmp_path / "out", "--exclude", tmp_path / "bad")
    assert ran.code == 0
    assert "1 of its samples are not in the sources" in ran.err
    assert "left out: cat/003.jpg: excluded: no picture" in ran.err
    assert set(samples(tmp_path.glob("out/*.tar"))).isdisjoint({"cat/003", "dog/000"})
    of_shard = {"shard": "/x/shard-000000.tar", "key": "cat/005"}
    (tmp_path / "bad").write_text(json.dumps(of_shard) + "\n")
    args = (tmp_path / "out", tmp_path / "again", "--exclude", tmp_path / "bad", "--json")
    assert pack(*args).json()["samples"] == 21
    (tmp_path / "bad").write_text("cat/003.jpg\n")
    assert "line 1" in pack(folder, tmp_path / "x", "--exclude", tmp_path / "bad").error(1)


@pytest.mark.parametrize(
    "args",
    [
        ["--shards", "0"],
        ["--shards", "25"],
        ["--shards", "2", "--shard-size", "1MB"],
        ["--part", "0/2"],
        ["--part", "3/2"],
        ["--part", "1"],
        ["--seed", "1"],
        ["--side", "longest"],
        ["--prefix", "a/b"],
        ["--prefix", ".a"],
        ["--shard-size", "0"],
        ["--on-error", "ignore"],
        ["--exclude", "/nowhere/at-all"],
        ["--finish"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_refused_before_anything_is_written(folder, tmp_path, args):
    pack(folder, tmp_path / "out", *args).error(2, 109, 105, 104, 107)
    assert not (tmp_path / "out").exists()


def test_one_path_is_not_enough(folder):
    assert "name the sources, then the folder" in pack(folder).error(2)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Pictures for many shards, and the set that an undisturbed run makes of them."""
    root = tmp_path_factory.mktemp("large")
    make_folder(root / "src", classes=("a", "b", "c"), count=1)
    picture = jpeg(1)
    for name in ("a", "b", "c"):
        for i in range(1, 100):
            (root / "src" / name / f"{i:04}.jpg").write_bytes(picture + bytes(i) * 97)
    begun = time.monotonic()
    assert pack(*LARGE, root / "src", root / "whole").code == 0
    return root / "src", tree(root / "whole"), time.monotonic() - begun


LARGE = ("--shards", "60", "--shuffle", "--seed", "9", "--align")


def finish_killed(source, out):
    """Goes on with what a killed run has left; returns how many shards were found finished."""
    shards = {path: path.stat() for path in out.glob("*.tar")}
    report = pack(*LARGE, source, out, "--json").json()
    # What was finished is the very same file.
    untouched = [path for path, was in shards.items() if path.stat().st_ino == was.st_ino]
    assert len(untouched) >= report["shards_found_finished"]
    return report["shards_found_finished"]


def test_a_run_killed_at_any_moment_goes_on_to_the_same_bytes(large, tmp_path):
    source, expected, seconds = large
    moments = random.Random(7)
    found = 0
    for i in range(KILLS):
        out = tmp_path / str(i)
        for _ in range(2):  # The second run goes on from the first.
            process = start("pack", *LARGE, source, out)
            time.sleep(moments.uniform(0, seconds))
            process.kill()
            process.communicate(timeout=HANG_SECONDS)
        found += finish_killed(source, out)
        assert tree(out) == expected
    assert found > 0


def test_an_interrupted_run_says_that_it_goes_on(large, tmp_path):
    source, expected, _ = large
    process = start("pack", *LARGE, source, tmp_path / "out")
    while process.poll() is None and not list(tmp_path.glob("out/*.tar")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_SECONDS)
    if process.returncode != 0:  # It may have been faster.
        assert process.returncode == 130
        assert b"the same command goes on" in err
        assert not list(tmp_path.glob("out/*.tmp"))
    finish_killed(source, tmp_path / "out")
    assert tree(tmp_path / "out") == expected


def test_a_begun_set_is_not_mixed_with_another(large, tmp_path):
    source, expected, seconds = large
    process = start("pack", *LARGE, source, tmp_path / "out")
    while process.poll() is None and not list(tmp_path.glob("out/.*journal")):
        time.sleep(0.001)
    process.kill()
    process.communicate(timeout=HANG_SECONDS)
    if not (tmp_path / "out/manifest.json").exists():
        error = pack(source, tmp_path / "out", *LARGE[:-1]).error(2)
        assert "align is false, and was true" in error
    finish_killed(source, tmp_path / "out")
    assert tree(tmp_path / "out") == expected


def test_a_journal_cut_in_a_line_costs_one_shard(large, tmp_path):
    source, expected, _ = large
    for part in ("1/2", "2/2"):
        assert pack(*LARGE, source, tmp_path / "out", "--part", part).code == 0
    journal = tmp_path / "out/.feedrace-pack.part-1-of-2.journal"
    journal.write_bytes(journal.read_bytes()[:-9])
    (tmp_path / "out/shard-000001.tar").unlink()
    assert "2 of 60 shards are missing" in pack("--finish", tmp_path / "out").error(2)
    for part in ("1/2", "2/2"):
        args = (*LARGE, source, tmp_path / "out", "--part", part, "--json")
        assert pack(*args).json()["shards_found_finished"] == 29
    assert pack("--finish", tmp_path / "out").code == 0
    assert tree(tmp_path / "out") == expected


def excluding(tmp_path, entries, *args):
    (tmp_path / "bad").write_text("".join(json.dumps(one) + "\n" for one in entries))
    return pack(*args, tmp_path / "out", "--exclude", tmp_path / "bad", "--dry-run", "--json")


def two_folders_of_one_name(tmp_path):
    return make_shards(tmp_path / "a", 1, 5), make_shards(tmp_path / "b", 1, 5)


def test_shards_of_one_name_are_told_apart_by_their_paths(tmp_path, monkeypatch):
    a, b = two_folders_of_one_name(tmp_path)
    monkeypatch.chdir(tmp_path)
    key = {"key": "000001", "reason": "dark"}
    for shard in (str(a / "s-000.tar"), "a/s-000.tar", "./b/../a/s-000.tar"):
        entries = [{"shard": shard, **key}] * 3
        # Keys come twice, so only one of the two folders can be packed at a time.
        assert excluding(tmp_path, entries, a).json()["samples"] == 4
        planned = excluding(tmp_path, entries, b).json()
        assert planned["samples"] == 5
        assert any("bad: 1 of its samples are not in the sources" in w for w in planned["warnings"])


def test_a_name_that_may_be_of_two_shards_is_refused(tmp_path):
    a, b = two_folders_of_one_name(tmp_path)
    entries = [{"shard": "s-000.tar", "key": "000001", "reason": "dark"}]
    message = excluding(tmp_path, entries, a, b).error(2)
    assert "line 1: shard s-000.tar may be" in message


def class_count(*sources):
    return run("plan", *sources, "--batch", "4", "--json").json()["classes"]


def test_class_names_are_read_back(folder, tmp_path):
    (folder / "eel").mkdir()
    out = tmp_path / "out"
    pack(folder, out, "--shards", "2", "--json").json()
    assert class_count(out) == 3
    batch = run("batch", out, "--recipe", "imagenet-val", "--batch", "4", "--out", tmp_path / "b")
    assert {s["class"] for s in batch.json()["samples"]} == {"cat"}
    (note,) = run("verify", out, "--json").json()["findings"]
    assert (note["what"], note["examples"]) == ("classes without samples", ["2 (eel)"])
    # Numbers from elsewhere are not those of the list.
    labels = tmp_path / "labels.txt"
    labels.write_text("cat/000 5\n")
    assert class_count(out, "--label-file", labels) == 0


def test_a_class_list_that_is_none_is_told(folder, tmp_path):
    pack(folder, tmp_path / "out", "--shards", "2", "--json").json()
    (tmp_path / "out/classes.txt").write_text("cat\ncat\n")
    plan = run("plan", tmp_path / "out", "--batch", "4", "--json").json()
    assert plan["classes"] == 0
    assert any("not a class list (line 2 is there twice)" in line for line in plan["warnings"])


# What a person is told


def test_a_set_that_is_packed_already_is_said_to_be(folder, tmp_path):
    out = tmp_path / "out"
    first = pack(folder, out, "--shards", "3").out.decode()
    assert "packed: 24 samples in 3 shards" in first
    before = tree(out)
    again = pack(folder, out, "--shards", "3").out.decode()
    assert "packed already: the folder has all shards and the manifest; nothing to do" in again
    assert "packed already: 24 samples in 3 shards" in again
    assert pack(folder, out, "--shards", "3", "--json").json()["packed_already"]
    assert tree(out) == before


def test_one_of_a_kind_is_said_as_one(tmp_path):
    source = make_folder(tmp_path / "src", count=1, classes=("ant",))
    text = pack(source, tmp_path / "out").out.decode()
    assert "packed: 1 sample in 1 shard" in text
    for wrong in ("1 shards", "1 samples", "at most"):
        assert wrong not in text


@pytest.mark.parametrize("prefix", ["a*", "a?", "a[0]", "a{b}", "a\nb", "a\x7f"])
def test_a_prefix_that_could_not_be_named_is_refused(folder, tmp_path, prefix):
    message = pack(folder, tmp_path / "out", "--prefix", prefix).error(2)
    assert "give one such as train" in message
    assert not (tmp_path / "out").exists()


def test_a_set_that_lacks_shards_is_noted_by_whoever_reads_it(folder, tmp_path):
    out = tmp_path / "out"
    assert "manifest" not in pack(folder, out, "--shards", "3").err
    (out / "shard-000001.tar").unlink()
    plan = run("plan", out, "--batch-size", "2", "--json").json()
    lacks = f"{out}: 1 of 3 shards that manifest.json names is missing"
    assert any(lacks in line and "shard-000001.tar" in line for line in plan["warnings"])
    # Packed again, its samples would be missing for good.
    assert lacks in pack(out, tmp_path / "again").err
    (out / "manifest.json").unlink()
    (out / ".feedrace-pack.journal").write_text("")
    plan = run("plan", out, "--batch-size", "2", "--json").json()
    assert any("not packed to its end" in line for line in plan["warnings"])
    # Shards that were named are what was meant.
    plan = run("plan", out / "shard-000000.tar", "--batch-size", "2", "--json").json()
    assert plan["warnings"] == []


def test_indexes_that_were_exported_beside_the_shards_are_of_the_set(folder, tmp_path):
    out = tmp_path / "out"
    assert pack(folder, out, "--shards", "2").code == 0
    for form in ("dali", "wids"):
        assert run("index", out, "--format", form).code == 0
    assert "packed already" in pack(folder, out, "--shards", "2").out.decode()
    assert "shards is 1, and was 2" in pack(folder, out, "--shards", "1").error(2)
    assert "shards is 3, and was 2" in pack(folder, out, "--shards", "3").error(2)
    (out / "other-000000.idx").write_text("")
    assert "holds other-000000.idx" in pack(folder, out, "--shards", "2").error(2)
