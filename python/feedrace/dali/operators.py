# SPDX-License-Identifier: Apache-2.0
"""What all operators share: names checked when they are called, and what is missing says so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from feedrace import errors
from feedrace.calls import check_call
from feedrace.dali import nodes, types
from feedrace.missing import not_there

Function = TypeVar("Function", bound=Callable[..., Any])

# Of every operator. Where it runs follows from the pipeline's device_id.
_DEVICES = ("cpu", "gpu", "mixed")
_COMMON_HINTS = ("bytes_per_sample_hint", "preserve")
COMMON = ("device", "seed", "name", *_COMMON_HINTS)
_KNOWN: dict[str, str] = {
    # What people look for most, and where feedrace has it.
    "fn.external_source": "a feedrace.ImageLoader reads the files itself",
    "fn.python_function": "feedrace.fn.python_function runs Python on samples or batches",
    "fn.color_twist": "feedrace.fn.color_jitter has brightness, contrast, saturation and hue",
    "fn.brightness_contrast": "feedrace.fn.color_jitter has brightness and contrast",
    "fn.brightness": "feedrace.fn.color_jitter has it",
    "fn.contrast": "feedrace.fn.color_jitter has it",
    "fn.saturation": "feedrace.fn.color_jitter has it",
    "fn.hue": "feedrace.fn.color_jitter has it",
    "fn.hsv": "feedrace.fn.color_jitter has hue and saturation",
    "fn.pad": "feedrace.fn.pad pads pictures",
    "fn.erase": "feedrace.fn.random_erasing erases a random rectangle",
    "fn.normalize": "fn.crop_mirror_normalize takes given mean and std",
    "fn.readers.tfrecord": "fn.readers.webdataset reads tar shards",
    "fn.readers.mxnet": "fn.readers.webdataset reads tar shards",
}


@dataclass(frozen=True)
class Arguments:
    """What an operator takes by name, beside what every operator takes."""

    taken: tuple[str, ...]
    only: Mapping[str, tuple[Any, ...]]  # With these values alone; the first one if left out.
    hints: tuple[str, ...]  # Accepted: they change nothing but memory or speed in DALI.


def operator(
    name: str,
    hints: Sequence[str] = (),
    only: Mapping[str, tuple[Any, ...]] | None = None,
    also: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Wraps an operator: its arguments are checked, then `hints` and `only` taken out.

    `also` are the arguments that the operator takes as ``**name``. What it takes at all is its
    attribute `arguments`.
    """

    def wrap(function: Function) -> Function:
        signature = inspect.signature(function)
        by_name = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
        own = (*(one.name for one in by_name), *also)
        hidden = ("name", "seed")
        arguments = Arguments(
            tuple(one for one in own if one not in hidden), dict(only or {}), tuple(hints)
        )
        whole = _with_names(signature, (*also, *arguments.only, *hints, *COMMON))

        @functools.wraps(function)
        def call(*inputs: Any, **given: Any) -> Any:
            graph = nodes.current(name)
            check_call(name, whole, inputs, given)
            device = errors.check_choice(name, "device", given.pop("device", "cpu"), _DEVICES)
            graph.uses_gpu = graph.uses_gpu or device != "cpu"
            if name.startswith("fn.decoders."):
                graph.decode_device = "cpu" if device == "cpu" else "cuda"
            for key, values in arguments.only.items():
                _check_only(name, key, given.pop(key, values[0]), values)
            for key in (*arguments.hints, *_COMMON_HINTS):
                if given.pop(key, None) is not None:
                    graph.note(f"{name}: {key} has no effect here: memory and speed need no hints")
            if "name" not in own:
                given.pop("name", None)
            if "seed" not in own and seed_of(name, given.pop("seed", None)) is not None:
                graph.note(f"{name}: its seed has no effect: the pipeline's seed decides all draws")
            return function(*inputs, **given)

        call.arguments = arguments  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return wrap


def _with_names(signature: inspect.Signature, names: Sequence[str]) -> inspect.Signature:
    """The signature with these arguments, by name and optional, instead of ``**any``."""
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    new = [name for name in dict.fromkeys(names) if name not in signature.parameters]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in new]
    return signature.replace(parameters=[*own, *added])


def is_unset(value: object) -> bool:
    """Whether it is what DALI means by no number: None, or -1."""
    return value is None or (isinstance(value, int) and value == -1)


def seed_of(where: str, value: Any) -> int | None:
    """A seed; None where none is set."""
    return None if is_unset(value) else errors.check_int(where, "seed", value, 0)


def _check_only(name: str, key: str, value: Any, values: tuple[Any, ...]) -> None:
    if any(type(value) is type(choice) and value == choice for choice in values):
        return
    allowed = errors.listed(errors.shown(choice) for choice in values)
    raise errors.unsupported(
        name, f"{key}={errors.shown(value)} is not in feedrace.dali", f"there is {allowed}"
    )


def images(name: str, value: object, needs_pixels: bool = True) -> nodes.Images:
    """`value` as pictures that an operator may work on; `needs_pixels`: not yet tensors."""
    if isinstance(value, nodes.Encoded):
        raise errors.invalid(
            name, "its input is encoded bytes", "decode them first by fn.decoders.image"
        )
    if not isinstance(value, nodes.Images):
        found = value.kind if isinstance(value, nodes.DataNode) else errors.shown(value)
        raise errors.invalid(name, f"its input is {found}", "it takes images")
    if value.random_crop is not None and name != "fn.resize":
        raise errors.unsupported(
            name,
            "its input comes from fn.decoders.image_random_crop",
            "put fn.resize with both sides right behind that decoder",
        )
    if needs_pixels and value.is_tensor:
        raise errors.unsupported(
            name,
            f"its input is a {types.numpy_name(value.dtype)} {value.layout} tensor",
            "put it before the operator that casts, transposes or normalizes",
        )
    return value


def number(name: str, key: str, value: object, low: float, high: float) -> Any:
    """A number of a step: one value in [low, high], or what is drawn for each sample."""
    if isinstance(value, nodes.Draw):
        first, last = value.number.get("range", (0.0, 1.0))
        if first < low or last > high:
            drawn = f"{key} is drawn from [{first:g}, {last:g}]"
            raise errors.invalid(name, drawn, f"it must lie in [{low:g}, {high:g}]")
        return dict(value.number)
    if isinstance(value, nodes.DataNode):
        raise errors.invalid(name, f"{key} is {value.kind}", "give a number or a fn.random draw")
    if isinstance(value, bool):
        value = int(value)
    return errors.check_real(name, key, value, low, high)


def dtype(name: str, key: str, value: object, choices: Sequence[Any]) -> Any:
    """One of `choices`, which are types.…"""
    if not any(value is choice for choice in choices):
        allowed = errors.listed(str(choice) for choice in choices)
        raise errors.unsupported(
            name, f"{key} is {errors.shown(value)}", f"feedrace.dali has {allowed}"
        )
    return value


SUPPORTED = (
    "fn.readers.file",
    "fn.readers.webdataset",
    "fn.decoders.image",
    "fn.decoders.image_crop",
    "fn.decoders.image_random_crop",
    "fn.random_resized_crop",
    "fn.resize",
    "fn.crop",
    "fn.flip",
    "fn.crop_mirror_normalize",
    "fn.cast",
    "fn.transpose",
    "fn.squeeze",
    "fn.reshape",
    "fn.copy",
    "fn.random.coin_flip",
    "fn.random.uniform",
    "fn.coin_flip",
    "fn.uniform",
)


# Modules of DALI's operators that have none that is supported.
_MODULES = (
    "fn.experimental",
    "fn.experimental.decoders",
    "fn.experimental.inputs",
    "fn.experimental.readers",
    "fn.inputs",
    "fn.io",
    "fn.io.file",
    "fn.noise",
    "fn.reductions",
    "fn.segmentation",
    "fn.transforms",
)


class MissingModule:
    """A module of DALI's operators, all of which say that they are missing."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._path}, which is not in feedrace.dali>"

    def __getattr__(self, name: str) -> MissingModule:
        if name.startswith("_"):  # Also its own attribute, while it is being copied.
            raise AttributeError(name)
        return missing(self._path, name)


def missing(module: str, name: str) -> MissingModule:
    """For the `__getattr__` of a module of operators.

    Raises:
        AttributeError: An `Error` too: `name` is no module of DALI's operators.
    """
    if name.startswith("_"):
        raise AttributeError(f"{module} has no attribute {name!r}")
    path = f"{module.removeprefix('feedrace.dali.')}.{name}"
    if path in _MODULES:
        return MissingModule(path)
    meant = errors.closest(path, SUPPORTED)
    hint = f"did you mean {meant}? Supported" if meant else "supported"
    if path in _KNOWN:
        hint = f"{_KNOWN[path]}; supported"
    raise not_there(f"{path}: it is not in feedrace.dali; {hint}: {errors.listed(SUPPORTED)}")
