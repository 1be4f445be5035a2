"""A sparse matrix times a vector, from SciPy's compressed rows (CSR).

A work-item takes a row. Rows may be of any length, also empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import portable as pt
from portable import lang as kl


@pt.kernel
def multiply(values: Any, columns: Any, starts: Any, x: Any, y: Any) -> None:
    """``y = A @ x``; row i holds the values from ``starts[i]`` to ``starts[i + 1]``."""
    row = kl.global_id(0)
    if row < y.shape[0]:
        total = x.dtype(0)
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


def run(matrix: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product of a SciPy CSR array and a vector of its dtype."""
    xp = pt.xp()
    y = xp.empty(matrix.shape[0], dtype=getattr(xp, matrix.dtype.name))
    parts = (matrix.data, matrix.indices, matrix.indptr, x)
    multiply[matrix.shape[0], None](*(xp.asarray(part) for part in parts), y)
    return np.asarray(pt.to_numpy(y))


def main() -> None:
    """Multiplies by the five-point Laplacian of a grid."""
    n = 500
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    matrix = scipy.sparse.csr_array(scipy.sparse.kronsum(line, line).astype(np.float32))
    x = np.random.default_rng(0).standard_normal(n * n).astype(np.float32)
    error = np.abs(run(matrix, x) - matrix @ x).max()
    print(f"{pt.device().name}: {matrix.nnz} elements, largest difference to SciPy {error:.1e}")


if __name__ == "__main__":
    main()
