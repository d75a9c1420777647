# SPDX-License-Identifier: Apache-2.0
"""One run of the check: what it needs, its parts in order, what it leaves behind."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from gpu import machine, parts
from gpu.results import Results
from gpu.running import run

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 480
QUICK_LIMIT_SECONDS = 300
# A part that would get less is not begun.
LEAST_SECONDS = 3
BUILD_SECONDS = 1200
TARGETS = ("program", "feedrace_python", "feedrace_cuda_plugin", "feedrace_cuda_gpu_test")
TARGETS += ("feedrace_gpu_bench",)
NO_GPU = 3


class CannotRunError(Exception):
    """Why the check can't go on; one line."""


def arguments():
    parser = argparse.ArgumentParser(
        prog="gpu/check",
        description="Tests and measures on a machine with an NVIDIA GPU; writes gpu-results.json.",
        epilog="Ends with 0 when no check failed, 1 when one did, 2 when it can't be built or run, "
        "3 when there is no GPU, 130 after Ctrl-C.",
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", metavar="FOLDER")
    parser.add_argument("--libraries", metavar="FOLDER", help="libraries in the place of NVIDIA's")
    parser.add_argument("--python", default=sys.executable, help="of torch, torchvision, DALI")
    parser.add_argument("--data", default=os.environ.get("DATA") or None, metavar="FOLDER",
                        help="class folders of JPEGs (default: DATA, else made up)")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("gpu-results.json"), metavar="FILE")
    parser.add_argument("--only", default="", metavar="PARTS", help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="little data: shows that it works")
    return parser.parse_args()


class Session:
    """What parts need: programs, data, results."""

    def __init__(self, options, folder):
        self.quick, self.libraries, self.python = options.quick, options.libraries, options.python
        self.data_parent = folder
        self.build = options.build.resolve()
        self.program = self.build / "bin/feedrace"
        self.tests = self.build / "bin/feedrace_cuda_gpu_test"
        self.bench = self.build / "bin/feedrace_gpu_bench"
        self.plugin = self.build / "libfeedrace_cuda.so"
        self.pictures = options.data
        self.peer_seconds = 0.5 if options.quick else 5
        self.environment = {
            "FEEDRACE_CUDA_PLUGIN": str(self.plugin),
            # The package as it is built, in front of one that is installed.
            "PYTHONPATH": f"{folder / 'package'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        if self.libraries:
            self.environment["FEEDRACE_CUDA_LIBRARIES"] = str(Path(self.libraries).resolve())
            # Where the stubs are, cuFile's gate looks at places beside them.
            root = Path(self.libraries).resolve() / "root"
            if root.is_dir():
                self.environment["FEEDRACE_GPU_TEST_ROOT"] = str(root)
        self.said_few_cores = False
        self.results = None

    def missing(self):
        files = (self.tests, self.bench, self.plugin)
        return [str(file) for file in files if not file.exists()]

    def make_build(self):
        """Takes what is built; else builds it, where cmake and nvcc are."""
        missing = self.missing()
        if not missing:
            return
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        absent = [
            name for name, path in (("cmake", shutil.which("cmake")), ("nvcc", nvcc)) if not path
        ]
        if absent or self.build != ROOT / "build/release":
            why = f"there is no {' and '.join(absent)} to build it" if absent else "--build says so"
            raise CannotRunError(f"{missing[0]} is not there and {why}; see docs/gpu_check.md")
        print(f"building {', '.join(TARGETS)} in {self.build}", flush=True)
        configure = ["cmake", "--preset", "release", "-S", ROOT, "-DFEEDRACE_CUDA=ON"]
        configure += [f"-DFEEDRACE_CUDA_ROOT={Path(nvcc).resolve().parent.parent}"]
        compile_all = [
            "cmake",
            "--build",
            self.build,
            "-j",
            str(os.cpu_count()),
            "--target",
            *TARGETS,
        ]
        for command in (configure, compile_all):
            done = run(command, BUILD_SECONDS)
            if done.code or done.timed_out:
                raise CannotRunError(
                    f"{' '.join(map(str, command[:2]))}: {done.ending()}; see docs/gpu_check.md"
                )

    def link_package(self):
        """The Python package beside its native part, as an installation has them."""
        package = self.data_parent / "package"
        native = next((self.build / "python").glob("_feedrace*.so"), None)
        if native:
            shutil.copytree(ROOT / "python/feedrace", package / "feedrace")
            shutil.copy(native, package / "feedrace")

    def make_pictures(self):
        if self.pictures:
            return
        self.pictures = str(self.data_parent / "pictures")
        count = "64" if self.quick else "4000"
        command = [self.bench, "pictures", "--pictures", self.pictures, "--count", count]
        done = run([*command, *(["--quick"] if self.quick else [])], 120)
        if done.code or done.timed_out:
            raise CannotRunError(f"making pictures: {done.ending()}; give some with --data FOLDER")


def describe(session, options):
    facts, why = machine.gpu_facts(session.bench, session.environment)
    if why:
        raise CannotRunError(f"the plug-in finds no GPU: {why}")
    about = {**machine.describe_gpus(facts), "host": machine.describe_host()}
    about["machine"] = machine.in_words(about)
    about["stub_libraries"] = options.libraries
    about["is_quick"] = options.quick
    about["data"] = options.data or "made-up JPEGs, most of 500 x 375"
    about["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return about


def run_parts(session, only):
    """Each part within its budget and what is left of the whole; results are written after each."""
    limit = QUICK_LIMIT_SECONDS if session.quick else LIMIT_SECONDS
    end = time.monotonic() + limit
    for name, budget, quick_budget, part in parts.PARTS:
        if only and name not in only:
            continue
        begin = time.monotonic()
        seconds = min(quick_budget if session.quick else budget, end - begin)
        if name != "goals" and seconds < LEAST_SECONDS:
            session.results.check(name, "skip", f"the {limit} s of the whole check are spent")
            continue
        print(f"{name} ...", flush=True)
        part(session, seconds)
        session.results.part(name, time.monotonic() - begin)
        session.results.write()


def check(options, folder):
    session = Session(options, Path(folder))
    session.make_build()
    about = describe(session, options)
    session.results = Results(options.output, about)
    session.results.write()
    print(about["machine"], flush=True)
    session.link_package()
    try:
        session.make_pictures()
        run_parts(session, [name for name in options.only.split(",") if name])
        session.results.ended = "complete"
    except KeyboardInterrupt:
        session.results.ended = "interrupted"
    finally:
        session.results.write()
    print(f"\n{session.results.table()}\n\n{options.output}: {session.results.ended}")
    if session.results.ended == "interrupted":
        return 128 + signal.SIGINT
    return 1 if session.results.count("fail") else 0


def main():
    options = arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unknown = set(filter(None, options.only.split(","))) - {part[0] for part in parts.PARTS}
    if unknown:
        names = ", ".join(part[0] for part in parts.PARTS)
        print(
            f"gpu/check: --only {', '.join(sorted(unknown))}: no such part; {names}",
            file=sys.stderr,
        )
        return 2
    why = machine.why_no_gpu(options.libraries)
    if why:
        print(f"gpu/check: no GPU: {why}", file=sys.stderr)
        return NO_GPU
    try:
        with tempfile.TemporaryDirectory(
            prefix="feedrace-gpu-", ignore_cleanup_errors=True
        ) as folder:
            return check(options, folder)
    except CannotRunError as why:
        print(f"gpu/check: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpu/check: interrupted before the first part", file=sys.stderr)
        return 128 + signal.SIGINT
