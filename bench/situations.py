# SPDX-License-Identifier: Apache-2.0
"""Makes situations in which training waits, for real, and counts how often the verdict is right.

    python -m bench.situations DATA [--seed 0] [--count 20] [--only NAME] [--seconds 3]

DATA is a folder of JPEG files. Each situation is a kind drawn by the seed with numbers of its own
(threads, delays, limits). `feedrace explain` is asked for its verdict and nothing else. Kinds that
this machine can't make (no root, no FUSE, no control group) are left out, and said. Ends with 1
when fewer than 19 of 20 are named right.
"""

import argparse
import base64
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from bench.program import FEEDRACE, machine_line

FAULTY_FS = Path(FEEDRACE).parent / "faulty_fs"
ENOUGH = 0.95
GROUPS = Path("/sys/fs/cgroup")
HOG = "while True: pass"
READ_AHEAD = 128 << 10  # Of the kernel, by default.
# A picture of 8 x 8 pixels.
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFUlEQVR42mM8kWLEgA0wMeAAg1MCABZhAW7v5xmSAAAAAElFTkSuQmCC"
)


class Data:
    """The pictures as a folder of classes and as a shard."""

    def __init__(self, pictures, root, count):
        self.root = root
        self.folder = root / "folder"
        self.shards = root / "shards"
        self.shards.mkdir()
        for number in range(count):
            source = pictures[number % len(pictures)]
            target = self.folder / f"class{number % 4}" / f"{number:05}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for number in range(4):
            with tarfile.open(self.shards / f"{number}.tar", "w") as tar:
                for file in sorted((self.folder / f"class{number}").iterdir()):
                    tar.add(file, file.name)


def explain(path, seconds, *options, group=None):
    """The verdict on a run, in a process of its own."""
    command = [FEEDRACE, "explain", path, "--seconds", seconds, "--json", *options]

    def enter():
        if group is not None:
            (group / "cgroup.procs").write_text("0")

    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        preexec_fn=enter if group is not None else None,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


@contextlib.contextmanager
def hogs(count):
    """Processes that do nothing but take a core each."""
    running = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@contextlib.contextmanager
def control_group(controller, **limits):
    """A group of our own; of version 1, or 2 where that is what is mounted."""
    base = GROUPS / controller
    folder = (base if base.is_dir() else GROUPS) / f"feedrace-situation-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as e:
        raise UnavailableError(f"no control group can be made ({e.strerror})") from e
    try:
        for name, value in limits.items():
            file = folder / name.replace("__", ".")
            if not file.exists():
                raise UnavailableError(f"{file} is not there")
            file.write_text(str(value))
        yield folder
    finally:
        remove(folder)


def remove(group):
    """Its last process may still be about to end."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.1)
    return group.rmdir()


@contextlib.contextmanager
def slow_store(folder, delay_ms, parallel):
    """The folder on a file system whose reads take so many milliseconds longer."""
    if not FAULTY_FS.exists():
        raise UnavailableError(f"{FAULTY_FS} is not built (ninja faulty_fs)")
    with tempfile.TemporaryDirectory() as at:
        rules = [f"delay:{delay_ms}:*", *(["parallel:0:*"] if parallel else [])]
        served = subprocess.Popen(
            [FAULTY_FS, folder, at, *rules], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            if served.stdout.readline().strip() != b"ready":
                raise UnavailableError("FUSE can't be mounted here")
            yield Path(at)
        finally:
            subprocess.run(["umount", "-l", at], capture_output=True)
            served.kill()
            served.wait()


@contextlib.contextmanager
def other_readers(file, count, group):
    """Processes that read the same device past the cache."""
    loop = f"while :; do dd if={file} of=/dev/null bs=1M iflag=direct 2>/dev/null; done"

    def enter():
        os.setsid()
        (group / "cgroup.procs").write_text("0")

    running = [subprocess.Popen(["sh", "-c", loop], preexec_fn=enter) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            os.killpg(each.pid, 9)
            each.wait()


class UnavailableError(Exception):
    """A situation that this machine can't make."""


def warm(path):
    subprocess.run([FEEDRACE, "warm", str(path)], capture_output=True, check=True)


def device_of(path):
    number = os.stat(path).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def need_root():
    if os.geteuid() != 0:
        raise UnavailableError("it takes root")


# Kinds: each makes a situation and gives the verdict and what it must be.


def decode(data, draw, seconds):
    warm(data.shards)
    batch = draw.choice((8, 16, 32))
    return explain(data.shards, seconds, "--threads", 1, "--batch", batch), {"decode"}


def consumer(data, draw, seconds):
    warm(data.shards)
    step = draw.choice((60, 90, 120))
    return explain(data.shards, seconds, "--batch", 8, "--step-ms", step), {"consumer"}


def oversubscribed(data, draw, seconds):
    warm(data.shards)
    cores = len(os.sched_getaffinity(0))
    threads = cores * draw.choice((4, 6, 8))
    return explain(data.shards, seconds, "--threads", threads, "--batch", 16), {"oversubscribed"}


def neighbour(data, draw, seconds):
    warm(data.shards)
    cores = len(os.sched_getaffinity(0))
    with hogs(cores * draw.choice((1, 2))):
        found = explain(data.shards, seconds, "--threads", cores, "--batch", 16)
    return found, {"neighbour"}


def cpu_quota(data, draw, seconds):
    need_root()
    warm(data.shards)
    share = draw.choice((0.3, 0.5, 0.7))
    quota = int(share * 100_000)
    limits = {"cpu__cfs_quota_us": quota} if (GROUPS / "cpu").is_dir() else {"cpu__max": quota}
    with control_group("cpu", **limits) as group:
        return explain(data.shards, seconds, "--batch", 8, group=group), {"cpu_quota"}


def small_files(data, draw, seconds):
    need_root()
    with slow_store(data.folder, draw.choice((4, 8, 12)), parallel=False) as at:
        found = explain(at, seconds, "--batch", 8, "--backend", "direct", "--page-cache", "drop")
    return found, {"small_files"}


def slow_shards(data, draw, seconds):
    need_root()
    with slow_store(data.shards, draw.choice((10, 20, 30)), parallel=draw.random() < 0.5) as at:
        found = explain(at, seconds, "--batch", 8, "--page-cache", "drop", "--backend", "direct")
    return found, {"storage"}


def slow_device(data, draw, seconds):
    need_root()
    limit = draw.choice((10, 20, 30)) << 20
    rule = f"{device_of(data.shards)} {limit}"
    with control_group("blkio", blkio__throttle__read_bps_device=rule) as group:
        found = explain(
            data.shards, seconds, "--batch", 8, "--page-cache", "drop", "--backend", "direct",
            group=group,
        )  # fmt: skip
    return found, {"storage"}


def shared_device(data, draw, seconds):
    need_root()
    rule = f"{device_of(data.shards)} {draw.choice((40, 60)) << 20}"
    with (
        control_group("blkio", blkio__throttle__read_bps_device=rule) as group,
        other_readers(data.shards / "0.tar", draw.choice((3, 5)), group),
    ):
        found = explain(
            data.shards, seconds, "--batch", 8, "--page-cache", "drop", "--backend", "direct",
            group=group,
        )  # fmt: skip
        time.sleep(0.1)
    return found, {"shared_device"}


def cold_start(data, draw, seconds):
    """The first pass is slow, later ones come out of the page cache."""
    need_root()
    requests = sum(shard.stat().st_size for shard in data.shards.iterdir()) / READ_AHEAD
    delay_ms = round(1000 * draw.choice((1.5, 2)) * seconds / requests)
    with slow_store(data.shards, delay_ms, parallel=False) as at:
        found = explain(
            at, 5 * seconds, "--batch", 8, "--step-ms", 30, "--backend", "buffered",
            "--page-cache", "keep",
        )  # fmt: skip
    return found, {"cold_start"}


def memory_copies(data, draw, seconds):
    warm(data.shards)
    batch = draw.choice((16, 32, 64))
    options = ("--recipe", "read", "--batch", batch, "--backend", "buffered")
    return explain(data.shards, seconds, *options), {"memory_copies"}


def too_short(data, draw, _seconds):
    return explain(data.shards, 0.001, "--batch", draw.choice((32, 64))), {"too_short"}


TINY = """
import json, sys, time
import feedrace as fr

@fr.pipeline(batch_size=int(sys.argv[2]), output="numpy")
def tiny(root):
    jpeg, label = fr.fn.read(root, shuffle=True)
    return fr.fn.to_tensor(fr.fn.resize(fr.fn.decode(jpeg), 8), dtype="float32"), label

loader = tiny(sys.argv[1])
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    for _ in loader:
        pass
verdict = loader.verdict()
print(json.dumps({"limit": verdict.limit, "headline": verdict.headline, "text": verdict.text,
                  "evidence": verdict.evidence}))
"""


def batch_overhead(data, draw, seconds):
    """Samples that take no time, in batches of one or two, in Python."""
    folder = data.root / "tiny"
    for number in range(64):
        target = folder / f"class{number % 2}" / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(DOT)
    command = [sys.executable, "-c", TINY, folder, draw.choice((1, 2)), seconds]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if "No module named" in done.stderr:
        raise UnavailableError(done.stderr.splitlines()[-1])
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout), {"batch_overhead"}


KINDS = (
    decode, consumer, oversubscribed, neighbour, cpu_quota, small_files, slow_shards, slow_device,
    shared_device, cold_start, memory_copies, batch_overhead, too_short,
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--pictures", type=int, default=1000)
    given = parser.parse_args()
    pictures = sorted(p for p in given.data.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    if not pictures:
        sys.exit(f"situations: {given.data}: no JPEG files; give a folder with some")
    draw = random.Random(given.seed)
    kinds = [kind for kind in KINDS if given.only in (None, kind.__name__)]
    # Mixed, and none much more often than another.
    chosen = [kinds[i % len(kinds)] for i in range(given.count)]
    draw.shuffle(chosen)
    print(machine_line())
    right = total = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as root:
        data = Data(pictures, Path(root), given.pictures)
        for kind in chosen:
            try:
                found, expected = kind(data, draw, given.seconds)
            except UnavailableError as e:
                print(f"{kind.__name__:16} left out: {e}")
                continue
            total += 1
            is_right = found["limit"] in expected
            right += is_right
            mark = "right" if is_right else "WRONG"
            said = f"{found['limit']:16} {found['text'][:200]}"
            print(f"{kind.__name__:16} {mark}  {said}", flush=True)
    print(f"{right} of {total} named right")
    if total == 0 or right < ENOUGH * total:
        sys.exit(1)


if __name__ == "__main__":
    main()
