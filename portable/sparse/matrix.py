"""Sparse matrices that are kept by rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of_library

from portable import namespace, registry
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.namespace import device_of_arrays, to_numpy
from portable.sparse.products import (
    by_matrix,
    by_vector,
    longest_shared,
    share_of_group,
    share_of_rows,
    shares_of,
)


def like(xp: Any, x: Any, values: Any, dtype: Any) -> Any:
    """A host's values as an array of the library, on the device of `x`."""
    return xp.asarray(values, dtype=dtype, device=device_of_library(x))


class CSR:
    """A sparse matrix by rows (compressed sparse row).

    Parameters
    ----------
    data : array, shape (nnz,)
        The numbers, row by row: of any library, floating-point, complex or integers.
    columns : array, shape (nnz,)
        The column of each: int32 or int64.
    offsets : array, shape (m + 1,)
        Where each row begins in `data`, and the last one ends: integers from 0 to nnz.
    shape : (int, int)
        Rows and columns, m and n.
    check : bool
        Whether to look through columns and offsets for what no matrix has, which waits for the
        device. Kernels trust them.

    Raises
    ------
    ShapeError, DTypeError
        If the arrays do not fit together.
    ValueError
        If columns are out of range, or offsets do not ascend from 0 to nnz.

    Notes
    -----
    A column may come twice in a row: its numbers add up. Columns need not be in order.

    Examples
    --------
    >>> a = CSR.from_scipy(scipy.sparse.random(1000, 1000, 0.01), device="opencl")  # doctest: +SKIP
    >>> y = a @ x  # doctest: +SKIP
    """

    def __init__(
        self, data: Any, columns: Any, offsets: Any, shape: tuple[int, int], *, check: bool = True
    ) -> None:
        self.data, self.columns, self.offsets = data, columns, offsets
        self.shape = (int(shape[0]), int(shape[1]))
        self._shares: dict[int, Any] = {}
        self._check_shapes()
        if check:
            self._check_contents()

    def _check_shapes(self) -> None:
        xp = array_namespace(self.data, self.columns, self.offsets)
        device_of_arrays(self.data, self.columns, self.offsets)
        if self.data.ndim != 1 or tuple(self.columns.shape) != tuple(self.data.shape):
            raise ShapeError(
                f"data and columns are vectors of one length, not of shapes "
                f"{tuple(self.data.shape)} and {tuple(self.columns.shape)}"
            )
        if tuple(self.offsets.shape) != (self.shape[0] + 1,):
            raise ShapeError(
                f"{self.shape[0]} rows take {self.shape[0] + 1} offsets, not shape "
                f"{tuple(self.offsets.shape)}"
            )
        for name, x in (("columns", self.columns), ("offsets", self.offsets)):
            if not xp.isdtype(x.dtype, "signed integer"):
                raise DTypeError(f"{name} are int32 or int64, not {x.dtype}")

    def _check_contents(self) -> None:
        xp = array_namespace(self.data)
        ends = int(self.offsets[0]), int(self.offsets[-1])
        if ends != (0, self.nnz) or not xp.all(self.offsets[1:] >= self.offsets[:-1]):
            raise ValueError(f"offsets ascend from 0 to {self.nnz}, the number of columns")
        if self.nnz and not (
            int(xp.min(self.columns)) >= 0 and int(xp.max(self.columns)) < self.shape[1]
        ):
            raise ValueError(f"a column is out of range for {self.shape[1]} columns")

    # -- from and to other forms ----------------------------------------------------------------

    @classmethod
    def from_scipy(cls, matrix: Any, *, device: str | Device | None = None) -> CSR:
        """A SciPy matrix or array of any format, on a device.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array
            Of two dimensions.
        device : Device or str, optional
            Where to; by default the device in use.

        Raises
        ------
        TypeError
            For what is no sparse matrix.
        """
        if not hasattr(matrix, "tocsr"):
            raise TypeError(
                f"CSR.from_scipy takes SciPy's sparse matrices, not {type(matrix).__name__}; "
                "CSR.from_dense takes arrays"
            )
        rows = matrix.tocsr()
        target = registry.device(device).for_arrays()
        parts = (rows.data, rows.indices, rows.indptr)
        data, columns, offsets = (
            namespace.asarray(np.ascontiguousarray(x), device=target) for x in parts
        )
        return cls(data, columns, offsets, rows.shape, check=False)

    @classmethod
    def from_dense(cls, x: Any) -> CSR:
        """The numbers of a dense matrix that are not zero; waits for the device.

        Parameters
        ----------
        x : array, shape (m, n)
            Of any library.
        """
        xp = array_namespace(x)
        if x.ndim != 2:
            raise ShapeError(f"a sparse matrix of an array of shape {tuple(x.shape)}")
        rows, columns = xp.nonzero(x)
        flat = xp.reshape(x, (-1,))
        data = xp.take(flat, rows * x.shape[1] + columns)
        places = like(xp, rows, np.arange(x.shape[0] + 1), rows.dtype)
        return cls(data, columns, xp.searchsorted(rows, places), tuple(x.shape), check=False)

    def to_scipy(self) -> Any:
        """A ``scipy.sparse.csr_array`` with a copy of the contents; waits for the device."""
        from scipy.sparse import csr_array

        parts = tuple(to_numpy(x) for x in (self.data, self.columns, self.offsets))
        return csr_array(parts, shape=self.shape)

    def to_dense(self) -> Any:
        """All elements as an array of `data`'s library, by a product with the unit matrix."""
        xp = array_namespace(self.data)
        identity = like(xp, self.data, np.eye(self.shape[1]), self.data.dtype)
        return self @ identity

    # -- what it is -----------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """How many numbers are kept, zeros among them."""
        return int(self.data.shape[0])

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def dtype(self) -> Any:
        """Of the numbers, as their library names it."""
        return self.data.dtype

    @property
    def device(self) -> Device:
        """Where the numbers are."""
        return device_of_arrays(self.data)

    def __repr__(self) -> str:
        of = f"{self.shape[0]} x {self.shape[1]}, {self.nnz} numbers of {dtype(self.dtype).name}"
        return f"<CSR of {of} on {self.device.name}>"

    # -- products -------------------------------------------------------------------------------

    def __matmul__(self, x: Any) -> Any:
        """The product with a vector or a dense matrix.

        Parameters
        ----------
        x : array, shape (n,) or (n, k)
            Of the library and device of the numbers.

        Returns
        -------
        array, shape (m,) or (m, k)
            In the common dtype. Numbers of a row are added up by a work-item, or by several and
            these sums in turn: within ``nnz_of_row * eps`` of the sum of sizes.

        Raises
        ------
        ShapeError
            For other shapes.
        """
        if not hasattr(x, "shape"):
            return NotImplemented
        if len(x.shape) not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"a sparse matrix of shape {self.shape} times an array of shape {tuple(x.shape)}; "
                f"expected ({self.shape[1]},) or ({self.shape[1]}, k)"
            )
        parts = (self.data, self.columns, self.offsets)
        if len(x.shape) == 1:
            return by_vector(*parts, x, self._starts)
        return by_matrix(*parts, x, self._starts_of_rows(share_of_rows(int(x.shape[1]))))

    @cached_property
    def _starts(self) -> Any:
        """Where even shares begin if rows are uneven, found at the first product; None else."""
        longest = longest_shared(self.shape[0], self.nnz)
        if self.nnz <= longest or self.device.capabilities.single_work_items:
            return None
        xp = array_namespace(self.offsets)
        uneven = bool(xp.any(self.offsets[1:] - self.offsets[:-1] > longest))
        return shares_of(self.offsets, self.nnz, share_of_group(self.device)) if uneven else None

    def _starts_of_rows(self, size: int) -> Any:
        """Where shares for products with matrices begin; None where processors share rows out."""
        if self.device.capabilities.single_work_items:
            return None
        if size not in self._shares:
            self._shares[size] = shares_of(self.offsets, self.nnz, size)
        return self._shares[size]

    def _rows(self) -> Any:
        """The row of each number."""
        xp = array_namespace(self.data)
        every = like(xp, self.offsets, np.arange(self.nnz), self.offsets.dtype)
        rows = xp.searchsorted(self.offsets, every, side="right") - 1
        return xp.astype(rows, self.columns.dtype)

    @property
    def T(self) -> CSR:  # noqa: N802  (NumPy's and SciPy's name)
        """The transposed matrix, its numbers sorted by columns anew."""
        xp = array_namespace(self.data)
        m, n = self.shape
        order = xp.argsort(self.columns, stable=True)
        columns = xp.take(self.columns, order)
        edges = like(xp, columns, np.arange(n + 1), columns.dtype)
        return CSR(
            xp.take(self.data, order),
            xp.take(self._rows(), order),
            xp.astype(xp.searchsorted(columns, edges), self.offsets.dtype),
            (n, m),
            check=False,
        )

    def diagonal(self) -> Any:
        """The elements on the main diagonal, as an array of shape ``(min(m, n),)``."""
        xp = array_namespace(self.data)
        kept = CSR(
            xp.where(self._rows() == self.columns, self.data, xp.zeros_like(self.data)),
            self.columns,
            self.offsets,
            self.shape,
            check=False,
        )
        ones = like(xp, self.data, np.ones(self.shape[1]), self.data.dtype)
        return (kept @ ones)[: min(self.shape)]
