# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as steps: what each becomes, and what is left to Python."""

import subprocess
import sys

import pytest

from torchvision_import import import_torchvision

torchvision = import_torchvision()
import torch  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms._presets import ImageClassification  # noqa: E402

from feedrace.errors import Error  # noqa: E402
from feedrace.pipeline import Pipeline  # noqa: E402
from feedrace.transforms import translate  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALIZE = {"op": "normalize", "mean": MEAN, "std": STD}
to_float32 = v2.ToDtype(torch.float32, scale=True)
pytestmark = pytest.mark.filterwarnings("ignore:The transform `ToTensor")


def coin(number, probability=0.5):
    return {"draw": "coin_flip", "probability": probability, "id": number}


def middle(*members, **options):
    """The steps between decode and to_tensor."""
    steps = translate(v2.Compose(list(members)), **options).steps
    assert steps[0] == {"op": "decode", "orientation": "keep"}
    assert steps[-1]["op"] == "to_tensor"
    return list(steps[1:-1])


def end(*members):
    """Dtype and layout of the native part."""
    last = translate(v2.Compose(list(members))).steps[-1]
    return last["dtype"], last["layout"]


def refusal(transform, **options):
    with pytest.raises(Error) as caught:
        translate(transform, **options)
    message = str(caught.value)
    assert "\n" not in message
    return caught.value.code, message


SAME_IN_BOTH = [
    (lambda t: t.Resize(256), [{"op": "resize", "shorter": 256, "longest": None}]),
    (lambda t: t.Resize([256]), [{"op": "resize", "shorter": 256, "longest": None}]),
    (lambda t: t.Resize((20, 30)), [{"op": "resize", "size": (20, 30)}]),
    (lambda t: t.Resize(40, max_size=50), [{"op": "resize", "shorter": 40, "longest": 50}]),
    (lambda t: t.CenterCrop(9), [{"op": "center_crop", "size": (9, 9)}]),
    (lambda t: t.CenterCrop((9, 7)), [{"op": "center_crop", "size": (9, 7)}]),
    (
        lambda t: t.RandomResizedCrop((64, 32), scale=(0.2, 0.9), ratio=(0.5, 2.0)),
        [
            {
                "op": "random_resized_crop",
                "size": (64, 32),
                "scale": (0.2, 0.9),
                "ratio": (0.5, 2.0),
            }
        ],
    ),
    (
        lambda t: t.RandomHorizontalFlip(0.25),
        [{"op": "flip", "horizontal": coin(0, 0.25), "vertical": 0.0}],
    ),
    (
        lambda t: t.RandomVerticalFlip(),
        [{"op": "flip", "horizontal": 0.0, "vertical": coin(0)}],
    ),
    (lambda t: t.RandomHorizontalFlip(0), []),
    (
        lambda t: t.RandomHorizontalFlip(1),
        [{"op": "flip", "horizontal": 1.0, "vertical": 0.0}],
    ),
    (lambda t: t.Grayscale(3), [{"op": "grayscale", "apply": 1.0}]),
    (lambda t: t.RandomGrayscale(0.2), [{"op": "grayscale", "apply": coin(0, 0.2)}]),
    (
        lambda t: t.ColorJitter(brightness=0.4, saturation=(0.5, 1.5), hue=0.1),
        [
            {
                "op": "color_jitter",
                "brightness": (0.6, 1.4),
                "contrast": None,
                "saturation": (0.5, 1.5),
                "hue": (-0.1, 0.1),
                "apply": 1.0,
            }
        ],
    ),
    (lambda t: t.ColorJitter(), []),
    (
        lambda t: t.RandomApply([t.ColorJitter(contrast=0.5), t.Grayscale(3)], p=0.8),
        [
            {
                "op": "color_jitter",
                "brightness": None,
                "contrast": (0.5, 1.5),
                "saturation": None,
                "hue": None,
                "apply": coin(0, 0.8),
            },
            {"op": "grayscale", "apply": coin(0, 0.8)},
        ],
    ),
    (
        lambda t: t.Pad((1, 2, 3, 4), fill=(5, 6, 7)),
        [
            {
                "op": "pad",
                "left": 1,
                "top": 2,
                "right": 3,
                "bottom": 4,
                "fill": (5, 6, 7),
                "mode": "constant",
            }
        ],
    ),
    (
        lambda t: t.Pad((1, 2), padding_mode="reflect"),
        [
            {
                "op": "pad",
                "left": 1,
                "top": 2,
                "right": 1,
                "bottom": 2,
                "fill": (0, 0, 0),
                "mode": "reflect",
            }
        ],
    ),
    (
        lambda t: t.RandomCrop(8, padding=(1, 2, 3, 4), fill=9),
        [
            {
                "op": "pad",
                "left": 1,
                "top": 2,
                "right": 3,
                "bottom": 4,
                "fill": (9, 9, 9),
                "mode": "constant",
            },
            {"op": "random_crop", "size": (8, 8)},
        ],
    ),
    (
        lambda t: t.RandomCrop((8, 6)),
        [{"op": "random_crop", "size": (8, 6)}],
    ),
]


@pytest.mark.parametrize("versions", [v1, v2], ids=["v1", "v2"])
@pytest.mark.parametrize(("make", "steps"), SAME_IN_BOTH)
def test_a_member_of_either_version_becomes_these_steps(versions, make, steps):
    pipeline = translate(versions.Compose([make(versions)]), on_unknown="error")
    assert list(pipeline.steps[1:-1]) == steps
    assert pipeline.steps[-1] == {"op": "to_tensor", "dtype": "uint8", "layout": "CHW"}
    assert pipeline.batch_function is None


def test_resize_by_the_longer_side():
    assert middle(v2.Resize(None, max_size=50)) == [{"op": "resize", "longer": 50}]


def imagenet_train(dtype, *, to_tensor_first=False):
    pixels = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]
    members = [v2.ToImage(), *pixels] if to_tensor_first else [*pixels, v2.ToImage()]
    return v2.Compose([*members, v2.ToDtype(dtype, scale=True), v2.Normalize(MEAN, STD)])


@pytest.mark.parametrize("to_tensor_first", [False, True])
def test_the_usual_train_transform_is_the_recipe(to_tensor_first):
    pipeline = translate(imagenet_train(torch.float16, to_tensor_first=to_tensor_first))
    assert pipeline.batch_function is None
    assert pipeline == Pipeline.recipe("imagenet-train")


def test_the_usual_val_transform_is_the_recipe():
    members = [v2.Resize(256), v2.CenterCrop(224), v2.PILToTensor()]
    half = [v2.ToDtype(torch.float16, scale=True), v2.Normalize(MEAN, STD)]
    assert translate(v2.Compose(members + half)) == Pipeline.recipe("imagenet-val")
    late = [to_float32, v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)]
    assert translate(v2.Compose(members + late)) == Pipeline.recipe("imagenet-val")


def test_weights_transforms_are_resize_crop_and_normalize():
    assert middle(ImageClassification(crop_size=224, resize_size=232), on_unknown="error") == [
        {"op": "resize", "shorter": 232, "longest": None},
        {"op": "center_crop", "size": (224, 224)},
        NORMALIZE,
    ]


def test_conversions_to_float():
    assert end(v2.ToImage()) == ("uint8", "CHW")
    assert end(v2.ToTensor()) == ("float32", "CHW")
    assert end(v1.ToTensor()) == ("float32", "CHW")
    assert end(v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)) == ("float16", "CHW")
    assert end(v2.ToImage(), v2.ToDtype(torch.uint8, scale=True)) == ("uint8", "CHW")
    by_type = {tv_tensors.Image: torch.float32, "others": None}
    assert end(v2.ToImage(), v2.ToDtype(by_type, scale=True)) == ("float32", "CHW")
    assert end(v2.PILToTensor(), v2.ToDtype(by_type, scale=True)) == ("uint8", "CHW")


def test_flips_and_crops_behind_the_conversion_go_in_front_of_it():
    flip = {"op": "flip", "horizontal": coin(0), "vertical": 0.0}
    crop = {"op": "center_crop", "size": (8, 8)}
    resize = {"op": "resize", "size": (9, 9)}
    members = [v2.Resize((9, 9)), v2.ToTensor(), v2.Normalize(MEAN, STD)]
    moved = middle(*members, v2.RandomHorizontalFlip(), v2.CenterCrop(8), on_unknown="error")
    assert moved == [resize, flip, crop, NORMALIZE]


def test_fills_of_float_tensors_are_shares_of_255():
    (step,) = middle(v2.ToTensor(), v2.Pad(1, fill=0.2), on_unknown="error")
    assert step["fill"] == (51, 51, 51)
    fills = {tv_tensors.Image: 7, "others": 8}
    (step,) = middle(v2.ToImage(), v2.Pad(1, fill=fills), on_unknown="error")
    assert step["fill"] == (7, 7, 7)


def test_erasing_keeps_its_units():
    erasing = {
        "op": "random_erasing",
        "probability": 0.5,
        "scale": (0.02, 0.33),
        "ratio": (0.3, 3.3),
        "value": (0.1, 0.2, 0.3),
    }
    before = middle(v2.ToTensor(), v2.RandomErasing(value=(0.1, 0.2, 0.3)), v2.Normalize(MEAN, STD))
    assert before == [erasing, NORMALIZE]
    behind = middle(v2.ToTensor(), v2.Normalize(MEAN, STD), v2.RandomErasing(value="random"))
    assert behind == [NORMALIZE, {**erasing, "value": "random"}]


def test_nested_and_single_transforms():
    inner = torch.nn.Sequential(v2.RandomHorizontalFlip(), torch.nn.Identity())
    assert translate(v2.Compose([v1.Compose([inner]), v2.ToImage()])) == translate(
        v2.RandomHorizontalFlip()
    )


def test_two_members_draw_independent_numbers():
    first, second = middle(v2.RandomHorizontalFlip(), v2.RandomHorizontalFlip())
    assert (first["horizontal"]["id"], second["horizontal"]["id"]) == (0, 1)


NOT_NATIVE = [
    ([v2.Resize(8, interpolation=v2.InterpolationMode.BICUBIC)], 0, "bicubic"),
    ([v2.ToImage(), v2.Resize(8, antialias=False)], 1, "antialias is False"),
    ([v2.RandAugment()], 0, "no native operator"),
    ([v2.RandomOrder([v2.Resize(8), v2.CenterCrop(4)])], 0, "no native operator"),
    ([v2.RandomRotation(10, expand=True)], 0, "no native operator"),
    ([v2.ToImage(), v2.ToDtype(torch.float32)], 1, "scale=True"),
    ([v2.ToImage(), v2.ToDtype(torch.float64, scale=True)], 1, "float64"),
    ([v1.ToTensor(), v2.Resize(8)], 1, "works on floats"),
    ([v1.ToTensor(), v2.Normalize(MEAN, STD), v2.Normalize(MEAN, STD)], 2, "already"),
    ([v1.ToTensor(), v2.Normalize(MEAN, STD), v2.Pad(1)], 2, "pads normalised"),
    ([v1.ToTensor(), v2.RandomErasing(), v2.RandomHorizontalFlip()], 2, "RandomErasing"),
    ([v2.ToImage(), v2.RandomErasing(), v2.ToDtype(torch.float32, scale=True)], 1, "8-bit"),
    ([v2.Grayscale(1)], 0, "1 channel"),
    ([v2.RandomApply([v2.RandomHorizontalFlip()])], 0, "inside it"),
    ([v2.RandomCrop(8, pad_if_needed=True)], 0, "pad_if_needed"),
    ([v2.Pad(1, fill=0.5)], 0, "fill is"),
    ([v2.Resize((4, 4)), v2.Pad(4, padding_mode="reflect")], 1, "reflects more"),
    ([v2.Pad(-1)], 0, "padding is -1"),
    ([v2.RandomResizedCrop(8, scale=(0, 1))], 0, "scale is (0.0, 1.0)"),
]


@pytest.mark.parametrize(("members", "position", "reason"), NOT_NATIVE)
def test_what_is_not_native_is_named_with_its_place_and_reason(members, position, reason):
    code, message = refusal(v2.Compose(members), on_unknown="error")
    assert code == "unsupported"
    assert message.startswith(f"transform member {position + 1} (")
    assert reason in message
    pipeline = translate(v2.Compose(members))
    assert [one.transform for one in pipeline.batch_function.members] == members[position:]
    assert reason in pipeline.notes[-1]
    assert "Python" in pipeline.notes[-1]


def test_a_class_derived_from_a_transform_is_the_users_own():
    class Mine(v2.Resize):
        pass

    assert refusal(Mine(8), on_unknown="error")[0] == "unsupported"


def test_the_native_part_ends_as_the_first_python_member_is_fed():
    own = v2.Lambda(lambda picture: picture)
    assert end(v2.Resize((8, 8)), own, v2.ToImage()) == ("uint8", "HWC")
    assert end(v2.ToImage(), own, to_float32) == ("uint8", "CHW")
    assert end(own, to_float32) == ("uint8", "CHW")
    assert end(v2.ToTensor(), own, v2.Normalize(MEAN, STD)) == ("float32", "CHW")
    assert end(own) == ("uint8", "HWC")


def test_hue_on_tensors_is_noted():
    jitter = v2.ColorJitter(hue=0.1)
    (note,) = translate(v2.Compose([v2.ToImage(), jitter])).notes[:1]
    assert note.startswith("transform member 2 (ColorJitter): hue")
    assert not any("hue" in note for note in translate(v2.Compose([jitter, v2.ToImage()])).notes)


REFUSED = [
    (v2.Compose([v2.ToImage(), v2.Normalize(MEAN, STD)]), "member 2 (Normalize)", "ToDtype"),
    (v2.Compose([v1.ToTensor(), v2.Normalize(MEAN, (0, 1, 1))]), "std", "not 0"),
    (v2.Compose([v1.ToTensor(), v2.Normalize((1, 2), (1, 2))]), "mean", "1 or 3"),
    (v2.Compose([v2.Resize]), "the class Resize", "make an object"),
    (v1.Compose([v1.Resize(8), 5]), "member 2", "can't be called"),
    (7, "7", "Compose"),
    (v1.Resize(0), "size is 0", "from 1 up"),
    (v1.RandomHorizontalFlip(1.5), "p is 1.5", "from 0 to 1"),
    (v1.Compose([v1.ToTensor(), v1.ToTensor()]), "member 2", "leave it out"),
]


@pytest.mark.parametrize(("transform", "found", "fix"), REFUSED)
def test_what_torchvision_could_not_run_is_refused_at_once(transform, found, fix):
    code, message = refusal(transform)
    assert code == "invalid_argument"
    assert found in message
    assert fix in message


def test_on_unknown_is_checked():
    code, message = refusal(v2.Resize(8), on_unknown="pythn")
    assert code == "invalid_argument"
    assert "'python'" in message


def test_translating_what_is_not_torchvisions_does_not_import_it():
    program = (
        "import sys, feedrace.transforms as t; t.translate(lambda picture: picture);"
        "sys.exit('torchvision' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
