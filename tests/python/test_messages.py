# SPDX-License-Identifier: Apache-2.0
"""What the library says to who begins: subsets, short epochs, short runs, pictures left out."""

import re

import pytest

import feedrace as fr
from small_loaders import error_of, indices, loader_of
from small_sets import write_classes
from torchvision_import import import_torchvision


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("bee/*", [4, 5, 6, 7, 8]),
        ("bee/1", [5]),
        ("bee/1.jpg", [5]),
        ("*.jpg", list(range(12))),
        ("*/[23].jpg", [2, 3, 6, 7, 11]),
    ],
)
def test_a_pattern_matches_keys_with_their_suffix_or_without(folder, pattern, expected):
    loader = loader_of(folder, subset={"key_pattern": pattern})
    assert sum(indices(loader), []) == expected


def test_keys_and_patterns_take_what_the_field_key_gives(folder, shard):
    for source in (folder, shard):
        (keys,) = next(iter(loader_of(source, fields=("key",))))
        for key in keys:
            by_list = loader_of(source, subset={"keys": [key]}, batch_size=1)
            by_pattern = loader_of(source, subset={"key_pattern": key}, batch_size=1)
            assert indices(by_list) == indices(by_pattern) == [[keys.index(key)]]


def test_a_subset_that_nothing_is_in_says_what_keys_are_like(folder):
    for subset in ({"key_pattern": "*.png"}, {"key_filter": lambda key: False}):
        message = error_of(loader_of, folder, subset=subset)
        assert "none of 12 samples is left" in message
        assert "keys are like ant/0.jpg, indices from 0 to 11" in message
        assert (
            "widen key_pattern, key_filter or share, or give a list of keys or a range" in message
        )


def test_an_epoch_smaller_than_a_batch_names_each_way_out(folder):
    message = error_of(loader_of, folder, batch_size=64, shuffle=True)
    ways = re.findall(r'last_batch="partial"|batch_size 12 or less|shuffle=False', message)
    assert ways == ["batch_size 12 or less", 'last_batch="partial"', "shuffle=False"]
    for way in ({"batch_size": 12}, {"last_batch": "partial"}, {"shuffle": False}):
        loader = loader_of(folder, **{"batch_size": 64, "shuffle": True, **way})
        assert [len(batch) for batch in indices(loader)] == [12]


def test_an_epoch_smaller_than_a_step_of_ranks_names_each_way_out(folder):
    ranks = {"batch_size": 8, "rank": 1, "world_size": 2}
    message = error_of(loader_of, folder, shuffle=True, **ranks)
    assert 'last_batch="pad"' in message
    for way in ({"last_batch": "pad"}, {"shuffle": False}):
        loader = loader_of(folder, **{**ranks, "shuffle": True, **way})
        assert [len(batch) for batch in indices(loader)] == [6]


def test_a_short_run_has_no_verdict(folder):
    loader = loader_of(folder, transform="imagenet-val", fields=("image", "index"), batch_size=3)
    batches = iter(loader)
    for count in (1, 2, 3, 4):
        next(batches)
        assert "the run is too short to tell what limits" in loader.explain()
        assert re.search(rf"after {count} batch(es)?, the consumer waited", loader.explain())
    list(loader)
    assert "too short" not in loader.explain()


def test_the_plan_says_how_well_an_order_mixes(folder):
    stored = loader_of(folder).plan
    assert "% of random: 4 samples in a row come from " in stored.mixing_text
    assert f"mixing    {stored.mixing_text}\n" in str(stored)
    assert "of 4 equal parts of the data, in random order from " in stored.mixing_text


def test_pictures_that_are_not_decoded_are_counted_by_their_suffix(tmp_path):
    root = write_classes(tmp_path, {"ant": 2})
    for name in ("0.bmp", "1.BMP", "2.tiff", "3.gif", "4.txt"):
        (root / "ant" / name).write_bytes(b"")
    warnings = loader_of(root, batch_size=1).plan.warnings
    (bmp, gif, tiff) = sorted(line for line in warnings if "is not decoded" in line)
    assert "as .bmp is not decoded (torchvision's ImageFolder has these samples" in bmp
    assert "ant/0.bmp" in bmp
    assert "ant/1.BMP" in bmp
    assert "(2 in all)" in bmp
    assert "as .gif is not decoded: ant/3.gif (1 in all)" in gif
    assert "as .tiff is not decoded (torchvision's ImageFolder has these samples" in tiff


def test_what_torchvision_takes_and_is_left_out_is_all_named(tmp_path):
    import_torchvision()
    from torchvision.datasets.folder import IMG_EXTENSIONS

    root = write_classes(tmp_path, {"ant": 2})
    for suffix in IMG_EXTENSIONS:
        (root / "ant" / f"odd{suffix}").write_bytes(b"")
    loader = fr.ImageLoader(root, batch_size=1, transform="read", fields=("index",))
    keys = [loader.dataset.key(i) for i in range(loader.dataset.sample_count)]
    taken = [key.removeprefix("ant/odd") for key in keys if key.startswith("ant/odd")]
    named = re.findall(r"as (\.\w+) is not decoded \(torchvision", " ".join(loader.plan.warnings))
    assert sorted([*taken, *named]) == sorted(IMG_EXTENSIONS)
