"""Products of matrices of few bits with factors: what quantised networks are made of."""

from __future__ import annotations

from math import prod
from typing import Any, Final, Literal

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.kernel import kernel
from portable.lang.launch.call_cache import CallTraits, cached_call
from portable.lang.launch.enqueued import enqueue, enqueue_call
from portable.linalg.base.operands import broadcast_shape, common_dtype
from portable.linalg.products.gemm import gemm, product_with_factors
from portable.linalg.products.kernels import gemm_sums, keep, matrix_of
from portable.linalg.products.launches import BLOCK, MOST_ROWS
from portable.linalg.products.rows import bytes_by_units
from portable.linalg.products.schedules import matrices_of
from portable.namespace import device_of_arrays
from portable.primitives.mapping import copy
from portable.tune.table import recent_state
from portable.typing import ArrayT

_NARROW_FLOATS: Final = (kl.f8e4m3, kl.f8e5m2)
_KINDS: Final = (*_NARROW_FLOATS, kl.i8, kl.f16, kl.bf16, kl.f32)
_FACTORS: Final = (kl.f32, kl.f16, kl.bf16, kl.f8e4m3, kl.f8e5m2)
_RESULTS: Final = (kl.f32, kl.bf16, kl.f16)
_LINE: Final = 256
_NAME: Final = "scaled"
_CALLS: Final = CallTraits(alike=((0, 1), (2, 3)))


@kernel
def scale_rows(x: kl.Array, scales: kl.Array, out: kl.Array, *, BLOCK: int) -> None:
    """A work-item per element: rows of `x` by factors, one for each `BLOCK` columns.

    Parameters
    ----------
    x, out : array, shape (..., M, K)
        Numbers, and where they go.
    scales : array, shape (..., M, K / BLOCK)
        The factors; leading dimensions of both broadcast against those of `out`.
    BLOCK : int
        Columns that have a factor together.
    """
    at = kl.global_id(0)
    m, k = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    if at < matrices_of(out, 0) * m * k:
        column, row, batch = at % k, at // k % m, at // k // m
        factor = matrix_of(scales, out, batch)[row, column // BLOCK]
        result = matrix_of(out, out, batch)
        result[row, column] = kl.f32(matrix_of(x, out, batch)[row, column]) * factor


@kernel
def turn_factors(scales: kl.Array, out: kl.Array) -> None:
    """A work-item per factor that `gemm_tiles` reads, the last row's again beyond it.

    Parameters
    ----------
    scales : array, shape (..., M, blocks)
        The factors of rows.
    out : array, shape (..., blocks, rows)
        Where they go; `rows` are M at least.
    """
    at = kl.global_id(0)
    blocks, rows = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    if at < matrices_of(out, 0) * blocks * rows:
        row, block, batch = at % rows, at // rows % blocks, at // rows // blocks
        factors = matrix_of(scales, out, batch)
        result = matrix_of(out, out, batch)
        result[block, row] = factors[kl.minimum(row, factors.shape[0] - 1), block]


def scaled_matmul(
    a: ArrayT,
    b: ArrayT,
    a_scales: ArrayT,
    b_scales: ArrayT,
    *,
    preferred_element_type: Any = "float32",
    precision: Literal["full", "fast"] = "full",
    out: ArrayT | None = None,
) -> ArrayT:
    """The product of quantised matrices, each block of a row with a factor of its own.

    What ``jax.nn.scaled_matmul`` gives: with ``s = K // K_a`` and ``t = K // K_b`` it is
    ``out[m, n] = sum over k of a[m, k] a_scales[m, k // s] b[n, k] b_scales[n, k // t]``.

    Parameters
    ----------
    a : array, shape (..., M, K)
        ``float8_e4m3fn`` or ``float8_e5m2`` (of ``ml_dtypes``), ``int8``, ``float16``,
        ``bfloat16`` or ``float32``.
    b : array, shape (..., N, K)
        Of the same dtype and device: its rows are multiplied, not its columns.
    a_scales : array, shape (..., M, K_a)
        ``float32`` or a narrower float; `K_a` divides K.
    b_scales : array, shape (..., N, K_b)
        Likewise. Leading dimensions of all four broadcast.
    preferred_element_type : dtype
        Of the result: ``float32``, ``bfloat16`` or ``float16``.
    precision : {"full", "fast"}
        "fast": matrix units keep the sums of floats of eight bits themselves. NVIDIA's of Hopper
        keep some 14 bits: on an H200 sums of 8192 random products were within ``2^-10`` of the sum
        of magnitudes, but those of 16384 products of one sign off by 0.07. Where there are units
        for ``bfloat16`` and blocks are shorter than 128, numbers times their factors are rounded to
        it (powers of two as factors, which the MX formats have, leave them as they are), and so
        is the result.
    out : array, shape (..., M, N), optional
        Where to put the result; its dtype takes the place of `preferred_element_type`.

    Returns
    -------
    array, shape (..., M, N)
        `out`, or a new array. Sums are of ``float32``; of ``int8`` with one factor a row (``K_a =
        K_b = 1``) exact. Large products of bytes with one factor a row, and of ``float8`` with
        blocks of a multiple of 128, go through matrix units where there are some for them, which
        sum up 128 products at a time of ``float8``. Where blocks are smaller, or there are no such
        units, factors are multiplied first, in ``float32`` that takes ``4 (M + N) K`` bytes.

    Raises
    ------
    DTypeError, ShapeError, DeviceMismatchError
        For other or mixed dtypes; for shapes that do not fit; for arrays of two devices.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.ones((2, 64), np.int8)
    >>> portable.linalg.scaled_matmul(a, a, np.full((2, 1), 0.5, "f4"), np.ones((2, 2), "f4"))
    array([[32., 32.],
           [32., 32.]], dtype=float32)
    """
    if precision not in ("full", "fast"):
        raise ValueError(f"precision={precision!r}; scaled_matmul has full and fast")
    arrays, options = (a, b, a_scales, b_scales), (_NAME, preferred_element_type, precision)
    return cached_call(_CALLS, arrays, out, options, (), recent_state(), _made)  # type: ignore[no-any-return]


@takes_other_libraries
def _made(arrays: tuple[Any, ...], out: Any, options: tuple[Any, ...]) -> Any:
    """The product of what `scaled_matmul` is given."""
    (a, b, a_scales, b_scales), (_, preferred, precision) = arrays, options
    others = [] if out is None else [out]
    device = device_of_arrays(a, b, a_scales, b_scales, *others)
    shape = _checked_shape(a, b, a_scales, b_scales)
    common_dtype("scaled_matmul", _KINDS, a=a, b=b)
    common_dtype("factors of scaled_matmul", _FACTORS, a_scales=a_scales)
    common_dtype("factors of scaled_matmul", _FACTORS, b_scales=b_scales)
    result = dtype(preferred if out is None else out.dtype)
    if result not in _RESULTS:
        names = ", ".join(x.name for x in _RESULTS)
        raise DTypeError(f"scaled_matmul gives {names}, not {result.name}")
    if out is None:
        out = device.empty(shape, result)
    elif tuple(out.shape) != shape:
        raise ShapeError(f"scaled_matmul: out has shape {tuple(out.shape)}, the result {shape}")
    if 0 not in shape:
        _multiply((a, b), (a_scales, b_scales), out, precision)
    return out


def _turned(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _multiply(rows: tuple[Any, Any], scales: tuple[Any, Any], out: Any, precision: Any) -> None:
    """The product of what was checked."""
    (a, b), (a_scales, b_scales) = rows, scales
    device, kind = device_of_arrays(out), dtype(a.dtype)
    shape, k = tuple(out.shape), a.shape[-1]
    rounds = precision == "fast" and kind in _NARROW_FLOATS
    made = kl.bf16 if rounds and "mma.bf16" in device.capabilities.matrix_units else kl.f32
    whole = a_scales.shape[-1] == b_scales.shape[-1] == 1 and k > 0
    products = prod(shape) * k
    columns, factors = _turned(b), (a_scales, _turned(b_scales))
    if whole and kind is kl.i8:
        sums = gemm(a, columns)[None]
        how = {"ACTIVATION": keep}
        enqueue(gemm_sums[prod(shape), _LINE], sums, None, factors, None, None, out, **how)
    elif kind is kl.i8 or not bytes_by_units(device.capabilities, kind, shape[-2:], products):
        _multiplied_first(device, (a, a_scales), (b, b_scales), out, made)
    elif whole:
        product_with_factors(a, columns, factors, out, precision)
    elif all(k // x.shape[-1] % BLOCK == 0 for x in scales):
        lines = (_in_lines(device, a_scales), _in_lines(device, b_scales))
        product_with_factors(a, columns, lines, out, "blocks")
    else:
        _multiplied_first(device, (a, a_scales), (b, b_scales), out, made)


def _in_lines(device: Device, scales: Any) -> Any:
    """Factors of rows, those of a block side by side, and as many as whole tiles have rows."""
    *lead, count, blocks = scales.shape
    made = device.empty((*lead, blocks, -(-count // MOST_ROWS) * MOST_ROWS), kl.f32)
    enqueue(turn_factors[prod(made.shape), _LINE], scales, made)
    return made


def _checked_shape(a: Any, b: Any, a_scales: Any, b_scales: Any) -> tuple[int, ...]:
    """The result's, once shapes are seen to fit."""
    given = {"a": a, "b": b, "a_scales": a_scales, "b_scales": b_scales}
    for name, x in given.items():
        if x.ndim < 2:
            raise ShapeError(f"scaled_matmul takes matrices, not {name} of shape {tuple(x.shape)}")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"scaled_matmul of shapes {tuple(a.shape)} and {tuple(b.shape)}: rows of both are "
            "multiplied, and have to be as long"
        )
    for name, x, scales in (("a", a, a_scales), ("b", b, b_scales)):
        blocks = scales.shape[-1]
        if scales.shape[-2] != x.shape[-2] or (x.shape[-1] % blocks if blocks else x.shape[-1]):
            raise ShapeError(
                f"scaled_matmul: {name}_scales of shape {tuple(scales.shape)} does not belong to "
                f"{name} of shape {tuple(x.shape)}; it has a row for each row, and a factor for "
                "each block of equal length in it"
            )
    lead = broadcast_shape("scaled_matmul", *(tuple(x.shape[:-2]) for x in given.values()))
    return (*lead, int(a.shape[-2]), int(b.shape[-2]))


def _multiplied_first(
    device: Device, left: tuple[Any, Any], right: tuple[Any, Any], out: Any, kind: Any
) -> None:
    """Each block by its factor first, in numbers of a kind, and these then."""
    a, b = _by_factors(device, *left, kind), _by_factors(device, *right, kind)
    if dtype(out.dtype) is kind:
        gemm(a, _turned(b), out=out)
    else:
        enqueue_call(copy, gemm(a, _turned(b)), out=out)


def _by_factors(device: Device, x: Any, scales: Any, kind: Any) -> Any:
    """A matrix times its factors."""
    lead = broadcast_shape("scaled_matmul", tuple(x.shape[:-2]), tuple(scales.shape[:-2]))
    shape = (*lead, *x.shape[-2:])
    made = device.empty(shape, kind)
    if prod(shape):
        block = x.shape[-1] // scales.shape[-1]
        enqueue(scale_rows[prod(shape), _LINE], x, scales, made, BLOCK=block)
    return made
