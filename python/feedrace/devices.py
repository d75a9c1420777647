# SPDX-License-Identifier: Apache-2.0
"""GPUs: where the plug-in and NVIDIA's libraries are, which GPU is meant, and what there is."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from feedrace import _feedrace
from feedrace.errors import as_tuple, check_names, check_path, invalid, shown

__all__ = ["gpu_info", "library_folders", "native_device", "plugin_places"]

_PLUGIN_PACKAGE = "feedrace_cuda"
# In site-packages: nvJPEG and cuFile, where NVIDIA's wheels of CUDA 13 are installed.
_WHEEL_FOLDER = Path("nvidia/cu13/lib")
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def gpu_info(
    *extra: NoReturn,
    cuda_plugin: Paths | None = None,
    cuda_libraries: Paths | None = None,
    **others: NoReturn,
) -> dict[str, Any]:
    """What of a GPU this machine has, as ``feedrace gpu-info --json`` prints it.

    Args:
        cuda_plugin, cuda_libraries: As `ImageLoader` has them.

    Returns:
        "devices", a dict each; "devices_missing", why there are none; "driver", "nvml", "nvjpeg",
        "cufile", each with its version and file, or with "missing" and "remedy"; "plugin".

    Raises:
        Error: The plug-in was not loaded ("unsupported"); it names all places that were tried.
    """
    where = "fr.gpu_info"
    names = ("cuda_plugin", "cuda_libraries")
    if extra:
        raise invalid(where, f"{len(extra)} arguments without a name", f"name them: {names[0]}=...")
    check_names(where, "argument", others, names)
    given = {
        "plugin": plugin_places(_checked(where, names[0], cuda_plugin)),
        "libraries": library_folders(_checked(where, names[1], cuda_libraries)),
    }
    facts: dict[str, Any] = json.loads(_feedrace.gpu_info(**given))
    return facts


def _checked(where: str, name: str, given: Any) -> list[str] | None:
    if given is None:
        return None
    if isinstance(given, (str, bytes, os.PathLike)):
        return [check_path(where, name, given)]
    items = as_tuple(given)
    if not items:
        raise invalid(where, f"{name} is {shown(given)}", "give a path, or a list of paths")
    return [check_path(where, f"{name}[{i}]", item) for i, item in enumerate(items)]


def plugin_places(given: list[str] | None) -> list[str]:
    """Where the plug-in is; empty: where the native library looks by itself."""
    if given is not None:
        return given
    if named := os.environ.get("FEEDRACE_CUDA_PLUGIN"):
        return [named]
    spec = importlib.util.find_spec(_PLUGIN_PACKAGE)  # Which does not import it.
    return list(spec.submodule_search_locations or ()) if spec else []


def library_folders(given: list[str] | None) -> list[str]:
    """Folders of NVIDIA's libraries, before the system's places."""
    if given is not None:
        return given
    if named := os.environ.get("FEEDRACE_CUDA_LIBRARIES"):
        return [named]
    # Not by the package "nvidia": one of its wheels may hide those of another folder.
    folders = [Path(place) / _WHEEL_FOLDER for place in sys.path]
    return [str(folder) for folder in folders if os.path.isdir(folder)]


def native_device(device: str) -> str:
    """The device for the native loader. "cuda" is torch's current GPU, once torch uses GPUs.

    A program of several ranks calls torch.cuda.set_device, and means that one; so does "auto".
    """
    # As an attribute of what is imported: nothing of torch is imported here.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if device in ("cuda", "auto") and cuda is not None and cuda.is_initialized():
        number = cuda.current_device()
        return device if number == 0 else f"cuda:{number}"
    return device
