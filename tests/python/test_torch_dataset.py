# SPDX-License-Identifier: Apache-2.0
"""A loader inside torch's DataLoader and torchdata's StatefulDataLoader."""

import json

import pytest

import feedrace as fr

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from feedrace.torch import LoaderDataset  # noqa: E402


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
