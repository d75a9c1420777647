# SPDX-License-Identifier: Apache-2.0
"""Names of the loops that gpu/peers.py has, and what figures are to be reached."""

from dataclasses import dataclass

LOADERS = ("feedrace", "torch_dataloader", "torchvision_gpu_decode", "dali")
TRAININGS = ("resnet50_feedrace", "resnet50_torch_dataloader")


@dataclass
class Goal:
    """A figure, or a figure as a multiple of another, against a bound."""

    name: str
    figure: str
    bound: float
    unit: str
    over: str = ""
    is_at_most: bool = False

    def value(self, results):
        """The value, or None and why there is none."""
        top = results.median_of(self.figure)
        if top is None:
            return None, f"{self.figure} was not measured"
        if not self.over:
            return top, ""
        bottom = results.median_of(self.over)
        if not bottom:
            return None, f"{self.over} was not measured"
        return top / bottom, ""


GOALS = (
    Goal("goal.fused_pass", "fused.share_of_memory_bandwidth", 70, "% of memory bandwidth"),
    Goal("goal.copies", "copies.batches_share_of_link", 90, "% of the link"),
    Goal(
        "goal.over_torch_dataloader",
        "3_cores.loader.images",
        5,
        "x the torch DataLoader on 3 cores",
        over="3_cores.torch_dataloader.images",
    ),
    Goal(
        "goal.over_torchvision_gpu_decode",
        "3_cores.loader.images",
        1.5,
        "x torchvision's GPU decode on 3 cores",
        over="3_cores.torchvision_gpu_decode.images",
    ),
    Goal(
        "goal.gpu_wait",
        "3_cores.resnet50_feedrace.gpu_wait",
        4,
        "% of a ResNet-50 step on 3 cores",
        is_at_most=True,
    ),
)
