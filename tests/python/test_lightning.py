# SPDX-License-Identifier: Apache-2.0
"""A loader handed to Lightning's Trainer as it is: epochs, checkpoints inside an epoch, resume."""

import importlib.util
import logging

import pytest

from torchvision_import import import_torchvision

torch = pytest.importorskip("torch")
# Lightning imports it where it is installed, also beside a build of torch that does not fit.
if importlib.util.find_spec("torchvision"):
    import_torchvision()
lightning = pytest.importorskip("lightning.pytorch")

from framework_sets import draw_pictures, loader_of, plain  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
]
COUNT = 22
STEPS = 5
EPOCHS = 3


@pytest.fixture(scope="module", autouse=True)
def quiet():
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


@pytest.fixture(scope="module")
def unbroken(pictures):
    """Every batch of the first epochs of the loader alone."""
    loader = loader_of(pictures)
    return [[plain(batch) for batch in loader] for _ in range(EPOCHS)]


class Net(lightning.LightningModule):
    """Learns next to nothing, and notes what it is fed."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.trained, self.validated = [], []

    def training_step(self, batch, _):
        self.trained.append(plain(batch))
        return self.layer(batch[0].float().mean((2, 3))).mean()

    def validation_step(self, batch, _):
        self.validated.append(plain(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


class SaveInside(lightning.Callback):
    """Saves after `step` batches, counted from the first epoch, and stops there if told to."""

    def __init__(self, path, step, stop=True):
        self.path, self.step, self.stop = path, step, stop

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)
            if self.stop:
                raise KeyboardInterrupt  # As a user who leaves; Lightning ends the run.


def trainer_of(tmp_path, *callbacks, **options):
    quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    defaults = {"accelerator": "cpu", "devices": 1, "max_epochs": EPOCHS}
    options = {**dict.fromkeys(quiet, False), **defaults, **options}
    return lightning.Trainer(callbacks=list(callbacks), default_root_dir=tmp_path, **options)


def test_epochs_are_those_of_the_loader(pictures, unbroken, tmp_path):
    net = Net()
    trainer_of(tmp_path).fit(net, loader_of(pictures))
    assert net.trained == sum(unbroken, [])


def test_the_trainer_names_the_epochs_by_the_sampler(pictures, tmp_path, monkeypatch):
    loader = loader_of(pictures)
    named = []
    set_epoch = loader.set_epoch
    monkeypatch.setattr(loader, "set_epoch", lambda epoch: named.append(epoch) or set_epoch(epoch))
    trainer_of(tmp_path).fit(Net(), loader)
    assert named == list(range(EPOCHS))


def run_to(step, pictures, tmp_path, **options):
    """What a run sees that is stopped after `step` batches, and its checkpoint."""
    net, path = Net(), tmp_path / "inside.ckpt"
    with pytest.raises(SystemExit):
        trainer_of(tmp_path, SaveInside(path, step), **options).fit(net, loader_of(pictures))
    return net.trained, path


@pytest.mark.parametrize("step", [1, 3, 4, STEPS + 2, 2 * STEPS + 4])
def test_a_resumed_run_sees_what_an_unbroken_one_sees(pictures, unbroken, tmp_path, step):
    seen, path = run_to(step, pictures, tmp_path)
    assert len(seen) == step
    net = Net()
    trainer_of(tmp_path).fit(net, loader_of(pictures, num_threads=2), ckpt_path=path)
    assert seen + net.trained == sum(unbroken, [])


def test_a_run_that_saves_goes_on_as_if_it_had_not(pictures, unbroken, tmp_path):
    net, path = Net(), tmp_path / "inside.ckpt"
    trainer_of(tmp_path, SaveInside(path, STEPS + 2, stop=False)).fit(net, loader_of(pictures))
    assert net.trained == sum(unbroken, [])
    saved = torch.load(path, weights_only=True)
    assert saved["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]["epoch"] == 1


def test_the_trainers_own_checkpoints_inside_an_epoch(pictures, unbroken, tmp_path):
    keep = lightning.callbacks.ModelCheckpoint(tmp_path / "kept", every_n_train_steps=3)
    net = Net()
    trainer = trainer_of(tmp_path, keep, max_steps=8, enable_checkpointing=True)
    trainer.fit(net, loader_of(pictures))
    again = Net()
    trainer_of(tmp_path).fit(again, loader_of(pictures), ckpt_path=keep.best_model_path)
    assert net.trained[:6] + again.trained == sum(unbroken, [])


def test_a_checkpoint_behind_the_last_batch_of_an_epoch(pictures, unbroken, tmp_path):
    seen, path = run_to(STEPS, pictures, tmp_path)
    net = Net()
    trainer_of(tmp_path).fit(net, loader_of(pictures), ckpt_path=path)
    assert seen + net.trained == sum(unbroken, [])


def val_loader_of(pictures):
    return loader_of(pictures, shuffle=False, last_batch="partial")


def test_a_validation_loader_gives_all_samples_each_time(pictures, unbroken, tmp_path):
    net, path = Net(), tmp_path / "inside.ckpt"
    fed = {"train_dataloaders": loader_of(pictures), "val_dataloaders": val_loader_of(pictures)}
    trainer = trainer_of(tmp_path, SaveInside(path, 7, stop=False), num_sanity_val_steps=2)
    trainer.fit(net, **fed)
    assert net.trained == sum(unbroken, [])
    numbers = [index for index, _ in net.validated]
    whole = [list(range(i, min(i + 4, COUNT))) for i in range(0, COUNT, 4)]
    assert numbers == whole[:2] + whole * EPOCHS


def test_validation_within_an_epoch_does_not_disturb_training(pictures, unbroken, tmp_path):
    net = Net()
    trainer = trainer_of(tmp_path, val_check_interval=2, num_sanity_val_steps=0)
    trainer.fit(net, loader_of(pictures), val_loader_of(pictures))
    assert net.trained == sum(unbroken, [])
    assert len(net.validated) == 6 * 2 * EPOCHS


def test_epochs_that_are_cut_short_begin_anew(pictures, unbroken, tmp_path):
    net = Net()
    trainer_of(tmp_path, limit_train_batches=2).fit(net, loader_of(pictures))
    assert net.trained == sum((epoch[:2] for epoch in unbroken), [])


@pytest.mark.parametrize("use", ["validate", "test", "predict"])
def test_a_trained_net_is_put_to_use(pictures, tmp_path, use):
    net = Net()
    net.test_step = net.predict_step = net.validation_step
    getattr(trainer_of(tmp_path), use)(net, val_loader_of(pictures))
    assert sum((index for index, _ in net.validated), []) == list(range(COUNT))
