"""Networks and samples for tests of training, which goes in one launch or layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable.backend import Device
from portable.nn import MLP
from tests.nn import numpy_network

Array = np.ndarray[Any, Any]

WAYS = ["one launch", "layer by layer"]
SIZES = (3, 7, 2)
"""One network for most tests, since every other one is another program to compile."""
MSE = numpy_network.mse


BOTH = (True, True)
FUSED = (True, False)
LAYERS = (False, True)
"""Which ways a case is trained; what other cases cover is left out, being slow to compile."""


def precision(device: Device) -> str:
    return "float64" if device.capabilities.float64 else "float32"


def network(device: Device) -> MLP:
    return MLP(SIZES, device=device, dtype=precision(device))


def samples(count: int, sizes: Sequence[int], dtype: str, targets: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng([count, *sizes])
    x = random.standard_normal((count, sizes[0])).astype(dtype)
    return x, random.standard_normal((count, targets or sizes[-1])).astype(dtype)


def doubled(model: MLP) -> dict[str, Array]:
    return {name: value.astype(float) for name, value in model.state_dict().items()}


def assert_near(
    found: dict[str, Array], exact: dict[str, Array], dtype: str, slack: float = 1
) -> None:
    tolerance = slack * {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}[dtype]
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)
