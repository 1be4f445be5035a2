"""What training makes small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.errors import ShapeError
from portable.lang.function import Function, function


@dataclass(frozen=True, slots=True)
class Loss:
    """The mean over samples and outputs of a function of the error ``prediction - target``.

    Attributes
    ----------
    name : str
        For messages.
    term : Function
        Of the error and a parameter: the loss and its slope, kernel code.
    parameters : tuple of float
        Outputs take these in turn; target column ``j // len(parameters)`` belongs to output j.
    """

    name: str
    term: Function
    parameters: tuple[float, ...] = (0.0,)

    def targets(self, outputs: int) -> int:
        """How many columns of targets belong to so many outputs.

        Raises
        ------
        ShapeError
            If the outputs are no multiple of the parameters.
        """
        count = len(self.parameters)
        if outputs % count:
            raise ShapeError(
                f"the {self.name} loss has {count} levels; the network's {outputs} outputs are no "
                "multiple of that"
            )
        return outputs // count


@function
def squared(error: kl.Scalar, parameter: kl.Scalar) -> Any:
    """The square."""
    return error * error, error + error


@function
def absolute(error: kl.Scalar, parameter: kl.Scalar) -> Any:
    """The magnitude; its slope at 0 is taken as 0."""
    return kl.abs(error), kl.sign(error)


@function
def squared_then_absolute(error: kl.Scalar, parameter: kl.Scalar) -> Any:
    """Half the square up to `parameter`, a straight line beyond."""
    bounded = kl.clip(error, -parameter, parameter)
    return bounded * (error - bounded * 0.5), bounded


@function
def pinball(error: kl.Scalar, parameter: kl.Scalar) -> Any:
    """``parameter`` times what the prediction is too low by, or the rest times too high."""
    slope = kl.where(error > 0, 1 - parameter, kl.where(error < 0, -parameter, 0 * parameter))
    return slope * error, slope


mse: Final = Loss("mse", squared)
"""The mean squared error."""

mae: Final = Loss("mae", absolute)
"""The mean absolute error."""


def huber(delta: float = 1.0) -> Loss:
    """P. Huber's loss (1964): half the squared error up to `delta`, linear beyond.

    Raises
    ------
    ValueError
        Unless `delta` is positive.
    """
    if not delta > 0:
        raise ValueError(f"huber(delta={delta!r}): delta is where the loss turns linear, above 0")
    return Loss("huber", squared_then_absolute, (float(delta),))


def quantile(levels: Sequence[float]) -> Loss:
    """The pinball loss (Koenker and Bassett, 1978), least at quantiles of the target.

    Parameters
    ----------
    levels : sequence of float
        Between 0 and 1. A network with ``h * len(levels)`` outputs learns all the levels of the
        first of h targets, then all of the second, and so on.

    Raises
    ------
    ValueError
        If there are none or one is not between 0 and 1.
    """
    if isinstance(levels, int | float) or not levels or not all(0 < x < 1 for x in levels):
        raise ValueError(f"quantile(levels={levels!r}): give one or more numbers between 0 and 1")
    return Loss("quantile", pinball, tuple(float(level) for level in levels))


@dataclass(frozen=True, slots=True)
class CrossEntropyLoss:
    """The mean of ``-log(softmax(outputs))`` at samples' classes, ``torch.nn.CrossEntropyLoss``.

    The targets are classes, whole numbers from 0 below the number of outputs. The greatest output
    is taken from all before exponentials are, so that none is beyond the range of the type.

    Parameters
    ----------
    label_smoothing : float
        The part of each target that is shared out evenly among all classes, from 0 to 1.

    Raises
    ------
    ValueError
        For a part out of range.
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(
                f"CrossEntropyLoss(label_smoothing={self.label_smoothing!r}): expected a number "
                "from 0 to 1"
            )

    @property
    def name(self) -> str:
        """For messages."""
        return "cross-entropy"

    def targets(self, outputs: int) -> int:
        """One column: a class for each sample."""
        return 1


AnyLoss = Loss | CrossEntropyLoss
"""What training can make small."""

LOSSES: Final[dict[str, AnyLoss]] = {
    "mse": mse,
    "mae": mae,
    "huber": huber(),
    "cross_entropy": CrossEntropyLoss(),
}
"""By name."""
