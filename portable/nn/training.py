"""Training a network."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from typing import Any, Final, Unpack, cast
from zlib import crc32

import numpy as np

from portable import namespace
from portable.interchange.libraries import takes_other_libraries
from portable.nn.checkpoint import largest
from portable.nn.fused import FusedTrainer
from portable.nn.history import History
from portable.nn.layered import LayeredTrainer
from portable.nn.layout import computing_on
from portable.nn.losses import LOSSES, AnyLoss, CrossEntropyLoss, Loss
from portable.nn.network import Network
from portable.nn.optimizers import Adam, Optimizer, Step
from portable.nn.run import Plan, Run, Settings, Validation, samples_and_watched
from portable.nn.sequential import MLP
from portable.nn.team import Team, Together
from portable.parallel import Group, Member, ParallelError

_LOOKED_AT: Final = 64
"""Samples by which members see whether they were given the same."""


@takes_other_libraries
def fit(
    model: Network,
    x: Any,
    y: Any,
    *,
    validation: Validation = None,
    progress: bool | None = None,
    group: Group | None = None,
    **settings: Unpack[Settings],
) -> History:
    """Trains a network on its device; only losses come back to the host.

    Parameters
    ----------
    model : MLP or Sequential
        Is changed in place.
    x, y : array, shape (n, ...)
        Samples of the network's dtype, on its device or NumPy's. As many targets as outputs, for
        `quantile` as groups of levels; for cross-entropy classes (n,), whole numbers from 0.
    validation : (array, array) or float, optional
        Inputs and targets to watch, or which fraction of the samples, the last, to keep for that.
    progress : bool, optional
        Whether to show a progress bar; None: if standard error is a terminal.
    group : Group, optional
        Members that train it together; processes all call this with the same.
    epochs, batch_size : int
        Passes over the samples, and samples per step; an epoch's last step takes what is left.
    loss : "mse", "mae", "huber", "cross_entropy", Loss or CrossEntropyLoss
        What to make small: the mean over samples and outputs. "mse" if left out.
    optimizer : SGD, Adam or AdamW, optional
        ``Adam(lr=1e-3)`` if left out.
    schedule : callable, optional
        What the learning rate is multiplied by, by step and number of steps (`schedules`).
    clip_norm : float, optional
        Gradients of a larger 2-norm are scaled down to it.
    patience : int, optional
        Stop after so many epochs without a smaller validation loss; the best epoch's parameters
        are then restored, also after all epochs or an interruption.
    seed : int
        Of NumPy's Philox generator, which shuffles the samples: the same order on all devices.

    Returns
    -------
    History
        Losses by epoch. Ctrl-C, in any process, ends the training early, of all members at the same
        step, and leaves a usable network. Where a loss or a parameter is not finite, a warning says
        so and the last sound parameters are restored: see ``history.stopped`` and ``kept_epoch``.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, TypeError, ValueError
        For data that does not fit the network or is not finite, and arguments out of range.
    ParallelError
        On every member, if one leaves, or they were given different things.

    Notes
    -----
    With 16 bits: Micikevicius et al., "Mixed precision training", ICLR 2018.

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
    plan = plan_of(**settings)
    if plan.patience is not None and validation is None:
        raise ValueError("patience needs a validation part to watch")
    if group is None:
        with computing_on(model.device):
            history = _prepared(model, plan, x, y, validation, Team()).go(progress)
    else:
        history = _train_together(model, plan, x, y, validation, group, progress)
    if history.stopped == "diverged":
        _warn_of_divergence(history)
    return history


def plan_of(**settings: Unpack[Settings]) -> Plan:
    """What a training is to do, checked as far as that needs no network; as `fit` takes it."""
    given: dict[str, Any] = dict(settings)
    known = Settings.__required_keys__ | Settings.__optional_keys__
    unknown = sorted(given.keys() - known)
    missing = sorted(Settings.__required_keys__ - given.keys())
    if unknown or missing:
        wrong = [f"needs {', '.join(missing)}"] if missing else []
        wrong += [f"knows no {', '.join(unknown)}"] if unknown else []
        raise TypeError(
            f"fit {' and '.join(wrong)}; its settings are {', '.join(sorted(known))}, by name"
        )
    given["loss"] = _checked_loss(given.get("loss", "mse"))
    given["optimizer"] = _checked_optimizer(given.get("optimizer"))
    counts = {name: given.get(name) for name in ("epochs", "batch_size", "patience")}
    _check_whole(**counts)
    _check_positive(**counts, clip_norm=given.get("clip_norm"))
    return Plan(**given)


def _prepared(
    model: Network, plan: Plan, x: Any, y: Any, validation: Validation, team: Team
) -> Run:
    """A training under way on the network's device, which is in use."""
    if not model.layout.length:
        raise ValueError(f"fit: {model!r} has no parameters to train")
    if not np.isfinite(largest(model.device, model.vector)):
        raise ValueError(f"fit: parameters of {model!r} are NaN or infinite")
    train, watched = samples_and_watched(model, plan.loss, x, y, validation)
    plan = replace(plan, batch_size=min(plan.batch_size, train.count))
    limit = None if plan.clip_norm is None else _in_range(plan.clip_norm, model)
    step = Step(plan.loss, plan.optimizer, plan.batch_size, limit)
    return Run(model, plan, trainer_for(model, step, team), train, watched, team)


def _in_range(norm: float, model: Network) -> float:
    """The nearest positive number of the type that norms are worked out in."""
    numbers = np.finfo(model.dtype.register.numpy)
    return min(max(float(norm), float(numbers.tiny)), float(numbers.max))


def trainer_for(
    model: Network, step: Step, team: Team | None = None
) -> FusedTrainer | LayeredTrainer:
    """What trains a network fastest: epochs of one launch for small ones, else layer by layer.

    Parameters
    ----------
    model : Network
    step : Step
    team : Team, optional
        Those who train it together.
    """
    if isinstance(model, MLP) and (team is None or team.alone):
        shape = FusedTrainer.shape(model, step)
        if shape is not None:
            return FusedTrainer(model, step, shape)
    return LayeredTrainer(model, step, team)


def _warn_of_divergence(history: History) -> None:
    kept = history.kept_epoch
    since = "the training began" if kept == -1 else f"epoch {kept}"
    warnings.warn(
        f"the training diverged in epoch {history.epochs - 1}; the parameters are as they were "
        f"after {since}. A smaller learning rate or clip_norm helps",
        stacklevel=3,
    )


# -- by several -----------------------------------------------------------------------------------


def _train_together(
    model: Network,
    plan: Plan,
    x: Any,
    y: Any,
    validation: Validation,
    group: Group,
    progress: bool | None,
) -> History:
    """Each member trains a copy; the model becomes what the first of this process has."""
    x, y = _on_host(x), _on_host(y)
    if isinstance(validation, tuple):
        validation = (_on_host(validation[0]), _on_host(validation[1]))
    first, *others = group.devices
    copies = [model if model.device is first else model.copy(first)]
    copies += [model.copy(device) for device in others]

    def work(member: Member) -> History:
        agree(member, model, plan, x, y, validation)
        model_here = copies[member.rank if len(copies) == member.size else 0]
        shown = progress if member.rank == 0 else False
        member.broadcast(model_here.vector)
        if model_here.buffers.shape[0]:
            member.broadcast(model_here.buffers)
        with computing_on(model_here.device):
            with member.agreeing():
                run = _prepared(model_here, plan, x, y, validation, Together(member))
            return run.go(shown)

    for copy in copies:
        copy.device.synchronize()  # members have streams of their own
    history: History = group.run(work)[0]
    if copies[0] is not model:
        model.load_state_dict(copies[0].state_dict())
    return history


def _on_host(x: Any) -> Any:
    return namespace.to_numpy(x) if hasattr(x, "shape") else x


def agree(
    member: Member, model: Network, plan: Plan, x: Any, y: Any, validation: Validation
) -> None:
    """Refuses, on each member, a training that they were given different settings for.

    Parameters
    ----------
    member : Member
    model : Network
    plan : Plan
    x, y : array
        Samples and targets, on the host.
    validation : (array, array), float or None
        As `fit` takes it.

    Raises
    ------
    ParallelError
    """
    settings = {
        "layers": str(model.layers),
        "dtype": model.dtype.name,
        **{f.name: str(getattr(plan, f.name)) for f in fields(plan) if f.name != "schedule"},
        "x": _look(x),
        "y": _look(y),
        "validation": str([_look(v) for v in validation])
        if isinstance(validation, tuple)
        else str(validation),
    }
    told = member.exchange(settings)
    apart = [name for name in settings if len({each[name] for each in told}) > 1]
    if apart:
        listed = "; ".join(
            f"member {r}: " + ", ".join(f"{name} {each[name]}" for name in apart)
            for r, each in enumerate(told)
        )
        raise ParallelError(f"members of a group were told to train different things: {listed}")


def _look(x: Any) -> str:
    """What tells arrays apart: shape, type, and a checksum of some samples."""
    if not hasattr(x, "shape") or x.ndim == 0:
        return str(x)
    some = np.ascontiguousarray(x[:: max(1, x.shape[0] // _LOOKED_AT)])
    return f"{x.shape} {x.dtype} with checksum {crc32(some.tobytes()):08x}"


# -- checks ---------------------------------------------------------------------------------------


def _check_whole(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name}={value!r}: expected a whole number")


def _check_positive(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value!r}: expected a positive number")


def _checked_optimizer(optimizer: object) -> Optimizer:
    if optimizer is None:
        return Adam()
    if not hasattr(optimizer, "slots") or isinstance(optimizer, type):
        raise TypeError(f"optimizer={optimizer!r}; give SGD, Adam or AdamW, such as Adam(lr=1e-3)")
    return cast(Optimizer, optimizer)


def _checked_loss(loss: object) -> AnyLoss:
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if not isinstance(loss, Loss | CrossEntropyLoss):
        raise ValueError(
            f"loss={loss!r}; there are {', '.join(LOSSES)}, huber(delta), quantile(levels) and "
            "CrossEntropyLoss(label_smoothing)"
        )
    return loss
