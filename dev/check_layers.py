#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each folder of src/feedrace includes only what the architecture allows it.

The table is the one of ARCHITECTURE.md and src/feedrace/CMakeLists.txt. Usage:
check_layers.py [ROOT]; ends with 1 and a line a violation.
"""

import re
import sys
from pathlib import Path

UNDER_PIPELINE = {
    "core",
    "host",
    "storage",
    "jpeg",
    "formats",
    "decode",
    "ops",
    "transform",
    "order",
    "ranks",
    "cuda",
    "watch",
    "verdict",
}
MAY_USE = {
    "core": set(),
    "host": {"core"},
    "storage": {"core", "host"},
    "jpeg": {"core"},
    "formats": {"core", "host", "storage", "jpeg"},
    "decode": {"core", "jpeg"},
    "ops": {"core"},
    "transform": {"core", "decode", "ops"},
    "order": {"core"},
    "ranks": {"core"},
    "cuda": {"core", "host", "storage"},
    "watch": {"core", "host"},
    "verdict": {"core", "host"},
    "pipeline": UNDER_PIPELINE,
    "pack": {"core", "host", "storage", "jpeg", "formats", "decode", "ops", "order"},
    "exchange": {"core", "formats"},
    "diagnose": {"core", "host", "storage", "jpeg", "decode", "ops", "cuda"},
    "doctor": {"core", "host", "storage"},
    "view": {"core", "host", "storage", "watch", "verdict", "doctor"},
    "tools": UNDER_PIPELINE | {"pipeline", "pack", "exchange", "diagnose", "doctor", "view"},
    "python": UNDER_PIPELINE | {"pipeline", "pack"},
    "testing": {"core", "host", "storage"},
}

# What tests of a layer compare with, besides `testing`.
TESTS_MAY_USE = {"cuda": {"decode", "ops"}}

# Parts of a layer that are compiled and linked apart from it: what stands in such a folder includes
# only that folder and the headers that both sides share, and nothing else includes it. Tests steer
# the stubs by one header.
APART = {"cuda/kernels", "cuda/plugin", "cuda/stubs"}
SHARED = re.compile(r"feedrace/(cuda/plugin_abi\.h|cuda/fused_pass_\w+\.h|core/host_device\.h)$")
FOR_TESTS = {"feedrace/cuda/stubs/stub_control.h"}

# The layer that implements each header of include/feedrace.
PUBLIC = {
    "error.h": "core",
    "random.h": "core",
    "stats.h": "core",
    "tensor.h": "core",
    "backend.h": "storage",
    "format.h": "formats",
    "decoder.h": "decode",
    "op.h": "ops",
    "order.h": "order",
    "pack.h": "pack",
    "picture_change.h": "pack",
    "loader.h": "pipeline",
    "pipeline.h": "transform",
    "ranks.h": "ranks",
    "verdict.h": "verdict",
    "verify.h": "pack",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Headers that tests of one layer share are named test_*.h or *_contract.h.
TEST_HEADER = re.compile(r"(^|/)(test_\w+|\w+_contract)\.h$")
TEST_FILE = re.compile(r"_(test|bench|fuzz)\.cc$|(^|/)replay_main\.cc$|" + TEST_HEADER.pattern)


def included_layer(include):
    """The layer that `include` belongs to and whether it is public; (None, False) if unknown."""
    parts = include.split("/")
    if parts[0] != "feedrace":
        return None, False
    if len(parts) == 2:
        return PUBLIC.get(parts[1]), True
    return (parts[1] if parts[1] in MAY_USE else None), False


def part_of(name):
    """The part of APART that the file `name`, below src/feedrace, is in; None if it is in none."""
    folder = str(Path(name).parent)
    return folder if folder in APART else None


def part_violation(name, include, is_test):
    """What is wrong with `include` in the file `name` because of parts; None if nothing is."""
    mine = part_of(name)
    its = part_of(include.removeprefix("feedrace/"))
    is_shared = SHARED.match(include)
    if its is not None and its != mine and not (is_test and include in FOR_TESTS):
        return f"{name}: only {its} may include {include}"
    if mine is not None and its != mine and not is_shared:
        return f"{name}: {mine} must not include {include}, which is not linked into it"
    if SHARED.match(f"feedrace/{name}") and not is_shared:
        return f"{name}: what both sides share must not include {include}"
    return None


def violations_of(path, layer, name, is_public):
    """What is wrong with the includes of one file, as lines."""
    may_use = MAY_USE[layer] | {layer}
    is_test = TEST_FILE.search(path.name)
    if is_test:
        may_use |= {"testing"} | TESTS_MAY_USE.get(layer, set())
    for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
        used, used_is_public = included_layer(include)
        if used is None:
            yield f'{name}: "{include}" is in no known layer; write "feedrace/<layer>/<file>"'
        elif is_public and not used_is_public:
            yield f"{name}: a public header must not include the private {include}"
        elif TEST_HEADER.search(include) and not is_test:
            yield f"{name}: only tests may include {include}"
        elif used not in may_use:
            yield f"{name}: {layer} must not include {used}"
        elif not is_public and (violation := part_violation(name, include, is_test)):
            yield violation


def check(root):
    """All violations under `root`, as lines."""
    for path in sorted((root / "include" / "feedrace").rglob("*")):
        name = str(path.relative_to(root))
        if path.name not in PUBLIC:
            yield f"{name}: no layer in dev/check_layers.py; add it to PUBLIC"
        else:
            yield from violations_of(path, PUBLIC[path.name], name, is_public=True)
    source = root / "src" / "feedrace"
    for path in sorted(p for p in source.rglob("*") if p.suffix in {".h", ".cc", ".cu"}):
        name = str(path.relative_to(source))
        layer = name.split("/")[0]
        if layer not in MAY_USE:
            yield f"{name}: no layer in dev/check_layers.py; add it to MAY_USE"
        else:
            yield from violations_of(path, layer, name, is_public=False)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    found = list(check(root))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        return 1
    print("layers: every include is allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
