# SPDX-License-Identifier: Apache-2.0
"""The parity certificate: what it compares, what it skips, and that it can fail."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from feedrace import parity
from feedrace.parity.__main__ import main
from feedrace.parity.reference import Reference
from torchvision_import import import_torchvision

CASES = Path(__file__).parent.parent / "cases" / "images"
STEPS = ["decode", "resize + crop", "random crop", "normalize"]


def wave_picture(height, width, seed=0):
    """A smooth picture with some noise, uint8 [height, width, 3]."""
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 9 + y / 31), np.cos(x / 17 - y / 7), np.sin((x + y) / 13)], -1)
    noise = np.random.default_rng(seed).normal(0, 6, waves.shape)
    return np.clip(127 + 110 * waves + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Two classes; JPEG, PNG and WebP of odd sizes, grey, CMYK, one pixel wide."""
    root = tmp_path / "pictures"
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
    Image.fromarray(wave_picture(375, 500)).save(root / "cat" / "wide.jpg", quality=90)
    Image.fromarray(wave_picture(301, 211, seed=1)).save(root / "cat" / "tall.png")
    Image.fromarray(wave_picture(97, 133, seed=2)).save(root / "dog" / "small.webp")
    Image.fromarray(wave_picture(70, 60, seed=3)).convert("L").save(root / "dog" / "grey.jpg")
    Image.fromarray(wave_picture(300, 1, seed=4)).save(root / "dog" / "line.png")
    shutil.copy(CASES / "jpg_cmyk_adobe.jpg", root / "dog")
    return root


def by_name(report):
    return {step.name: step for step in report.steps}


def test_all_steps_are_within_what_is_promised(folder):
    report = parity.compare(folder)
    assert report.is_within, str(report)
    assert [step.name for step in report.steps] == STEPS
    assert (report.found, report.chosen, report.skipped) == (6, 6, [])
    steps = by_name(report)
    assert [steps[name].files for name in STEPS] == [6, 6, 6, 12]
    assert 0 < steps["normalize"].largest < 0.2


def test_lossless_pictures_are_equal_in_every_step(tmp_path):
    for number, size in enumerate([(375, 500), (256, 256), (1, 40), (40, 1), (700, 20)]):
        Image.fromarray(wave_picture(*size)).save(tmp_path / f"{number}.png")
    steps = by_name(parity.compare(tmp_path))
    for name in STEPS[:3]:
        assert steps[name].files == 5
        assert steps[name].outside == []
    assert steps["decode"].largest == 0


@pytest.mark.parametrize(
    ("transform", "steps"),
    [
        ("decode", STEPS[:1]),
        ("imagenet-val", ["decode", "resize + crop", "normalize"]),
        ("imagenet-train", ["decode", "random crop", "normalize"]),
    ],
)
def test_a_transform_has_its_own_steps(folder, transform, steps):
    report = parity.compare(folder, transform=transform)
    assert [step.name for step in report.steps] == steps
    assert report.is_within, str(report)


def test_a_wrong_box_is_found_and_the_worst_file_named(folder, monkeypatch, capsys):
    right = Reference.resized_crop

    def one_pixel_off(self, picture, box, size):
        left, top, width, height = box
        return right(self, picture, (left, top, max(width - 1, 1), height), size)

    monkeypatch.setattr(Reference, "resized_crop", one_pixel_off)
    assert main([str(folder), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    steps = {step["name"]: step for step in report["steps"]}
    assert not report["within_promise"]
    assert steps["random crop"]["worst_file"] in steps["random crop"]["outside_promise"]
    assert steps["resize + crop"]["outside_promise"] == []
    assert main([str(folder)]) == 1
    assert "outside the promise of random crop" in capsys.readouterr().out


def test_a_wrong_decoder_is_found(folder, monkeypatch):
    right = Reference.decode

    def brighter(self, path):
        picture, tolerance = right(self, path)
        return picture.point(lambda level: min(255, level + 5)), tolerance

    monkeypatch.setattr(Reference, "decode", brighter)
    decode = by_name(parity.compare(folder, transform="decode"))["decode"]
    assert decode.largest >= 5
    assert len(decode.outside) == 6


def test_what_cannot_be_compared_is_skipped_with_the_reason(folder):
    (folder / "cat" / "empty.jpg").write_bytes(b"")
    shutil.copy(CASES / "png_grey16.png", folder / "cat")
    shutil.copy(CASES / "jpg_cut_30.jpg", folder / "dog")
    report = parity.compare(folder)
    reasons = dict(report.skipped)
    assert set(reasons) == {"cat/empty.jpg", "cat/png_grey16.png", "dog/jpg_cut_30.jpg"}
    assert reasons["cat/empty.jpg"].startswith("Feedrace: an empty file")
    assert "16 bits" in reasons["cat/png_grey16.png"]
    assert report.is_within, str(report)


def test_nothing_to_compare_is_not_ok(tmp_path):
    (tmp_path / "empty.jpg").write_bytes(b"")
    report = parity.compare(tmp_path)
    assert not report.is_within
    assert "nothing could be compared" in str(report)


def test_the_limit_takes_pictures_at_even_distances(tmp_path):
    for number in range(10):
        Image.fromarray(wave_picture(8, 8)).save(tmp_path / f"{number}.png")
    (tmp_path / "0.png").write_bytes(b"")
    (tmp_path / "5.png").write_bytes(b"")
    report = parity.compare(tmp_path, limit=2, transform="decode")
    assert (report.found, report.chosen) == (10, 2)
    assert [name for name, _ in report.skipped] == ["0.png", "5.png"]


def test_shards_give_what_their_files_give(folder, tmp_path):
    with tarfile.open(tmp_path / "000.tar", "w") as tar:
        for path in sorted(folder.rglob("*.*")):
            tar.add(path, arcname=path.name)
            tar.add(__file__, arcname=f"{path.stem}.txt")
    from_shard, from_folder = parity.compare(tmp_path / "000.tar"), parity.compare(folder)
    assert from_shard.is_within
    assert from_shard.found is None
    for ours, theirs in zip(from_shard.steps[:2], from_folder.steps[:2], strict=True):
        assert (ours.files, ours.largest, ours.mean) == (theirs.files, theirs.largest, theirs.mean)


def test_odd_file_names(folder):
    picture = Image.fromarray(wave_picture(20, 30))
    for name in (b"line\nbreak.png", b"not\xff\xfeutf8.png", b" blank .png"):
        with open(os.path.join(os.fsencode(folder), b"cat", name), "wb") as file:
            picture.save(file, "PNG")
    report = parity.compare(folder)
    assert report.is_within, ascii(str(report))
    assert (report.chosen, report.skipped) == (9, [])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["missing"], 2, "missing"),
        (["."], 2, "no pictures"),
        ([".", "--limit", "0"], 2, "limit"),
    ],
)
def test_errors_are_one_line_and_have_their_exit_code(
    tmp_path, monkeypatch, capsys, arguments, code, text
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert text in written.err
    assert len(written.err.splitlines()) == 1


def odd_paths(root):
    """Sources that can't be compared: what to give, the exit code, and what is said of each."""
    (root / "text.txt").write_text("no picture")
    (root / "cut.tar").write_bytes(b"x")
    (root / "empty.tar").touch()
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("gone")
    (root / "none").mkdir()
    (root / "pipes").mkdir()
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "pipes" / "a.jpg")
    os.mkdir(os.fsencode(root / "bad") + b"\xff")
    return {
        os.devnull: (2, "/dev/null: neither a file nor a folder; give a folder"),
        "pipe": (2, "pipe: neither a file nor a folder; give a folder"),
        "pipes": (2, "pipes: there are no pictures in it; give a folder"),
        "none": (2, "none: there are no pictures in it; give a folder"),
        "bad\udcff": (2, "bad\\xff: there are no pictures in it; give a folder"),
        "text.txt": (2, "text.txt: there are no pictures in it; give a folder"),
        "text.txt/below": (2, "text.txt/below: there is no such file or folder; give one"),
        "line\nbreak": (2, "line\\nbreak: there is no such file or folder; give one"),
        "dangling": (2, "dangling: a link to gone, which is not there; give one"),
        "": (2, "parity: source is ''; it must be a path"),
        "nul\0": (2, "it must be a path"),
        "cut.tar": (1, "cut.tar: truncated header; copy the shard again"),
        "empty.tar": (1, "empty.tar: empty file; copy the shard again"),
        "loop": (3, "loop: Too many levels of symbolic links; look at the file"),
        "x" * 5000: (3, "File name too long; look at the file"),
    }


def test_an_odd_path_is_one_line_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for source, (code, text) in odd_paths(tmp_path).items():
        assert main([source]) == code, source
        written = capsys.readouterr()
        assert written.out == ""
        assert text in written.err
        assert len(written.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without permission")
def test_a_folder_without_permission_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir("/")
    closed = tmp_path / "closed"
    closed.mkdir()
    # Read by root meanwhile: what the other user may not.
    main(["--limit", "1", str(closed)])
    capsys.readouterr()
    tmp_path.chmod(0o700)
    os.seteuid(65534)
    try:
        assert main([str(closed)]) == 3
    finally:
        os.seteuid(0)
    assert f"{closed}: Permission denied; look at the file and its permissions" in (
        capsys.readouterr().err
    )


def test_a_report_prints_names_that_are_no_utf8(tmp_path):
    folder = os.fsencode(tmp_path) + b"/bad\xff\nname"
    os.mkdir(folder)
    Image.fromarray(wave_picture(20, 30)).save(tmp_path / "one.jpg")
    shutil.move(tmp_path / "one.jpg", folder + b"/\xfe.jpg")
    command = [sys.executable, "-m", "feedrace.parity", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{tmp_path}/bad\\xff\\nname: 1 of 1 pictures")
    assert run.stdout.rstrip().endswith("within what Feedrace promises")


def run_without(module, *arguments):
    """The command in a process in which a module can't be imported."""
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from feedrace.parity.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_pillow_alone_suffices(folder):
    run = run_without("torchvision", str(folder), "--json")
    assert run.returncode == 0, run.stderr
    assert "torchvision" not in json.loads(run.stdout)["reference"]


def test_with_torchvision_it_is_the_reference(folder):
    import_torchvision()
    report = parity.compare(folder)
    assert "torchvision" in report.versions
    assert report.is_within, str(report)


def test_without_pillow_it_says_what_to_install(folder):
    run = run_without("PIL", str(folder))
    assert run.returncode == 3
    assert "pip install pillow" in run.stderr


def test_the_module_runs_as_a_command(folder):
    command = [sys.executable, "-m", "feedrace.parity", str(folder), "--limit", "3"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "3 of 6 pictures against Pillow" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("ok: ")
