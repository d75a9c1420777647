# SPDX-License-Identifier: Apache-2.0
"""ImageLoader: batches, loops, and what there is to know of it."""

import copy
import gc
import logging
import weakref

import numpy as np
import pytest

import feedrace as fr
from small_loaders import IN_ORDER, error_of, indices, loader_of, thread_count, threads_fall_to


def test_a_loop_is_an_epoch(folder):
    loader = loader_of(folder)
    assert len(loader) == 3
    assert indices(loader) == IN_ORDER
    assert indices(list(loader)) == IN_ORDER
    assert loader.epoch == 2


def test_the_default_batch_is_images_and_labels(folder):
    loader = fr.ImageLoader(folder, batch_size=5, transform="imagenet-val", output="numpy")
    images, labels = next(iter(loader))
    assert images.shape == (5, 3, 224, 224)
    assert images.dtype == np.float16
    assert labels.tolist() == [0, 0, 0, 0, 1]
    assert labels.dtype == np.int64


def test_training_shuffles_anew_each_epoch_and_repeats_by_seed(folder):
    train = loader_of(folder, transform="imagenet-train")
    epochs = [indices(train) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    for epoch in epochs:
        assert sorted(sum(epoch, [])) == list(range(12))
    assert indices(loader_of(folder, transform="imagenet-train", num_threads=2)) == epochs[0]
    assert indices(loader_of(folder, transform="imagenet-train", seed=1)) != epochs[0]


def test_fields_come_in_the_order_that_they_were_named(folder):
    loader = loader_of(folder, fields=("flag", "key", "label", "image", "index"))
    flag, key, label, image, index = next(iter(loader))
    assert flag.tolist() == [0, 0, 0, 0]
    assert flag.dtype == np.uint8
    assert key == [f"ant/{i}.jpg" for i in range(4)]
    assert label.tolist() == [0, 0, 0, 0]
    assert image.shape == (4, 3, 224, 224)
    assert index.tolist() == [0, 1, 2, 3]
    assert loader.fields == ("flag", "key", "label", "image", "index")


def test_one_field_may_be_named_alone(folder):
    assert indices(loader_of(folder, fields="index")) == IN_ORDER


# Loops that are left.


def test_after_a_break_the_next_loop_begins_the_next_epoch(folder):
    loader = loader_of(folder, transform="imagenet-train")
    whole = loader_of(folder, transform="imagenet-train")
    epochs = [indices(whole) for _ in range(3)]
    for _ in loader:
        break
    assert indices(loader) == epochs[1]
    for count, _ in enumerate(loader):
        if count == 1:
            break
    assert loader.epoch == 2
    assert indices(loader) != epochs[2]
    assert loader.epoch == 4


def test_a_loop_that_counts_batches_does_not_repeat_or_skip_an_epoch(folder):
    loader = loader_of(folder, transform="imagenet-train")
    whole = loader_of(folder, transform="imagenet-train")
    for epoch in range(3):
        assert loader.epoch == epoch
        # Ends with the range, without asking for what comes behind the last batch.
        seen = [batch[0].tolist() for _, batch in zip(range(len(loader)), loader, strict=False)]
        assert seen == indices(whole)
        assert loader.epoch == epoch + 1


@pytest.mark.parametrize("last_batch", ["drop", "partial", "pad", "fill"])
def test_counting_batches_with_each_rule_for_the_last_one(folder, last_batch):
    arguments = {"batch_size": 5, "last_batch": last_batch, "shuffle": True}
    loader, whole = loader_of(folder, **arguments), loader_of(folder, **arguments)
    for _ in range(2):
        iterator = iter(loader)
        assert [next(iterator)[0].tolist() for _ in range(len(loader))] == indices(whole)
        loader.set_epoch(loader.epoch)  # The following one, already.
        assert next(iterator, None) is None


def test_an_iterator_that_took_nothing_uses_up_nothing(folder):
    loader = loader_of(folder, transform="imagenet-train")
    expected = indices(loader_of(folder, transform="imagenet-train"))
    for _ in range(3):
        iter(loader)
    assert indices(loader) == expected


def test_a_newer_loop_ends_the_older_one(folder):
    loader = loader_of(folder)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    assert "a newer loop over the same loader has begun" in error_of(next, older)
    assert indices(newer) == IN_ORDER
    # Dropping the older one leaves the newer one alone.
    newer = iter(loader)
    first = next(newer)
    del older
    gc.collect()
    assert [first[0].tolist(), *indices(newer)] == IN_ORDER


def test_nested_loops_say_what_is_wrong(folder):
    loader = loader_of(folder)

    def nested():
        for _ in loader:
            for _ in loader:
                pass

    assert "run one loop at a time" in error_of(nested)


def test_an_iterator_stays_at_its_end(folder):
    iterator = iter(loader_of(folder))
    assert len(list(iterator)) == 3
    assert next(iterator, "end") == "end"
    assert next(iterator, "end") == "end"


def test_leaving_a_loop_ends_its_threads(folder):
    loader = loader_of(folder, num_threads=3)
    before = thread_count()
    for _ in loader:
        assert thread_count() > before
        break
    assert threads_fall_to(before)


def test_dropping_an_iterator_ends_its_threads(folder):
    loader = loader_of(folder, num_threads=3)
    before = thread_count()
    iterator = iter(loader)
    next(iterator)
    assert thread_count() > before
    del iterator
    assert threads_fall_to(before)
    closed = iter(loader)
    next(closed)
    closed.close()
    assert threads_fall_to(before)
    assert next(closed, "end") == "end"


def test_dropping_a_loader_frees_it(folder):
    before = thread_count()
    loader = loader_of(folder)
    iterator = iter(loader)
    next(iterator)
    watched = weakref.ref(loader)
    del loader, iterator
    assert watched() is None
    assert threads_fall_to(before)


def test_an_array_outlives_its_loader(folder):
    loader = loader_of(folder, fields=("image",))
    batches = [image for (image,) in loader]
    copies = [image.copy() for image in batches]
    loader.close()
    del loader
    gc.collect()
    again = [image for (image,) in loader_of(folder, fields=("image",))]
    for kept, copied, fresh in zip(batches, copies, again, strict=True):
        assert np.array_equal(kept, copied)
        assert np.array_equal(kept, fresh)


# What there is to know.


def test_classes_are_numbered_as_torchvision_does(folder):
    loader = loader_of(folder)
    assert loader.classes == ["ant", "bee", "cat"]
    assert loader.class_to_idx == {"ant": 0, "bee": 1, "cat": 2}


def test_the_data_set_is_known_by_number(folder):
    dataset = loader_of(folder).dataset
    assert len(dataset) == 12
    assert dataset.key(4) == "bee/0.jpg"
    assert dataset.label(4) == 1
    assert dataset.where(4).endswith("bee/0.jpg")
    for index in (-1, 12, "4"):
        assert "index is" in error_of(dataset.key, index)


def test_the_data_set_is_as_long_as_its_subset(folder):
    dataset = loader_of(folder, subset=[9, 2, 9], batch_size=1).dataset
    assert (len(dataset), dataset.sample_count) == (3, 12)
    assert repr(dataset) == "<feedrace data set of 3 of 12 samples>"
    assert dataset.key(11) == "cat/2.jpg"  # Numbers are those of the whole.
    halves = [loader_of(folder, subset={"share": half}).dataset for half in ((0, 0.5), (0.5, 1))]
    assert sum(len(half) for half in halves) == 12
    assert repr(loader_of(folder, repeat=2).dataset) == "<feedrace data set of 12 samples>"
    sets = [
        {"name": "a", "sources": folder, "subset": [0, 1]},
        {"name": "b", "sources": folder, "repeat": 3},
    ]
    mixed = loader_of(None, sets=sets).dataset
    assert (len(mixed), mixed.sample_count) == (14, 24)


def test_a_sample_out_of_the_subset_is_traced_by_its_number(folder):
    loader = loader_of(folder, subset=[0, 1], transform="imagenet-train", batch_size=1)
    assert loader.trace_sample(11)
    assert "index is 12" in error_of(loader.trace_sample, 12)


def test_the_plan_is_an_object_and_a_text(folder):
    plan = loader_of(folder, batch_size=5).plan
    assert (plan.steps, plan.samples, plan.last_batch_size) == (3, 12, 2)
    assert plan.memory["total_bytes"] > 0
    assert "12" in str(plan)
    assert len(str(plan).splitlines()) > 3
    assert plan.to_dict()["steps"] == 3
    assert "steps" in dir(plan)
    with pytest.raises(AttributeError, match="did you mean 'steps'"):
        _ = plan.step
    assert copy.copy(plan).steps == 3


def test_the_plan_is_logged_once_by_rank_0(folder, caplog):
    with caplog.at_level(logging.INFO, "feedrace"):
        loader = loader_of(folder)
        list(loader)
    infos = [r for r in caplog.records if r.levelno == logging.INFO]
    assert [record.getMessage() for record in infos] == [str(loader.plan)]
    caplog.clear()
    with caplog.at_level(logging.INFO, "feedrace"):
        loader_of(folder, batch_size=2, rank=1, world_size=2)
    assert not caplog.records


def test_what_the_plan_warns_of_is_logged_as_a_warning(tmp_path, folder, caplog):
    root = tmp_path / "with-note"
    root.mkdir()
    for name in ("ant", "bee"):
        (root / name).symlink_to(folder / name)
    (root / "empty").mkdir()
    with caplog.at_level(logging.WARNING, "feedrace"):
        loader = loader_of(root)
    assert loader.plan.warnings
    assert [r.getMessage() for r in caplog.records] == loader.plan.warnings


def test_statistics_and_the_verdict(folder):
    loader = loader_of(folder)
    list(loader)
    stats = loader.stats()
    assert (stats["samples"], stats["batches"]) == (12, 3)
    assert stats["bytes_by_path"]
    assert loader.explain()


def test_a_trace_tells_what_was_drawn(folder):
    loader = loader_of(folder, transform="imagenet-train")
    steps = loader.trace_sample(3, epoch=1)
    assert [step["op"] for step in steps][:3] == ["decode", "random_resized_crop", "flip"]
    assert steps == loader.trace_sample(3, epoch=1) != loader.trace_sample(3, epoch=0)
    assert "index is 12" in error_of(loader.trace_sample, 12)


def test_the_sampler_is_the_loaders(folder):
    loader = loader_of(folder)
    assert loader.sampler.epoch == 0
    assert len(loader.sampler) == 12
    state = loader.sampler.state_dict()
    assert state == loader.state_dict()
    loader.sampler.load_state_dict(state)
    assert loader.batch_size == 4


def test_a_loader_describes_itself(folder):
    loader = loader_of(folder)
    assert "12 samples an epoch, 3 batches of 4 on rank 0 of 1" in repr(loader)
    loader.close()
    assert "closed" in repr(loader)


# Bad samples.


@pytest.fixture
def damaged(folder, tmp_path):
    for name in ("ant", "bee", "cat"):
        (tmp_path / name).mkdir()
        for path in (folder / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    (tmp_path / "bee" / "1.jpg").write_bytes(b"no picture")
    return tmp_path


def test_a_bad_sample_raises_by_name(damaged):
    loader = loader_of(damaged)
    iterator = iter(loader)
    assert next(iterator)[0].tolist() == IN_ORDER[0]
    assert "bee/1.jpg" in error_of(next, iterator, code="corrupt_data")


def test_a_bad_sample_may_be_replaced_or_blank(damaged):
    for policy, flag in (("replace", 2), ("zero", 3)):
        loader = loader_of(damaged, on_error=policy, fields=("index", "flag"))
        flags = np.concatenate([batch[1] for batch in loader])
        assert flags.tolist() == [0] * 5 + [flag] + [0] * 6
        assert loader.stats()["bad_samples"] == 1
