"""Determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.elimination import eliminated
from portable.linalg.factorisations.matrices import batch_of, checked_dtype, order_of
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


def _determinants(name: str, a: Any) -> list[Any]:
    """Determinants, their signs and logarithms."""
    device = device_of_arrays(a)
    kind, n = checked_dtype(name, a=a), order_of(name, a)
    shape, count = tuple(int(x) for x in a.shape[:-2]), batch_of(a.shape)
    results = [device.empty((count,), x) for x in (kind, kind, kind.real)]
    if count:
        can, lu, pivots = device.capabilities, None, None
        items = 1 if can.single_work_items else min(_ITEMS, can.max_workgroup)
        if n:
            lu, pivots, _ = eliminated(device, a, kind)
        diagonal_products[groups(count), items](lu, pivots, *results, KIND=kind)
    return [x.reshape(shape) for x in results]


class Product(NamedTuple):
    """A product, and the sign and the logarithm of its size."""

    whole: Any
    sign: Any
    logarithm: Any


@function
def joined(x: Product, y: Product) -> Any:
    """The product of two products."""
    return Product(x.whole * y.whole, x.sign * y.sign, x.logarithm + y.logarithm)


@kernel
def diagonal_products(
    lu: kl.Array | None,
    pivots: kl.Array | None,
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
    if lu is not None and pivots is not None:
        for i in kl.workgroup_range(lu.shape[1]):
            x = lu[batch, i, i]
            size = kl.abs(x)
            unit = kl.where(size > 0, x / kl.where(size > 0, size, 1), x)
            swapped = kl.where(pivots[batch, i] != i, -one, one)
            total = joined(total, Product(swapped * x, swapped * unit, kl.log(size)))
    total = kl.workgroup_reduce(joined, total)
    if kl.local_id(0) == 0:
        whole[batch] = total.whole
        sign[batch] = total.sign
        logarithm[batch] = total.logarithm
