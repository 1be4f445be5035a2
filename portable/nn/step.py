"""What a step of a training does, and to what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable.nn.losses import AnyLoss
from portable.nn.optimizers import Optimizer


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


@dataclass(frozen=True, slots=True)
class Trained:
    """Arrays that training changes, and a row of numbers for each step of the optimizer.

    `rounded` gets the parameters in fewer bits, or is None.
    """

    parameters: Any
    rounded: Any
    state: Any
    numbers: Any
