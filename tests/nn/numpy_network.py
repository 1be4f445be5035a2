"""Networks and optimizers in plain NumPy and double precision, written for the tests alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

Array = np.ndarray[Any, Any]
State = dict[str, Array]

ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (2 + np.exp(x) + np.exp(-x))),
    "relu6": (lambda x: np.clip(x, 0, 6), lambda x: ((x > 0) & (x < 6)).astype(float)),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, lambda x: (abs(x) < 3) / 6),
    "hardswish": (
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(abs(x) < 3, x / 3 + 0.5, x > 0),
    ),
    "silu": (lambda x: x * expit(x), lambda x: expit(x) * (1 + x * expit(-x))),
    "gelu": (
        lambda x: x * ndtr(x),
        lambda x: ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    ),
}


def mse(error: Array) -> tuple[Array, Array]:
    return error**2, 2 * error


def mae(error: Array) -> tuple[Array, Array]:
    return abs(error), np.sign(error)


def huber(delta: float) -> Callable[[Array], tuple[Array, Array]]:
    def term(error: Array) -> tuple[Array, Array]:
        near = abs(error) <= delta
        loss = np.where(near, error**2 / 2, delta * (abs(error) - delta / 2))
        return loss, np.where(near, error, delta * np.sign(error))

    return term


def quantile(levels: Sequence[float]) -> Callable[[Array], tuple[Array, Array]]:
    def term(error: Array) -> tuple[Array, Array]:
        level = np.tile(levels, error.shape[1] // len(levels))
        loss = np.maximum(-level * error, (1 - level) * error)
        return loss, np.where(error < 0, -level, 1 - level)

    return term


def forward(state: State, x: Array, activation: str) -> tuple[Array, list[Array], list[Array]]:
    """Outputs; and for each layer what went in, and what came out before the activation."""
    inputs, sums = [], []
    count = len(state) // 2
    for i in range(count):
        inputs.append(x)
        z = x @ state[f"{2 * i}.weight"].astype(float).T + state[f"{2 * i}.bias"].astype(float)
        sums.append(z)
        x = ACTIVATIONS[activation][0](z) if i < count - 1 else z
    return x, inputs, sums


def gradients(state: State, x: Array, y: Array, activation: str, term: Any) -> tuple[float, State]:
    """The mean loss and its gradient."""
    predicted, inputs, sums = forward(state, x.astype(float), activation)
    wanted = np.repeat(y.astype(float), predicted.shape[1] // y.shape[1], axis=1)
    loss, slope = term(predicted - wanted)
    slope = slope / slope.size
    found: State = {}
    for i in reversed(range(len(inputs))):
        found[f"{2 * i}.weight"] = slope.T @ inputs[i]
        found[f"{2 * i}.bias"] = slope.sum(axis=0)
        if i > 0:
            back = slope @ state[f"{2 * i}.weight"].astype(float)
            slope = back * ACTIVATIONS[activation][1](sums[i - 1])
    return float(loss.mean()), found


# -- optimizers, as PyTorch documents them --------------------------------------------------------


class SGD:
    def __init__(self, lr: float, momentum: float = 0, nesterov: bool = False, decay: float = 0):
        self.lr, self.momentum, self.nesterov, self.decay = lr, momentum, nesterov, decay
        self.buffers: State = {}

    def step(self, state: State, gradient: State) -> State:
        return {name: self._one(name, p, gradient[name]) for name, p in state.items()}

    def _one(self, name: str, p: Array, g: Array) -> Array:
        g = g + self.decay * p
        if self.momentum:
            first = name not in self.buffers
            b = self.buffers[name] = g if first else self.momentum * self.buffers[name] + g
            g = g + self.momentum * b if self.nesterov else b
        return p - self.lr * g


class Adam:
    def __init__(self, lr: float, betas: Any, eps: float, decay: float, decoupled: bool):
        self.lr, self.betas, self.eps, self.decay, self.decoupled = lr, betas, eps, decay, decoupled
        self.t = 0
        self.m: State = {}
        self.v: State = {}

    def step(self, state: State, gradient: State) -> State:
        self.t += 1
        return {name: self._one(name, p, gradient[name]) for name, p in state.items()}

    def _one(self, name: str, p: Array, g: Array) -> Array:
        beta1, beta2 = self.betas
        if self.decoupled:
            p = p - self.lr * self.decay * p
        else:
            g = g + self.decay * p
        m = self.m[name] = beta1 * self.m.get(name, 0) + (1 - beta1) * g
        v = self.v[name] = beta2 * self.v.get(name, 0) + (1 - beta2) * g**2
        corrected_m = m / (1 - beta1**self.t)
        corrected_v = v / (1 - beta2**self.t)
        return p - self.lr * corrected_m / (np.sqrt(corrected_v) + self.eps)
