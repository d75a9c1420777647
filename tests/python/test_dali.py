# SPDX-License-Identifier: Apache-2.0
"""Scripts in DALI's spelling run on feedrace: epochs, batches, shards."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import feedrace as fr
import feedrace.dali.fn as fn
import feedrace.dali.types as types
from dali_sets import (
    BATCH,
    COUNT,
    LABELS,
    MEAN_255,
    STD_255,
    make,
    make_training,
    paths,
)
from feedrace import Error
from feedrace.dali import Pipeline, pipeline_def


class Wrapper:
    """As the article hides the iterator's dicts."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        for batch in self.iterator:
            yield batch[0]["data"], batch[0]["label"]


def test_the_articles_script_trains_with_only_its_imports_changed(
    dali_folder, dali_pytorch, caplog
):
    import torch

    pipe = make_training(dali_folder, prefetch_queue_depth=3)
    with caplog.at_level(logging.WARNING, logger="feedrace"):
        pipe.enable_gds()
    assert "enable_gds() has no effect" in caplog.text

    loader = Wrapper(dali_pytorch.DALIGenericIterator(pipe, ["data", "label"], size=COUNT))
    orders = []
    for _ in range(3):
        seen = []
        for images, labels in loader:
            assert images.dtype is torch.float16
            assert tuple(images.shape) == (BATCH, 3, 224, 224)
            assert labels.dtype is torch.int32
            assert tuple(labels.shape) == (BATCH, 1)
            assert torch.isfinite(images).all()
            seen += labels.flatten().tolist()
        assert len(seen) == 16
        assert sorted(seen[:COUNT]) == LABELS
        orders.append(tuple(seen))
    assert len(set(orders)) == 3


def test_it_gives_the_pixels_of_the_recipe(dali_folder):
    pipe = make_training(dali_folder, seed=7)
    recipe = fr.ImageLoader(
        str(dali_folder),
        batch_size=BATCH,
        transform="imagenet-train",
        seed=7,
        last_batch="fill",
        output="numpy",
    )
    steps = 0
    for images, labels in recipe:
        ours, own_labels = pipe.run()
        assert np.array_equal(ours.as_array(), images)
        assert own_labels.as_array().ravel().tolist() == labels.tolist()
        steps += 1
    assert steps == 4


def test_spellings_of_dali_2(dali_shard, dali_pytorch):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, exec_dynamic=True)
    def described(side):
        encoded, label = fn.readers.webdataset(
            paths=[str(dali_shard)],
            ext=["jpg;png", "bin"],
            dtypes=[types.UINT8, types.INT32],
            random_shuffle=True,
            index_paths=["set.idx"],
            missing_component_behavior="error",
            name="Reader",
        )
        images = fn.decoders.image_random_crop(encoded, device="mixed", random_area=[0.1, 1.0])
        images = fn.resize(images, size=[side, side + 2], interp_type=types.INTERP_TRIANGULAR)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            mirror=fn.random.coin_flip(probability=0.5),
            mean=MEAN_255,
            std=STD_255,
        )
        return images.gpu(), label.gpu()

    iterator = dali_pytorch.DALIGenericIterator(
        described(30),
        ["data", "label"],
        reader_name="Reader",
        last_batch_policy=dali_pytorch.LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )
    for _ in range(2):
        batches = [batch[0] for batch in iterator]
        assert [tuple(batch["data"].shape[1:]) for batch in batches] == [(3, 30, 32)] * 4
        assert sorted(int(x) for batch in batches for x in batch["label"]) == LABELS


@pytest.mark.parametrize("by", ["reader_name", "size"])
@pytest.mark.parametrize(
    ("policy", "sizes"), [("FILL", [4, 4, 4, 4]), ("DROP", [4, 4, 4]), ("PARTIAL", [4, 4, 4, 1])]
)
def test_every_epoch_is_as_long_as_the_policy_says(dali_folder, dali_pytorch, policy, sizes, by):
    iterator = dali_pytorch.DALIGenericIterator(
        make_training(dali_folder, crop_size=16),
        ["data", "label"],
        last_batch_policy=dali_pytorch.LastBatchPolicy[policy],
        **({"reader_name": "Reader"} if by == "reader_name" else {"size": COUNT}),
    )
    assert len(iterator) == len(sizes)
    for _ in range(3):
        assert [len(batch[0]["label"]) for batch in iterator] == sizes


@pytest.mark.parametrize(
    ("size", "sizes"), [(10, [4, 4, 2]), (14, [4, 4, 4, 2]), (17, [4] * 4 + [1])]
)
def test_a_size_of_ones_own_is_kept_and_said(dali_folder, dali_pytorch, caplog, size, sizes):
    iterator = dali_pytorch.DALIGenericIterator(
        make_training(dali_folder, crop_size=16),
        ["data", "label"],
        size=size,
        last_batch_policy=dali_pytorch.LastBatchPolicy.PARTIAL,
    )
    assert f"size is {size}, and an epoch of the pipeline has 13 samples" in caplog.text
    assert [len(batch[0]["label"]) for batch in iterator] == sizes
    assert [len(batch[0]["data"]) for batch in iterator] == sizes


def test_an_epoch_ends_until_reset_and_goes_on_after_a_break(dali_folder, dali_pytorch, caplog):
    pipe = make_training(dali_folder, crop_size=16)
    iterator = dali_pytorch.DALIClassificationIterator(pipe, reader_name="Reader")
    next(iterator)
    iterator.reset()
    assert "reset() after 1 of 4 batches" in caplog.text
    assert sum(1 for _ in iterator) == 3
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.reset()
    assert sum(1 for _ in iterator) == 4


def test_without_a_length_it_never_ends_and_says_so(dali_folder, dali_pytorch, caplog):
    iterator = dali_pytorch.DALIGenericIterator(make_training(dali_folder, crop_size=8), ["a", "b"])
    assert "it never ends" in caplog.text
    assert [len(next(iterator)[0]["b"]) for _ in range(9)] == [4] * 9
    with pytest.raises(Error, match="it has no length; give reader_name, or size"):
        len(iterator)


def test_shards_share_one_order_whatever_the_pipelines_seeds(dali_folder, dali_pytorch):
    pipes = [
        pipeline_def(
            lambda rank=rank: fn.readers.file(
                file_root=str(dali_folder),
                random_shuffle=True,
                shard_id=rank,
                num_shards=2,
                name="Reader",
            )[1],
            batch_size=BATCH,
            device_id=None,
            seed=12 + rank,
        )()
        for rank in range(2)
    ]
    partial = dali_pytorch.LastBatchPolicy.PARTIAL
    iterator = dali_pytorch.DALIGenericIterator(
        pipes, ["label"], reader_name="Reader", last_batch_policy=partial
    )
    for _ in range(2):
        batches = list(iterator)
        # 13 samples on 2 shards: one is repeated, so that both have as many.
        assert [[len(shard["label"]) for shard in batch] for batch in batches] == [[4, 4], [3, 3]]
        seen = sorted(int(x) for batch in batches for shard in batch for x in shard["label"])
        for label in set(LABELS):
            assert 0 <= seen.count(label) - LABELS.count(label) <= 1
    assert pipes[1].reader_meta("Reader") == {
        "epoch_size": 13,
        "epoch_size_padded": 13,
        "number_of_shards": 2,
        "shard_id": 1,
        "pad_last_batch": 0,
        "stick_to_shard": 0,
    }


def test_run_gives_lists_of_samples(dali_folder):
    pipe = make(lambda encoded, labels: (fn.decoders.image(encoded), labels), dali_folder, 5)
    images, labels = pipe.run()
    assert len(images) == 5
    assert images.dtype is types.UINT8
    assert images.layout() == "HWC"
    assert images.shape() == [np.asarray(Image.open(p)).shape for p in paths(dali_folder)[:5]]
    assert np.array_equal(images.at(2), np.asarray(Image.open(paths(dali_folder)[2])))
    assert np.array_equal(np.asarray(images[2]), images.at(2))
    with pytest.raises(Error, match="samples have different shapes"):
        images.as_array()
    assert labels.dtype is types.INT32
    assert labels.as_cpu().as_tensor().shape() == [5, 1]
    assert np.asarray(labels.as_tensor()).ravel().tolist() == LABELS[:5]
    assert pipe.epoch_size() == {"Reader": COUNT}
    assert pipe.epoch_size("Reader") == COUNT
    pipe.run()
    rest = pipe.run()[1].as_array().ravel().tolist()
    assert rest == LABELS[10:] + LABELS[:2]  # Full, with repeats of the epoch.
    assert pipe.run()[1].as_array().ravel().tolist() == LABELS[:5]


def test_pictures_of_different_sizes_are_no_tensor(dali_folder, dali_pytorch):
    pipe = make(lambda encoded, labels: (fn.decoders.image(encoded), labels), dali_folder, 5)
    with pytest.raises(Error, match="pictures of one batch differ in size; end the pipeline with"):
        dali_pytorch.DALIGenericIterator(pipe, ["data", "label"], reader_name="Reader")


def test_by_hand_and_by_subclass(dali_folder):
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        encoded, labels = fn.readers.file(file_root=str(dali_folder))
        pipe.set_outputs(fn.resize(fn.decoders.image(encoded), size=8), labels)
    assert [out.as_array().shape for out in pipe.run()] == [(2, 8, 8, 3), (2, 1)]

    class Older(Pipeline):
        def define_graph(self):
            return fn.readers.file(file_root=str(dali_folder))[1]

    older = Older(2, 1, types.CPU_ONLY_DEVICE_ID, 5)
    older.build()
    assert (older.seed, older.batch_size) == (5, 2)
    assert older.run()[0].as_array().tolist() == [[0], [0]]


def test_a_functions_own_arguments_come_before_the_pipelines(dali_folder):
    @pipeline_def(batch_size=2, seed=1)
    def described(seed):
        assert seed == 9
        return fn.readers.file(file_root=str(dali_folder))[1]

    assert described(9, batch_size=3).batch_size == 3
    assert described(seed=9).seed == 1


def test_importing_it_imports_no_framework():
    code = "import sys, feedrace.dali; print(sorted({'torch', 'jax', 'numpy'} & set(sys.modules)))"
    # As this process found it: installed, or in the checkout.
    place = {**os.environ, "PYTHONPATH": str(Path(fr.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=place, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_jax_gets_a_dict_of_arrays(dali_folder):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    from feedrace.dali.plugin.jax import DALIGenericIterator

    pipe = make_training(dali_folder, crop_size=16)
    iterator = DALIGenericIterator(pipe, ["data", "label"], reader_name="Reader")
    batches = list(iterator)
    assert len(batches) == len(iterator) == 4
    assert all(isinstance(batch["data"], jax.Array) for batch in batches)
    assert batches[0]["data"].shape == (BATCH, 3, 16, 16)
    assert str(batches[0]["label"].dtype) == "int32"
    assert batches[0]["label"].shape == (BATCH, 1)
