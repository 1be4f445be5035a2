"""The samples of a training, checked and where the network is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from portable import namespace
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.nn.checkpoint import largest
from portable.nn.losses import AnyLoss, CrossEntropyLoss
from portable.nn.network import Network

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
