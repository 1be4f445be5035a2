"""A sparse matrix to measure with, and the libraries that multiply it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

from portable.dtypes import DType
from portable_bench.operation import Array, Run

EACH: Final = 16
"""Numbers in each row."""


def graph(n: int, kind: DType) -> tuple[Array, ...]:
    """Numbers from 0 to 1, their columns, where rows begin, and a vector to multiply.

    Parameters
    ----------
    n : int
        Rows and columns.
    kind : DType
        Of the numbers.
    """
    random = np.random.default_rng(1)
    data, x = (random.random(count).astype(kind.numpy) for count in (n * EACH, n))
    columns = random.integers(0, n, n * EACH, np.int32)
    return data, columns, np.arange(0, n * EACH + 1, EACH, dtype=np.int32), x


def by_library(module: str, data: Any, columns: Any, offsets: Any, x: Any) -> Run:
    """A product by a module with SciPy's classes.

    Parameters
    ----------
    module : str
        Its name.
    data, columns, offsets, x : array
        As of `graph`.
    """
    matrix = import_module(module).csr_matrix((data, columns, offsets), shape=(len(x), len(x)))
    return partial(matrix.__matmul__, x)
