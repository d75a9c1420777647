# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel`: what is in it, and that it needs nothing of this machine."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CASES = REPOSITORY / "tests/cases/folders/src"
# Guards against hangs, not measurements. Installing may have to download NumPy.
SECONDS = 300
BUNDLED = re.compile(r"^feedrace\.libs/(?P<name>.+)-[0-9a-f]{8}\.so[.0-9]*$")
LINKED = {
    *("libfmt", "libhwy", "libjpeg", "liblz4", "libspng", "liburing", "libwebp", "libxxhash"),
    "libzstd",
}
# What the rules for such wheels leave to the system: glibc, the run time of g++, zlib.
STANDARD = re.compile(
    r"^(ld-linux-[\w-]+|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libz)\.so"
)

# sh -c HIDE sh FILE... -- COMMAND...
HIDE = """
while [ "$1" != -- ]; do mount --bind /dev/null "$1" || exit 9; shift; done
shift
exec "$@"
"""
TRY_SYSTEM = """
import ctypes
try:
    ctypes.CDLL("libspng.so.0")
except OSError:
    print("hidden yes")
"""
SHOW_LIBRARIES = """
for line in open("/proc/self/maps"):
    if ".so" in line:
        print("library", line.split(maxsplit=5)[5].strip())
"""
LOAD = """
import sys, zlib, feedrace
[(images, labels)] = feedrace.ImageLoader(
    sys.argv[1], batch_size=4, transform="imagenet-val", output="numpy"
)
print("loaded", images.shape, labels.tolist(), zlib.crc32(images.tobytes()))
"""


@pytest.fixture(scope="session")
def wheel():
    found = sorted((REPOSITORY / "build/wheel").glob("feedrace-*.whl"))
    assert len(found) == 1, f"{found}: make wheel leaves one wheel"
    return found[0]


@pytest.fixture(scope="session")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def bundled(names):
    """The libraries inside, without version: libjpeg, libspng, ..."""
    return {match["name"] for match in map(BUNDLED.match, names) if match}


@pytest.fixture(scope="session")
def bare_python(wheel, tmp_path_factory):
    """The interpreter of a virtual environment that has the wheel, NumPy, and nothing else."""
    root = tmp_path_factory.mktemp("bare")
    python = root / "bin/python"
    subprocess.run([sys.executable, "-m", "venv", root], check=True, timeout=SECONDS)
    install = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    wanted = [wheel, f"numpy=={version('numpy')}"]
    subprocess.run([*install, *wanted], check=True, timeout=SECONDS)
    return python


def run(*command, path=None):
    """The lines that a program prints, by their first word. Its packages are the interpreter's own
    and those in `path`."""
    environment = {
        k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "LD_LIBRARY_PATH"}
    }
    if path:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env=environment, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    lines = {}
    for line in done.stdout.splitlines():
        lines.setdefault(line.partition(" ")[0], []).append(line.partition(" ")[2])
    return lines


def outside(lines, root):
    """Names of the libraries that a process had from elsewhere than `root`."""
    return {path.name for path in map(Path, lines["library"]) if not path.is_relative_to(root)}


def bundled_in_use(lines):
    """The libraries of the wheel that a process had, without version."""
    paths = (path.partition("/site-packages/")[2] for path in lines["library"])
    return {match["name"] for match in map(BUNDLED.match, paths) if match}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of one class, with a picture of each format."""
    root = tmp_path_factory.mktemp("pictures")
    (root / "only").mkdir()
    for name in ("a.jpg", "b.jpg", "p.png", "w.webp"):
        shutil.copy(CASES / name, root / "only")
    return root


@pytest.fixture(scope="session")
def loaded(bare_python, pictures):
    """What a process printed that loaded the pictures by the wheel."""
    return run(bare_python, "-c", LOAD + SHOW_LIBRARIES, pictures)


def test_carries_the_libraries_that_it_links(bundled):
    assert bundled >= LINKED


def test_carries_the_licence_of_each_library(wheel, names, bundled):
    texts = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            if re.search(r"\.dist-info/licenses/.+/copyright$", name):
                texts[Path(name).parent.name] = archive.read(name).decode()
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    # Debian's packages are named after their library, with its version behind.
    for library in bundled:
        assert [package for package in texts if package.startswith(library)], library
    assert set(texts) >= {"nanobind", "robin-map", "nlohmann-json3-dev"}
    for package, text in texts.items():
        assert "copyright" in text.lower(), package
        assert f"License-File: {package}/copyright\n" in metadata


def test_is_for_other_machines_too(wheel):
    assert re.search(r"-manylinux_2_\d+_\w+\.whl$", wheel.name), wheel.name


def test_carries_every_module_and_its_types(names):
    here = REPOSITORY / "python"
    modules = {str(path.relative_to(here)) for path in here.rglob("*.py*") if path.suffix != ".pyc"}
    assert "feedrace/_feedrace.pyi" in modules
    assert names >= modules | {"feedrace/py.typed"}


def test_loads_each_format_without_a_library_of_the_system(bare_python, loaded):
    assert loaded["loaded"][0].startswith("(4, 3, 224, 224) [0, 0, 0, 0] ")
    assert bundled_in_use(loaded) == LINKED
    root = bare_python.parents[1]
    # What the interpreter and NumPy bring without us, and modules of the standard library.
    others = run(bare_python, "-c", "import numpy, zlib" + SHOW_LIBRARIES)
    added = outside(loaded, root) - outside(others, root)
    assert {name for name in added if ".cpython-" not in name and not STANDARD.match(name)} == set()


def test_loads_where_the_system_has_no_such_library(bare_python, bundled, pictures, loaded):
    folders = (Path("/lib"), Path("/usr/lib"), *Path("/usr/lib").glob("*-linux-gnu"))
    hidden = {str(p.resolve()) for f in folders for n in bundled for p in f.glob(f"{n}.so*")}
    assert hidden, "the wheel was not built here"
    command = ["unshare", "--mount", "sh", "-c", HIDE, "sh", *sorted(hidden), "--"]
    probe = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=SECONDS)
    if probe.returncode != 0:
        pytest.skip(f"nothing can be hidden from a program here: {probe.stderr.strip()}")
    again = run(*command, bare_python, "-c", TRY_SYSTEM + LOAD, pictures)
    assert again["hidden"] == ["yes"]
    assert again["loaded"] == loaded["loaded"]


@pytest.mark.parametrize("order", ["PIL.Image torch feedrace", "feedrace torch PIL.Image"])
def test_shares_a_process_with_others_that_carry_libjpeg(wheel, pictures, loaded, order, tmp_path):
    pytest.importorskip("torch")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site-packages")
    decode = """
import sys, zlib
from PIL import Image
picture = Image.open(sys.argv[1] + "/only/a.jpg")
print("decoded", picture.size, zlib.crc32(picture.tobytes()))
"""
    imports = f"import importlib\nfor name in {order.split()}: importlib.import_module(name)\n"
    alone = run(sys.executable, "-c", decode, pictures)
    script = imports + LOAD + decode + SHOW_LIBRARIES
    both = run(sys.executable, "-c", script, pictures, path=tmp_path / "site-packages")
    assert both["loaded"] == loaded["loaded"]
    assert both["decoded"] == alone["decoded"]
    assert bundled_in_use(both) == LINKED
    assert any("pillow.libs/libjpeg" in path for path in both["library"])
