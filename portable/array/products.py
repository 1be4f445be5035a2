"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from portable import lang as kl
from portable.array.elementwise import conj, multiply
from portable.array.engine import check_arrays, check_operands
from portable.array.geometry import broadcast_shapes, normalized_axes, normalized_axis
from portable.array.manipulation import (
    astype,
    broadcast_to,
    expand_dims,
    moveaxis,
    permute_dims,
    reshape,
)
from portable.array.promotion import promoted
from portable.array.statistics import sum as summed
from portable.dtypes import DType
from portable.errors import DTypeError, ShapeError
from portable.lang.kernel import kernel
from portable.linalg.gemm import gemm
from portable.linalg.gemm_kernels import matrix_of

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]

_EDGE: Final = 8


@kernel
def plain_product(a: Any, b: Any, out: Any, *, ACC: Any) -> None:
    """A work-item per element, for the dtypes that `gemm` does not take."""
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    left, right, result = (
        matrix_of(a, out, batch),
        matrix_of(b, out, batch),
        matrix_of(out, out, batch),
    )
    if (row < result.shape[0]) & (column < result.shape[1]):
        total = kl.cast(0, ACC)
        for k in range(left.shape[1]):
            total = total + kl.cast(left[row, k], ACC) * kl.cast(right[k, column], ACC)
        result[row, column] = total


def _common(name: str, x1: Array, x2: Array) -> tuple[Array, Array, DType]:
    check_operands(name, (x1, x2))
    kind = promoted(x1.dtype, x2.dtype)
    if kind.kind == "b":
        raise DTypeError(f"{name} takes numbers, not bool; convert them with astype")
    return astype(x1, kind, copy=False), astype(x2, kind, copy=False), kind


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product over the last two dimensions, the others broadcasting; of vectors too.

    Floats go to `portable.linalg.gemm`; integers wrap.
    """
    a, b, kind = _common("matmul", x1, x2)
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul takes vectors and matrices, not arrays without dimensions")
    left = expand_dims(a, axis=0) if a.ndim == 1 else a
    right = expand_dims(b, axis=1) if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(f"matmul of shapes {x1.shape} and {x2.shape}: the inner extents differ")
    result = _matrices(left, right, kind)
    if a.ndim == 1:
        result = result[..., 0, :]
    return result[..., 0] if b.ndim == 1 else result


def _matrices(a: Array, b: Array, kind: DType) -> Array:
    if kind.is_float:
        return gemm(a, b)  # type: ignore[no-any-return]
    lead = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    shape = (*lead, a.shape[-2], b.shape[-1])
    out: Any = a.device.empty(shape, kind)
    if out.size:
        edge = 1 if a.device.capabilities.kind == "cpu" else _EDGE
        ndrange = (shape[-1], shape[-2], prod(lead))
        plain_product[ndrange, (_EDGE * _EDGE // edge, edge, 1)](
            a, b, out, ACC=kind if kind.is_complex else kind.register
        )
    return out  # type: ignore[no-any-return]


def matrix_transpose(x: Array, /) -> Array:
    """The view with the last two dimensions exchanged."""
    check_arrays("matrix_transpose", x)
    return x.mT


def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """The sum of products over the last `axes` of `x1` and first of `x2`, or over pairs of axes."""
    check_arrays("tensordot", x1, x2)
    if isinstance(axes, int):
        ours, theirs = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
        if axes > x1.ndim or axes > x2.ndim or axes < 0:
            raise ShapeError(f"tensordot over {axes} axes of shapes {x1.shape} and {x2.shape}")
    else:
        ours = normalized_axes(tuple(axes[0]), x1.ndim)
        theirs = normalized_axes(tuple(axes[1]), x2.ndim)
    if [x1.shape[a] for a in ours] != [x2.shape[a] for a in theirs]:
        raise ShapeError(f"tensordot of {x1.shape} and {x2.shape} over axes {ours} and {theirs}")
    left = [a for a in range(x1.ndim) if a not in ours]
    right = [a for a in range(x2.ndim) if a not in theirs]
    shape = tuple(x1.shape[a] for a in left), tuple(x2.shape[a] for a in right)
    depth = prod(x1.shape[a] for a in ours)
    a = reshape(permute_dims(x1, (*left, *ours)), (prod(shape[0]), depth))
    b = reshape(permute_dims(x2, (*theirs, *right)), (depth, prod(shape[1])))
    return reshape(matmul(a, b), (*shape[0], *shape[1]))


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum along an axis of ``conj(x1) * x2``."""
    a, b, kind = _common("vecdot", x1, x2)
    if axis >= 0 or axis < -min(a.ndim, b.ndim):
        normalized_axis(axis, min(a.ndim, b.ndim))
    if not a.ndim or not b.ndim or a.shape[axis] != b.shape[axis]:
        raise ShapeError(f"vecdot of {x1.shape} and {x2.shape} along axis {axis}")
    left, right = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    shape = broadcast_shapes([left.shape, right.shape])
    if kind.is_complex:
        left = conj(left)
    product = multiply(broadcast_to(left, shape), right)
    return summed(product, axis=-1, dtype=kind)
