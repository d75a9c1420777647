# SPDX-License-Identifier: Apache-2.0
"""Arguments of other loaders: the error says what stands in their place, and so do the pages."""

import inspect
import re
from pathlib import Path

import pytest

import feedrace as fr
from small_loaders import error_of, loader_of

DOCS = Path(__file__).parent.parent.parent / "docs"
OWN = inspect.signature(fr.ImageLoader).parameters
PROCESSES = (
    "num_workers",
    "persistent_workers",
    "worker_init_fn",
    "multiprocessing_context",
    "workersplitter",
    "split_by_worker",
)
# What stands in place of others' arguments: the argument, and what its error must name.
DATA_LOADER = {
    "dataset": "source",
    "sampler": "shuffle, seed and subset",
    "batch_sampler": "batch_size and last_batch",
    "collate_fn": "fr.fn.python_function(..., batch=True)",
    "pin_memory": "device='cuda' delivers to the GPU",
    "pin_memory_device": "device='cuda' delivers to the GPU",
    "drop_last": "last_batch='drop'",
    "generator": "seed=N",
    "in_order": "the same order",
}
WEBDATASET = {
    "urls": "source",
    "shardshuffle": "shuffle='window'",
    "detshuffle": "seed=N",
    "resampled": "sets=[...] with a weight",
    "nodesplitter": "rank and world_size",
    "split_by_node": "rank and world_size",
    "handler": "on_error='replace'",
    "decode": "transform",
    "map": "transform",
    "to_tuple": "fields=(",
    "select_files": "key_pattern",
    "cache_size": "shared_cache='20GB'",
    "empty_check": "leave it out",
}
DALI = {
    "device_id": "device='cuda:1'",
    "hw_decoder_load": "hardware_share=0.65",
    "prefetch_queue_depth": "prefetch_factor=3",
    "exec_async": "made ahead",
    "exec_pipelined": "made ahead",
    "file_root": "source",
    "random_shuffle": "shuffle=True",
    "reader_name": "len(loader)",
    "last_batch_policy": "last_batch='fill'",
    "num_shards": "world_size",
    "shard_id": "rank",
}


@pytest.mark.parametrize("name", DATA_LOADER)
def test_arguments_of_the_data_loader(folder, name):
    message = error_of(loader_of, folder, **{name: None})
    assert f"no argument '{name}', which torch's DataLoader has; here: " in message
    assert DATA_LOADER[name] in message


@pytest.mark.parametrize("name", WEBDATASET)
def test_arguments_of_webdataset(folder, name):
    message = error_of(loader_of, folder, **{name: None})
    assert f"no argument '{name}', which WebDataset has; here: " in message
    assert WEBDATASET[name] in message


@pytest.mark.parametrize("name", DALI)
def test_arguments_of_dali(folder, name):
    message = error_of(loader_of, folder, **{name: None})
    assert f"no argument '{name}', which DALI has; here: " in message
    assert DALI[name] in message


@pytest.mark.parametrize("name", PROCESSES)
def test_arguments_of_worker_processes(folder, name):
    message = error_of(loader_of, folder, **{name: 4})
    assert "no worker processes; num_threads=N" in message


@pytest.mark.parametrize("name", [*DATA_LOADER, *WEBDATASET, *DALI, *PROCESSES])
def test_what_an_error_advises_is_there(folder, name):
    advised = re.findall(r"\b([a-z_]+)=", error_of(loader_of, folder, **{name: None}))
    assert set(advised) - {"batch"} <= set(OWN)  # python_function(..., batch=True)


def test_the_size_of_a_shuffle_buffer(folder):
    message = error_of(loader_of, folder, shuffle=5000)
    assert "shuffle='window', shuffle_window=5000" in message
    assert "it must be one of" in error_of(loader_of, folder, shuffle=-1)


def test_other_names_are_answered_as_ever(folder):
    assert "did you mean 'batch_size'? There are source" in error_of(
        loader_of, folder, batch_sise=3
    )


def first_cells(page):
    """Of the tables of a page: the code in the first column."""
    rows = re.findall(r"^\| (.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return " ".join(code for row in rows for code in re.findall(r"`([^`]+)`", row))


def test_every_argument_of_torchs_data_loader_is_known():
    data_loader = pytest.importorskip("torch.utils.data").DataLoader
    names = set(inspect.signature(data_loader).parameters)
    assert names <= {*DATA_LOADER, *PROCESSES, *OWN}
    cells = first_cells("from-dataloader.md")
    assert [name for name in names if not re.search(rf"\b{name}\b", cells)] == []


def test_the_page_of_webdataset_has_what_its_users_look_for():
    cells = first_cells("from-webdataset.md")
    wanted = (
        "__key__ pipe: shardshuffle shuffle(5000) split_by_node split_by_worker resampled to_tuple "
        "map decode {000..499}"
    )
    assert [word for word in wanted.split() if word not in cells] == []
