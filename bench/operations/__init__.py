"""The operations that can be measured, a file each."""

from typing import Final

from portable_bench.operation import Operation
from portable_bench.operations.band import Band
from portable_bench.operations.gemm import Gemm
from portable_bench.operations.launch import Launch

__all__ = ["OPERATIONS"]

OPERATIONS: Final[dict[str, Operation]] = {op.name: op for op in (Gemm(), Band(), Launch())}
"""By name, in the order in which they are run."""
