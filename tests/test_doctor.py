# SPDX-License-Identifier: Apache-2.0
"""feedrace doctor on the trees of machines in tests/machines, on an empty one, and on this one."""

import json
import shutil
import subprocess

import pytest
from machine_trees import MACHINES, lay_out

from conftest import CASES, run

GOOD, BAD_DATA, WRONG_USE = 0, 1, 2
PATHS = {
    "dgx": ["/raid/train"],
    "cloud_vm": ["/data"],
    "laptop": ["/photos/mine"],
    "container": ["/workspace", "/data"],
    "topology": ["/near", "/far"],
    "archive": ["/archive/photos", "/zones"],
    "qemu": ["/near", "/far", "/dev"],
}


def examine(root, *paths):
    done = run("doctor", *paths, "--root", root, "--json")
    assert done.code in (GOOD, BAD_DATA), done.err
    report = json.loads(done.out)
    assert (done.code == BAD_DATA) == (report["problems"] > 0)
    return report["findings"]


def short(findings):
    """A line each: what a person compares."""
    return [
        " ".join(filter(None, (f["grade"], f["item"], f["subject"]))) + ": " + f["found"]
        for f in findings
    ]


@pytest.mark.parametrize("machine", PATHS)
def test_findings_of_a_machine(machine, tmp_path):
    found = short(examine(lay_out(machine, tmp_path), *PATHS[machine]))
    assert found == (MACHINES / f"{machine}.findings").read_text().splitlines()


@pytest.mark.parametrize("machine", PATHS)
def test_the_script_of_a_machine_is_one_that_a_shell_reads(machine, tmp_path):
    root = lay_out(machine, tmp_path)
    script = run("doctor", *PATHS[machine], "--root", root, "--script").out
    checked = subprocess.run(["sh", "-n"], input=script, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    bad = [f for f in examine(root, *PATHS[machine]) if f["grade"] in ("advice", "problem")]
    for finding in bad:
        assert finding["fix"] in script.decode()
        assert f"# {finding['item']}" in script.decode()


def test_of_an_empty_root_nothing_is_known(tmp_path):
    findings = examine(tmp_path, "/data")
    assert len(findings) > 10
    assert {f["grade"] for f in findings} == {"unknown"}
    assert all(f["found"] and f["wanted"] and f["why"] for f in findings)


@pytest.mark.parametrize("machine", PATHS)
def test_files_that_hold_anything_are_no_reason_to_end(machine, tmp_path):
    lay_out(machine, tmp_path)
    for seed, path in enumerate(p for p in tmp_path.rglob("*") if p.is_file()):
        content = path.read_bytes()
        path.write_bytes([b"", content[: len(content) // 2], b"\xff\x00" * 300][seed % 3])
    assert len(examine(tmp_path, *PATHS[machine])) > 10


def test_links_in_circles_are_no_reason_to_hang(tmp_path):
    lay_out("dgx", tmp_path)
    slaves = tmp_path / "sys/devices/virtual/block/md0/slaves"
    shutil.rmtree(slaves)
    slaves.mkdir()
    (slaves / "md0").symlink_to("../../md0")
    assert len(examine(tmp_path, "/raid")) > 10


def test_this_machine(tmp_path):
    done = run("doctor", tmp_path)
    assert done.code in (GOOD, BAD_DATA)
    lines = done.out.decode().splitlines()
    assert lines[-1].endswith("unknown")
    assert any("file_system" in line for line in lines)
    assert "wanted:" not in run("doctor", tmp_path, "--brief").out.decode()


def test_a_path_that_is_not_there_is_named(tmp_path):
    assert "nowhere" in run("doctor", tmp_path / "nowhere").error(WRONG_USE)
    assert "nowhere" in run("doctor", "--root", tmp_path / "nowhere").error(WRONG_USE)


def test_what_gdscheck_printed_is_judged(tmp_path):
    done = run("doctor", "--root", tmp_path, "--gdscheck", CASES / "diag/gdscheck.txt", "--json")
    (finding,) = [f for f in json.loads(done.out)["findings"] if f["item"] == "cufile_path"]
    assert finding["grade"] == "problem"
    assert finding["found"] == "compat (nvidia-fs 2.24, NVMe supported; because force_compat_mode)"
    assert "force_compat_mode to false" in finding["fix"]
    other = tmp_path / "other.txt"
    for text in ("", "gdscheck: command not found\n"):
        other.write_text(text)
        assert "gdscheck -p" in run("doctor", "--gdscheck", other).error(WRONG_USE)
