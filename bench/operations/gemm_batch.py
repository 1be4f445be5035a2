"""Products of many small matrices at once, beside the array libraries' own."""

from portable_bench.operation import Sizes
from portable_bench.products import Products


class GemmBatch(Products):
    """``a[i] @ b[i]`` of M x K and K x N matrices, into an array that exists."""

    name = "gemm_batch"
    axes = ("COUNT", "M", "N", "K")
    brief = False
    sizes = {
        "cpu": Sizes("64x64x64x64,16x128x128x128"),
        "gpu": Sizes("256x256x256x256,1000x64x64x64"),
        "simulator": Sizes("3x4x5x6"),
    }
