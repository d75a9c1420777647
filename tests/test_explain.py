# SPDX-License-Identifier: Apache-2.0
"""feedrace explain and bench ceilings, in situations that are what they are on any machine.

The rules themselves are tested in C++ (verdict/rules_test.cc); mixed situations, which depend on
the machine, are made by bench/situations.py.
"""

import json

import pytest

import mounts
from conftest import run
from pictures import jpeg, pack_shards

WRONG_USE, ENVIRONMENT = 2, 3
PARTS = ("storage", "packed", "decode", "decode_indexed", "augment", "copy", "loader", "consumer")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    root = tmp_path_factory.mktemp("sets")
    for number in range(64):
        picture = root / "folder" / ("cat", "dog")[number % 2] / f"{number:03}.jpg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(jpeg(number))
    pack_shards(root / "folder", root / "shards", per_shard=16)
    return root


def explain(path, *options, seconds=1.5):
    return run("explain", path, "--batch", "4", "--seconds", str(seconds), "--json", *options)


def test_a_slow_training_loop_is_told_that_there_is_nothing_to_do(sets):
    found = explain(sets / "folder", "--step-ms", "150").json()
    assert found["limit"] == "consumer"
    assert "nothing to do here" in found["text"]
    assert found["remedies"] == []
    assert found["text"].startswith("the consumer limits: the consumer waited ")


def test_slow_small_files_are_told_from_slow_shards(sets, tmp_path):
    mounts.make_private()
    slow = ("--page-cache", "drop", "--backend", "direct", "--threads", "2")
    with mounts.faulty_mounted(sets, tmp_path / "slow", "delay:40:*") as at:
        files = explain(at / "folder", *slow, seconds=3).json()
        shards = explain(at / "shards", *slow, seconds=3).json()
    assert files["limit"] == "small_files"
    assert any(r["command"] == "feedrace pack PATH DIR" for r in files["remedies"])
    assert shards["limit"] == "storage"
    assert any(clause.startswith("a read took ") for clause in shards["evidence"])


def test_a_start_is_too_short_to_tell(sets):
    found = explain(sets / "folder", "--step-ms", "10", seconds=0.001).json()
    assert found["limit"] == "too_short"


def test_a_person_reads_lines(sets):
    done = run("explain", sets / "folder", "--batch", "4", "--seconds", "0.5", "--step-ms", "100")
    lines = done.out.decode().splitlines()
    assert done.code == 0
    assert lines[0].startswith("rate      ")
    assert lines[1] == "verdict   the consumer limits"
    assert any(line.startswith("evidence  ") for line in lines)


def test_ceilings_of_all_parts(sets, tmp_path):
    args = ("bench", "ceilings", sets / "folder", "--batch", "4", "--seconds", "0.1", "--json")
    report = run(*args, "--scratch", tmp_path, "--consumer", "9").json()
    assert tuple(report["ceilings"]) == PARTS
    assert list(tmp_path.iterdir()) == []  # The shard is gone.
    for name, part in report["ceilings"].items():
        if name == "decode_indexed" and part["images_per_second"] is None:
            assert part["reason"] == "none of these pictures takes one"
            continue
        least, most = part["spread"]
        assert 0 < least <= part["images_per_second"] <= most
    # They are read by what predicts with them.
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps(report))
    verdict = explain(sets / "folder", "--ceilings", file, seconds=0.5).json()
    measured = {c["part"] for c in verdict["ceilings"] if c["is_measured"]}
    assert "loader" in measured
    estimate = ("estimate", "--images-per-second", "1", "--wait", "0.9", "--json")
    outcomes = run(*estimate, "--ceilings", file).json()["outcomes"]
    assert "feedrace as measured" in [one["name"] for one in outcomes]
    # A loop of nine images/s waits for no loader, and the run needs no figures of its own.
    (before, *_) = run("estimate", "--ceilings", file, "--json").json()["outcomes"]
    assert before["images_per_second"] == pytest.approx(9)
    assert before["speedup"] == pytest.approx(1)


def test_what_is_not_measured_says_why(sets):
    report = run(
        "bench", "ceilings", sets / "shards", "--batch", "4", "--seconds", "0.1", "--json"
    ).json()
    assert report["ceilings"]["packed"]["reason"] == "the samples lie in shards"
    assert report["ceilings"]["packed"]["images_per_second"] is None


def test_a_scratch_folder_that_is_not_there(sets, tmp_path):
    done = run(
        "bench", "ceilings", sets / "folder", "--batch", "4", "--seconds", "0.1",
        "--scratch", tmp_path / "none",
    )  # fmt: skip
    assert "--scratch" in done.error(ENVIRONMENT)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"ceilings": {"storage": {"images_per_second": -1}}}']
)
def test_other_files_are_no_ceilings(sets, tmp_path, text):
    file = tmp_path / "ceilings.json"
    file.write_text(text)
    assert "bench ceilings" in explain(sets / "folder", "--ceilings", file).error(WRONG_USE)
    estimate = run("estimate", "--images-per-second", "1", "--wait", "0.1", "--ceilings", file)
    assert "bench ceilings" in estimate.error(WRONG_USE)


def test_how_busy_the_gpu_was_is_read_when_the_run_is_over(sets, tmp_path):
    dmon = tmp_path / "dmon.txt"
    dmon.write_text("# gpu     sm    mem\n# Idx      %      %\n    0     97     30\n")
    options = ("--step-ms", "100", "--dmon", dmon)
    verdict = explain(sets / "folder", *options, seconds=0.7).json()
    assert verdict["headline"] == "the GPU limits"
    assert "the GPU was 97 % busy" in verdict["evidence"]
    dmon.write_text("")
    assert "nvidia-smi dmon" in explain(sets / "folder", *options, seconds=0.1).error(WRONG_USE)
    dmon.unlink()
    assert "dmon.txt" in explain(sets / "folder", *options, seconds=0.1).error(WRONG_USE)
