"""The operations that can be measured, a file each."""

from typing import Final

from portable_bench.operation import Operation
from portable_bench.operations.array_functions import ArrayFunction
from portable_bench.operations.band import Band
from portable_bench.operations.cholesky import Cholesky
from portable_bench.operations.conv import Conv
from portable_bench.operations.conv_layers import ConvLayers
from portable_bench.operations.copy import Copy
from portable_bench.operations.eigh import Eigh
from portable_bench.operations.fft import Fft
from portable_bench.operations.forward import Forward
from portable_bench.operations.fuse import Fuse
from portable_bench.operations.gemm import Gemm
from portable_bench.operations.gemm_batch import GemmBatch
from portable_bench.operations.gemm_nt import GemmNt
from portable_bench.operations.gemm_tn import GemmTn
from portable_bench.operations.gf2_echelon import Gf2Echelon
from portable_bench.operations.gf2_eliminate import Gf2Eliminate
from portable_bench.operations.gf2_matmul import Gf2Matmul
from portable_bench.operations.launch import Launch
from portable_bench.operations.lookup import Lookup
from portable_bench.operations.lu import Lu
from portable_bench.operations.multiply_add import MultiplyAdd
from portable_bench.operations.qr import Qr
from portable_bench.operations.solve import Solve
from portable_bench.operations.spmv import Spmv
from portable_bench.operations.stencil_gradient import StencilGradient
from portable_bench.operations.svd import Svd
from portable_bench.operations.svdvals import Svdvals
from portable_bench.operations.train import Train

__all__ = ["OPERATIONS"]

_ALL: Final = (
    Copy(),
    MultiplyAdd(),
    Gemm(),
    GemmNt(),
    GemmTn(),
    GemmBatch(),
    Conv(),
    ConvLayers(),
    Band(),
    Svdvals(),
    Spmv(),
    Svd(),
    Eigh(),
    Cholesky(),
    Lu(),
    Qr(),
    Solve(),
    Forward(),
    Train(),
    Fuse(),
    StencilGradient(),
    ArrayFunction("add", takes=2, ulps=1),
    ArrayFunction("sum", gives=0, ulps=16),
    ArrayFunction("cumulative_sum", ulps=256),
    ArrayFunction("sort", brief=False),
    Fft("fft", takes=2, brief=False),
    Fft("rfft", brief=False),
    Launch(),
    Lookup(),
    Gf2Matmul(),
    Gf2Echelon(),
    Gf2Eliminate(),
)

OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}
"""By name, in the order in which they are run."""
