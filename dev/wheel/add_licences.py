#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds to a wheel the licence of each library inside it, bundled or compiled in.

add_licences.py BARE REPAIRED FOLDER: BARE is the wheel before auditwheel, REPAIRED what auditwheel
made of it; the result goes to FOLDER under the name of REPAIRED.
"""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

# Debian packages whose headers become part of the module and that bring no library of their own.
HEADERS_ONLY = ("nlohmann-json3-dev",)
# auditwheel names a library NAME-HASH.so.VERSION.
BUNDLED = re.compile(r"-[0-9a-f]{8}(?=\.so)")
ROBIN_MAP = Path("ext/robin_map/include/tsl/robin_map.h")


def fail(message):
    print(f"add_licences: {message}", file=sys.stderr)
    sys.exit(1)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def unpack(wheel, folder):
    """The root of what is in `wheel`, unpacked below `folder`."""
    run(sys.executable, "-m", "wheel", "unpack", "--dest", str(folder), str(wheel))
    return next(Path(folder).iterdir())


def libraries_of(root):
    """{file name: path on this machine} of all that the modules below `root` load here, by the name
    that they ask for and by the file that it leads to."""
    found = {}
    for module in root.rglob("*.so"):
        for name, path in re.findall(r"(\S+) => (/\S+)", run("ldd", str(module))):
            found[name] = found[Path(path).resolve().name] = Path(path).resolve()
    return found


def package_of(path):
    """The Debian package that `path` belongs to."""
    # Where /lib is a link to /usr/lib, dpkg may know a file by either name.
    names = {str(path), str(path).removeprefix("/usr"), f"/usr{path}"}
    for name in sorted(names):
        done = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return fail(f"{path}: no Debian package owns it; install the library from Debian")


def copyright_of(package):
    text = Path("/usr/share/doc", package, "copyright")
    if not text.is_file():
        fail(f"{text}: no such file; reinstall {package}")
    return text.read_bytes()


def licences_inside(bare, repaired):
    """{name: text} for all that the unpacked wheel `repaired` carries and is not ours."""
    places = libraries_of(bare)
    packages = set(HEADERS_ONLY)
    for library in sorted(repaired.glob("*.libs/*")):
        name = BUNDLED.sub("", library.name)
        if name not in places:
            fail(f"{library.name}: nothing in {bare.name} asks for {name}")
        packages.add(package_of(places[name]))
    texts = {package: copyright_of(package) for package in packages}

    nanobind = distribution("nanobind")
    licence = next(f for f in nanobind.files or [] if f.name == "LICENSE")
    texts["nanobind"] = licence.read_binary()
    header = Path(str(nanobind.locate_file("nanobind")), ROBIN_MAP).read_text(encoding="utf-8")
    texts["robin-map"] = header[: header.index("*/") + 2].encode()
    return texts


def add(texts, root):
    """Writes `texts` into the metadata below `root` and lists them there, as PEP 639 wants."""
    metadata = next(root.glob("*.dist-info")) / "METADATA"
    listed = ""
    for name, text in sorted(texts.items()):
        file = metadata.parent / "licenses" / name / "copyright"
        file.parent.mkdir(parents=True)
        file.write_bytes(text)
        listed += f"License-File: {name}/copyright\n"
    head, mark, rest = metadata.read_text(encoding="utf-8").partition("License-File: LICENSE\n")
    if not mark:
        fail(f"{metadata}: no line 'License-File: LICENSE'; see license-files in pyproject.toml")
    metadata.write_text(head + mark + listed + rest, encoding="utf-8")


def main():
    bare, repaired, folder = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as work:
        before = unpack(bare, Path(work, "bare"))
        after = unpack(repaired, Path(work, "repaired"))
        add(licences_inside(before, after), after)
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", str(folder), str(after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
