"""A nonlinear stencil forward and backward, beside what other libraries do for both."""

from typing import Any

import portable
from portable.dtypes import float32, float64
from portable.primitives import copy, fill
from portable_bench.operation import Case, Operation, Run, Sizes, Work
from portable_bench.peers import Peers
from portable_bench.stencil import exact_gradient, stencil
from portable_bench.torch_peers import torch_stencil_gradient


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
        return exact_gradient(x)

    def peers(self, case: Case) -> Peers:
        """PyTorch's."""
        return torch_stencil_gradient(case)

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
