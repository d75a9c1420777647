# SPDX-License-Identifier: Apache-2.0
"""Each situation of bench/situations.py, made once for real: the verdict names what limits.

What takes root, FUSE or a control group is skipped where those can't be had. Rules that need what
no test can make (steal, swap, a GPU on the other socket) are tested on made-up facts and trees, in
verdict/rules_test.cc and pipeline/gpu_distance_test.cc.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from conftest import BINARY, REPOSITORY

sys.path.insert(0, str(REPOSITORY))

from bench import program, situations  # noqa: E402

PICTURES = 256
SECONDS = 2
# Where other programs take so much of a core beside the tests, that may be what limits, and then
# the verdict must say so.
OTHERS_MATTER = 0.4
# A machine that stalls for a second has made another situation: it is made again.
ATTEMPTS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("situations")
    draw = random.Random(0)
    pictures = []
    for number in range(8):
        # Noise compresses badly: 150 kB each, which a throttled device takes its time for.
        small = Image.frombytes("RGB", (125, 94), draw.randbytes(125 * 94 * 3))
        pictures.append(root / f"{number}.jpg")
        small.resize((500, 376), Image.Resampling.NEAREST).save(pictures[-1], quality=92)
    return situations.Data(pictures, root, PICTURES)


@pytest.fixture(autouse=True)
def the_program_under_test(monkeypatch):
    monkeypatch.setattr(program, "FEEDRACE", str(BINARY))
    monkeypatch.setattr(situations, "FEEDRACE", str(BINARY))
    monkeypatch.setattr(situations, "FAULTY_FS", BINARY.parent / "faulty_fs")


def others_cpu_seconds():
    """CPU time of all programs of the machine but this one and those that it ended."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _waiting, irq, soft_irq, _steal = map(int, fields)
    busy = (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


def made_once(kind, data):
    """The verdict, what it may be, and how many cores other programs took meanwhile."""
    began, others = time.monotonic(), others_cpu_seconds()
    try:
        verdict, expected = kind(data, random.Random(1), SECONDS)
    except situations.UnavailableError as e:
        pytest.skip(str(e))
    others_cores = (others_cpu_seconds() - others) / (time.monotonic() - began)
    if others_cores >= OTHERS_MATTER:
        expected = expected | {"neighbour"}
    return verdict, expected, others_cores


@pytest.mark.parametrize("kind", situations.KINDS, ids=lambda kind: kind.__name__)
def test_a_situation_is_named(kind, data):
    for _ in range(ATTEMPTS):
        verdict, expected, others_cores = made_once(kind, data)
        if verdict["limit"] in expected:
            break
    assert verdict["limit"] in expected, (others_cores, verdict["text"])
    assert verdict["evidence"] or verdict["limit"] == "too_short"
    assert verdict["text"].startswith(verdict["headline"])
