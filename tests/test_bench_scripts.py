# SPDX-License-Identifier: Apache-2.0
"""What the scripts in bench/ make of figures and pictures. Nothing is measured."""

import shutil
import sys

import pytest
from PIL import Image

from conftest import REPOSITORY
from pictures import jpeg

sys.path.insert(0, str(REPOSITORY))

from bench import jpeg as bench_jpeg  # noqa: E402
from bench import layout  # noqa: E402
from bench.peers import decoded, recipe  # noqa: E402


def test_ratios_are_those_to_the_best_peer():
    photos = {
        "feedrace_folder": (3000.0, 0.6),
        "feedrace_shards": (3300.0, 0.5),
        "dali_file_crop_fp32": (1100.0, 1.7),
        "tf_crop_noaa": (1500.0, 1.25),
    }
    q90 = {"feedrace_folder": (4000.0, 0.5), "ffcv_rrc": (1600.0, 1.2), "tf_crop_noaa": (2e3, 1.0)}
    found = {(what, ours): (peer, ratio) for what, ours, peer, ratio in recipe.rows(photos, q90)}
    assert found == {
        ("images/s ÷ the fastest peer of any kind", "feedrace_folder"): ("tf_crop_noaa", "2.00"),
        ("images/s ÷ the fastest peer of any kind", "feedrace_shards"): ("tf_crop_noaa", "2.20"),
        ("images/s ÷ the fastest antialiased peer", "feedrace_folder"): (
            "dali_file_crop_fp32", "2.73",
        ),
        ("images/s ÷ the fastest antialiased peer", "feedrace_shards"): (
            "dali_file_crop_fp32", "3.00",
        ),
        ("CPU seconds per 1,000 images ÷ the most frugal peer", "feedrace_folder"): (
            "tf_crop_noaa", "0.48",
        ),
        ("CPU seconds per 1,000 images ÷ the most frugal peer", "feedrace_shards"): (
            "tf_crop_noaa", "0.40",
        ),
        ("images/s ÷ FFCV, on quality-90 4:2:0 files", "feedrace_folder"): ("ffcv_rrc", "2.50"),
    }  # fmt: skip


def test_a_peer_that_was_not_measured_is_named_as_missing():
    found = recipe.rows({"feedrace_folder": (3000.0, 0.6)}, {})
    assert [peer for _, _, peer, _ in found] == ["no peer was measured"] * 3


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(3):
        (folder / f"n{i}_class.JPEG").write_bytes(jpeg(i, (120, 90)))
    return folder


@pytest.mark.parametrize("name", [n for n in bench_jpeg.SETS if n != "large_8mp"])
def test_sets_hold_the_same_pictures(photos, tmp_path, name):
    if name in ("restart_rows", "progressive") and shutil.which("jpegtran") is None:
        pytest.skip("jpegtran is not installed")
    root = tmp_path / "made"
    root.mkdir()
    folder = bench_jpeg.lay_out(name, photos, layout.find_pictures(photos), root)
    made = sorted(folder.rglob("*.jpg"))
    assert [path.parent.name for path in made] == ["n0", "n1", "n2"]
    for path in made:
        with Image.open(path) as picture:
            assert picture.size == (120, 90)
            assert bool(picture.info.get("progressive")) == (name == "progressive")
        content = path.read_bytes()
        assert (b"\xff\xdd\x00\x04" in content) == (name == "restart_rows")


def test_the_pictures_themselves_are_left_alone(photos):
    with pytest.raises(SystemExit, match="give another folder"):
        bench_jpeg.lay_out("photos", photos, layout.find_pictures(photos), photos.parent)
    assert len(list(photos.iterdir())) == 3


def test_slower_kinds_are_named():
    pictures = {"feedrace": 5, "libjpeg_turbo": 0}
    ratios = {"full": 1.5, "entropy": 0.9, "region": 1.0}
    found = bench_jpeg.slower("photos", {"pictures": pictures, "ratios": ratios})
    assert len(found) == 1
    assert found[0].startswith("photos: entropy is 0.900")
    pictures = {"feedrace": 0, "libjpeg_turbo": 5}
    report = {"pictures": pictures, "ratios": {"full": 0.98, "region": 0.96, "entropy": 0.9}}
    assert [line.split()[1] for line in bench_jpeg.slower("progressive", report)] == ["region"]


def test_decoded_stores_are_compared_by_type_of_numbers():
    found = {
        "feedrace_decoded": (12_000.0, 0.16),
        "feedrace_decoded_fp32": (10_000.0, 0.2),
        "turbo_tbl": (4_000.0, 0.5),
        "ffcv_raw": (4_800.0, 0.4),
    }
    assert list(decoded.rows(found)) == [
        ("feedrace_decoded ÷ turbo_tbl", "3.00", "0.32"),
        ("feedrace_decoded_fp32 ÷ turbo_tbl_fp32", "–", "–"),
        ("feedrace_decoded ÷ ffcv_raw", "2.50", "0.40"),
    ]


def test_squares_are_one_picture_each_pass(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(layout, "SQUARE", tmp_path / "square")
    for _, picture in layout.find_pictures(photos):
        target = tmp_path / "images" / picture.name.split("_")[0] / picture.name
        target.parent.mkdir(parents=True)
        shutil.copy(picture, target)
    layout.write_squares()
    samples = layout.square_samples()
    assert len(samples) == 3 * layout.PASSES
    assert sorted({label for _, label in samples}) == [0, 1, 2]
    with Image.open(samples[0][0]) as square:
        assert square.size == (layout.SQUARE_PX, layout.SQUARE_PX)
