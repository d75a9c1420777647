# SPDX-License-Identifier: Apache-2.0
"""Checks and figures of a run, on disk after each part."""

import json
import os
import statistics
import textwrap
from pathlib import Path

STATES = ("pass", "fail", "skip")


def one_line(text):
    return " ".join(str(text).split())


class Results:
    """Gathers what parts found and writes it as JSON; what is written stays when a later part dies.

    A figure has all its values, their median and their spread: the distance of the quartiles as a
    share of the median.
    """

    def __init__(self, path, about):
        self.path = Path(path)
        self.about = about
        self.parts, self.checks, self.figures = [], [], []
        self.ended = "unfinished"

    def check(self, name, state, reason=""):
        assert state in STATES, state
        self.checks.append({"check": name, "status": state, "reason": one_line(reason)})

    def figure(self, name, unit, values):
        values = [float(value) for value in values]
        middle = statistics.median(values)
        entry = {"figure": name, "unit": unit, "runs": len(values), "median": middle}
        entry["spread_percent"] = None
        if len(values) > 1 and middle:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
            entry["spread_percent"] = round(100 * (high - low) / abs(middle), 1)
        entry["values"] = values
        self.figures.append(entry)

    def median_of(self, name):
        """None where that was not measured."""
        return next((f["median"] for f in self.figures if f["figure"] == name), None)

    def part(self, name, seconds):
        self.parts.append({"part": name, "seconds": round(seconds, 1)})

    def count(self, state):
        return sum(check["status"] == state for check in self.checks)

    def write(self):
        """Whole or not at all: a reader never sees half a file."""
        content = {
            "ended": self.ended,
            **self.about,
            "counts": {state: self.count(state) for state in STATES},
            "parts": self.parts,
            "checks": self.checks,
            "figures": self.figures,
        }
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(beside, self.path)

    def table(self):
        lines = [f"{'figure':<44}{'median':>12}  {'spread':>7}  {'runs':>4}  unit"]
        for f in self.figures:
            spread = "" if f["spread_percent"] is None else f"{f['spread_percent']:.1f} %"
            median = f"{f['median']:,.2f}" if abs(f["median"]) < 1000 else f"{f['median']:,.0f}"
            lines.append(f"{f['figure']:<44}{median:>12}  {spread:>7}  {f['runs']:>4}  {f['unit']}")
        lines.append("")
        for check in sorted(self.checks, key=lambda check: STATES.index(check["status"])):
            reason = textwrap.shorten(check["reason"], 300, placeholder=" ...")
            lines.append(f"{check['status']:<5} {check['check']}{': ' if reason else ''}{reason}")
        return "\n".join(lines)
