"""PyTorch as fast as it can be set to be without computing something else."""

from __future__ import annotations

import os
from functools import cache
from typing import Any


@cache
def torch_at_its_best() -> Any:
    """The module: on all cores, cuDNN's algorithms chosen by timing, single precision without TF32.

    TF32 keeps 10 bits of each factor, which is another problem than ours solve.
    """
    import torch

    torch.set_num_threads(max(torch.get_num_threads(), _cores()))
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    return torch


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
