# SPDX-License-Identifier: Apache-2.0
"""loader.verdict() and loader.cached()."""

import json
import time

import pytest

from feedrace.delivery import make_next
from feedrace.verdict import Ceiling
from small_loaders import error_of, indices, loader_of


def test_a_verdict_is_data_and_a_sentence(folder):
    loader = loader_of(folder)
    for _ in range(3):
        list(loader)
    verdict = loader.verdict()
    assert str(verdict) == verdict.text
    assert verdict.text.startswith(verdict.headline)
    assert loader.explain().startswith(verdict.headline.split(",")[0].split(":")[0])
    assert all(ceiling.images_per_second > 0 for ceiling in verdict.ceilings)
    assert isinstance(verdict.remedies, tuple)


def test_a_slow_loop_limits(folder):
    loader = loader_of(folder, batch_size=2)
    for _ in range(3):
        for _batch in loader:
            time.sleep(0.05)
    verdict = loader.verdict()
    assert verdict.limit == "consumer"
    assert verdict.remedies == ()
    assert any("nothing to do here" in note for note in verdict.notes)


def test_without_a_batch_there_is_no_verdict(folder):
    assert loader_of(folder).verdict().limit == "nothing_yet"


def test_a_cached_batch_is_repeated_and_the_loader_stays(folder):
    loader = loader_of(folder)
    cached = loader.cached(6)
    assert len(cached) == 6
    seen = []
    for batch in cached:
        seen.append(batch)
        time.sleep(0.01)
    assert len(seen) == 6
    assert all(batch is seen[0] for batch in seen)
    assert 0 < cached.images_per_second <= loader.batch_size / 0.01
    assert indices(loader) == indices(loader_of(folder))  # Nothing is missing.
    consumer = {c.part: c for c in loader.verdict().ceilings}.get("consumer")
    if consumer is not None:
        assert consumer.is_measured
        assert consumer.images_per_second == pytest.approx(cached.images_per_second)


def test_a_cached_loop_in_the_middle_of_an_epoch_leaves_the_position(folder):
    loader = loader_of(folder)
    first = next(iter(loader))
    state = loader.state_dict()
    assert len(list(loader.cached(2))) == 2
    assert loader.state_dict() == state
    rest = indices(loader)
    assert len(rest) == len(loader) - 1
    del first


def test_a_rate_needs_steps(folder):
    cached = loader_of(folder).cached(2)
    assert "0 steps are done" in error_of(lambda: cached.images_per_second)
    list(cached)
    assert "2 steps are done" in error_of(lambda: cached.images_per_second)
    assert "steps is 0" in error_of(loader_of(folder).cached, 0)


def test_ceilings_come_from_a_file_or_its_content(folder, tmp_path):
    loader = loader_of(folder)
    for _ in range(3):
        list(loader)
    content = {"ceilings": {"loader": {"images_per_second": 12345.0}}}
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps(content))
    for given in (content, file, str(file)):
        parts = {c.part: c for c in loader.verdict(given).ceilings}
        assert parts["loader"] == Ceiling("loader", 12345.0, True, False)


def test_other_ceilings_are_refused(folder, tmp_path):
    loader = loader_of(folder)
    assert "give the file that" in error_of(loader.verdict, tmp_path / "none", code="not_found")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    assert "is no JSON" in error_of(loader.verdict, bad)
    assert "feedrace bench ceilings" in error_of(loader.verdict, {"x": 1})
    assert "can't be JSON" in error_of(loader.verdict, {"ceilings": object()})


def test_a_gpu_that_was_busy_is_what_limits(folder, tmp_path):
    loader = loader_of(folder, batch_size=2)
    for _ in range(3):
        for _batch in loader:
            time.sleep(0.05)
    dmon = tmp_path / "dmon.txt"
    dmon.write_text(
        "# gpu     sm    mem\n# Idx      %      %\n    0     97     30\n    1      5      0\n"
    )
    verdict = loader.verdict(dmon=dmon)
    assert verdict.headline == "the GPU limits"
    assert "the GPU was 97 % busy" in verdict.evidence
    dmon.write_text("")
    assert "nvidia-smi dmon" in error_of(loader.verdict, dmon=dmon)
    assert "nvidia-smi dmon" in error_of(loader.verdict, dmon=tmp_path / "none", code="not_found")


def test_a_framework_is_imported_before_the_first_batch_is_asked_for():
    """The seconds that it takes would be taken for the loop's."""
    order = []

    class Native:
        def next(self):
            order.append("next")

    class Maker:
        def prepare(self):
            order.append("prepare")

    assert make_next(Native(), Maker(), keep_state=False) is None
    assert order == ["prepare", "next"]
