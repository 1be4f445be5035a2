"""M4RI, the library for dense matrices over GF(2), through ctypes; Debian has it as libm4ri-dev."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes.util import find_library
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np

from portable_bench.operation import Array, Run

_ROWS_AT: Final = 56
"""Where its structure ``mzd_t`` holds the pointers to rows, in versions of 2020."""


@cache
def _library() -> Any:
    name = find_library("m4ri")
    if name is None:
        return None
    library = ctypes.CDLL(name)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for function, result, arguments in (
        ("mzd_init", pointer, (number, number)),
        ("mzd_free", None, (pointer,)),
        ("mzd_copy", pointer, (pointer, pointer)),
        ("mzd_mul", pointer, (pointer, pointer, pointer, number)),
        ("mzd_echelonize", number, (pointer, number)),
    ):
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


def available() -> bool:
    """Whether the library is installed."""
    return _library() is not None


class M4RIMatrix:
    """One of its matrices, freed with this object.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns.
    words : array of uint64, optional
        As `portable.gf2.BitMatrix` has them, which is also how M4RI has them; zeros if left out.
    """

    def __init__(self, shape: tuple[int, int], words: Array | None = None) -> None:
        self._library = _library()
        self._shape = shape
        self._held = self._library.mzd_init(*shape)
        if words is not None:
            for row, address in zip(np.ascontiguousarray(words), self._addresses(), strict=True):
                ctypes.memmove(address, row.ctypes.data, row.nbytes)

    def __del__(self) -> None:
        self._library.mzd_free(self._held)

    def _addresses(self) -> list[int]:
        rows = ctypes.c_void_p.from_address(self._held + _ROWS_AT).value
        assert rows is not None
        return list((ctypes.c_uint64 * self._shape[0]).from_address(rows))

    def words(self) -> Array:
        """The words as a NumPy array."""
        out = np.empty((self._shape[0], -(-self._shape[1] // 64)), np.uint64)
        for row, address in zip(out, self._addresses(), strict=True):
            ctypes.memmove(row.ctypes.data, address, row.nbytes)
        return out

    def returning(self, work: Callable[[], None]) -> Callable[[], Array]:
        """`work` on this matrix, which then gives its words: once, when first run.

        Later runs are timed, and give nothing.
        """
        runs = count()

        def run() -> Array:
            work()
            return np.empty(0) if next(runs) else self.words()

        return run

    def become(self, other: M4RIMatrix) -> None:
        """Takes the elements of another of the same shape."""
        self._library.mzd_copy(self._held, other._held)

    def multiply(self, a: M4RIMatrix, b: M4RIMatrix) -> None:
        """Becomes ``a @ b``, by Strassen's method and tables of combinations."""
        self._library.mzd_mul(self._held, a._held, b._held, 0)

    def echelonize(self) -> None:
        """Becomes its row echelon form, not reduced."""
        self._library.mzd_echelonize(self._held, 0)


def m4ri_echelon(columns: int, *parts: Array) -> Run:
    """The echelon form of rows, some after the others, as a contender."""
    both = np.concatenate(parts)
    given, work = (M4RIMatrix((len(both), columns), x) for x in (both, None))

    def run() -> None:
        work.become(given)
        work.echelonize()

    return work.returning(run)


def m4ri_product(n: int, a: Array, b: Array) -> Run:
    """The product of squares, as a contender.

    Parameters
    ----------
    n : int
        Their rows and columns.
    a, b : numpy.ndarray of uint64, shape (n, words)
        The bits of each row, packed.
    """
    left, right, out = M4RIMatrix((n, n), a), M4RIMatrix((n, n), b), M4RIMatrix((n, n))
    return out.returning(lambda: out.multiply(left, right))
