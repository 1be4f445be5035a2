"""A nonlinear stencil forward and backward, beside what other libraries do for both."""

from typing import Any

import numpy as np

import portable
from portable import lang as kl
from portable.dtypes import float32, float64
from portable.primitives import copy, fill
from portable_bench.operation import Case, Operation, Run, Sizes, Work


@portable.kernel
def stencil(x: Any, y: Any) -> None:
    """Each inner element times the sum of its differences to four neighbours."""
    i, j = kl.global_id(1), kl.global_id(0)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        middle = x[i, j]
        around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
        y[i, j] = middle * (around - 4 * middle)


class StencilGradient(Operation):
    """The gradient of a sum over a stencil, the stencil itself before it."""

    name = "stencil_gradient"
    axes = ("N",)
    sizes = {"cpu": Sizes("1024", full="2048"), "gpu": Sizes("4096"), "simulator": Sizes("64")}
    dtypes = (float32, float64)
    ulps = 64

    def shapes(self, size: Any) -> Any:
        return ((size[0], size[0]),)

    def work(self, case: Case) -> Work:
        cells = float(case.size[0]) ** 2
        return Work(24 * cells, case.bytes(5 * cells))

    def exact(self, x: Any) -> Any:
        """Worked out by hand, in double precision."""
        x = x.astype(np.float64)
        out, middle = np.zeros_like(x), x[1:-1, 1:-1]
        sides = ((slice(0, -2), slice(1, -1)), (slice(2, None), slice(1, -1)))
        sides += tuple((b, a) for a, b in sides)
        for side in sides:
            out[side] += middle
            out[1:-1, 1:-1] += x[side]
        out[1:-1, 1:-1] -= 8 * middle
        return out

    def prepare(self, case: Case, x: Any) -> Run:
        y, gy, gx = copy(x), copy(x), copy(x)
        over = (x.shape[::-1], None)
        adjoint = portable.vjp(stencil)[over]

        def run() -> Any:
            stencil[over](x, y)
            fill(gy, 1)
            fill(gx, 0)
            adjoint(x, y, gx, gy)
            return gx

        return run
