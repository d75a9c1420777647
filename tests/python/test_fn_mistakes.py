# SPDX-License-Identifier: Apache-2.0
"""Mistakes in calls of feedrace.fn, and in its names: each is one line that says what to do."""

import copy
import doctest
import inspect
import math
import pickle

import numpy as np
import pytest

import feedrace as fr

fn = fr.fn

# A value of each kind that no argument should come through with unseen.
ODD_VALUES = [
    None, object(), "x", "", b"x", "a\nb", "nul\0", -1, 0, 3, 10**400, 1.5, math.nan, math.inf,
    1j, True, int, np.uint8, [], [1], (1, 2, 3, 4, 5), [None, None], {}, lambda: None,
]  # fmt: skip
NEEDED = {"size": 8, "padding": 1, "mean": 0.5, "std": 0.5, "function": abs}
REQUIRED = {
    fn.center_crop: ("size",),
    fn.crop: ("size",),
    fn.normalize: ("mean", "std"),
    fn.pad: ("padding",),
    fn.python_function: ("function",),
    fn.random_crop: ("size",),
    fn.random_resized_crop: ("size",),
}


def outcome_of(call):
    """The message about a pipeline with this call, or None."""

    @fr.pipeline
    def odd():
        return call()

    try:
        odd.describe()
    except fr.Error as e:
        return str(e)
    return None


def called_with(operator, given):
    """What a pipeline returns that calls `operator`, with what it needs and what is given."""
    encoded, label = fn.read("data")
    picture = encoded if operator is fn.decode else fn.decode(encoded)
    if operator in (fn.coin_flip, fn.uniform):
        return fn.crop(picture, 1, x=operator(**given)), label
    needed = {name: NEEDED[name] for name in NEEDED if name in REQUIRED.get(operator, ())}
    taken = () if {"image", "encoded"} & given.keys() else (picture,)
    return operator(*taken, **{**needed, **given}), label


def parameters_of(operator):
    every = inspect.signature(operator).parameters.values()
    return [one for one in every if one.kind is not one.VAR_POSITIONAL]


@pytest.mark.parametrize("name", [name for name in fn.__all__ if name != "read"])
def test_no_value_of_an_argument_is_an_error_of_another_kind(name):
    operator = getattr(fn, name)
    seen = []
    for parameter in parameters_of(operator):
        for value in ODD_VALUES:

            def call(parameter=parameter, value=value):
                return called_with(operator, {parameter.name: value})

            seen.append(outcome_of(call))
    said = [message for message in seen if message is not None]
    assert said
    for message in said:
        assert "\n" not in message
        assert "; " in message, "says what to do"


@pytest.mark.parametrize("parameter", parameters_of(fn.read), ids=lambda one: one.name)
def test_no_value_that_read_takes_is_an_error_of_another_kind(parameter, folder):
    said = []
    for value in ODD_VALUES:
        given = {"root": str(folder), parameter.name: value}

        @fr.pipeline
        def odd(given=given):
            return fn.read(**{"fields": ("label",), **given})

        try:
            odd().close()
        except fr.Error as e:
            said.append(str(e))
    assert said
    assert not any("\n" in message for message in said)


@pytest.mark.parametrize("name", fn.__all__)
def test_wrong_counts_of_arguments_are_named(name):
    operator = getattr(fn, name)
    called = {
        "unknown": lambda: operator(nonsense=1),
        "too many": lambda: operator(*[1] * 30),
    }
    if name not in ("read", "coin_flip", "uniform"):
        called["none"] = operator
    for what, call in called.items():
        message = outcome_of(call)
        assert message is not None, what
        assert message.startswith(f"fn.{name} at ")
        assert "\n" not in message
        assert "; " in message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fr.parity.compare(), "compare: source is missing; it takes source, limit, trans"),
        (lambda: fr.parity.compare("a", 3), "compare: 2 arguments without a name, of 1 at most"),
        (lambda: fr.parity.compare("a", limits=3), "no argument 'limits'; did you mean 'limit'?"),
        (lambda: fr.parity.compare(3), "parity: source is 3; it must be a path"),
        (lambda: fr.transforms.translate(), "translate: compose is missing; it takes compose"),
        (lambda: fr.transforms.translate(1, 2, 3), "translate: 3 arguments without a name"),
    ],
)
def test_functions_of_the_other_modules_are_called_as_carefully(call, message):
    with pytest.raises(fr.Error) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_operator_is_an_attribute_that_is_not_there():
    assert not hasattr(fn, "rotate")
    assert getattr(fn, "rotate", 7) == 7
    with pytest.raises(AttributeError) as caught:
        fn.centre_crop  # noqa: B018
    message = str(caught.value)
    assert message.startswith("feedrace.fn: no attribute 'centre_crop'; did you mean center_crop? ")
    assert "python_function calls a function of yours" in message
    assert isinstance(caught.value, fr.Error)
    assert caught.value.code == "unsupported"
    assert "\n" not in message


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (fr, "ImageLoder", "did you mean ImageLoader?"),
        (fr, "resize", "operators are in feedrace.fn"),
        (fr.transforms, "Resize", "torchvision's own transform"),
        (fr.parity, "comparee", "did you mean compare?"),
        (fr.dali, "pipelinedef", "did you mean pipeline_def?"),
        (fr.dali, "plugin_", "feedrace.dali.plugin.pytorch"),
    ],
)
def test_an_unknown_name_says_what_there_is(module, name, hint):
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value).startswith(f"{module.__name__}: no attribute {name!r}; ")
    assert hint in str(caught.value)


@pytest.mark.parametrize("module", [fr, fn, fr.transforms, fr.dali, fr.dali.fn])
def test_what_python_itself_looks_for_in_a_module_is_not_there(module):
    for name in ("__wrapped__", "__path_hooks__", "_private"):
        assert getattr(module, name, None) is None
    assert pickle.loads(pickle.dumps(module.__name__)) == module.__name__
    assert doctest.DocTestFinder().find(module, module.__name__)
    assert inspect.unwrap(module) is module


def test_a_value_to_come_has_no_attributes():
    kept = []

    @fr.pipeline
    def described():
        encoded, label = fn.read("data")
        kept.append(fn.decode(encoded))
        return kept[0], label

    described.describe()
    (image,) = kept
    assert not hasattr(image, "shape")
    assert copy.copy(image).kind == "image"
    with pytest.raises(fr.Error, match="no attribute 'shape', as it has no value while the") as e:
        image.shape  # noqa: B018
    assert str(e.value).startswith("<a decoded picture from fn.decode at ")
    assert "\n" not in str(e.value)


def test_an_unknown_name_can_be_copied_as_any_error():
    with pytest.raises(AttributeError) as caught:
        fn.rotate  # noqa: B018
    for other in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(other) == str(caught.value)
        assert other.code == "unsupported"
