"""Networks of two layers of ours, with parameters that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable.nn import MLP, Adam, mse
from portable.nn.step import Step
from portable.nn.training import trainer_for
from portable_bench.networks import RATE
from portable_bench.operation import Case, Run


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
