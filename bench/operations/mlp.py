"""A network of two layers: a forward pass, and steps of training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import DType, float16
from portable.nn import MLP, Adam, mse
from portable.nn.training import trainer_for
from portable_bench import networks
from portable_bench.operation import (
    Array,
    Case,
    Contender,
    Operation,
    Run,
    Size,
    Sizes,
    Verifier,
    Work,
)
from portable_bench.peers import libraries
from portable_bench.torch_networks import torch_forward, torch_training

__all__ = ["Forward", "Train"]


class Forward(Operation):
    """Outputs of a network for a batch of inputs, into an array that exists."""

    name = "mlp"
    axes = ("ROWS", "IN", "HIDDEN", "OUT")
    sizes = Sizes(
        quick={"cpu": "1024x10x20x5", "gpu": "1024x10x20x5", "simulator": "8x3x5x2"},
        full={
            "cpu": "1024x10x20x5,1024x10x64x1,2048x256x512x256",
            "gpu": "1024x10x20x5,1024x10x64x1,8192x1024x4096x1024",
        },
    )

    def work(self, size: Size, dtype: DType) -> Work:
        """A multiplication and an addition per weight and row; samples and weights once."""
        rows, inputs, hidden, outputs = size
        weights = hidden * (inputs + outputs)
        moved = weights + hidden + outputs + rows * (inputs + outputs)
        return Work(2.0 * rows * weights, float(dtype.itemsize * moved))

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Samples of normal distribution, and the parameters."""
        random = np.random.default_rng(1)
        x = random.standard_normal(size[:2])
        parts = (x, *networks.parameters(size[1:], random))
        return tuple(part.astype(dtype.numpy) for part in parts)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """By the same network in double precision; some rows where there are many."""
        return lambda found: networks.error_of_outputs(found, *inputs)

    def contenders(self, case: Case) -> Sequence[Contender]:
        """A prepared pass and a call of ours, then the libraries' and PyTorch's."""
        return [
            Contender("portable", partial(_prepared, case), case.device),
            Contender("portable, called", partial(_called, case), case.device),
            *_libraries(case),
            *torch_forward(case),
        ]


def _network(case: Case, widths: Sequence[int], parameters: tuple[Any, ...]) -> MLP:
    model = MLP(widths, dtype=case.dtype, device=case.device)
    host = (case.device.to_numpy(part) for part in parameters)
    model.load_state_dict(dict(zip(model.state_dict(), host, strict=True)))
    return model


def _prepared(case: Case, x: Any, *parameters: Any) -> Run:
    model = _network(case, case.size[1:], parameters)
    out = case.device.empty((case.size[0], case.size[-1]), case.dtype)
    launch = model.prepare(x, out=out)
    kept = x, model, out
    return lambda: (launch(), kept)[1][2]


def _called(case: Case, x: Any, *parameters: Any) -> Run:
    model = _network(case, case.size[1:], parameters)
    out = case.device.empty((case.size[0], case.size[-1]), case.dtype)
    return lambda: model(x, out=out)


def _libraries(case: Case) -> list[Contender]:
    return [
        Contender(
            p.name, lambda *given, xp=p.namespace: _by_library(xp, given), p.device, peer=True
        )
        for p in libraries(case.device, case.dtype)
    ]


def _by_library(xp: Any, given: tuple[Any, ...]) -> Run:
    return lambda: networks.forward(xp, *given)[1]


class Train(Operation):
    """Steps of Adam on the mean squared error, one after another through the samples."""

    name = "train"
    axes = ("STEPS", "BATCH", "IN", "HIDDEN", "OUT")
    sizes = Sizes(
        quick={"cpu": "16x256x10x64x1", "gpu": "16x256x10x64x1", "simulator": "2x8x3x5x2"},
        full={
            "cpu": "16x256x10x64x1,4x1024x64x256x64",
            "gpu": "16x256x10x64x1,4x1024x64x256x64,4x8192x1024x4096x1024",
        },
    )

    def work(self, size: Size, dtype: DType) -> Work:
        """Three products per weight and sample, but for the slopes of the samples themselves."""
        steps, batch, inputs, hidden, outputs = size
        products = hidden * (2 * inputs + 3 * outputs)
        moved = steps * batch * (inputs + outputs)
        return Work(2.0 * steps * batch * products, float(dtype.itemsize * moved))

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Samples and targets of normal distribution, and the parameters."""
        steps, batch, inputs, _, outputs = size
        random = np.random.default_rng(1)
        x = random.standard_normal((steps * batch, inputs))
        y = random.standard_normal((steps * batch, outputs))
        parts = (x, y, *networks.parameters(size[2:], random))
        return tuple(part.astype(dtype.numpy) for part in parts)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """By the same steps in double precision."""
        steps = case.size[0]
        return lambda found: networks.error_of_parameters(found, *inputs, steps=steps)

    def contenders(self, case: Case) -> Sequence[Contender]:
        """Ours, PyTorch's, and NumPy's where the device is a processor."""
        found = [Contender("portable", partial(_trained, case), case.device)]
        if case.device.capabilities.kind == "cpu" and case.dtype is not float16:
            found.append(Contender("NumPy", partial(_by_numpy, case.size[0]), None, peer=True))
        return [*found, *torch_training(case, case.size[0])]


def _trained(case: Case, x: Any, y: Any, *parameters: Any) -> Run:
    steps, batch = case.size[:2]
    model = _network(case, case.size[2:], parameters)
    adam = Adam(networks.RATE)
    trainer = trainer_for(model, mse, adam, None, batch)
    order = case.device.from_numpy(np.arange(steps * batch, dtype=np.int32)[None])
    numbers = adam.numbers(1, [adam.lr] * steps).astype(case.dtype.register.numpy)
    launch = trainer.prepare(x, y, order, case.device.from_numpy(numbers))
    found = tuple(model.parameters())
    return lambda: (launch(), found)[1]


def _by_numpy(steps: int, *given: Array) -> Run:
    return lambda: networks.adam_steps(*given, steps=steps)
