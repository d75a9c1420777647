# SPDX-License-Identifier: Apache-2.0
"""`feedrace verify`: what is wrong with a data set, named and counted."""

import ctypes
import ctypes.util
import json
import os
import signal
import time

import numpy as np
import pytest
from test_cases import IDLE_MB, check_message, may_fail, must_fail, of_kind, source_of
from test_decoded import FORMS, npy, pixels

import cases
from conftest import CASES, peak_mb, run, start
from pictures import jpeg, make_folder, make_shard, make_shards


def verify(*args, code=0):
    """The report, of a run that ended with `code`."""
    result = run("verify", *args, "--json")
    assert result.code == code, result.err
    return json.loads(result.out)


def findings(report, bad=True):
    return {(f["check"], f["what"]): f for f in report["findings"] if f["bad"] == bad}


def one_finding(report, check, bad=True):
    """The only one of a check."""
    (found,) = [f for f in report["findings"] if f["check"] == check and f["bad"] == bad]
    return found


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def cut_jpeg(seed=0):
    return jpeg(seed)[:200]


def flip_byte(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_good_shards_are_good(tmp_path):
    report = verify(make_shards(tmp_path / "s"))
    assert report["good"]
    assert report["findings"] == []
    assert (report["shards"], report["samples"], report["decoded"]) == (4, 100, 100)
    assert report["fields"] == [{"name": "cls", "samples": 100}, {"name": "jpg", "samples": 100}]
    assert report["bytes"]["smallest"] == report["bytes"]["largest"] == len(jpeg())
    assert report["pixels"]["smallest"] == 48 * 40
    ten = {"count": 10, "smallest": {"label": 0, "samples": 10}}
    assert report["classes"] == ten | {
        "largest": {"label": 0, "samples": 10},
        "empty": 0,
        "first_empty": [],
    }
    assert report["index"] == "none"
    assert not (tmp_path / "s" / "shards.frindex").exists()


def test_the_text_says_the_same(tmp_path):
    result = run("verify", make_shards(tmp_path / "s"))
    assert result.code == 0, result.err
    text = result.out.decode()
    assert "samples     100, 100 with a picture; webdataset shards: 4 shards" in text
    assert "pictures    100 of 100 decoded, 0 of them with a complaint" in text
    assert text.splitlines()[-1].startswith("good: no bad sample; ")


def test_a_picture_that_cannot_be_decoded_is_named_and_listed(tmp_path):
    members = [("a.jpg", jpeg()), ("b.jpg", b"no picture"), ("c.jpg", jpeg(1)), ("d.png", b"")]
    shard = make_shard(tmp_path / "s-0.tar", members)
    offset = 1024 + -(-len(jpeg()) // 512) * 512
    report = verify(shard, "--bad", tmp_path / "bad.jsonl", code=1)
    found = one_finding(report, "picture")
    assert found["count"] == 2
    assert f"s-0.tar: sample b.jpg (offset {offset}, 10 bytes): " in found["examples"][0]
    assert (report["decoded"], report["bad_samples"]) == (2, 2)
    listed = lines(tmp_path / "bad.jsonl")
    assert [(x["key"], x["sample"], x["code"]) for x in listed] == [
        ("b", 1, "corrupt_data"),
        ("d", 3, "corrupt_data"),
    ]
    assert listed[0] == listed[0] | {"shard": str(shard), "offset": offset, "size": 10}
    assert listed[0]["reason"] == found["examples"][0]


def test_damage_that_the_decoder_only_complains_of_is_flagged(tmp_path):
    content = (CASES / "images" / "jpg_zeroed_middle.jpg").read_bytes()
    make_shard(tmp_path / "s.tar", [("a.jpg", content), ("b.jpg", jpeg())])
    bad_file = tmp_path / "bad.jsonl"
    report = verify(tmp_path / "s.tar", "--bad", bad_file, code=1)
    assert (report["decoded"], report["flagged"], report["bad_samples"]) == (2, 1, 0)
    assert one_finding(report, "picture")["what"] == "pictures that are decoded with a complaint"
    assert [x["code"] for x in lines(bad_file)] == ["flagged"]
    report = verify(tmp_path / "s.tar", "--allow-flagged")
    assert one_finding(report, "picture", bad=False)["count"] == 1


def test_without_decoding_pictures_are_left(tmp_path):
    shard = make_shard(tmp_path / "s.tar", [("a.jpg", b"no picture")])
    report = verify(shard, "--no-decode")
    assert report["good"]
    assert report["decoded"] == 0
    assert report["pixels"] is None


@pytest.mark.parametrize("form", FORMS)
def test_decoded_pictures_are_decoded_and_counted(form, tmp_path):
    encode = FORMS[form]
    good = [encode(pixels(i, (40 + i, 30))) for i in range(4)] + [
        encode(np.zeros((9, 7), np.uint8))
    ]
    shard = make_shard(tmp_path / "s.tar", [(f"{i}.{form}", one) for i, one in enumerate(good)])
    report = verify(shard)
    assert report["good"]
    assert report["fields"] == [{"name": form, "samples": 5}]
    assert (report["decoded"], report["pixels"]["smallest"]) == (5, 9 * 7)
    assert report["pixels"]["largest"] == 43 * 30
    (tmp_path / "f/a").mkdir(parents=True)
    for i, one in enumerate(good):
        (tmp_path / f"f/a/{i}.{form}").write_bytes(one)
    assert verify(tmp_path / "f")["decoded"] == 5


@pytest.mark.parametrize("form", FORMS)
def test_damaged_decoded_pictures_are_listed(form, tmp_path):
    encode = FORMS[form]
    good = encode(pixels(0, (40, 30)))
    middle = bytearray(good)
    middle[len(good) // 2] ^= 0xFF
    bad = {
        "cut": good[:-5],
        "longer": good + b"12345",
        "head": good[:8],
        "other": encode(np.zeros((30, 40, 5), np.uint8)) if form != "npy" else b"\x93NUMPY",
        "turned": encode(np.asfortranarray(pixels(0, (40, 30)))),
        "void": encode(np.zeros((0, 40, 3), np.uint8)),
    }
    if form != "npy":  # A plain array has no checksum.
        bad["middle"] = bytes(middle)
    members = [("good." + form, good)] + [(f"{name}.{form}", one) for name, one in bad.items()]
    shard = make_shard(tmp_path / "s.tar", members)
    report = verify(shard, "--bad", tmp_path / "bad.jsonl", code=1)
    assert (report["decoded"], report["bad_samples"]) == (1, len(bad))
    listed = lines(tmp_path / "bad.jsonl")
    assert [x["key"] for x in listed] == list(bad)
    assert all(x["code"] == "corrupt_data" for x in listed)
    assert f"s.tar: sample cut.{form} (offset " in listed[0]["reason"]
    packed = run("pack", "--exclude", tmp_path / "bad.jsonl", shard, tmp_path / "out")
    assert packed.code == 0, packed.err
    assert verify(tmp_path / "out")["samples"] == 1


def test_other_arrays_are_for_the_recipe_raw(tmp_path):
    """Plain ones of any type are as good as they are whole; a loader takes no squeezed ones."""
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert verify(make_shard(tmp_path / "a.tar", [("a.npy", npy(array))]))["decoded"] == 1
    verify(make_shard(tmp_path / "b.tar", [("a.npy", npy(array)[:-1])]), code=1)
    verify(make_shard(tmp_path / "c.tar", [("a.npy.zst", FORMS["npy.zst"](array))]), code=1)


def test_a_decoded_picture_may_be_too_large(tmp_path):
    shard = make_shard(tmp_path / "s.tar", [("a.npy", npy(pixels(0, (40, 30))))])
    assert verify(shard, "--max-pixels", "1200")["good"]
    report = verify(shard, "--max-pixels", "1199", code=1)
    assert "1199" in one_finding(report, "picture")["examples"][0].replace(",", "")


@pytest.mark.parametrize("threads", ["1", "5"])
def test_the_list_is_the_same_for_any_number_of_threads(tmp_path, threads):
    for shard in range(7):
        keys = range(shard * 150, shard * 150 + 150)
        picture = {True: cut_jpeg(), False: jpeg()}
        members = [(f"{key:05}.jpg", picture[key % 9 == 0]) for key in keys]
        make_shard(tmp_path / f"s-{shard}.tar", members)
    bad_file = tmp_path / "bad.jsonl"
    report = verify(tmp_path, "--bad", bad_file, "--threads", threads, code=1)
    assert [int(x["key"]) for x in lines(bad_file)] == list(range(0, 1050, 9))
    assert [x["sample"] for x in lines(bad_file)] == list(range(0, 1050, 9))
    assert report["samples"] == 1050
    assert report["decoded"] == 1050 - 117


def test_an_image_folder(tmp_path):
    root = make_folder(tmp_path / "f", ("cat", "dog", "emu"), 4)
    (root / "dog" / "001.jpg").write_bytes(cut_jpeg())
    (root / "dog" / "001.png").write_bytes(jpeg())
    for picture in (root / "emu").iterdir():
        picture.unlink()
    report = verify(root, "--bad", tmp_path / "bad.jsonl", code=1)
    assert (report["kind"], report["samples"], report["decoded"]) == ("image folder", 9, 8)
    assert report["classes"]["empty"] == 1
    assert report["classes"]["first_empty"] == [2]
    notes = findings(report, bad=False)
    twins = notes["key", "files that would have the key of another in shards"]
    assert twins["examples"] == ["dog/001.jpg and dog/001.png: key dog/001"]
    (line,) = lines(tmp_path / "bad.jsonl")
    assert (line["shard"], line["key"], line["sample"]) == (None, "dog/001.jpg", 5)
    assert str(root / "dog" / "001.jpg") in line["reason"]


def test_a_list_with_a_file_that_is_gone(tmp_path):
    make_folder(tmp_path, ("cat",), 2)
    (tmp_path / "l.csv").write_text("cat/000.jpg,0\ncat/gone.jpg,1\ncat/001.jpg,1\n")
    report = verify(tmp_path / "l.csv", code=1)
    found = one_finding(report, "picture")
    assert found["what"] == "pictures that can't be read"
    assert "gone.jpg" in found["examples"][0]
    assert report["classes"]["count"] == 2


def test_labels_that_are_missing_or_no_number(tmp_path):
    members = [("a.jpg", jpeg()), ("a.cls", b"3"), ("b.jpg", jpeg(1)), ("b.cls", b"cat")]
    make_shard(tmp_path / "s-0.tar", members)
    make_shard(tmp_path / "s-1.tar", [("c.jpg", jpeg(2)), ("d.jpg", jpeg(3)), ("d.cls", b"9")])
    report = verify(tmp_path, "--bad", tmp_path / "bad.jsonl", code=1)
    bad = findings(report)
    assert "cat" in str(bad["label", "labels that are no whole number"]["examples"])
    missing = bad["label", "samples without a label, though others have one"]
    assert missing["count"] == 1
    assert "s-1.tar: sample c" in missing["examples"][0]
    assert [(x["key"], x["sample"]) for x in lines(tmp_path / "bad.jsonl")] == [("b", 1), ("c", 2)]


def test_a_set_without_any_label_is_only_noted(tmp_path):
    shard = make_shard(tmp_path / "s.tar", [("a.jpg", jpeg())])
    report = verify(shard)
    assert one_finding(report, "label", bad=False)["what"].startswith("a set without labels")
    assert verify(shard, "--label-field", "none")["findings"] == []


def test_required_fields(tmp_path):
    members = [("a.jpg", jpeg()), ("a.txt", b"x"), ("b.jpg", jpeg(1)), ("c.txt", b"y")]
    shard = make_shard(tmp_path / "s.tar", members)
    report = verify(shard)
    notes = findings(report, bad=False)
    assert ("field", "fields that not all samples have") in notes
    assert notes["field", "samples without a picture, which no loader delivers"]["count"] == 1
    report = verify(shard, "--require", "jpg,txt", "--bad", tmp_path / "bad.jsonl", code=1)
    bad = findings(report)
    assert bad["field", "samples without the required field jpg"]["count"] == 1
    assert bad["field", "samples without the required field txt"]["count"] == 1
    listed = lines(tmp_path / "bad.jsonl")
    assert [(x["key"], "sample" in x) for x in listed] == [("c", False), ("b", True)]


def test_a_sample_that_is_there_twice_is_bad_and_a_shared_key_is_not(tmp_path):
    make_shard(tmp_path / "s-0.tar", [("a.jpg", jpeg()), ("b.jpg", jpeg(1))])
    make_shard(tmp_path / "s-1.tar", [("b.jpg", jpeg(1)), ("a.jpg", jpeg(2))])
    report = verify(tmp_path, "--bad", tmp_path / "bad.jsonl", code=1)
    twice = one_finding(report, "key")
    assert twice["what"] == "samples that are there twice"
    assert twice["count"] == 1
    assert one_finding(report, "key", bad=False)["count"] == 1
    (line,) = lines(tmp_path / "bad.jsonl")
    assert (os.path.basename(line["shard"]), line["key"], line["sample"]) == ("s-1.tar", "b", 2)


class Hash128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def xxh3_128(content):
    """By the library, as `xxhsum -H2` prints it."""
    library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    library.XXH3_128bits.restype = Hash128
    found = library.XXH3_128bits(content, ctypes.c_size_t(len(content)))
    return f"{found.high:016x}{found.low:016x}"


def manifest_of(folder, **changes):
    """Writes a manifest of the shards in a folder."""
    shards = []
    for path in sorted(folder.glob("*.tar")):
        content = path.read_bytes()
        shard = {"name": path.name, "size": len(content), "samples": 25}
        shards.append(shard | {"xxh3_128": xxh3_128(content)})
    whole = {
        "format": "feedrace manifest",
        "version": 1,
        "source": "0" * 16,
        "options": {},
        "samples": sum(s["samples"] for s in shards),
        "size": sum(s["size"] for s in shards),
        "shards": shards,
        "left_out": [],
    }
    (folder / "manifest.json").write_text(json.dumps(whole | changes))


def test_checksums_of_the_manifest(tmp_path):
    folder = make_shards(tmp_path / "s")
    manifest_of(folder)
    report = verify(folder)
    assert report["manifest"]
    assert report["checksums"] == 4
    assert report["findings"] == []

    # A byte of padding: no header, label or picture changes.
    flip_byte(folder / "s-001.tar", 512 + 10)
    (folder / "s-002.tar").unlink()
    make_shard(folder / "x.tar", [("x.jpg", jpeg(9)), ("x.cls", b"1")])
    with (folder / "s-003.tar").open("ab") as file:
        file.write(bytes(512))
    report = verify(folder, code=1)
    bad = findings(report)
    changed = bad["manifest", "shards whose bytes are not those that were packed"]["examples"]
    assert [e.split(":")[0] for e in changed] == ["s-001.tar", "s-003.tar"]
    assert "s-002.tar" in str(bad["manifest", "shards of the manifest that are not there"])
    assert bad["manifest", "shards that the manifest does not know"]["examples"] == ["x.tar"]
    assert report["checksums"] == 1
    assert {k for k, _ in bad} == {"manifest"}


def test_a_manifest_that_cannot_be_read_or_has_no_shard_left(tmp_path):
    folder = make_shards(tmp_path / "s", 1)
    manifest_of(folder, samples=3)
    found = one_finding(verify(folder, code=1), "manifest")
    assert found["what"] == "a manifest that can't be read"
    assert "sums" in found["examples"][0]
    manifest_of(folder)
    (folder / "s-000.tar").unlink()
    report = verify(folder, code=1)
    assert one_finding(report, "manifest")["what"] == "shards of the manifest that are not there"


def test_a_stored_index(tmp_path):
    folder = make_shards(tmp_path / "s", 2)
    assert run("index", folder).code == 0
    assert verify(folder)["index"] == "fresh"
    # Other bytes at the same size and time: what a loader would take as it is.
    shard = folder / "s-000.tar"
    before = shard.stat()
    label = run("ls", shard, "--json").json()["samples"][3]["fields"]["cls"]
    flip_byte(shard, label["offset"])
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = one_finding(verify(folder, code=1), "index")
    assert found["examples"][0].startswith("s-000.tar: ")
    os.utime(shard)
    report = verify(folder)
    assert report["index"] == "stale"
    assert "s-000.tar" in one_finding(report, "index", bad=False)["examples"][0]


def test_a_damaged_shard_does_not_hide_the_others(tmp_path):
    folder = make_shards(tmp_path / "s", 3)
    shard = folder / "s-001.tar"
    shard.write_bytes(shard.read_bytes()[:10_000])
    report = verify(folder, code=1)
    found = one_finding(report, "structure")
    assert found["what"] == "shards that can't be read to their end"
    assert "s-001.tar" in found["examples"][0]
    assert "offset" in found["examples"][0]
    assert report["samples"] == 50 == report["decoded"]


def totals_of(samples):
    fields = {}
    for sample in samples:
        for name in sample["fields"]:
            fields[name] = fields.get(name, 0) + 1
    return fields


@of_kind("tar")
def test_each_tar_case_gives_its_samples_or_names_its_fault(case, tmp_path):
    shard = source_of(case, tmp_path)
    limit = case["expect"].get("allocation_limit_mb")
    assert limit is None or peak_mb("verify", shard, "--no-decode") < limit + IDLE_MB
    result = run("verify", shard, "--no-decode", "--json")
    report = json.loads(result.out) if result.code in (0, 1) else None
    assert report is not None, result.err
    told = json.dumps(report["findings"], ensure_ascii=False)
    expect = case["expect"]
    damaged = ("structure", "shards that can't be read to their end") in findings(report)
    if must_fail(case) or (may_fail(case) and damaged):
        assert result.code == 1
        assert cases.message_ok(told, expect, file=shard.name), told
        return
    fair = [expect["samples"], *(a["samples"] for a in expect.get("alternatives", []))]
    got = {f.get("name", f.get("name_hex")): f["samples"] for f in report["fields"]}
    assert (report["samples"], got) in [(len(f), totals_of(f)) for f in fair]
    for thing in expect.get("must_be_reported", []):
        assert thing in told
    if expect["outcome"] == "error_or_flagged":
        assert result.code == 1
        assert shard.name in told


@of_kind("tar-set")
def test_each_set_of_shards_has_its_samples(case, tmp_path):
    folder = source_of(case, tmp_path)
    result = run("verify", folder, "--no-decode", "--json")
    report = json.loads(result.out)
    assert report["samples"] == case["expect"]["total"]
    assert report["shards"] == len(case["expect"]["shard_sizes"])
    assert report["good"] == (result.code == 0)


@of_kind("decode")
def test_each_picture_case_is_good_bad_or_flagged(case, tmp_path):
    picture = source_of(case, tmp_path)
    shard = make_shard(tmp_path / "s.tar", [("k.jpg", picture.read_bytes())])
    result = run("verify", shard, "--label-field", "none", "--json")
    report = json.loads(result.out)
    assert report["good"] == (result.code == 0)
    if must_fail(case):
        check_message(result_with(report, result), case, "s.tar", key="k")
        assert report["decoded"] == 0
    elif case["expect"]["outcome"] == "ok":
        assert report["decoded"] == 1, report["findings"]
    else:
        assert report["decoded"] == 1 or report["bad_samples"] == 1


def result_with(report, result):
    """The findings where `check_message` looks for the message of an error."""
    result.err = json.dumps(report["findings"], ensure_ascii=False)
    return result


def test_wrong_use(tmp_path):
    run("verify", tmp_path / "none").error(2)
    folder = make_folder(tmp_path / "f")
    assert "no fields" in run("verify", folder, "--require", "jpg").error(2)
    run("verify", folder, "--bad", "").error(2)
    message = run("verify", folder, "--bad", tmp_path / "no" / "x").error(3)
    assert "list of bad samples" in message


def test_a_list_that_was_there_stays_until_the_new_one_is_whole(tmp_path):
    folder = make_folder(tmp_path / "f")
    bad_file = tmp_path / "bad.jsonl"
    bad_file.write_text("old\n")
    run("verify", tmp_path / "none", "--bad", bad_file).error(2)
    assert bad_file.read_text() == "old\n"
    verify(folder, "--bad", bad_file)
    assert bad_file.read_text() == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.jsonl", "f"]


def test_an_interrupt_ends_in_order(tmp_path):
    content = jpeg(size=(1500, 1500))
    members = [(f"{key:05}.jpg", content) for key in range(1200)]
    shard = make_shard(tmp_path / "s.tar", members)
    bad_file = tmp_path / "bad.jsonl"
    process = start("verify", shard, "--bad", bad_file)
    while process.poll() is None and not list(tmp_path.glob("bad.jsonl.tmp-*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.tar"]


# Sets that are not whole


def packed(tmp_path):
    source = make_folder(tmp_path / "source")
    assert run("pack", source, tmp_path / "set", "--shards", "2").code == 0
    return tmp_path / "set"


def test_a_set_that_is_not_packed_to_its_end_is_bad(tmp_path):
    folder = packed(tmp_path)
    (folder / "manifest.json").unlink()
    assert verify(folder)["good"]  # Shards of any origin.
    (folder / ".feedrace-pack.journal").write_text("{}\n")
    found = one_finding(verify(folder, code=1), "manifest")
    assert found["what"].startswith("a set that is not packed to its end; give the same command")
    text = run("verify", folder).out.decode()
    assert text.splitlines()[-1].startswith("bad: 1 kind of damage, 0 bad samples; ")
    assert found["examples"] == [f"{folder}/.feedrace-pack.journal"]


def test_of_a_whole_set_what_a_run_left_is_told(tmp_path):
    folder = packed(tmp_path)
    (folder / ".feedrace-pack.part-1-of-2.x.tmp").write_text("")
    (folder / ".feedrace-pack.lock").write_text("")
    assert one_finding(verify(folder), "manifest", bad=False)["count"] == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda classes: classes.unlink(), "a class list that is not there"),
        (lambda classes: classes.write_text("dog\ncat\n"), "a class list of other bytes"),
        (lambda classes: classes.write_text(classes.read_text() + "eel\n"), "of other bytes"),
    ],
)
def test_the_class_list_is_what_the_manifest_says(change, what, tmp_path):
    folder = packed(tmp_path)
    assert verify(folder)["good"]
    change(folder / "classes.txt")
    assert what in one_finding(verify(folder, code=1), "manifest")["what"]


def test_a_manifest_from_before_classes_had_a_checksum(tmp_path):
    folder = packed(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["classes_xxh3_128"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "classes.txt").unlink()
    assert verify(folder)["good"]


def test_a_folder_of_which_a_part_cannot_be_read_is_bad(open_dir, ordinary_user):
    folder = make_folder(open_dir / "set")
    (folder / "dog").chmod(0)
    result = run("verify", folder, "--json", **ordinary_user)
    (folder / "dog").chmod(0o755)
    assert result.code == 1, result.err
    found = one_finding(json.loads(result.out), "structure")
    assert found["what"] == "folders that can't be read"
    assert "dog" in found["examples"][0]
