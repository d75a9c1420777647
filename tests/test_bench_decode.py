# SPDX-License-Identifier: Apache-2.0
"""feedrace bench decode: what it reports and refuses; the switch between the decoders. Nothing is
timed."""

import io

import numpy as np
import pytest
from PIL import Image

from conftest import run
from pictures import jpeg, make_folder, make_shard

GOOD, BAD_DATA, WRONG_USE = 0, 1, 2
WORKS = ["full", "entropy", "region"]
STEPS = [
    "header",
    "entropy",
    "inverse_dct",
    "upsample_colour",
    "full",
    "region",
    "resize_store",
    "libjpeg_turbo_entropy",
    "libjpeg_turbo_full",
    "libjpeg_turbo_region",
]
ENGINES = ("feedrace", "libjpeg-turbo")


def encoded(size=(90, 70), mode="RGB", **how):
    picture = Image.radial_gradient("L").resize(size).rotate(30)
    picture = Image.merge("RGB", (picture, picture.rotate(90), picture)).convert(mode)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", **how)
    return buffer.getvalue()


def bench(path, *more):
    return run("bench", "decode", path, "--seconds", "0", "--json", *more)


@pytest.fixture
def kinds(tmp_path):
    """Pictures of every kind that a report tells apart."""
    root = tmp_path / "kinds"
    root.mkdir()
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        (root / f"{sampling.replace(':', '')}.jpg").write_bytes(encoded(subsampling=sampling))
    (root / "grey.jpg").write_bytes(encoded(mode="L"))
    (root / "progressive.jpeg").write_bytes(encoded(progressive=True))
    (root / "cmyk.JPG").write_bytes(encoded(mode="CMYK"))
    (root / "text.jpg").write_bytes(b"no picture")
    return root


def test_the_report_has_rates_of_both_decoders(tmp_path):
    report = bench(make_folder(tmp_path / "pictures")).json()
    assert list(report["ours"]) == [*WORKS, "region_indexed"]
    assert list(report["libjpeg_turbo"]) == WORKS
    for work in WORKS:
        for side in ("ours", "libjpeg_turbo", "ratios"):
            least, most = report["spreads"][side][work]
            assert 0 < least <= report[side][work] <= most
    assert report["pictures"]["count"] == report["pictures"]["feedrace"] == 12
    assert report["rounds"] >= 3
    assert "steps" not in report


def test_what_has_no_figure_has_a_reason(tmp_path):
    report = bench(make_folder(tmp_path / "pictures")).json()
    # So small that there is no room for a place in each row.
    assert report["pictures"]["crop_indexed"] == 0
    assert report["ours"]["region_indexed"] is None
    assert "too small" in report["reasons"]["region_indexed"]


def test_crop_indexes_are_made_where_they_can_be(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.jpg", quality=95)
    report = bench(tmp_path).json()
    assert report["pictures"]["crop_indexed"] == 1
    assert report["ours"]["region_indexed"] > 0
    assert report["ratios"]["region_indexed"] > 0
    assert report["reasons"] == {}


def test_steps_are_broken_down(tmp_path):
    report = bench(make_folder(tmp_path / "pictures"), "--steps").json()
    assert list(report["steps"]) == STEPS
    for name, step in report["steps"].items():
        is_difference = name in ("entropy", "inverse_dct", "upsample_colour")
        assert is_difference or step["ns_per_image"] > 0  # Of times, and these are tiny.
        assert set(step) == {"ns_per_image", "mb_per_second", "ns_per_pixel"}


def test_pictures_are_counted_by_who_decodes_them(kinds):
    pictures = bench(kinds).json()["pictures"]
    assert (pictures["feedrace"], pictures["libjpeg_turbo"]) == (4, 1)
    assert (pictures["damaged"], pictures["left_out"]) == (0, 2)
    assert pictures["kind"] == "progressive"
    assert pictures["count"] == 5


def test_a_damaged_picture_is_counted(tmp_path):
    good = encoded(size=(200, 150), quality=95)
    path = tmp_path / "cut.jpg"
    path.write_bytes(good[: len(good) * 2 // 3])
    made = bench(path)
    if made.code == GOOD:
        pictures = made.json()["pictures"]
        assert (pictures["damaged"], pictures["feedrace"]) == (1, 0)
    else:
        # libjpeg-turbo gives no pixels either.
        assert "it is not a JPEG of grey or colour" in made.error(WRONG_USE)


def test_a_file_and_shards_will_do(tmp_path):
    path = tmp_path / "one.jpg"
    path.write_bytes(jpeg())
    assert bench(path).json()["pictures"]["count"] == 1
    members = [m for i in range(5) for m in ((f"{i}.jpg", jpeg(i)), (f"{i}.cls", b"1"))]
    shard = make_shard(tmp_path / "shards" / "a.tar", members)
    before = sorted(shard.parent.iterdir())
    assert bench(shard).json()["pictures"]["count"] == 5
    assert bench(shard.parent, "--limit", "2").json()["pictures"]["count"] == 2
    assert sorted(shard.parent.iterdir()) == before


def test_the_text_names_every_row(kinds):
    made = run("bench", "decode", kinds, "--seconds", "0", "--steps")
    assert made.code == GOOD, made.err
    text = made.out.decode()
    for row in (*WORKS, "region_indexed", *STEPS, "the last one: progressive"):
        assert row in text


def test_without_pictures_it_says_so(tmp_path):
    (tmp_path / "text.jpg").write_bytes(b"no picture")
    assert "it is not a JPEG of grey or colour" in bench(tmp_path).error(WRONG_USE)


def test_a_path_that_is_not_there_is_named(tmp_path):
    assert "absent" in bench(tmp_path / "absent").error(WRONG_USE)


# The switch.


@pytest.mark.parametrize("engine", ENGINES)
def test_decode_gives_the_same_pixels_by_either(tmp_path, engine):
    source, out = tmp_path / "a.jpg", tmp_path / "a.npy"
    source.write_bytes(encoded(size=(131, 97), subsampling="4:2:0"))
    made = run("decode", source, "--out", out, "--jpeg-engine", engine)
    assert made.code == GOOD, made.err
    with Image.open(source) as picture:
        assert np.array_equal(np.load(out), np.asarray(picture))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_loader_counts_who_decoded(tmp_path, engine):
    folder = make_folder(tmp_path / "pictures")
    (folder / "cat" / "progressive.jpg").write_bytes(encoded(progressive=True))
    report = run(
        "bench", "loader", folder, "--recipe", "imagenet-val", "--epochs", "1", "--batch", "4",
        "--json", "--jpeg-engine", engine,
    ).json()  # fmt: skip
    found = report["jpeg"]
    assert found["engine"] == engine
    decoded = found["feedrace"] + found["libjpeg_turbo"]
    assert decoded >= 13  # The next epoch may have begun.
    if engine == "feedrace":
        assert found["libjpeg_turbo"] >= 1
        assert found["feedrace"] >= 12
        assert found["kind"] == "progressive"
    else:
        assert found["feedrace"] == 0
        assert found["kind"] is None


def test_the_verdict_names_kinds_that_are_not_ours(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "cat").mkdir(parents=True)
    for i in range(6):
        (folder / "cat" / f"{i}.jpg").write_bytes(encoded(progressive=True))
    report = run(
        "bench", "loader", folder, "--recipe", "imagenet-val", "--epochs", "1", "--json"
    ).json()
    expected = "100 % of the JPEG pictures are left to libjpeg-turbo, the last one: progressive"
    assert expected in report["verdict"]


def test_the_plan_says_who_decodes(tmp_path):
    folder = make_folder(tmp_path / "pictures")
    for engine in ENGINES:
        plan = run("plan", folder, "--batch", "4", "--jpeg-engine", engine, "--json").json()
        assert plan["jpeg_engine"] == engine
    text = run("plan", folder, "--batch", "4", "--jpeg-engine", "libjpeg-turbo").out.decode()
    assert "jpeg      libjpeg-turbo" in text


def test_another_engine_is_refused(tmp_path):
    made = run("plan", make_folder(tmp_path / "pictures"), "--jpeg-engine", "turbo")
    assert "--jpeg-engine" in made.error(WRONG_USE)
