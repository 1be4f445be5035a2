"""Convolution with filters of 3 x 3, beside PyTorch's by cuDNN or oneDNN, or NumPy's."""

from functools import partial
from typing import Final

from portable_bench.convolutions import by_products
from portable_bench.operation import Case, Size, Sizes, Ways
from portable_bench.operations.conv_layers import ConvLayers
from portable_bench.peers import Peers, on_host

_ALGORITHMS: Final = ("direct", "winograd2", "winograd4")


class Conv(ConvLayers):
    """`portable.conv` of N images of C x H x W with K filters, no padding, filters prepared."""

    name = "conv"
    axes = ("C", "H", "W", "K", "N")
    sizes = {
        "cpu": Sizes("64x50x50x64x1", full="64x112x112x64x1,256x50x50x256x1,192x12x12x256x1"),
        "gpu": Sizes("128x50x50x256x64", full="64x112x112x128x64,256x50x50x512x64"),
        "simulator": Sizes("2x6x6x2x1"),
    }

    def window(self, size: Size) -> tuple[int, int, int, int]:
        return 3, 1, 0, 1

    def ladder(self, case: Case) -> Ways:
        return {name: partial(self.prepare, case, algorithm=name) for name in _ALGORITHMS}

    def peers(self, case: Case) -> Peers:
        return super().peers(case) or on_host(case, "NumPy, tensordot", by_products)
