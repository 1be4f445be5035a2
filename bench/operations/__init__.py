"""The operations that can be measured, a file each."""

from typing import Final

from portable_bench.operation import Operation
from portable_bench.operations.band import Band
from portable_bench.operations.fuse import Fuse
from portable_bench.operations.gemm import Gemm
from portable_bench.operations.launch import Launch
from portable_bench.operations.mlp import Forward, Train
from portable_bench.operations.roofs import Copy, MultiplyAdd
from portable_bench.operations.svdvals import Svdvals

__all__ = ["OPERATIONS"]

_ALL: Final = (
    Copy(),
    MultiplyAdd(),
    Gemm(),
    Band(),
    Svdvals(),
    Forward(),
    Train(),
    Fuse(),
    Launch(),
)

OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}
"""By name, in the order in which they are run."""
