# SPDX-License-Identifier: Apache-2.0
"""Who gets which sample when, as `plan` shows and counts it and as loaders deliver it."""

import itertools
import json
import os
import random
import shutil

import pytest

import cases
from conftest import CASES, HANG_SECONDS, LAUNCHER_VARIABLES, run, start
from digests import digest, digest_ranks, lines_of, places, quick, real_places, samples
from pictures import jpeg, make_folder, pack_shards

WRONG_USE, ENVIRONMENT = 2, 3
SHUFFLES = ("none", "window", "global")


@pytest.fixture
def folder(tmp_path):
    """40 pictures."""
    return make_folder(tmp_path / "pictures", classes=("cat", "dog"), count=20)


def plan(source, *options, **more):
    return run("plan", source, *options, "--json", **more).json()


def shown(source, *options):
    """The places that --show-order prints of a whole epoch."""
    return plan(source, "--show-order", "--steps", "1000", *options)["order_samples"]


# The order.


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_ranks_parts_of_a_step_joined_are_the_step_of_one_rank(folder, shuffle):
    options = ("--shuffle", shuffle, "--shuffle-chunk", "4", "--shuffle-window", "16")
    whole = shown(folder, "--batch", "12", "--last-batch", "drop", *options)
    for world_size in (2, 3, 4, 6, 12):
        batch = str(12 // world_size)
        ranks = ("--world-size", str(world_size), "--rank", "1", "--batch", batch)
        parts = shown(folder, *ranks, "--last-batch", "drop", *options)
        assert [p["sample"] for p in parts] == [p["sample"] for p in whole]
        assert [p["position"] for p in parts] == list(range(36))
        assert {p["rank"] for p in parts} == set(range(world_size))


@pytest.mark.parametrize("last_batch", ["drop", "pad", "fill"])
def test_what_is_shown_is_what_loaders_deliver(folder, last_batch):
    options = ("--batch", "3", "--last-batch", last_batch, "--seed", "9", "--epoch", "2")
    for world_size in (1, 3, 5):
        ranks = ("--world-size", str(world_size), "--rank", "0")
        expected = {
            (p["epoch"], p["position"]): (p["sample"], p["flag"])
            for p in shown(folder, *ranks, *options)
        }
        lines = itertools.chain(*digest_ranks(folder, world_size, *options))
        delivered = {where: content[:2] for where, content in places(lines).items()}
        assert delivered == expected


def test_show_order_names_keys_and_sets(tmp_path):
    big, small = make_folder(tmp_path / "big", count=10), make_folder(tmp_path / "small", count=2)
    options = ("--set", f"0.75:{big}", "--set", f"0.25:{small}", "--batch", "8")
    report = plan("--show-order", "--steps", "3", *options)
    places_shown = report["order_samples"]
    assert len(places_shown) == 24
    keys = {"big": run("ls", big, "--json").json()["samples"]}
    for place in places_shown:
        is_big = place["sample"] < 20
        assert place["set"] == str(big if is_big else small)
        if is_big:
            assert place["key"] == keys["big"][place["sample"]][0]
    for step in range(3):
        of_step = [p for p in places_shown if p["step"] == step]
        assert [p["place"] for p in of_step] == list(range(8))
        assert [p["set"] for p in of_step].count(str(big)) == 6
    text = run("plan", "--show-order", *options).out.decode()
    assert f"{big}: " in text
    assert f"{small}: " in text


def test_show_order_is_readable_on_a_terminal(folder):
    options = ("--world-size", "3", "--rank", "0", "--last-batch", "pad", "--steps", "2")
    text = run(
        "plan", folder, "--show-order", "--step", "1", "--batch", "12", *options
    ).out.decode()
    order = text[text.index("samples of epoch 0") :]
    assert max(len(line) for line in order.splitlines()) <= 120
    assert "step 1  rank 2  positions 40-41  samples" in order
    assert order.count("(pad)") == 2
    assert "step 2" not in order  # The epoch has two.
    first = run("plan", folder, "--show-order", "--batch", "12", "--no-shuffle").out.decode()
    assert "samples 0 1 2 3 4 5 6 7 ... 3 more ... 11\n" in first
    assert "cat/000.jpg, cat/001.jpg, cat/002.jpg, ..." in first
    assert first.count("|\n") == 16


def test_the_map_shows_where_an_epoch_draws_from(tmp_path):
    source = make_folder(tmp_path / "pictures", classes=("cat", "dog"), count=100)
    counts = plan(source, "--show-order", "--no-shuffle", "--batch", "4")["order_map"]
    assert [len(row) for row in counts] == [64] * 16
    assert sum(map(sum, counts)) == 200
    for row, columns in enumerate(counts):  # A diagonal.
        assert sum(columns[4 * row : 4 * row + 4]) >= sum(columns) - 1
    shuffled = plan(source, "--show-order", "--batch", "4")["order_map"]
    assert sum(map(sum, shuffled)) == 200
    assert all(sum(count > 0 for count in row) > 6 for row in shuffled)


def test_a_step_or_an_epoch_that_does_not_exist_is_refused(folder):
    for command in ("plan", "digest"):
        run(command, folder, "--epoch", "-1").error(WRONG_USE)
    beyond = str(2**40)
    error = run("plan", folder, "--show-order", "--epoch", beyond, "--batch", "4").error(WRONG_USE)
    assert beyond in error
    error = run("plan", folder, "--show-order", "--step", "10", "--batch", "4").error(WRONG_USE)
    assert "--step is 10" in error
    assert "0 to 9" in error


# The split.


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("world_size", [1, 3, 4])
def test_check_epoch_counts_every_sample_on_all_ranks(folder, shuffle, world_size):
    total, batch = 40, 3
    step = world_size * batch
    rest = total % step
    ranks = ("--world-size", str(world_size), "--rank", "0", "--batch", str(batch))
    expected = {
        "drop": (rest, 0),
        "pad": (0, -rest % world_size),
        "fill": (0, -rest % step),
        "partial": (0, 0) if rest % world_size == 0 else None,
    }
    for last_batch, numbers in expected.items():
        options = (*ranks, "--shuffle", shuffle, "--last-batch", last_batch, "--epoch", "3")
        if numbers is None:
            error = run("plan", folder, "--check-epoch", *options).error(WRONG_USE)
            assert "last_batch=pad" in error
            continue
        report = plan(folder, "--check-epoch", *options)
        left_out, repeated = numbers
        coverage = report["coverage"]
        assert coverage["problems"] == []
        assert (coverage["samples"], coverage["ranks"]) == (total, world_size)
        assert (coverage["left_out"], coverage["repeated"]) == numbers
        assert coverage["delivered"] == total - left_out
        assert coverage["places"] == total - left_out + repeated
        assert (report["dropped_samples"], report["padded_samples"]) == numbers


def test_check_epoch_says_it_in_a_line(folder):
    def line(*options):
        text = run("plan", folder, "--check-epoch", *options).out.decode()
        return next(x for x in text.splitlines() if x.startswith("coverage"))

    ranks = ("--world-size", "8", "--rank", "0")
    assert line("--batch", "5", *ranks) == (
        "coverage  epoch 0: 40 of 40 samples exactly once on 8 ranks, 0 padded, 0 left out "
        "(last_batch=drop)"
    )
    assert "exactly 3 times on 1 rank," in line("--batch", "5", "--repeat", "3")
    assert "36 of 40 samples exactly once" in line("--batch", "12")
    assert "4 left out" in line("--batch", "12")


@pytest.mark.parametrize(
    "subset",
    [("--keys", "dog/*"), ("--share", "0,0.4"), ("--index-file", "list"), ("--repeat", "2")],
    ids=lambda subset: subset[0],
)
def test_check_epoch_counts_what_is_chosen(folder, tmp_path, subset):
    (tmp_path / "list").write_text("7\n3\n7\n12\n")  # One comes twice.
    options = ("--batch", "2", "--last-batch", "pad", *subset)
    report = plan(folder, "--check-epoch", *options, cwd=tmp_path)
    coverage = report["coverage"]
    assert coverage["problems"] == []
    assert coverage["left_out"] == 0
    assert coverage["delivered"] == report["sets"][0]["selected"]
    repeat = report["sets"][0]["repeat"]
    assert coverage["places"] - coverage["repeated"] == repeat * coverage["samples"]


def test_check_epoch_of_a_mix_by_weight(tmp_path):
    big, small = make_folder(tmp_path / "big", count=10), make_folder(tmp_path / "small", count=2)
    sets = ("--set", f"1:{big}", "--set", f"1:{small}", "--batch", "4")
    for epoch in ("0", "1", "7"):
        coverage = plan("--check-epoch", "--epoch", epoch, *sets)["coverage"]
        assert coverage["problems"] == []
        assert coverage["places"] == 24
        # 12 of 20, part of them of the next pass, and 12 of 4.
        assert coverage["left_out"] == 8 if epoch == "0" else 8 <= coverage["left_out"] <= 12


def test_two_shares_have_every_sample_in_one_of_them(folder):
    def keys(share):
        options = ("--batch", "1", "--no-shuffle", "--share", share)
        return {place["key"] for place in shown(folder, *options)}

    train, validation = keys("0,0.7"), keys("0.7,1")
    assert train | validation == {
        sample for sample, _ in run("ls", folder, "--json").json()["samples"]
    }
    assert not train & validation


# Ranks from the environment.


@pytest.mark.parametrize("variables", LAUNCHER_VARIABLES, ids="+".join)
def test_a_launcher_s_environment_says_which_rank_this_is(folder, variables):
    env = {**os.environ, **dict(zip(variables, ("2", "4"), strict=True))}
    report = plan(folder, "--batch", "2", env=env)
    assert (report["rank"], report["world_size"]) == (2, 4)
    assert all(name in report["world_source"] for name in variables)
    text = run("plan", folder, "--batch", "2", env=env).out.decode()
    assert f"2 of 4, from {variables[0]} and {variables[1]}" in text
    lines = digest(folder, "--batch", "2", "--batches", "1", env=env)
    assert (lines[0]["rank"], lines[0]["world_size"]) == (2, 4)
    given = plan(folder, "--batch", "2", "--rank", "0", "--world-size", "1", env=env)
    assert given["world_size"] == 1


def test_a_rank_that_can_not_be_is_refused(folder):
    env = {**os.environ, "RANK": "4", "WORLD_SIZE": "4"}
    assert "RANK is 4" in run("plan", folder, env=env).error(WRONG_USE)
    run("plan", folder, "--rank", "1").error(WRONG_USE)


# The cases of kind "sharding".


def source_of(case, where):
    return shutil.copytree(CASES / case["folder"], where / "shards")


def cases_of(sub):
    chosen = [c for c in cases.load("sharding") if c["sub"] == sub]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["id"])


def delivered_samples(ranks):
    """Samples and flags of all ranks, whose numbers of batches must be the same."""
    assert len({len(lines) for lines in ranks}) == 1
    found = [
        pair
        for lines in ranks
        for line in lines
        for pair in zip(line["samples"], line["flags"], strict=True)
    ]
    return [s for s, flag in found if flag == "real"], [s for s, flag in found if flag == "padded"]


@cases_of("ranks")
@pytest.mark.parametrize("policy", ["drop", "pad", "exact"])
def test_every_rank_gets_the_same_number_of_batches(case, policy, tmp_path):
    source, params = source_of(case, tmp_path), case["params"]
    total, world_size = params["total"], params["world_size"]
    numbers = case["expect"]["numbers_if_split_by_sample"][policy]
    last_batch = "partial" if policy == "exact" else policy
    options = ("--batch", str(params["batch_size"]), "--last-batch", last_batch)
    ranks = [("--world-size", str(world_size), "--rank", str(r)) for r in range(world_size)]
    is_uneven = policy == "exact" and total % world_size != 0
    if is_uneven or numbers.get("batches_per_rank") == 0:
        for rank in ranks:
            error = run("digest", source, *rank, *options).error(WRONG_USE)
            if not is_uneven:
                for number in (total, world_size, params["batch_size"]):
                    assert str(number) in error
        return
    report = plan(source, *ranks[0], *options)
    threads = ("--threads", str(params["workers_or_threads"]))
    by_rank = digest_ranks(source, world_size, *options, *threads)
    real, padded = delivered_samples(by_rank)
    assert len(set(real)) == len(real)
    assert report["steps"] == len(by_rank[0])
    if policy == "exact":
        assert sorted(real) == list(range(total))
        assert not padded
        assert len(by_rank[0]) <= numbers["batches_per_rank_max"]
        return
    assert len(by_rank[0]) == numbers["batches_per_rank"]
    assert len(real) == numbers.get("samples_used", total)
    assert len(padded) == numbers.get("repeats", 0)
    assert report["dropped_samples"] == total - len(real)
    assert report["padded_samples"] == len(padded)
    assert by_rank == digest_ranks(source, world_size, *options)  # On one thread.


def test_epochs_differ_and_seeds_differ(tmp_path):
    case = cases.case("shuffle_epochs_differ")
    source, params = source_of(case, tmp_path), case["params"]
    epochs = params["epochs"]

    def orders(seed):
        options = ("--batch", "4", "--epochs", str(epochs), "--seed", str(seed))
        lines = digest(source, *options)
        return [samples(x for x in lines if x["epoch"] == epoch) for epoch in range(epochs)]

    first = orders(params["seed"])
    assert first == orders(params["seed"])
    assert all(a != b for a, b in itertools.combinations(first, 2))
    assert all(sorted(order) == sorted(first[0]) for order in first)
    assert len(set(first[0])) == len(first[0])
    assert first != orders(params["seed"] + 1)


def test_ranks_share_one_permutation(tmp_path):
    case = cases.case("shuffle_ranks_share_permutation")
    source, params = source_of(case, tmp_path), case["params"]
    total = plan(source, "--batch", "1")["samples"]
    by_rank = digest_ranks(
        source, params["world_size"], "--batch", "2", "--seed", str(params["seed"])
    )
    assert sorted(delivered_samples(by_rank)[0]) == list(range(total))


def test_threads_do_not_matter(tmp_path):
    case = cases.case("shuffle_threads_do_not_matter")
    source, params = source_of(case, tmp_path), case["params"]
    series = [
        digest(source, "--batch", "4", "--seed", str(params["seed"]), "--threads", str(threads))
        for threads in params["workers_or_threads"]
    ]
    assert all(lines == series[0] for lines in series)


def test_a_picture_that_comes_again_is_cropped_anew(tmp_path):
    params = cases.case("shuffle_augment_not_repeated")["params"]
    count = params["repeat_same_picture"]
    (tmp_path / "a.jpg").write_bytes(jpeg(size=(96, 80)))
    source = tmp_path / "same.csv"
    source.write_text("a.jpg,0\n" * count)
    options = ("--batch", "16", "--epochs", "2", "--seed", str(params["seed"]))
    threads = ("--threads", str(params["workers_or_threads"]))
    by_rank = digest_ranks(source, 2, *options, *threads)
    pictures = {
        epoch: [d for lines in by_rank for x in lines if x["epoch"] == epoch for d in x["digests"]]
        for epoch in (0, 1)
    }
    for digests in pictures.values():
        assert len(digests) == count
        assert len(set(digests)) >= count - 4
    ranks = [{d for line in lines for d in line["digests"]} for lines in by_rank]
    assert len(ranks[0] & ranks[1]) <= 4
    assert len(set(pictures[0]) & set(pictures[1])) <= 4


def test_plan_json_stays_one_object(folder):
    text = run("plan", folder, "--batch", "4", "--show-order", "--check-epoch", "--json").out
    report = json.loads(text)
    assert report["order"].startswith("global shuffle")
    assert {"order_samples", "order_map", "coverage"} <= set(report)


# What is chosen.


def test_a_list_is_an_order_and_what_it_names_twice_comes_twice(folder, tmp_path):
    (tmp_path / "indices").write_text("39\n3\n3\n0\n")
    (tmp_path / "keys").write_text("dog/019.jpg\ncat/003\ncat/000.jpg\n")
    stored = ("--shuffle", "none", "--batch", "2")
    by_index = (*stored, "--index-file", tmp_path / "indices")
    assert [p["sample"] for p in shown(folder, *by_index)] == [39, 3, 3, 0]
    by_key = (*stored, "--key-file", tmp_path / "keys")
    assert [p["sample"] for p in shown(folder, *by_key)] == [39, 3, 0]
    assert any("in 1 of its 4 entries" in note for note in plan(folder, *by_index)["warnings"])
    assert not any("entries" in note for note in plan(folder, *by_key)["warnings"])
    lines = digest(folder, *by_index)
    assert samples(lines) == [39, 3, 3, 0]
    assert lines[0]["digests"][1] != lines[1]["digests"][0]  # Two crops of one picture.


def test_sets_without_weights_come_one_after_another(tmp_path):
    first = make_folder(tmp_path / "first", count=5)
    second = make_folder(tmp_path / "second", classes=("elk",), count=4)
    sets = ("--set", second, "--set", first, "--no-shuffle", "--batch", "4")
    found = shown("--check-epoch", *sets)
    assert [p["sample"] for p in found] == list(range(14))
    assert [p["set"] for p in found] == [str(second)] * 4 + [str(first)] * 10
    assert "0:/nowhere" in run("plan", "--set", "0:/nowhere").error(WRONG_USE)


def test_the_plan_says_that_global_mixes_best_and_none_worst(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    source = tmp_path / "same.csv"
    source.write_text("a.jpg,0\n" * 800)
    options = ("--batch", "32", "--shuffle-chunk", "8", "--shuffle-window", "128")
    none, window, best = (
        plan(source, *options, "--shuffle", shuffle)["mixing"] for shuffle in SHUFFLES
    )
    assert none < 0.2
    assert none < window < best
    assert best > 0.85
    text = run("plan", source, *options, "--shuffle", "global").out.decode()
    assert f"{best:.0%}".replace("%", " %") in text


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_neither_ranks_nor_threads_nor_back_ends_change_a_sample(folder, world_size):
    options = ("--last-batch", "drop", "--seed", "4")
    whole = places(digest(folder, "--batch", "8", *options, "--backend", "buffered"))
    assert len(whole) == 40
    for threads, backend in (("1", "auto"), ("2", "buffered"), ("4", "auto"), ("8", "buffered")):
        settings = ("--batch", str(8 // world_size), "--threads", threads, "--backend", backend)
        by_rank = digest_ranks(folder, world_size, *settings, *options)
        assert places(itertools.chain(*by_rank)) == whole


# Stops and changes of everything that may change, up to the end of an epoch.


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """37 pictures, which few numbers divide, as a folder and as shards."""
    root = tmp_path_factory.mktemp("layouts")
    folder = make_folder(root / "pictures", classes=("cat", "dog"), count=20)
    for name in ("cat/002.jpg", "cat/011.jpg", "dog/019.jpg"):
        (folder / name).unlink()
    return folder, pack_shards(folder, root / "shards")


@pytest.mark.parametrize("seed", range(50))
def test_any_stages_up_to_the_epoch_s_end_deliver_each_position_once(layouts, tmp_path, seed):
    rng, total = random.Random(f"stages {seed}"), 37
    last_batch = ("drop", "pad")[seed // 3 % 2]
    order = ("--shuffle", SHUFFLES[seed % 3], "--shuffle-chunk", "4", "--shuffle-window", "16")
    common = ("--seed", str(seed), *order, "--last-batch", last_batch)
    whole = places(digest(layouts[0], "--batch", "1", *common))
    lines, state, stages = [], None, 0
    while not any(line["epoch"] > 0 for line in lines):
        stages += 1
        assert stages < 40
        world_size, batch = rng.randint(1, 4), rng.randint(1, 5)
        states = [tmp_path / f"{stages}-{rank}.json" for rank in range(world_size)]
        if state:
            for copy in states:
                shutil.copyfile(state, copy)
        options = (
            "--batch", str(batch), "--batches", str(rng.randint(1, 5)),
            "--threads", str(rng.choice((1, 2, 4))), "--backend", rng.choice(("auto", "buffered")),
        )  # fmt: skip
        source = rng.choice(layouts)
        by_rank = digest_ranks(source, world_size, *common, *options, states=states)
        assert len({len(of_rank) for of_rank in by_rank}) == 1
        lines += itertools.chain(*by_rank)
        state = rng.choice(states)
    lines = [line for line in lines if line["epoch"] == 0]
    flags = [flag for line in lines for flag in line["flags"]]
    found = real_places(lines)
    # As many as there are places: none came twice.
    assert len(found) == flags.count("real")
    assert found == {where: whole[where] for where in sorted(whole)[: len(found)]}
    if last_batch == "pad":
        assert flags.count("padded") < 4
    else:
        assert flags.count("padded") == 0
        assert total - len(found) < 20  # The largest step.


# What is refused, in a line each.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rank", "3", "--world-size", "3"), ("rank is 3", "world_size is 3", "0 to 2")),
        (("--rank", "3"), ("rank is 3", "world_size is not given")),
        (("--epoch", "-1"), ("--epoch", "-1")),
        (("--index-file", "unknown"), ("index 40", "0 to 39")),
        (("--index-file", "words"), ("words", "line 2", "cat")),
        (("--index-file", "nowhere"), ("nowhere",)),
        (("--key-file", "words"), ("key 1", "cat/000")),
        (("--key-file", "nowhere"), ("nowhere",)),
        (("--index-file", "unknown", "--key-file", "words"), ("both",)),
        (("--keys", "cow/*"), ("none of 40", "cow/*", "cat/000")),
        (("--share", "0.5,0.5"), ("share",)),
        (("--share", "0.9,0.1"), ("share",)),
        (("--share", "0,0.000001"), ("none of 40",)),
        (("--share", "x"), ("--share", "x")),
        (("--rank", "0", "--world-size", "41", "--last-batch", "drop"), ("40", "41")),
        (("--rank", "0", "--world-size", "41", "--last-batch", "partial"), ("40", "41")),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else "",
)
@pytest.mark.parametrize("command", ["plan", "digest"])
def test_what_can_not_be_is_refused_in_a_line(folder, tmp_path, command, options, words):
    (tmp_path / "unknown").write_text("7\n40\n")
    (tmp_path / "words").write_text("1\ncat\n")
    result = run(command, folder, "--batch", "1", *options, cwd=tmp_path)
    message = result.error(WRONG_USE)
    assert len(message.splitlines()) == 1
    assert all(word in message for word in words), message
    assert result.out == b""


def test_a_world_without_a_rank_can_be_planned_but_not_loaded(folder):
    options = ("--world-size", "3", "--batch", "4")
    assert {p["rank"] for p in shown(folder, *options)} == {0, 1, 2}
    message = run("digest", folder, *options).error(WRONG_USE)
    assert "rank is not given" in message
    assert len(message.splitlines()) == 1


def test_more_ranks_than_samples_share_them_with_repeats(folder):
    ranks = ("--world-size", "41", "--batch", "1", "--last-batch", "pad", "--no-shuffle")
    for rank, content in ((39, ([39], ["real"])), (40, ([0], ["padded"]))):
        (line,) = digest(folder, *ranks, "--rank", str(rank))
        assert (line["samples"], line["flags"]) == content


def test_a_list_that_may_not_be_read_is_named(open_dir, ordinary_user):
    folder = make_folder(open_dir / "pictures", count=2)
    for option in ("--key-file", "--index-file"):
        listing = open_dir / option[2:]
        listing.write_text("0\n")
        listing.chmod(0 if ordinary_user else 0o200)
        result = run("plan", folder, "--batch", "2", option, listing, **ordinary_user)
        message = result.error(WRONG_USE, ENVIRONMENT)
        assert len(message.splitlines()) == 1
        assert listing.name in message


@pytest.mark.parametrize("variables", LAUNCHER_VARIABLES, ids="+".join)
def test_half_of_a_launcher_s_environment_is_refused(folder, variables):
    rank, size = variables
    env = {**os.environ, rank: "1"}
    message = run("plan", folder, "--batch", "2", env=env).error(WRONG_USE)
    assert f"{rank} is 1" in message
    assert size in message
    assert len(message.splitlines()) == 1


def change_picture(shard, picture_of):
    """Replaces the first picture of a shard; what lies behind it stays where it was."""
    content = bytearray(shard.read_bytes())
    size = int(content[124:135], 8)
    picture = picture_of(bytes(content[512 : 512 + size]))
    room = -(-size // 512) * 512
    assert len(picture) <= room
    content[512 : 512 + room] = picture.ljust(room, b"\0")
    content[124:135] = b"%011o" % len(picture)
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    shard.write_bytes(content)


@pytest.mark.parametrize(
    "picture_of",
    [
        pytest.param(lambda old: old[:-30] + bytes([old[-30] ^ 1]) + old[-29:], id="same size"),
        pytest.param(lambda old: old + b"\0", id="another size"),
    ],
)
def test_a_shard_that_changed_is_named_and_may_be_accepted(folder, tmp_path, picture_of):
    shards, state = pack_shards(folder, tmp_path / "shards"), tmp_path / "state.json"
    options = ("--batch", "4", "--batches", "2", "--state", state)
    digest(shards, *options)
    change_picture(shards / "packed-002.tar", picture_of)
    error = run("digest", shards, *quick(options)).error(WRONG_USE)
    assert "packed-002.tar" in error
    result = run("digest", shards, *quick(options), "--accept-changed-data")
    assert result.code == 0, result.err
    assert "packed-002.tar" in result.err
    assert [line["position"] for line in lines_of(result.out)] == [8, 12]


# Ranks that must agree, and that share a file.


def at_once(source, seeds, *options):
    """One process a seed, each a rank; how they ended."""
    processes = []
    for rank, seed in enumerate(seeds):
        ranks = ("--rank", str(rank), "--world-size", str(len(seeds)))
        processes.append(start("digest", source, *quick(options), "--seed", seed, *ranks))
    ends = [process.communicate(timeout=HANG_SECONDS) for process in processes]
    return [
        (p.returncode, out, err.decode()) for p, (out, err) in zip(processes, ends, strict=True)
    ]


def test_ranks_with_other_seeds_all_end_and_say_which(folder, tmp_path):
    options = ("--batch", "4", "--rank-check", tmp_path / "check")
    (tmp_path / "check").mkdir()
    for _ in range(2):  # The folder may be used again, for better or worse.
        for code, out, err in at_once(folder, ("5", "6"), *options):
            assert (code, out) == (WRONG_USE, b"")
            assert "seed is 5 on rank 0 and 6 on rank 1" in err
            assert len(err.splitlines()) == 1
        for code, out, err in at_once(folder, ("5", "5"), *options):
            assert code == 0, err
            assert len(lines_of(out)) == 5


def test_two_ranks_list_each_bad_picture_once(folder, tmp_path):
    bad = ["cat/003.jpg", "cat/004.jpg", "dog/000.jpg", "dog/017.jpg", "dog/018.jpg"]
    for name in bad:
        (folder / name).write_bytes(b"no picture")
    listed = tmp_path / "bad.jsonl"
    options = ("--batch", "4", "--epochs", "2", "--on-error", "replace", "--quarantine", listed)
    for code, out, err in at_once(folder, ("1", "1"), *options):
        assert code == 0, err
        assert len(lines_of(out)) == 10
    keys = [json.loads(line)["key"] for line in listed.read_text().splitlines()]
    assert sorted(keys) == bad
