"""Convolution with filters of 3 x 3, beside PyTorch's by cuDNN or oneDNN, or NumPy's."""

from functools import partial
from typing import Any, Final

from portable_bench.convolutions import SampledPlanes, by_products, prepared
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Verifier, Ways, Work
from portable_bench.peers import Peers, on_host
from portable_bench.torch_peers import torch_conv

_ALGORITHMS: Final = ("direct", "winograd2", "winograd4")


class Conv(Operation):
    """`portable.conv` of N images of C x H x W with K filters, no padding, filters prepared."""

    name = "conv"
    axes = ("C", "H", "W", "K", "N")
    brief = False
    sizes = {
        "cpu": Sizes("64x50x50x64x1", full="64x112x112x64x1,256x50x50x256x1,192x12x12x256x1"),
        "gpu": Sizes("128x50x50x256x64", full="64x112x112x128x64,256x50x50x512x64"),
        "simulator": Sizes("2x6x6x2x1"),
    }

    def shapes(self, size: Size) -> Shapes:
        c, h, w, k, n = size
        return (n, c, h, w), (k, c, 3, 3)

    def work(self, case: Case) -> Work:
        """Operations as of direct convolution, which Winograd's does with fewer."""
        c, h, w, k, n = case.size
        results = n * k * (h - 2) * (w - 2)
        return Work(18.0 * c * results, case.bytes(n * c * h * w + 9 * c * k + results))

    def verifier(self, case: Case, x: Any, w: Any) -> Verifier:
        return SampledPlanes(x, w, 2e-5 if case.dtype.itemsize == 4 else 2e-3).error

    def prepare(self, case: Case, x: Any, w: Any, algorithm: Any = "auto") -> Run:
        return prepared(case, x, w, algorithm)

    def ladder(self, case: Case) -> Ways:
        return {name: partial(self.prepare, case, algorithm=name) for name in _ALGORITHMS}

    def peers(self, case: Case) -> Peers:
        return torch_conv(case) or on_host(case, "NumPy, tensordot", by_products)
