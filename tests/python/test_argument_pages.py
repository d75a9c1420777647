# SPDX-License-Identifier: Apache-2.0
"""The page of all arguments is that of the real signature, command line and plan."""

import inspect
import os
import re
import subprocess
from pathlib import Path

import pytest

import feedrace as fr
from small_loaders import loader_of

REPOSITORY = Path(__file__).parent.parent.parent
PROGRAM = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace"))
PARAMETERS = {
    name: parameter.default
    for name, parameter in inspect.signature(fr.ImageLoader).parameters.items()
    if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
}
COMMANDS = (("plan",), ("bench", "loader"))
# Of a command, not of the loader.
OF_COMMANDS = {"--help", "--json"}
CODE = re.compile(r"`([^`]+)`")


def tables():
    """Of each table of the page: its rows, each a list of cells."""
    text = (REPOSITORY / "docs" / "arguments.md").read_text()
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
        for table in found
    ]


def options_of(command):
    """Of each line of options in the help: its spellings, and the default that it shows."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    text = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True)
    lines = re.findall(
        r"^  (?:-\w,)?(--\S+)(?: [A-Z]+(?::\S*?)?(?:=(\S+))?(?: |$))?", text.stdout, re.M
    )
    return [(spellings.split(","), default) for spellings, default in lines]


def options_of_the_page():
    arguments, _ = tables()
    return {row[0].strip("`"): re.findall(r"`(--[\w-]+)`", row[2]) for row in arguments}


def test_every_argument_stands_there_with_its_default():
    arguments, _ = tables()
    found = [(CODE.findall(name)[0], CODE.findall(default)[0]) for name, default, _ in arguments]
    assert found == [(name, repr(default)) for name, default in PARAMETERS.items()]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_options_of_the_page_are_those_of_the_commands(command):
    known = {spelling for spellings, _ in options_of(command) for spelling in spellings}
    named = {option for options in options_of_the_page().values() for option in options}
    assert named - known == set()


def test_every_option_that_the_commands_share_stands_there():
    one, other = (
        {tuple(spellings) for spellings, _ in options_of(command)} for command in COMMANDS
    )
    named = {option for options in options_of_the_page().values() for option in options}
    missing = [spellings for spellings in one & other if not named & set(spellings)]
    assert len(one & other) > 30
    assert {spelling for spellings in missing for spelling in spellings} == OF_COMMANDS


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_defaults_are_the_same_in_python_and_on_the_command_line(command):
    page = options_of_the_page()
    numbers = {n: d for n, d in PARAMETERS.items() if type(d) in (int, float)}
    shown = {s: default for spellings, default in options_of(command) for s in spellings if default}
    compared = [
        (name, float(shown[option]), float(default))
        for name, default in numbers.items()
        for option in page[name]
        if option in shown
    ]
    assert len(compared) >= 8
    assert [one for one in compared if one[1] != one[2]] == []


def test_every_member_of_the_plan_stands_there(folder):
    plan = loader_of(folder).plan
    _, members = tables()
    named = [name for row in members for name in CODE.findall(row[0])]
    assert sorted(named) == sorted(plan.to_dict())
    of_sets, of_memory = (
        next(CODE.findall(row[1]) for row in members if row[0] == f"`{name}`")
        for name in ("sets", "memory")
    )
    assert of_sets == list(plan.sets[0])
    assert of_memory == list(plan.memory)


def test_every_line_of_the_plan_stands_there(folder, shard, tmp_path):
    _, members = tables()
    named = {name for row in members for name in CODE.findall(row[2])}
    arguments = {"subset": [1, 2], "world_size": 2, "rank": 0, "batch_size": 1}
    arguments["jpeg_engine"] = "libjpeg-turbo"
    cache = {"limit": "2MiB", "folder": tmp_path}
    texts = [
        str(loader_of(folder, **arguments, device="auto", output="dlpack").plan),
        str(loader_of(shard, fields=("index", "txt"), shared_cache=cache).plan),
    ]
    begun = {line.split()[0] for text in texts for line in text.splitlines()}
    assert begun - named == set()
    assert named - begun <= {"set", "note", "decoding", "crops"}
