# SPDX-License-Identifier: Apache-2.0
"""The members of a Compose, and what a walk over them has found out so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from feedrace.errors import Error, invalid

Step = dict[str, Any]

# Who holds the picture at a member, as module and class; v2 chooses fills and dtypes by it.
_HOLDERS = {
    "pil": ("PIL.Image", "Image"),
    "image": ("torchvision.tv_tensors", "Image"),
    "tensor": ("torch", "Tensor"),
}
# Told apart from None, which is a value.
_MISSING = object()


class NotNativeError(Exception):
    """A member that the native operators can't give exactly; the text is the reason."""


@dataclass(frozen=True)
class Member:
    """One transform of a flattened Compose.

    Attributes:
        transform: The user's object.
        place: Where it stands, counted from 1; "2.1" is the first of a nested Compose.
    """

    transform: Any
    place: str

    @property
    def name(self) -> str:
        """As the user wrote it: the class of an object, the name of a function."""
        own_name = getattr(self.transform, "__name__", None)
        return own_name if isinstance(own_name, str) else type(self.transform).__name__

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"transform member {self.place} ({self.name})"

    def refuse(self, found: str, fix: str) -> Error:
        """The error of a member that torchvision itself could not run."""
        return invalid(self.where, found, fix)


@dataclass
class Walk:
    """The native part of a Compose as far as it was read.

    Attributes:
        holder: What the member would be given: "pil", "image" (a tv_tensors.Image), "tensor", or
            "picture" where the Compose doesn't tell whether it is fed PIL images or tensors.
        dtype: None while the picture has 8 bits, then "float32" or "float16".
        normalized: Whether values are no longer in [0, 1].
        erased: Whether a rectangle was erased, behind which nothing may move or recolour pixels.
        least: Height and width that each picture has at least, in pixels.
        remarks: Sentences on members whose numbers are not torchvision's to a level of 255.
    """

    holder: str = "picture"
    dtype: str | None = None
    normalized: bool = False
    erased: bool = False
    least: tuple[int, int] = (1, 1)
    remarks: list[str] = field(default_factory=list)
    _pixel_steps: list[Step] = field(default_factory=list)
    _tensor_steps: list[Step] = field(default_factory=list)
    _draw_count: int = 0

    def steps(self, dtype: str | None = None, layout: str = "CHW") -> tuple[Step, ...]:
        """The pipeline from decode to to_tensor; `dtype` None: as the last member leaves it."""
        first: Step = {"op": "decode", "orientation": "keep"}
        last: Step = {
            "op": "to_tensor",
            "dtype": dtype or self.dtype or "uint8",
            "layout": layout,
        }
        return (first, *self._pixel_steps, *self._tensor_steps, last)

    def add_pixel_step(self, step: Step, *, least: tuple[int, int] | None = None) -> None:
        """A step on the 8-bit picture.

        Behind a conversion to float it is put in front of that, which the caller allows only where
        both orders give the same numbers.
        """
        self._pixel_steps.append(step)
        self.least = least or self.least

    def add_tensor_step(self, step: Step) -> None:
        """A step on the float tensor."""
        self._tensor_steps.append(step)

    def coin(self, probability: float) -> float | Step:
        """A NUMBER that is 1 with this probability; what is certain draws nothing."""
        if probability in (0, 1):
            return float(probability)
        draw: Step = {"draw": "coin_flip", "probability": probability, "id": self._draw_count}
        self._draw_count += 1
        return draw

    def require_unerased(self) -> None:
        """For steps that move pixels: they would have to move the erased rectangle too."""
        if self.erased:
            raise NotNativeError("it comes behind RandomErasing; put it in front of that")

    def require_8bit(self) -> None:
        """For steps that make new values, which torchvision doesn't round where it has floats."""
        self.require_unerased()
        if self.dtype is not None:
            raise NotNativeError("it works on floats there; put it in front of the conversion")

    def covers(
        self, size: tuple[int, int], sides: tuple[int, int, int, int] = (0, 0, 0, 0)
    ) -> bool:
        """Whether each picture, padded, is at least that high and wide."""
        height, width = self.grown(sides)
        return height >= size[0] and width >= size[1]

    def grown(self, sides: tuple[int, int, int, int]) -> tuple[int, int]:
        """`least` behind padding of left, top, right, bottom."""
        left, top, right, bottom = sides
        return self.least[0] + top + bottom, self.least[1] + left + right

    def is_known_small(self, sides: tuple[int, int, int, int]) -> bool:
        """Whether pictures have been made to a size, and a border is as large as that."""
        height, width = self.least
        left, top, right, bottom = sides
        is_small = max(top, bottom) >= height or max(left, right) >= width
        return self.least != (1, 1) and is_small

    def choose(self, by_type: Mapping[Any, Any]) -> Any:
        """The value that v2 takes from a dict of types for the picture as it is held.

        Raises:
            NotNativeError: No value is for it, or which one depends on what the Compose is fed.
        """
        holders = ["pil", "image", "tensor"] if self.holder == "picture" else [self.holder]
        found = [_look_up(by_type, _HOLDERS[holder]) for holder in holders]
        if any(value is not found[0] and value != found[0] for value in found[1:]):
            raise NotNativeError("its value depends on the type of the input; put ToImage() first")
        if found[0] is _MISSING:
            raise NotNativeError("it has no value for pictures")
        return found[0]


def _look_up(by_type: Mapping[Any, Any], holder: tuple[str, str]) -> Any:
    module, name = holder
    for key, value in by_type.items():
        if isinstance(key, type) and key.__name__ == name and is_of(key, module):
            return value
    return by_type.get("others", _MISSING)


def is_of(kind: type, module: str) -> bool:
    """Whether a class comes from `module` or a module inside it, told without importing it."""
    return kind.__module__ == module or kind.__module__.startswith(module + ".")


def is_torchvision(transform: Any, *names: str) -> bool:
    """Whether it is one of torchvision's own transforms, not of a class derived from one."""
    kind = type(transform)
    return is_of(kind, "torchvision.transforms") and (not names or kind.__name__ in names)


def flatten(transform: Any, place: str = "") -> Iterator[Member]:
    """The members of Compose and Sequential, also nested, in the order of their application."""
    children = _children(transform)
    if children is None:
        yield Member(transform, place or "1")
        return
    for number, child in enumerate(children, start=1):
        yield from flatten(child, f"{place}.{number}" if place else str(number))


def _children(transform: Any) -> list[Any] | None:
    if is_torchvision(transform, "Compose"):
        return list(transform.transforms)
    kind = type(transform)
    if is_of(kind, "torch.nn.modules.container") and kind.__name__ == "Sequential":
        return list(transform)
    return None


def contains(transform: Any, *names: str) -> bool:
    """Whether it, or a member inside it (of RandomApply, say), is a torchvision one so named."""
    if is_torchvision(transform, *names):
        return True
    inside: Any = getattr(transform, "transforms", None) or _children(transform)
    if not hasattr(inside, "__iter__") or isinstance(inside, str):
        return False
    return any(contains(child, *names) for child in inside)
