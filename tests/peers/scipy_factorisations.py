"""SciPy's own tests of factorisations, which ours take the place of: a plugin of pytest.

``PORTABLE_BACKEND=opencl:pocl pytest -p tests.peers.scipy_factorisations --pyargs
scipy.linalg.tests.test_basic scipy.linalg.tests.test_decomp_lu ...``. Calls with options that ours
have not (pivoting, ``lower`` of `solve`, LAPACK's drivers) go to SciPy; how many went where is
printed in the end. Tests of warnings, and those that want LAPACK's own roundoff, fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np
import scipy.linalg as theirs

import portable
from portable import linalg as ours

_KINDS: Final = "fdFD"
_LARGEST: Final = 10_000
_counts: Final = Counter[str]()


class _Unlike(Exception):  # noqa: N818 - it is no error
    """Ours have no such call."""


def _arrays(check_finite: bool, *given: Any) -> list[Any]:
    """Arrays of a dtype that both have, on the device."""
    arrays = [np.asarray(x) for x in given]
    if any(x.dtype.kind not in "biufc" or x.ndim < 1 or x.size == 0 for x in arrays):
        raise _Unlike
    if check_finite and not all(np.all(np.isfinite(x)) for x in arrays):
        raise _Unlike  # SciPy's errors
    kind = np.result_type(*arrays)
    if kind == np.float16:
        kind = np.dtype(np.float32)  # as SciPy has it
    if kind.char not in _KINDS:
        kind = np.result_type(kind, np.float64)
    if kind.char not in _KINDS:
        raise _Unlike
    return [portable.device().from_numpy(np.ascontiguousarray(x, kind)) for x in arrays]


def _no(*options: Any) -> None:
    if any(options):
        raise _Unlike


def _solve(
    a: Any, b: Any, lower: Any = False, overwrite_a: Any = False, overwrite_b: Any = False,
    check_finite: bool = True, assume_a: Any = None, transposed: Any = False,
) -> Any:  # fmt: skip
    _no(lower, assume_a not in (None, "gen"), transposed)
    return ours.solve(*_arrays(check_finite, a, b))


def _inv(a: Any, overwrite_a: Any = False, check_finite: bool = True, *, assume_a: Any = None,
         lower: Any = False) -> Any:  # fmt: skip
    _no(assume_a not in (None, "general"), lower)
    return ours.inv(*_arrays(check_finite, a))


def _qr(a: Any, overwrite_a: Any = False, lwork: Any = None, mode: str = "full",
        pivoting: Any = False, check_finite: bool = True) -> Any:  # fmt: skip
    _no(pivoting, lwork is not None, mode not in ("full", "economic"))
    found = ours.qr(*_arrays(check_finite, a), mode="complete" if mode == "full" else "reduced")
    return tuple(found)


def _cholesky(
    a: Any, lower: Any = False, overwrite_a: Any = False, check_finite: Any = True
) -> Any:
    return ours.cholesky(*_arrays(check_finite, a), upper=not lower)


def _lu_factor(a: Any, overwrite_a: Any = False, check_finite: bool = True) -> Any:
    return tuple(ours.lu_factor(*_arrays(check_finite, a)))


def _lu_solve(factors: Any, b: Any, trans: Any = 0, overwrite_b: Any = False,
              check_finite: bool = True) -> Any:  # fmt: skip
    _no(trans)
    lu, right = _arrays(check_finite, factors[0], b)
    pivots = portable.device().from_numpy(np.asarray(factors[1], np.int32))
    return ours.lu_solve((lu, pivots), right)


def _triangular(a: Any, b: Any, trans: Any = 0, lower: Any = False, unit_diagonal: Any = False,
                overwrite_b: Any = False, check_finite: bool = True) -> Any:  # fmt: skip
    matrix, right = _arrays(check_finite, a, b)
    real = np.asarray(a).dtype.kind != "c"
    _no(trans not in (0, 2, "N", "C") and not real, np.any(np.diagonal(np.asarray(a)) == 0))
    return ours.solve_triangular(
        matrix, right, upper=not lower, transposed=trans not in (0, "N"),
        unit_diagonal=bool(unit_diagonal),
    )  # fmt: skip


def _det(a: Any, overwrite_a: Any = False, check_finite: bool = True) -> Any:
    return ours.det(*_arrays(check_finite, a))


def _lstsq(a: Any, b: Any, cond: Any = None, overwrite_a: Any = False, overwrite_b: Any = False,
           check_finite: bool = True, lapack_driver: Any = None) -> Any:  # fmt: skip
    _no(lapack_driver not in (None, "gelsd"), np.asarray(a).ndim != 2)
    bound = np.finfo(np.result_type(np.asarray(a), np.float32)).eps if cond is None else cond
    x, residuals, rank, values = ours.lstsq(*_arrays(check_finite, a, b), rcond=float(bound))
    m, n = np.asarray(a).shape
    left = residuals if m > n and int(portable.to_numpy(rank)) == n else np.zeros(0)
    return x, left, int(portable.to_numpy(rank)), values


def _svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, overwrite_a: Any = False,
         check_finite: bool = True, lapack_driver: Any = "gesdd") -> Any:  # fmt: skip
    _no(not isinstance(lapack_driver, str) or lapack_driver not in ("gesdd", "gesvd"))
    _no(max(np.shape(a), default=0) > _LARGEST)  # LAPACK's limits are tested with more
    (matrix,) = _arrays(check_finite, a)
    if not compute_uv:
        return ours.svdvals(matrix)
    return tuple(ours.svd(matrix, full_matrices=bool(full_matrices)))


def _svdvals(a: Any, overwrite_a: Any = False, check_finite: bool = True) -> Any:
    return ours.svdvals(*_arrays(check_finite, a))


def _eigh(a: Any, b: Any = None, *, lower: Any = True, eigvals_only: Any = False,
          overwrite_a: Any = False, overwrite_b: Any = False, type: int = 1,
          check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None,
          driver: Any = None) -> Any:  # fmt: skip
    _no(b is not None, type != 1, subset_by_value is not None, subset_by_index is not None)
    _no(driver not in (None, "ev", "evd", "evr", "evx"))
    matrices = np.asarray(a)
    if not lower:
        matrices = np.conj(np.swapaxes(matrices, -1, -2))
    (matrix,) = _arrays(check_finite, matrices)
    return ours.eigvalsh(matrix) if eigvals_only else tuple(ours.eigh(matrix))


def _eigvalsh(a: Any, b: Any = None, *, lower: Any = True, **options: Any) -> Any:
    return _eigh(a, b, lower=lower, eigvals_only=True, **options)


def _polar(a: Any, side: Any = "right") -> Any:
    return tuple(ours.polar(*_arrays(True, a), side=side))


def _pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: Any = False,
          check_finite: bool = True) -> Any:  # fmt: skip
    _no(atol is not None)
    (matrix,) = _arrays(check_finite, a)
    inverse = ours.pinv(matrix, rtol=rtol)
    if not return_rank:
        return inverse
    return inverse, portable.to_numpy(ours.matrix_rank(matrix, rtol=rtol))


_REPLACED: Final[dict[str, Callable[..., Any]]] = {
    "solve": _solve, "inv": _inv, "qr": _qr, "cholesky": _cholesky, "lu_factor": _lu_factor,
    "lu_solve": _lu_solve, "solve_triangular": _triangular, "det": _det, "lstsq": _lstsq,
    "svd": _svd, "svdvals": _svdvals, "eigh": _eigh, "eigvalsh": _eigvalsh, "polar": _polar,
    "pinv": _pinv,
}  # fmt: skip


def _replaced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    before = getattr(theirs, name)

    def on_host(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(on_host, x))
        return portable.to_numpy(x)[()] if hasattr(x, "shape") else x

    @wraps(before)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            found = function(*args, **kwargs)
        except (_Unlike, TypeError, portable.errors.PortableError):
            _counts["SciPy's"] += 1
            return before(*args, **kwargs)
        _counts[name] += 1
        return on_host(found)

    return call


def pytest_configure() -> None:
    """Before SciPy's tests are imported."""
    for name, function in _REPLACED.items():
        setattr(theirs, name, _replaced(name, function))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many calls went where."""
    terminalreporter.write_line(", ".join(f"{name} {count}" for name, count in _counts.items()))
