# SPDX-License-Identifier: Apache-2.0
"""The native loader's arrays as those of torch, JAX or NumPy: by DLPack, without a copy.

Arrays on a GPU are the framework's on that GPU: DLPack tells the loader the stream that it works
on, and that goes on behind the copies to the GPU.

An array holds its memory: it is the consumer's until the last array over it is gone, also after the
loader was closed, and nothing writes into it meanwhile.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from feedrace._feedrace import DeviceArray
from feedrace.errors import error, invalid, shown, text_of, unsupported

Convert = Callable[[Any], Any]


def choose_output(output: str | None) -> str:
    """The output that was asked for, if it is there; None: torch where importable, else NumPy."""
    if output == "dlpack":
        return output
    module = output or "torch"
    # Looked for and not imported: that takes seconds and can wait for the first batch.
    if importlib.util.find_spec(module) is not None:
        return module
    if output is None:
        return choose_output("numpy")
    fix = f"pip install {module}, or take another output"
    raise error("unsupported", f"ImageLoader: output is {output!r}, but it is not installed; {fix}")


def converter(output: str) -> Convert:
    """The function that turns a native array into one of `output`. Imports the framework."""
    if output == "torch":
        import torch

        from_dlpack: Convert = torch.from_dlpack
        return from_dlpack
    if output == "jax":
        return _jax_converter()
    to_numpy = _numpy_converter()
    if output == "dlpack":
        return lambda array: array if isinstance(array, DeviceArray) else to_numpy(array)
    return to_numpy


def torch_refusal() -> str:
    """Why torch takes no memory of a GPU; "" where it does."""
    import torch

    if torch.backends.cuda.is_built():
        return ""
    return f"torch {torch.__version__} is built without CUDA: install one with it"


def _jax_converter() -> Convert:
    import jax

    def convert(array: Any) -> Any:
        try:
            return jax.dlpack.from_dlpack(array)
        except RuntimeError as e:
            if not isinstance(array, DeviceArray):
                raise
            found = f"JAX takes no memory of {array.device} ({text_of(e)})"
            fix = "install jax[cuda13], or take device='cpu'"
            raise unsupported("ImageLoader", found, fix) from e

    return convert


def _numpy_converter() -> Convert:
    import numpy as np

    def convert(array: Any) -> Any:
        if isinstance(array, np.ndarray):
            return array
        made = np.from_dlpack(array)
        # NumPy takes whoever says nothing about writing (DLPack before 1.0) for read-only.
        return made if made.flags.writeable else np.asarray(_Writable(made))

    return convert


class _Writable:
    """The memory of an array, once more and writable; keeps the array alive."""

    def __init__(self, array: Any) -> None:
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


class Jagged(Sequence[Any]):
    """Pictures of different sizes in one buffer.

    Attributes:
        values: All elements, one picture after another: [sum of sizes].
        offsets: int64 [N + 1]; picture i is values[offsets[i]:offsets[i + 1]].
        shapes: int64 [N, 3]; of each picture [3, H, W] or [H, W, 3].
    """

    def __init__(self, values: Any, offsets: Any, shapes: Any) -> None:
        self.values = values
        self.offsets = offsets
        self.shapes = shapes

    def __len__(self) -> int:
        return int(self.shapes.shape[0])

    def __getitem__(self, place: Any) -> Any:
        """Picture `place` as a view of `values` (of JAX, which has no views, a copy)."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        count = len(self)
        if not -count <= place < count:
            raise IndexError(f"picture {place} of {count}")
        place %= count
        begin, end = int(self.offsets[place]), int(self.offsets[place + 1])
        return self.values[begin:end].reshape([int(side) for side in self.shapes[place]])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def to_nested(self) -> Any:
        """As a torch nested tensor (strided layout; a copy), of torch output only."""
        if type(self.values).__module__.partition(".")[0] != "torch":
            found = f"its values are {shown(type(self.values))}"
            raise invalid("Jagged.to_nested", found, "take output='torch'")
        import torch

        return torch.nested.nested_tensor(list(self), layout=torch.strided)

    def __repr__(self) -> str:
        return f"<feedrace.Jagged of {len(self)} pictures, {self.values.shape[0]} values>"
