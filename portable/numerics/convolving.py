"""Sums of products of two sequences, one sliding over the other."""

from __future__ import annotations

from typing import Any, Final, Literal

from array_api_compat import is_numpy_namespace

from portable import lang as kl
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import runs_where_chosen, takes_other_libraries
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays
from portable.numerics.namespaces import namespace_of

_WORKGROUP: Final = 128
_MODES: Final = ("full", "same", "valid")


@kernel
def convolved(
    long: kl.Array, short: kl.Array, out: kl.Array, first: kl.Scalar, *, ACC: Any
) -> None:
    """Elements of a convolution from number `first` on, one for each work-item."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        position = i + first
        total = ACC(0)
        start = kl.maximum(0, position - long.shape[0] + 1)
        for k in range(start, kl.minimum(position + 1, short.shape[0])):
            total += kl.cast(short[k], ACC) * kl.cast(long[position - k], ACC)
        out[i] = total


@runs_where_chosen
def convolve(a: Any, v: Any, /, mode: Literal["full", "same", "valid"] = "full") -> Any:
    """The discrete convolution of two vectors.

    ``out[i] = sum over k of v[k] * a[i - k]``.

    Parameters
    ----------
    a, v : array, shape (n,) and (m,)
        Numbers, of one library and device; neither is empty.
    mode : {"full", "same", "valid"}
        All n + m - 1 elements; as many as the longer vector has, from the middle; or those for
        which the shorter one lies inside the longer one.

    Returns
    -------
    array
        Of the two's common dtype, summed directly: in at least single precision, integers exactly
        up to 64 bits, which wrap.

    Raises
    ------
    ShapeError
        For other shapes.
    DTypeError
        For bools.
    ValueError
        For another mode.

    Notes
    -----
    ``n m`` products, as NumPy's; for two long vectors ``xp.fft`` is faster, and less exact.
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r}; there are {', '.join(_MODES)}")
    xp = namespace_of(a, v)
    if a.ndim != 1 or v.ndim != 1 or 0 in (a.shape[0], v.shape[0]):
        raise ShapeError(
            f"convolve takes vectors that are not empty, not shapes {tuple(a.shape)} and "
            f"{tuple(v.shape)}"
        )
    for x in (a, v):
        if xp.isdtype(x.dtype, "bool"):
            raise DTypeError("convolve takes numbers, not bools; convert them first")
    if is_numpy_namespace(xp):
        return xp.convolve(a, v, mode=mode)
    kind = xp.result_type(a, v)
    a, v = xp.astype(a, kind, copy=False), xp.astype(v, kind, copy=False)
    long, short = (a, v) if a.shape[0] >= v.shape[0] else (v, a)
    return _slid(long, short, mode)


@takes_other_libraries
def _slid(long: Any, short: Any, mode: str) -> Any:
    device = device_of_arrays(long, short)
    kind = dtype(long.dtype)
    n, m = int(long.shape[0]), int(short.shape[0])
    count = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    first = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    out = device.empty((count,), kind)
    convolved[count, _WORKGROUP](long, short, out, first, ACC=kind.register)
    return out
