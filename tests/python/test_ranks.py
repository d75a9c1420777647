# SPDX-License-Identifier: Apache-2.0
"""Rank and world size: from arguments, from torch.distributed, from the environment."""

import json
import os
import subprocess
import sys
import textwrap
import types

import pytest

import feedrace as fr
from feedrace.ranks import find_world

# Far above what anything here takes, on a busy machine too, where importing torch takes minutes.
HANG_SECONDS = 300


def distributed_of(rank, world_size, is_available=True, is_initialized=True):
    """What torch looks like to find_world."""

    def all_gather_object(texts, text):
        texts[:] = [f"{text} of {other}" for other in range(world_size)]

    distributed = types.SimpleNamespace(
        is_available=lambda: is_available,
        is_initialized=lambda: is_initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
        all_gather_object=all_gather_object,
    )
    return types.SimpleNamespace(distributed=distributed)


def test_without_torch_nothing_is_known_here(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert find_world(None, None, check=True) == (None, None, None)
    assert find_world(1, 4, check=True) == (1, 4, None)


@pytest.mark.parametrize("state", [{"is_available": False}, {"is_initialized": False}])
def test_torch_without_a_process_group_says_nothing(monkeypatch, state):
    monkeypatch.setitem(sys.modules, "torch", distributed_of(1, 4, **state))
    assert find_world(None, None, check=True) == (None, None, None)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace())
    assert find_world(None, None, check=True) == (None, None, None)


def test_a_process_group_gives_rank_size_and_the_comparison(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", distributed_of(1, 3))
    rank, world_size, all_gather = find_world(None, None, check=True)
    assert (rank, world_size) == (1, 3)
    assert all_gather("x") == ["x of 0", "x of 1", "x of 2"]
    assert find_world(None, None, check=False) == (1, 3, None)


def test_arguments_stand_above_the_process_group(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", distributed_of(1, 3))
    # A validation on one rank only must not wait for the others.
    assert find_world(0, 1, check=True) == (0, 1, None)
    assert find_world(1, 3, check=True).all_gather is not None


def run(script, env, *args):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results_of(processes):
    results = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, err
            results.append(json.loads(out.splitlines()[-1]))
    finally:
        for process in processes:
            process.kill()
    return results


GLOO = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(250, exit=True)  # A hang says where.
import torch.distributed as dist
import feedrace as fr

folder, store, rank, world_size, settings = sys.argv[1:]
dist.init_process_group(
    "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world_size)
)
try:
    loader = fr.ImageLoader(
        folder, batch_size=2, transform="imagenet-val", fields=("index", "flag"),
        num_threads=1, **json.loads(settings)[int(rank)],
    )
    batches = [[index.tolist(), flag.tolist()] for index, flag in loader]
    print(json.dumps([loader.plan.rank, loader.plan.world_size, loader.plan.world_source, batches]))
except fr.Error as e:
    print(json.dumps([e.code, str(e)]))
finally:
    dist.destroy_process_group()
"""


def gloo(folder, tmp_path, settings):
    world_size = len(settings)
    arguments = (folder, tmp_path / "store")
    # A launcher's variables that say something else must not win.
    env = {"RANK": "7", "WORLD_SIZE": "8"}
    return results_of(
        [
            run(GLOO, env, *arguments, rank, world_size, json.dumps(settings))
            for rank in range(world_size)
        ]
    )


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_of_a_process_group_share_an_epoch_of_uneven_data(folder, tmp_path, world_size):
    pytest.importorskip("torch")
    found = gloo(folder, tmp_path, [{"subset": list(range(11))}] * world_size)
    assert [(rank, size) for rank, size, *_ in found] == [
        (r, world_size) for r in range(world_size)
    ]
    steps = {len(batches) for *_, batches in found}
    assert len(steps) == 1
    sizes = [[len(index) for index, _ in batches] for *_, batches in found]
    assert all(size == sizes[0] for size in sizes)
    real = [
        sample
        for *_, batches in found
        for index, flag in batches
        for sample, is_padded in zip(index, flag, strict=True)
        if not is_padded
    ]
    assert sorted(real) == list(range(11))


def test_ranks_that_differ_are_named(folder, tmp_path):
    pytest.importorskip("torch")
    found = gloo(folder, tmp_path, [{"seed": 1}, {"seed": 2}])
    for code, message in found:
        assert code == "invalid_argument"
        assert "seed" in message
        assert "rank 1" in message


def test_ranks_are_not_compared_where_that_is_not_wanted(folder, tmp_path):
    pytest.importorskip("torch")
    settings = [{"seed": seed, "rank_check": False} for seed in (1, 2)]
    found = gloo(folder, tmp_path, settings)
    assert [rank for rank, *_ in found] == [0, 1]


ENVIRONMENT = """
import json, sys
import feedrace as fr

loader = fr.ImageLoader(sys.argv[1], batch_size=2, transform="imagenet-val", fields=("index",))
assert "torch" not in sys.modules
print(json.dumps([loader.plan.rank, loader.plan.world_size, loader.plan.world_source]))
"""


def test_the_environment_of_a_launcher_says_rank_and_size(folder):
    process = run(ENVIRONMENT, {"RANK": "1", "WORLD_SIZE": "3"}, folder)
    ((rank, world_size, source),) = results_of([process])
    assert (rank, world_size) == (1, 3)
    assert "torchrun" in source


def test_a_rank_gets_its_share(folder):
    loaders = [
        fr.ImageLoader(
            folder,
            batch_size=2,
            transform="imagenet-val",
            fields=("index",),
            output="numpy",
            rank=rank,
            world_size=3,
        )
        for rank in range(3)
    ]
    shares = [[i for (index,) in loader for i in index.tolist()] for loader in loaders]
    assert [len(share) for share in shares] == [4, 4, 4]
    assert sorted(sum(shares, [])) == list(range(12))
