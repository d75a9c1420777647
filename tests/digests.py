# SPDX-License-Identifier: Apache-2.0
"""What `feedrace digest` prints, and how two of its series are compared."""

import json

from conftest import run, start


def quick(options):
    """Small pictures, and one thread unless the test says how many, for many runs at once."""
    threads = () if "--threads" in options else ("--threads", "1")
    return ("--size", "24", *threads, *options)


def lines_of(output):
    """The batches of a run's output; a last line that was cut off by a kill is no batch."""
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]


def digest(source, *options, **more):
    """The batches of a run that must have gone well."""
    result = run("digest", source, *quick(options), **more)
    assert result.code == 0, result.err
    return lines_of(result.out)


def digest_ranks(source, world_size, *options, states=None):
    """The batches of all ranks, which run at the same time; `states` has a file for each."""
    processes = []
    for rank in range(world_size):
        state = () if states is None else ("--state", states[rank])
        ranks = ("--rank", str(rank), "--world-size", str(world_size))
        processes.append(start("digest", source, *ranks, *state, *quick(options)))
    lines = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        lines.append(lines_of(out))
    return lines


def places(lines):
    """What stands at each (epoch, position): sample, flag, label and digest."""
    found = {}
    for line in lines:
        size = len(line["samples"])
        first = line["position"] + line["rank"] * size
        fields = zip(line["samples"], line["flags"], line["labels"], line["digests"], strict=True)
        for place, content in enumerate(fields):
            where = (line["epoch"], first + place)
            assert found.setdefault(where, content) == content, f"{where} came twice and differs"
    return found


def real_places(lines):
    """The same without padding, which depends on the number of ranks."""
    return {where: content for where, content in places(lines).items() if content[1] == "real"}


def samples(lines):
    return [sample for line in lines for sample in line["samples"]]
