# SPDX-License-Identifier: Apache-2.0
"""Measures Feedrace and its peers side by side: python -m bench.peers.run DATA

Interleaved: each round goes through all variants, each in a fresh process. Run from the top of the
repository; README.md beside this file says what is compared and how.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from bench import layout, program
from bench.peers import table

VARIANTS = {
    "feedrace": (
        "feedrace_folder",
        "feedrace_folder_fp32",
        "feedrace_shards",
        "feedrace_shards_fp32",
        "feedrace_shards_indexed",
        "feedrace_decoded",
        "feedrace_decoded_fp32",
    ),
    "python": ("python_folder", "python_shards"),
    "dali": (
        "dali_file_crop",
        "dali_file_crop_fp32",
        "dali_file_crop_noaa",
        "dali_file_crop_noaa_fp32",
        "dali_file_crop_fast",
        "dali_file_full",
        "dali_wds_crop",
    ),
    "torch": ("torch_pil", "torch_tv", "torch_tv_noaa", "torch_tv_u8"),
    "tf": ("tf_crop", "tf_crop_noaa", "tf_crop_noaa_fast"),
    "turboloader": ("turbo_aug", "turbo_aug_ring", "turbo_aug_aa", "turbo_tbl", "turbo_tbl_fp32"),
    "ffcv": ("ffcv_rrc", "ffcv_raw"),
}
OWN = ("feedrace", "python")  # Run by this interpreter; the others have environments of their own.
ENCODED = "^(?!.*(decoded|tbl|raw))"  # What decodes at each epoch.
START_SECONDS = 120  # What imports, first batch and warm-up may take.


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--peers", nargs="*", default=["dali"], choices=[*VARIANTS][1:])
    parser.add_argument("--peers-dir", type=Path, default=Path("build/peers"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of a window")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quiet-cores", type=float, default=table.QUIET_CORES)
    parser.add_argument("--only", default=ENCODED, help="a regular expression on variants")
    parser.add_argument("--results", type=Path, default=Path("bench/results"))
    return parser.parse_args()


def run_variant(peer, variant, args):
    """What the variant's process found; nothing, with a line on standard error, when it failed."""
    python = sys.executable if peer in OWN else str(args.peers_dir / peer / "bin/python")
    command = [python, "-m", f"bench.peers.peer_{peer}", variant]
    for name in ("batch", "threads", "seconds"):
        command += [f"--{name}", str(getattr(args, name))]
    log = layout.BENCH_DATA / f"stderr-{variant}.txt"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with log.open("wb") as stderr:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                timeout=START_SECONDS + 2 * args.seconds,
            )
        found = re.search(rb"^RESULT (.*)$", done.stdout, re.MULTILINE)
        if found:
            return json.loads(found[1])
        reason = f"exit {done.returncode}, no result"
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    print(f"bench: {variant}: {reason}; if it ran, {log} has what it said", file=sys.stderr)
    return None


def run_all(args, file):
    chosen = [
        (peer, variant)
        for peer in ["feedrace", *args.peers]
        for variant in VARIANTS[peer]
        if re.search(args.only, variant)
    ]
    results = []
    for round_number in range(1, args.rounds + 1):
        for peer, variant in chosen:
            result = run_variant(peer, variant, args)
            if result is None:
                continue
            results.append(result)
            file.write(json.dumps({"round": round_number, **result}) + "\n")
            file.flush()
            rates = ", ".join(
                f"{w['img_s']:,.0f} img/s (others {w['foreign_cores']:.2f})"
                for w in result["windows"]
            )
            print(f"round {round_number}: {variant}: {rates}", flush=True)
    return results, {variant for _, variant in chosen}


def describe_run(args):
    data = json.loads(layout.STAMP.read_text())
    return program.machine() | {
        "date": time.strftime("%Y-%m-%d"),
        "rounds": args.rounds,
        "seconds": args.seconds,
        "batch": args.batch,
        "threads": args.threads,
        "quiet_cores": args.quiet_cores,
        "files": data["files"],
        "megabytes": data["bytes"] / 1e6,
    }


def results_path(folder):
    """peers-DATE.jsonl, or with a number behind the date when there is one of today."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"peers-{time.strftime('%Y-%m-%d')}"
    path, number = folder / f"{stem}.jsonl", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.jsonl", number + 1
    return path


def main():
    args = parse_arguments()
    layout.lay_out(args.data, with_flat_tar="turboloader" in args.peers)
    if re.search(args.only, "feedrace_decoded") and not layout.SQUARE.exists():
        layout.write_squares()
    machine = describe_run(args)
    path = results_path(args.results)
    with path.open("x") as file:
        file.write(json.dumps({"machine": machine}) + "\n")
        results, wanted = run_all(args, file)
    print(f"results: {path}\n")
    print(table.heading(machine))
    print(table.table(results, args.quiet_cores))
    missing = wanted - {result["variant"] for result in results}
    if missing:
        sys.exit(f"bench: no result of {', '.join(sorted(missing))}; see the lines above")


if __name__ == "__main__":
    main()
