"""Eigenvalues and eigenvectors of matrices that are not symmetric, by LAPACK on the host.

No way to compute them on devices is here yet, since each step of their QR iterations hangs on the
one before: matrices go to the host and the results come back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from portable.array.array import Array
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.primitives.maps.engine import check_arrays
from portable.recording import taped


class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors as columns; complex all."""

    eigenvalues: Array
    eigenvectors: Array


@taped
def eig(x: Array, /) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices: LAPACK's ?geev, on the host.

    Waits for the device, copies the matrices to the host and the results back. For symmetric and
    Hermitian matrices take `eigh`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex.

    Returns
    -------
    eigenvalues : Array
        ``(..., n)``, in no order; complex, of the precision of `x`.
    eigenvectors : Array
        ``(..., n, n)``, as columns of norm 1; complex likewise.

    Raises
    ------
    ShapeError
        If matrices are not square.
    DTypeError
        For other dtypes.
    ValueError
        For NaN and infinities, and where the iterations do not converge.
    """
    values, vectors = _on_host("eig", x, np.linalg.eig)
    return EigResult(values, vectors)


@taped
def eigvals(x: Array, /) -> Array:
    """Eigenvalues of square matrices: LAPACK's ?geev, on the host.

    Waits for the device, copies the matrices to the host and the result back. For symmetric and
    Hermitian matrices take `eigvalsh`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex.

    Returns
    -------
    Array
        ``(..., n)``, in no order; complex, of the precision of `x`.

    Raises
    ------
    ShapeError
        If matrices are not square.
    DTypeError
        For other dtypes.
    ValueError
        For NaN and infinities, and where the iterations do not converge.
    """
    return _on_host("eigvals", x, lambda a: (np.linalg.eigvals(a),))[0]  # type: ignore[no-any-return]


def _on_host(name: str, x: Any, function: Any) -> list[Any]:
    """What NumPy's function makes of matrices on the host, as complex arrays of their device."""
    check_arrays(name, x)
    if x.dtype.kind not in "fc" or x.dtype.itemsize < 4:
        raise DTypeError(
            f"{name} takes float32, float64, complex64 and complex128, not {x.dtype.name}"
        )
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not an array of shape {x.shape}")
    try:
        results = function(x.device.to_numpy(x))
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {error}") from None
    kind = np.result_type(dtype(x.dtype).numpy, np.complex64)
    return [x.device.from_numpy(np.asarray(part).astype(kind)) for part in results]
