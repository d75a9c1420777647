# SPDX-License-Identifier: Apache-2.0
"""Makes a Markdown table of result files: python -m bench.peers.table FILE.jsonl...

A window counts only where other processes used less than QUIET_CORES of a core. A variant whose
batches are not what the recipe gives is left out and named.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import median

QUIET_CORES = 0.15
COLUMNS = (
    "variant", "from", "img/s: median (min–max)", "n", "CPU s per 1,000 (min–max)", "out",
    "first batch s", "import s", "peak RSS MB", "Feedrace / this",
)  # fmt: skip


def complaint(result):
    """Why the batches of this run are not training batches; empty when they are."""
    batch, shape = result["batch"], result["shape"]
    if shape not in ([batch, 3, 224, 224], [batch, 224, 224, 3]):
        return f"shape {shape}"
    if result["dtype"] not in ("float16", "float32"):
        return f"type {result['dtype']}"
    if not result["finite"]:
        return "values that are not finite"
    if abs(result["mean"]) > 0.5 or not 0.7 <= result["std"] <= 1.5:
        return f"mean {result['mean']}, deviation {result['std']}; about 0 and 1 are right"
    if result["labels_unknown"]:
        return f"{result['labels_unknown']} labels that no picture has"
    if result["labels"] < 0.8 * result["labels_expected"]:
        return f"{result['labels']} labels where about {result['labels_expected']} should be"
    return ""


class Row:
    """One variant over all its runs."""

    def __init__(self, results, quiet_cores):
        first = results[0]
        self.results, self.variant, self.source = results, first["variant"], first["source"]
        self.dtype, self.shape = first["dtype"], first["shape"]
        every = [window for result in results for window in result["windows"]]
        self.windows = [w for w in every if w["foreign_cores"] < quiet_cores]
        self.least_load = min(w["foreign_cores"] for w in every)
        self.complaint = next(filter(None, map(complaint, results)), "")
        if not self.complaint and not self.windows:
            self.complaint = f"no quiet window; others used at least {self.least_load} of a core"

    def values(self, name):
        return [window[name] for window in self.windows]

    def median_of(self, name):
        return median(result[name] for result in self.results)

    def cells(self, rates):
        own = median(self.values("img_s"))
        base = rates.get((self.source, self.dtype))
        return (
            self.variant,
            self.source,
            spread(self.values("img_s"), ",.0f"),
            len(self.windows),
            spread(self.values("cpu_s_per_1000"), ".2f"),
            f"{self.dtype} {'×'.join(map(str, self.shape[1:]))}",
            f"{self.median_of('first_batch_s'):.2f}",
            f"{self.median_of('import_s'):.1f}",
            max(result["peak_rss_mb"] for result in self.results),
            f"{base / own:.2f}" if base else "–",
        )


def spread(values, form):
    return f"{median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def markdown_row(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table(results, quiet_cores=QUIET_CORES):
    groups = defaultdict(list)
    for result in results:
        groups[result["variant"]].append(result)
    rows = [Row(group, quiet_cores) for group in groups.values()]
    good = [row for row in rows if not row.complaint]
    rates = {
        (row.source, row.dtype): median(row.values("img_s"))
        for row in good
        if row.variant.startswith("feedrace")
    }
    good.sort(key=lambda row: median(row.values("cpu_s_per_1000")))
    lines = [markdown_row(COLUMNS), "|" + " --- |" * len(COLUMNS)]
    lines += [markdown_row(row.cells(rates)) for row in good]
    refused = [f"- {row.variant}: {row.complaint}" for row in rows if row.complaint]
    if refused:
        lines += ["", "Left out:", "", *refused]
    versions = sorted({result["version"] for result in results})
    lines += ["", f"Versions: {', '.join(versions)}."]
    return "\n".join(lines)


def heading(machine):
    return (
        f"{machine['date']}; {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} "
        f"GiB, Linux {machine['kernel']}, Python {machine['python']}. Rounds: {machine['rounds']}, "
        f"two windows of {machine['seconds']:g} s, batch {machine['batch']}, "
        f"{machine['threads']} threads. A window counts where others used under "
        f"{machine['quiet_cores']:g} of a core (`n` counts them). {machine['files']:,} pictures, "
        f"{machine['megabytes']:.1f} MB.\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    lines = [line for path in parser.parse_args().files for line in path.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    machines = [record["machine"] for record in records if "machine" in record]
    for machine in machines:
        print(heading(machine))
    results = [record for record in records if "variant" in record]
    print(table(results, max(machine["quiet_cores"] for machine in machines)))


if __name__ == "__main__":
    main()
