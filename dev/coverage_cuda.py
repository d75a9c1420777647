#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line coverage of the host code of src/feedrace/cuda, by that layer's own tests.

coverage_cuda.py BUILD JOBS: BUILD is made by the preset `coverage`. Runs the tests, prints a line a
file with the lines that did not run, and ends with 1 if fewer than 90 % did. Stubs and tests do not
count; the headers that kernels share with the host's build of them do.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "src/feedrace/cuda"
NEEDED_PERCENT = 90
NOT_COUNTED = re.compile(r"^(stubs|kernels)/|(^|/)test_\w+\.h$|_test\.cc$")


def run_tests(build, jobs):
    """Runs the tests of the layer, with no counts of earlier ones left."""
    for counts in build.rglob("*.gcda"):
        counts.unlink()
    tests = ["ctest", "--test-dir", build, "-L", "^cuda$", "-j", jobs, "--output-on-failure"]
    if subprocess.run([*tests, "--no-tests=error"]).returncode != 0:
        sys.exit("coverage: tests failed, so the lines were not counted; see above")


def lines_run(build):
    """{file below FOLDER: {line: times}} of all that was compiled in `build`, run or not."""
    notes = sorted(path for path in build.rglob("*.gcno") if "/cuda/" in str(path))
    if not notes:
        sys.exit(f"coverage: {build}: nothing was built for it; run make coverage-cuda")
    command = ["gcov", "--json-format", "--stdout", *(path.absolute() for path in notes)]
    # What gcov prints beside is of objects that no test loaded: they have no counts, so 0 is right.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    files = {}
    for report in done.stdout.splitlines():
        # One object a line; gcov 12 writes a line of text between some.
        if not report.startswith(b"{"):
            continue
        for file in json.loads(report)["files"]:
            path = Path(build, file["file"]).resolve()
            if not path.is_relative_to(FOLDER):
                continue
            times = files.setdefault(str(path.relative_to(FOLDER)), {})
            for line in file["lines"]:
                number = line["line_number"]
                times[number] = times.get(number, 0) + line["count"]
    # A header of declarations has no line that runs.
    return {n: times for n, times in files.items() if times and not NOT_COUNTED.search(n)}


def ranges(numbers):
    """ "3-5 9" of [3, 4, 5, 9]."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main():
    build, jobs = Path(sys.argv[1]).resolve(), sys.argv[2]
    run_tests(build, jobs)
    total = run = 0
    print(f"\n{'lines':>6} {'run':>6}        file, and the lines that did not run")
    for name, times in sorted(lines_run(build).items()):
        missed = [line for line, count in times.items() if count == 0]
        count = len(times) - len(missed)
        total, run = total + len(times), run + count
        print(f"{len(times):6} {count:6} {100 * count / len(times):5.1f} % {name} {ranges(missed)}")
    percent = 100 * run / total
    print(f"{total:6} {run:6} {percent:5.1f} % of src/feedrace/cuda")
    if percent < NEEDED_PERCENT:
        print(f"coverage: {percent:.1f} %, and {NEEDED_PERCENT} % is needed", file=sys.stderr)
        return 1
    print(f"coverage: {percent:.1f} % of the lines of src/feedrace/cuda run in its tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
