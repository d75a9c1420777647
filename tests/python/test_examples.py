# SPDX-License-Identifier: Apache-2.0
"""The example trains, stops, goes on with more processes, and sees the same samples."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

import feedrace

REPOSITORY = Path(__file__).parent.parent.parent
EXAMPLE = REPOSITORY / "examples" / "train_torch.py"
# Far above what a run takes: a guard against hangs, not a measurement.
HANG_SECONDS = 600
SHAPES = ("cross", "disc", "stripes")
COUNT = 60
BATCH = 12
TRAIN_OPTIONS = ["--batch-size", str(BATCH), "--epochs", "8"]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def draw(shape, rng):
    """A picture of a shape, anywhere and in any colours that can be told apart."""
    picture = Image.new("RGB", (96, 80), tuple(rng.randrange(90) for _ in range(3)))
    pen = ImageDraw.Draw(picture)
    ink = tuple(rng.randrange(160, 256) for _ in range(3))
    x, y = rng.randrange(36, 60), rng.randrange(32, 48)
    if shape == "disc":
        pen.ellipse((x - 24, y - 24, x + 24, y + 24), fill=ink)
    elif shape == "cross":
        pen.line((x - 24, y, x + 24, y), fill=ink, width=5)
        pen.line((x, y - 24, x, y + 24), fill=ink, width=5)
    else:
        for top in range(rng.randrange(12), 80, 12):
            pen.rectangle((0, top, 96, top + 5), fill=ink)
    return picture


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes")
    rng = random.Random(0)
    for shape in SHAPES:
        (root / shape).mkdir()
        for i in range(COUNT):
            draw(shape, rng).save(root / shape / f"{i:03}.jpg", quality=90)
    return root


def environment():
    python = str(Path(feedrace.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": python, "OMP_NUM_THREADS": "1"}


def run_example(*arguments, launcher=(), code=0):
    command = [sys.executable, *launcher, EXAMPLE, *arguments]
    result = subprocess.run(
        [str(part) for part in command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_it_trains_to_its_target_and_resumes_on_two_processes_with_the_same_samples(shapes):
    printed = run_example(shapes, "--check", "--stop-after", "17", *TRAIN_OPTIONS)
    assert printed.count("validation accuracy: ") == 2  # Unbroken and resumed.
    assert "stopped after 17 steps on one process and resumed on two" in printed


def test_it_fails_below_its_target(shapes):
    # No accuracy is above 1.
    printed = run_example(shapes, "--epochs", "1", "--target", "1", code=1)
    assert "validation accuracy: " in printed


def test_the_comparison_sees_one_sample_in_another_step(shapes, tmp_path):
    """What `--check` relies on: records differ where the order does."""
    records = []
    for seed in (0, 1):
        path = tmp_path / f"{seed}.jsonl"
        options = ["--stop-after", "2", "--save", tmp_path / "saved.pt", "--seed", seed]
        run_example(shapes, *options, "--record", path, *TRAIN_OPTIONS)
        records.append([json.loads(line) for line in path.read_text().splitlines()])
    for record in records:
        assert [line["step"] for line in record] == [0, 1]
        assert all(len(set(line["samples"])) == BATCH for line in record)
    assert records[0] != records[1]

    compare = load_example().compare
    same = records[0]
    assert compare(same, same[:1], same[1:]) == 0
    assert compare(same, same[:1], records[1][1:]) == 1
    assert compare(same, same[:1], same[1:] + same[1:]) == 1
    with pytest.raises(SystemExit, match="did not stop in the middle"):
        compare(same, [], same)


def load_example():
    spec = importlib.util.spec_from_file_location("train_torch", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_torch"] = module  # Where dataclasses look for it.
    spec.loader.exec_module(module)
    return module
