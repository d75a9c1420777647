# SPDX-License-Identifier: Apache-2.0
"""ImageLoader: what its arguments may be."""

import numpy as np
import pytest

import feedrace as fr
from small_loaders import IN_ORDER, error_of, indices, loader_of


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"batchsize": 3}, "no argument 'batchsize'; did you mean 'batch_size'?"),
        ({"quarantine": "x"}, "no argument 'quarantine'; did you mean 'quarantine_file'?"),
        ({"xyzzy": 3}, "no argument 'xyzzy'; there are source, batch_size"),
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number from 1 to 1048576"),
        ({"batch_size": "64"}, "batch_size is '64'; it must be a whole number"),
        ({"batch_size": 2.0}, "batch_size is 2.0; it must be a whole number"),
        ({"batch_size": True}, "batch_size is True"),
        ({"batch_size": None}, "batch_size is None"),
        ({"transform": "imagenet-trian"}, "no recipe 'imagenet-trian'; did you mean"),
        ({"transform": None}, "transform is None; give a recipe's name"),
        ({"transform": 3}, "transform is 3; give a recipe's name"),
        ({"transform": lambda x: x}, "your own functions run as fr.fn.python_function"),
        ({"shuffle": "globl"}, "shuffle is 'globl'; did you mean 'global'?"),
        ({"shuffle": 1}, "shuffle is 1; it must be one of"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616; it must be"),
        ({"last_batch": "keep"}, "last_batch is 'keep'; it must be one of None, 'drop'"),
        ({"subset": 0.9}, "subset is 0.9; give a dict"),
        ({"subset": {"shar": (0, 1)}}, "subset: no member 'shar'; did you mean 'share'?"),
        ({"subset": {"share": (0, 2)}}, "share[1] is 2"),
        ({"subset": {"key_filter": 3}}, "key_filter is 3; give a function"),
        ({"subset": [-1]}, "indices is -1"),
        ({"num_threads": -1}, "num_threads is -1"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"device": "gpuu"}, "device is 'gpuu'; it must be None, 'cpu'"),
        ({"decode_device": "gpu"}, "decode_device is 'gpu'; did you mean 'cpu'?"),
        ({"hardware_share": 1.1}, "hardware_share is 1.1"),
        ({"jpeg_engine": "turbo"}, "jpeg_engine is 'turbo'"),
        ({"cuda_plugin": 3}, "cuda_plugin is 3; give a path, or a list of paths"),
        ({"cuda_libraries": []}, "cuda_libraries is []; give a path, or a list of paths"),
        ({"fields": ()}, "fields is ()"),
        ({"fields": ("image", "image")}, "'image' twice"),
        ({"fields": ("image?",)}, "'image' is always there"),
        ({"fields": 3}, "fields is 3"),
        ({"fields": ("image", "caption")}, "caption"),
        ({"output": "tf"}, "output is 'tf'; it must be one of None, 'torch'"),
        ({"ragged": "nested"}, "ragged is 'nested'"),
        ({"on_error": "skip"}, "on_error is 'skip'; it must be one of 'raise', 'replace', 'zero'"),
        ({"error_budget": -1}, "error_budget is -1"),
        ({"error_budget_share": 1.5}, "error_budget_share is 1.5"),
        ({"quarantine_file": 3}, "quarantine_file is 3; it must be a path"),
        ({"io": "io_uring"}, "io is 'io_uring'; did you mean 'uring'?"),
        ({"io_fallback": "ignore"}, "io_fallback is 'ignore'; it must be one of 'warn', 'error'"),
        ({"page_cache": "dropp"}, "did you mean 'drop'?"),
        ({"queue_depth": 5000}, "queue_depth is 5000; it must be a whole number from 1 to 4096"),
        ({"memory_limit": "4 bananas"}, "memory_limit is '4 bananas'"),
        ({"memory_limit": -4}, "memory_limit is -4"),
        ({"memory_limit": "-4GB"}, "memory_limit is '-4GB'"),
        ({"rank": 1}, "world_size is not given; give rank and world_size, or neither"),
        ({"world_size": 2}, "rank is not given"),
        ({"rank": 2, "world_size": 2}, "rank is 2 of world_size 2; ranks count from 0"),
        ({"rank_check": "yes"}, "rank_check is 'yes'; it must be True or False"),
        ({"on_unknown": "skip"}, "on_unknown is 'skip'"),
        ({"orientation": "up"}, "orientation is 'up'; it must be one of"),
        ({"sets": [{"sources": "x"}]}, "both source and sets are given"),
        ({"label_field": "class"}, "label_field is 'class'"),
        ({"label_json_key": 3}, "label_json_key is 3; it must be a str"),
        ({"shared_cache": {"limits": 3}}, "did you mean 'limit'?"),
        ({"shared_cache": {"name": "x"}}, "shared_cache has no limit"),
        ({"shared_cache": 3}, "shared_cache is 3"),
        ({"timeout": -1}, "timeout is -1"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"max_pixels": 0}, "max_pixels is 0"),
        ({"sqpoll": 1}, "sqpoll is 1; it must be True or False"),
        ({"repeat": 0}, "repeat is 0"),
    ],
)
def test_what_an_argument_must_not_be(folder, arguments, found):
    message = error_of(loader_of, folder, **arguments)
    assert found in message
    assert len(message) < 1200


def test_arguments_without_a_name_are_refused(folder):
    message = error_of(fr.ImageLoader, folder, 64)
    assert "2 arguments without a name" in message
    assert "batch_size=64" in message


@pytest.mark.parametrize(
    ("source", "found"),
    [(None, "no source is given"), ([], "source is []"), (3, "source is 3"), ("", "source is ''")],
)
def test_a_source_that_is_none(source, found):
    assert found in error_of(fr.ImageLoader, source)


def test_a_source_that_is_not_there(tmp_path):
    message = error_of(fr.ImageLoader, tmp_path / "nowhere", code="not_found")
    assert str(tmp_path / "nowhere") in message


@pytest.mark.parametrize("device", ["cuda:", "cuda:-1", "cuda:1x", -1, True, "", "cuda:0 "])
def test_names_that_no_gpu_has(folder, device):
    message = error_of(loader_of, folder, device=device, output="dlpack")
    assert "it must be None, 'cpu', 'auto', 'cuda', 'cuda:1' or the number of a GPU" in message


@pytest.mark.parametrize("device", ["gpu", "mixed"])
def test_names_that_dali_has_for_a_gpu(folder, device):
    assert "take device='cuda', and decode_device" in error_of(loader_of, folder, device=device)


@pytest.mark.parametrize("device", [None, "cpu", "auto"])
def test_host_memory_by_any_of_its_names(folder, device):
    assert len(loader_of(folder, device=device)) == 3


def test_io_that_needs_a_gpu_is_refused(folder):
    message = error_of(loader_of, folder, io="cufile", code="invalid_argument")
    assert '"cufile", which reads raw samples and decoded pictures into a GPU' in message


def test_pictures_of_a_transform_without_any_are_refused(folder):
    arguments = {"transform": "read", "fields": ("image", "label")}
    assert "delivers no pictures" in error_of(loader_of, folder, **arguments)
    assert indices(loader_of(folder, transform="read")) == IN_ORDER


def test_numpys_numbers_are_numbers(folder):
    loader = loader_of(folder, batch_size=np.int64(3), seed=np.uint64(7), timeout=np.float32(10))
    assert len(loader) == 4


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("2GB", 2 * 10**9), ("1.5 GiB", 3 << 29), ("700mb", 7 * 10**8), (10**9, 10**9)],
)
def test_a_memory_limit_is_bytes_or_a_text(folder, text, size_bytes):
    plan = loader_of(folder, memory_limit=text).plan
    assert plan.memory["limit_bytes"] == size_bytes


def test_several_sources(shard, folder, odd_folder):
    assert len(loader_of([shard, str(shard)[:-4] + ".tar"]).dataset) == 12
    assert "[0]" in error_of(loader_of, [3])
    both = loader_of(None, sets=[{"sources": folder}, {"sources": odd_folder, "name": "odd"}])
    assert len(both.dataset) == 17


@pytest.mark.parametrize(
    ("sets", "found"),
    [
        (3, "sets is 3; give a list of dicts"),
        ([], "sets is []"),
        ([{"name": "x"}], "sets[0] is {'name': 'x'}"),
        ([{"sources": "x", "weigh": 2}], "did you mean 'weight'?"),
        ([{"sources": "x", "weight": -2}], "sets[0]['weight'] is -2"),
        ([{"sources": "x", "subset": {"share": 1}}], "share is 1"),
    ],
)
def test_what_sets_must_not_be(sets, found):
    assert found in error_of(loader_of, None, sets=sets)


def test_settings_of_one_set_do_not_go_with_several(folder):
    message = error_of(loader_of, None, sets=[{"sources": folder}], subset=[1])
    assert "subset is given beside sets; give it to each of the sets" in message


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        ([3, 1], [3, 1]),
        (range(4, 6), [4, 5]),
        (np.array([7]), [7]),
        (["bee/0.jpg"], [4]),
        ({"key_pattern": "cat*"}, [9, 10, 11]),
        ({"key_filter": lambda key: "1" in key, "key_filter_name": "ones"}, [1, 5, 10]),
    ],
)
def test_subsets(folder, subset, expected):
    assert sum(indices(loader_of(folder, subset=subset)), []) == expected


def test_shares_are_disjoint_and_whole(folder):
    parts = [loader_of(folder, subset={"share": share}) for share in ((0, 0.5), (0.5, 1))]
    found = [set(sum(indices(part), [])) for part in parts]
    assert found[0] | found[1] == set(range(12))
    assert not found[0] & found[1]


def test_orientation_is_passed_on(folder):
    loader = loader_of(folder, orientation="upright")
    assert loader.transform.step("decode")["orientation"] == "upright"
