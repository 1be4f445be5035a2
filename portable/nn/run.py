"""The epochs of a training, and what is watched meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any, Final, Protocol, TypedDict

import numpy as np

from portable import namespace
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.nn.checkpoint import Checkpoint, largest, may_overflow
from portable.nn.history import Epoch, History
from portable.nn.loss_passes import MeanLoss
from portable.nn.losses import AnyLoss, CrossEntropyLoss
from portable.nn.network import Network
from portable.nn.optimizers import Optimizer
from portable.nn.schedules import Schedule
from portable.nn.team import Team
from portable.system.console import Progress

# The samples of a training, checked and where the network is.

Validation = tuple[Any, Any] | float | None
"""What `portable.nn.fit` takes to watch."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs, targets (n, ...), and the largest magnitude among them."""

    x: Any
    y: Any
    largest: float

    @property
    def count(self) -> int:
        """How many."""
        return int(self.x.shape[0])

    def between(self, start: int, stop: int) -> Samples:
        """Some of them."""
        return Samples(self.x[start:stop], self.y[start:stop], self.largest)


def samples_and_watched(
    model: Network, loss: AnyLoss, x: Any, y: Any, validation: Validation
) -> tuple[Samples, Samples | None]:
    """The samples to train on and those to watch.

    Parameters
    ----------
    model : Network
    loss : Loss or CrossEntropyLoss
    x, y : array, shape (n, ...)
        Samples and targets.
    validation : (array, array), float or None
        As `portable.nn.fit` takes it.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For what does not fit the network or the loss.
    ValueError
        For NaN, infinities, unknown classes, or a part that leaves nothing.
    """
    samples = checked_samples(model, loss, "", x, y)
    if validation is None:
        return samples, None
    if isinstance(validation, tuple):
        return samples, checked_samples(model, loss, "validation ", *validation)
    if not 0 < validation < 1:
        raise ValueError(f"validation={validation!r}: expected arrays, or a fraction from 0 to 1")
    kept = samples.count - round(samples.count * validation)
    if not 0 < kept < samples.count:
        raise ValueError(
            f"validation={validation!r} of {samples.count} samples leaves {kept} to train on"
        )
    return samples.between(0, kept), samples.between(kept, samples.count)


def checked_samples(model: Network, loss: AnyLoss, which: str, x: Any, y: Any) -> Samples:
    """Samples that fit; `which` names them in messages.

    Parameters
    ----------
    model : Network
    loss : Loss or CrossEntropyLoss
    which : str
        What they are called in messages, before "x" and "y".
    x, y : array, shape (n, ...)
        Samples and targets.
    """
    x = _there(model, x)
    outputs = model.check_inputs(x, f"{which}x")
    if isinstance(loss, CrossEntropyLoss):
        y = _classes(model, f"{which}y", y, outputs)
    else:
        y = _numbers(model, loss, f"{which}y", _there(model, y), outputs)
    if x.shape[0] != y.shape[0] or x.shape[0] == 0:
        raise ShapeError(
            f"{which}x has {x.shape[0]} rows and y {y.shape[0]}; give as many of each, at least one"
        )
    most = _largest(model, f"{which}x", x)
    if not isinstance(loss, CrossEntropyLoss):
        most = max(most, _largest(model, f"{which}y", y))
    return Samples(x, y, most)


def _there(model: Network, x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x if model.device.owns(x) else model.device.from_numpy(x)
    if not hasattr(x, "shape"):
        raise DTypeError(f"{type(x).__name__} is no array; fit takes arrays of {model.dtype.name}")
    return x


def _numbers(model: Network, loss: AnyLoss, name: str, y: Any, outputs: tuple[int, ...]) -> Any:
    """Targets as rows."""
    space, count = model.device.namespace(), prod(outputs)
    model.check_owned(name, y)
    if len(outputs) > 1 and tuple(y.shape[1:]) == outputs:
        y = space.reshape(y, (y.shape[0], count))
    if y.ndim == 1:
        y = space.reshape(y, (y.shape[0], 1))
    wanted = loss.targets(count)
    if y.ndim != 2 or y.shape[1] != wanted:
        raise ShapeError(f"{name} has shape {tuple(y.shape)}; {model!r} takes (n, {wanted})")
    return y


def _classes(model: Network, name: str, y: Any, outputs: tuple[int, ...]) -> Any:
    """Targets as a column of classes, on the device."""
    host = y if isinstance(y, np.ndarray) else namespace.to_numpy(y)
    if len(outputs) != 1:
        raise ShapeError(
            f"classes are told by vectors of outputs, those of {model!r} have shape {outputs}; end "
            "the network with Flatten() or Linear"
        )
    if not dtype(host.dtype).is_integer or host.ndim != 1:
        raise DTypeError(
            f"{name} is {host.dtype} of shape {host.shape}; classes are whole numbers of shape "
            "(n,). Of rows with a 1 for each class, give y.argmax(1)"
        )
    if host.size and (int(host.min()) < 0 or int(host.max()) >= outputs[0]):
        raise ValueError(
            f"{name} has classes from {host.min()} to {host.max()}; {model!r} tells those from 0 "
            f"to {outputs[0] - 1}"
        )
    return model.device.from_numpy(np.ascontiguousarray(host.astype(np.int32)[:, None]))


def _largest(model: Network, name: str, part: Any) -> float:
    """The largest magnitude, if all are finite."""
    if part.ndim > 2:
        part = model.device.namespace().reshape(part, (part.shape[0], prod(part.shape[1:])))
    value = largest(model.device, part)
    if not np.isfinite(value):
        what = "NaN" if np.isnan(value) else "an infinity"
        raise ValueError(f"fit: {name} holds {what}; leave such samples out, or fill them")
    return value


# -- run -------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(epochs: int, wanted: bool | None) -> Iterator[Callable[[History], None]]:
    """Gives a function to call after each epoch; it does nothing where no bar is wanted."""
    with Progress(wanted) as line:
        last = ""

        def show(history: History) -> None:
            nonlocal last
            last = f"epoch {history.epochs}/{epochs}: {_losses(history)}"
            line.update(last, history.epochs / epochs)

        yield show
        if last and line.shown:
            line.say(last)


def _losses(history: History) -> str:
    shown = f"loss {history.train[-1]:.4g}"
    if history.accuracy:
        shown += f", accuracy {history.accuracy[-1]:.1%}"
    if history.validation:
        shown += f", validation {history.validation[-1]:.4g}"
    if history.validation_accuracy:
        shown += f", accuracy {history.validation_accuracy[-1]:.1%}"
    return shown


_SOON: Final = 0.05
"""Seconds for which training may go on without a look at the losses or at Ctrl-C."""
_MOST_ORDERED: Final = 2**22
"""Samples whose order goes to the device at once."""


class _Needed(TypedDict):
    """The settings that have no default."""

    epochs: int
    batch_size: int


class Settings(_Needed, total=False):
    """What a training is told, as `portable.nn.fit` explains it."""

    loss: str | AnyLoss
    optimizer: Optimizer | None
    schedule: Schedule | None
    clip_norm: float | None
    patience: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training is to do: `Settings`, checked and complete."""

    loss: AnyLoss
    optimizer: Optimizer
    epochs: int
    batch_size: int
    schedule: Schedule | None = None
    clip_norm: float | None = None
    patience: int | None = None
    seed: int = 0


class Trainer(Protocol):
    """What takes the steps."""

    def epochs(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> Sequence[Epoch]:
        """Passes over the samples.

        Parameters
        ----------
        x, y : array, shape (n, ...)
            Samples and their targets, on the device.
        order : numpy.ndarray, shape (epochs, n)
            In which order each epoch takes them.
        numbers : numpy.ndarray, shape (steps, ...)
            What the optimizer is given for each step of all epochs.
        """


class Run:
    """One training under way; of a team each member has one, which goes the same way.

    Parameters
    ----------
    model : Network
    plan : Plan
        With a batch of no more samples than there are.
    trainer : Trainer
    train : Samples
    watched : Samples or None
        For validation.
    team : Team
        Those who train it together.
    """

    def __init__(
        self,
        model: Network,
        plan: Plan,
        trainer: Trainer,
        train: Samples,
        watched: Samples | None,
        team: Team,
    ) -> None:
        self.history = History()
        self._model = model
        self._plan = plan
        self._trainer = trainer
        self._train = train
        self._watched = watched
        self._team = team
        self._random = np.random.Generator(np.random.Philox(plan.seed))
        self._mean_loss = MeanLoss(model, plan.loss)
        self._best = Checkpoint(model)
        self._sound = Checkpoint(model)

    def go(self, progress: bool | None) -> History:
        """All epochs, or as many as it takes."""
        start = perf_counter()
        try:
            self._sound.take(-1)
            self._team.hear()
            with progress_bar(self._plan.epochs, progress) as show:
                self._epochs(show)
        except KeyboardInterrupt as error:
            if self._team.is_left_by(error):
                raise
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
            sound = self._everywhere(bool(np.isfinite(history.train[-1])) and self._is_sound())
            if sound:
                self._sound.take(history.epochs - 1)
            self._watch(sound)
            self._team.meet()
            show(history)
            if not sound:
                history.stopped = "diverged"
                return
            if self._out_of_patience():
                history.stopped = "patience"
                return
            if self._may_hurry(perf_counter() - start, at_once):
                at_once *= 2

    def _everywhere(self, holds: bool) -> bool:
        """Whether it holds for all members."""
        return not self._team.totals(np.array([float(not holds)]))[0]

    def _is_sound(self) -> bool:
        """Whether the parameters, and what they make of samples, are finite."""
        model = self._model
        parameter = largest(model.device, model.vector)
        if not np.isfinite(parameter):
            return False
        if not may_overflow(model, parameter, self._train.largest):
            return True
        few = slice(0, self._plan.batch_size)
        return bool(np.isfinite(self._mean_loss(self._train.x[few], self._train.y[few])))

    def _may_hurry(self, seconds: float, at_once: int) -> bool:
        """Whether more epochs at once would still be seen, and stopped, soon."""
        fits = 2 * at_once * self._train.count <= _MOST_ORDERED
        # Members' clocks differ.
        return self._team.alone and self._watched is None and seconds < _SOON and fits

    def _note(self, epochs: Sequence[Epoch]) -> None:
        """Keeps the losses, up to the first that is not finite."""
        for epoch in epochs:
            self.history.train.append(epoch.loss)
            if epoch.accuracy is not None:
                self.history.accuracy.append(epoch.accuracy)
            if not np.isfinite(epoch.loss):
                return

    def _draw(self, epochs: int) -> np.ndarray[Any, Any]:
        """The samples in the order of each epoch."""
        count = self._train.count
        drawn = [self._random.permutation(count) for _ in range(epochs)]
        return np.array(drawn, np.int32)

    def _numbers(self, epochs: int) -> np.ndarray[Any, Any]:
        """What the optimizer is given for the steps of the next epochs."""
        plan = self._plan
        steps = -(-self._train.count // self._plan.batch_size)
        total, first = steps * plan.epochs, steps * self.history.epochs
        factor: Schedule = plan.schedule or (lambda step, steps: 1.0)
        rates = [plan.optimizer.lr * factor(first + i, total) for i in range(steps * epochs)]
        numbers = plan.optimizer.numbers(first + 1, rates)
        kind = self._model.dtype.register
        if not (np.abs(numbers) <= np.finfo(kind.numpy).max).all():
            raise ValueError(
                f"fit: {plan.optimizer!r} comes to numbers beyond {kind.name} in steps with these "
                f"learning rates: {', '.join(f'{rate:.3g}' for rate in sorted(set(rates))[-3:])}"
            )
        return numbers

    def _watch(self, sound: bool) -> None:
        """The validation loss, and a copy of the parameters if they are the best so far."""
        if self._watched is None:
            return
        history, count = self.history, self._watched.count
        losses, hits = self._team.totals(np.array(self._own_sums(self._watched)))
        history.validation.append(float(losses) / count)
        if isinstance(self._plan.loss, CrossEntropyLoss):
            history.validation_accuracy.append(float(hits) / count)
        best = history.best_epoch == history.epochs - 1
        if sound and best and self._plan.patience is not None:
            self._best.take(history.epochs - 1)

    def _own_sums(self, watched: Samples) -> tuple[float, float]:
        """Of this member's part of the samples."""
        part = self._team.part(watched.count)
        if part.stop == part.start:
            return 0.0, 0.0
        return self._mean_loss.sums(watched.x[part], watched.y[part])

    def _out_of_patience(self) -> bool:
        best, patience = self.history.best_epoch, self._plan.patience
        if patience is None:
            return False
        return self.history.epochs - 1 - (-1 if best is None else best) >= patience

    def _restore(self) -> None:
        """Back to the best parameters where patience asked for that, or to finite ones."""
        history = self.history
        self._model.device.synchronize()
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
