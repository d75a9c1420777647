# SPDX-License-Identifier: Apache-2.0
"""The same script with the real DALI and with feedrace.dali, side by side, on the CPU.

Runs where both are importable in one interpreter (pip install nvidia-dali-cuda130).
"""

import inspect
import json
import operator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import feedrace.dali
import feedrace.dali.fn
import feedrace.dali.types
from dali_sets import BATCH, COUNT, LABELS, MEAN_255, STD_255, paths, write_shard

pytest.importorskip("nvidia.dali", reason="DALI is not installed: pip install nvidia-dali-cuda130")
pytest.importorskip("torch", reason="torch is not installed")

import nvidia.dali.fn  # noqa: E402
import nvidia.dali.plugin.pytorch  # noqa: E402
import nvidia.dali.types  # noqa: E402

import feedrace.dali.plugin.pytorch  # noqa: E402


def library(package):
    return SimpleNamespace(
        fn=package.fn,
        types=package.types,
        pipeline_def=package.pipeline_def,
        pytorch=package.plugin.pytorch,
    )


OURS = library(feedrace.dali)
THEIRS = library(nvidia.dali)

CASES = Path(__file__).parents[1] / "cases"

# Of the cases with known tensors (tests/cases/README.md, "numeric"), as levels of 0..255: 0.035 and
# 0.006 of values that are divided by a standard deviation of 0.225.
MAX_LEVELS = 0.035 * 0.225 * 255
MEAN_LEVELS = 0.006 * 0.225 * 255
# Where a picture shrinks, DALI repeats the outermost pixel beyond the edge and Pillow narrows the
# filter. Measured: 3 levels in the outermost row of these pictures, up to 16 in that of photos;
# everywhere else 1.
EDGE_LEVELS = 4


def run(dali, reader, chain, batch_size=COUNT):
    """The outputs of one run of `chain`, which takes the library and the reader's outputs."""

    @dali.pipeline_def(batch_size=batch_size, num_threads=1, device_id=None)
    def described():
        return chain(dali, *reader(dali))

    pipe = described()
    pipe.build()
    return pipe.run()


def of_files(**given):
    return lambda dali: dali.fn.readers.file(name="Reader", **given)


def side_by_side(reader, chain):
    return run(OURS, reader, chain), run(THEIRS, reader, chain)


def decoded(dali, encoded, _):
    return dali.fn.decoders.image(encoded)


def resized(dali, encoded, labels, **size):
    return dali.fn.resize(decoded(dali, encoded, labels), **size)


def training(dali, encoded, labels):
    fn, types = dali.fn, dali.types
    images = fn.random_resized_crop(fn.decoders.image(encoded), size=(24, 20), random_area=(0.2, 1))
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT16, mean=MEAN_255, std=STD_255)
    return images, labels


def fused(dali, encoded, labels):
    fn, types = dali.fn, dali.types
    part = fn.decoders.image_random_crop(encoded, random_area=[0.2, 1])
    images = fn.crop_mirror_normalize(
        fn.resize(part, size=[24, 20]),
        crop=(16, 12),
        mirror=fn.random.coin_flip(),
        dtype=types.FLOAT,
        output_layout="HWC",
    )
    return images, fn.cast(labels, dtype=types.INT64)


def plain(dali, encoded, labels):
    fn = dali.fn
    images = fn.transpose(fn.resize(fn.decoders.image(encoded), size=9), perm=[2, 0, 1])
    return images, fn.squeeze(labels, axes=0), fn.reshape(labels, shape=[])


def describe(outputs):
    return [(out.shape(), out.dtype.name, out.layout()) for out in outputs]


@pytest.mark.parametrize("chain", [training, fused, plain])
def test_shapes_types_layouts_and_labels_are_dalis(dali_folder, chain):
    ours, theirs = side_by_side(of_files(file_root=str(dali_folder)), chain)
    assert describe(ours) == describe(theirs)
    assert np.array_equal(ours[1].as_array(), theirs[1].as_array())
    assert ours[1].as_array().ravel().tolist() == LABELS


@pytest.mark.parametrize(
    "size",
    [
        {"size": (20, 30)},
        {"size": 16},
        {"resize_x": 24, "resize_y": 12},
        {"resize_longer": 36},
        {"resize_shorter": 20},
        {"resize_shorter": 20, "max_size": 27},
        {"size": 18, "mode": "not_larger"},
        {"size": 24, "mode": "not_smaller"},
    ],
)
def test_sizes_are_dalis_but_for_a_rounded_side(dali_folder, size):
    ours, theirs = side_by_side(
        of_files(file_root=str(dali_folder)), lambda *a: resized(*a, **size)
    )
    for mine, other in zip(ours[0].shape(), theirs[0].shape(), strict=True):
        # torchvision rounds the side that keeps the aspect down, DALI to nearest.
        assert all(0 <= b - a <= 1 for a, b in zip(mine, other, strict=True)), (mine, other)
        assert min(mine[:2]) == min(other[:2]) or max(mine[:2]) == max(other[:2])


def test_batches_of_torch_are_dalis(dali_folder):
    def first(dali):
        pipe = dali.pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)(
            lambda: training(dali, *of_files(file_root=str(dali_folder))(dali))
        )()
        iterator = dali.pytorch.DALIGenericIterator(pipe, ["data", "label"], reader_name="Reader")
        batches = next(iterator)
        assert isinstance(batches, list)
        return [{k: (tuple(v.shape), v.dtype, v.device) for k, v in b.items()} for b in batches]

    assert first(OURS) == first(THEIRS)


def epoch_sizes(dali, dali_folder, epochs, pad=False, **given):
    policy = given.pop("policy", None)
    if policy is not None:
        given["last_batch_policy"] = dali.pytorch.LastBatchPolicy[policy]
    reader = of_files(file_root=str(dali_folder), random_shuffle=True, pad_last_batch=pad)
    pipe = dali.pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)(
        lambda: reader(dali)[1]
    )()
    iterator = dali.pytorch.DALIGenericIterator(pipe, ["label"], auto_reset=True, **given)
    return len(iterator), [[len(batch[0]["label"]) for batch in iterator] for _ in range(epochs)]


@pytest.mark.parametrize(
    ("given", "epochs"),
    [
        ({"reader_name": "Reader", "policy": "DROP"}, 3),
        ({"reader_name": "Reader", "policy": "PARTIAL"}, 3),
        ({"reader_name": "Reader", "policy": "FILL", "pad": True}, 3),
        ({"size": COUNT, "policy": "DROP"}, 3),
        ({"size": COUNT, "policy": "PARTIAL"}, 3),
        ({"size": COUNT, "policy": "FILL", "pad": True, "last_batch_padded": True}, 3),
        ({"size": 10, "policy": "PARTIAL"}, 1),
        ({"size": 30}, 1),
        # Where a batch runs into the next epoch, DALI's second one is a batch shorter; ours is not.
        ({"reader_name": "Reader", "policy": "FILL"}, 1),
        ({"size": COUNT}, 1),
    ],
)
def test_epochs_are_as_long_as_dalis(dali_folder, given, epochs):
    ours = epoch_sizes(OURS, dali_folder, epochs, **given)
    assert ours == epoch_sizes(THEIRS, dali_folder, epochs, **given)


def test_a_filled_epoch_is_always_as_long_where_dalis_shrinks(dali_folder):
    given = {"reader_name": "Reader", "policy": "FILL"}
    assert epoch_sizes(OURS, dali_folder, 2, **given) == (4, [[4] * 4, [4] * 4])
    assert epoch_sizes(THEIRS, dali_folder, 2, **given) == (4, [[4] * 4, [4] * 3])


@pytest.mark.parametrize(
    "given",
    [{}, {"pad_last_batch": True}, {"num_shards": 2, "shard_id": 1, "pad_last_batch": True}],
)
def test_what_the_reader_tells_is_what_dalis_does(dali_folder, given):
    def told(dali):
        pipe = dali.pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)(
            lambda: of_files(file_root=str(dali_folder), **given)(dali)[1]
        )()
        pipe.build()
        return pipe.epoch_size(), pipe.epoch_size("Reader"), pipe.reader_meta("Reader")

    assert told(OURS) == told(THEIRS)


def test_classes_are_numbered_as_dalis(dali_folder, tmp_path):
    picture = next(dali_folder.rglob("*.jpg")).read_bytes()
    for name in ("Z/1.jpg", "a/2.JPG", "a/10.jpeg", "a/x.txt", "b/empty", "c/1.jpg"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix:
            path.write_bytes(picture)
    ours, theirs = (
        run(dali, of_files(file_root=str(tmp_path)), lambda dali, _, labels: labels, 4)[0]
        for dali in (OURS, THEIRS)
    )
    assert ours.as_array().ravel().tolist() == theirs.as_array().ravel().tolist() == [0, 1, 1, 3]


def test_lists_give_dalis_labels(dali_folder, tmp_path):
    names = [
        str(path.relative_to(dali_folder)) for path in (paths(dali_folder)[i] for i in (12, 0))
    ]
    (tmp_path / "list.txt").write_text(
        "".join(f"{dali_folder / name} {i + 5}\n" for i, name in enumerate(names))
    )
    for given in (
        {"files": names, "file_root": str(dali_folder)},
        {"files": names, "file_root": str(dali_folder), "labels": [-2, 9]},
        {"file_list": str(tmp_path / "list.txt"), "file_root": "/"},
        {"file_list": str(tmp_path / "list.txt")},
    ):
        ours, theirs = (
            run(dali, of_files(**given), lambda dali, _, labels: labels, 2)[0].as_array()
            for dali in (OURS, THEIRS)
        )
        assert ours.tolist() == theirs.tolist(), given


def test_components_of_shards_are_dalis(dali_folder, tmp_path):
    dali_shard = write_shard(tmp_path, dali_folder)

    def reader(dali):
        types = [dali.types.UINT8, dali.types.UINT8, dali.types.INT32, dali.types.UINT8]
        return dali.fn.readers.webdataset(
            paths=[str(dali_shard)], ext=["jpg;png", "cls", "bin", "txt"], dtypes=types
        )

    ours, theirs = side_by_side(
        reader, lambda dali, encoded, *rest: (dali.fn.decoders.image(encoded), *rest)
    )
    assert describe(ours) == describe(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for i in range(COUNT):
            assert np.array_equal(mine.at(i), other.at(i))


# DALI 2.4 refuses it ("Unexpected end of stream"); Pillow and feedrace decode it.
NOT_DALIS = ("webp_exif_orientation_8",)


def well_formed_pictures():
    cases = json.loads((CASES / "expectations.json").read_text())["cases"]
    return [
        case
        for case in cases
        if case["kind"] == "decode"
        and case["expect"]["outcome"] == "ok"
        and case["id"] not in NOT_DALIS
    ]


@pytest.mark.parametrize("case", well_formed_pictures(), ids=lambda case: case["id"])
def test_pixels_are_dalis_within_the_cases_tolerance(case):
    reader = of_files(files=[str(CASES / case["file"])])

    def chain(dali, encoded, _):
        return dali.fn.decoders.image(encoded, adjust_orientation=False)

    ours, theirs = (run(dali, reader, chain, 1)[0].at(0) for dali in (OURS, THEIRS))
    assert ours.shape == theirs.shape
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    tolerance = case["expect"]["tolerance"]
    assert difference.max() <= tolerance["max_abs"]
    assert difference.mean() <= tolerance["mean_abs"]


def levels_apart(ours, theirs, border=0, chosen=None):
    """The largest and the mean difference of pixels, `border` of them left out on each side."""
    differences = []
    for i in range(len(ours)) if chosen is None else chosen:
        mine, other = ours.at(i).astype(float), theirs.at(i).astype(float)
        assert mine.shape == other.shape
        height, width = mine.shape[:2]
        inner = slice(border, height - border), slice(border, width - border)
        differences.append(np.abs(mine[inner] - other[inner]).ravel())
    joined = np.concatenate(differences)
    return joined.max(), joined.mean()


def test_upright_pictures_are_dalis():
    files = [str(CASES / f"images/jpg_exif_orientation_{i}.jpg") for i in (1, 2, 4, 6, 7, 8)]
    ours, theirs = (run(dali, of_files(files=files), decoded, 6)[0] for dali in (OURS, THEIRS))
    assert levels_apart(ours, theirs) == (0, 0)


@pytest.mark.parametrize(
    "place", [{}, {"crop_pos_x": 0.0, "crop_pos_y": 1.0}, {"crop_pos_x": 0.3, "crop_pos_y": 0.717}]
)
@pytest.mark.parametrize("side", [20, 25])
def test_crops_are_dalis(dali_folder, side, place):
    def chain(dali, encoded, labels):
        return dali.fn.crop(decoded(dali, encoded, labels), crop=(side, side), **place)

    ours, theirs = side_by_side(of_files(file_root=str(dali_folder)), chain)
    assert levels_apart(ours[0], theirs[0]) == (0, 0)


@pytest.mark.parametrize("size", [(20, 30), (31, 23), (100, 130)])
def test_resized_pixels_are_dalis_but_at_the_edge(dali_folder, size):
    ours, theirs = side_by_side(
        of_files(file_root=str(dali_folder)), lambda *a: resized(*a, size=size)
    )
    highest, mean = levels_apart(ours[0], theirs[0], border=1)
    assert highest <= MAX_LEVELS
    assert mean <= MEAN_LEVELS
    assert levels_apart(ours[0], theirs[0])[0] <= EDGE_LEVELS


def test_the_shorter_side_is_dalis_without_its_shift(dali_folder):
    ours, theirs = side_by_side(
        of_files(file_root=str(dali_folder)),
        lambda *a: resized(*a, resize_shorter=20, subpixel_scale=False),
    )
    same = [i for i in range(COUNT) if ours[0].shape()[i] == theirs[0].shape()[i]]
    assert len(same) > COUNT // 2
    highest, mean = levels_apart(ours[0], theirs[0], border=1, chosen=same)
    assert highest <= MAX_LEVELS
    assert mean <= MEAN_LEVELS


def test_normalized_values_are_dalis(dali_folder):
    def chain(dali, encoded, labels):
        fn, types = dali.fn, dali.types
        images = fn.crop(fn.decoders.image(encoded), crop=(24, 25))
        return fn.crop_mirror_normalize(
            images, mirror=1, dtype=types.FLOAT16, mean=MEAN_255, std=STD_255, scale=2.0, shift=0.5
        )

    ours, theirs = side_by_side(of_files(file_root=str(dali_folder)), chain)
    # Values up to 6: a step of float16 there is 2 ** -8.
    assert np.abs(ours[0].as_array().astype(float) - theirs[0].as_array()).max() <= 2**-8


@pytest.mark.parametrize("path", feedrace.dali.operators.SUPPORTED)
def test_every_argument_of_dalis_operator_is_known(path):
    ours, theirs = (operator.attrgetter(path)(library) for library in (OURS, THEIRS))
    known = {*ours.arguments.taken, *ours.arguments.only, *ours.arguments.hints}
    known |= set(feedrace.dali.operators.COMMON)
    by_name = [
        name
        for name, one in inspect.signature(theirs).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    ]
    # A second way to give a draw a shape; of any shape but one number there is none.
    assert set(by_name) - known <= {"shape_like"}


def modules_of(module, path):
    """The modules of operators inside one, by path."""
    for name, member in vars(module).items():
        is_inside = inspect.ismodule(member) and member.__name__ == f"{module.__name__}.{name}"
        if is_inside and name != "hidden" and not name.startswith("_"):
            yield f"{path}.{name}"
            yield from modules_of(member, f"{path}.{name}")


def test_every_module_of_dalis_operators_is_known():
    paths_of_modules = list(modules_of(nvidia.dali.fn, "fn"))
    assert {"fn.noise", "fn.readers", "fn.experimental.decoders"} <= set(paths_of_modules)
    for path in paths_of_modules:
        assert operator.attrgetter(path)(OURS) is not None
