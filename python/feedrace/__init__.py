# SPDX-License-Identifier: Apache-2.0
"""Feedrace feeds training data from storage to the accelerator.

::

    import feedrace as fr

    loader = fr.ImageLoader("/data/train", batch_size=256)
    for images, labels in loader:
        ...

Importing it imports no framework: torch, JAX and NumPy come in with the first batch that needs
them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from feedrace import fn
from feedrace._feedrace import DeviceArray, recipe_names
from feedrace._feedrace import version as __version__
from feedrace.devices import gpu_info
from feedrace.errors import Error
from feedrace.loader import ImageLoader
from feedrace.missing import missing_name
from feedrace.outputs import Jagged
from feedrace.packing import PackPlan, PackProgress, PackReport, finish_pack, pack

# The functions, not the modules of the same names: these stand in the package from here on.
from feedrace.pipeline import Pipeline, PipelineFunction, pipeline
from feedrace.progress import progress
from feedrace.show import show
from feedrace.verify import VerifyReport, verify

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "DeviceArray",
    "Error",
    "ImageLoader",
    "Jagged",
    "PackPlan",
    "PackProgress",
    "PackReport",
    "Pipeline",
    "PipelineFunction",
    "VerifyReport",
    "__version__",
    "finish_pack",
    "fn",
    "gpu_info",
    "pack",
    "pipeline",
    "progress",
    "recipe_names",
    "show",
    "verify",
]

# Of values in [0, 1], red, green, blue: as torchvision's models expect them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# Imported when first asked for: they need a framework, or are not needed by most.
_LAZY_MODULES = ("dali", "parity", "torch", "transforms")


if TYPE_CHECKING:
    from feedrace import dali as dali
    from feedrace import parity as parity
    from feedrace import torch as torch
    from feedrace import transforms as transforms
else:  # Not for type checkers, which would take every name for one that is there.

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            return importlib.import_module(f"feedrace.{name}")
        raise missing_name("feedrace", name, __dir__(), "operators are in feedrace.fn")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY_MODULES])
