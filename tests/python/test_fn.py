# SPDX-License-Identifier: Apache-2.0
"""Operators of feedrace.fn: the steps that they record, and what they refuse."""

import re
import sys

import pytest

import feedrace as fr

fn = fr.fn
HERE = __file__.rpartition("/")[2]


def describe(*operators, end=lambda image: image):
    """The pipeline of operators behind decode; each takes and returns an image."""

    @fr.pipeline
    def described():
        image, label = fn.read("data")
        image = fn.decode(image)
        for operator in operators:
            image = operator(image)
        return end(image), label

    return described.describe()


def step_of(operator):
    """What an operator records, between decode and to_tensor."""
    decode, step, _ = describe(operator).steps
    assert decode == {"op": "decode", "orientation": "keep"}
    return step


def message_of(function, *args):
    with pytest.raises(fr.Error) as caught:
        function(*args)
    assert caught.value.code == "invalid_argument"
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message, "says what to do"
    return message


def test_the_article_pipeline_is_the_recipe():
    @fr.pipeline
    def train():
        jpeg, label = fn.read("data", shuffle=True, seed=7)
        image = fn.decode(jpeg)
        image = fn.random_resized_crop(image, 224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
        image = fn.flip(image, horizontal=fn.coin_flip())
        image = fn.normalize(image, mean=fr.IMAGENET_MEAN, std=fr.IMAGENET_STD)
        return fn.to_tensor(image, dtype="float16", layout="CHW"), label

    assert train.describe() == fr.Pipeline.recipe("imagenet-train")


def test_the_validation_pipeline_is_the_recipe():
    def val(image):
        image = fn.center_crop(fn.resize(image, shorter=256), 224)
        return fn.to_tensor(fn.normalize(image, fr.IMAGENET_MEAN, fr.IMAGENET_STD), dtype="float16")

    assert describe(val) == fr.Pipeline.recipe("imagenet-val")


@pytest.mark.parametrize(
    ("operator", "step"),
    [
        (
            lambda i: fn.random_resized_crop(i, (64, 48)),
            {
                "op": "random_resized_crop",
                "size": (64, 48),
                "scale": (0.08, 1.0),
                "ratio": (3 / 4, 4 / 3),
            },
        ),
        (lambda i: fn.resize(i, 64), {"op": "resize", "size": (64, 64)}),
        (lambda i: fn.resize(i, [32, 64]), {"op": "resize", "size": (32, 64)}),
        (
            lambda i: fn.resize(i, shorter=64),
            {"op": "resize", "shorter": 64, "longest": None},
        ),
        (
            lambda i: fn.resize(i, shorter=64, longest=100),
            {"op": "resize", "shorter": 64, "longest": 100},
        ),
        (lambda i: fn.resize(i, longer=64), {"op": "resize", "longer": 64}),
        (lambda i: fn.center_crop(i, 20), {"op": "center_crop", "size": (20, 20)}),
        (
            lambda i: fn.crop(i, 20, x=0, y=1),
            {"op": "crop", "size": (20, 20), "x": 0.0, "y": 1.0},
        ),
        (
            lambda i: fn.crop(i, 20, x=fn.uniform(), y=fn.uniform(0.25, 0.5)),
            {
                "op": "crop",
                "size": (20, 20),
                "x": {"draw": "uniform", "range": (0.0, 1.0), "id": 0},
                "y": {"draw": "uniform", "range": (0.25, 0.5), "id": 1},
            },
        ),
        (
            lambda i: fn.pad(i, 3),
            {
                "op": "pad",
                "left": 3,
                "top": 3,
                "right": 3,
                "bottom": 3,
                "fill": (0.0, 0.0, 0.0),
                "mode": "constant",
            },
        ),
        (
            lambda i: fn.pad(i, (1, 2), mode="reflect"),
            {
                "op": "pad",
                "left": 1,
                "top": 2,
                "right": 1,
                "bottom": 2,
                "fill": (0.0, 0.0, 0.0),
                "mode": "reflect",
            },
        ),
        (
            lambda i: fn.pad(i, (1, 2, 3, 4), fill=(255, 0, 7)),
            {
                "op": "pad",
                "left": 1,
                "top": 2,
                "right": 3,
                "bottom": 4,
                "fill": (255.0, 0.0, 7.0),
                "mode": "constant",
            },
        ),
        (lambda i: fn.random_crop(i, (20, 30)), {"op": "random_crop", "size": (20, 30)}),
        (
            lambda i: fn.random_crop(i, 20, padding=0),
            {"op": "random_crop", "size": (20, 20)},
        ),
        (
            lambda i: fn.flip(i, horizontal=True),
            {"op": "flip", "horizontal": 1.0, "vertical": 0.0},
        ),
        (lambda i: fn.grayscale(i), {"op": "grayscale", "apply": 1.0}),
        (
            lambda i: fn.grayscale(i, apply=fn.coin_flip(0.2)),
            {"op": "grayscale", "apply": {"draw": "coin_flip", "probability": 0.2, "id": 0}},
        ),
        (
            lambda i: fn.color_jitter(i, brightness=0.4, contrast=1.5, hue=0.1),
            {
                "op": "color_jitter",
                "brightness": (0.6, 1.4),
                "contrast": (0.0, 2.5),
                "saturation": None,
                "hue": (-0.1, 0.1),
                "apply": 1.0,
            },
        ),
        (
            lambda i: fn.color_jitter(i, saturation=(0.5, 0.9), hue=(-0.2, 0.5)),
            {
                "op": "color_jitter",
                "brightness": None,
                "contrast": None,
                "saturation": (0.5, 0.9),
                "hue": (-0.2, 0.5),
                "apply": 1.0,
            },
        ),
        (
            lambda i: fn.random_erasing(i, probability=0.1, value=(0, 0.5, 1)),
            {
                "op": "random_erasing",
                "probability": 0.1,
                "scale": (0.02, 0.33),
                "ratio": (0.3, 3.3),
                "value": (0.0, 0.5, 1.0),
            },
        ),
    ],
)
def test_an_operator_records_its_step(operator, step):
    assert step_of(operator) == step


def test_a_random_crop_pads_as_pad_does():
    border = {"padding": (1, 2, 3, 4), "fill": (255, 0, 7), "mode": "edge"}
    _, pad, crop, _ = describe(lambda i: fn.random_crop(i, 20, **border)).steps
    assert pad == step_of(lambda i: fn.pad(i, **border))
    assert crop == {"op": "random_crop", "size": (20, 20)}


def test_a_draw_has_one_number_however_often_it_is_used():
    def both(image):
        first, second = fn.coin_flip(0.25), fn.uniform(0, 1)
        image = fn.flip(image, horizontal=first)
        image = fn.grayscale(image, apply=first)
        return fn.crop(image, 8, x=second, y=second)

    _, flip, grey, crop, _ = describe(both).steps
    assert flip["horizontal"]["id"] == grey["apply"]["id"] == 0
    assert crop["x"] == crop["y"] == {"draw": "uniform", "range": (0.0, 1.0), "id": 1}


def test_the_tensor_follows_from_what_stands_before_it():
    resize = {"op": "resize", "size": (8, 8)}
    plain = describe(lambda i: fn.resize(i, 8)).steps
    assert plain[1:] == (resize, {"op": "to_tensor", "dtype": "float32", "layout": "CHW"})
    normal = describe(lambda i: fn.normalize(fn.resize(i, 8), 0.5, 0.25)).steps
    assert normal[2] == {"op": "normalize", "mean": (0.5,) * 3, "std": (0.25,) * 3}
    assert normal[3] == {"op": "to_tensor", "dtype": "float32", "layout": "CHW"}
    erased = describe(lambda i: fn.random_erasing(fn.normalize(i, 0.5, 0.25), value="random"))
    assert [step["op"] for step in erased.steps[1:]] == ["normalize", "random_erasing", "to_tensor"]
    assert erased.steps[-1]["dtype"] == "float32"


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_dtypes_of_numpy_and_torch_are_understood(dtype):
    import numpy as np

    given = [dtype, getattr(np, dtype), np.dtype(dtype)]
    if "torch" in sys.modules:
        given.append(getattr(sys.modules["torch"], dtype))
    for name in given:
        steps = describe(end=lambda i, name=name: fn.to_tensor(i, dtype=name)).steps
        assert steps[-1]["dtype"] == dtype


def test_a_function_of_pictures_is_a_step():
    def invert(picture):
        return 255 - picture

    step = step_of(lambda i: fn.python_function(i, function=invert, size=(4, 6)))
    assert step.pop("name").endswith("invert")
    assert step == {"op": "python_function", "function": invert, "size": (4, 6)}


@pytest.mark.parametrize(
    ("operator", "found", "fix"),
    [
        (lambda i: fn.resize(i, 0), "size is 0", "from 1 to 65535 pixels"),
        (lambda i: fn.resize(i, "big"), "size is 'big'", "pixels, or a pair (height, width)"),
        (lambda i: fn.resize(i, (1, 2, 3)), "size is (1, 2, 3)", "a pair (height, width)"),
        (lambda i: fn.resize(i, 8.5), "size is 8.5", "a whole number"),
        (lambda i: fn.resize(i, True), "size is True", "a whole number"),
        (lambda i: fn.resize(i), "no size is given", "one of size, shorter and longer"),
        (lambda i: fn.resize(i, 8, longer=9), "size and longer are given", "give one"),
        (lambda i: fn.resize(i, 8, longest=9), "longest is given without shorter", "longer alone"),
        (lambda i: fn.resize(i, shorter=9, longest=8), "longest is 8", "larger"),
        (lambda i: fn.resize(i, shrter=8), "no argument 'shrter'", "did you mean 'shorter'?"),
        (lambda i: fn.resize(i, 8, 9), "3 arguments without a name", "name the others"),
        (lambda i: fn.center_crop(i), "size is missing", "it takes image, size"),
        (lambda i: fn.random_resized_crop(i, 8, scale=(0.5, 0.1)), "(0.5, 0.1)", "smaller number"),
        (lambda i: fn.random_resized_crop(i, 8, scale=(0, 1)), "scale[0] is 0", "above 0"),
        (lambda i: fn.random_resized_crop(i, 8, scale=(0.1, 2)), "scale[1] is 2", "at most 1"),
        (lambda i: fn.random_resized_crop(i, 8, ratio=1), "ratio is 1", "two numbers (low, high)"),
        (lambda i: fn.crop(i, 8, x=1.5), "x is 1.5", "at most 1"),
        (lambda i: fn.crop(i, 8, x=fn.uniform(0, 2)), "drawn from [0, 2)", "[0, 1]"),
        (lambda i: fn.flip(i, horizontal=0.5), "horizontal is 0.5", "fn.coin_flip(0.5)"),
        (lambda i: fn.flip(i, vertical=fn.uniform()), "fn.uniform", "fn.coin_flip(probability)"),
        (lambda i: fn.flip(i, vertical="yes"), "vertical is 'yes'", "a number"),
        (lambda i: fn.flip(i, vertical=i), "vertical is <a decoded picture", "fn.coin_flip()"),
        (lambda i: fn.grayscale(i, apply=float("nan")), "apply is nan", "a number"),
        (lambda i: fn.color_jitter(i), "nothing is changed", "give brightness"),
        (lambda i: fn.color_jitter(i, hue=0.6), "hue is 0.6", "at most 0.5"),
        (lambda i: fn.color_jitter(i, brightness=-1), "brightness is -1", "at least 0"),
        (lambda i: fn.random_crop(i, 0), "size is 0", "from 1 to 65535 pixels"),
        (lambda i: fn.random_crop(i, 8, padding=-1), "padding is -1", "from 0 to"),
        (lambda i: fn.random_crop(i, 8, 4), "3 arguments without a name", "name the others"),
        (lambda i: fn.random_crop(i, 8, fill=256), "fill is 256", "at most 255"),
        (lambda i: fn.random_crop(i, 8, padding_mode="edge"), "'padding_mode'", "size, padding"),
        (lambda i: fn.normalize(i, 0.5, 1, 2), "4 arguments without a name", "takes image, mean"),
        (lambda i: fn.center_crop(i, 8, image=i), "image is given twice", "give it once"),
        (
            lambda i: fn.resize(i, size=fn.uniform(1, 9)),
            "size is a random number from fn.uniform at",
            "give a plain value, the same for all samples; a random number is for x and y of",
        ),
        (lambda i: fn.resize(i, (fn.uniform(), 8)), "size is a random number", "a plain value"),
        (lambda i: fn.pad(i, i), "padding is a decoded picture from fn.decode", "a plain value"),
        (lambda i: fn.coin_flip(fn.uniform()), "probability is a random number", "a plain value"),
        (lambda i: fn.python_function(i, function=i), "function is a decoded", "a plain value"),
        (lambda i: fn.pad(i, (1, 2, 3)), "padding is (1, 2, 3)", "one number, two, or four"),
        (lambda i: fn.pad(i, -1), "padding is -1", "from 0 to"),
        (lambda i: fn.pad(i, 1, fill=256), "fill is 256", "at most 255"),
        (lambda i: fn.pad(i, 1, mode="mirror"), "mode is 'mirror'", "'symmetric'"),
        (lambda i: fn.normalize(i, 123.7, 58.4), "mean is 123.7", "divide those of levels by 255"),
        (lambda i: fn.normalize(i, 0.5, 0), "std is 0", "above 0"),
        (lambda i: fn.normalize(i, (0.5, 0.5), 1), "mean is (0.5, 0.5)", "3 numbers"),
        (lambda i: fn.random_erasing(i, value="noise"), "value is 'noise'", "'random'"),
        (lambda i: fn.random_erasing(i, probability=2), "probability is 2", "at most 1"),
        (lambda i: fn.grayscale(i, apply=fn.coin_flip(1.5)), "probability is 1.5", "at most 1"),
        (lambda i: fn.crop(i, 8, x=fn.uniform(1, 0)), "is (1, 0)", "smaller number first"),
        (lambda i: fn.to_tensor(i, dtype="float64"), "dtype is 'float64'", "'float32'"),
        (lambda i: fn.to_tensor(i, layout="NCHW"), "layout is 'NCHW'", "did you mean 'CHW'?"),
        (
            lambda i: fn.to_tensor(fn.normalize(i, 0.5, 1), dtype="uint8"),
            "dtype is 'uint8' behind fn.normalize",
            "float16 or float32",
        ),
        (lambda i: fn.decode(i), "its input is a decoded picture", "once"),
        (lambda i: fn.python_function(i), "function is None", "give a callable"),
        (lambda i: fn.python_function(function=abs), "0 inputs", "batch=True"),
        (lambda i: fn.python_function(i, i, function=abs), "2 inputs", "batch=True"),
        (lambda i: fn.python_function(i, function=abs, info=True), "info is given", "batch=True"),
        (
            lambda i: fn.python_function(i, function=abs, batch=True, size=3),
            "size or random is given",
            "single pictures",
        ),
        (lambda i: fn.python_function(batch=True, function=abs), "no inputs", "the picture's"),
        (lambda i: fn.python_function(i, batch=1, function=abs), "batch is 1", "True or False"),
    ],
)
def test_what_an_operator_refuses_names_it_its_line_and_the_fix(operator, found, fix):
    message = message_of(describe, operator)
    assert re.match(rf"fn\.\w+ at \S*{re.escape(HERE)}:\d+: ", message), message
    assert found in message
    assert fix in message


def test_the_line_is_that_of_the_call():
    def wrong(image):
        return fn.resize(image, -5)

    line = wrong.__code__.co_firstlineno + 1
    assert message_of(describe, wrong).startswith("fn.resize at ")
    assert f"{HERE}:{line}: size is -5" in message_of(describe, wrong)


@pytest.mark.parametrize(
    ("operator", "found", "fix"),
    [
        (
            lambda i: fn.resize(fn.to_tensor(i), 8),
            "its input is the batch's tensor from fn.to_tensor",
            "put fn.resize before it",
        ),
        (
            lambda i: fn.flip(fn.normalize(i, 0.5, 0.5), horizontal=True),
            "its input is a normalized picture from fn.normalize",
            "put fn.flip before it",
        ),
        (
            lambda i: fn.normalize(fn.normalize(i, 0.5, 0.5), 0.5, 0.5),
            "its input is a normalized picture",
            "leave one of them out",
        ),
        (
            lambda i: fn.flip(fn.random_erasing(i), vertical=True),
            "its input is an erased picture from fn.random_erasing",
            "put fn.flip before it",
        ),
        (lambda i: fn.to_tensor(fn.to_tensor(i)), "the batch's tensor", "leave one of them out"),
        (lambda i: fn.resize("x", 8), "its input is 'x'", "from another operator"),
        (
            lambda i: fn.resize(fn.coin_flip(), 8),
            "its input is a random number from fn.coin_flip",
            "give it the decoded picture; a random number is for x and y of fn.crop",
        ),
    ],
)
def test_an_operator_at_the_wrong_place_says_where_it_belongs(operator, found, fix):
    message = message_of(describe, operator)
    assert found in message
    assert fix in message


def test_an_undecoded_picture_goes_to_decode_only():
    @fr.pipeline
    def forgetful():
        jpeg, label = fn.read("data")
        return fn.resize(jpeg, 8), label

    message = message_of(forgetful.describe)
    assert "its input is an encoded picture from fn.read" in message
    assert "put fn.decode between them" in message


def test_a_field_is_no_picture():
    @fr.pipeline
    def mistaken():
        _, label = fn.read("data")
        return fn.python_function(label, function=abs)

    message = message_of(mistaken.describe)
    assert "fn.python_function at" in message
    assert "its input is a field from fn.read" in message
    assert "a field goes to fn.python_function(..., batch=True)" in message


def test_what_a_batch_function_gave_is_no_picture():
    def late(image):
        return fn.flip(fn.python_function(image, function=abs, batch=True), horizontal=True)

    message = message_of(describe, late)
    assert "its input is the result of a batch function" in message
    assert "put it before the batch function, or make it one" in message


def test_a_picture_goes_through_one_chain():
    def fork(image):
        small = fn.resize(image, 8)
        fn.resize(image, 16)
        return small

    line = fork.__code__.co_firstlineno
    message = message_of(describe, fork)
    assert f"fn.resize at {sys.modules[__name__].__file__}"[:9] == message[:9]
    assert f"{HERE}:{line + 2}" in message
    assert "is already used by fn.resize at" in message
    assert f"{HERE}:{line + 1}" in message
    assert "describe a second pipeline" in message


def test_a_result_that_goes_nowhere_is_refused():
    def lost(image):
        fn.coin_flip()
        return image

    message = message_of(describe, lost)
    assert "the result of fn.coin_flip at" in message
    assert "is not used; use or return it" in message

    @fr.pipeline
    def unreturned():
        jpeg, label = fn.read("data")
        fn.decode(jpeg)
        return label

    assert "the result of fn.decode at" in message_of(unreturned.describe)


@pytest.mark.parametrize(
    ("use", "attempt"),
    [
        (lambda node: 1 if node else 0, "used as True or False"),
        (lambda node: node * 2, "calculated with"),
        (lambda node: 1 - node, "calculated with"),
        (lambda node: node > 3, "calculated with"),
        (lambda node: float(node), "calculated with"),
        (lambda node: [*node], "unpacked or looped over"),
        (lambda node: node[0], "indexed"),
    ],
)
def test_a_node_has_no_value_yet(use, attempt):
    message = message_of(describe, use)
    assert f"its result is {attempt}" in message
    assert message.startswith("fn.decode at ")


def test_operators_outside_of_a_pipeline_are_refused():
    message = message_of(fn.read, "data")
    assert "called outside of a pipeline; call it inside a function with @feedrace.pipeline" in (
        message
    )


def test_a_node_of_another_pipeline_is_refused():
    kept = []
    describe(lambda image: kept.append(image) or image)
    message = message_of(describe, lambda image: fn.resize(kept[0], 8))
    assert "comes from another pipeline" in message


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (lambda jpeg, label: None, "it returns None"),
        (lambda jpeg, label: (), "it returns nothing"),
        (lambda jpeg, label: (jpeg, label), "it returns the undecoded picture of fn.read"),
        (lambda jpeg, label: (label, label), "it returns the result of fn.read"),
        (lambda jpeg, label: (label, 3), "it returns 3"),
        (lambda jpeg, label: (label, fn.coin_flip()), "the random number of fn.coin_flip"),
    ],
)
def test_what_a_pipeline_must_not_return(returned, found):
    @fr.pipeline
    def named():
        return returned(*fn.read("data"))

    message = message_of(named.describe)
    assert message.startswith("pipeline named: ")
    assert found in message


def test_a_picture_in_the_middle_of_the_chain_is_not_returned():
    def middle(image):
        fn.resize(image, 8)
        return image

    assert "which fn.resize at" in message_of(describe, middle)


def test_one_read_in_a_pipeline():
    @fr.pipeline
    def twice():
        image, _ = fn.read("a")
        _, label = fn.read("b")
        return fn.decode(image), label

    assert "reads already" in message_of(twice.describe)

    @fr.pipeline
    def never():
        return ()

    assert "it returns nothing" in message_of(never.describe)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"fields": ()}, "fields is ()"),
        ({"fields": ("image", "image")}, "fields is ('image', 'image')"),
        ({"fields": ("image", 3)}, "fields is 3"),
        ({"seeds": 3}, "no argument 'seeds'; did you mean 'seed'?"),
    ],
)
def test_what_read_refuses(arguments, found):
    @fr.pipeline
    def reading():
        return fn.read("data", **arguments)

    assert found in message_of(reading.describe)


def test_a_pipeline_without_pictures_decodes_nothing():
    @fr.pipeline
    def labels():
        _, label = fn.read("data")
        return label

    assert labels.describe().steps == ({"op": "read_only"},)
