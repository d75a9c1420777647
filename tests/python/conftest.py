# SPDX-License-Identifier: Apache-2.0
"""Data sets that the tests of the Python package share."""

import gc
import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# Where it is not installed, the checkout's own, which holds the native module once that is built.
if importlib.util.find_spec("feedrace") is None:
    sys.path.insert(0, str(HERE.parent.parent / "python"))

from small_sets import fields_of, write_classes, write_shard  # noqa: E402


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Three class folders with 4, 5 and 3 pictures."""
    return write_classes(tmp_path_factory.mktemp("folder"), {"ant": 4, "bee": 5, "cat": 3})


@pytest.fixture(scope="session")
def odd_folder(tmp_path_factory):
    """A class of 5 pictures of different sizes: width 10 + i, height 20 - i."""
    root = tmp_path_factory.mktemp("odd")
    return write_classes(root, {"only": 5}, lambda seed: (10 + seed, 20 - seed))


@pytest.fixture(scope="session")
def shard(tmp_path_factory):
    """A tar of 6 samples with the fields of `fields_of`."""
    path = tmp_path_factory.mktemp("shard") / "000.tar"
    return write_shard(path, {f"{i:04}": fields_of(i) for i in range(6)})


@pytest.fixture(scope="session")
def dali_folder(tmp_path_factory):
    """The 13 pictures of `dali_sets`, in 3 class folders."""
    from dali_sets import write_folder

    return write_folder(tmp_path_factory.mktemp("dali") / "pictures")


@pytest.fixture(scope="session")
def dali_shard(tmp_path_factory, dali_folder):
    """The same samples as a shard."""
    from dali_sets import write_shard

    return write_shard(tmp_path_factory.mktemp("dali-shards"), dali_folder)


@pytest.fixture
def stubs():
    """The stub libraries of CUDA, as new; afterwards all that was taken of them is back."""
    from gpu_stubs import PLUGIN, Stubs

    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built: configure with -DFEEDRACE_CUDA=ON")
    stubs = Stubs()
    stubs.reset()
    yield stubs
    gc.collect()
    stubs.reset()
    assert (stubs.memory_in_use, stubs.objects) == (0, 0)


@pytest.fixture
def cuda(stubs, monkeypatch):
    """torch as if it had CUDA, and what stands for torch.cuda."""
    pytest.importorskip("torch", reason="torch is not installed")
    from gpu_torch import give_torch_cuda

    return give_torch_cuda(monkeypatch)


@pytest.fixture(scope="session")
def dali_pytorch():
    """The module of iterators for torch."""
    pytest.importorskip("torch", reason="torch is not installed")
    from feedrace.dali.plugin import pytorch

    return pytorch
