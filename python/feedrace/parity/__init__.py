# SPDX-License-Identifier: Apache-2.0
"""A certificate that Feedrace gives the pixels that Pillow and torchvision give, on your own files.

``python -m feedrace.parity DIR`` decodes pictures of a folder or of tar shards with both, resizes
and crops them as "imagenet-val" does, crops them at random as "imagenet-train" does (the reference
is told the boxes that Feedrace drew), and prints the differences.
"""

from __future__ import annotations

from feedrace.parity.comparison import TRANSFORMS, compare
from feedrace.parity.report import Report, StepResult

__all__ = ["TRANSFORMS", "Report", "StepResult", "compare"]
