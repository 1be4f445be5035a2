"""Networks of two layers in NumPy: the problem, what it comes to, and NumPy as a contender."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from portable.dtypes import DType, dtype
from portable.nn import MLP, Adam, mse
from portable.nn.optimizers import Step
from portable.nn.training import trainer_for
from portable.tune.search import unit_roundoff
from portable_bench.operation import Array, Case, Run, Shapes, Verifier

RATE: Final = 1e-3
"""Adam's learning rate."""
_BETAS: Final = (0.9, 0.999)
_EPS: Final = 1e-8
_SAMPLED: Final = 256
"""Rows that are compared."""


def problem(samples: Shapes, widths: Sequence[int], kind: DType) -> tuple[Array, ...]:
    """Samples of normal distribution, then the parameters of a network.

    Parameters
    ----------
    samples : sequence of tuples
        The shapes of inputs and targets.
    widths : sequence of int
        Of the network's layers, the input's first.
    kind : DType
    """
    random = np.random.default_rng(1)
    parts = [*(random.standard_normal(shape) for shape in samples), *_parameters(widths, random)]
    return tuple(part.astype(kind.numpy) for part in parts)


def _parameters(widths: Sequence[int], random: np.random.Generator) -> list[Array]:
    """Weights (outputs, inputs) and biases of each layer, within Xavier's range."""
    parameters: list[Array] = []
    for inputs, outputs in pairwise(widths):
        limit = (6 / (inputs + outputs)) ** 0.5
        parameters += [random.uniform(-limit, limit, (outputs, inputs))]
        parameters += [random.uniform(-limit, limit, outputs)]
    return parameters


def outputs(xp: Any, *given: Any) -> Run:
    """The outputs by an array library's functions."""
    return lambda: forward(xp, *given)[1]


def forward(xp: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> tuple[Any, Any]:
    """The hidden values and the outputs, by an array library's functions.

    Parameters
    ----------
    xp : namespace
        The library.
    x : array, shape (samples, inputs)
    w1, b1, w2, b2 : array
        Weights (outputs, inputs) and biases (outputs,) of both layers.
    """
    hidden = xp.matmul(x, w1.T) + b1
    hidden = xp.maximum(hidden, xp.zeros((), dtype=hidden.dtype))
    return hidden, xp.matmul(hidden, w2.T) + b2


def error_of_outputs(outputs: Array, x: Array, *layers: Array) -> float:
    """The worst error of some rows, as a multiple of what rounding may come to."""
    rows = np.linspace(0, x.shape[0] - 1, min(_SAMPLED, x.shape[0])).astype(int)
    exact64 = [part.astype(np.float64) for part in (x[rows], *layers)]
    _, exact = forward(np, *exact64)
    size, error = abs(exact64[0]), np.zeros_like(exact64[0])
    for weight, bias in (exact64[1:3], exact64[3:5]):
        size, error = size @ abs(weight.T) + abs(bias), error @ abs(weight.T)
        error = error + 4 * unit_roundoff(dtype(x.dtype)) * (8 + weight.shape[1] ** 0.5) * size
    return float(np.max(abs(outputs[rows] - exact) / error))


def adam_steps(x: Array, y: Array, *layers: Array, steps: int) -> list[Array]:
    """The parameters after as many steps of Adam, a step for each slice of the samples in turn.

    Parameters
    ----------
    x, y : numpy.ndarray, shapes (samples, inputs) and (samples, outputs)
    *layers : numpy.ndarray
        The parameters before.
    steps : int
        How many.
    """
    state = [part.copy() for part in layers]
    means = [np.zeros_like(part) for part in state]
    squares = [np.zeros_like(part) for part in state]
    for t, (a, b) in enumerate(zip(np.split(x, steps), np.split(y, steps), strict=True), 1):
        rate, root = RATE / (1 - _BETAS[0] ** t), (1 - _BETAS[1] ** t) ** -0.5
        slopes = _gradient(a, b, *state)
        for p, g, m, v in zip(state, slopes, means, squares, strict=True):
            m += (1 - _BETAS[0]) * (g - m)
            v += (1 - _BETAS[1]) * (g * g - v)
            p -= rate * m / (np.sqrt(v) * root + _EPS)
    return state


def _gradient(x: Array, y: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> list[Array]:
    """Of the mean squared error."""
    hidden, out = forward(np, x, w1, b1, w2, b2)
    slope = 2 * (out - y) / out.size
    back = (slope @ w2) * (hidden > 0)
    return [back.T @ x, back.sum(axis=0), slope.T @ hidden, slope.sum(axis=0)]


def parameters_verifier(x: Array, y: Array, *layers: Array, steps: int) -> Verifier:
    """What compares parameters with those after the same steps in double precision.

    Adam's steps are as long where a gradient is smaller than its rounding, which may turn them
    around, as elsewhere. In the root of the mean square over each layer's weights and biases, a
    hundredth of all steps together is allowed, and the rounding of what is found.

    Parameters
    ----------
    x, y, *layers, steps
        As of `adam_steps`.
    """
    exact = adam_steps(*(part.astype(np.float64) for part in (x, y, *layers)), steps=steps)
    half = x.dtype == np.float16
    allowed = RATE * steps * (0.5 if half else 0.01) + (1e-3 if half else 0)

    def error(parameters: Sequence[Array]) -> float:
        pairs = zip(parameters, exact, strict=True)
        worst = np.max([np.mean((a.reshape(b.shape) - b) ** 2) for a, b in pairs])
        return math.sqrt(worst) / allowed

    return error


# Networks of two layers of ours, with parameters that are given.


def prepared_forward(case: Case, x: Any, *parameters: Any) -> Run:
    """A pass whose arguments are bound beforehand."""
    model, out = _network(case, case.size[1:], parameters), case.empty(*case.size[::3])
    launch = model.prepare(x, out=out)
    kept = x, model, out
    return lambda: (launch(), kept)[1][2]


def called_forward(case: Case, x: Any, *parameters: Any) -> Run:
    """A pass as users write it."""
    model, out = _network(case, case.size[1:], parameters), case.empty(*case.size[::3])
    return lambda: model(x, out=out)


def trained(case: Case, x: Any, y: Any, *parameters: Any) -> Run:
    """Steps of Adam through the samples in order, each run from where the last one ended.

    Parameters
    ----------
    case : Case
        Its size has the steps, the samples of a step and the widths of layers.
    x, y : array, shapes (samples, inputs) and (samples, outputs)
    *parameters : array
        Weights and biases, layer by layer.
    """
    steps, batch = case.size[:2]
    model = _network(case, case.size[2:], parameters)
    adam = Adam(RATE)
    trainer = trainer_for(model, Step(mse, adam, batch))
    order = case.device.from_numpy(np.arange(steps * batch, dtype=np.int32)[None])
    numbers = adam.numbers(1, [adam.lr] * steps).astype(case.dtype.register.numpy)
    launch = trainer.prepare(x, y, order, case.device.from_numpy(numbers))
    result = tuple(model.parameters())
    return lambda: (launch(), result)[1]


def _network(case: Case, widths: Sequence[int], parameters: tuple[Any, ...]) -> MLP:
    model = MLP(widths, dtype=case.dtype, device=case.device)
    host = (case.device.to_numpy(part) for part in parameters)
    model.load_state_dict(dict(zip(model.state_dict(), host, strict=True)))
    return model
