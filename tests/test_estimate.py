# SPDX-License-Identifier: Apache-2.0
"""feedrace estimate: the arithmetic is tested in C++; here what the command takes and prints."""

import json

import pytest

from conftest import run

BAD_DATA, WRONG_USE = 1, 2
BEFORE = ("--images-per-second", "280", "--wait", "38%", "--days", "12", "--cost", "48000")
AFTER = (
    *("--after-images-per-second", "1120", "--after-wait", "4%"),
    *("--after-days", "3.2", "--after-cost", "12800"),
)


def test_a_case_study_is_taken_apart():
    done = run("estimate", *BEFORE, *AFTER, "--gpus", "16")
    assert done.code == BAD_DATA
    said = done.out.decode()
    assert "the most that any loader can win: 1.61 x = 1 / (1 - 38 %)" in said
    assert "with no waiting at all: 451.6 images/s a GPU, 1.61 x, waiting 0 %, 7.44 days" in said
    assert "does not follow: 4 x the images/s, but 3.75 x fewer days" in said
    assert "none at all 1.61 x" in said


def test_remedies_are_cut_by_the_training_loop():
    remedies = ("--remedy", "crop-index=350", "--remedy", "decode on the GPU=5000")
    report = run("estimate", *BEFORE, *remedies, "--json").json()
    assert [o["name"] for o in report["outcomes"]][1:] == ["crop-index", "decode on the GPU"]
    assert report["outcomes"][1]["days"] == pytest.approx(9.6)
    assert report["outcomes"][2]["images_per_second"] == pytest.approx(451.6, abs=0.1)
    assert report["contradictions"] == []


def test_a_share_may_be_a_number():
    with_percent = run("estimate", *BEFORE, "--json").out
    assert run("estimate", *BEFORE[:2], "--wait", "0.38", *BEFORE[4:], "--json").out == with_percent
    assert json.loads(with_percent)["derived"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--images-per-second", "fast"),
        ("--images-per-second", "280", "--wait", "38"),
        ("--images-per-second", "280", "--wait", "100%"),
        ("--images-per-second", "-1", "--days", "1"),
        ("--images-per-second", "nan", "--days", "1"),
        (*BEFORE, "--gpus", "0"),
        (*BEFORE, "--remedy", "350"),
        (*BEFORE, "--remedy", "=350"),
        (*BEFORE, "--price", "-1"),
    ],
)
def test_figures_that_are_none_are_refused(words):
    assert len(run("estimate", *words).error(WRONG_USE).splitlines()) == 1


def test_what_is_no_ceilings_is_named_with_its_file(tmp_path):
    file = tmp_path / "none.json"
    file.write_text("[]")
    said = f"{file}: ceilings: not what feedrace bench ceilings"
    done = run("estimate", "--images-per-second", "280", "--wait", "38%", "--ceilings", file)
    assert said in done.error(WRONG_USE)
    assert said in run("explain", tmp_path, "--ceilings", file).error(WRONG_USE)


def test_one_gpu_is_not_several():
    done = run("estimate", "--images-per-second", "280", "--wait", "38%", "--days", "12")
    assert "x 1 GPU\n" in done.out.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--after-days", "10", "--after-wait", "0%"), "the training loop must have become"),
        (("--after-days", "3", "--after-wait", "0%"), "must come from a faster training loop"),
        (("--after-images-per-second", "1000"), "must come from a faster training loop"),
        (("--after-images-per-second", "290", "--after-wait", "0%"), "must have become 1.56 x"),
    ],
)
def test_speed_that_waiting_does_not_explain_is_said(words, said):
    done = run("estimate", "--images-per-second", 280, "--wait", "38%", "--days", 10, *words)
    assert done.code == BAD_DATA
    assert said in done.out.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("--after-days", "6.2", "--after-wait", "0%"),
        ("--after-days", "8"),  # It may wait still.
        ("--after-images-per-second", "400"),
    ],
)
def test_speed_that_waiting_explains_is_not(words):
    done = run("estimate", "--images-per-second", 280, "--wait", "38%", "--days", 10, *words)
    assert done.code == 0, done.out


@pytest.mark.parametrize("name", ["wait", "days", "cost", "images-per-second", "after-wait"])
def test_an_empty_figure_is_no_figure(name):
    said = run("estimate", *BEFORE, f"--{name}", "").error(WRONG_USE)
    assert "an empty text was given" in said


def test_a_share_that_is_none_is_named_as_it_was_given():
    assert "wait 101 %" in run("estimate", *BEFORE[:2], "--wait", "101%").error(WRONG_USE)
    assert "wait -5 %" in run("estimate", *BEFORE[:2], "--wait=-5%").error(WRONG_USE)
