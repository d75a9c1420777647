# SPDX-License-Identifier: Apache-2.0
"""Pixels and labels that operators in DALI's spelling make, against Pillow and known answers."""

import numpy as np
import pytest
from PIL import Image

import feedrace.dali.fn as fn
import feedrace.dali.types as types
from dali_sets import COUNT, LABELS, make, paths, pixels
from feedrace import Error
from feedrace.dali import pipeline_def

# No picture is higher: where one shrinks more down than across, Pillow 13 resizes in another order
# than Pillow 12, and rounds differently.
SIZE = (100, 30)


def resized(picture):
    """Pillow's, of `SIZE`."""
    return np.asarray(picture.resize(SIZE[::-1], Image.Resampling.BILINEAR))


def test_resize_takes_every_spelling_of_a_size(dali_folder):
    # The first picture is 40 wide and 90 high.
    shapes = {
        (90, 40, 3): {},
        (20, 30, 3): {"size": (20, 30)},
        (16, 16, 3): {"size": 16},
        (12, 24, 3): {"resize_x": 24, "resize_y": 12},
        (45, 20, 3): {"resize_shorter": 20},
        (27, 12, 3): {"resize_shorter": 20, "max_size": 27},
        (36, 16, 3): {"resize_longer": 36},
        (18, 8, 3): {"size": 18, "mode": "not_larger"},
        (54, 24, 3): {"size": 24, "mode": "not_smaller"},
    }
    for shape, size in shapes.items():
        made = pixels(lambda images, s=size: fn.resize(images, **s) if s else images, dali_folder)
        assert made.shape()[0] == shape


def test_resize_is_pillows(dali_folder):
    made = pixels(lambda images: fn.resize(images, size=SIZE), dali_folder)
    for i, path in enumerate(paths(dali_folder)):
        assert np.array_equal(made.at(i), resized(Image.open(path))), path


@pytest.mark.parametrize("side", [24, 25])
def test_a_crop_in_the_middle_rounds_half_a_pixel_up(dali_folder, side):
    # As DALI's does, with its default rounding="round".
    made = pixels(lambda images: fn.crop(images, crop=(side, side)), dali_folder)
    moved = pixels(
        lambda images: fn.crop(images, crop_h=side, crop_w=side, crop_pos_x=0, crop_pos_y=1.0),
        dali_folder,
    )
    for i, path in enumerate(paths(dali_folder)):
        picture = np.asarray(Image.open(path))
        top, left = ((room + 1) // 2 for room in (n - side for n in picture.shape[:2]))
        assert np.array_equal(made.at(i), picture[top : top + side, left : left + side])
        assert np.array_equal(moved.at(i), picture[-side:, :side])


def test_a_crop_that_does_not_fit_is_an_error(dali_folder):
    pipe = make(lambda encoded, _: fn.crop(fn.decoders.image(encoded), crop=(91, 8)), dali_folder)
    with pytest.raises(Error):
        pipe.run()


def test_crop_mirror_normalize_is_dalis_formula(dali_folder):
    right = np.stack([resized(Image.open(p)) for p in paths(dali_folder)])[:, 42:58, 5:25]
    options = {"mean": [1.0, 2.0, 3.0], "std": 50.0, "scale": 4.0, "shift": -2.0}

    def chain(images):
        images = fn.resize(images, size=SIZE)
        return fn.crop_mirror_normalize(
            images, crop=(16, 20), mirror=1, output_layout="HWC", dtype=types.FLOAT, **options
        )

    made = pixels(chain, dali_folder)
    assert made.layout() == "HWC"
    expected = (right[:, :, ::-1].astype(float) - [1, 2, 3]) / 50 * 4 - 2
    assert np.abs(made.as_array() - expected).max() < 1e-4

    plain = pixels(lambda images: fn.crop_mirror_normalize(fn.resize(images, size=8)), dali_folder)
    bytes_ = pixels(
        lambda images: fn.crop_mirror_normalize(fn.resize(images, size=8), dtype=types.UINT8),
        dali_folder,
    )
    assert plain.as_array().dtype == np.float32
    assert bytes_.as_array().dtype == np.uint8
    assert np.abs(plain.as_array() - bytes_.as_array()).max() < 1e-3


def test_casts_and_layouts(dali_folder):
    def chain(encoded, labels):
        images = fn.transpose(fn.resize(fn.decoders.image(encoded), size=8), perm=[2, 0, 1])
        images = fn.cast(images, dtype=types.FLOAT)
        return fn.copy(images), fn.cast(labels, dtype=types.INT64), fn.squeeze(labels, axes=0)

    images, labels, flat = make(chain, dali_folder).run()
    assert (images.as_array().shape, images.layout()) == ((COUNT, 3, 8, 8), "CHW")
    assert images.as_array().max() > 200
    assert (labels.dtype, labels.as_array().shape) == (types.INT64, (COUNT, 1))
    assert flat.as_array().tolist() == LABELS


def test_flips_are_drawn_for_each_sample_and_a_draw_used_twice_is_one(dali_folder):
    def chain(encoded, _):
        coin = fn.random.coin_flip(probability=0.5)
        images = fn.flip(fn.decoders.image(encoded), horizontal=coin, vertical=coin)
        return fn.resize(images, size=SIZE)

    made = make(chain, dali_folder).run()[0]
    turned = 0
    for i, path in enumerate(paths(dali_folder)):
        picture = Image.open(path)
        both = [picture, picture.transpose(Image.Transpose.ROTATE_180)]
        found = [np.array_equal(made.at(i), resized(one)) for one in both]
        assert sum(found) == 1, path
        turned += found[1]
    assert 0 < turned < COUNT


def test_flip_without_arguments_always_flips(dali_folder):
    made = pixels(lambda images: fn.flip(images), dali_folder)
    for i, path in enumerate(paths(dali_folder)):
        assert np.array_equal(made.at(i), np.asarray(Image.open(path))[:, ::-1])


def test_pictures_are_turned_upright_unless_told(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a").mkdir()
    Image.new("RGB", (30, 16)).save(tmp_path / "a" / "0.jpg", exif=exif)
    assert pixels(lambda images: images, tmp_path).shape()[0] == (30, 16, 3)
    kept = make(
        lambda encoded, _: fn.decoders.image(encoded, adjust_orientation=False), tmp_path, 1
    )
    assert kept.run()[0].shape() == [(16, 30, 3)]


def test_files_and_lists_name_their_samples(dali_folder, tmp_path):
    chosen = [paths(dali_folder)[i] for i in (12, 0, 5)]
    relative = [str(path.relative_to(dali_folder)) for path in chosen]
    lines = "".join(f"{path} {label}\n" for path, label in zip(relative, (7, -3, 0), strict=True))
    (tmp_path / "list of files").write_text(lines)
    (dali_folder.parent / "pictures.txt").write_text(
        "".join(f"pictures/{line}\n" for line in lines.splitlines())
    )
    ways = [
        ({"files": relative, "file_root": dali_folder, "labels": [7, -3, 0]}, [7, -3, 0]),
        ({"files": chosen}, [0, 1, 2]),
        ({"file_list": tmp_path / "list of files", "file_root": dali_folder}, [7, -3, 0]),
        ({"file_list": dali_folder.parent / "pictures.txt"}, [7, -3, 0]),
    ]
    for given, expected in ways:

        @pipeline_def(batch_size=3, device_id=None)
        def described(given=given):
            encoded, labels = fn.readers.file(**given)
            return fn.decoders.image(encoded), labels

        images, labels = described().run()
        assert labels.as_array().ravel().tolist() == expected, given
        for i, path in enumerate(chosen):
            assert np.array_equal(images.at(i), np.asarray(Image.open(path))), given


def test_components_of_shards_come_as_bytes(dali_shard):
    @pipeline_def(batch_size=COUNT, device_id=None)
    def described():
        text, number, odd = fn.readers.webdataset(
            paths=str(dali_shard),
            ext=["cls", "bin", "txt"],
            dtypes=[types.UINT8, types.INT32, types.UINT8],
        )
        return text, number, odd

    text, number, odd = described().run()
    assert text.as_array().tolist() == [[ord(str(label))] for label in LABELS]
    assert number.as_array().ravel().tolist() == LABELS
    assert [len(odd.at(i)) for i in range(3)] == [1, 2, 3]
    with pytest.raises(Error, match="different shapes"):
        odd.as_tensor()


def test_a_component_that_does_not_divide_into_its_type_is_named(dali_shard):
    @pipeline_def(batch_size=COUNT, device_id=None)
    def described():
        return fn.readers.webdataset(paths=str(dali_shard), ext="txt", dtypes=types.INT32)

    with pytest.raises(Error, match=r"sample .*0000: component txt has 1 bytes; give it a dtype"):
        described().run()
