# SPDX-License-Identifier: Apache-2.0
"""`feedrace pack` that changes pictures: Pillow's pixels, the same bytes always, nothing hidden."""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from conftest import run
from pictures import jpeg, make_folder, make_shard

BAD_DATA = 1


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def encoded(array, form, **options):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, form, **options)
    return buffer.getvalue()


def resized(array, size):
    return np.asarray(Image.fromarray(array).resize(size, Image.Resampling.BILINEAR))


def samples(folder):
    """Of each key its fields, over all shards."""
    found = {}
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, field = member.name.split(".", 1)
                found.setdefault(key, {})[field] = tar.extractfile(member).read()
    return found


def shards(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


@pytest.fixture
def folder(tmp_path):
    """Twelve pictures of 90 x 60 and 60 x 90, two of 20 x 16."""
    for i in range(14):
        path = tmp_path / f"src/{'cat' if i % 2 else 'dog'}/{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(i, (20, 16) if i > 11 else ((90, 60), (60, 90))[i % 2]))
    return tmp_path / "src"


def sources(folder):
    return {f"{path.parent.name}/{path.stem}": path.read_bytes() for path in folder.glob("*/*.jpg")}


@pytest.mark.parametrize("form", ["npy", "npy.lz4", "npy.zst"])
@pytest.mark.parametrize("side", ["shortest", "longest"])
def test_decoded_pictures_are_pillows(folder, tmp_path, form, side):
    compress = {"npy": "none", "npy.lz4": "lz4", "npy.zst": "zstd"}[form]
    ran = run(
        *("pack", folder, tmp_path / "out", "--raw", "30", "--side", side),
        *("--compress", compress, "--shards", "3", "--json"),
    )
    report = ran.json()
    assert (report["samples"], report["changed"], report["failed"]) == (14, 14, 0)
    found = samples(tmp_path / "out")
    for key, content in sources(folder).items():
        array = pixels(content)
        height, width = array.shape[:2]
        length = min(height, width) if side == "shortest" else max(height, width)
        if length > 30:
            array = resized(array, (width * 30 // length, height * 30 // length))
        assert set(found[key]) == {form, "cls"}
        member = tmp_path / f"one.{form}"
        member.write_bytes(found[key][form])
        assert run("decode", member, "--out", tmp_path / "one.out.npy").code == 0
        assert np.array_equal(np.load(tmp_path / "one.out.npy"), array)
        if form == "npy":
            assert np.array_equal(np.load(io.BytesIO(found[key][form])), array)
    assert run("verify", tmp_path / "out").code == 0


def test_the_loader_takes_them_in_the_folders_order(folder, tmp_path):
    assert run("pack", folder, tmp_path / "out", "--raw", "0", "--shards", "2").code == 0
    for name, source in (("of-folder", folder), ("of-shards", tmp_path / "out")):
        ran = run("batch", source, "--batch", "14", "--size", "40", "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    first, second = (np.load(tmp_path / f"{n}/images.npy") for n in ("of-folder", "of-shards"))
    assert np.array_equal(first, second)
    labels = [np.load(tmp_path / f"{n}/labels.npy") for n in ("of-folder", "of-shards")]
    assert np.array_equal(*labels)


def test_only_what_is_larger_is_encoded_again(folder, tmp_path):
    report = run("pack", folder, tmp_path / "out", "--resize", "40", "--json").json()
    assert (report["samples"], report["changed"]) == (14, 12)
    found = samples(tmp_path / "out")
    for key, content in sources(folder).items():
        picture = Image.open(io.BytesIO(found[key]["jpg"]))
        if min(Image.open(io.BytesIO(content)).size) == 16:
            assert found[key]["jpg"] == content
            continue
        assert min(picture.size) == 40
        size = (60, 40) if picture.size[0] > 40 else (40, 60)
        wanted = encoded(resized(pixels(content), size), "JPEG", quality=90, subsampling=2)
        assert np.array_equal(pixels(found[key]["jpg"]), pixels(wanted))


def test_a_quality_is_that_of_every_picture(folder, tmp_path):
    (folder / "cat/png.png").write_bytes(encoded(pixels(jpeg(3, (50, 50))), "PNG"))
    sizes = []
    for quality in ("20", "95"):
        out = tmp_path / quality
        report = run("pack", folder, out, "--quality", quality, "--json").json()
        assert report["changed"] == 15
        assert "jpg" in samples(out)["cat/png"]
        sizes.append(sum(len(sample["jpg"]) for sample in samples(out).values()))
    assert sizes[0] < sizes[1]


def test_baseline_and_restart_markers_keep_every_pixel(tmp_path):
    array = pixels(jpeg(5, (120, 96)))
    path = tmp_path / "src/a/x.jpg"
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded(array, "JPEG", quality=85, progressive=True))
    ran = run("pack", tmp_path / "src", tmp_path / "out", "--baseline", "--restart-rows", "1")
    assert ran.code == 0, ran.err
    made = samples(tmp_path / "out")["a/x"]["jpg"]
    assert "progressive" not in Image.open(io.BytesIO(made)).info
    assert b"\xff\xdd\x00\x04" in made
    assert np.array_equal(pixels(made), pixels(path.read_bytes()))
    again = run("pack", tmp_path / "out", tmp_path / "again", "--baseline", "--json").json()
    assert again["changed"] == 0


@pytest.mark.parametrize(
    "change", [["--raw", "24"], ["--resize", "24", "--quality", "70"], ["--restart-rows", "2"]]
)
def test_the_same_bytes_whatever_threads_and_parts(folder, tmp_path, change):
    layout = ["--shards", "5", "--shuffle", "--seed", "3", *change]
    for name, more in (("one", ["--threads", "1"]), ("four", ["--threads", "4"])):
        assert run("pack", folder, tmp_path / name, *layout, *more).code == 0
    for part in ("2/2", "1/2"):
        ran = run("pack", folder, tmp_path / "parts", *layout, "--part", part)
        assert ran.code == 0, ran.err
    assert run("pack", "--finish", tmp_path / "parts").code == 0
    assert shards(tmp_path / "one") == shards(tmp_path / "four") == shards(tmp_path / "parts")
    manifests = [(tmp_path / n / "manifest.json").read_text() for n in ("one", "four", "parts")]
    assert manifests[0] == manifests[1] == manifests[2]


def test_a_run_with_another_change_does_not_go_on(folder, tmp_path):
    layout = ["--shards", "4", "--part", "1/2"]
    assert run("pack", folder, tmp_path / "out", *layout, "--raw", "24").code == 0
    for change in (["--raw", "25"], ["--raw", "24", "--compress", "lz4"], []):
        ran = run("pack", folder, tmp_path / "out", *layout, *change)
        assert ran.code == 2
        assert "options" in ran.err


def test_shards_by_size_are_about_that_large(tmp_path):
    make_folder(tmp_path / "src", count=60)
    ran = run("pack", tmp_path / "src", tmp_path / "out", "--raw", "0", "--shard-size", "100kB")
    assert ran.code == 0, ran.err
    sizes = [len(content) for content in shards(tmp_path / "out").values()]
    # 48 x 40 pixels with headers: 7.5 kB a sample.
    assert all(80_000 < size < 105_000 for size in sizes[:-1])
    assert len(sizes) == pytest.approx(120 * 7.5 / 100, abs=1)


def test_a_damaged_picture_stops_or_is_left_out(folder, tmp_path):
    victim = folder / "cat/003.jpg"
    victim.write_bytes(victim.read_bytes()[:-200])
    ran = run("pack", folder, tmp_path / "stop", "--raw", "24")
    assert ran.code == BAD_DATA
    assert "003" in ran.err
    assert "--on-error skip" in ran.err
    assert not shards(tmp_path / "stop")
    ran = run("pack", folder, tmp_path / "skip", "--raw", "24", "--on-error", "skip", "--json")
    assert ran.code == BAD_DATA
    report = json.loads(ran.out)
    assert (report["samples"], report["failed"]) == (13, 1)
    assert [one["key"] for one in report["left_out"]] == ["cat/003.jpg"]
    manifest = json.loads((tmp_path / "skip/manifest.json").read_text())
    assert manifest["left_out"][0]["key"] == "cat/003.jpg"
    # Untouched it is packed as it is: what a picture holds is not looked at.
    assert run("pack", folder, tmp_path / "plain").code == 0


def test_large_pictures_are_changed_too(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (1400, 1300, 3), np.uint8)
    path = tmp_path / "src/a/large.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded(noise, "PNG", compress_level=0))
    assert path.stat().st_size > 4 << 20  # Members above that are streamed otherwise.
    ran = run("pack", tmp_path / "src", tmp_path / "out", "--raw", "130")
    assert ran.code == 0, ran.err
    made = np.load(io.BytesIO(samples(tmp_path / "out")["a/large"]["npy"]))
    assert np.array_equal(made, resized(noise, (130, 140)))


def test_masks_beside_a_picture_stay_and_are_named(folder, tmp_path):
    mask = encoded(np.zeros((60, 90), np.uint8), "PNG")
    for path in folder.glob("*/*.jpg"):
        path.with_suffix(".seg.png").write_bytes(mask)
    ran = run("pack", folder, tmp_path / "out", "--raw", "24")
    assert ran.code == 0, ran.err
    assert "other pictures of a sample (seg.png) keep their bytes and size" in ran.err
    found = samples(tmp_path / "out")
    assert set(found["dog/000"]) == {"npy", "cls", "seg.png"}
    assert found["dog/000"]["seg.png"] == mask
    batch = ("--batch", "14", "--size", "24")
    assert run("batch", tmp_path / "out", *batch, "--out", tmp_path / "with").code == 0
    for path in folder.glob("*/*.seg.png"):
        path.unlink()
    assert run("pack", folder, tmp_path / "plain", "--raw", "24").code == 0
    assert run("batch", tmp_path / "plain", *batch, "--out", tmp_path / "without").code == 0
    images = [np.load(tmp_path / f"{name}/images.npy") for name in ("with", "without")]
    assert np.array_equal(*images)


@pytest.mark.parametrize(
    ("other", "message"),
    [("npy", "called npy, as another member"), ("png", "would take png for the picture")],
)
def test_a_name_that_would_mislead_is_refused(tmp_path, other, message):
    content = {"npy": b"features", "png": encoded(np.zeros((9, 9), np.uint8), "PNG")}[other]
    shard = make_shard(tmp_path / "a.tar", [("k.jpg", jpeg(1)), ("k." + other, content)])
    ran = run("pack", shard, tmp_path / "out", "--raw", "0")
    assert ran.code != 0
    assert message in ran.err
    assert "rename" in ran.err
    assert not shards(tmp_path / "out")


def test_the_plan_says_what_it_costs_and_wins(folder, tmp_path):
    plan = run("pack", folder, tmp_path / "out", "--raw", "24", "--dry-run", "--json").json()
    assert plan["change"].startswith("resized to 24 px on the shortest side where they are larger,")
    assert "14 of 14 pictures looked at" in plan["change"]
    mean = np.mean([len(pixels_bytes(content)) for content in sources(folder).values()])
    now = np.mean([len(content) for content in sources(folder).values()])
    assert plan["change_size_ratio"] == pytest.approx(mean / now, rel=1e-3)
    assert plan["change_speed_ratio"] > 0
    assert not (tmp_path / "out").exists()
    without = run("pack", folder, tmp_path / "out", "--dry-run", "--json").json()
    assert (without["change"], without["change_size_ratio"]) == ("", 0)


def pixels_bytes(content):
    """The .npy that `--raw 24` makes."""
    array = pixels(content)
    shortest = min(array.shape[:2])
    if shortest > 24:
        height, width = (side * 24 // shortest for side in array.shape[:2])
        array = resized(array, (width, height))
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--raw", "24", "--resize", "24"], "--resize excludes --raw"),
        (["--raw", "24", "--quality", "80"], "--raw excludes --quality"),
        (["--raw", "24", "--baseline"], "--raw excludes --baseline"),
        (["--compress", "lz4"], "--compress requires --raw"),
        (["--raw", "24", "--compress", "gzip"], "gzip"),
        (["--quality", "0"], "--quality"),
        (["--quality", "101"], "--quality"),
        (["--resize", "0"], "--resize"),
        (["--resize", "65501"], "--resize"),
        (["--restart-rows", "70000"], "--restart-rows"),
        (["--side", "left"], "left"),
    ],
)
def test_options_that_can_not_be(folder, tmp_path, args, message):
    ran = run("pack", folder, tmp_path / "out", *args)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_the_plan_looks_at_what_is_packed_and_warns_of_what_would_stop_it(folder, tmp_path):
    (folder / "cat/013.jpg").write_bytes(b"no picture at all")
    arguments = (folder, tmp_path / "out", "--raw", "32", "--shards", "2", "--json", "--dry-run")
    plan = run("pack", *arguments).json()
    warning = next(line for line in plan["warnings"] if "can't be changed" in line)
    assert "1 of 14 pictures looked at" in warning
    assert "cat/013.jpg: list all with feedrace verify --bad FILE" in warning
    assert plan["source_bytes"] == sum(
        path.stat().st_size + len("0") for path in folder.glob("*/*.jpg")
    )
    excluded = tmp_path / "bad.jsonl"
    assert run("verify", folder, "--bad", excluded).code == BAD_DATA
    plan = run("pack", *arguments, "--exclude", excluded).json()
    assert "13 of 13 pictures looked at" in plan["change"]
    assert not [line for line in plan["warnings"] if "can't be changed" in line]


def test_fewer_shards_than_threads_or_parts_are_said(folder, tmp_path):
    out = tmp_path / "out"
    few = run("pack", folder, out, "--raw", "32", "--threads", "3", "--dry-run", "--json").json()
    assert any("give 3 shards or more to use all" in line for line in few["warnings"])
    message = run("pack", folder, out, "--part", "1/2").error(2)
    assert "1 shard for 2 parts: give more shards, or fewer parts" in message
    assert not out.exists()
