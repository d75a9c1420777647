# SPDX-License-Identifier: Apache-2.0
"""A loader inside torch's DataLoader and torchdata's StatefulDataLoader."""

import json

import pytest

import feedrace as fr

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from feedrace.torch import LoaderDataset  # noqa: E402
from small_loaders import error_of  # noqa: E402

STATEFUL = "torchdata.stateful_dataloader.StatefulDataLoader"


def dataset_of(folder, **arguments):
    loader = fr.ImageLoader(
        folder, batch_size=2, fields=("image", "index"), num_threads=1, **arguments
    )
    return LoaderDataset(loader)


def indices(batches):
    return [index.tolist() for _, index in batches]


def test_a_data_loader_hands_batches_on(folder):
    dataset = dataset_of(folder)
    expected = indices(dataset_of(folder).loader)
    wrapped = DataLoader(dataset, batch_size=None, num_workers=0)
    assert len(wrapped) == len(dataset) == 6
    for image, _ in wrapped:
        assert isinstance(image, torch.Tensor)
        assert image.shape == (2, 3, 224, 224)
    dataset.set_epoch(0)
    assert indices(wrapped) == expected


def test_worker_processes_are_refused(folder):
    wrapped = DataLoader(dataset_of(folder), batch_size=None, num_workers=1)
    with pytest.raises(Exception, match="worker process of a DataLoader.*num_workers=0"):
        list(wrapped)


@pytest.mark.parametrize("kind", ["torch.utils.data.DataLoader", STATEFUL])
@pytest.mark.parametrize("batching", [{}, {"batch_size": 1}, {"batch_size": 8}])
def test_batches_are_not_batched_once_more(folder, kind, batching):
    module, _, name = kind.rpartition(".")
    data_loader = getattr(pytest.importorskip(module), name)
    wrapped = data_loader(dataset_of(folder), num_workers=0, **batching)
    message = error_of(lambda: next(iter(wrapped)))
    assert "batches of its own; take DataLoader(..., batch_size=None, num_workers=0)" in message


def test_collating_of_ones_own_is_ones_own_business(folder):
    wrapped = DataLoader(dataset_of(folder), batch_size=3, collate_fn=list)
    expected = indices(dataset_of(folder).loader)
    assert [indices(group) for group in wrapped] == [expected[:3], expected[3:]]


def test_other_tuples_are_collated_as_ever():
    pairs = [(1, 2.0), (3, 4.0)]
    first, second = next(iter(DataLoader(pairs, batch_size=2)))
    assert (first.tolist(), second.tolist()) == ([1, 3], [2.0, 4.0])


@pytest.mark.parametrize("batching", [{}, {"batch_size": 8, "shuffle": True}, {"batch_size": None}])
@pytest.mark.parametrize("given", [lambda loader: loader, lambda loader: loader.dataset])
def test_a_loader_is_no_data_set_of_single_samples(folder, given, batching):
    loader = dataset_of(folder).loader
    message = error_of(lambda: next(iter(DataLoader(given(loader), **batching))))
    assert "loop over the loader itself: for images, labels in loader" in message
    assert "DataLoader(feedrace.torch.LoaderDataset(loader), batch_size=None)" in message


def test_progress_takes_the_loader_itself(folder):
    dataset = dataset_of(folder)
    for wrapped in (DataLoader(dataset, batch_size=None), dataset):
        assert "without a DataLoader around it" in error_of(fr.progress, wrapped)


def test_it_is_made_of_a_loader():
    with pytest.raises(fr.Error, match="loader is 3; give it a feedrace.ImageLoader"):
        LoaderDataset(3)


@pytest.mark.parametrize("taken", [0, 1, 4, 6, 7, 12, 13])
def test_a_stateful_data_loader_resumes_exactly(folder, taken):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def wrapped_of():
        return stateful(dataset_of(folder), batch_size=None, num_workers=0)

    whole = wrapped_of()
    expected = [batch for _ in range(3) for batch in indices(whole)]

    wrapped = wrapped_of()
    seen = []
    state = wrapped.state_dict()
    while len(seen) < taken:
        for _, index in wrapped:
            seen.append(index.tolist())
            state = wrapped.state_dict()
            if len(seen) == taken:
                break
    resumed = wrapped_of()
    resumed.load_state_dict(json.loads(json.dumps(state)))
    while len(seen) < len(expected):
        seen += indices(resumed)
    assert seen == expected
