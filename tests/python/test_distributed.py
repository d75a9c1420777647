# SPDX-License-Identifier: Apache-2.0
"""Loaders of 2, 3 and 4 processes under torch.distributed (gloo); no number divides the data."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import rank_programs  # noqa: E402
from framework_sets import (  # noqa: E402
    HANG_SECONDS,
    draw_pictures,
    environment,
    loader_of,
    run_python,
)
from rank_programs import BATCH, STEPS_BEFORE_STATE, WORLD_SIZES  # noqa: E402

COUNT = 47
EPOCHS = 2

worlds = pytest.mark.parametrize("world_size", WORLD_SIZES)
orders = pytest.mark.parametrize("shuffle", [True, False])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return draw_pictures(tmp_path_factory.mktemp("pictures"), COUNT)


@pytest.fixture(scope="module")
def seen(pictures, tmp_path_factory):
    """What each rank of each group saw: seen[world_size][rank][program]."""
    others = draw_pictures(tmp_path_factory.mktemp("others"), COUNT - 1)
    out = tmp_path_factory.mktemp("out")
    done = subprocess.run(
        [sys.executable, rank_programs.__file__, pictures, others, out],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS * len(WORLD_SIZES),
    )
    assert done.returncode == 0, done.stderr
    return {
        size: [json.loads((out / f"ranks-{size}-{rank}.json").read_text()) for rank in range(size)]
        for size in WORLD_SIZES
    }


@pytest.fixture(scope="module")
def orders_of_epochs(pictures):
    """The order of the samples in each of the first epochs, shuffled or not, by one process."""
    found = {}
    for shuffle in (True, False):
        loader = loader_of(pictures, shuffle=shuffle, last_batch="partial", fields="index")
        epochs = [sum((index.tolist() for (index,) in loader), []) for _ in range(EPOCHS + 1)]
        assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
        found[shuffle] = epochs
    return found


def of_ranks(seen, world_size, program):
    return [rank[program] for rank in seen[world_size]]


def steps_of(ranks):
    """From each rank's batches to each step's (number, flag) pairs, rank after rank."""
    assert len({len(batches) for batches in ranks}) == 1, "ranks differ in their number of steps"
    steps = []
    for batches in zip(*ranks, strict=True):
        assert len({len(index) for index, _ in batches}) == 1, "ranks differ in a batch's size"
        steps.append([pair for index, flag in batches for pair in zip(index, flag, strict=True)])
    return steps


def order_of(ranks):
    return [pair for step in steps_of(ranks) for pair in step]


@worlds
def test_ranks_are_those_of_the_process_group(seen, world_size):
    expected = [[rank, world_size] for rank in range(world_size)]
    assert of_ranks(seen, world_size, "world") == expected


@worlds
@orders
@pytest.mark.parametrize("rule", ["drop", "pad", "fill"])
def test_ranks_take_equal_steps_and_share_the_order(
    seen, orders_of_epochs, world_size, shuffle, rule
):
    ranks = [rules[f"{rule} {shuffle}"] for rules in of_ranks(seen, world_size, "rules")]
    step = world_size * BATCH
    expected_steps = COUNT // step if rule == "drop" else -(-COUNT // step)
    for epoch, order in enumerate(orders_of_epochs[shuffle][:EPOCHS]):
        batches = [epochs[epoch] for _, epochs in ranks]
        assert {length for length, _ in ranks} == {expected_steps} == {len(steps_of(batches))}
        real = [number for number, flag in order_of(batches) if flag == 0]
        repeated = [number for number, flag in order_of(batches) if flag == 1]
        assert len(real) + len(repeated) == len(order_of(batches))
        if rule == "drop":
            assert real == order[: expected_steps * step]
            assert not repeated
        else:
            assert sorted(real) == list(range(COUNT))
            unit = step if rule == "fill" else world_size
            assert repeated == order[: -COUNT % unit]


@worlds
def test_a_partial_batch_that_would_differ_is_refused_on_each_rank(seen, world_size):
    for rules in of_ranks(seen, world_size, "rules"):
        for shuffle in (True, False):
            code, message = rules[f"partial {shuffle}"]
            assert code == "invalid_argument"
            assert "can't share evenly" in message
            assert "use last_batch=pad" in message


@worlds
def test_a_partial_batch_that_is_equal_is_delivered(seen, world_size):
    batches = of_ranks(seen, world_size, "partial")
    assert [len(step) for step in steps_of(batches)] == [world_size * BATCH, world_size]
    pairs = order_of(batches)
    assert sorted(number for number, _ in pairs) == list(range(world_size * (BATCH + 1)))
    assert {flag for _, flag in pairs} == {0}


@worlds
def test_training_ends_on_all_ranks_with_the_same_weights(seen, world_size):
    runs = of_ranks(seen, world_size, "training")
    assert all(run["weights"] == runs[0]["weights"] for run in runs)
    assert {len(run["losses"]) for run in runs} == {EPOCHS * (COUNT // (world_size * BATCH))}
    assert all(run["losses"] != runs[0]["losses"] for run in runs[1:])


def test_the_state_of_four_ranks_is_the_same_on_each(seen):
    states = [state for _, _, state in of_ranks(seen, WORLD_SIZES[0], "resume")]
    assert all(state == states[0] for state in states)
    assert states[0]["position"] == STEPS_BEFORE_STATE * WORLD_SIZES[0] * BATCH


@pytest.mark.parametrize("world_size", WORLD_SIZES[1:])
def test_other_numbers_of_ranks_go_on_in_the_same_order(seen, orders_of_epochs, world_size):
    before = of_ranks(seen, WORLD_SIZES[0], "resume")
    _, second, third = orders_of_epochs[True]
    old_step, new_step = WORLD_SIZES[0] * BATCH, world_size * BATCH
    position = STEPS_BEFORE_STATE * old_step
    stopped = [number for number, _ in order_of([rest for _, rest, _ in before])]
    assert stopped == second[:position]

    after = of_ranks(seen, world_size, "resume")
    rest = [number for number, _ in order_of([epochs[0] for epochs in after])]
    whole_steps = (COUNT - position) // new_step
    assert rest == second[position : position + whole_steps * new_step]
    following = [number for number, _ in order_of([epochs[1] for epochs in after])]
    assert following == third[: COUNT // new_step * new_step]


@worlds
@pytest.mark.parametrize(
    ("what", "first", "other"),
    [
        ("seed", "seed is 0 on rank 0", "8"),
        ("data", f"epoch_samples is {COUNT} on rank 0", f"{COUNT - 1}"),
        ("batch_size", f"batch_size is {BATCH} on rank 0", "3"),
        ("state", "position of the next batch is {step} on rank 0", "0"),
    ],
)
def test_a_rank_that_differs_is_named_on_each_rank(seen, world_size, what, first, other):
    expected = first.format(step=world_size * BATCH)
    for told in of_ranks(seen, world_size, "differences"):
        assert told["nothing"] is None
        code, message = told[what]
        assert code == "invalid_argument"
        assert f"ranks differ: {expected} and {other} on rank {world_size - 1}" in message
        assert "start all ranks with the same settings and data" in message


ENVIRONMENT = """
import json, sys
from framework_sets import loader_of

loader = loader_of(sys.argv[1], batch_size=2, fields=("index", "flag"), output="numpy")
batches = [[index.tolist(), flag.tolist()] for index, flag in loader]
print(json.dumps([loader.plan.rank, loader.plan.world_size, batches, "torch" in sys.modules]))
"""


def test_without_a_process_group_the_environment_tells_the_rank(pictures, orders_of_epochs):
    size = 3
    ranks = [
        json.loads(run_python(ENVIRONMENT, pictures, RANK=str(rank), WORLD_SIZE=str(size)))
        for rank in range(size)
    ]
    assert [[rank, found] for rank, found, _, _ in ranks] == [[rank, size] for rank in range(size)]
    numbers = [number for number, _ in order_of([batches for _, _, batches, _ in ranks])]
    step = size * 2
    assert numbers == orders_of_epochs[True][0][: COUNT // step * step]
    assert not any(has_torch for _, _, _, has_torch in ranks)
