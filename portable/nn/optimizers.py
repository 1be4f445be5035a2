"""How parameters follow their gradients, by PyTorch's formulas.

A rule is kernel code that takes one parameter, its gradient, what is kept of it between steps, and
numbers that the host works out for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from portable import lang as kl
from portable.lang.function import Function, function
from portable.nn.losses import AnyLoss


class Optimizer(Protocol):
    """What training asks of an optimizer.

    Attributes
    ----------
    slots : int
        Numbers that it keeps for each parameter, zero at first.
    rule : Function
        ``rule(parameter, gradient, kept, numbers)`` returns the parameter and the tuple kept.
    lr : float
        The learning rate, which a schedule multiplies.
    """

    @property
    def lr(self) -> float:
        """The learning rate."""

    @property
    def slots(self) -> int:
        """Numbers kept for each parameter."""

    @property
    def rule(self) -> Function:
        """A step, as kernel code."""

    def numbers(self, first: int, rates: Sequence[float]) -> np.ndarray[Any, Any]:
        """A row for each step of those with these learning rates, the first the `first`-th."""


@function
def sgd(
    parameter: kl.Scalar, gradient: kl.Scalar, kept: Any, numbers: tuple[kl.Scalar, ...]
) -> Any:
    """Plain descent."""
    rate, decay = numbers
    return parameter - rate * (gradient + decay * parameter), kept


@function
def momentum(
    parameter: kl.Scalar,
    gradient: kl.Scalar,
    kept: tuple[kl.Scalar, ...],
    numbers: tuple[kl.Scalar, ...],
) -> Any:
    """Descent along a running sum of gradients."""
    rate, decay, factor, nesterov = numbers
    slope = gradient + decay * parameter
    velocity = factor * kept[0] + slope
    ahead = slope + factor * velocity
    return parameter - rate * kl.where(nesterov > 0, ahead, velocity), (velocity,)


@function
def adam(
    parameter: kl.Scalar,
    gradient: kl.Scalar,
    kept: tuple[kl.Scalar, ...],
    numbers: tuple[kl.Scalar, ...],
) -> Any:
    """Running means of the gradient and of its square."""
    rate, keep, decay, beta1, rest1, beta2, rest2, root, eps = numbers
    slope = gradient + decay * parameter
    mean = beta1 * kept[0] + rest1 * slope
    square = beta2 * kept[1] + rest2 * (slope * slope)
    step = rate * mean / (kl.sqrt(square) * root + eps)
    return keep * parameter - step, (mean, square)


@dataclass(frozen=True, slots=True)
class Rule:
    """An optimizer as kernels take it: its step, and how many numbers it keeps and takes."""

    step: Function
    slots: int
    numbers: int

    def follow(
        self, parameters: Any, state: Any, i: Any, slope: Any, given: Any, LANES: int = 1
    ) -> Any:
        """A step of the parameters from the `i`-th on along their slope; returns them."""
        kept = [kl.vload(state[slot], i, lanes=LANES) for slot in range(self.slots)]
        value, kept = self.step(kl.vload(parameters, i, lanes=LANES), slope, kept, given)
        for slot in kl.static_range(self.slots):
            kl.vstore(state[slot], i, kept[slot])
        kl.vstore(parameters, i, value)
        return value


def rule_of(optimizer: Optimizer) -> Rule:
    """That of an optimizer."""
    return Rule(optimizer.rule, optimizer.slots, optimizer.numbers(1, [0.0]).shape[1])


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent, ``torch.optim.SGD``.

    Parameters
    ----------
    lr : float
        The learning rate.
    momentum : float
        What is kept of the velocity at each step; 0 for none.
    nesterov : bool
        Look ahead along the velocity.
    weight_decay : float
        Times the parameter, added to its gradient.
    """

    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_range("SGD", "lr", self.lr)
        _check_range("SGD", "momentum", self.momentum, 1)
        _check_range("SGD", "weight_decay", self.weight_decay)

    @property
    def slots(self) -> int:
        """The velocity, where there is momentum."""
        return 1 if self.momentum else 0

    @property
    def rule(self) -> Function:
        """With momentum, or plain."""
        return momentum if self.momentum else sgd

    def numbers(self, first: int, rates: Sequence[float]) -> np.ndarray[Any, Any]:
        """Learning rate, decay, and for momentum its factor and whether to look ahead."""
        fixed = [self.weight_decay]
        if self.momentum:
            fixed += [self.momentum, float(self.nesterov)]
        return np.array([[rate, *fixed] for rate in rates])


@dataclass(frozen=True, slots=True)
class _RunningMeans:
    """What `Adam` and `AdamW` share; they differ in what decays."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    _decoupled: ClassVar[bool]

    def __post_init__(self) -> None:
        name = type(self).__name__
        _check_range(name, "lr", self.lr)
        _check_range(name, "betas[0]", self.betas[0], 1)
        _check_range(name, "betas[1]", self.betas[1], 1)
        _check_range(name, "eps", self.eps)
        _check_range(name, "weight_decay", self.weight_decay)

    @property
    def slots(self) -> int:
        """The two running means."""
        return 2

    @property
    def rule(self) -> Function:
        """The same for both kinds of decay."""
        return adam

    def numbers(self, first: int, rates: Sequence[float]) -> np.ndarray[Any, Any]:
        """With the corrections for means that started at zero."""
        steps = np.arange(first, first + len(rates), dtype=np.float64)
        rate = np.asarray(rates, np.float64)
        beta1, beta2 = self.betas
        columns = (
            rate / (1 - beta1**steps),
            1 - rate * self.weight_decay if self._decoupled else 1.0,
            0.0 if self._decoupled else self.weight_decay,
            beta1,
            1 - beta1,  # here, where the difference loses no digits
            beta2,
            1 - beta2,
            1 / np.sqrt(1 - beta2**steps),
            self.eps,
        )
        return np.stack([np.broadcast_to(column, rate.shape) for column in columns], axis=1)


@dataclass(frozen=True, slots=True)
class Adam(_RunningMeans):
    """D. Kingma and J. Ba, "Adam" (ICLR 2015), ``torch.optim.Adam``.

    Parameters
    ----------
    lr : float
        The learning rate.
    betas : (float, float)
        What is kept of the running means of the gradient and of its square.
    eps : float
        Added to the root of the mean square.
    weight_decay : float
        Times the parameter, added to its gradient.
    """

    weight_decay: float = 0.0
    _decoupled = False


@dataclass(frozen=True, slots=True)
class AdamW(_RunningMeans):
    """I. Loshchilov and F. Hutter, "Decoupled weight decay" (ICLR 2019), ``torch.optim.AdamW``.

    Parameters
    ----------
    lr, betas, eps
        As in `Adam`.
    weight_decay : float
        Times the learning rate: the part of each parameter that goes at each step.
    """

    weight_decay: float = 0.01
    _decoupled = True


def _check_range(optimizer: str, name: str, value: Any, below: float = float("inf")) -> None:
    if not isinstance(value, float | int | np.number) or not 0 <= value < below:
        raise ValueError(f"{optimizer}({name}={value!r}): expected a number from 0 to {below}")


# What a step of a training does, and to what.


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
