# SPDX-License-Identifier: Apache-2.0
"""A loader under Accelerate: it stays what it is, and is saved and loaded with everything else."""

import importlib.util

import pytest

from torchvision_import import import_torchvision

torch = pytest.importorskip("torch")
# Accelerate imports it where it is installed, also beside a build of torch that does not fit.
if importlib.util.find_spec("torchvision"):
    import_torchvision()
accelerate = pytest.importorskip("accelerate")

from feedrace.torch import LoaderDataset  # noqa: E402
from framework_sets import draw_pictures, loader_of, plain  # noqa: E402

COUNT = 22
STEPS = 5
EPOCHS = 3


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


@pytest.fixture(scope="module")
def unbroken(pictures):
    loader = loader_of(pictures)
    return [plain(batch) for _ in range(EPOCHS) for batch in loader]


@pytest.fixture
def new_accelerator():
    """Makes one as a new process would: what Accelerate keeps for the process is forgotten."""

    def make(**options):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        return accelerate.Accelerator(cpu=True, **options)

    yield make
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def net_of(accelerator):
    net = torch.nn.Linear(3, 1)
    return accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=1e-6))


def train(accelerator, net, optimizer, loader, seen, count):
    """Trains on the rest of this epoch and whole ones until `count` batches were seen."""
    while len(seen) < count:
        for images, index in loader:
            seen.append(plain((images, index)))
            loss = net(images.float().mean((2, 3))).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if len(seen) == count:
                return


def test_prepare_gives_the_loader_back_as_it_is(new_accelerator, pictures):
    accelerator = new_accelerator()
    loader = loader_of(pictures)
    assert accelerator.prepare(loader) is loader
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    assert accelerator.prepare(net, optimizer, loader)[2] is loader


@pytest.mark.parametrize("taken", [2, STEPS, STEPS + 3])
def test_a_saved_run_goes_on_exactly(new_accelerator, pictures, unbroken, tmp_path, taken):
    seen = []
    for num_threads in (1, 2):
        accelerator = new_accelerator()
        loader = accelerator.prepare(loader_of(pictures, num_threads=num_threads))
        net, optimizer = net_of(accelerator)
        accelerator.register_for_checkpointing(loader)
        if not seen:
            train(accelerator, net, optimizer, loader, seen, taken)
            accelerator.save_state(tmp_path / "saved")
            assert seen == unbroken[:taken]
        else:
            accelerator.load_state(tmp_path / "saved")
            train(accelerator, net, optimizer, loader, seen, len(unbroken))
    assert seen == unbroken


def test_a_state_is_loaded_into_the_loader_that_runs(new_accelerator, pictures, unbroken, tmp_path):
    accelerator = new_accelerator()
    loader = loader_of(pictures)
    net, optimizer = net_of(accelerator)
    accelerator.register_for_checkpointing(loader)
    seen = []
    train(accelerator, net, optimizer, loader, seen, 3)
    accelerator.save_state(tmp_path / "saved")
    train(accelerator, net, optimizer, loader, seen, STEPS + 1)
    accelerator.load_state(tmp_path / "saved")
    del seen[3:]
    train(accelerator, net, optimizer, loader, seen, len(unbroken))
    assert seen == unbroken


def test_wrapped_in_a_data_loader_it_is_prepared_like_any(new_accelerator, pictures, unbroken):
    config = accelerate.DataLoaderConfiguration(dispatch_batches=False)
    accelerator = new_accelerator(dataloader_config=config)
    dataset = LoaderDataset(loader_of(pictures))
    wrapped = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
    prepared = accelerator.prepare(wrapped)
    assert isinstance(prepared, torch.utils.data.DataLoader)
    assert len(prepared) == STEPS
    assert [plain(batch) for _ in range(2) for batch in prepared] == unbroken[: 2 * STEPS]
