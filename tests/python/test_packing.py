# SPDX-License-Identifier: Apache-2.0
"""`fr.pack` and `fr.finish_pack`: what `feedrace pack` does, as calls."""

import io
import json

import pytest

import feedrace as fr
from feedrace.progress_line import ProgressLine
from small_sets import jpeg_of, write_classes


@pytest.fixture
def folder(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "src" / name).mkdir(parents=True)
        for i in range(5):
            (tmp_path / "src" / name / f"{i:03}.jpg").write_bytes(jpeg_of(i))
    return tmp_path / "src"


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.*") if path.is_file()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 7}, "seed is given with no shuffle; leave seed out"),
        (
            {"shards": 2, "shard_size": "1MB"},
            "shard_size is given with shards; leave shard_size out",
        ),
        ({"side": "longest"}, "side is given with neither resize nor raw; leave side out"),
    ],
)
def test_options_that_would_be_ignored_are_refused(tmp_path, given, message):
    write_classes(tmp_path, {"cat": 1})
    with pytest.raises(fr.Error, match=message):
        fr.pack(tmp_path, tmp_path.parent / f"{tmp_path.name}-out", **given)
    assert not (tmp_path.parent / f"{tmp_path.name}-out").exists()


def test_it_packs_what_a_loader_reads_in_the_same_order(folder, tmp_path):
    report = fr.pack(folder, tmp_path / "out", shards=3)
    assert (report.shards, report.samples, report.left_out, report.failed) == (3, 10, [], 0)
    assert report.manifest == str(tmp_path / "out/manifest.json")
    options = {"batch_size": 10, "transform": "imagenet-val", "output": "numpy"}
    fields = ("label", "key")
    ((labels, keys),) = fr.ImageLoader(folder, fields=fields, **options)
    ((packed_labels, packed_keys),) = fr.ImageLoader(tmp_path / "out", fields=fields, **options)
    assert packed_labels.tolist() == labels.tolist()
    assert packed_keys == [key.removesuffix(".jpg") for key in keys]


def test_the_plan_is_made_known_before_it_is_done(folder, tmp_path):
    plan = fr.pack(folder, tmp_path / "out", shards=3, align=True, dry_run=True)
    assert isinstance(plan, fr.PackPlan)
    assert plan.fits
    assert not (tmp_path / "out").exists()
    report = fr.pack(folder, tmp_path / "out", shards=3, align=True)
    assert (report.shards, report.size_bytes) == (plan.shards, plan.size_bytes)


def test_parts_make_the_set_of_one_run(folder, tmp_path):
    options = {"shards": 4, "shuffle": True, "seed": 5, "prefix": "train"}
    fr.pack(folder, tmp_path / "whole", **options)
    fr.pack(folder, tmp_path / "parts", part=(2, 2), **options)
    with pytest.raises(fr.Error, match="train-000000.tar, train-000002.tar") as caught:
        fr.finish_pack(tmp_path / "parts")
    assert caught.value.code == "not_found"
    fr.pack(folder, tmp_path / "parts", part=(1, 2), **options)
    report = fr.finish_pack(tmp_path / "parts")
    assert report.samples == 10
    assert bytes_of(tmp_path / "parts") == bytes_of(tmp_path / "whole")


def test_samples_are_left_out_and_named(folder, tmp_path):
    (tmp_path / "bad").write_text(json.dumps({"key": "ant/001.jpg", "reason": "dark"}) + "\n")
    report = fr.pack(folder, tmp_path / "out", exclude=tmp_path / "bad")
    assert report.left_out == [("ant/001.jpg", "excluded: dark")]
    assert report.failed == 0
    (tmp_path / "list.txt").write_text("src/ant/000.jpg 0\nsrc/ant/gone.jpg 1\n")
    with pytest.raises(fr.Error) as caught:
        fr.pack(tmp_path / "list.txt", tmp_path / "listed")
    assert caught.value.code == "not_found"
    report = fr.pack(tmp_path / "list.txt", tmp_path / "listed", on_error="skip")
    assert [one.key for one in report.left_out] == ["src/ant/gone.jpg"]
    assert report.failed == 1


def test_what_progress_raises_ends_the_run_and_the_next_goes_on(folder, tmp_path):
    class EnoughError(Exception):
        pass

    def stop(progress):
        assert progress.phase in ("plan", "shards", "index")
        assert 0 <= progress.share <= 1
        raise EnoughError

    # A run may be over before it is asked for its progress.
    try:
        fr.pack(folder, tmp_path / "out", shards=10, num_threads=1, crop_index=True, progress=stop)
    except EnoughError:
        assert not (tmp_path / "out/manifest.json").exists()
    assert fr.pack(folder, tmp_path / "out", shards=10, crop_index=True).samples == 10


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"shards": 0}, "shards"),
        ({"shards": True}, "shards"),
        ({"shards": 11}, "11 shards"),
        ({"shard_size": "much"}, "shard_size"),
        ({"shard_size": 0}, "shard_size"),
        ({"prefix": "a/b"}, "prefix"),
        ({"shuffle": "yes"}, "shuffle"),
        ({"seed": -1}, "seed"),
        ({"on_error": "ignore"}, "on_error"),
        ({"part": 3}, "part"),
        ({"part": (0, 2)}, "part"),
        ({"io": "magic"}, "io"),
        ({"num_threads": 0}, "num_threads"),
        ({"progress": 3}, "progress"),
        ({"sharts": 3}, "shards"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named(folder, tmp_path, arguments, named):
    with pytest.raises(fr.Error, match=named) as caught:
        fr.pack(folder, tmp_path / "out", **arguments)
    assert caught.value.code == "invalid_argument"
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"raw": 20}, "npy"),
        ({"raw": 0, "compress": "zstd"}, "npy.zst"),
        ({"resize": 20, "side": "longest", "quality": 80}, "jpg"),
        ({"baseline": True, "restart_rows": 1}, "jpg"),
    ],
)
def test_pictures_are_changed_as_the_command_does_it(folder, tmp_path, change, field):
    report = fr.pack(folder, tmp_path / "out", **change)
    assert (report.samples, report.changed) == (10, 10)
    options = {"batch_size": 10, "transform": "imagenet-val", "output": "numpy"}
    loader = fr.ImageLoader(tmp_path / "out", fields=("image", field, "label"), **options)
    ((_, stored, labels),) = loader
    ((expected,),) = fr.ImageLoader(folder, fields=("label",), **options)
    assert labels.tolist() == expected.tolist()
    if "raw" in change and "compress" not in change:
        assert min(stored[0].shape[:2]) == 20


def test_the_plan_has_what_a_change_costs(folder, tmp_path):
    plan = fr.pack(folder, tmp_path / "out", raw=0, dry_run=True)
    assert plan.change.startswith("decoded; 10 of 10 pictures looked at: changed they take")
    assert plan.change_size_ratio > 1
    assert plan.change_speed_ratio > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raw": 1, "resize": 1}, "resize and raw"),
        ({"compress": "lz4"}, "without raw"),
        ({"raw": 1, "compress": "gzip"}, "compress"),
        ({"raw": -1}, "raw"),
        ({"resize": 0}, "resize"),
        ({"resize": 65_501}, "resize"),
        ({"quality": 101}, "quality"),
        ({"resize": 20, "side": "left"}, "side"),
        ({"restart_rows": 1 << 16}, "restart_rows"),
        ({"raw": 20, "quality": 80}, "leave out quality"),
    ],
)
def test_changes_that_can_not_be(folder, tmp_path, change, message):
    with pytest.raises(fr.Error, match=message) as caught:
        fr.pack(folder, tmp_path / "out", **change)
    assert caught.value.code == "invalid_argument"
    assert not (tmp_path / "out").exists()


def test_progress_as_a_line(folder, tmp_path, capfd):
    fr.pack(folder, tmp_path / "out", shards=10, num_threads=1, progress=True)
    fr.pack(folder, tmp_path / "silent", shards=10, progress=False)
    assert all(
        line.startswith(("plan [", "shards [", "index ["))
        for line in capfd.readouterr().err.splitlines()
    )
    assert fr.verify(tmp_path / "out", progress=True)
    fr.verify(tmp_path / "out", progress=False)
    assert all(line.startswith("verified [") for line in capfd.readouterr().err.splitlines())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_progress_line_is_drawn_anew_on_a_terminal_and_each_tenth_elsewhere(is_terminal):
    shown = io.StringIO()
    shown.isatty = lambda: is_terminal
    line = ProgressLine("shards", shown)
    line._drawn -= 1  # As if time had passed.
    line.update(50, 0.5)
    line.update(51, 0.51)
    line.close()
    text = "shards [############            ] 50 samples, 50 %"
    if is_terminal:
        assert shown.getvalue().startswith(f"\r\x1b[K{text}")
        assert shown.getvalue().endswith("\r\x1b[K")
        assert shown.getvalue().count("samples") == 1
    else:
        assert shown.getvalue().startswith(text)
        assert shown.getvalue().count("\n") == 1


def test_plan_and_reports_print_as_the_commands_do(folder, tmp_path):
    plan = fr.pack(folder, tmp_path / "out", shards=2, dry_run=True)
    assert str(plan).startswith("source: image folder, 10 samples, ")
    assert "\nshards: 2, at most " in str(plan)
    assert not plan.packed_already
    report = fr.pack(folder, tmp_path / "out", shards=2)
    assert str(report).startswith("packed: 10 samples in 2 shards, ")
    assert str(report).endswith(f"\nindex: {tmp_path}/out/shards.frindex")
    assert "_text" not in repr(report)
    again = fr.pack(folder, tmp_path / "out", shards=2)
    assert again.packed_already
    assert str(again).startswith("packed already: 10 samples in 2 shards, ")
    found = fr.verify(tmp_path / "out")
    assert str(found).startswith("samples     10, 10 with a picture; webdataset shards: 2 shards")
    assert str(found).splitlines()[-1].startswith("good: no bad sample; ")


def test_progress_begins_with_the_plan(folder, tmp_path):
    phases = []
    fr.pack(folder, tmp_path / "out", progress=lambda progress: phases.append(progress.phase))
    assert phases[0] == "plan"
