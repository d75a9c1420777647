# SPDX-License-Identifier: Apache-2.0
"""A loader inside torchdata's StatefulDataLoader and torch's DataLoader."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchdata")
from torch.utils.data import DataLoader  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

import feedrace as fr  # noqa: E402
from feedrace.torch import LoaderDataset  # noqa: E402
from framework_sets import draw_pictures, loader_of, plain, run_python  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
COUNT = 22  # Batches of 4: a short one is dropped at the end of each epoch.
STEPS = 5


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


def stateful(pictures, **arguments):
    dataset = LoaderDataset(loader_of(pictures, **arguments))
    return StatefulDataLoader(dataset, batch_size=None, num_workers=0)


def epochs_of(loader, count):
    return [[plain(batch) for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_epoch_after_epoch_is_what_the_loader_alone_gives(pictures, kind):
    alone = epochs_of(loader_of(pictures), 3)
    wrapped = kind(LoaderDataset(loader_of(pictures)), batch_size=None, num_workers=0)
    assert len(wrapped) == len(alone[0]) == STEPS
    assert epochs_of(wrapped, 3) == alone
    assert alone[0] != alone[1] != alone[2]


class Noting(LoaderDataset):
    """Notes where the pictures lie that the loader gives."""

    def __iter__(self):
        self.addresses = []
        for images, index in super().__iter__():
            self.addresses.append(images.data_ptr())
            yield images, index


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_batches_pass_without_a_copy(pictures, kind):
    dataset = Noting(loader_of(pictures))
    addresses = [
        images.data_ptr() for images, _ in kind(dataset, batch_size=None, pin_memory=False)
    ]
    assert addresses == dataset.addresses
    assert len(addresses) == STEPS
    assert not any(address % 64 for address in addresses)


@pytest.mark.parametrize("taken", [0, 1, 3, 5, 7])
def test_resume_is_exact(pictures, taken):
    unbroken = sum(epochs_of(stateful(pictures), 3), [])

    first = stateful(pictures)
    seen = []
    while len(seen) < taken:
        for batch in first:
            seen.append(plain(batch))
            if len(seen) == taken:
                break
    state = json.loads(json.dumps(first.state_dict()))

    second = stateful(pictures, num_threads=2)
    second.load_state_dict(state)
    epochs = [[plain(batch) for batch in second] for _ in range(3)]
    seen += sum(epochs, [])
    assert seen[: len(unbroken)] == unbroken


def test_a_state_taken_while_the_loop_goes_on_stays_as_it_was(pictures):
    first = stateful(pictures)
    states, seen = [], []
    for batch in first:
        seen.append(plain(batch))
        states.append(first.state_dict())
    for i, state in enumerate(states[:-1]):
        second = stateful(pictures)
        second.load_state_dict(state)
        assert [plain(batch) for batch in second] == seen[i + 1 :]


def test_a_second_iterator_after_a_break_begins_the_next_epoch(pictures):
    alone = epochs_of(loader_of(pictures), 2)
    wrapped = DataLoader(LoaderDataset(loader_of(pictures)), batch_size=None)
    for batch in wrapped:
        assert plain(batch) == alone[0][0]
        break
    assert [plain(batch) for batch in wrapped] == alone[1]


def test_set_epoch_of_the_data_set(pictures):
    alone = epochs_of(loader_of(pictures), 2)
    wrapped = DataLoader(LoaderDataset(loader_of(pictures)), batch_size=None)
    wrapped.dataset.set_epoch(1)
    assert [plain(batch) for batch in wrapped] == alone[1]


# In a process of its own: one that has more threads, such as JAX's, had better not fork.
WORKERS = """
import sys
import feedrace as fr
from feedrace.torch import LoaderDataset
from framework_sets import loader_of
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

loader = loader_of(sys.argv[1])
for kind in (DataLoader, StatefulDataLoader):
    wrapped = kind(LoaderDataset(loader), batch_size=None, num_workers=1, timeout=60)
    try:
        next(iter(wrapped))
    except fr.Error as e:  # torch raises anew what a worker threw, with the worker's traceback.
        assert "it is used in a worker process of a DataLoader" in str(e), e
        assert "num_workers=0" in str(e), e
        print(kind.__name__)
    # The loader of this process is as good as before.
    assert len(list(loader)) == len(loader)
"""


def test_a_worker_process_is_an_error_that_says_what_to_do(pictures):
    assert run_python(WORKERS, pictures).split() == ["DataLoader", "StatefulDataLoader"]


def test_a_worker_process_that_is_spawned_is_an_error_at_once(pictures):
    wrapped = DataLoader(
        LoaderDataset(loader_of(pictures)),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    with pytest.raises(fr.Error, match="num_workers=0"):
        iter(wrapped)


def test_only_a_loader_can_be_wrapped():
    with pytest.raises(fr.Error, match=r"loader is \[\]; give it a feedrace.ImageLoader"):
        LoaderDataset([])
