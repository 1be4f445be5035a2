"""A chain of element-wise functions as one kernel, beside the libraries that do it step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import portable
from portable.dtypes import DType, float32, float64
from portable.tune.verify import worst_error
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

__all__ = ["Fuse"]

_FLOPS: Final = 9.0
_ULPS: Final = 64.0
_LIBRARIES: Final = {"cuda": "CuPy", "rocm": "CuPy", "sycl": "dpnp", "opencl": "portable.array"}


def _gelu(x: Any, tanh: Callable[[Any], Any]) -> Any:
    return 0.5 * x * (1 + tanh(0.7978846 * (x + 0.044715 * x * x * x)))


class Fuse(Operation):
    """GELU, eight steps on one array: one reading and one writing of memory if they are fused."""

    name = "fuse"
    axes = ("N",)
    sizes = Sizes(
        quick={"cpu": "4194304", "gpu": "67108864", "simulator": "4096"},
        sweep={"cpu": "1024..4194304", "gpu": "1024..67108864"},
    )
    dtypes = (float32, float64)

    def work(self, size: Size, dtype: DType) -> Work:
        """The array is read and the result written."""
        return Work(_FLOPS * size[0], 2.0 * size[0] * dtype.itemsize)

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Of normal distribution."""
        return (np.random.default_rng(1).standard_normal(size[0]).astype(dtype.numpy),)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """Within 64 ulp of double precision's, of numbers up to 1 in size."""
        exact = _gelu(inputs[0].astype(np.float64), np.tanh)
        bound = _ULPS * np.finfo(case.dtype.numpy).eps
        return lambda result: worst_error(result, exact, float(bound))

    def contenders(self, case: Case) -> Sequence[Contender]:
        """`portable.fuse`, the device's array library step by step, and CuPy's own fusion."""
        library = _LIBRARIES.get(case.device.backend, "NumPy")
        found = [
            Contender("portable", partial(_fused, portable.fuse), case.device),
            Contender(library, partial(_stepwise, case), case.device, peer=True),
        ]
        if library == "CuPy":
            found.append(
                Contender("CuPy, fused", partial(_fused, _cupy_fuse), case.device, peer=True)
            )
        return found


def _fused(fuse: Callable[[Any], Any], x: Any) -> Run:
    def gelu(x: Any) -> Any:
        return _gelu(x, np.tanh)

    return partial(fuse(gelu), x)


def _cupy_fuse(function: Any) -> Any:
    import cupy

    def gelu(x: Any) -> Any:
        return _gelu(x, cupy.tanh)

    return cupy.fuse()(gelu)


def _stepwise(case: Case, x: Any) -> Run:
    return partial(_gelu, x, case.device.namespace().tanh)
