"""What factorisations and decompositions have in common: inputs, peers, whether they are right."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final

import numpy as np

from portable.dtypes import float16, float32, float64
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Verifier
from portable_bench.peers import Peers, in_libraries
from portable_bench.singular_values import ValuesCheck

LIBRARIES: Final = {"cuda": "cuSOLVER", "rocm": "rocSOLVER", "cpu": "LAPACK"}
"""What factors matrices beneath the array libraries."""

_ALLOWED: Final = 30.0
"""Units of roundoff of a norm that an error may come to."""


class Factorisation(Operation):
    """An operation on a matrix of some order."""

    axes: ClassVar[tuple[str, ...]] = ("N",)
    dtypes = (float32, float64)
    sizes: ClassVar[dict[str, Sizes]] = {
        "cpu": Sizes("256", full="200,500,1000,2000", sweep="64..2048"),
        "gpu": Sizes("4096", full="512..8192", sweep="256..8192"),
        "simulator": Sizes("20"),
    }

    def shapes(self, size: Size) -> Shapes:
        """One matrix."""
        return ((size[0], size[-1]),)


class Decomposition(Operation):
    """Values of a matrix, with vectors or without; the values are verified, tests hold vectors."""

    axes: ClassVar[tuple[str, ...]] = ("M", "N")
    square = True
    sizes: ClassVar[dict[str, Sizes]] = {
        "cpu": Sizes("256", full="256..2048", sweep="64..2048"),
        "gpu": Sizes("1024", full="512..4096", sweep="256..16384"),
        "simulator": Sizes("12"),
    }

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """Singular values."""
        return ValuesCheck(*inputs).error

    @abstractmethod
    def theirs(self, xp: Any, a: Any) -> Run:
        """What an array library does."""

    def peers(self, case: Case) -> Peers:
        """None in half precision, which no library takes."""
        return [] if case.dtype is float16 else in_libraries(case, self.theirs, LIBRARIES)


def excess(difference: Any, *factors: Any) -> float:
    """An error as a multiple of what is allowed, which is so many units of the norms' product."""
    if not np.all(np.isfinite(difference)):
        return float("inf")
    eps = float(np.finfo(factors[0].dtype).eps)
    norms = [float(np.linalg.norm(x.astype(np.float64))) for x in factors]
    return float(np.linalg.norm(difference)) / float(np.prod(norms)) / eps / _ALLOWED
