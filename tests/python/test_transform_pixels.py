# SPDX-License-Identifier: Apache-2.0
"""Pixels of translated transforms beside torchvision's own on the numbers that were drawn.

`ImageLoader.trace` says what was drawn for a sample; torchvision's functions are told the same.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from torchvision_import import import_torchvision

torchvision = import_torchvision()
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as tv  # noqa: E402

import feedrace as fr  # noqa: E402
from feedrace.loader import ImageLoader  # noqa: E402
from feedrace.transforms import translate  # noqa: E402

CASES = Path(__file__).parent.parent / "cases"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SEED = 11
EPOCHS = 2
to_float32 = v2.ToDtype(torch.float32, scale=True)
pytestmark = [
    pytest.mark.filterwarnings("ignore:The transform `ToTensor"),
    pytest.mark.filterwarnings("ignore:Corrupt EXIF"),
    pytest.mark.filterwarnings("ignore:Palette images with Transparency"),
]


# Pictures.


def wave_picture(height, width, seed):
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 9 + y / 31), np.cos(x / 17 - y / 7), np.sin((x + y) / 13)], -1)
    noise = np.random.default_rng(seed).normal(0, 6, waves.shape)
    return np.clip(127 + 110 * waves + noise, 0, 255).astype(np.uint8)


def good_cases():
    """Pictures of the case set that have one right answer and that no resize makes huge."""
    for case in json.loads((CASES / "expectations.json").read_text())["cases"]:
        expect = case["expect"]
        if case["kind"] != "decode" or expect["outcome"] != "ok" or case.get("peers_differ"):
            continue
        width, height = expect["pixels"]["width"], expect["pixels"]["height"]
        if max(width, height) < 50 * min(width, height):
            yield CASES / case["file"]


def write_list(path, pictures):
    path.write_text("".join(json.dumps({"path": str(one)}) + "\n" for one in pictures))
    return path


def loader_of(listed, transform, **options):
    options = {"batch_size": 8, "shuffle": "none", "last_batch": "partial", **options}
    return ImageLoader(listed, transform=transform, fields=("image",), seed=SEED, **options)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Paths, and PIL images, of which both decoders give the same bits: all below is about what
    comes behind that."""
    root = tmp_path_factory.mktemp("pictures")
    paths = list(good_cases())
    sizes = [(375, 500), (500, 333), (224, 224), (256, 256), (64, 48), (1, 30), (30, 1), (1, 1)]
    for number, size in enumerate([*sizes, (20, 600), (600, 20), (225, 223), (300, 301)]):
        paths.append(root / f"{number:02}.png")
        Image.fromarray(wave_picture(*size, number)).save(paths[-1])
    decoded = loader_of(write_list(root / "all.jsonl", paths), v2.PILToTensor(), output="numpy")
    ours = [image for (images,) in decoded for image in images]
    held = []
    for path, image in zip(paths, ours, strict=True):
        with Image.open(path) as file:
            picture = file.convert("RGB")
        if np.array_equal(image.transpose(1, 2, 0), np.asarray(picture)):
            held.append((path, picture))
    assert len(held) > 0.9 * len(paths)
    return held


@pytest.fixture(scope="session")
def listed(pictures, tmp_path_factory):
    return write_list(tmp_path_factory.mktemp("list") / "all.jsonl", [path for path, _ in pictures])


@pytest.fixture(autouse=True)
def width_first(monkeypatch):
    """Lets Pillow resize the width first, as we do and all versions before 13 did."""
    own = Image.Image.resize

    def resize(self, size, resample=None, **options):
        return own(own(self, (size[0], self.height), resample, **options), size, resample)

    monkeypatch.setattr(Image.Image, "resize", resize)


# torchvision, told what was drawn.


def jittered(picture, drawn):
    if not drawn["apply"]:
        return picture
    for name in drawn["order"]:
        if drawn[name] is not None:
            picture = getattr(tv, f"adjust_{name}")(picture, drawn[name])
    return picture


def flipped(picture, drawn):
    picture = tv.horizontal_flip(picture) if drawn["horizontal"] else picture
    return tv.vertical_flip(picture) if drawn["vertical"] else picture


def cut(picture, drawn):
    x, y, width, height = drawn["box"]
    return tv.crop(picture, y, x, height, width)


def erased(tensor, member, drawn):
    if not drawn["apply"]:
        return tensor
    x, y, width, height = drawn["box"]
    value = member.value if isinstance(member.value, (list, tuple)) else [member.value]
    return tv.erase(tensor, y, x, height, width, torch.tensor(value)[:, None, None])


def expected(value, members, trace):
    """What torchvision makes of a picture with the numbers of a trace."""
    erasings = iter([step for step in trace if step["op"] == "random_erasing"])
    steps = iter([step for step in trace if step["op"] not in ("decode", "random_erasing")])
    for member in members:
        kind = type(member).__name__
        if kind == "RandomResizedCrop":
            x, y, width, height = next(steps)["box"]
            value = tv.resized_crop(value, y, x, height, width, list(member.size))
        elif kind in ("RandomHorizontalFlip", "RandomVerticalFlip"):
            value = flipped(value, next(steps))
        elif kind == "RandomCrop":
            if member.padding is not None:
                left, top, right, bottom = next(steps)["border"]
                border = [left, top, right, bottom]
                value = tv.pad(value, border, member.fill, member.padding_mode)
            value = cut(value, next(steps))
        elif kind == "ColorJitter":
            value = jittered(value, next(steps))
        elif kind == "RandomGrayscale":
            value = tv.rgb_to_grayscale(value, 3) if next(steps)["apply"] else value
        elif kind == "RandomApply":
            value = expected(value, member.transforms, [next(steps) for _ in member.transforms])
        elif kind == "RandomErasing":
            value = erased(value, member, next(erasings))
        elif kind == "Grayscale":
            value = member(value) if next(steps)["apply"] else value
        else:
            if kind in ("Resize", "CenterCrop", "Pad"):
                next(steps)
            value = member(value)
    assert next(steps, None) is None
    return value


def compared(pictures, listed, members, versions=v2):
    """Pairs of our image and torchvision's, [C, H, W], over all pictures and some epochs."""
    loader = loader_of(listed, versions.Compose(members), on_unknown="error", output="torch")
    count = 0
    for epoch in range(EPOCHS):
        ours = [image for (images,) in loader for image in images]
        for index, (image, (_, picture)) in enumerate(zip(ours, pictures, strict=True)):
            theirs = expected(picture, members, loader.trace_sample(index, epoch))
            assert image.shape == theirs.shape
            assert image.dtype == theirs.dtype
            yield image, theirs.as_subclass(torch.Tensor)
            count += 1
    assert count == EPOCHS * len(pictures)


def jitter(t):
    return t.ColorJitter(brightness=0.4, contrast=0.4, saturation=(0.3, 1.7), hue=0.1)


ON_PIL_IMAGES = {
    "val": lambda t: [t.Resize(256), t.CenterCrop(224)],
    "train": lambda t: [t.RandomResizedCrop(96), t.RandomHorizontalFlip()],
    "other shapes": lambda t: [t.RandomResizedCrop((40, 90), scale=(0.3, 0.5), ratio=(0.2, 5.0))],
    "exact": lambda t: [t.Resize((61, 47))],
    "shorter side": lambda t: [t.Resize(40)],
    "bounded": lambda t: [t.Resize(100, max_size=150)],
    "crop of the smaller": lambda t: [t.Resize(31), t.CenterCrop((60, 45))],
    "both flips": lambda t: [t.RandomVerticalFlip(), t.RandomHorizontalFlip(0.3)],
    "cifar": lambda t: [t.RandomCrop(9, padding=8), t.RandomHorizontalFlip()],
    "filled": lambda t: [t.RandomCrop((5, 9), padding=(9, 5, 7, 6), fill=(10, 200, 30))],
    "cropped edge": lambda t: [t.RandomCrop((7, 30), padding=(15, 4), padding_mode="edge")],
    "crop": lambda t: [t.Resize((50, 60)), t.RandomCrop((40, 60))],
    "constant": lambda t: [t.Pad((1, 2, 3, 4), fill=(9, 8, 7))],
    "edge": lambda t: [t.Pad((3, 5), padding_mode="edge")],
    "reflect": lambda t: [t.Resize((20, 30)), t.Pad((7, 9, 11, 13), padding_mode="reflect")],
    "symmetric": lambda t: [t.Resize((20, 30)), t.Pad(8, padding_mode="symmetric")],
    "grey": lambda t: [t.Grayscale(3)],
    "some grey": lambda t: [t.RandomGrayscale(0.5), t.Resize((30, 30))],
    "jitter": lambda t: [t.Resize((64, 64)), jitter(t)],
    "jitter first": lambda t: [jitter(t), t.RandomResizedCrop(32)],
    "contrastive": lambda t: [
        t.RandomResizedCrop(64, scale=(0.2, 1.0)),
        t.RandomApply([jitter(t)], p=0.8),
        t.RandomGrayscale(0.2),
        t.RandomHorizontalFlip(),
    ],
    "all or nothing": lambda t: [t.RandomApply([jitter(t), t.Grayscale(3)], p=0.5)],
}


@pytest.mark.parametrize("name", ON_PIL_IMAGES)
def test_on_pil_images_every_bit_is_torchvisions(pictures, listed, name):
    for ours, theirs in compared(pictures, listed, [*ON_PIL_IMAGES[name](v2), v2.PILToTensor()]):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["val", "train", "cifar", "filled", "edge", "contrastive"])
def test_also_in_the_old_version(pictures, listed, name):
    members = [*ON_PIL_IMAGES[name](v1), v1.PILToTensor()]
    for ours, theirs in compared(pictures, listed, members, v1):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("size", "border"),
    [
        (1, {}),
        (9, {"padding": 8}),
        ((5, 9), {"padding": (9, 5, 7, 6), "fill": (10, 200, 30)}),
        ((7, 30), {"padding": (15, 4), "mode": "edge"}),
        ((20, 30), {"padding": (15, 14), "mode": "symmetric"}),
    ],
)
def test_an_operator_of_ones_own_crops_at_random_as_torchvision(pictures, listed, size, border):
    @fr.pipeline(batch_size=8, shuffle="none", last_batch="partial", output="torch", seed=SEED)
    def cropped():
        (encoded,) = fr.fn.read(str(listed), fields="image")
        image = fr.fn.random_crop(fr.fn.decode(encoded), size, **border)
        return fr.fn.to_tensor(image, dtype="uint8")

    mode = border.get("mode", "constant")
    named = {key: value for key, value in border.items() if key != "mode"}
    crop = v2.RandomCrop(size, padding_mode=mode, **named)
    loader = cropped()
    ours = [image for (images,) in loader for image in images]
    assert len(ours) == len(pictures)
    for index, (image, (_, picture)) in enumerate(zip(ours, pictures, strict=True)):
        theirs = expected(picture, [crop, v2.PILToTensor()], loader.trace_sample(index, 0))
        assert torch.equal(image, theirs)


def test_a_random_crop_of_torchvision_is_the_operators_steps():
    crop = v2.RandomCrop((5, 9), padding=(9, 5, 7, 6), fill=(10, 200, 30))

    @fr.pipeline
    def described():
        encoded, label = fr.fn.read("data")
        image = fr.fn.decode(encoded)
        image = fr.fn.random_crop(image, (5, 9), padding=(9, 5, 7, 6), fill=(10, 200, 30))
        return fr.fn.to_tensor(image, dtype="uint8"), label

    translated = translate(v2.Compose([crop, v2.PILToTensor()]), on_unknown="error")
    assert translated == described.describe()


def test_a_pillow_that_begins_with_the_height_differs_by_a_level(pictures, listed, monkeypatch):
    """Pillow 13 does where the height shrinks by more than twice as many pixels as the width."""
    monkeypatch.undo()
    crop = v2.RandomResizedCrop((12, 50), scale=(0.02, 1), ratio=(0.1, 10))
    loader = loader_of(listed, v2.Compose([crop, v2.PILToTensor()]), output="torch")
    ours = [image for (images,) in loader for image in images]
    counts = {True: 0, False: 0}
    for index, (image, (_, picture)) in enumerate(zip(ours, pictures, strict=True)):
        trace = loader.trace_sample(index, 0)
        _, _, width, height = trace[1]["box"]
        begins_with_height = height > 12 and height - 12 > 2 * (width - 50)
        theirs = expected(picture, [crop, v2.PILToTensor()], trace)
        difference = (image.int() - theirs.int()).abs().max()
        assert difference <= begins_with_height
        counts[begins_with_height] += 1
    assert min(counts.values()) > 5


def test_resize_by_the_longer_side(pictures, listed):
    for ours, theirs in compared(
        pictures, listed, [v2.Resize(None, max_size=70), v2.PILToTensor()]
    ):
        assert torch.equal(ours, theirs)


# Levels by which torchvision's own two ways differ.
ON_TENSORS = {
    "val": ([v2.Resize(96), v2.CenterCrop(80)], 1),
    "train": ([v2.RandomResizedCrop(96), v2.RandomHorizontalFlip()], 1),
    "moves": ([v2.RandomCrop(9, padding=8), v2.RandomVerticalFlip(), v2.Pad(3)], 0),
    "grey": ([v2.Grayscale(3)], 1),
    "brightness": ([v2.CenterCrop(64), v2.ColorJitter(brightness=0.4)], 1),
    "contrast": ([v2.CenterCrop(64), v2.ColorJitter(contrast=0.4)], 1),
    "saturation": ([v2.CenterCrop(64), v2.ColorJitter(saturation=0.4)], 1),
    # A level of one is seen through the factors of the next.
    "three": ([v2.CenterCrop(64), v2.ColorJitter(0.4, 0.4, 0.4)], 5),
    # Pillow turns hue in 8 bits.
    "hue": ([v2.CenterCrop(64), v2.ColorJitter(hue=0.1)], 16),
}


@pytest.mark.parametrize("name", ON_TENSORS)
def test_on_8_bit_tensors_levels_are_as_near_as_torchvisions_own_two_ways(pictures, listed, name):
    members, levels = ON_TENSORS[name]
    for ours, theirs in compared(pictures, listed, [v2.ToImage(), *members]):
        difference = (ours.int() - theirs.int()).abs()
        assert difference.max() <= levels


FLOATS = {
    "v1": (v1, [v1.Resize((30, 40)), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
    "v2": (v2, [v2.Resize((30, 40)), v2.ToImage(), to_float32, v2.Normalize(MEAN, STD)]),
    "one number": (v1, [v1.CenterCrop(20), v1.ToTensor(), v1.Normalize([0.5], [0.25])]),
    "not normalised": (v2, [v2.ToImage(), to_float32]),
    "moved": (
        v2,
        [
            v2.Resize((30, 40)),
            v2.ToImage(),
            to_float32,
            v2.RandomHorizontalFlip(),
            v2.Pad(3, fill=0.2),
            v2.CenterCrop(50),
            v2.Normalize(MEAN, STD),
            v2.RandomVerticalFlip(),
            v2.RandomCrop(28),
            v2.Pad(2, padding_mode="edge"),
        ],
    ),
    "erased before": (
        v2,
        [
            v2.Resize((30, 40)),
            v2.ToImage(),
            to_float32,
            v2.RandomErasing(p=0.7, value=(0.1, 0.5, 0.9)),
            v2.Normalize(MEAN, STD),
        ],
    ),
    "erased behind": (
        v1,
        [
            v1.Resize((30, 40)),
            v1.ToTensor(),
            v1.Normalize(MEAN, STD),
            v1.RandomErasing(p=0.7, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=2.5),
            v1.RandomErasing(p=0.7, value=0),
        ],
    ),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_torchvisions_up_to_rounding(pictures, listed, name):
    versions, members = FLOATS[name]
    for ours, theirs in compared(pictures, listed, members, versions):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


def test_float16_is_the_rounded_float32(pictures, listed):
    members = [v2.Resize((30, 40)), v2.ToTensor(), v2.Normalize(MEAN, STD)]
    for ours, theirs in compared(pictures, listed, [*members, v2.ToDtype(torch.float16)]):
        apart = (ours.view(torch.int16).int() - theirs.view(torch.int16).int()).abs()
        assert apart.max() <= 1
        assert apart.float().mean() < 0.001


def test_torchvisions_float16_arithmetic_is_no_nearer_to_the_truth(pictures, listed):
    half = v2.ToDtype(torch.float16, scale=True)
    members = [v2.Resize((30, 40)), v2.ToImage(), half, v2.Normalize(MEAN, STD)]
    for ours, theirs in compared(pictures, listed, members):
        assert torch.allclose(ours.float(), theirs.float(), rtol=0, atol=0.01)


@pytest.mark.parametrize("is_before", [True, False])
def test_noise_of_random_erasing(pictures, listed, is_before):
    """Standard normal where it is put; behind Normalize it was normalised like a picture."""
    noise, normalize = v2.RandomErasing(p=1, value="random"), v2.Normalize(MEAN, STD)
    behind = [noise, normalize] if is_before else [normalize, noise]
    front = [v2.Resize((90, 80)), v2.ToTensor()]
    noisy = loader_of(listed, v2.Compose([*front, *behind]), on_unknown="error", output="torch")
    clean = loader_of(listed, v2.Compose([*front, normalize]), output="torch")
    filled = []
    for number, ((images,), (plain,)) in enumerate(zip(noisy, clean, strict=True)):
        for place, (image, without) in enumerate(zip(images, plain, strict=True)):
            (drawn,) = [
                step
                for step in noisy.trace_sample(8 * number + place, 0)
                if step["op"] == "random_erasing"
            ]
            x, y, width, height = drawn["box"]
            box = (slice(None), slice(y, y + height), slice(x, x + width))
            filled.append(image[box].reshape(3, -1).clone())
            image[box] = without[box]
            assert torch.equal(image, without)
    values = torch.cat(filled, dim=1)
    if is_before:
        values = values * torch.tensor(STD)[:, None] + torch.tensor(MEAN)[:, None]
    assert values.shape[1] > 10000
    assert torch.allclose(values.mean(1), torch.zeros(3), atol=0.05)
    assert torch.allclose(values.std(1), torch.ones(3), atol=0.05)


# Recipes, and members that run as Python.


def batches(source, transform, **options):
    options = {"seed": SEED, "batch_size": 8, "output": "numpy", **options}
    loader = ImageLoader(source, transform=transform, fields=("image", "index"), **options)
    return [(images.copy(), indices.copy()) for _ in range(2) for images, indices in loader]


def imagenet(*geometry):
    half = v2.ToDtype(torch.float16, scale=True)
    return v2.Compose([*geometry, v2.PILToTensor(), half, v2.Normalize(MEAN, STD)])


@pytest.mark.parametrize(
    ("recipe", "transform"),
    [
        ("imagenet-train", imagenet(v2.RandomResizedCrop(224), v2.RandomHorizontalFlip())),
        ("imagenet-val", imagenet(v2.Resize(256), v2.CenterCrop(224))),
    ],
)
def test_the_usual_transforms_are_the_recipes_bit_for_bit(listed, recipe, transform):
    ours, theirs = batches(listed, transform), batches(listed, recipe)
    assert len(ours) == len(theirs) > 2
    for (images, indices), (same_images, same_indices) in zip(ours, theirs, strict=True):
        assert np.array_equal(indices, same_indices)
        assert images.dtype == np.float16
        assert images.tobytes() == same_images.tobytes()


def test_members_that_run_as_python_give_torchvisions_bits(pictures, listed):
    bicubic = v2.Resize(40, interpolation=v2.InterpolationMode.BICUBIC)
    members = [v2.Pad(2), bicubic, v2.CenterCrop(32), v2.ToTensor(), v2.Normalize(MEAN, STD)]
    compose = v2.Compose(members)
    loader = loader_of(listed, compose, output="torch")
    ours = [image for (images,) in loader for image in images]
    for image, (_, picture) in zip(ours, pictures, strict=True):
        assert torch.equal(image, compose(picture))
    assert f" ms a sample over {len(pictures)} samples" in loader.explain()
    assert "bicubic" in loader.explain()


def test_python_members_draw_the_same_in_any_batch_and_after_a_resume(listed):
    compose = v2.Compose([v2.Resize((40, 40)), v2.RandAugment(), v2.ToImage(), to_float32])
    options = {"output": "torch", "shuffle": "global"}
    by_four = loader_of(listed, compose, batch_size=4, last_batch="drop", **options)
    by_eight = loader_of(listed, compose, last_batch="drop", **options)
    four = [image for (images,) in by_four for image in images]
    eight = [image for (images,) in by_eight for image in images]
    assert all(torch.equal(one, same) for one, same in zip(four, eight, strict=False))
    begun = loader_of(listed, compose, last_batch="drop", **options)
    next(iter(begun))
    resumed = loader_of(listed, compose, last_batch="drop", **options)
    resumed.load_state_dict(begun.state_dict())
    rest = [image for (images,) in resumed for image in images]
    assert len(rest) == len(eight) - 8 > 0
    assert all(torch.equal(one, same) for one, same in zip(rest, eight[8:], strict=True))
