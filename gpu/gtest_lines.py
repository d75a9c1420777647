# SPDX-License-Identifier: Apache-2.0
"""What a GoogleTest program says line by line: a test that hangs or crashes is known by name."""

import json
import re

LINE = re.compile(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] (\w+\.\w+)(?: \(|$)")
STATES = {"OK": "pass", "FAILED": "fail", "SKIPPED": "skip"}
# Keys that GoogleTest itself gives a test; the others were recorded by the test.
OWN_KEYS = {
    "name",
    "file",
    "line",
    "status",
    "result",
    "timestamp",
    "time",
    "classname",
    "failures",
}
OWN_KEYS |= {"skipped", "type_param", "value_param"}


class Reader:
    """Adds a check for each test as its end is said."""

    def __init__(self, results):
        self.results, self.running, self.said, self.count = results, None, [], 0

    def take(self, line):
        found = LINE.match(line)
        if not found:
            self.said.append(line)
            return
        word, name = found.groups()
        if word == "RUN":
            self.running, self.said = name, []
        elif self.running == name:  # The list of failures at the end names them again.
            reason = "" if word == "OK" else self.reason()
            self.results.check(name, STATES[word], reason)
            self.running, self.count = None, self.count + 1

    def reason(self):
        """Without the place in the source and the word "Skipped" that stand before it."""
        said = [line for line in self.said if line.strip()]
        kept = [line for line in said if not re.search(r": (Skipped|Failure)$", line)]
        return " ".join((kept or said)[:6])

    def end(self, outcome):
        """After the program's end: what it was at when it ended too early."""
        if self.running:
            self.results.check(self.running, "fail", f"{outcome.ending()} {self.reason()}")
        elif self.count == 0 or outcome.timed_out or outcome.code not in (0, 1):
            self.results.check("tests", "fail", outcome.ending())


def add_properties(results, path):
    """Numbers that tests recorded, as figures; none where the program did not end by itself."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            for key in test.keys() - OWN_KEYS:
                results.figure(f"{test['classname']}.{test['name']}.{key}", "recorded", [test[key]])
