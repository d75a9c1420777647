# SPDX-License-Identifier: Apache-2.0
"""Calls of feedrace.dali with arguments that are not there or of no use, and the page on them."""

import copy
import inspect
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import feedrace.dali.fn as fn
import feedrace.dali.types as types
from dali_sets import make_training
from feedrace import Error
from feedrace.dali import Pipeline, operators, pipeline_def

PAGE = Path(__file__).parents[2] / "docs" / "from-dali.md"
# A value of each kind that no argument should come through with unseen.
ODD_VALUES = [
    object(), "x", b"x", "a\nb", "nul\0", -1, 10**400, 1.5, math.nan, math.inf, 1j, True, int, [],
    [1], (1, 2, 3, 4, 5), [None, None], {}, lambda: None, np.zeros(3), np.zeros(()),
]  # fmt: skip
NEEDED = {"size": 8, "dtype": types.FLOAT, "perm": [2, 0, 1], "axes": 0, "shape": []}


def found(path):
    """An operator, or a module of them, by its name: "fn.readers.file"."""
    node = fn
    for name in path.split(".")[1:]:
        node = getattr(node, name)
    return node


def error_of(call):
    """The message of the Error that a call raises; None where it raises none."""
    try:
        with Pipeline(batch_size=1):
            call()
    except Error as e:
        message = str(e)
        assert "\n" not in message
        assert "; " in message, "says what to do"
        return message
    return None


def row(path):
    """What the page says of an operator."""
    arguments = found(path).arguments
    only = [f"{name}={values[0]}" for name, values in arguments.only.items()]
    cells = [
        ", ".join(f"`{one}`" for one in names) or "none"
        for names in (arguments.taken, only, arguments.hints)
    ]
    return f"| `{path}` | {' | '.join(cells)} |"


def test_the_page_has_every_operator_with_its_arguments():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    written = [line for line in lines if line.startswith("| `fn.") and line.count("|") == 5]
    assert written == [row(path) for path in operators.SUPPORTED]
    (common,) = [line for line in lines if line.startswith("Every operator takes ")]
    assert common.split("`")[1::2][: len(operators.COMMON)] == [*operators.COMMON]


def test_what_is_supported_is_what_there_is():
    modules = [("fn", fn), *((f"fn.{name}", getattr(fn, name)) for name in fn.__all__)]
    there = {
        f"{path}.{name}"
        for path, module in modules
        if inspect.ismodule(module)
        for name, member in vars(module).items()
        if hasattr(member, "arguments") and member.__module__.startswith(module.__name__)
    }
    assert there <= set(operators.SUPPORTED)
    assert all(hasattr(found(path), "arguments") for path in operators.SUPPORTED)
    assert len(set(operators.SUPPORTED)) == len(operators.SUPPORTED)


@pytest.mark.parametrize("path", operators.SUPPORTED)
def test_counts_and_names_of_arguments_are_checked(path):
    operator = found(path)
    name = path if path not in ("fn.coin_flip", "fn.uniform") else f"fn.random.{path[3:]}"
    unknown = error_of(lambda: operator(nonsense=1))
    assert unknown.startswith(f"{name}: no argument 'nonsense'; there are ")
    many = error_of(lambda: operator(*[1] * 9))
    assert many.startswith(f"{name}: 9 arguments without a name, of ")
    assert "did you mean 'device'?" in error_of(lambda: operator(devise="cpu"))


@pytest.mark.parametrize("path", operators.SUPPORTED)
def test_no_value_of_an_argument_is_an_error_of_another_kind(path):
    operator = found(path)
    said = []
    for name in (*operator.arguments.taken, *operator.arguments.only, "seed", "name", "device"):
        for value in ODD_VALUES:
            said.append(error_of(lambda name=name, value=value: use(path, {name: value})))
    assert any(said)


def use(path, given):
    """Calls an operator with what it needs, and what is given."""
    operator = found(path)
    if path == "fn.readers.webdataset":
        return operator(**{"paths": "a.tar", "ext": "jpg", **given})
    if path == "fn.readers.file":
        root = {} if given.keys() & {"files", "file_list"} else {"file_root": "data"}
        return operator(**{**root, **given})
    if path in ("fn.coin_flip", "fn.uniform") or path.startswith("fn.random."):
        return operator(**given)
    encoded, labels = fn.readers.file(file_root="data")
    taken = encoded if path.startswith("fn.decoders") else fn.decoders.image(encoded)
    taken = labels if path in ("fn.squeeze", "fn.reshape") else taken
    needed = ("size",) if path == "fn.random_resized_crop" else ("dtype", "perm", "axes", "shape")
    own = operator.arguments.taken
    return operator(taken, **{**{k: NEEDED[k] for k in needed if k in own}, **given})


@pytest.mark.parametrize("seed", [-2, "x", 1.5, np.zeros(3)])
def test_a_seed_is_none_or_minus_1_or_a_whole_number(seed):
    assert "seed is" in error_of(lambda: fn.random.coin_flip(seed=seed))
    assert "seed is" in error_of(lambda: fn.readers.file(file_root="x", seed=seed))
    assert "seed is" in error_of(lambda: Pipeline(batch_size=1, seed=seed))
    for unset in (None, -1):
        assert error_of(lambda unset=unset: fn.random.coin_flip(seed=unset)) is None


def test_a_list_that_is_not_there_is_one_line():
    said = error_of(lambda: fn.readers.file(file_list="a\nb.csv"))
    assert said == (
        "fn.readers.file: a\\nb.csv: No such file or directory; give a readable file_list"
    )


def test_a_line_of_a_list_is_named(tmp_path):
    (tmp_path / "list.csv").write_text("a.jpg 1\nb.jpg\n")
    said = error_of(lambda: fn.readers.file(file_list=tmp_path / "list.csv"))
    assert said.startswith(f"fn.readers.file: {tmp_path}/list.csv:2: ['b.jpg']; write lines path")


METHODS = [
    (lambda p, i: i(foo=1), "DALIGenericIterator: no argument 'foo'; there are pipelines, output"),
    (lambda p, i: i(p, ["a", "b"], redaer_name="R"), "did you mean 'reader_name'?"),
    (lambda p, i: i(), "DALIGenericIterator: pipelines is missing; it takes pipelines, output_map"),
    (lambda p, i: i(p), "DALIGenericIterator: output_map is missing; it takes"),
    (lambda p, i: i(p, ["a", "b"], pipelines=p), "pipelines is given twice; give it once"),
    (lambda p, i: i(*[p] * 20), "DALIGenericIterator: 20 arguments without a name, of 10 at most"),
    (lambda p, i: i(p, ["a", "b"], reader_name=3), "reader_name is 3; it must be a str"),
    (lambda p, i: p.enable_gds(3), "Pipeline.enable_gds: 1 arguments without a name, of 0 at most"),
    (lambda p, i: p.build(x=3), "Pipeline.build: no argument 'x'; it takes no arguments"),
    (lambda p, i: p.run(1), "Pipeline.run: 1 arguments without a name"),
    (lambda p, i: p.outputs(1), "Pipeline.outputs: 1 arguments without a name"),
    (lambda p, i: p.epoch_size(raeder_name="R"), "did you mean 'reader_name'?"),
    (lambda p, i: p.run()[0].at(), "TensorListCPU.at: index is missing; it takes index"),
    (lambda p, i: p.run()[0][0].shape(1), "TensorCPU.shape: 1 arguments without a name"),
    (lambda p, i: Pipeline(1, 2, batch_size=3), "Pipeline: batch_size is given twice"),
    (lambda p, i: Pipeline(1, 2, None, 3, 4), "Pipeline: 5 arguments without a name, of 4 at most"),
    (lambda p, i: pipeline_def(len, 4), "pipeline_def: 2 arguments without a name, of 1 at most"),
    (lambda p, i: pipeline_def(batchsize=4), "pipeline_def: no argument 'batchsize'; did you mean"),
]


@pytest.mark.parametrize(("call", "message"), METHODS)
def test_calls_of_everything_else_are_checked_too(dali_folder, dali_pytorch, call, message):
    pipe = make_training(dali_folder, crop_size=8)
    with pytest.raises(Error) as caught:
        call(pipe, dali_pytorch.DALIGenericIterator)
    assert message in str(caught.value)
    assert caught.value.code == "invalid_argument"
    assert "\n" not in str(caught.value)


def test_iterators_of_other_names_say_theirs(dali_folder, dali_pytorch):
    pipe = make_training(dali_folder, crop_size=8)
    with pytest.raises(Error, match="^DALIClassificationIterator: pipelines is missing; "):
        dali_pytorch.DALIClassificationIterator()
    with pytest.raises(Error, match="^DALIClassificationIterator: output_map is given twice; "):
        dali_pytorch.DALIClassificationIterator(pipe, output_map=["a", "b"])
    with pytest.raises(Error, match="^DALIClassificationIterator.reset: 1 arguments without"):
        dali_pytorch.DALIClassificationIterator(pipe, reader_name="Reader").reset(3)


@pipeline_def(batch_size=2, device_id=None)
def described(root, side=8):
    encoded, labels = fn.readers.file(file_root=root)
    return fn.resize(fn.decoders.image(encoded), size=side), labels


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "described: root is missing; it takes root, side"),
        (("a", 1, 2), {}, "described: 3 arguments without a name, of 2 at most"),
        (("a",), {"root": "b"}, "described: root is given twice"),
        (("a",), {"sied": 3}, "described: no argument 'sied'; did you mean 'side'?"),
        (("a",), {"batchsize": 3}, "did you mean 'batch_size'?"),
    ],
)
def test_the_users_own_function_is_called_as_it_is_written(args, kwargs, message):
    with pytest.raises(Error) as caught:
        described(*args, **kwargs)
    assert message in str(caught.value)


def test_names_that_are_not_there_are_attributes_that_are_not_there(dali_folder):
    pipe = make_training(dali_folder)
    with Pipeline(batch_size=1):
        encoded, _ = fn.readers.file(file_root="x")
    for owner, name in [
        (fn, "rotate"),
        (fn.readers, "coco"),
        (fn.decoders, "audio"),
        (fn.random, "normal"),
        (fn.noise, "gaussian"),
        (types, "FLOTA"),
        (pipe, "feed_input"),
        (encoded, "shape"),
    ]:
        assert not hasattr(owner, name)
        assert getattr(owner, name, 7) == 7
        with pytest.raises(Error, match="it is not in feedrace.dali; ") as caught:
            getattr(owner, name)
        assert caught.value.code == "unsupported"


def test_modules_and_nodes_can_be_copied():
    with Pipeline(batch_size=1):
        encoded, _ = fn.readers.file(file_root="x")
    assert copy.copy(encoded).reader is encoded.reader
    for module in (copy.deepcopy(fn.noise), pickle.loads(pickle.dumps(fn.noise))):
        assert repr(module) == "<fn.noise, which is not in feedrace.dali>"
