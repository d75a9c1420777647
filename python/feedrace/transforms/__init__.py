# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as native pipelines.

`translate` takes what a program gives to `ImageFolder(transform=...)`: a `Compose` of
`torchvision.transforms.v2` or `torchvision.transforms`, an `nn.Sequential` of transforms, the
`weights.transforms()` of a torchvision model, or a single transform.

Members are native where the native operators give torchvision's numbers: on PIL images the same
bits, floats up to the rounding of their dtype. On 8-bit tensors (behind `ToImage` or `PILToTensor`)
torchvision rounds in another way than Pillow, and the native operators do as Pillow: a step may
differ by 1 level of 255, and hue by more, which `Pipeline.notes` says. A Compose without `ToImage`,
`PILToTensor` and `ToTensor` may be fed PIL images or tensors; it is read as if both gave the same.
One that leaves 8-bit pictures gives uint8 [3, H, W].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from feedrace.calls import checked
from feedrace.errors import check_choice, error, invalid, shown
from feedrace.missing import missing_name
from feedrace.transforms.members import translate_member
from feedrace.transforms.python_members import PythonMembers
from feedrace.transforms.walk import Member, NotNativeError, Step, Walk, contains, flatten

if TYPE_CHECKING:
    from feedrace.pipeline import Pipeline

__all__ = ["translate"]

_FROM_PIL = ("ToImage", "PILToTensor", "ToTensor", "ImageClassification")
_ON_TENSORS = ("ToDtype", "ConvertImageDtype", "Normalize")


class Translation(NamedTuple):
    """The parts of a Pipeline: see there."""

    steps: tuple[Step, ...]
    python: PythonMembers | None
    notes: tuple[str, ...]


@checked("translate")
def translate(compose: Any, on_unknown: Literal["python", "error"] = "python") -> Pipeline:
    """A pipeline that does what torchvision's transform does.

    Args:
        compose: A transform, or a Compose of them.
        on_unknown: What becomes of members that have no native operator, or none that gives the
            same numbers. "python": the first one and all behind it run as Python on each sample, on
            the thread that asks for the batch; `Pipeline.notes` names them. "error": an Error.

    Returns:
        A Pipeline. Its native part ends as the first Python member is fed: uint8 [H, W, 3] before
        PIL images, else [3, H, W]; `Pipeline.batch_function` does the rest.

    Raises:
        feedrace.Error: "invalid_argument": not a transform, or one that torchvision could not run
            either. "unsupported": a member is not native and `on_unknown` is "error".
    """
    from feedrace.pipeline import Pipeline

    steps, python, notes = translate_steps(compose, on_unknown)
    return Pipeline(steps, batch_function=python, notes=notes)


def translate_steps(compose: Any, on_unknown: str = "python") -> Translation:
    """What `translate` makes a Pipeline of."""
    check_choice("transform", "on_unknown", on_unknown, ("python", "error"))
    members = list(flatten(compose))
    _check_members(members)
    walk = Walk(holder="pil" if _any_contains(members, _FROM_PIL) else "picture")
    for position, member in enumerate(members):
        try:
            translate_member(member, walk)
        except NotNativeError as reason:
            if on_unknown == "error":
                raise _refusal(members, position, reason) from None
            return _split(members, position, reason, walk)
    return Translation(walk.steps(), None, tuple(walk.remarks))


def _check_members(members: list[Member]) -> None:
    for member in members:
        transform = member.transform
        where = f"transform member {member.place}"
        if isinstance(transform, type):
            fix = f"make an object of it: {transform.__name__}(...)"
            raise invalid(where, f"it is the class {transform.__name__}", fix)
        if not callable(transform):
            fix = "give a transform of torchvision, or Compose([...]) of several"
            raise invalid(where, f"it is {shown(transform)}, which can't be called", fix)


def _any_contains(members: list[Member], names: tuple[str, ...]) -> bool:
    return any(contains(member.transform, *names) for member in members)


def _split(members: list[Member], position: int, reason: NotNativeError, walk: Walk) -> Translation:
    """The members before `position` native, the others as Python."""
    rest = members[position:]
    holder = walk.holder
    if holder == "picture":
        # As ImageFolder feeds it, unless what comes behind would not take a PIL image.
        on_tensors = walk.dtype is not None or _any_contains(rest, _ON_TENSORS)
        holder = "tensor" if on_tensors else "pil"
    steps = walk.steps(layout="HWC" if holder == "pil" else "CHW")
    notes = (*walk.remarks, _python_note(rest, reason))
    return Translation(steps, PythonMembers(rest, holder), notes)


def _python_note(rest: list[Member], reason: NotNativeError) -> str:
    names = ", ".join(f"{member.name} ({member.place})" for member in rest)
    return (
        f"transform: {names}: run as Python, one call a sample on the consumer's thread, because "
        f"of {rest[0].name}: {reason}"
    )


def _refusal(members: list[Member], position: int, reason: NotNativeError) -> Exception:
    native = ", ".join(member.name for member in members[:position]) or "nothing"
    found = f"{reason}; native would be {native}"
    fix = 'change it, or say on_unknown="python"'
    return error("unsupported", f"{members[position].where}: {found}; {fix}")


# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        fix = "give a loader torchvision's own transform, or describe a pipeline by feedrace.fn"
        raise missing_name("feedrace.transforms", name, __all__, fix)
