# SPDX-License-Identifier: Apache-2.0
"""A certificate that Feedrace gives the pixels that Pillow and torchvision give, on your own files.

``python -m feedrace.parity DIR`` decodes pictures of a folder or of tar shards with both, resizes
and crops them as "imagenet-val" does, crops them at random as "imagenet-train" does (the reference
is told the boxes that Feedrace drew), and prints the differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrace.missing import missing_name
from feedrace.parity.comparison import TRANSFORMS, compare
from feedrace.parity.report import Report, StepResult

__all__ = ["TRANSFORMS", "Report", "StepResult", "compare"]

# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name("feedrace.parity", name, __all__)
