# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU that one thread makes and another one's stream works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def hand_over_later(batch: Any, values: tuple[Any, ...]) -> Callable[[], None]:
    """What the loop's thread calls when it takes the batch, which this thread made by torch.

    torch's current stream is one of the thread: functions of batches ran on this one's.
    """
    import torch

    made_on = torch.cuda.current_stream(batch.device)

    def hand_over() -> None:
        stream = torch.cuda.current_stream(batch.device)
        if stream == made_on:
            return
        stream.wait_stream(made_on)
        # The memory returns to the loader, or to torch, when this stream too is done with it.
        batch.hand_over(stream.cuda_stream)
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_cuda:
                value.record_stream(stream)

    return hand_over
