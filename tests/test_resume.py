# SPDX-License-Identifier: Apache-2.0
"""A run that was stopped, in whatever way, goes on as if nothing had happened."""

import json
import random
import shutil
import signal
import subprocess

import pytest

import cases
from conftest import CASES, HANG_SECONDS, run, start
from digests import digest, digest_ranks, lines_of, places, quick, real_places
from pictures import make_folder, make_shards, pack_shards

WRONG_USE, ENVIRONMENT, INTERRUPTED = 2, 3, 130
GLOBAL_BATCH = 12


@pytest.fixture
def folder(tmp_path):
    """40 pictures: 3 steps of 12 and a rest."""
    return make_folder(tmp_path / "pictures", classes=("cat", "dog"), count=20)


def saved_after(source, state, batches, *options):
    """Saves a state behind so many batches."""
    digest(source, "--state", state, "--batches", str(batches), *options)
    return state


def edit(state, **changes):
    """Writes a state with other members and the old checksum."""
    content = json.loads(state.read_text()) | changes
    state.write_text(json.dumps(content, separators=(",", ":")))


# One process after another.


@pytest.mark.parametrize("shuffle", ["none", "window", "global"])
def test_a_stop_at_any_batch_changes_nothing(folder, tmp_path, shuffle):
    order = ("--shuffle", shuffle, "--shuffle-chunk", "4", "--shuffle-window", "16")
    options = ("--batch", "6", "--last-batch", "pad", "--seed", "3", *order)
    whole = digest(folder, *options, "--batches", "15")
    for stop in range(1, 15):
        state = tmp_path / f"{stop}.json"
        before = digest(folder, *options, "--state", state, "--batches", str(stop))
        after = digest(folder, *options, "--state", state, "--batches", str(15 - stop))
        assert before + after == whole


def test_every_batch_in_a_process_of_its_own(folder, tmp_path):
    options = ("--batch", "6", "--last-batch", "pad")
    whole = digest(folder, *options, "--batches", "9")
    state = tmp_path / "state.json"
    lines = [digest(folder, *options, "--state", state, "--batches", "1") for _ in range(9)]
    assert [line for batch in lines for line in batch] == whole


def test_the_batch_command_counts_from_a_state(folder, tmp_path):
    options = ("--batch", "6", "--size", "24")
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "6")
    before = state.read_bytes()
    for step, out in (("0", "a"), ("1", "b")):
        result = run(
            "batch", folder, *options, "--state", state, "--step", step, "--out", tmp_path / out
        )
        report = result.json()
        assert (report["epoch"], report["step"]) == (0, 2 + int(step))
    assert state.read_bytes() == before
    missing = tmp_path / "none.json"
    result = run("batch", folder, *options, "--state", missing, "--out", tmp_path / "c")
    assert "none.json" in result.error(WRONG_USE)


def test_a_run_that_is_killed_again_and_again_gives_the_same_series(folder, tmp_path):
    options = ("--batch", "2", "--last-batch", "pad", "--seed", "5")
    count = 150  # Batches, of more than seven epochs.
    whole = digest(folder, *options, "--batches", str(count))
    state, rng = tmp_path / "state.json", random.Random(1)
    lines = []
    for attempt in range(200):
        rest = count - len(places(lines)) // 2
        if rest == 0:
            break
        steps = ("--batches", str(rest), "--sleep-ms", rng.choice(("0", "1", "5")))
        process = start("digest", folder, *quick(options), "--state", state, *steps)
        try:
            # The first runs are killed at random, the last ones may come to their end.
            out, _ = process.communicate(timeout=rng.uniform(0, 0.06) if attempt < 60 else None)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate(timeout=HANG_SECONDS)
        lines += lines_of(out)
        if state.exists():
            assert json.loads(state.read_text())["format"] == "feedrace state"
    # A batch that was printed, but not yet in the state, comes twice: the same both times.
    assert places(lines) == places(whole)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_has_saved_all_that_it_printed(folder, tmp_path, ending):
    state = tmp_path / "state.json"
    options = ("--batch", "2", "--seed", "5")
    process = start("digest", folder, *quick(options), "--state", state, "--sleep-ms", "5")
    first = [process.stdout.readline() for _ in range(3)]
    process.send_signal(ending)
    out, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == INTERRUPTED
    before = lines_of(b"".join(first) + out)
    after = digest(folder, *options, "--state", state)
    assert before + after == digest(folder, *options)


def test_what_did_not_arrive_is_not_counted(folder, tmp_path):
    state = tmp_path / "state.json"
    with open("/dev/full", "wb") as full:
        result = run("digest", folder, *quick(("--batch", "4")), "--state", state, stdout=full)
    assert "standard output" in result.error(ENVIRONMENT)
    assert not state.exists()


def test_a_state_that_can_not_be_written_is_an_error(folder, tmp_path):
    state = tmp_path / "no-such-folder" / "state.json"
    result = run("digest", folder, *quick(("--batch", "4")), "--state", state)
    message = result.error(ENVIRONMENT)
    assert "state.json: create: No such file or directory; make the folder first" in message
    result = run("digest", folder, *quick(("--batch", "4")), "--state", tmp_path)
    assert "can't be read" in result.error(ENVIRONMENT)


# Ranks, layouts and settings that change on the way.


@pytest.mark.parametrize("world_size", [2, 3, 4, 6])
def test_ranks_together_get_what_one_gets(folder, world_size):
    options = ("--last-batch", "pad", "--epochs", "2", "--seed", "11")
    whole = real_places(digest(folder, "--batch", str(GLOBAL_BATCH), *options))
    assert len(whole) == 80
    batch = str(GLOBAL_BATCH // world_size)
    by_rank = digest_ranks(folder, world_size, "--batch", batch, *options)
    assert real_places([line for lines in by_rank for line in lines]) == whole


def test_a_folder_and_shards_packed_from_it_go_on_from_each_other(folder, tmp_path):
    shards = pack_shards(folder, tmp_path / "shards")
    options = ("--batch", "6", "--last-batch", "pad", "--seed", "2")
    whole = digest(folder, *options, "--batches", "14")
    assert digest(shards, *options, "--batches", "14") == whole
    for first, second in ((folder, shards), (shards, folder)):
        state = tmp_path / f"{first.name}.json"
        before = digest(first, *options, "--state", state, "--batches", "4")
        result = run("digest", second, *quick(options), "--state", state, "--batches", "10")
        assert "laid out differently" in result.err
        assert before + lines_of(result.out) == whole


def test_shards_in_another_order_go_on_when_numbered_like_the_folder(folder, tmp_path):
    shards = pack_shards(folder, tmp_path / "shards", per_shard=10)
    names = sorted(shards.iterdir())
    for name in names:  # The last shard becomes the first.
        name.rename(name.with_name(f"{len(names) - names.index(name)}.tar"))
    options = ("--batch", "6", "--seed", "2")
    whole = digest(folder, *options, "--batches", "10")
    state = tmp_path / "state.json"
    before = digest(folder, *options, "--state", state, "--batches", "4")
    error = run("digest", shards, *quick(options), "--state", state).error(WRONG_USE)
    assert "number_like" in error
    after = digest(shards, *options, "--number-like", folder, "--state", state, "--batches", "6")
    assert before + after == whole


def segment(rng, sources):
    """How one stretch of a schedule is run."""
    global_batch = rng.choice((GLOBAL_BATCH, GLOBAL_BATCH, 6, 4))
    world_size = rng.choice([n for n in (1, 2, 3, 4, 6) if global_batch % n == 0])
    options = (
        "--batch", str(global_batch // world_size), "--batches", str(rng.randint(1, 6)),
        "--threads", str(rng.randint(1, 3)), "--prefetch", str(rng.randint(1, 5)),
        "--backend", rng.choice(("auto", "buffered")),
    )  # fmt: skip
    return rng.choice(sources), world_size, options


@pytest.mark.parametrize("seed", range(50))
def test_a_random_schedule_of_stops_ranks_and_settings(tmp_path, seed):
    rng = random.Random(seed)
    folder = make_folder(tmp_path / "pictures", classes=("cat", "dog"), count=20)
    sources = (folder, pack_shards(folder, tmp_path / "shards", per_shard=rng.randint(3, 40)))
    order = ("--shuffle", rng.choice(("none", "window", "global")), "--shuffle-chunk", "4")
    common = ("--seed", str(seed), "--last-batch", "pad", *order)
    whole = real_places(digest(folder, "--batch", "1", "--batches", "400", *common))
    state, lines = None, []
    for number in range(rng.randint(2, 4)):
        source, world_size, options = segment(rng, sources)
        states = [tmp_path / f"{number}-{rank}.json" for rank in range(world_size)]
        if state is not None:
            for copy in states:
                shutil.copyfile(state, copy)
        by_rank = digest_ranks(source, world_size, *common, *options, states=states)
        assert len({path.read_text() for path in states}) == 1
        lines += [line for of_rank in by_rank for line in of_rank]
        state = rng.choice(states)
    found = real_places(lines)
    # From the start on, without a gap, and each as it is without any stop.
    assert sorted(found) == sorted(whole)[: len(found)]
    assert all(whole[where] == content for where, content in found.items())


def test_ranks_and_later_runs_share_a_quarantine_file(folder, tmp_path):
    bad = [folder / "cat" / "003.jpg", folder / "dog" / "017.jpg", folder / "dog" / "000.jpg"]
    for picture in bad:
        picture.write_bytes(b"no picture")
    listed = tmp_path / "bad.jsonl"
    options = (
        "--on-error", "zero", "--quarantine", listed, "--batch", "3", "--epochs", "2",
        "--last-batch", "fill",
    )  # fmt: skip
    for world_size in (4, 1, 3):
        by_rank = digest_ranks(folder, world_size, *options)
        flags = [f for lines in by_rank for line in lines for f in line["flags"]]
        assert flags.count("blank") >= 2 * len(bad)
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    assert sorted(x["key"] for x in lines) == sorted(
        f"{picture.parent.name}/{picture.name}" for picture in bad
    )


# The rehearsal.


def test_a_rehearsal_proves_it_on_the_user_s_data(folder, tmp_path):
    options = ("--size", "24", "--batch", "4", "--world-size", "3", "--rank", "0")
    for source in (folder, pack_shards(folder, tmp_path / "shards")):
        report = run("rehearse", source, *options, "--runs", "5", "--json").json()
        assert report["difference"] is None
        assert (report["steps"], report["global_batch"], report["samples"]) == (3, 12, 36)
        assert report["runs"] == 5
        assert report["stops"] >= 1
        assert report["batches"] >= 15
        again = run("rehearse", source, *options, "--runs", "5", "--json").json()
        assert again == report
        other = ("--seed-of-schedule", "77", "--batches", "2", "--last-batch", "fill")
        text = run("rehearse", source, *options, "--runs", "3", *other).out.decode()
        assert "3 runs" in text
        assert "every sample at its place, byte for byte" in text
        assert "24 samples of epoch 0 in 2 steps of 12" in text


def test_a_rehearsal_stops_at_a_bad_sample_unless_it_is_told_otherwise(folder):
    (folder / "cat" / "003.jpg").write_bytes(b"no picture")
    options = ("--size", "24", "--batch", "8", "--runs", "3", "--last-batch", "pad")
    assert "003.jpg" in run("rehearse", folder, *options).error(1)
    for policy in ("zero", "replace"):
        report = run("rehearse", folder, *options, "--on-error", policy, "--json").json()
        assert report["difference"] is None
        assert report["samples"] == 40


@pytest.mark.parametrize("name", ["digest", "rehearse", "batch"])
def test_the_commands_explain_themselves(name):
    result = run(name, "--help")
    assert result.code == 0
    assert name in result.out.decode()


# States that do not fit.


def refused(source, state, *options):
    """The message of a run that must not go on from a state."""
    before = state.read_bytes()
    result = run("digest", source, *quick(("--batch", "4", *options)), "--state", state)
    assert result.out == b""
    assert state.read_bytes() == before
    message = result.error(WRONG_USE)
    assert state.name in message
    return message


def test_a_state_that_is_cut_short_is_refused_at_any_length(folder, tmp_path):
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "4")
    text = state.read_bytes()
    for length in [*range(0, len(text), 50), len(text) - 1]:
        state.write_bytes(text[:length])
        assert "state" in refused(folder, state)


def test_an_edited_state_is_refused(folder, tmp_path):
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "4")
    edit(state, seed=1)
    assert "checksum" in refused(folder, state)


def test_a_newer_state_says_to_update(folder, tmp_path):
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "4")
    edit(state, version=99)
    assert "newer" in refused(folder, state)


def test_what_is_no_state_is_refused(folder, tmp_path):
    state = tmp_path / "state.json"
    for text in (b"", b"[]", b"null", b"{}", b"\xff\xfe", b'{"format":"other"}', b"[" * 100_000):
        state.write_bytes(text)
        assert "state" in refused(folder, state)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--seed", "4"), "seed"),
        (("--shuffle", "none"), "shuffle"),
        (("--keys", "cat/*"), "subset"),
        (("--repeat", "2"), "repeat"),
    ],
)
def test_other_settings_are_named_with_both_values(folder, tmp_path, options, word):
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "4")
    message = refused(folder, state, *options)
    assert word in message
    assert "was" in message


def test_another_data_set_is_refused(folder, tmp_path):
    state = saved_after(folder, tmp_path / "state.json", 2, "--batch", "4")
    other = make_folder(tmp_path / "others", classes=("cat", "elk"), count=20)
    assert "another data set" in refused(other, state)
    accepted = ("--accept-changed-data", "--batches", "1", "--batch", "4")
    result = run("digest", other, *quick(accepted), "--state", state)
    assert result.code == 0
    assert "accepted" in result.err
    assert lines_of(result.out)[0]["position"] == 8


def test_a_shard_that_is_missing_is_named(tmp_path):
    source = make_shards(tmp_path / "shards")
    state = saved_after(source, tmp_path / "state.json", 2, "--batch", "4")
    (source / "s-002.tar").unlink()
    assert "s-002.tar" in refused(source, state)


# The cases of kind "resume".


def source_of(case, where):
    return shutil.copytree(CASES / case["folder"], where / "shards")


def resume_case(name):
    case = cases.case(name)
    return case, case["params"], ("--batch", str(case["params"]["batch_size"]), "--seed", "1")


def test_a_state_behind_the_last_batch_of_an_epoch_goes_on_with_the_next(tmp_path):
    case, _, options = resume_case("resume_at_epoch_end")
    source, state = source_of(case, tmp_path), tmp_path / "state.json"
    whole = digest(source, *options, "--epochs", "2")
    steps = sum(line["epoch"] == 0 for line in whole)
    before = digest(source, *options, "--state", state, "--batches", str(steps))
    after = digest(source, *options, "--state", state, "--epochs", "2")
    assert {line["epoch"] for line in after} == {1}
    assert before + after == whole


def test_a_state_of_an_epoch_s_start_gives_the_whole_epoch(tmp_path):
    case, params, options = resume_case("resume_first_batch")
    source, state = source_of(case, tmp_path), tmp_path / "state.json"
    whole = digest(source, *options, "--epochs", "2")
    steps = sum(line["epoch"] == 0 for line in whole)
    saved_after(source, state, steps, *options)
    assert json.loads(state.read_text())["position"] == params["stop_after"] == 0
    assert digest(source, *options, "--state", state, "--epochs", "2") == whole[steps:]


@pytest.mark.parametrize("name", ["resume_middle", "resume_prefetch_not_counted", "resume_twice"])
def test_series_joined_at_their_stops_equal_the_unbroken_one(name, tmp_path):
    case, params, options = resume_case(name)
    source, state = source_of(case, tmp_path), tmp_path / "state.json"
    if "prefetch" in params:
        options = (*options, "--prefetch", str(params["prefetch"]))
    whole = digest(source, *options)
    stops = (
        params["stop_after"] if isinstance(params["stop_after"], list) else [params["stop_after"]]
    )
    joined = []
    for count in stops:
        # Time for what is read ahead to be ready when the state is saved.
        taken = ("--state", state, "--batches", str(count), "--sleep-ms", "20")
        joined += digest(source, *options, *taken)
        assert len(joined) < len(whole)
    joined += digest(source, *options, "--state", state)
    assert joined == whole


def test_a_loader_that_is_left_early_leaves_nothing_behind(tmp_path):
    case, _, options = resume_case("resume_early_break")
    source = source_of(case, tmp_path)
    whole = digest(source, *options)
    assert digest(source, *options, "--batches", "3") == whole[:3]
    assert digest(source, *options) == whole


def test_a_data_set_without_one_of_its_shards_is_refused(tmp_path):
    case, params, options = resume_case("resume_other_dataset")
    source, state = source_of(case, tmp_path), tmp_path / "state.json"
    saved_after(source, state, params["stop_after"], *options)
    shard = params["change"].split()[0]
    (source / shard).unlink()
    result = run("digest", source, *quick(options), "--state", state)
    assert shard in result.error(WRONG_USE)


def test_an_interrupt_does_not_wait_for_a_pause(folder, tmp_path):
    state = tmp_path / "state.json"
    options = ("--size", "24", "--batch", "4", "--sleep-ms", "3000000", "--state", state)
    process = start("digest", folder, *options)
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_SECONDS) == INTERRUPTED


@pytest.mark.parametrize(
    "option",
    ["--keys", "--key-file", "--index-file", "--share", "--state", "--rank-check", "--quarantine"],
)
def test_an_empty_value_is_not_taken_for_none(folder, option):
    assert "empty" in run("digest", folder, "--batch", "4", option, "").error(WRONG_USE)


def test_a_salt_without_a_share_is_refused(folder):
    assert "--share" in run("plan", folder, "--batch", "4", "--share-salt", "5").error(WRONG_USE)


def test_epochs_count_from_the_beginning_stopped_or_not(folder, tmp_path):
    state = tmp_path / "state.json"
    options = ("--batch", "8", "--epochs", "2", "--seed", "4")
    whole = digest(folder, *options)
    first = digest(folder, *options, "--state", state, "--batches", "7")  # Five are an epoch.
    assert first + digest(folder, *options, "--state", state) == whole
    assert digest(folder, *options, "--state", state) == []
