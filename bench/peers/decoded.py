# SPDX-License-Identifier: Apache-2.0
"""Decoded shards beside other stores of decoded pictures: python -m bench.peers.decoded DATA

Every store has the pictures of DATA as 256 x 256 pixels, as turboloader makes them: shards of
`feedrace pack --raw` and FFCV's raw mode from the same pixels, .tbl by turboloader's resize.
Prints the table of all, and Feedrace's median rate and CPU time as multiples of each peer's.
"""

import argparse
import sys
from pathlib import Path

from bench.peers import recipe, table

ONLY = r"^(feedrace_decoded(_fp32)?|turbo_tbl(_fp32)?|ffcv_raw)$"
# Of the same type of numbers.
PAIRS = (
    ("feedrace_decoded", "turbo_tbl"),
    ("feedrace_decoded_fp32", "turbo_tbl_fp32"),
    ("feedrace_decoded", "ffcv_raw"),
)


def rows(found):
    for own, peer in PAIRS:
        if own not in found or peer not in found:
            yield f"{own} ÷ {peer}", "–", "–"
            continue
        (rate, cpu), (peer_rate, peer_cpu) = found[own], found[peer]
        yield f"{own} ÷ {peer}", f"{rate / peer_rate:.2f}", f"{cpu / peer_cpu:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a folder of class folders of JPEGs, or a flat one")
    parser.add_argument("--peers-dir", type=Path, default=Path("build/peers"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of a window")
    parser.add_argument("--quiet-cores", type=float, default=table.QUIET_CORES)
    parser.add_argument("--results", type=Path, default=Path("build/bench-decoded"))
    args = parser.parse_args()
    records = recipe.run(args.data, args.results / "data", ("turboloader", "ffcv"), ONLY, args)
    found = recipe.medians(records, args.quiet_cores)
    print("| ratio | images/s | CPU seconds per 1,000 |\n| --- | --- | --- |")
    print("\n".join(table.markdown_row(row) for row in rows(found)))
    if not found.keys() >= {name for pair in PAIRS for name in pair}:
        sys.exit("bench: a variant gave no result; see the lines above")


if __name__ == "__main__":
    main()
