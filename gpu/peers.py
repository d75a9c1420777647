# SPDX-License-Identifier: Apache-2.0
"""Loops in Python over JPEGs in class folders: Feedrace, torch, torchvision on the GPU, DALI.

`peers.py NAME --pictures DIR` runs one, on the cores that it is given. It prints lines of JSON: a
check of what came, then figures. It ends with 3 and a reason on stderr where a library is missing.
"""

import argparse
import importlib
import itertools
import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE_PX = 224
RUNS = 3
CLASSES = 1000


class MissingError(Exception):
    """What this machine lacks, in one line."""


def print_line(**line):
    print(json.dumps(line), flush=True)


def import_or_miss(name):
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, OSError) as why:
        raise MissingError(f"{name} can't be imported: {' '.join(str(why).split())}") from why


def import_torch(options):
    torch = import_or_miss("torch")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise MissingError(f"torch {torch.__version__} sees no CUDA device")
    return torch


def cores():
    return len(os.sched_getaffinity(0))


def samples(options):
    """Paths with their class, as an ImageFolder has them."""
    classes = sorted(path for path in Path(options.pictures).iterdir() if path.is_dir())
    kinds = {".jpg", ".jpeg", ".JPEG", ".JPG"}
    return [
        (str(path), number)
        for number, folder in enumerate(classes)
        for path in sorted(folder.iterdir())
        if path.suffix in kinds
    ]


def normalised(torch, images, device):
    mean = torch.tensor([255 * value for value in MEAN], device=device).view(1, 3, 1, 1)
    std = torch.tensor([255 * value for value in STD], device=device).view(1, 3, 1, 1)
    return images.float().sub_(mean).div_(std).half()


# Endless iterators of batches (images, labels) on the device.


def endless(loader):
    return itertools.chain.from_iterable(itertools.repeat(loader))


def feedrace(options):
    import_torch(options)
    package = import_or_miss("feedrace")
    try:
        loader = package.ImageLoader(
            options.pictures, batch_size=options.batch_size, device=options.device, output="torch"
        )
    except package.Error as why:
        raise MissingError(f"feedrace: {why}") from why
    return endless(loader)


class Files:
    """A data set of torch: what is done to a file, in the workers."""

    def __init__(self, options, load):
        self.samples, self.load = samples(options), load

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        return self.load(path), label


def data_loader(options, load, **more):
    torch = import_torch(options)
    return torch.utils.data.DataLoader(
        Files(options, load),
        options.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=cores(),
        persistent_workers=True,
        pin_memory=options.device == "cuda",
        **more,
    )


def torch_dataloader(options):
    """As the documentation of torchvision says: workers decode and augment, then `.to(device)`."""
    torch = import_torch(options)
    torchvision = import_or_miss("torchvision")
    v2 = import_or_miss("torchvision.transforms.v2")
    steps = v2.Compose(
        [
            v2.RandomResizedCrop(SIDE_PX, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
            v2.ToDtype(torch.float16),
        ]
    )
    rgb = torchvision.io.ImageReadMode.RGB

    def load(path):
        return steps(torchvision.io.decode_jpeg(torchvision.io.read_file(path), mode=rgb))

    for images, labels in endless(data_loader(options, load)):
        yield (
            images.to(options.device, non_blocking=True),
            labels.to(options.device, non_blocking=True),
        )


def together(pairs):
    return [encoded for encoded, _ in pairs], [label for _, label in pairs]


def torchvision_gpu_decode(options):
    """Workers read, the GPU decodes a batch at once, and augments picture by picture."""
    torch = import_torch(options)
    if options.device != "cuda":
        raise MissingError("torchvision decodes on CUDA devices only")
    torchvision = import_or_miss("torchvision")
    v2 = import_or_miss("torchvision.transforms.v2")
    steps = v2.Compose([v2.RandomResizedCrop(SIDE_PX, antialias=True), v2.RandomHorizontalFlip()])
    loader = data_loader(options, torchvision.io.read_file, collate_fn=together)
    rgb = torchvision.io.ImageReadMode.RGB
    for encoded, labels in endless(loader):
        decoded = torchvision.io.decode_jpeg(encoded, mode=rgb, device=options.device)
        images = torch.stack([steps(image) for image in decoded])
        yield normalised(torch, images, options.device), torch.tensor(labels)


def dali(options):
    """Decoded by the "mixed" decoder, cropped while decoding, the rest on the GPU."""
    if options.device != "cuda":
        raise MissingError("DALI's mixed decoder needs a CUDA device")
    module = import_or_miss("nvidia.dali")
    fn, types = import_or_miss("nvidia.dali.fn"), import_or_miss("nvidia.dali.types")
    import_torch(options)
    torch_plugin = import_or_miss("nvidia.dali.plugin.pytorch")
    files, labels = zip(*samples(options), strict=True)

    @module.pipeline_def(
        batch_size=options.batch_size, num_threads=cores(), device_id=0, prefetch_queue_depth=3
    )
    def pipeline():
        encoded, numbers = fn.readers.file(
            files=list(files), labels=list(labels), random_shuffle=True, name="reader"
        )
        images = fn.decoders.image_random_crop(encoded, device="mixed", output_type=types.RGB)
        images = fn.resize(images, size=(SIDE_PX, SIDE_PX), interp_type=types.INTERP_LINEAR)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT16,
            output_layout="CHW",
            mirror=fn.random.coin_flip(probability=0.5),
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
        )
        return images, numbers

    iterator = torch_plugin.DALIGenericIterator(
        pipeline(), ["images", "labels"], auto_reset=True, reader_name="reader"
    )
    for (batch,) in endless(iterator):
        yield batch["images"], batch["labels"].view(-1)


LOADERS = {
    "feedrace": feedrace,
    "torch_dataloader": torch_dataloader,
    "torchvision_gpu_decode": torchvision_gpu_decode,
    "dali": dali,
}


def check_output(name, options, batches):
    """What tells a training batch from a heap of bytes."""
    images, labels = next(batches)  # Says what is missing.
    torch = import_or_miss("torch")
    values = images.float()
    mean, std = values.mean().item(), values.std().item()
    good = {
        "shape": list(images.shape[1:]) == [3, SIDE_PX, SIDE_PX] and len(labels) == len(images),
        "dtype": images.dtype == torch.float16,
        "device": images.device.type == options.device,
        "finite": bool(torch.isfinite(values).all()),
        "range": -3 < mean < 3 and 0.1 < std < 3,
        "labels": bool(((labels >= 0) & (labels < CLASSES)).all()),
    }
    wrong = [what for what, is_good in good.items() if not is_good]
    found = (
        f"{list(images.shape)} {images.dtype} on {images.device}, mean {mean:.2f}, std {std:.2f}"
    )
    status = "fail" if wrong else "pass"
    reason = f"{found}; wrong: {', '.join(wrong)}" if wrong else found
    print_line(check=f"{name}.output", status=status, reason=reason)
    return not wrong


def synchronise(options):
    if options.device == "cuda":
        importlib.import_module("torch").cuda.synchronize()


def measure_loader(name, options):
    batches = iter(LOADERS[name](options))
    if not check_output(name, options, batches):
        return 1
    measured = []
    for run in range(RUNS + 1):  # The first one warms up.
        synchronise(options)
        begin, images = time.perf_counter(), 0
        while time.perf_counter() - begin < options.seconds / (RUNS + 1):
            images += len(next(batches)[1])
        synchronise(options)
        if run:
            measured.append(images / (time.perf_counter() - begin))
    print_line(figure=f"{name}.images", unit="images/s", values=measured)
    return 0


class Trainer:
    """A step of ResNet-50 in FP16, and how long the GPU waits between two of them.

    Wait is the time from the end of a step on the GPU to the moment its next batch is there, by
    events on the stream: what the CPU does meanwhile does not count as long as the GPU is busy.
    """

    def __init__(self, options):
        self.torch = import_torch(options)
        self.device = options.device
        if self.device != "cuda":
            raise MissingError("a step of ResNet-50 in FP16 takes minutes without a CUDA device")
        models = import_or_miss("torchvision.models")
        self.model = models.resnet50(weights=None).to(self.device).half()
        self.model = self.model.to(memory_format=self.torch.channels_last)
        self.optimizer = self.torch.optim.SGD(self.model.parameters(), lr=1e-6)

    def mark(self):
        """A moment of the GPU's."""
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step(self, images, labels):
        labels = labels.to(self.device, non_blocking=True).long()
        images = images.contiguous(memory_format=self.torch.channels_last)
        loss = self.torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, batches, seconds):
        """Images a second, and the share of the time that the GPU waited."""
        begin, marks, images = time.perf_counter(), [], 0
        while time.perf_counter() - begin < seconds or len(marks) < 2:
            batch = next(batches)
            arrived = self.mark()
            loss = self.step(*batch)
            marks.append((arrived, self.mark()))
            images += len(batch[1])
            if len(marks) % 4 == 0:
                loss.item()  # So that the CPU runs ahead by a few steps, as training loops do.
        self.torch.cuda.synchronize()
        whole = marks[0][1].elapsed_time(marks[-1][1])
        waited = sum(b[1].elapsed_time(a[0]) for b, a in itertools.pairwise(marks))
        if not math.isfinite(loss.float().item()):
            raise ValueError("the loss of ResNet-50 is no number")
        return 1000 * images * (1 - 1 / len(marks)) / whole, 100 * waited / whole


def measure_training(name, options):
    loader = name.removeprefix("resnet50_")
    trainer = Trainer(options)
    batches = iter(LOADERS[loader](options))
    if not check_output(name, options, batches):
        return 1
    trainer.run(batches, options.seconds / (RUNS + 1))
    found = [trainer.run(batches, options.seconds / (RUNS + 1)) for _ in range(RUNS)]
    print_line(figure=f"{name}.images", unit="images/s", values=[images for images, _ in found])
    print_line(figure=f"{name}.gpu_wait", unit="% of the time", values=[w for _, w in found])
    return 0


def main():
    trainings = [f"resnet50_{name}" for name in LOADERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[*LOADERS, *trainings])
    parser.add_argument("--pictures", required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # stderr is for reasons.
    measure = measure_training if options.name in trainings else measure_loader
    try:
        return measure(options.name, options)
    except MissingError as why:
        print(why, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
