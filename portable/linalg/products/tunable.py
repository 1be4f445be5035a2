"""What `portable tune gemm` searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float16, float32, float64
from portable.linalg.products.check import ProductCheck
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.linalg.products.tuning import SPACE, SPACE_NT
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents


class _Product:
    """A product of random matrices on a device, the second perhaps a transposed view."""

    def __init__(self, device: Device, dtype: DType, size: Size, b_columns: bool = False) -> None:
        m, n, k = size
        random = np.random.default_rng(1)
        a = random.standard_normal((m, k)).astype(dtype.numpy)
        b = random.standard_normal((k, n)).astype(dtype.numpy)
        self._device = device
        self._check = ProductCheck(a, b)
        self._unset = np.full((m, n), np.nan, dtype.numpy)
        self._out = device.from_numpy(self._unset)
        second = device.from_numpy(b.T.copy()).T if b_columns else device.from_numpy(b)
        self._operands = device.from_numpy(a), second
        self._constants = {"ACC": dtype.register, "ACTIVATION": keep}

    def run(self, choice: Parameters) -> None:
        """Enqueues the product."""
        launch = tiles_launch(choice, self._unset.shape, self._constants)
        launch.launcher(1.0, *self._operands, 0.0, None, None, self._out, **launch.constants)

    def error(self) -> float:
        """The error of the last result, after which the result is NaN again."""
        error = self._check.error(self._device.to_numpy(self._out))
        self._out = self._device.from_numpy(self._unset)
        return error


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    edges = (1024, 384, 128) if capabilities.single_work_items else (4096, 1024, 256)
    return [(n, n, n) for n in edges]


def _flops(size: Size) -> float:
    m, n, k = size
    return 2.0 * m * n * k


_DTYPES: Final = (float16, float32, float64)

_parse: Final = partial(parse_extents, axes="MxNxK", example="1024 or 512x1024x256")

TUNABLE: Final = Tunable(SPACE, _DTYPES, _sizes, _parse, _flops, _Product)
"""The tile kernel of `portable.linalg.gemm`."""

TUNABLE_NT: Final = replace(TUNABLE, space=SPACE_NT, problem=partial(_Product, b_columns=True))
"""The same for a second matrix whose columns are contiguous."""
