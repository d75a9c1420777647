# SPDX-License-Identifier: Apache-2.0
"""Every code block of README and docs runs, or its page says why it can't."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import feedrace
from small_sets import jpeg_of, write_shard

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
sys.path.insert(0, str(REPOSITORY / "dev" / "docs"))

from pages import SHELLS, blocks_of  # noqa: E402

PAGES = sorted([*REPOSITORY.glob("docs/*.md"), REPOSITORY / "README.md"])
PROGRAMS = Path(os.environ.get("FEEDRACE_BIN", REPOSITORY / "build/release/bin/feedrace")).parent
LIBRARY = PROGRAMS.parent / "libfeedrace.so"
# Far above what a page takes: a guard against hangs, not a measurement.
HANG_SECONDS = 900
FRAMEWORKS = ("torch", "torchvision", "torchdata", "jax", "lightning", "accelerate")
CLASSES = ("ant", "bee", "cat")
# Starts the script that follows. torchvision is imported before, in the way that works beside any
# build of torch.
START = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
START_WITH_TORCHVISION = (
    f"import torchvision_import; torchvision_import.import_torchvision(); {START}"
)
# What C++ blocks that are not whole programs take from their reader.
CPP_READER = """
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
void train(const feedrace::Batch&);
bool time_to_save();
void save(const std::string& path, const std::string& state);
"""
# Names that such a page's blocks do not define themselves.
CPP_NAMES = {"options": "feedrace::LoaderOptions options;", "state": "std::string state;"}


def pages_with(*languages):
    return [page for page in PAGES if any(b.language in languages for b in blocks_of(page))]


def write_folder(root, count):
    for i in range(count):
        folder = root / CLASSES[i % len(CLASSES)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:04}.jpg").write_bytes(jpeg_of(i))


PICTURE = jpeg_of(0)


def fields_of(key):
    return {
        "jpg": PICTURE,
        "cls": b"%d" % (key % len(CLASSES)),
        "json": json.dumps({"caption": f"picture {key}"}).encode(),
        "txt": b"a caption",
    }


def write_numbered_shard(path, keys):
    write_shard(path, {f"{key:06}": fields_of(key) for key in keys})


def write_data(root):
    write_folder(root / "train", 600)  # More than a step of eight ranks.
    write_folder(root / "val", 60)
    (root / "shards").mkdir()
    write_numbered_shard(root / "shards" / "000.tar", range(200))
    for number in range(500):
        keys = range(1000 + 2 * number, 1002 + 2 * number)
        write_numbered_shard(root / "shards" / f"train-{number:03}.tar", keys)
    return root


@pytest.fixture(scope="session")
def written_data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def data(tmp_path, written_data):
    """What pages call /data: each its own, so that none finds what another packed or indexed."""
    return Path(shutil.copytree(written_data, tmp_path / "data", copy_function=os.link))


@pytest.fixture
def folder(tmp_path, data):
    """The folder that a page's blocks run in, with what they take for granted."""
    tmp_path = tmp_path / "page"
    tmp_path.mkdir()
    (tmp_path / "DATA").symlink_to(data / "train")
    (tmp_path / "FOLDER").symlink_to(data / "train")
    (tmp_path / "SHARD").symlink_to(data / "shards" / "000.tar")
    (tmp_path / "photo.jpg").write_bytes(jpeg_of(1, (300, 260)))
    (tmp_path / "pictures").mkdir()
    for key in range(3):
        (tmp_path / "pictures" / f"{key:06}.jpg").write_bytes(jpeg_of(key))
        (tmp_path / "pictures" / f"{key:06}.cls").write_text(f"{key}\n")
    return tmp_path


def environment(data):
    path = [str(Path(sys.executable).parent), str(PROGRAMS), os.environ["PATH"]]
    modules = [Path(feedrace.__file__).parent.parent, HERE, REPOSITORY / "dev" / "docs"]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": os.pathsep.join(str(module) for module in modules),
        "XDG_CACHE_HOME": str(data / "cache"),
    }


def needed_frameworks(page):
    text = "".join(block.code for block in blocks_of(page) if not block.not_run)
    return [name for name in FRAMEWORKS if re.search(rf"\b(?:py)?{name}\b", text)]


@pytest.mark.parametrize("page", pages_with("python", *SHELLS), ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_in_order(page, data, folder):
    frameworks = needed_frameworks(page)
    for name in frameworks:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    start = START_WITH_TORCHVISION if "torchvision" in frameworks else START
    result = subprocess.run(
        [sys.executable, "-c", start, REPOSITORY / "dev/docs/run_page.py", page, data],
        cwd=folder,
        env=environment(data),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    output = (result.stdout + result.stderr).decode("utf-8", "replace")
    assert result.returncode == 0, output[-4000:]
    runs = [b for b in blocks_of(page) if b.language in ("python", *SHELLS) and not b.not_run]
    ran = len([b for b in runs if not b.title])
    assert f"{ran} blocks ran" in output


def test_what_is_not_run_is_little_and_names_targets_that_there_are():
    makefile = (REPOSITORY / "Makefile").read_text()
    languages = ("python", "cpp", *SHELLS)
    blocks = [b for page in PAGES for b in blocks_of(page) if b.language in languages]
    skipped = [b for b in blocks if b.not_run]
    assert len(skipped) * 5 < len(blocks)
    for block in skipped:
        for target in re.findall(r"^make (?:\w+=\S+ )*([\w-]+)", block.code, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def cpp_source(page):
    """A page's C++ blocks that are no whole programs, as one function; "" if there are none."""
    blocks = [b.code for b in blocks_of(page) if b.language == "cpp" and "int main(" not in b.code]
    text = "".join(blocks)
    if not text:
        return ""
    includes = re.findall(r"^#include .*$", text, re.MULTILINE)
    body = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)
    given = [
        line for name, line in CPP_NAMES.items() if not re.search(rf"^[\w:]+ {name}\b", body, re.M)
    ]
    head = "\n".join(["#include <feedrace/loader.h>", *includes, CPP_READER])
    return f"{head}\nvoid page() {{\n" + "\n".join(given) + f"\n{body}}}\n"


def compile_cpp(source, *options):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    command = ["g++", "-std=c++20", "-I", REPOSITORY / "include", *options, source]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.parametrize("page", pages_with("cpp"), ids=lambda page: page.name)
def test_cpp_blocks_compile(page, tmp_path):
    text = cpp_source(page)
    if text:
        source = tmp_path / "page.cc"
        source.write_text(text)
        compile_cpp(source, "-fsyntax-only")
    else:
        assert programs_of(page)


def programs_of(page):
    return [b for b in blocks_of(page) if b.language == "cpp" and "int main(" in b.code]


PROGRAM_BLOCKS = [(page, b) for page in PAGES for b in programs_of(page)]


@pytest.mark.parametrize(
    ("page", "block"), PROGRAM_BLOCKS, ids=[b.title for _, b in PROGRAM_BLOCKS]
)
def test_cpp_programs_run(page, block, data, tmp_path):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    source, program = tmp_path / block.title, tmp_path / "program"
    source.write_text(block.code)
    link = ["-o", program, "-L", LIBRARY.parent, f"-Wl,-rpath,{LIBRARY.parent}"]
    compile_cpp(source, *link, "-Wl,--no-as-needed", "-lfeedrace")
    result = subprocess.run(
        [program, data / "train"], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", target]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


def test_the_site_fetches_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((REPOSITORY / "docs").glob("*.md")))  # The API's page, too.
    for page in pages:
        text = page.read_text()
        loads = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?([^\"' >]+)", text)
        loads += re.findall(r"<link\b[^>]*\bhref=[\"']?([^\"' >]+)", text)
        assert loads
        assert not [one for one in loads if re.match(r"(https?:)?//", one)], page.name
        assert 'class="mermaid"' not in text  # Its script would be fetched.
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?https?:", sheet.read_text()), sheet.name


def test_the_api_page_has_what_the_package_exports(site):
    text = (site / "python-api.html").read_text()
    for name in feedrace.fn.__all__:
        assert f'id="{name}"' in text, name
    for name in ("ImageLoader", "Pipeline", "translate", "progress", "show", "Jagged"):
        assert f">{name}" in text, name
