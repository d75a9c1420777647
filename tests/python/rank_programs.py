# SPDX-License-Identifier: Apache-2.0
"""What test_distributed.py runs: groups of 4, 2 and 3 processes, one after another, under gloo.

    python rank_programs.py PICTURES OTHER_PICTURES OUT

Each process writes what it saw to OUT/ranks-WORLD_SIZE-RANK.json. The processes are forks of one
that has imported everything: that takes seconds, and they are nine.
"""

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # An optimizer imports it, which takes longer than all that is tested here.
import torch.distributed as dist
import torch.multiprocessing as mp

import feedrace as fr
from framework_sets import HANG_SECONDS, loader_of

WORLD_SIZES = (4, 2, 3)  # The first one saves the state that the others go on from.
RULES = ("drop", "pad", "partial", "fill")
BATCH = 2
STEPS_BEFORE_STATE = 3


def ranked(source, **arguments):
    fields = ("image", "index", "flag")
    return loader_of(source, **{"batch_size": BATCH, "fields": fields, **arguments})


def epoch_of(loader):
    """Numbers and flags of each batch of an epoch, or of the rest of it."""
    return [[index.tolist(), flag.tolist()] for _, index, flag in loader]


def error_of(function):
    """The code and message of the Error that it gives; None where it gives none."""
    try:
        function()
    except fr.Error as e:
        return [e.code, str(e)]
    return None


class Programs:
    """All that one rank runs. What they return is compared between ranks by the tests."""

    def __init__(self, pictures, others, out):
        self.pictures, self.others, self.out = pictures, others, Path(out)
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def run(self):
        names = ("world", "rules", "partial", "training", "resume", "differences")
        return {name: getattr(self, name)() for name in names}

    def world(self):
        plan = ranked(self.pictures).plan
        return [plan.rank, plan.world_size]

    def rules(self):
        """Two epochs with each rule for the last batch; where it is refused, the error."""
        seen = {}
        for rule in RULES:
            for shuffle in (True, False):
                try:
                    with ranked(self.pictures, last_batch=rule, shuffle=shuffle) as loader:
                        epochs = [epoch_of(loader) for _ in range(2)]
                        seen[f"{rule} {shuffle}"] = [len(loader), epochs]
                except fr.Error as e:
                    seen[f"{rule} {shuffle}"] = [e.code, str(e)]
        return seen

    def partial(self):
        """Where ranks would not differ, it is not refused: a short last batch for each."""
        subset = range(self.world_size * (BATCH + 1))
        with ranked(self.pictures, last_batch="partial", subset=subset) as loader:
            return epoch_of(loader)

    def training(self):
        """Two epochs of a network that waits for the other ranks at each step."""
        torch.manual_seed(0)
        net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        losses = []
        with ranked(self.pictures) as loader:
            for epoch in range(2):
                loader.set_epoch(epoch)
                for images, _, _ in loader:
                    loss = net(images.float().mean((2, 3)) / 255).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
        weights = [value.tolist() for value in net.module.parameters()]
        return {"losses": losses, "weights": weights}

    def resume(self):
        """The first group stops inside its second epoch; the others go on from there."""
        path = self.out / "state.json"
        with ranked(self.pictures) as loader:
            if self.world_size == WORLD_SIZES[0]:
                first = epoch_of(loader)
                rest = [batch for _, batch in zip(range(STEPS_BEFORE_STATE), loader, strict=False)]
                state = loader.state_dict()
                if self.rank == 0:
                    path.write_text(json.dumps(state))
                return [first, [[index.tolist(), flag.tolist()] for _, index, flag in rest], state]
            loader.load_state_dict(json.loads(path.read_text()))
            return [epoch_of(loader) for _ in range(2)]

    def differences(self):
        """What each rank is told when the last one differs, and when none does."""
        is_last = self.rank == self.world_size - 1
        state = self._begin(lambda loader: None)

        def start(**arguments):
            self._begin(lambda loader: None, **arguments)

        def resume(loader):
            if not is_last:
                loader.load_state_dict(state)

        return {
            "seed": error_of(lambda: start(seed=8 if is_last else 0)),
            "data": error_of(lambda: start(source=self.others if is_last else self.pictures)),
            "batch_size": error_of(lambda: start(batch_size=3 if is_last else BATCH)),
            "state": error_of(lambda: self._begin(resume)),
            "nothing": error_of(start),
        }

    def _begin(self, prepare, source=None, **arguments):
        """Takes a batch; gives the state behind it."""
        with ranked(source or self.pictures, **arguments) as loader:
            prepare(loader)
            next(iter(loader))
            return loader.state_dict()


def work(rank, world_size, pictures, others, out):
    """The body of one process."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{out}/init-{world_size}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=HANG_SECONDS / 2),
    )
    seen = Programs(pictures, others, out).run()
    Path(out, f"ranks-{world_size}-{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()


def main(pictures, others, out):
    for world_size in WORLD_SIZES:
        args = (world_size, pictures, others, out)
        group = mp.start_processes(work, args, world_size, join=False, start_method="fork")
        deadline = time.monotonic() + HANG_SECONDS
        while not group.join(timeout=1):
            if time.monotonic() > deadline:
                for process in group.processes:
                    process.kill()
                sys.exit(f"{world_size} ranks hang")


if __name__ == "__main__":
    main(*sys.argv[1:])
