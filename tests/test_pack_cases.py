# SPDX-License-Identifier: Apache-2.0
"""The cases of tar shards through `feedrace pack`: the same samples, or the named error."""

import json

import pytest
from test_cases import content_of, key_of, may_fail, must_fail, source_of

import cases
from conftest import run

BAD_DATA = 1


def is_small(case):
    """Members of many gigabytes would be copied here."""
    return "read_only_fields" not in case["expect"]


def listed(source):
    return run("ls", source, "--json")


def is_damaged(source):
    """Whether something of the shards keeps samples out, which `feedrace verify` finds too."""
    verified = run("verify", source, "--no-decode", "--json")
    findings = json.loads(verified.out)["findings"] if verified.out else []
    return any(one["check"] == "structure" and one["bad"] for one in findings)


def described(samples):
    """Of each sample its key and fields with their content."""
    return [(key_of(one), content_of(one["shard"], one["fields"])) for one in samples]


@pytest.mark.parametrize(
    "case",
    [c for kind in ("tar", "tar-set") for c in cases.load(kind) if is_small(c)],
    ids=lambda case: case["id"],
)
def test_a_shard_is_packed_anew_or_its_fault_is_named(case, tmp_path):
    source = source_of(case, tmp_path)
    before = listed(source)
    ran = run("pack", source, tmp_path / "packed", "--align")
    if must_fail(case) or (may_fail(case) and before.code != 0):
        assert source.name in ran.error(1, 2, 3)
        assert not (tmp_path / "packed/manifest.json").exists()
        return
    samples = before.json()["samples"]
    if samples and is_damaged(source):
        assert "mend it, or leave them out with on_error skip" in ran.error(BAD_DATA)
        assert not (tmp_path / "packed").exists()
        ran = run("pack", source, tmp_path / "packed", "--align", "--on-error", "skip", "--json")
        if ran.code == BAD_DATA:
            assert json.loads(ran.out)["left_out"]
            packed = listed(tmp_path / "packed").json()["samples"]
            assert described(packed) == described(samples)
            return
    keys = [key_of(one).removeprefix(b"./") for one in samples]
    if not samples:
        assert "no samples" in ran.error(2)
    elif len(set(keys)) < len(keys):
        assert "both would have the key" in ran.error(2)
    else:
        assert ran.code == 0, ran.err
        packed = listed(tmp_path / "packed").json()["samples"]
        assert described(packed) == described(samples)
