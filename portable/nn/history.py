"""What training went through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Stopped = Literal["epochs", "patience", "interrupted", "diverged"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a pass over the samples came to.

    Attributes
    ----------
    loss : float
        The mean over the samples.
    accuracy : float or None
        The share of samples whose class was found; None where there are no classes.
    """

    loss: float
    accuracy: float | None = None


@dataclass(slots=True, repr=False)
class History:
    """The course of a training, epoch by epoch.

    Attributes
    ----------
    train : list of float
        The mean loss over the samples of each epoch, each measured before the step it was used for.
    validation : list of float
        The loss on the validation part after each epoch; empty where there is none.
    accuracy, validation_accuracy : list of float
        For classification the share of samples whose greatest output is that of their class, as
        `train` and `validation` have the losses; empty for other losses.
    seconds : float
        How long it took.
    stopped : {"epochs", "patience", "interrupted", "diverged"}
        What ended it: all epochs done, none better for too long, Ctrl-C, or a loss that is not
        finite.
    restored : bool
        Whether the parameters are those of `kept_epoch` rather than the last ones.
    kept_epoch : int or None
        Where parameters were restored: the epoch (from 0) after which they were as they are now,
        the best one, or where the training diverged the last one that left all of them finite; -1:
        as they were before the training.
    """

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0
    stopped: Stopped = "epochs"
    restored: bool = False
    kept_epoch: int | None = None

    def __repr__(self) -> str:
        """The first and last losses, not those of each epoch."""
        parts = [f"{self.epochs} epochs in {self.seconds:.3g} s, stopped by {self.stopped!r}"]
        for name, losses in (("loss", self.train), ("validation", self.validation)):
            if losses:
                parts.append(f"{name} {losses[0]:.4g} to {losses[-1]:.4g}")
        return f"<History: {', '.join(parts)}>"

    @property
    def epochs(self) -> int:
        """How many epochs were finished."""
        return len(self.train)

    @property
    def best_epoch(self) -> int | None:
        """The epoch (from 0) of the least validation loss, else of the least training loss."""
        losses = self.validation or self.train
        finite = [(loss, epoch) for epoch, loss in enumerate(losses) if loss == loss]
        return min(finite)[1] if finite else None
