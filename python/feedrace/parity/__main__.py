# SPDX-License-Identifier: Apache-2.0
"""The command line: ``python -m feedrace.parity DIR``."""

from __future__ import annotations

import argparse
import json
import logging
import sys

from feedrace.errors import Error
from feedrace.parity import TRANSFORMS, compare

_EXIT_CODES = {"corrupt_data": 1, "invalid_argument": 2, "not_found": 2, "cancelled": 130}
_OTHER_ERROR = 3
_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives the exit code: 0 within what is promised, 1 not, 2 and 3 errors."""
    options = _parser().parse_args(arguments)
    try:
        report = compare(options.source, limit=options.limit, transform=options.transform)
        print(json.dumps(report.as_dict(), indent=2) if options.json else report, flush=True)
    except Error as failure:
        print(f"feedrace.parity: {failure}", file=sys.stderr)
        return _EXIT_CODES.get(failure.code, _OTHER_ERROR)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as failure:
        print(f"feedrace.parity: standard output: {failure.strerror}", file=sys.stderr)
        return _OTHER_ERROR
    return 0 if report.is_within else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m feedrace.parity",
        description="Compares Feedrace's pixels with Pillow's and torchvision's on your own files.",
        epilog="Exit code: 0 within what Feedrace promises, 1 not, 2 and 3 errors.",
    )
    parser.add_argument("source", metavar="DIR", help="a folder of pictures or tar shards")
    parser.add_argument(
        "--limit",
        type=int,
        default=200,
        metavar="N",
        help="pictures at most, at even distances (default: 200)",
    )
    parser.add_argument(
        "--transform",
        choices=TRANSFORMS,
        help="only the steps of this transform (default: all steps)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    # What loaders log about their plans is no part of the certificate.
    logging.getLogger("feedrace").addHandler(logging.NullHandler())
    sys.exit(main())
