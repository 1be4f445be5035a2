"""A chain of element-wise functions as one kernel, beside the libraries that do it step by step."""

from functools import partial
from typing import Any

import numpy as np

import portable
from portable.dtypes import float32, float64
from portable_bench.operation import Case, Operation, Run, Sizes, Work
from portable_bench.peers import Peers, own_library, peer


def _gelu(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


class Fuse(Operation):
    """GELU, eight steps on one array: one reading and one writing of memory if they are fused."""

    name = "fuse"
    axes = ("N",)
    sizes = {
        "cpu": Sizes("1048576", full="4194304", sweep="1024..4194304"),
        "gpu": Sizes("67108864", sweep="1024..67108864"),
        "simulator": Sizes("4096"),
    }
    dtypes = (float32, float64)
    ulps = 32

    def work(self, case: Case) -> Work:
        return Work(9.0 * case.size[0], case.bytes(2 * case.size[0]))

    def exact(self, x: Any) -> Any:
        return _gelu(np, x.astype(np.float64))

    def prepare(self, case: Case, x: Any) -> Run:
        return partial(portable.fuse(lambda x: _gelu(np, x)), x)

    def peers(self, case: Case) -> Peers:
        peers = own_library(case, lambda xp, x: partial(_gelu, xp, x))
        if case.device.backend in ("cuda", "rocm"):
            peers.append(peer(case, "CuPy, fused", _fused_by_cupy))
        return peers


def _fused_by_cupy(x: Any) -> Run:
    import cupy

    return partial(cupy.fuse(kernel_name="gelu")(lambda x: _gelu(cupy, x)), x)
