# SPDX-License-Identifier: Apache-2.0
"""ImageLoader: epochs and states."""

import json
import logging

import pytest

from small_loaders import IN_ORDER, error_of, indices, loader_of


def test_set_epoch_names_the_epoch_of_the_next_loop(folder):
    loader = loader_of(folder, transform="imagenet-train")
    epochs = [indices(loader) for _ in range(3)]
    for epoch in (2, 0, 0, 1):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch
        assert indices(loader) == epochs[epoch]


def test_set_epoch_begins_the_same_epoch_anew_after_a_break(folder):
    loader = loader_of(folder, transform="imagenet-train")
    expected = indices(loader_of(folder, transform="imagenet-train"))
    for _ in loader:
        break
    loader.set_epoch(0)
    assert indices(loader) == expected


def test_set_epoch_in_the_middle_ends_the_loop(folder):
    loader = loader_of(folder, transform="imagenet-train")
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(0)
    assert "its position was set" in error_of(next, iterator)
    assert len(indices(loader)) == 3


def test_set_epoch_before_the_first_batch_of_a_loop_counts(folder):
    loader = loader_of(folder, transform="imagenet-train")
    epochs = [indices(loader) for _ in range(2)]
    iterator = iter(loader)
    loader.set_epoch(1)
    assert indices(iterator) == epochs[1]


@pytest.mark.parametrize("epoch", [-1, 1 << 40, 1.5, "1", None, True])
def test_an_epoch_that_is_none_is_refused(folder, epoch):
    loader = loader_of(folder)
    assert "set_epoch: epoch is" in error_of(loader.set_epoch, epoch)
    assert "set_epoch: epoch is" in error_of(loader.sampler.set_epoch, epoch)


@pytest.mark.parametrize("taken", range(7))
def test_a_state_goes_on_behind_the_last_batch(folder, taken):
    loader = loader_of(folder, transform="imagenet-train")
    unbroken = sum((indices(loader) for _ in range(3)), [])

    loader = loader_of(folder, transform="imagenet-train")
    seen = []
    state = loader.state_dict()
    while len(seen) < taken:
        for (index,) in loader:
            seen.append(index.tolist())
            state = loader.state_dict()
            if len(seen) == taken:
                break
    state = json.loads(json.dumps(state))

    resumed = loader_of(folder, transform="imagenet-train", num_threads=2)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    while resumed.epoch < 3:
        seen += indices(resumed)
    assert seen == unbroken


def test_a_state_holds_in_the_middle_of_a_loop(folder):
    loader = loader_of(folder)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    assert state["position"] == 4
    next(iterator)
    loader.load_state_dict(state)
    assert "its position was set" in error_of(next, iterator)
    assert indices(loader) == IN_ORDER[1:]
    assert indices(loader) == IN_ORDER


def test_set_epoch_of_a_loaded_states_epoch_keeps_the_position(folder):
    loader = loader_of(folder)
    list(loader)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()

    resumed = loader_of(folder)
    resumed.load_state_dict(state)
    resumed.sampler.set_epoch(1)  # As Lightning does before each epoch.
    resumed.sampler.set_epoch(1)
    assert indices(resumed) == IN_ORDER[1:]

    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert indices(resumed) == IN_ORDER


def test_a_state_may_come_between_iter_and_the_first_batch(folder):
    loader = loader_of(folder)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    resumed = loader_of(folder)
    iterator = iter(resumed)
    resumed.load_state_dict(state)
    assert indices(iterator) == IN_ORDER[1:]


def test_a_state_at_the_end_of_an_epoch_is_the_start_of_the_next(folder):
    loader = loader_of(folder)
    for _ in loader:
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 0)
    assert loader.state_dict() == state


def test_a_state_of_other_data_is_refused_and_changes_nothing(folder, odd_folder):
    loader = loader_of(folder)
    iterator = iter(loader)
    next(iterator)
    other = loader_of(odd_folder).state_dict()
    assert "the state does not fit this loader" in error_of(loader.load_state_dict, other)
    newer = {**loader.state_dict(), "version": 99}
    assert "99" in error_of(loader.load_state_dict, newer)
    edited = {**loader.state_dict(), "epoch": 5}
    assert "checksum" in error_of(loader.load_state_dict, edited)
    assert indices(iterator) == IN_ORDER[1:]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (None, "state is None"),
        ("{}", "state is '{}'"),
        ([1], "state is [1]"),
        ({}, "format"),
        ({"format": {1, 2}}, "state can't be JSON"),
        ({"format": "feedrace state", "version": 1}, "seed"),
    ],
)
def test_what_is_no_state_is_refused(folder, state, found):
    assert found in error_of(loader_of(folder).load_state_dict, state)


def test_what_differs_in_a_state_is_logged(folder, caplog):
    state = loader_of(folder, batch_size=2).state_dict()
    with caplog.at_level(logging.WARNING, "feedrace"):
        loader_of(folder).load_state_dict(state)
    assert any("batch" in record.message for record in caplog.records)


def test_another_world_size_goes_on_with_the_same_samples(folder):
    arguments = {"transform": "imagenet-train", "shuffle": True}
    whole = sum(indices(loader_of(folder, **arguments)), [])
    loader = loader_of(folder, **arguments)
    first = next(iter(loader))[0].tolist()
    state = loader.state_dict()
    ranks = []
    for rank in range(2):
        one = loader_of(folder, batch_size=2, rank=rank, world_size=2, **arguments)
        one.load_state_dict(state)
        ranks.append(indices(one))
    rest = [sample for step in zip(*ranks, strict=True) for part in step for sample in part]
    assert first + rest == whole
