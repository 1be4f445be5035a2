"""Training a network."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, cast

import numpy as np

from portable import namespace
from portable.errors import DTypeError, ShapeError
from portable.interchange import takes_other_libraries
from portable.nn.checkpoint import Checkpoint, largest, may_overflow
from portable.nn.fused import FusedTrainer
from portable.nn.history import History
from portable.nn.layered import LayeredTrainer, MeanLoss
from portable.nn.losses import LOSSES, Loss
from portable.nn.mlp import MLP
from portable.nn.optimizers import Adam, Optimizer
from portable.nn.placement import computing_on
from portable.nn.progress import progress_bar
from portable.nn.schedules import Schedule

__all__ = ["fit", "trainer_for"]

_SOON: Final = 0.05
"""Seconds for which training may go on without a look at the losses or at Ctrl-C."""
_MOST_ORDERED: Final = 2**22
"""Samples whose order goes to the device at once."""


@takes_other_libraries
def fit(
    model: MLP,
    x: Any,
    y: Any,
    *,
    loss: str | Loss = "mse",
    optimizer: Optimizer | None = None,
    epochs: int,
    batch_size: int,
    validation: tuple[Any, Any] | float | None = None,
    schedule: Schedule | None = None,
    clip_norm: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> History:
    """Trains a network where it lives; nothing but losses comes back to the host.

    Parameters
    ----------
    model : MLP
        Is changed in place.
    x : array, shape (n, inputs)
        Inputs; of the network's dtype; on its device, of any library, or NumPy's, which are copied
        there once.
    y : array, shape (n, targets) or (n,)
        Targets; as many as outputs, or for `quantile` as many as groups of levels.
    loss : "mse", "mae", "huber" or Loss
        What to make small: the mean over samples and outputs.
    optimizer : SGD, Adam or AdamW, optional
        ``Adam(lr=1e-3)`` if left out.
    epochs : int
        Passes over the samples.
    batch_size : int
        Samples per step; the last step of an epoch takes what is left.
    validation : (array, array) or float, optional
        Inputs and targets to watch, or which fraction of the samples, the last ones, to keep for
        that.
    schedule : callable, optional
        What the learning rate is multiplied by, from the step and the number of steps; see
        `portable.nn.schedules`.
    clip_norm : float, optional
        Gradients of a larger 2-norm are scaled down to it; one beyond the dtype's range does
        nothing.
    patience : int, optional
        Stop after so many epochs without a smaller validation loss. The parameters of the best
        epoch are then restored, also if all epochs were done or the training was interrupted.
    seed : int
        Of NumPy's Philox generator, which shuffles the samples on the host: the same order on all
        devices. The same seed on the same device gives the same parameters to the last bit.
    progress : bool, optional
        Whether to show a progress bar; None: if standard error is a terminal.

    Returns
    -------
    History
        Losses by epoch. Ctrl-C ends the training early and leaves a usable network, as does a
        training that diverges: where a loss or a parameter is no longer finite, the parameters of
        the last sound epoch that was looked at are restored, with a warning; ``history.stopped``
        and ``history.kept_epoch`` say so.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For data that does not fit the network.
    TypeError
        For counts that are no whole numbers, and for an optimizer that is none.
    ValueError
        For NaN or infinities in the data or the parameters, or other arguments out of range.

    Notes
    -----
    Half precision keeps the parameters in single precision while it trains and scales its losses
    (Micikevicius et al., "Mixed precision training", ICLR 2018).

    Examples
    --------
    >>> import numpy as np
    >>> from portable.nn import MLP, Adam, fit
    >>> x = np.linspace(-1, 1, 256, dtype=np.float32)[:, None]
    >>> model = MLP([1, 32, 1], device="cpu")
    >>> history = fit(model, x, x * x, optimizer=Adam(0.01), epochs=100, batch_size=64)
    >>> history.train[-1] < 1e-3
    True
    """
    _check_whole(epochs=epochs, batch_size=batch_size, patience=patience)
    _check_positive(epochs=epochs, batch_size=batch_size, patience=patience, clip_norm=clip_norm)
    plan = _Plan(
        model,
        LOSSES[loss] if isinstance(loss, str) and loss in LOSSES else _checked_loss(loss),
        Adam() if optimizer is None else _checked_optimizer(optimizer),
        epochs,
        schedule,
        patience,
        np.random.Generator(np.random.Philox(seed)),
    )
    with computing_on(model.device):
        if not np.isfinite(largest(model.device, model.vector)):
            raise ValueError(f"fit: parameters of {model!r} are NaN or infinite")
        train, watched = _data(plan, x, y, validation)
        batch = min(batch_size, train.count)
        limit = None if clip_norm is None else _in_range(clip_norm, model)
        trainer = trainer_for(model, plan.loss, plan.optimizer, limit, batch)
        return _Run(plan, trainer, train, watched, batch).go(progress)


def _in_range(norm: float, model: MLP) -> float:
    """The nearest positive number of the type that norms are worked out in."""
    numbers = np.finfo(model.dtype.register.numpy)
    return min(max(float(norm), float(numbers.tiny)), float(numbers.max))


def trainer_for(
    model: MLP, loss: Loss, optimizer: Optimizer, clip_norm: float | None, batch: int
) -> FusedTrainer | LayeredTrainer:
    """What trains a network fastest: epochs of one launch for small ones, else layer by layer."""
    shape = FusedTrainer.shape(model, loss, optimizer, batch)
    if shape is None:
        return LayeredTrainer(model, loss, optimizer, clip_norm, batch)
    return FusedTrainer(model, loss, optimizer, clip_norm, batch, shape)


# -- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Samples:
    """Inputs and targets, and the largest magnitude among them."""

    x: Any
    y: Any
    largest: float

    @property
    def count(self) -> int:
        return int(self.x.shape[0])


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a training is to do."""

    model: MLP
    loss: Loss
    optimizer: Optimizer
    epochs: int
    schedule: Schedule | None
    patience: int | None
    random: np.random.Generator


def _check_whole(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name}={value!r}: expected a whole number")


def _check_positive(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value!r}: expected a positive number")


def _checked_optimizer(optimizer: object) -> Optimizer:
    if not hasattr(optimizer, "slots") or isinstance(optimizer, type):
        raise TypeError(f"optimizer={optimizer!r}; give SGD, Adam or AdamW, such as Adam(lr=1e-3)")
    return cast(Optimizer, optimizer)


def _checked_loss(loss: object) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(
            f"loss={loss!r}; there are {', '.join(LOSSES)}, huber(delta) and quantile(levels)"
        )
    return loss


def _data(
    plan: _Plan, x: Any, y: Any, validation: tuple[Any, Any] | float | None
) -> tuple[_Samples, _Samples | None]:
    """The samples to train on and those to watch, checked."""
    samples = _samples(plan, "", x, y)
    if plan.patience is not None and validation is None:
        raise ValueError("patience needs a validation part to watch")
    if validation is None:
        return samples, None
    if isinstance(validation, tuple):
        return samples, _samples(plan, "validation ", *validation)
    if not 0 < validation < 1:
        raise ValueError(f"validation={validation!r}: expected arrays, or a fraction from 0 to 1")
    kept = samples.count - round(samples.count * validation)
    if not 0 < kept < samples.count:
        raise ValueError(
            f"validation={validation!r} of {samples.count} samples leaves {kept} to train on"
        )
    return (
        _Samples(samples.x[:kept], samples.y[:kept], samples.largest),
        _Samples(samples.x[kept:], samples.y[kept:], samples.largest),
    )


def _samples(plan: _Plan, which: str, x: Any, y: Any) -> _Samples:
    model = plan.model
    x, y = _there(model, x), _there(model, y)
    if y.ndim == 1:
        y = model.device.namespace().reshape(y, (y.shape[0], 1))
    model.check_array(f"{which}x", x, model.sizes[0])
    model.check_array(f"{which}y", y, plan.loss.targets(model.sizes[-1]))
    if x.shape[0] != y.shape[0] or x.shape[0] == 0:
        raise ShapeError(
            f"{which}x has {x.shape[0]} rows and y {y.shape[0]}; give as many of each, at least one"
        )
    most = 0.0
    for name, part in (("x", x), ("y", y)):
        found = largest(model.device, part)
        if not np.isfinite(found):
            what = "NaN" if np.isnan(found) else "an infinity"
            raise ValueError(
                f"fit: {which}{name} holds {what}; leave such samples out, or fill them"
            )
        most = max(most, found)
    return _Samples(x, y, most)


def _there(model: MLP, x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return namespace.asarray(x, device=model.device)
    if not hasattr(x, "shape"):
        raise DTypeError(f"{type(x).__name__} is no array; fit takes arrays of {model.dtype.name}")
    return x


# -- the loop -------------------------------------------------------------------------------------


class _Run:
    """One training under way."""

    def __init__(
        self,
        plan: _Plan,
        trainer: FusedTrainer | LayeredTrainer,
        train: _Samples,
        watched: _Samples | None,
        batch: int,
    ) -> None:
        self.history = History()
        self._plan = plan
        self._trainer = trainer
        self._train = train
        self._watched = watched
        self._batch = batch
        self._mean_loss = MeanLoss(plan.model, plan.loss)
        self._best = Checkpoint(plan.model)
        self._sound = Checkpoint(plan.model)

    def go(self, progress: bool | None) -> History:
        """All epochs, or as many as it takes."""
        start = perf_counter()
        try:
            self._sound.take(-1)
            with progress_bar(self._plan.epochs, progress) as show:
                self._epochs(show)
        except KeyboardInterrupt:
            self.history.stopped = "interrupted"
        self._restore()
        self.history.seconds = perf_counter() - start
        return self.history

    def _epochs(self, show: Callable[[History], None]) -> None:
        at_once, history = 1, self.history
        while history.epochs < self._plan.epochs:
            start = perf_counter()
            at_once = min(at_once, self._plan.epochs - history.epochs)
            order, numbers = self._draw(at_once), self._numbers(at_once)
            self._note(self._trainer.epochs(self._train.x, self._train.y, order, numbers))
            sound = bool(np.isfinite(history.train[-1])) and self._is_sound()
            if sound:
                self._sound.take(history.epochs - 1)
            self._watch(sound)
            show(history)
            if not sound:
                history.stopped = "diverged"
                return
            if self._out_of_patience():
                history.stopped = "patience"
                return
            if self._may_hurry(perf_counter() - start, at_once):
                at_once *= 2

    def _is_sound(self) -> bool:
        """Whether the parameters, and what they make of samples, are finite."""
        model = self._plan.model
        parameter = largest(model.device, model.vector)
        if not np.isfinite(parameter):
            return False
        if not may_overflow(model, parameter, self._train.largest):
            return True
        few = slice(0, self._batch)
        return bool(np.isfinite(self._mean_loss(self._train.x[few], self._train.y[few])))

    def _may_hurry(self, seconds: float, at_once: int) -> bool:
        """Whether more epochs at once would still be seen, and stopped, soon."""
        fits = 2 * at_once * self._train.count <= _MOST_ORDERED
        return self._watched is None and seconds < _SOON and fits

    def _note(self, lost: list[float]) -> None:
        """Keeps the losses, up to the first that is not finite."""
        for loss in lost:
            self.history.train.append(loss)
            if not np.isfinite(loss):
                return

    def _draw(self, epochs: int) -> np.ndarray[Any, Any]:
        """The samples in the order of each epoch."""
        count = self._train.count
        drawn = [self._plan.random.permutation(count) for _ in range(epochs)]
        return np.array(drawn, np.int32)

    def _numbers(self, epochs: int) -> np.ndarray[Any, Any]:
        """What the optimizer is given for the steps of the next epochs."""
        plan = self._plan
        steps = -(-self._train.count // self._batch)
        total, first = steps * plan.epochs, steps * self.history.epochs
        factor: Schedule = plan.schedule or (lambda step, steps: 1.0)
        rates = [plan.optimizer.lr * factor(first + i, total) for i in range(steps * epochs)]
        numbers = plan.optimizer.numbers(first + 1, rates)
        most = np.finfo(plan.model.dtype.register.numpy).max
        if not (np.abs(numbers) <= most).all():
            raise ValueError(
                f"fit: {plan.optimizer!r} comes to numbers beyond {plan.model.dtype.register.name}"
                " in steps with these learning rates: "
                f"{', '.join(f'{rate:.3g}' for rate in sorted(set(rates))[-3:])}"
            )
        return numbers

    def _watch(self, sound: bool) -> None:
        """The validation loss, and a copy of the parameters if they are the best so far."""
        if self._watched is None:
            return
        history = self.history
        history.validation.append(self._mean_loss(self._watched.x, self._watched.y))
        best = history.best_epoch == history.epochs - 1
        if sound and best and self._plan.patience is not None:
            self._best.take(history.epochs - 1)

    def _out_of_patience(self) -> bool:
        best, patience = self.history.best_epoch, self._plan.patience
        if patience is None:
            return False
        return self.history.epochs - 1 - (-1 if best is None else best) >= patience

    def _restore(self) -> None:
        """Back to the best parameters where patience asked for that, or to finite ones."""
        model, history = self._plan.model, self.history
        model.device.synchronize()
        kept = self._best
        if kept.epoch is None:
            if history.stopped in ("epochs", "patience"):
                return
            if history.stopped == "interrupted" and self._is_sound():
                return
            kept = self._sound
        if kept.epoch is not None and kept.epoch != history.epochs - 1:
            kept.restore()
            history.restored, history.kept_epoch = True, kept.epoch
        if history.stopped == "diverged":
            self._tell()

    def _tell(self) -> None:
        kept = self.history.kept_epoch
        since = "the training began" if kept == -1 else f"epoch {kept}"
        warnings.warn(
            f"the training diverged in epoch {self.history.epochs - 1}; the parameters are as "
            f"they were after {since}. A smaller learning rate or clip_norm helps",
            stacklevel=4,
        )
