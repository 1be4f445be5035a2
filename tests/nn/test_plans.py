"""What training does on a processor, run by the simulator."""

from __future__ import annotations

import numpy as np

import portable
from portable.nn import MLP, SGD, mse
from portable.nn.layered import LayeredTrainer
from portable.nn.optimizers import Step


def test_halves_are_taken_by_vectors_of_the_language() -> None:
    """A processor's registers hold more of them."""
    with portable.use("simulator:intel-cpu") as device:
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 32), (2, 1)))
        model = MLP((32, 1), device=device, dtype="float16")
        state = {name: value.astype(np.float64) for name, value in model.state_dict().items()}
        wanted = np.mean((x @ state["0.weight"].T + state["0.bias"] - y) ** 2)
        trainer = LayeredTrainer(model, Step(mse, SGD(0.1), 2))
        given = device.from_numpy(x), device.from_numpy(y), np.arange(2, dtype=np.int32)[None]
        (epoch,) = trainer.epochs(*given, SGD(0.1).numbers(1, [0.1]))
    assert abs(epoch.loss - wanted) < 0.01 * wanted
