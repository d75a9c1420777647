# SPDX-License-Identifier: Apache-2.0
"""Compares Feedrace's JPEG decoder with libjpeg-turbo on photographs of several encoders:
python -m bench.jpeg DATA

From the JPEGs of DATA it makes, in build/bench-jpeg/NAME, the same pictures as other programs write
them, runs `feedrace bench decode` on each set, which first compares every pixel and coefficient,
and prints a table. Ends with 1 when ours is slower than libjpeg-turbo anywhere.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image

from bench import layout, program

ROOT = Path("build/bench-jpeg")
LARGE_PIXELS = 8_000_000
LARGE_PICTURES = 40
WORKS = ("full", "entropy", "region")
# What is libjpeg-turbo's to decode costs a look at its header more.
LEAST_RATIO, LEAST_RATIO_OF_OTHER_KINDS = 1.0, 0.97


def encode(picture, target, quality, optimize=False):
    """As OpenCV does it and so FFCV's writer: 4:2:0 and the tables of the JPEG standard's annex K,
    unless tables made for this picture are wanted."""
    rgb = picture.convert("RGB")
    rgb.save(target, "JPEG", quality=quality, subsampling="4:2:0", optimize=optimize)


def encoded_anew(quality, optimize=False):
    def make(source, target):
        with Image.open(source) as picture:
            encode(picture, target, quality, optimize)

    return make


def transformed(*options):
    """The same coefficients in another form, by libjpeg's own tool."""

    def make(source, target):
        command = ["jpegtran", "-copy", "all", *options, "-outfile", target, source]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {source}: jpegtran: {done.stderr.strip()}; leave it out of DATA")

    return make


def enlarged(source, target):
    with Image.open(source) as picture:
        scale = (LARGE_PIXELS / (picture.width * picture.height)) ** 0.5
        size = (round(picture.width * scale), round(picture.height * scale))
        large = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    encode(large, target, 90)


# Of each set how a picture of it is made, and how many there are at most.
SETS = {
    "photos": (None, None),
    "q75_420": (encoded_anew(75), None),
    "q90_420": (encoded_anew(90), None),
    "q90_optimised": (encoded_anew(90, optimize=True), None),
    "restart_rows": (transformed("-restart", "1"), None),
    "progressive": (transformed("-progressive"), None),
    "large_8mp": (enlarged, LARGE_PICTURES),
}


def lay_out(name, data, pictures, root):
    """The set's folder; what is there already of the same pictures is left alone."""
    make, limit = SETS[name]
    folder, stamp_file = root / name, root / f"{name}.json"
    step = max(1, -(-len(pictures) // limit)) if limit else 1
    chosen = pictures[::step]
    stamp = {**layout.describe(data, pictures), "pictures": len(chosen)}
    if stamp_file.exists() and json.loads(stamp_file.read_text()) == stamp:
        return folder
    if Path(data).resolve().is_relative_to(root.resolve()):
        sys.exit(f"bench: {data} lies in {root}, which is made anew; give another folder")
    stamp_file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    for class_name, source in chosen:
        target = folder / class_name / f"{source.stem}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        if make is None:
            target.symlink_to(source.resolve())
        else:
            make(source, target)
    stamp_file.write_text(json.dumps(stamp))
    return folder


def measure(folder, args):
    options = ["--seconds", args.seconds, "--limit", args.limit, "--seed", args.seed]
    return json.loads(program.feedrace("bench", "decode", folder, "--steps", "--json", *options))


def slower(name, report):
    """A sentence for each kind of work that ours is slower at than it may be."""
    pictures = report["pictures"]
    is_ours = pictures["feedrace"] > pictures["libjpeg_turbo"]
    least = LEAST_RATIO if is_ours else LEAST_RATIO_OF_OTHER_KINDS
    return [
        f"{name}: {work} is {ratio:.3f} of libjpeg-turbo's rate, {least:.2f} is the least"
        for work, ratio in report["ratios"].items()
        # Entropy decoding of what is not ours is libjpeg-turbo's on both sides.
        if ratio < least and (is_ours or work != "entropy")
    ]


def table(reports):
    head = ["pictures as", "n", "MB", "MPix", "by libjpeg-turbo"]
    head += [f"{work}: images/s (libjpeg-turbo) ratio" for work in WORKS]
    head.append("region with a crop index: images/s, ratio to libjpeg-turbo's region")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, report in reports.items():
        pictures = report["pictures"]
        cells = [
            name,
            pictures["count"],
            f"{pictures['encoded_bytes'] / 1e6:.1f}",
            f"{pictures['pixels'] / 1e6:.1f}",
            pictures["libjpeg_turbo"] + pictures["damaged"],
        ]
        for work in WORKS:
            ours, theirs = report["ours"][work], report["libjpeg_turbo"][work]
            cells.append(f"{ours:,.0f} ({theirs:,.0f}) {report['ratios'][work]:.2f}")
        indexed = report["ours"]["region_indexed"]
        ratio = report["ratios"].get("region_indexed")
        cells.append("–" if indexed is None else f"{indexed:,.0f} {ratio:.2f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def steps_table(reports):
    names = list(next(iter(reports.values()))["steps"])
    head = ["µs an image", *(name.replace("libjpeg_turbo_", "libjpeg-turbo: ") for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, report in reports.items():
        steps = report["steps"]
        cells = [f"{steps[n]['ns_per_image'] / 1e3:,.1f}" if n in steps else "–" for n in names]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seconds", type=float, default=20, help="of a set")
    parser.add_argument("--limit", type=int, default=1000, help="pictures of a set")
    parser.add_argument("--seed", type=int, default=0, help="of the crops")
    parser.add_argument("--root", type=Path, default=ROOT)
    return parser.parse_args()


def main():
    args = parse_arguments()
    if shutil.which("jpegtran") is None:
        sys.exit("bench: jpegtran is missing; run dev/setup bench")
    pictures = layout.find_pictures(Path(args.data))[: args.limit]
    args.root.mkdir(parents=True, exist_ok=True)
    reports = {}
    for name in args.sets:
        print(f"bench: {name}", file=sys.stderr)
        reports[name] = measure(lay_out(name, args.data, pictures, args.root), args)
    results = args.root / f"results-{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    results.write_text(json.dumps({"machine": program.machine(), "sets": reports}, indent=2))
    print(f"{program.machine_line()}; one thread, by its CPU time; results: {results}\n")
    print(table(reports))
    print()
    print(steps_table(reports))
    complaints = [line for name, report in reports.items() for line in slower(name, report)]
    if complaints:
        sys.exit("\n" + "\n".join(f"bench: {line}" for line in complaints))


if __name__ == "__main__":
    main()
