# SPDX-License-Identifier: Apache-2.0
"""What `ImageLoader` has in the place of the arguments of the loaders that people come from."""

from __future__ import annotations

from collections.abc import Iterable

from feedrace.errors import Error, invalid, unknown

__all__ = ["unknown_argument"]

_NO_PROCESSES = "leave it out: there are no worker processes; num_threads=N sets decode threads"
_PINNED = (
    "device='cuda' delivers to the GPU, from pinned memory; with device='cpu' leave it out, and "
    "images.to(device) moves a batch"
)
_ALWAYS = "leave it out: batches are always made ahead"
_BY_SEED = "seed=N: all random numbers are functions of (seed, epoch, sample)"
_RANKS = "leave it out: ranks share one order of samples, by rank and world_size"

_OF_DATA_LOADER = {
    "dataset": "give source a folder, tar shards or a list; a Dataset of your own can't be one",
    "sampler": "shuffle, seed and subset say which samples come in which order; ranks and epochs "
    "are built in",
    "batch_sampler": "batch_size and last_batch say what a batch is, shuffle and subset which "
    "samples come in which order",
    "num_workers": _NO_PROCESSES,
    "collate_fn": "a function of whole batches is fr.fn.python_function(..., batch=True) in a "
    "@fr.pipeline; ragged says what becomes of pictures of different sizes",
    "pin_memory": _PINNED,
    "drop_last": "last_batch='drop' for True, last_batch='partial' for False",
    "worker_init_fn": f"{_NO_PROCESSES}, and {_BY_SEED}",
    "multiprocessing_context": _NO_PROCESSES,
    "generator": _BY_SEED,
    "persistent_workers": _NO_PROCESSES,
    "pin_memory_device": _PINNED,
    "in_order": "leave it out: batches come in the same order every time",
}

_OF_WEBDATASET = {
    "urls": "give source the shards: a folder, a brace pattern, or a list of them",
    "shardshuffle": "shuffle=True mixes all samples of all shards; shuffle='window' neighbours",
    "detshuffle": _BY_SEED,
    "resampled": "leave it out: each sample comes once an epoch; sets=[...] with a weight mixes "
    "data sets",
    "nodesplitter": _RANKS,
    "workersplitter": _NO_PROCESSES,
    "split_by_node": _RANKS,
    "split_by_worker": _NO_PROCESSES,
    "handler": "on_error='replace' or 'zero' goes on behind a bad sample; quarantine_file lists it",
    "decode": "transform decodes: a recipe, a Compose of torchvision, or a pipeline",
    "map": "transform: a Compose of torchvision, or fr.fn.python_function in a @fr.pipeline",
    "to_tuple": "fields=('image', 'label', 'json', ...) says what a batch consists of",
    "select_files": "subset={'key_pattern': ...} or {'key_filter': ...} chooses samples",
    "cache_size": "shared_cache='20GB' keeps encoded samples in memory",
    "empty_check": "leave it out: shards without samples are an error when the loader is made",
}

_OF_DALI = {
    "device_id": "device='cuda:1' delivers to GPU 1",
    "hw_decoder_load": "hardware_share=0.65, of the encoded bytes",
    "prefetch_queue_depth": "prefetch_factor=3 batches ahead",
    "exec_async": _ALWAYS,
    "exec_pipelined": _ALWAYS,
    "file_root": "source",
    "random_shuffle": "shuffle=True",
    "reader_name": "leave it out: a loader has one source, and len(loader) batches an epoch",
    "last_batch_policy": "last_batch='fill', 'drop' or 'partial'",
    "num_shards": "rank and world_size, or leave it out: torch.distributed and launchers say it",
    "shard_id": "rank and world_size, or leave it out: torch.distributed and launchers say it",
}

_LIBRARIES = {
    "torch's DataLoader": _OF_DATA_LOADER,
    "WebDataset": _OF_WEBDATASET,
    "DALI": _OF_DALI,
}


def unknown_argument(where: str, name: str, known: Iterable[str]) -> Error:
    """The error of an argument that there is not, with what stands in its place here."""
    for library, counterparts in _LIBRARIES.items():
        if name in counterparts:
            found = f"no argument {name!r}, which {library} has"
            return invalid(where, found, f"here: {counterparts[name]}")
    return unknown(where, "argument", name, known)
