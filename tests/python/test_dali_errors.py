# SPDX-License-Identifier: Apache-2.0
"""What feedrace.dali lacks says so by name, when the pipeline is made."""

import logging

import pytest

import feedrace.dali.fn as fn
import feedrace.dali.types as types
from dali_sets import make, make_training
from feedrace import Error
from feedrace.dali import Pipeline

NOT_THERE = [
    (
        lambda e, _: fn.noise.gaussian(e),
        "fn.noise.gaussian: it is not in feedrace.dali; .*supported",
    ),
    (lambda e, _: fn.resise(e), r"fn.resise: it is not in feedrace.dali; did you mean fn.resize\?"),
    (lambda e, _: fn.readers.filez(), r"did you mean fn.readers.file\?"),
    (lambda e, _: fn.color_twist(e), "fn.color_twist: .*feedrace.fn.color_jitter"),
    (lambda e, _: fn.experimental.decoders.image(e), "fn.experimental.decoders.image: it is not"),
    (lambda e, _: fn.resize(e, size=3), "fn.resize: its input is encoded bytes; decode them first"),
    (
        lambda e, _: fn.resize(fn.decoders.image(e), sizex=3),
        "fn.resize: no argument 'sizex'; did you mean 'size'",
    ),
    (
        lambda e, _: fn.resize(fn.decoders.image(e), size=3, interp_type=types.INTERP_CUBIC),
        "fn.resize: interp_type=types.INTERP_CUBIC is not in feedrace.dali; there is types.INT",
    ),
    (
        lambda e, _: fn.resize(fn.decoders.image(e), size=3, antialias=False),
        "fn.resize: antialias=False is not in feedrace.dali",
    ),
    (
        lambda e, _: fn.resize(fn.decoders.image(e), resize_x=3),
        "fn.resize: one side, .*give both sides",
    ),
    (
        lambda e, _: fn.decoders.image(e, output_type=types.BGR),
        "fn.decoders.image: output_type=types.BGR is not in feedrace.dali; there is types.RGB",
    ),
    (
        lambda e, _: fn.decoders.image_random_crop(e),
        "output 0 is a crop of random size; put fn.res",
    ),
    (
        lambda e, _: fn.flip(fn.decoders.image_random_crop(e)),
        "fn.flip: its input comes from fn.decoders.image_random_crop; put fn.resize",
    ),
    (
        lambda e, _: fn.flip(fn.crop_mirror_normalize(fn.decoders.image(e))),
        "fn.flip: its input is a float32 CHW tensor; put it before",
    ),
    (
        lambda e, _: fn.crop_mirror_normalize(fn.decoders.image(e), dtype=types.UINT8, std=2),
        "fn.crop_mirror_normalize: types.UINT8 of normalized values; leave out mean",
    ),
    (
        lambda e, _: fn.flip(fn.decoders.image(e), horizontal=fn.random.uniform(range=(0, 1))),
        "fn.flip: horizontal is a uniform draw; give 0, 1 or fn.random.coin_flip",
    ),
    (
        lambda e, _: fn.crop(fn.decoders.image(e), crop=4, crop_pos_x=fn.random.uniform()),
        r"fn.crop: crop_pos_x is drawn from \[-1, 1\]; it must lie in \[0, 1\]",
    ),
    (lambda e, _: fn.decoders.image(e) / 255, "arithmetic of images: it is not in feedrace.dali"),
    (lambda e, _: fn.decoders.image(e)[0], "indexing of images"),
    (lambda e, labels: 1 if labels else 0, "if of labels"),
    (lambda e, labels: list(labels), "iteration over labels: it is one output"),
    (lambda e, _: e, "output 0 is encoded bytes of files; decode them"),
    (lambda e, _: fn.random.coin_flip(), "output 0 is a random number"),
    (lambda e, _: (), "there are none; return at least one"),
    (lambda e, _: 3, "output 0 is 3; return outputs of operators"),
    (lambda *both: [both], "output 0 is a tuple; return all outputs side by side"),
    (
        lambda e, _: (fn.decoders.image(e), fn.decoders.image(e)),
        "2 different kinds of images; return one",
    ),
    (lambda e, _: fn.readers.file(file_root="x"), "a second reader in one pipeline"),
    (
        lambda e, _: fn.flip(),
        "^fn.flip: images is missing; it takes images, horizontal, vertical, ",
    ),
    (lambda e, _: fn.flip(fn.decoders.image(e), device="tpu"), "device is 'tpu'"),
    (
        lambda e, _: types.FLOTA,
        r"types.FLOTA: it is not in feedrace.dali; did you mean types.FLOAT",
    ),
]


def test_a_gpu_that_is_not_there_is_one_clear_error(dali_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("FEEDRACE_CUDA_PLUGIN", str(tmp_path / "none.so"))
    with pytest.raises(Error, match="the CUDA plug-in was not loaded: .*none.so") as caught:
        make_training(dali_folder, device_id=0).build()
    assert caught.value.code == "unsupported"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("chain", "message"), NOT_THERE)
def test_what_is_not_there_says_so_when_the_pipeline_is_made(dali_folder, chain, message):
    with pytest.raises(Error, match=message) as caught:
        make(chain, dali_folder)
    assert "\n" not in str(caught.value)
    assert caught.value.code in ("unsupported", "invalid_argument")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to read is given; give file_root"),
        ({"file_root": 3}, "file_root is 3; it must be a path"),
        ({"files": ["a"], "labels": [1, 2]}, "2 labels for 1 files"),
        ({"labels": [1]}, "labels without files"),
        ({"files": ["a"], "file_list": "b"}, "file_list beside files"),
        (
            {"file_root": "x", "shard_id": 2, "num_shards": 2},
            "shard_id is 2; it must be from 0 to 1",
        ),
        ({"file_root": "x", "random_shuffle": 1}, "random_shuffle is 1; it must be True or False"),
        ({"file_root": "x", "file_filters": ["*.jpg"]}, "file_filters=.* is not in feedrace.dali"),
        ({"file_list": "/nowhere/list.csv"}, "/nowhere/list.csv: No such file"),
    ],
)
def test_readers_check_their_arguments(given, message):
    with pytest.raises(Error, match=f"fn.readers.file: .*{message}"), Pipeline(batch_size=1):
        fn.readers.file(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Pipeline: no batch_size"),
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number of at least 1"),
        (
            {"batch_size": 2, "num_thread": 1},
            "no argument 'num_thread'; did you mean 'num_threads'",
        ),
        ({"batch_size": 2, "device_id": "cuda"}, "device_id is 'cuda'"),
        ({"batch_size": 2, "enable_checkpointing": True}, "feedrace.ImageLoader resumes exactly"),
        (
            {"batch_size": 2, "prefetch_queue_depth": {"cpu": 1}},
            "no member of prefetch_queue_depth",
        ),
    ],
)
def test_pipelines_check_their_arguments(given, message):
    with pytest.raises(Error, match=message):
        Pipeline(**given)


def test_iterators_check_their_arguments(dali_folder, dali_pytorch):
    pipe = make_training(dali_folder, crop_size=8)
    wrong = [
        (["a"], {}, "1 names in output_map for 2 outputs"),
        (["a", "a"], {}, "it must be a list of different names"),
        (["a", "b"], {"reader_name": "Raeder"}, "no reader 'Raeder'; did you mean 'Reader'"),
        (["a", "b"], {"reader_name": "Reader", "size": 4}, "size beside reader_name"),
        (["a", "b"], {"size": 0}, "size is 0"),
        (["a", "b"], {"last_batch_policy": "FILL"}, "last_batch_policy is 'FILL'; give LastBatch"),
        (["a", "b"], {"auto_reset": "maybe"}, "auto_reset is 'maybe'"),
    ]
    for names, given, message in wrong:
        with pytest.raises(Error, match=message):
            dali_pytorch.DALIGenericIterator(pipe, names, **given)
    with pytest.raises(Error, match=r"plugin.pytorch.DALIRaggedIterator: it is not in feedrace"):
        dali_pytorch.DALIRaggedIterator  # noqa: B018
    with pytest.raises(Error, match=r"Pipeline.serialize: it is not in feedrace.dali; there are"):
        pipe.serialize()


def test_operators_want_a_pipeline():
    with pytest.raises(Error, match="fn.random.coin_flip: called outside of a pipeline"):
        fn.coin_flip()


def test_what_has_no_effect_is_logged_once(dali_folder, caplog):
    with caplog.at_level(logging.INFO, logger="feedrace"):
        make_training(dali_folder, exec_dynamic=True)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said))
    assert any("initial_fill is not needed" in text for text in said)
    assert any("exec_dynamic has no effect" in text for text in said)
