"""Sparse matrices that are kept by rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of_library

from portable import namespace, recording, registry
from portable.backend import Device
from portable.dtypes import bool_, dtype
from portable.errors import DTypeError, ShapeError
from portable.namespace import device_of_arrays, to_numpy
from portable.primitives.reducing import segmented_reduce
from portable.sparse import algebra, products

_ELSEWHERE: Final = {
    "dot": "A @ x",
    "indices": "A.columns",
    "indptr": "A.offsets",
    "max": "xp.max(A.data), where zeros are not counted",
    "mean": "A.sum(axis) / A.shape[axis]",
    "multiply": "2 * A, or A.toarray() * x",
    "nonzero": "A.to_scipy().nonzero()",
    "power": "CSR(A.data**n, A.columns, A.offsets, A.shape)",
    "todense": "A.toarray()",
    "transpose": "A.T",
}
"""What SciPy's matrices have by other names."""


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

    __array_ufunc__ = None
    """NumPy's and CuPy's arrays and numbers leave what they meet to this class."""

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
        _check_range(self.columns, self.shape[1], "column")

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
        offsets = algebra.begins_of(xp, rows, x.shape[0])
        return cls(data, columns, offsets, tuple(x.shape), check=False)

    @classmethod
    def from_coo(cls, data: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> CSR:
        """Of numbers and their places in any order, those of one place being added up.

        Parameters
        ----------
        data, rows, columns : array, shape (nnz,)
            Of one library and device; rows and columns are int32 or int64.
        shape : (int, int)
            Rows and columns.

        Raises
        ------
        ShapeError
            If the arrays are no vectors of one length.
        ValueError
            If rows or columns are out of range.
        """
        shapes = [tuple(x.shape) for x in (data, rows, columns)]
        if len(shapes[0]) != 1 or len(set(shapes)) > 1:
            raise ShapeError(
                "data, rows and columns are vectors of one length, not of shapes "
                f"{shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        _check_range(rows, shape[0], "row")
        return cls(*algebra.of_coordinates(data, rows, columns, shape, columns), shape)

    def to_scipy(self) -> Any:
        """A ``scipy.sparse.csr_array`` with a copy of the contents; waits for the device."""
        from scipy.sparse import csr_array

        parts = tuple(to_numpy(x) for x in (self.data, self.columns, self.offsets))
        return csr_array(parts, shape=self.shape)

    def to_dense(self) -> Any:
        """All elements as an array of `data`'s library, by a product with the unit matrix."""
        xp, extent = array_namespace(self.data), min(self.shape)
        unit = xp.eye(extent, dtype=self.data.dtype, device=device_of_library(self.data))
        return self @ unit if self.shape[1] == extent else self.__rmatmul__(unit)

    toarray = to_dense
    """SciPy's name."""

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

    def __getattr__(self, name: str) -> Any:
        hint = f"; write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"CSR has no attribute {name}{hint}")

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuses what NumPy would make an object of."""
        raise TypeError("a sparse matrix is no array; write A.toarray(), or A.to_scipy()")

    # -- products -------------------------------------------------------------------------------

    def __matmul__(self, x: Any) -> Any:
        """The product with a vector, a dense matrix, or another sparse one.

        Parameters
        ----------
        x : array, shape (n,) or (n, k), or CSR
            Of the library and device of the numbers.

        Returns
        -------
        array, shape (m,) or (m, k), or CSR
            In the common dtype. Numbers of a row are added up by a work-item, or by several and
            these sums in turn: within ``nnz_of_row * eps`` of the sum of sizes. Columns of a sparse
            product's rows come in any order.

        Raises
        ------
        ShapeError
            For other shapes.
        DTypeError
            For bools by bools.
        """
        if isinstance(x, CSR):
            return self._times(x)
        if hasattr(x, "tocsr"):
            raise TypeError(f"a CSR @ {type(x).__name__} of SciPy's; write A @ CSR.from_scipy(x)")
        if not hasattr(x, "shape"):
            return NotImplemented
        if len(x.shape) not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"a sparse matrix of shape {self.shape} times an array of shape {tuple(x.shape)}; "
                f"expected ({self.shape[1]},) or ({self.shape[1]}, k)"
            )
        _refuse_bools(self.data, x)
        if len(x.shape) == 1:
            starts = self._starts(products.share_of_group(self.device)) if self._uneven else None
            return products.by_vector(*self._parts, x, starts)
        starts = self._starts(products.share_of_rows(int(x.shape[1])))
        return products.by_matrix(*self._parts, x, starts)

    @cached_property
    def _uneven(self) -> bool:
        """Whether some rows are far longer than others, found at the first product.

        Nothing is looked through where processors share rows out.
        """
        if self.device.capabilities.single_work_items:
            return False
        longest = products.longest_shared(self.shape[0], self.nnz)
        xp = array_namespace(self.offsets)
        return self.nnz > longest and bool(xp.any(self.offsets[1:] - self.offsets[:-1] > longest))

    @property
    def _adds_by_columns(self) -> bool:
        """Whether work-items are alone, so that each adds to sums of its own, off any tape."""
        alone: bool = self.device.capabilities.single_work_items
        return alone and recording.current() is None

    def _starts(self, size: int) -> Any:
        """Where even shares of rows and numbers begin; None where processors share rows out."""
        if self.device.capabilities.single_work_items:
            return None
        if size not in self._shares:
            self._shares[size] = products.shares_of(self.offsets, self.nnz, size)
        return self._shares[size]

    # -- matrices made of it -------------------------------------------------------------------

    @property
    def _parts(self) -> products.Rows:
        return products.Rows(self.data, self.columns, self.offsets)

    def _with(self, data: Any) -> CSR:
        """Other numbers in the same places."""
        return CSR(data, self.columns, self.offsets, self.shape, check=False)

    @property
    def T(self) -> CSR:  # noqa: N802  (NumPy's and SciPy's name)
        """The transposed matrix, its numbers sorted by columns anew.

        On processors they are when `data`, `columns` or `offsets` are first asked for: products
        with vectors need none.
        """
        m, n = self.shape
        if self._adds_by_columns:
            return _Transposed(self)
        return CSR(*algebra.transposed(self._parts, n), (n, m), check=False)

    def astype(self, dtype: Any) -> CSR:
        """The same with numbers of another dtype, as their library names it."""
        return self._with(array_namespace(self.data).astype(self.data, dtype))

    def __neg__(self) -> CSR:
        return self._with(-self.data)

    def __abs__(self) -> CSR:
        return self._with(abs(self.data))

    def __mul__(self, factor: Any) -> CSR:
        """Each number times a factor; ``@`` is the product of matrices."""
        return self._with(self.data * _number(factor, "A * x"))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> CSR:
        return self._with(self.data / _number(divisor, "A / x"))

    def matvec(self, x: Any) -> Any:
        """``A @ x``, by which SciPy's solvers take a matrix of NumPy's arrays as it is."""
        return self @ x

    def __radd__(self, other: Any) -> CSR:
        """Takes the 0 that Python's `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else self + other

    def __add__(self, other: Any) -> CSR:
        """The sum of two sparse matrices; columns of each row come in order then."""
        _same_shape(self, other)
        _refuse_bools(self.data, other.data)
        return CSR(*algebra.added(self._parts, other._parts, self.shape), self.shape, check=False)

    def __sub__(self, other: Any) -> CSR:
        _same_shape(self, other)
        negative: CSR = -other
        return self + negative

    def _times(self, other: CSR) -> CSR:
        if self.shape[1] != other.shape[0]:
            raise ShapeError(f"sparse matrices of shapes {self.shape} and {other.shape} in A @ B")
        _refuse_bools(self.data, other.data)
        shape = self.shape[0], other.shape[1]
        return CSR(*algebra.multiplied(self._parts, other._parts, shape), shape, check=False)

    def __rmatmul__(self, x: Any) -> Any:
        """A vector or dense matrix times this one.

        The transposed matrix is made for it, but where a processor multiplies a vector, whose
        numbers are added up column by column.
        """
        xp = array_namespace(x)
        if x.ndim == 1 and self._adds_by_columns and tuple(x.shape) == (self.shape[0],):
            _refuse_bools(self.data, x)
            return products.by_columns(*self._parts, x, self.shape[1])
        return self.T @ x if x.ndim == 1 else xp.matrix_transpose(self.T @ xp.matrix_transpose(x))

    def __getitem__(self, index: Any) -> Any:
        """Some rows and columns, as a matrix, or one element.

        ``A[i]`` is a matrix of one row, ``A[2:7]`` and ``A[rows]`` are matrices of some, `rows`
        being a list or an array of numbers or bools; ``A[:, j]`` and ``A[2:7, columns]`` have the
        columns that are named likewise. Of two lists SciPy takes elements pair by pair: that is
        refused, ``A[rows][:, columns]`` has all of both. ``A[i, j]`` is an element, as an array
        without dimensions. Copies but for neighbouring rows. Waits for the device.
        """
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        if not any(isinstance(x, slice | int | np.integer) for x in (rows, columns)):
            raise IndexError(
                "rows and columns of a sparse matrix by two lists or arrays; write "
                "A[rows][:, columns] for all of both"
            )
        part = self._rows(rows)
        if isinstance(columns, int | np.integer) and isinstance(rows, int | np.integer):
            return part[:, [columns]].sum()
        whole = isinstance(columns, slice) and columns == slice(None)
        return part if whole else part.T._rows(columns, "column").T

    def _rows(self, index: Any, what: str = "row") -> CSR:
        m, n = self.shape
        if isinstance(index, int | np.integer):
            if not -m <= index < m:
                raise IndexError(f"{what} {index} is out of range for {m} {what}s")
            index = slice(int(index) % m, int(index) % m + 1)
        if isinstance(index, slice) and index.step in (None, 1):
            first, stop, _ = index.indices(m)
            ends = self.offsets[first : max(first, stop) + 1]
            begin, end = int(ends[0]), int(ends[-1])
            parts = products.Rows(self.data[begin:end], self.columns[begin:end], ends - begin)
        else:
            parts = algebra.taken(self._parts, algebra.row_numbers(index, self.offsets, m, what))
        return CSR(*parts, (int(parts.offsets.shape[0]) - 1, n), check=False)

    # -- numbers of it -------------------------------------------------------------------------

    def sum(self, axis: int | None = None) -> Any:
        """The sum of all numbers, or those of columns (``axis=0``) or rows (1), in their dtype."""
        if axis is None:
            return array_namespace(self.data).sum(self.data)
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"axis={axis}; a matrix has 0 (sums of columns) and 1 (of rows)")
        _refuse_bools(self.data)
        if axis % 2 == 0 and self._adds_by_columns:
            xp = array_namespace(self.data)
            one = xp.ones(self.shape[0], dtype=self.data.dtype, device=device_of_library(self.data))
            return self.__rmatmul__(one)
        rows = self if axis % 2 else self.T
        return segmented_reduce(rows.data, rows.offsets)

    def diagonal(self) -> Any:
        """The elements on the main diagonal, as an array of shape ``(min(m, n),)``."""
        _refuse_bools(self.data)
        found = algebra.kept(self._parts, algebra.rows_of(self._parts) == self.columns)
        return segmented_reduce(found.data, found.offsets)[: min(self.shape)]

    def eliminate_zeros(self) -> None:
        """Takes zeros out of this matrix, as SciPy's method does; waits for the device."""
        self.data, self.columns, self.offsets = algebra.kept(self._parts, self.data != 0)
        self._shares.clear()
        self.__dict__.pop("_uneven", None)


def _check_range(numbers: Any, stop: int, what: str) -> None:
    """Refuses numbers of rows or columns that there are none of."""
    xp = array_namespace(numbers)
    if numbers.shape[0] and not (int(xp.min(numbers)) >= 0 and int(xp.max(numbers)) < stop):
        raise ValueError(f"a {what} is out of range for {stop} {what}s")


def _number(x: Any, what: str) -> Any:
    """A factor, which has to be one."""
    if getattr(x, "shape", ()) == () and not isinstance(x, CSR | str):
        return x
    raise TypeError(
        f"{what} of a sparse matrix and {type(x).__name__}: x is a number; write A @ x for a "
        "product, A.toarray() * x element by element"
    )


def _refuse_bools(*numbers: Any) -> None:
    """Refuses what kernels do not add up."""
    if all(dtype(x.dtype) is bool_ for x in numbers):
        raise DTypeError(
            "sparse matrices of bools are not added up or multiplied; write A.astype(xp.int32)"
        )


def _same_shape(a: CSR, b: Any) -> None:
    if not isinstance(b, CSR):
        raise TypeError(
            f"a sparse matrix plus or minus {type(b).__name__}; expected another CSR "
            "(CSR.from_scipy(x) makes one); a dense result is A.toarray() + x"
        )
    if a.shape != b.shape:
        raise ShapeError(f"the sum of sparse matrices of shapes {a.shape} and {b.shape}")


class _Transposed(CSR):
    """A transposed matrix whose arrays are made at their first use.

    Parameters
    ----------
    origin : CSR
        What is transposed. Its arrays are this one's as long as there are no others.
    """

    def __init__(self, origin: CSR) -> None:
        self.shape = origin.shape[1], origin.shape[0]
        self._shares = {}
        self._origin = origin._with(origin.data)

    def __getattr__(self, name: str) -> Any:
        if name not in products.Rows._fields:
            return super().__getattr__(name)
        parts = algebra.transposed(self._origin._parts, self.shape[0])
        self.__dict__.update(parts._asdict())
        return self.__dict__[name]

    def __matmul__(self, x: Any) -> Any:
        by_vector = len(getattr(x, "shape", ())) == 1 and x.shape[0] == self.shape[1]
        if by_vector and "data" not in self.__dict__ and self._origin._adds_by_columns:
            return self._origin.__rmatmul__(x)
        return super().__matmul__(x)
