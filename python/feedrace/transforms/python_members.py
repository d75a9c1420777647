# SPDX-License-Identifier: Apache-2.0
"""The members of a Compose that have no native operator, run as Python on each sample."""

from __future__ import annotations

import hashlib
import random
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from feedrace.errors import error, shown, unsupported
from feedrace.transforms.walk import Member


class PythonMembers:
    """Runs members one after another on each image of a batch, on the consumer's thread.

    Random numbers of torch, `random` and NumPy are seeded by (seed, epoch, sample) before each
    sample, so a sample gets the same ones whatever batch, rank or resumed run it comes in. The
    generators of the program are given back as they were; while a batch is made, another thread
    that draws from them would disturb both.

    Args:
        members: In the order of their application; at least one.
        holder: What the first one is given: "pil" a PIL image of mode RGB, "image" a
            torchvision.tv_tensors.Image, "tensor" a torch.Tensor; both [3, H, W].
    """

    def __init__(self, members: Sequence[Member], holder: str) -> None:
        self.members = tuple(members)
        self.holder = holder
        self._samples = 0
        self._seconds = 0.0

    def __call__(self, images: Any, labels: Any, info: Any) -> tuple[Any, Any]:
        """A batch through the members.

        Args:
            images: Array [N, H, W, 3] (uint8, for "pil") or [N, 3, H, W], or a sequence of N such
                images of different sizes; of torch, NumPy or JAX. May be changed in place.
            labels: Given back as they are.
            info: With `seed`, `epoch`, and `indices`, one for each image.

        Returns:
            Images and labels. Images of one shape and dtype are stacked to one array, others are a
            list; of the library that the argument came from.

        Raises:
            feedrace.Error: A member raised, or gave what is no image ("corrupt_data"); torch is not
                there ("unsupported"). The message names sample and member.
        """
        count = len(images)
        if count == 0:
            return images, labels
        torch = _import_torch()
        begin = time.perf_counter()
        library = type(images[0]).__module__.partition(".")[0]
        outputs = []
        with _borrowed_generators(torch):
            for place, index in zip(range(count), _to_list(info.indices), strict=True):
                _seed_generators(torch, info.seed, info.epoch, index)
                sample = f"sample {index} (place {place} of its batch)"
                outputs.append(self._run(torch, images[place], sample))
        result = _collate(torch, outputs, library)
        self._samples += count
        self._seconds += time.perf_counter() - begin
        return result, labels

    def explain(self) -> str:
        """One sentence: who runs as Python, and what it has cost so far."""
        names = ", ".join(member.name for member in self.members)
        text = f"{names} of the transform run as Python on the consumer's thread"
        if not self._samples:
            return text
        cost_ms = 1000 * self._seconds / self._samples
        return f"{text}: {cost_ms:.3g} ms a sample over {self._samples} samples"

    def _run(self, torch: Any, image: Any, sample: str) -> Any:
        value = self._held(torch, image)
        for member in self.members:
            try:
                value = member.transform(value)
            except Exception as cause:
                text = " ".join(f"{type(cause).__name__}: {cause}".split())
                fix = "mend the member, or leave the sample out by subset"
                raise error(
                    "corrupt_data", f"{sample}: {member.where} raised {text}; {fix}"
                ) from cause
        output = _to_tensor(torch, value)
        if output is None:
            found = f"{self.members[-1].where} gave {shown(value)}"
            fix = "let it give a tensor, an array or a PIL image"
            raise error("corrupt_data", f"{sample}: {found}; {fix}")
        return output

    def _held(self, torch: Any, image: Any) -> Any:
        tensor = image if isinstance(image, torch.Tensor) else torch.from_dlpack(image)
        if self.holder == "pil":
            from PIL import Image

            return Image.fromarray(tensor.numpy())
        if self.holder == "image":
            from torchvision import tv_tensors

            return tv_tensors.Image(tensor)
        return tensor


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as cause:
        found = f"members that run as Python need torch, which does not import ({cause})"
        raise unsupported("transform", found, "install torch, or use native operators") from cause
    return torch


@contextmanager
def _borrowed_generators(torch: Any) -> Iterator[None]:
    """Gives the generators back as they were. Only the CPU's of torch is touched."""
    python_state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = None if numpy is None else numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


def _seed_generators(torch: Any, seed: int, epoch: int, index: int) -> None:
    key = struct.pack("<3Q", *(number & (2**64 - 1) for number in (seed, epoch, index)))
    digest = hashlib.blake2b(key, digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    # Not torch.manual_seed: that would seed the generators of GPUs too.
    torch.default_generator.manual_seed(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & (2**32 - 1))


def _to_list(indices: Any) -> list[int]:
    as_list = getattr(indices, "tolist", None)
    return as_list() if as_list is not None else [int(index) for index in indices]


def _to_tensor(torch: Any, value: Any) -> Any | None:
    """An output as a plain tensor: PIL images become [C, H, W], arrays stay as they are."""
    if isinstance(value, torch.Tensor):
        return value.as_subclass(torch.Tensor)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray) and value.dtype != object:
        return torch.from_numpy(numpy.require(value, requirements=["C", "W"]))
    if type(value).__module__.partition(".")[0] == "PIL" and hasattr(value, "getbands"):
        # NumPy moves the axes on this thread alone; torch would ask its pool for each sample.
        pixels = numpy.array(value)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        return torch.from_numpy(numpy.require(pixels, requirements=["C", "W"]))
    return None


def _collate(torch: Any, outputs: list[Any], library: str) -> Any:
    first = outputs[0]
    if all(one.shape == first.shape and one.dtype == first.dtype for one in outputs):
        return _to_library(torch.stack(outputs), library)
    return [_to_library(one, library) for one in outputs]


def _to_library(tensor: Any, library: str) -> Any:
    if library == "numpy":
        return tensor.numpy()
    if library in ("jax", "jaxlib"):
        import jax

        return jax.dlpack.from_dlpack(tensor.contiguous())
    return tensor
