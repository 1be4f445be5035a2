"""What a step of a training does."""

from __future__ import annotations

from dataclasses import dataclass

from portable.nn.losses import AnyLoss
from portable.nn.optimizers import Optimizer

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The same for all steps of a training.

    Attributes
    ----------
    loss : Loss or CrossEntropyLoss
        What is made small.
    optimizer : Optimizer
        How parameters follow its gradient.
    batch : int
        Samples of a full batch.
    clip_norm : float or None
        The largest 2-norm of a gradient.
    """

    loss: AnyLoss
    optimizer: Optimizer
    batch: int
    clip_norm: float | None = None
