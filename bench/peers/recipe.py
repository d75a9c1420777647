# SPDX-License-Identifier: Apache-2.0
"""The training recipe beside the fastest peers, in ratios: python -m bench.peers.recipe DATA

Runs bench.peers.run twice: on the JPEGs of DATA, and on the same pictures encoded as FFCV writes
them (quality 90, 4:2:0), where FFCV joins. Prints both tables and what Feedrace's median rate and
CPU time are as multiples of the best peer's.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench import jpeg, layout
from bench.peers import table

OWN = ("feedrace_folder", "feedrace_shards", "feedrace_shards_indexed")
# Which resize with antialiasing, of the picture's own pixels.
ANTIALIASED = (
    "dali_file_crop", "dali_file_crop_fp32", "dali_wds_crop", "tf_crop", "torch_pil", "torch_tv",
)  # fmt: skip
FEEDRACE = r"feedrace_(folder|shards)(_indexed)?"
ON_PHOTOS = rf"^({FEEDRACE}|dali_file_crop(_noaa)?(_fp32)?|tf_crop.*|turbo_aug(_ring)?)$"
ON_Q90 = rf"^({FEEDRACE}|ffcv_rrc|tf_crop_noaa|dali_file_crop_fp32)$"


def run(data, bench_data, peers, only, args):
    """The records of a run: what each process measured."""
    command = [sys.executable, "-m", "bench.peers.run", str(data), "--peers", *peers]
    command += ["--only", only, "--peers-dir", str(args.peers_dir), "--results", str(args.results)]
    command += ["--rounds", str(args.rounds), "--seconds", str(args.seconds)]
    command += ["--quiet-cores", str(args.quiet_cores)]
    before = set(args.results.glob("*.jsonl"))
    done = subprocess.run(command, env=os.environ | {"BENCH_DATA": str(bench_data)})
    made = set(args.results.glob("*.jsonl")) - before
    if not made:
        sys.exit(f"bench: no results of {data} (exit {done.returncode}); see the lines above")
    lines = made.pop().read_text().splitlines()
    return [record for line in lines if "variant" in (record := json.loads(line))]


def medians(records, quiet_cores):
    """Of each variant that measured what it should: median rate and CPU seconds per 1,000."""
    groups = {}
    for record in records:
        groups.setdefault(record["variant"], []).append(record)
    rows = {name: table.Row(group, quiet_cores) for name, group in groups.items()}
    return {
        name: (median(row.values("img_s")), median(row.values("cpu_s_per_1000")))
        for name, row in rows.items()
        if not row.complaint
    }


def ratio_rows(found, peers, what):
    """(what, ours, the peer, ratio) of rates; of CPU time likewise, where less is better."""
    peers = {name: found[name] for name in peers if name in found}
    if not peers:
        return [(what, "–", "no peer was measured", "–")]
    fastest = max(peers, key=lambda name: peers[name][0])
    return [
        (f"images/s ÷ {what}", name, fastest, f"{found[name][0] / peers[fastest][0]:.2f}")
        for name in OWN
        if name in found
    ]


def cpu_rows(found, peers):
    peers = {name: found[name] for name in peers if name in found}
    if not peers:
        return []
    frugal = min(peers, key=lambda name: peers[name][1])
    what = "CPU seconds per 1,000 images ÷ the most frugal peer"
    return [
        (what, name, frugal, f"{found[name][1] / peers[frugal][1]:.2f}")
        for name in OWN
        if name in found
    ]


def rows(photos, q90):
    peers = [name for name in photos if not name.startswith("feedrace")]
    antialiased = [name for name in peers if name in ANTIALIASED]
    return [
        *ratio_rows(photos, peers, "the fastest peer of any kind"),
        *ratio_rows(photos, antialiased, "the fastest antialiased peer"),
        *cpu_rows(photos, peers),
        *ratio_rows(q90, ["ffcv_rrc"], "FFCV, on quality-90 4:2:0 files"),
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--peers-dir", type=Path, default=Path("build/peers"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of a window")
    parser.add_argument("--quiet-cores", type=float, default=table.QUIET_CORES)
    parser.add_argument("--results", type=Path, default=Path("build/bench-recipe"))
    return parser.parse_args()


def main():
    args = parse_arguments()
    args.results.mkdir(parents=True, exist_ok=True)
    pictures = layout.find_pictures(Path(args.data))
    jpeg.ROOT.mkdir(parents=True, exist_ok=True)
    encoded = jpeg.lay_out("q90_420", args.data, pictures, jpeg.ROOT)
    photo_peers, q90_peers = ("dali", "tf", "turboloader"), ("ffcv", "tf", "dali")
    photos = run(args.data, args.results / "photos", photo_peers, ON_PHOTOS, args)
    q90 = run(encoded, args.results / "q90", q90_peers, ON_Q90, args)
    found = rows(medians(photos, args.quiet_cores), medians(q90, args.quiet_cores))
    print("| measure | ours | peer | ratio |\n| --- | --- | --- | --- |")
    print("\n".join(table.markdown_row(row) for row in found))


if __name__ == "__main__":
    main()
