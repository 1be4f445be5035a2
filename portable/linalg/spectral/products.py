"""Products of matrices that may be complex: of real and imaginary parts."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.products.gemm import gemm

_TILE: Final = (32, 8, 1)


@kernel
def split(a: kl.Array, real: kl.Array, imag: kl.Array, *, TURNED: bool) -> None:
    """The parts of complex matrices, or of their conjugate transposes; dimension 2 is matrices."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < real.shape[0] and row < real.shape[1] and column < real.shape[2]:
        x = conjugate(a[matrix, column, row]) if TURNED else a[matrix, row, column]
        real[matrix, row, column] = kl.real(x)
        imag[matrix, row, column] = kl.imag(x)


@kernel
def merge(real: kl.Array, imag: kl.Array, out: kl.Array) -> None:
    """Complex matrices of their parts."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        out[matrix, row, column] = kl.complex(real[matrix, row, column], imag[matrix, row, column])


def multiplied(
    device: Device,
    a: Any,
    b: Any,
    *,
    turned: tuple[bool, bool] = (False, False),
    out: Any = None,
) -> Any:
    """``a @ b`` for a row of matrices, of which each may be taken conjugate and transposed.

    Parameters
    ----------
    device : Device
        Where.
    a, b : array, shape (count, m, k) and (count, k, n)
        The matrices, turned where `turned` says so.
    turned : (bool, bool)
        Whether conjugate transposes of the matrices in `a`, and in `b`, are multiplied.
    out : array, shape (count, m, n), optional
        Where to put the result.

    Returns
    -------
    array, shape (count, m, n)
    """
    kind, space = dtype(a.dtype), device.namespace()
    if not kind.is_complex:
        first, second = (
            space.permute_dims(x, (0, 2, 1)) if flag else x
            for x, flag in zip((a, b), turned, strict=True)
        )
        return gemm(first, second, out=out)
    p, q = _parts(device, a, turned[0])
    r, s = _parts(device, b, turned[1])
    real = gemm(p, r)
    gemm(q, s, alpha=-1, beta=1, c=real, out=real)
    imag = gemm(p, s)
    gemm(q, r, beta=1, c=imag, out=imag)
    if out is None:
        out = device.empty(tuple(int(n) for n in real.shape), kind)
    merge[tuple(int(n) for n in reversed(real.shape)), _TILE](real, imag, out)
    return out


@kernel
def turn(x: kl.Array, out: kl.Array) -> None:
    """Conjugate transposes; dimension 2 is the matrices."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        out[matrix, row, column] = conjugate(x[matrix, column, row])


def turned(device: Device, x: Any, out: Any = None) -> Any:
    """Conjugate transposes, in `out` if that is given.

    Parameters
    ----------
    device : Device
        Where.
    x : array, shape (count, m, n)
        The matrices.
    out : array, shape (count, n, m), optional
        Where to put them.
    """
    count, m, n = (int(size) for size in x.shape)
    if out is None:
        out = device.empty((count, n, m), dtype(x.dtype).register)
    turn[(m, n, count), _TILE](x, out)
    return out


def _parts(device: Device, a: Any, turned: bool) -> tuple[Any, Any]:
    """Real and imaginary parts."""
    count, m, n = (int(x) for x in a.shape)
    shape, kind = (count, n, m) if turned else (count, m, n), dtype(a.dtype).real
    real, imag = device.empty(shape, kind), device.empty(shape, kind)
    split[shape[::-1], _TILE](a, real, imag, TURNED=turned)
    return real, imag
