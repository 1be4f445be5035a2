"""Products of two matrices: what those of all forms and of batches have in common."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from portable.dtypes import bfloat16, float32
from portable.linalg import gemm, prepare_gemm
from portable.linalg.products.check import tolerance
from portable.linalg.products.plan import ALGORITHMS, PRECISIONS
from portable.tune.search import worst_error
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Verifier, Ways, Work
from portable_bench.peers import PRODUCTS, Peers, in_libraries

# The ways in which a product of matrices is made on a device, from the plainest.


def rungs(case: Case) -> dict[str, dict[str, str]]:
    """Arguments of `portable.linalg.gemm`: all algorithms, and the coarser precisions there."""
    ways = {name: {"algorithm": name} for name in ALGORITHMS if name not in ("auto", "vendor")}
    units = "mma.tf32" in case.device.capabilities.matrix_units
    coarser = PRECISIONS[1:] if units and case.dtype is float32 else ()
    return ways | {name: {"precision": name} for name in coarser}


# -- products --------------------------------------------------------------------------------------


class Products(Operation):
    """M x K times K x N matrices; where a size has one extent more it counts pairs of them.

    Attributes
    ----------
    form : {"nn", "nt", "tn"}
        Which factor is the transpose of an array whose rows are contiguous, in BLAS's letters.
    """

    form: ClassVar[str] = "nn"

    def shapes(self, size: Size) -> Shapes:
        """Of the arrays that are given, of which some are transposes."""
        *count, m, n, k = size
        shapes = zip(((m, k), (k, n)), self.form, strict=True)
        return [(*count, *(shape[::-1] if turn == "t" else shape)) for shape, turn in shapes]

    def work(self, case: Case) -> Work:
        """A multiplication and an addition per term; factors and result once."""
        *count, m, n, k = case.size
        pairs = count[0] if count else 1
        return Work(2.0 * pairs * m * n * k, case.bytes(pairs * (m * k + k * n + m * n)))

    def factors(self, *arrays: Any) -> list[Any]:
        """The matrices as they are multiplied: views of what `shapes` says."""
        return [x.T if turn == "t" else x for x, turn in zip(arrays, self.form, strict=True)]

    def verifier(self, case: Case, *arrays: Any) -> Verifier:
        """By products in double precision, as accurate as `gemm` promises."""
        a, b = (x.astype(np.float64) for x in self.factors(*arrays))
        allowed = tolerance(case.size[-1], case.dtype) * (np.abs(a) @ np.abs(b))
        return partial(worst_error, exact=a @ b, allowed=allowed)

    def prepare(self, case: Case, *arrays: Any, **how: Any) -> Run:
        """`portable.linalg.gemm` as it is called."""
        return partial(gemm, *self.factors(*arrays), out=_room(case), **how)

    def ways(self, case: Case) -> Ways:
        """Called and prepared."""
        return {
            "portable": partial(self.prepare, case),
            "portable, prepared": partial(self._prepared, case),
        }

    def peers(self, case: Case) -> Peers:
        """The products of the array libraries."""
        if case.dtype is bfloat16:  # array libraries lack it
            return ()
        return in_libraries(case, self._in_library, PRODUCTS)

    def _prepared(self, case: Case, *arrays: Any, **how: Any) -> Run:
        out = _room(case)
        product = prepare_gemm(*self.factors(*arrays), out=out, **how)

        def run() -> Any:
            product()
            return out

        return run

    def _in_library(self, xp: Any, *arrays: Any) -> Run:
        a, b = self.factors(*arrays)
        return partial(xp.matmul, a, b, out=xp.matmul(a, b))


def _room(case: Case) -> Any:
    return case.empty(*case.size[:-1])
