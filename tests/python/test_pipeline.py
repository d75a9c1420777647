# SPDX-License-Identifier: Apache-2.0
"""Pipeline as plain data, and the decorator that makes loaders."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

import feedrace as fr
from feedrace.pipeline import Pipeline

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace"))

fn = fr.fn


@fr.pipeline(batch_size=4, num_threads=1, gds="auto", output="numpy")
def small(root, size=16):
    """Small pictures."""
    jpeg, label = fn.read(root, shuffle=True, seed=7)
    return fn.to_tensor(fn.resize(fn.decode(jpeg), size)), label


def message_of(function, *args, code="invalid_argument", **kwargs):
    with pytest.raises(fr.Error) as caught:
        function(*args, **kwargs)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_pipelines_are_equal_by_their_steps():
    train = Pipeline.recipe("imagenet-train")
    assert train == Pipeline(train.steps)
    assert train != Pipeline.recipe("imagenet-val")
    assert train != Pipeline(train.steps, batch_function=print)
    assert train != "imagenet-train"


def test_a_pipeline_does_not_change():
    steps = [{"op": "decode", "orientation": "keep"}, {"op": "resize", "size": [8, 8]}]
    made = Pipeline(steps)
    steps[1]["size"][0] = 9
    made.steps[0]["orientation"] = "upright"
    assert made.steps[0]["orientation"] == "keep"
    assert made.steps[1]["size"] == (8, 8)
    with pytest.raises(AttributeError):
        made.steps = ()


def test_a_pipeline_describes_itself():
    made = Pipeline.recipe("imagenet-val")
    described = made.describe()
    assert described["size"] == (224, 224)
    assert (described["dtype"], described["layout"]) == ("float16", "CHW")
    assert str(made) == described["text"]
    assert str(made) in repr(made)
    assert made.step("resize")["shorter"] == 256
    assert made.step("crop") is None


def test_orientation_is_a_setting_of_decode():
    turned = Pipeline.recipe("imagenet-val").with_orientation("upright")
    assert turned.step("decode")["orientation"] == "upright"
    assert turned.steps[1:] == Pipeline.recipe("imagenet-val").steps[1:]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("decode", "steps is 'decode'"),
        ({"op": "decode"}, "steps is {'op': 'decode'}"),
        (3, "steps is 3"),
        (["decode"], "step 0 is 'decode'"),
        ([{"op": "decode"}, {"size": 3}], "step 1 is {'size': 3}"),
        ([{"op": "decode", "orientation": "keep"}, {"op": "swirl"}], "swirl"),
    ],
)
def test_steps_that_are_none_are_refused(steps, found):
    assert found in message_of(Pipeline, steps)


def test_an_unknown_recipe_names_the_known_ones():
    assert "imagenet-train" in message_of(Pipeline.recipe, "imagenet-tran")
    assert "name is 3" in message_of(Pipeline.recipe, 3)


def test_a_recipe_has_a_size_of_its_own_or_anothers():
    assert Pipeline.recipe("imagenet-train", size=224) == Pipeline.recipe("imagenet-train")
    small = Pipeline.recipe("imagenet-train", size=160)
    assert small.step("random_resized_crop")["size"] == (160, 160)
    assert small.describe()["size"] == (160, 160)
    assert small.steps[2:] == Pipeline.recipe("imagenet-train").steps[2:]
    exact = Pipeline.recipe("imagenet-val", size=160)
    assert exact.step("resize")["shorter"] == 256 * 160 // 224
    assert exact.step("center_crop")["size"] == (160, 160)


def test_a_loader_takes_a_recipe_of_another_size(folder):
    made = Pipeline.recipe("imagenet-val", size=20)
    with fr.ImageLoader(folder, transform=made, batch_size=12, output="numpy") as loader:
        assert next(iter(loader))[0].shape == (12, 3, 20, 20)
        assert "resize 22 > center_crop 20" in str(loader.plan)


@pytest.mark.parametrize("name", ["imagenet-train", "imagenet-val"])
@pytest.mark.parametrize("size", [1, 160, 225, 384])
def test_the_program_means_the_same_by_a_size(folder, name, size):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    command = [PROGRAM, "plan", folder, "--recipe", name, "--size", str(size), "--json"]
    run = subprocess.run([*command, "--batch-size", "1"], capture_output=True, check=True)
    assert json.loads(run.stdout)["pipeline"] == str(Pipeline.recipe(name, size=size))


@pytest.mark.parametrize("size", [0, 65536, "160", (160, 160), 160.0, True])
def test_a_recipes_size_is_one_number_of_pixels(size):
    message = message_of(Pipeline.recipe, "imagenet-train", size=size)
    assert message == (
        f"Pipeline.recipe: size is {size!r}; it must be a whole number from 1 to 65535 pixels"
    )


def test_a_recipe_without_pictures_has_no_size():
    message = message_of(Pipeline.recipe, "read", size=160)
    assert "size is given, but it reads without pictures; leave size out" in message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pipeline(), "Pipeline: steps is missing; it takes steps, batch_function"),
        (lambda: Pipeline([], None, (), 3), "Pipeline: 4 arguments without a name, of 3 at most"),
        (lambda: Pipeline(step=[]), "Pipeline: no argument 'step'; did you mean 'steps'?"),
        (lambda: Pipeline.recipe(), "Pipeline.recipe: name is missing; it takes name, size"),
        (lambda: Pipeline.recipe("read", 160), "Pipeline.recipe: 2 arguments without a name"),
        (lambda: Pipeline.recipe("read", sizes=8), "did you mean 'size'?"),
        (lambda: Pipeline.recipe("read").step(), "Pipeline.step: op is missing; it takes op"),
        (lambda: Pipeline.recipe("read").describe(1), "it takes no arguments"),
        (lambda: described(), "pipeline described: root is missing; it takes root, side"),
        (lambda: described.describe("a", 1, 2), "pipeline described: 3 arguments without a name"),
        (lambda: described("a", sied=1), "pipeline described: no argument 'sied'; did you mean"),
    ],
)
def test_calls_are_checked(call, message):
    assert message in message_of(call)


@fr.pipeline
def described(root, side=16):
    image, label = fr.fn.read(root)
    return fr.fn.resize(fr.fn.decode(image), side), label


def test_a_batch_function_must_be_one():
    assert "batch_function is 3" in message_of(Pipeline, (), 3)


def test_calling_a_pipeline_gives_a_loader(folder):
    with small(folder) as loader:
        assert loader.batch_size == 4
        assert loader.fields == ("image", "label")
        assert loader.transform == small.describe(folder)
        images, labels = next(iter(loader))
        assert images.shape == (4, 3, 16, 16)
        assert labels.shape == (4,)


def test_arguments_of_the_function_shape_the_pipeline(folder):
    with small(folder, size=8) as loader:
        assert next(iter(loader))[0].shape == (4, 3, 8, 8)


def test_the_decorated_function_keeps_its_name_and_text():
    assert small.__name__ == "small"
    assert small.__doc__ == "Small pictures."


def test_options_stand_above_the_decorator_and_read(folder):
    fewer = small.options(batch_size=3, seed=8)
    with fewer(folder) as loader, small(folder) as before:
        assert loader.batch_size == 3
        assert loader.state_dict()["seed"] == 8
        assert before.batch_size == 4
        assert before.state_dict()["seed"] == 7
    with fewer.options(batch_size=2)(folder) as loader:
        assert (loader.batch_size, loader.state_dict()["seed"]) == (2, 8)


def test_outputs_come_in_any_order_and_with_any_fields(folder):
    @fr.pipeline(batch_size=4, output="numpy")
    def mixed(root):
        key, image, index, label = fn.read(root, fields=("key", "image", "index", "label"))
        return index, fn.resize(fn.decode(image), 8), key

    with mixed(folder) as loader:
        index, images, keys = next(iter(loader))
        assert loader.fields == ("index", "image", "key")
        assert images.shape == (4, 3, 8, 8)
        assert [loader.dataset.key(i) for i in index] == keys


def test_a_described_pipeline_brings_its_fields_along(folder):
    @fr.pipeline
    def indexed():
        image, index = fn.read("anything", fields=("image", "index"))
        return index, fn.resize(fn.decode(image), 8)

    described = indexed.describe()
    loader = fr.ImageLoader(folder, transform=described, batch_size=4, output="numpy")
    assert loader.fields == ("index", "image")
    index, image = next(iter(loader))
    assert index.tolist() == [0, 1, 2, 3]
    assert image.shape == (4, 3, 8, 8)
    message = message_of(fr.ImageLoader, folder, transform=described, fields=("index",))
    assert "fields is ('index',), but the pipeline returns its own" in message


def test_a_single_output_is_a_tuple_of_one(folder):
    @fr.pipeline(batch_size=4, output="numpy")
    def labels(root):
        _, label = fn.read(root)
        return label

    with labels(folder) as loader:
        (label,) = next(iter(loader))
        assert label.tolist() == [0, 0, 0, 0]


def test_the_same_argument_twice_is_refused(folder):
    @fr.pipeline(seed=1)
    def twice(root):
        jpeg, label = fn.read(root, seed=2)
        return fn.resize(fn.decode(jpeg), 8), label

    assert "seed is given to the decorator and to fn.read" in message_of(twice, folder)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"batchsize": 3}, "no argument 'batchsize'; did you mean 'batch_size'?"),
        ({"transform": "imagenet-train"}, "transform is given; the function itself says that"),
        ({"fields": ("image",)}, "fields is given"),
        ({"source": "x"}, "source is given"),
    ],
)
def test_what_the_decorator_and_options_refuse(options, found):
    assert found in message_of(fr.pipeline, **options)
    assert found in message_of(small.options, **options)


def test_a_pipeline_without_parentheses(folder):
    @fr.pipeline
    def plain(root):
        jpeg, label = fn.read(root)
        return fn.resize(fn.decode(jpeg), 8), label

    with plain.options(batch_size=2)(folder) as loader:
        assert loader.batch_size == 2


def test_the_decorator_is_put_above_a_function():
    assert "put it above a function" in message_of(fr.pipeline, 256)
    assert "put it above a function" in message_of(fr.pipeline(batch_size=3), 256)
    assert "put it above a function" in message_of(fr.pipeline, small)


def test_gds_is_not_in_this_version(folder):
    message = message_of(small.options(gds="on"), folder, code="unsupported")
    assert "reads no pictures straight into a GPU" in message
    assert "'auto', 'off', 'on'" in message_of(small.options(gds="maybe"), folder)
    with small.options(gds="off")(folder) as loader:
        assert len(loader) == 3


def test_what_the_function_throws_comes_through(folder):
    @fr.pipeline
    def broken(root):
        raise KeyError(root)

    with pytest.raises(KeyError):
        broken(folder)
    # And nothing of it is left behind.
    with pytest.raises(fr.Error, match="outside of a pipeline"):
        fn.read(folder)


def test_two_threads_describe_at_the_same_time():
    barrier = threading.Barrier(2)
    described = {}

    @fr.pipeline
    def waiting(size):
        jpeg, label = fn.read("data")
        barrier.wait(timeout=30)
        return fn.resize(fn.decode(jpeg), size), label

    def describe(size):
        described[size] = waiting.describe(size).step("resize")["size"]

    threads = [threading.Thread(target=describe, args=(size,)) for size in (8, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert described == {8: (8, 8), 9: (9, 9)}
