# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms, one function each, as native steps.

A function reads the attributes of a transform of torchvision, v1 or v2, and adds steps to a `Walk`.
It raises `NotNativeError` before it has changed anything where the native operators would give
other numbers, and `feedrace.Error` where torchvision itself would fail on every picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from feedrace.transforms import attributes as read
from feedrace.transforms.walk import Member, NotNativeError, Step, Walk, is_of, is_torchvision

_FLOATS = ("float32", "float16")
_V2 = "torchvision.transforms.v2"


def translate_member(member: Member, walk: Walk) -> None:
    """Adds what a member does to the walk.

    Raises:
        NotNativeError: With the reason; the walk is as it was.
        feedrace.Error: torchvision would fail on it with every picture.
    """
    transform = member.transform
    if is_torchvision(transform) and member.name in _TABLE:
        _TABLE[member.name](member, walk)
    elif not (is_of(type(transform), "torch.nn.modules") and member.name == "Identity"):
        raise NotNativeError("it has no native operator")


def _random_resized_crop(member: Member, walk: Walk) -> None:
    read.require_bilinear(member.transform, walk)
    walk.require_8bit()
    size = read.size(member)
    scale, ratio = read.interval(member, "scale"), read.interval(member, "ratio")
    if not 0 < scale[0] <= scale[1] <= 1 or ratio[0] <= 0:
        found = f"its scale is {scale} and ratio {ratio}"
        raise NotNativeError(f"{found}, native is above 0, of scale up to 1")
    step: Step = {"op": "random_resized_crop", "size": size, "scale": scale, "ratio": ratio}
    walk.add_pixel_step(step, least=size)


def _resize(member: Member, walk: Walk) -> None:
    transform = member.transform
    read.require_bilinear(transform, walk)
    walk.require_8bit()
    longest = None if transform.max_size is None else read.pixels(member, "max_size")
    if transform.size is None:
        step: Step = {"op": "resize", "longer": longest}
        walk.add_pixel_step(step, least=(1, 1))
        return
    size = read.size(member)
    if isinstance(transform.size, Sequence) and len(transform.size) == 2:
        if longest is not None:
            raise member.refuse(f"size is {size} and max_size {longest}", "leave max_size out")
        walk.add_pixel_step({"op": "resize", "size": size}, least=size)
        return
    if longest is not None and longest <= size[0]:
        found = f"max_size is {longest} and size {size[0]}"
        raise member.refuse(found, "let max_size be greater than size")
    step = {"op": "resize", "shorter": size[0], "longest": longest}
    walk.add_pixel_step(step, least=size if longest is None else (1, 1))


def _center_crop(member: Member, walk: Walk) -> None:
    walk.require_unerased()
    size = read.size(member)
    if walk.normalized and not walk.covers(size):
        raise NotNativeError("it may pad with zeros behind Normalize; put it in front of that")
    walk.add_pixel_step({"op": "center_crop", "size": size}, least=size)


def _random_crop(member: Member, walk: Walk) -> None:
    transform = member.transform
    walk.require_unerased()
    size = read.size(member)
    sides = (0, 0, 0, 0)
    if transform.padding:
        sides = read.padding(member)
        if is_of(type(transform), _V2):
            # v2 keeps them as left, right, top, bottom; v1 as the user gave them.
            left, right, top, bottom = sides
            sides = (left, top, right, bottom)
    if transform.pad_if_needed and not walk.covers(size, sides):
        raise NotNativeError("pad_if_needed depends on the picture; resize in front of it")
    if any(sides):
        walk.add_pixel_step(_pad_step(member, walk, sides))
    walk.add_pixel_step({"op": "random_crop", "size": size}, least=size)


def _pad(member: Member, walk: Walk) -> None:
    walk.require_unerased()
    sides = read.padding(member)
    walk.add_pixel_step(_pad_step(member, walk, sides), least=walk.grown(sides))


def _pad_step(member: Member, walk: Walk, sides: read.Sides) -> Step:
    mode = member.transform.padding_mode
    fill = (0, 0, 0)
    if mode == "constant":
        if walk.normalized:
            raise NotNativeError("it pads normalised values; put it in front of Normalize")
        fill = read.fill(member.transform.fill, walk)
    if mode == "reflect" and walk.is_known_small(sides):
        raise NotNativeError("it reflects more pixels than the picture has; use symmetric")
    named = zip(("left", "top", "right", "bottom"), sides, strict=True)
    return {"op": "pad", **dict(named), "fill": fill, "mode": mode}


def _horizontal_flip(member: Member, walk: Walk) -> None:
    walk.require_unerased()
    coin = walk.coin(read.probability(member))
    if coin != 0:
        walk.add_pixel_step({"op": "flip", "horizontal": coin, "vertical": 0.0})


def _vertical_flip(member: Member, walk: Walk) -> None:
    walk.require_unerased()
    coin = walk.coin(read.probability(member))
    if coin != 0:
        walk.add_pixel_step({"op": "flip", "horizontal": 0.0, "vertical": coin})


def _color_jitter(member: Member, walk: Walk, apply: float | Step = 1.0) -> None:
    walk.require_8bit()
    step: Step = {"op": "color_jitter"}
    for name in ("brightness", "contrast", "saturation", "hue"):
        is_off = getattr(member.transform, name) is None
        step[name] = None if is_off else read.interval(member, name)
    if step["hue"] is not None and walk.holder in ("image", "tensor"):
        walk.remarks.append(
            f"{member.where}: hue is turned in 8 bits as on PIL images, up to some 15 levels of "
            "255 from what torchvision makes of tensors; put it in front of ToImage() or "
            "PILToTensor() for the same bits"
        )
    if any(value is not None for name, value in step.items() if name != "op"):
        walk.add_pixel_step({**step, "apply": apply})


def _grayscale(member: Member, walk: Walk, apply: float | Step = 1.0) -> None:
    _require_switchable(member, walk)
    walk.add_pixel_step({"op": "grayscale", "apply": apply})


def _random_grayscale(member: Member, walk: Walk) -> None:
    walk.require_8bit()
    coin = walk.coin(read.probability(member))
    if coin != 0:
        walk.add_pixel_step({"op": "grayscale", "apply": coin})


# What may stand inside RandomApply: steps that can be switched off, by one draw for all of them.
_SWITCHABLE: dict[str, Callable[[Member, Walk, float | Step], None]] = {
    "ColorJitter": _color_jitter,
    "Grayscale": _grayscale,
}


def _random_apply(member: Member, walk: Walk) -> None:
    inner = [
        Member(transform, f"{member.place}.{number}")
        for number, transform in enumerate(member.transform.transforms, start=1)
    ]
    for one in inner:
        if not is_torchvision(one.transform, *_SWITCHABLE):
            raise NotNativeError(f"{one.name} inside it can't be switched natively")
        _require_switchable(one, walk)
    coin = walk.coin(read.probability(member))
    if coin != 0:
        for one in inner:
            _SWITCHABLE[one.name](one, walk, coin)


def _require_switchable(member: Member, walk: Walk) -> None:
    walk.require_8bit()
    if member.name == "Grayscale" and member.transform.num_output_channels != 3:
        raise NotNativeError("Grayscale gives 1 channel there, native tensors have 3")


def _random_erasing(member: Member, walk: Walk) -> None:
    if walk.dtype is None:
        raise NotNativeError("it erases 8-bit values there; put it behind the conversion to float")
    is_random = member.transform.value is None or isinstance(member.transform.value, str)
    step: Step = {
        "op": "random_erasing",
        "probability": read.probability(member),
        "scale": read.interval(member, "scale"),
        "ratio": read.interval(member, "ratio"),
        "value": "random" if is_random else read.channels(member, "value"),
    }
    if step["probability"] != 0:
        walk.add_tensor_step(step)
        walk.erased = True


def _normalize(member: Member, walk: Walk) -> None:
    if walk.dtype is None:
        found = "the picture has 8 bits there, which Normalize refuses"
        raise member.refuse(found, "put ToDtype(torch.float32, scale=True) in front of it")
    if walk.normalized:
        raise NotNativeError("values are normalised already; make one Normalize of both")
    mean, std = read.channels(member, "mean"), read.channels(member, "std")
    if not all(std):
        raise member.refuse(f"std is {list(std)}", "give a std that is not 0")
    walk.add_tensor_step({"op": "normalize", "mean": mean, "std": std})
    walk.normalized = True


def _to_image(member: Member, walk: Walk) -> None:
    del member
    walk.holder = "image"


def _pil_to_tensor(member: Member, walk: Walk) -> None:
    if walk.holder in ("pil", "picture"):
        walk.holder = "tensor"
    elif not is_of(type(member.transform), _V2):
        raise member.refuse("the picture is a tensor already", "leave it out")


def _to_tensor(member: Member, walk: Walk) -> None:
    was_pil = walk.holder in ("pil", "picture")
    _pil_to_tensor(member, walk)
    if was_pil:
        walk.dtype = "float32"


def _to_pure_tensor(member: Member, walk: Walk) -> None:
    del member
    if walk.holder == "image":
        walk.holder = "tensor"


def _to_pil_image(member: Member, walk: Walk) -> None:
    if walk.dtype is not None or member.transform.mode not in (None, "RGB"):
        raise NotNativeError("it makes 8 bits of floats, or another mode than RGB")
    walk.holder = "pil"


def _to_dtype(member: Member, walk: Walk) -> None:
    dtype = member.transform.dtype
    if isinstance(dtype, Mapping):
        dtype = walk.choose(dtype)
    if dtype is None:
        return
    name, present = str(dtype).removeprefix("torch."), walk.dtype or "uint8"
    if name == present:
        return
    if name not in _FLOATS or (present, name) == ("float16", "float32"):
        raise NotNativeError(f"it makes {name} of {present}; native is float32 or float16")
    # ConvertImageDtype has no such attribute: it always scales.
    if present == "uint8" and not getattr(member.transform, "scale", True):
        raise NotNativeError("without scale=True it keeps 0 to 255; native floats are 0 to 1")
    walk.dtype = name


def _preset(member: Member, walk: Walk) -> None:
    """What `weights.transforms()` gives: resize, centre crop, float32, normalise."""
    read.require_bilinear(member.transform, walk)
    walk.require_8bit()
    resize, crop = read.size(member, "resize_size"), read.size(member, "crop_size")
    step: Step = {"op": "resize", "shorter": resize[0], "longest": None}
    if len(member.transform.resize_size) == 2:
        step = {"op": "resize", "size": resize}
    walk.add_pixel_step(step, least=resize)
    walk.add_pixel_step({"op": "center_crop", "size": crop}, least=crop)
    walk.holder, walk.dtype = "tensor", "float32"
    _normalize(member, walk)


def _nothing(member: Member, walk: Walk) -> None:
    """Identity; and RGB, since pictures are RGB from the decoder on."""
    del member, walk


_TABLE: dict[str, Callable[[Member, Walk], None]] = {
    "CenterCrop": _center_crop,
    "ColorJitter": _color_jitter,
    "ConvertImageDtype": _to_dtype,
    "Grayscale": _grayscale,
    "Identity": _nothing,
    "ImageClassification": _preset,
    "Normalize": _normalize,
    "PILToTensor": _pil_to_tensor,
    "Pad": _pad,
    "RGB": _nothing,
    "RandomApply": _random_apply,
    "RandomCrop": _random_crop,
    "RandomErasing": _random_erasing,
    "RandomGrayscale": _random_grayscale,
    "RandomHorizontalFlip": _horizontal_flip,
    "RandomResizedCrop": _random_resized_crop,
    "RandomVerticalFlip": _vertical_flip,
    "Resize": _resize,
    "ToDtype": _to_dtype,
    "ToImage": _to_image,
    "ToPILImage": _to_pil_image,
    "ToPureTensor": _to_pure_tensor,
    "ToTensor": _to_tensor,
}
