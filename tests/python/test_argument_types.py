# SPDX-License-Identifier: Apache-2.0
"""Arguments of types that are as good as Python's own, and of types that only look so."""

import enum
import os
from types import MappingProxyType

import numpy as np
import pytest

from small_loaders import error_of, indices, loader_of
from small_sets import fields_of, write_shard


class Word(str, enum.Enum):  # noqa: UP042  StrEnum has no other text, and Python 3.10 no StrEnum.
    """A str whose str() is another text: "Word.GLOBAL"."""

    GLOBAL = "global"
    CPU = "cpu"
    RECIPE = "imagenet-val"
    INDEX = "index"
    NUMPY = "numpy"
    LIMIT = "2GB"
    LABEL = "label"


class Place(os.PathLike):
    def __init__(self, place):
        self.place = place

    def __fspath__(self):
        return self.place


def plan_of(source, **arguments):
    """The plan, but for the figures of memory, which the process moves."""
    plan = loader_of(source, **arguments).plan.to_dict()
    return {name: value for name, value in plan.items() if name not in ("memory", "warnings")}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"shuffle": np.str_("global")}, {"shuffle": "global"}),
        ({"shuffle": Word.GLOBAL}, {"shuffle": "global"}),
        ({"shuffle": np.bool_(True)}, {"shuffle": True}),
        ({"shuffle": np.bool_(False)}, {"shuffle": False}),
        ({"device": Word.CPU}, {"device": "cpu"}),
        ({"transform": Word.RECIPE}, {"transform": "imagenet-val"}),
        ({"transform": np.str_("imagenet-val")}, {"transform": "imagenet-val"}),
        ({"fields": Word.INDEX}, {"fields": "index"}),
        ({"fields": np.array(["index", "label"])}, {"fields": ("index", "label")}),
        ({"output": Word.NUMPY}, {"output": "numpy"}),
        ({"last_batch": np.str_("pad")}, {"last_batch": "pad"}),
        ({"on_error": np.str_("zero")}, {"on_error": "zero"}),
        ({"label_json_key": Word.LABEL}, {"label_json_key": "label"}),
        ({"rank_check": np.bool_(False)}, {"rank_check": False}),
        ({"iopoll": np.bool_(False)}, {"iopoll": False}),
        ({"batch_size": np.int16(3)}, {"batch_size": 3}),
        ({"seed": np.uint64(2**64 - 1)}, {"seed": 2**64 - 1}),
        ({"error_budget_share": np.float16(0.5)}, {"error_budget_share": 0.5}),
        ({"error_budget": np.int64(3)}, {"error_budget": 3}),
        ({"timeout": np.float32(10)}, {"timeout": 10}),
        ({"timeout": np.int64(10)}, {"timeout": 10}),
        (
            {"subset": MappingProxyType({"share": (0, 1)})},
            {"subset": {"share": (0, 1)}},
        ),
        ({"subset": {"share": np.array([0, 0.5])}}, {"subset": {"share": (0, 0.5)}}),
        ({"subset": [np.str_("bee/0.jpg")]}, {"subset": ["bee/0.jpg"]}),
        ({"subset": np.array(["bee/0.jpg"])}, {"subset": ["bee/0.jpg"]}),
        ({"rank": np.int8(1), "world_size": np.int8(2)}, {"rank": 1, "world_size": 2}),
    ],
)
def test_what_is_exactly_convertible_is_taken(folder, given, meant):
    assert plan_of(folder, **given) == plan_of(folder, **meant)
    assert indices(loader_of(folder, **{**given, "fields": "index"})) == indices(
        loader_of(folder, **{**meant, "fields": "index"})
    )


def test_a_memory_limit_may_be_of_any_kind_of_str_or_int(folder):
    for limit in (Word.LIMIT, np.str_("2GB"), np.int64(2 * 10**9)):
        assert loader_of(folder, memory_limit=limit).plan.memory["limit_bytes"] == 2 * 10**9


@pytest.mark.parametrize("kind", [str, os.fsencode, np.str_, Place])
def test_a_path_may_be_of_any_kind(folder, tmp_path, kind):
    bad = kind(str(tmp_path / "bad.jsonl"))
    loader = loader_of(kind(str(folder)), quarantine_file=bad, cache_dir=kind(str(tmp_path)))
    assert len(loader.dataset) == 12
    assert len(loader_of([Place(os.fsencode(folder))]).dataset) == 12


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"shuffle": np.int64(1)}, "it must be one of None, True, False, 'global'"),
        ({"shuffle": np.str_("globl")}, "did you mean 'global'?"),
        ({"on_error": Place("zero")}, "on_error is <"),
        ({"label_json_key": Place("label")}, "it must be a str"),
        ({"label_json_key": b"label"}, "label_json_key is b'label'; it must be a str"),
        ({"label_json_key": "\ud800"}, "it must be text that UTF-8 can write"),
        ({"fields": [3]}, "fields is 3; it must be a str"),
        ({"batch_size": np.float64(4)}, "it must be a whole number"),
        ({"batch_size": np.bool_(True)}, "it must be a whole number"),
        ({"batch_size": np.array([4])}, "it must be a whole number"),
        ({"timeout": np.bool_(True)}, "timeout is"),
        ({"timeout": np.array([1, 0])}, "it must be a number"),
        ({"timeout": "10"}, "timeout is '10'; it must be a number"),
        ({"timeout": np.float32("nan")}, "timeout is"),
        ({"iopoll": np.int64(1)}, "it must be True or False"),
        ({"rank_check": np.str_("True")}, "it must be True or False"),
        ({"cache_dir": Place(3)}, "it must be a path, as str or PathLike"),
        ({"quarantine_file": "\ud800"}, "it must be a path, as str or PathLike"),
        ({"quarantine_file": 3}, "quarantine_file is 3; it must be a path"),
        ({"subset": {1, 2}}, "or a list of sample numbers or of keys"),
        ({"subset": ["\ud800"]}, "give keys as loader.dataset.key(i) has them"),
        ({"subset": ["a", 3]}, "keys has 3; it must be a list of str"),
    ],
)
def test_the_rest_is_refused_in_the_usual_words(folder, arguments, found):
    assert found in error_of(loader_of, folder, **arguments)


@pytest.mark.parametrize("nothing", [0, 0.0, -0.0, np.float32(0)])
def test_a_timeout_of_nothing_could_mean_two_things(folder, nothing):
    message = error_of(loader_of, folder, timeout=nothing)
    assert "it must be above 0, or None to wait for ever" in message
    assert len(loader_of(folder, timeout=None)) == 3


def test_keys_that_are_not_utf8_choose_samples(tmp_path):
    keys = [os.fsdecode(b"caf\xe9"), "tea"]
    path = write_shard(tmp_path / "0.tar", {key: fields_of(i) for i, key in enumerate(keys)})
    asked = []

    def is_wanted(key):
        asked.append(key)
        return key == keys[0]

    assert [loader_of(path, batch_size=1).dataset.key(i) for i in range(2)] == keys
    assert indices(loader_of(path, batch_size=1, subset=keys[:1])) == [[0]]
    filtered = {"key_filter": is_wanted, "key_filter_name": "first"}
    assert indices(loader_of(path, batch_size=1, subset=filtered)) == [[0]]
    assert asked == keys


# Sample numbers, as many as there may be.


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        (range(10, 5, -2), [10, 8, 6]),
        (range(3, 4, 10**30), [3]),
        ({"indices": range(2)}, [0, 1]),
        ({"indices": {5}}, [5]),
        ((np.int64(2), 1), [2, 1]),
        (np.array([3, 1, 3], np.int8), [3, 1, 3]),
        (np.arange(12, dtype=np.uint64)[::-5], [11, 6, 1]),
        (np.array([7], ">i4"), [7]),
        ([np.uint64(4)], [4]),
    ],
)
def test_sample_numbers_of_all_kinds(folder, subset, expected):
    loader = loader_of(folder, batch_size=1, subset=subset)
    assert sum(indices(loader), []) == expected


def test_a_tensor_of_sample_numbers(folder):
    torch = pytest.importorskip("torch")
    loader = loader_of(folder, batch_size=1, subset=torch.tensor([4, 2]))
    assert indices(loader) == [[4], [2]]


@pytest.mark.parametrize(
    ("subset", "found"),
    [
        (range(5, -9, -2), "indices is range(5, -9, -2); it must stay within 0 to"),
        (range(10**40), "it must stay within 0 to"),
        ([1, 2**64], "indices is 18446744073709551616; it must be a whole number"),
        ([1, True], "indices is True; it must be a whole number"),
        ([1, 2.0], "indices is 2.0; it must be a whole number"),
        (np.array([-3, 2]), "indices has -3; samples count from 0"),
        (
            np.array([0.0]),
            "indices is an array of float64 (1,); give a list of whole numbers",
        ),
        (np.array([[1]]), "indices is an array of int64 (1, 1)"),
        (
            np.ones(12, bool),
            "a one-dimensional array of integers: np.flatnonzero(mask)",
        ),
        ({"indices": 3}, "indices is 3; give a list of whole numbers, a range"),
        (range(10**7), "nor are 9999987 more of the list"),
        (np.arange(10**7), "nor are 9999987 more of the list"),
    ],
)
def test_what_sample_numbers_must_not_be(folder, subset, found):
    assert found in error_of(loader_of, folder, subset=subset)
