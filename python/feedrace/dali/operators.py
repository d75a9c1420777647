# SPDX-License-Identifier: Apache-2.0
"""What all operators share: names checked when they are called, and what is missing says so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from feedrace import errors
from feedrace.dali import nodes, types

Function = TypeVar("Function", bound=Callable[..., Any])

# Of every operator. Where it runs follows from the pipeline's device_id.
_DEVICES = ("cpu", "gpu", "mixed")
_COMMON_HINTS = ("bytes_per_sample_hint", "preserve")
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


def operator(
    name: str, hints: Sequence[str] = (), only: Mapping[str, tuple[Any, ...]] | None = None
) -> Callable[[Function], Function]:
    """Wraps an operator: its arguments' names are checked, then `hints` and `only` taken out.

    `hints` change nothing but memory or speed in DALI; they are accepted and noted. `only` are
    arguments that have the listed values alone here.
    """
    allowed = dict(only or {})
    accepted = (*hints, *_COMMON_HINTS)

    def wrap(function: Function) -> Function:
        own = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        known = [*own, *allowed, *accepted, "device", "seed", "name"]

        @functools.wraps(function)
        def call(*inputs: Any, **arguments: Any) -> Any:
            graph = nodes.current(name)
            errors.check_names(name, "argument", arguments, known)
            errors.check_choice(name, "device", arguments.pop("device", "cpu"), _DEVICES)
            for key, values in allowed.items():
                _check_only(name, key, arguments.pop(key, values[0]), values)
            for key in accepted:
                if arguments.pop(key, None) is not None:
                    graph.note(f"{name}: {key} has no effect here: memory and speed need no hints")
            if "name" not in own:
                arguments.pop("name", None)
            if "seed" not in own and _is_seed(arguments.pop("seed", None)):
                graph.note(f"{name}: its seed has no effect: the pipeline's seed decides all draws")
            return _call(name, function, inputs, arguments)

        return call  # type: ignore[return-value]

    return wrap


def _call(
    name: str, function: Callable[..., Any], inputs: tuple[Any, ...], arguments: dict[str, Any]
) -> Any:
    try:
        inspect.signature(function).bind(*inputs, **arguments)
    except TypeError as problem:
        raise errors.invalid(name, str(problem), f"call it as {name}{_form(function)}") from None
    return function(*inputs, **arguments)


def _form(function: Callable[..., Any]) -> str:
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            parts.append(parameter.name)
        elif parameter.default is parameter.empty:
            parts.append(f"{parameter.name}=…")
    return f"({', '.join(parts)})"


def _is_seed(value: object) -> bool:
    return value is not None and value != -1


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


class Missing:
    """An operator, or a module of them, that feedrace.dali does not have: calling it says so."""

    def __init__(self, name: str, supported: Sequence[str]) -> None:
        self._name = name
        self._supported = supported

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("_"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}", self._supported)

    def __call__(self, *inputs: object, **arguments: object) -> None:
        meant = errors.closest(self._name, self._supported)
        hint = f"did you mean {meant}? Supported" if meant else "supported"
        if self._name in _KNOWN:
            hint = f"{_KNOWN[self._name]}; supported"
        raise errors.unsupported(
            self._name, "it is not in feedrace.dali", f"{hint}: {errors.listed(self._supported)}"
        )


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


def missing(module: str, name: str) -> Missing:
    """For a module's `__getattr__`; names that Python itself looks for are really not there."""
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    path = module.removeprefix("feedrace.dali.")
    return Missing(f"{path}.{name}", SUPPORTED)
