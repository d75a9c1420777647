# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with torchvision, as its examples do it and tuned."""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

from bench import layout


class Files(torch.utils.data.Dataset):
    def __init__(self, load):
        self.samples, self.load = layout.epoch(), load

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        return self.load(path), label


def batches(load, config, **options):
    loader = torch.utils.data.DataLoader(
        Files(load),
        config.batch,
        shuffle=True,
        num_workers=config.threads,
        persistent_workers=True,
        drop_last=True,
        **options,
    )
    while True:
        yield from loader


def decode(path):
    data = torchvision.io.read_file(path)
    return torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB)


def pillow(config):
    """The recipe of PyTorch's ImageNet example."""
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(measure.SIDE_PX),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(measure.MEAN, measure.STD),
        ]
    )

    def load(path):
        with open(path, "rb") as file:
            return steps(Image.open(file).convert("RGB"))

    return batches(load, config)


def tensors(config, antialias=True):
    steps = v2.Compose(
        [
            v2.RandomResizedCrop(measure.SIDE_PX, antialias=antialias),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(measure.MEAN, measure.STD),
        ]
    )
    return batches(lambda path: steps(decode(path)), config)


def bytes_until_batch(config):
    """Tuned: bytes until the batch, which the worker normalises in one go."""
    steps = v2.Compose(
        [v2.RandomResizedCrop(measure.SIDE_PX, antialias=True), v2.RandomHorizontalFlip()]
    )
    mean = torch.tensor(measure.MEAN_255).view(1, 3, 1, 1)
    scale = 1 / torch.tensor(measure.STD_255).view(1, 3, 1, 1)

    def collate(samples):
        images = torch.stack([image for image, _ in samples]).float().sub_(mean).mul_(scale)
        return images.half(), torch.tensor([label for _, label in samples])

    return batches(lambda path: steps(decode(path)), config, collate_fn=collate)


if __name__ == "__main__":
    measure.main(
        "torch",
        files={
            "torch_pil": pillow,
            "torch_tv": tensors,
            "torch_tv_noaa": lambda c: tensors(c, antialias=False),
            "torch_tv_u8": bytes_until_batch,
        },
    )
