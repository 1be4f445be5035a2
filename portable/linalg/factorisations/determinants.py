"""Determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.elimination import eliminated
from portable.linalg.factorisations.matrices import batch_of, checked_dtype, lead_of, order_of
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_ITEMS = 64


class Slogdet(NamedTuple):
    """A determinant as a sign and a logarithm.

    Attributes
    ----------
    sign : array, shape (...)
        -1, 0 or 1, or a complex number of size 1.
    logabsdet : array, shape (...)
        The logarithm of the determinant's size, real; minus infinity of singular matrices.
    """

    sign: Any
    logabsdet: Any


@takes_other_libraries
def det(a: ArrayT) -> ArrayT:
    """Determinants, by LU with partial pivoting.

    Parameters
    ----------
    a : array, shape (..., n, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed.

    Returns
    -------
    array, shape (...)
        On the device of `a`; ``float32`` for ``float16``. It may leave the dtype's range where
        `slogdet` does not. 1 of empty matrices.

    Raises
    ------
    ShapeError, DTypeError
        Unless matrices are square; for other dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> round(float(portable.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))), 12)
    -2.0
    """
    return _determinants("det", a)[0]  # type: ignore[no-any-return]


@takes_other_libraries
def slogdet(a: ArrayT) -> Slogdet:
    """Signs of determinants and logarithms of their absolute values, by LU with partial pivoting.

    Parameters
    ----------
    a : array, shape (..., n, n)
        As for `det`.

    Returns
    -------
    Slogdet
        The sign, and the logarithm, ``float32`` or ``float64``.

    Raises
    ------
    ShapeError, DTypeError
        Unless matrices are square; for other dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.slogdet(np.diag([1e-200, -1e-200, 1.0])).sign
    array(-1.)
    """
    _, sign, logarithm = _determinants("slogdet", a)
    return Slogdet(sign, logarithm)


def _determinants(name: str, a: Any) -> tuple[Any, Any, Any]:
    """Determinants, their signs and logarithms."""
    device = device_of_arrays(a)
    kind, n = checked_dtype(name, a=a), order_of(name, a)
    shape = tuple(int(x) for x in a.shape[:-2])
    results = [device.empty(shape, x) for x in (kind, kind, kind.real)]
    count = batch_of(a.shape)
    if count:
        _write(device, a if n else None, kind, lead_of(a.shape), results)
    return results[0], results[1], results[2]


def _write(device: Device, a: Any, kind: DType, lead: tuple[int, ...], results: list[Any]) -> None:
    """Writes what is found of matrices; None for empty ones."""
    can = device.capabilities
    items = 1 if can.single_work_items else min(_ITEMS, can.max_workgroup)
    lu, pivots = None, None
    if a is not None:
        lu, pivots, _ = eliminated(device, a, kind)
    count = 1
    for extent in lead:
        count *= extent
    diagonal_products[groups(count), items](lu, pivots, lead, *results, KIND=kind)


class Product(NamedTuple):
    """A product, and the sign and the logarithm of its size."""

    whole: Any
    sign: Any
    logarithm: Any


@function
def joined(x: Product, y: Product) -> Any:
    """The product of two products."""
    return Product(x.whole * y.whole, x.sign * y.sign, x.logarithm + y.logarithm)


@function
def put(out: kl.Array, lead: tuple[kl.Scalar, ...], batch: kl.Scalar, value: kl.Scalar) -> None:
    """``out[...] = value`` at the place that is the `batch`-th in C order."""
    index = ()
    rest = batch
    for d in kl.static_range(out.ndim - 1, -1, -1):
        index = (rest % lead[d], *index)  # type: ignore[assignment]
        rest = rest // lead[d]
    out[*index] = value


@kernel
def diagonal_products(
    lu: kl.Array | None,
    pivots: Any,
    lead: tuple[kl.Scalar, ...],
    whole: kl.Array,
    sign: kl.Array,
    logarithm: kl.Array,
    *,
    KIND: Any,
) -> None:
    """Determinants of matrices from their factors, a workgroup each; 1 where `lu` is None."""
    batch = kl.group_id(0)
    one = kl.cast(1, KIND)
    total = Product(one, one, kl.cast(0, KIND.real))
    if lu is not None:
        for i in kl.workgroup_range(lu.shape[1]):
            x = lu[batch, i, i]
            size = kl.abs(x)
            unit = kl.where(size > 0, x / kl.where(size > 0, size, 1), x)
            swapped = kl.where(pivots[batch, i] != i, -one, one)
            total = joined(total, Product(swapped * x, swapped * unit, kl.log(size)))
    total = kl.workgroup_reduce(joined, total)
    if kl.local_id(0) == 0:
        put(whole, lead, batch, total.whole)
        put(sign, lead, batch, total.sign)
        put(logarithm, lead, batch, total.logarithm)
