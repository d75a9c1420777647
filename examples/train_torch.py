#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on a folder of class folders, stops in mid-epoch, and goes on.

    train_torch.py DATA                          # trains, and fails below 90 % of validation
    train_torch.py DATA --stop-after 20          # stops after 20 steps and writes checkpoint.pt
    torchrun --standalone --nproc-per-node 2 train_torch.py DATA --resume checkpoint.pt
    train_torch.py DATA --check                  # all of that, and compares which samples came when
    train_torch.py DATA --device cuda            # batches and network on a GPU, of each process one

A step is `--batch-size` samples whatever the number of processes, so a run may stop on one and go
on on two.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import feedrace as fr

SIDE = 64
# By the hash of the key: a picture stays on its side, whatever is added to the folder.
TRAIN_SHARE = (0.0, 0.8)
VALIDATION_SHARE = (0.8, 1.0)
# The demo's pair of stereo pictures shows one motorcycle; nothing tells left from right.
SAME_CLASS = {"motorcycle_right": "motorcycle_left"}


@fr.pipeline()
def training(root):
    fields = ("image", "label", "index")
    jpeg, label, index = fr.fn.read(root, fields=fields, subset={"share": TRAIN_SHARE})
    image = fr.fn.decode(jpeg)
    image = fr.fn.random_resized_crop(image, SIDE, scale=(0.3, 1.0))
    image = fr.fn.flip(image, horizontal=fr.fn.coin_flip())
    image = fr.fn.normalize(image, fr.IMAGENET_MEAN, fr.IMAGENET_STD)
    return fr.fn.to_tensor(image), label, index


@fr.pipeline()
def validation(root):
    fields = ("image", "label", "flag")
    jpeg, label, flag = fr.fn.read(root, fields=fields, subset={"share": VALIDATION_SHARE})
    image = fr.fn.decode(jpeg)
    image = fr.fn.resize(image, shorter=SIDE + 8)
    image = fr.fn.center_crop(image, SIDE)
    image = fr.fn.normalize(image, fr.IMAGENET_MEAN, fr.IMAGENET_STD)
    return fr.fn.to_tensor(image), label, flag


def make_network(class_count):
    """Four convolutions. Group norm: batch norm would depend on how a step is cut into ranks."""
    layers = []
    channels = 3
    for width in (16, 32, 64, 64):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.GroupNorm(8, width)]
        layers += [nn.ReLU()]
        channels = width
    pool = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, class_count)]
    return nn.Sequential(*layers, *pool)


def label_table(class_to_idx, device):
    """The number of the class that each label stands for."""
    table = [class_to_idx[SAME_CLASS.get(name, name)] for name in class_to_idx]
    return torch.tensor(table, device=device)


def device_of(loader):
    """Where the plan delivers batches, as torch names it: "cuda:0 (its name)" is cuda:0."""
    return torch.device(loader.plan.device.split()[0])


@dataclass
class Training:
    """What a checkpoint holds, and the record of samples."""

    loader: fr.ImageLoader
    network: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    step: int = 0

    def save(self, path):
        """Any rank's state of the loader is that of all."""
        if rank() == 0:
            torch.save(
                {
                    "network": self.network.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "schedule": self.schedule.state_dict(),
                    "loader": self.loader.state_dict(),
                    "step": self.step,
                },
                path,
            )

    def load(self, path):
        saved = torch.load(path, map_location=device_of(self.loader), weights_only=True)
        self.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.loader.load_state_dict(saved["loader"])
        self.step = saved["step"]


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def world_size():
    return dist.get_world_size() if dist.is_initialized() else 1


def train(options, training, table):
    """Trains to the last epoch or to `--stop-after`; gives this rank's (epoch, samples) by step."""
    model = training.network
    if dist.is_initialized():
        model = DistributedDataParallel(model)  # On whichever device the network is.
    seen = []
    while (epoch := training.loader.epoch) < options.epochs:
        for images, labels, indices in training.loader:
            loss = nn.functional.cross_entropy(model(images), table[labels])
            training.optimizer.zero_grad()
            loss.backward()
            training.optimizer.step()
            training.schedule.step()
            training.step += 1
            seen.append((epoch, indices.tolist()))
            if training.step == options.stop_after:
                training.save(options.save)
                return seen
        if rank() == 0:
            print(f"epoch {epoch}: step {training.step}, loss {loss.item():.3f}", flush=True)
    return seen


@torch.no_grad()
def accuracy(network, loader, table):
    counts = torch.zeros(2)
    network.eval()
    for images, labels, flags in loader:
        is_own = flags == 0  # Not a repeat that evens out the ranks.
        hits = (network(images).argmax(1) == table[labels]).cpu()  # Flags are on the host.
        counts += torch.tensor([hits[is_own].sum(), is_own.sum()])
    network.train()
    if dist.is_initialized():
        dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def write_record(path, first_step, seen):
    """A line of JSON for each step, with the samples of all ranks."""
    ranks = [seen]
    if dist.is_initialized():
        ranks = [None] * world_size()
        dist.all_gather_object(ranks, seen)
    if path is None or rank() != 0:
        return
    with open(path, "w") as file:
        for number, parts in enumerate(zip(*ranks, strict=True), first_step):
            samples = sorted(sample for _, part in parts for sample in part)
            line = {"step": number, "epoch": parts[0][0], "samples": samples}
            file.write(json.dumps(line) + "\n")


def run(options):
    if "WORLD_SIZE" in os.environ:
        # Of the sums that ranks make some are on the CPU, with a GPU as well.
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # The network is small; the cores are the decode threads'.
    size = options.batch_size // world_size()
    if size * world_size() != options.batch_size:
        sys.exit(f"train_torch: a batch of {options.batch_size} on {world_size()} processes")

    place = {"batch_size": size, "device": options.device}
    loader = training.options(**place, seed=options.seed)(options.data)
    device = device_of(loader)
    table = label_table(loader.class_to_idx, device)
    network = make_network(len(loader.classes)).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, total_steps=max(1, options.epochs * len(loader))
    )
    state = Training(loader, network, optimizer, schedule)
    if options.resume:
        state.load(options.resume)
    if rank() == 0:
        print(loader.plan, flush=True)

    first_step = state.step
    seen = train(options, state, table)
    write_record(options.record, first_step, seen)
    if state.step == options.stop_after:
        if rank() == 0:
            print(f"stopped after step {state.step}; {options.save} has the rest")
        return 0
    share = accuracy(network, validation.options(**place)(options.data), table)
    if rank() == 0:
        print(f"validation accuracy: {100 * share:.1f} % (wanted: {100 * options.target:.0f} %)")
    return 0 if share > options.target else 1


def check(options):
    """An unbroken run, and one that stops on one process and goes on on two: the same samples?"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = [__file__, options.data]
        for option in ("epochs", "batch_size", "learning_rate", "device", "seed", "target"):
            own += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
        saved = str(folder / "checkpoint.pt")
        stop = str(options.stop_after or 20)
        two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        runs = {
            "unbroken": own,
            "begun": [*own, "--stop-after", stop, "--save", saved],
            "resumed": [*two, *own, "--resume", saved],
        }
        records = {}
        for title, command in runs.items():
            print(f"== {title}", flush=True)
            record = folder / f"{title}.jsonl"
            subprocess.run([sys.executable, *command, "--record", str(record)], check=True)
            records[title] = [json.loads(line) for line in record.read_text().splitlines()]
    return compare(records["unbroken"], records["begun"], records["resumed"])


def compare(unbroken, begun, resumed):
    broken = begun + resumed
    if not begun or not resumed:
        sys.exit("train_torch: --check: it did not stop in the middle; set --stop-after")
    for whole, part in zip(unbroken, broken, strict=False):
        if whole != part:
            print(f"step {whole['step']}: {whole['samples']} unbroken, {part['samples']} resumed")
            return 1
    if len(unbroken) != len(broken):
        print(f"{len(unbroken)} steps unbroken, {len(broken)} resumed")
        return 1
    count = sum(len(line["samples"]) for line in unbroken)
    print(
        f"check: {len(unbroken)} steps, {count} samples: stopped after {len(begun)} steps on one "
        "process and resumed on two, each step had the samples of the unbroken run"
    )
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", metavar="DATA", help="a folder of class folders")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, or auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=0.9, help="validation accuracy wanted")
    parser.add_argument("--stop-after", type=int, metavar="N", help="steps")
    parser.add_argument("--save", default="checkpoint.pt", help="where --stop-after saves")
    parser.add_argument("--resume", metavar="FILE", help="go on from what --stop-after saved")
    parser.add_argument("--record", metavar="FILE", help="writes the samples of each step")
    parser.add_argument("--check", action="store_true", help="see above")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    if not Path(options.data).exists():
        sys.exit(f"train_torch: {options.data} is not there; `make demo` makes build/demo/photos")
    status = check(options) if options.check else run(options)
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.exit(status)


if __name__ == "__main__":
    main()
