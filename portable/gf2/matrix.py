"""`BitMatrix`: a matrix over GF(2) on a device, 64 elements to a word."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from portable import registry
from portable.backend import Device
from portable.dtypes import dtype, uint64
from portable.errors import DTypeError, ShapeError
from portable.gf2 import packed_file
from portable.interchange import libraries as interchange
from portable.namespace import asarray, device_of_arrays, to_numpy

_SHOWN: Final = 16


class BitMatrix:
    """A matrix over GF(2).

    Parameters
    ----------
    words : array, shape (rows, ceil(columns / 64))
        ``uint64``, C-contiguous, on any device: column c is bit ``c % 64`` (from the least) of word
        ``c // 64``. Bits beyond `columns` must be zeros. The matrix keeps the array.
    columns : int
        The number of columns.
    device : str or Device, optional
        The device of the words, where several take them (NumPy's); that in use if left out.

    Attributes
    ----------
    words : array
        As given.
    shape : (int, int)
        Rows and columns.
    device : Device
        Where it is.

    Raises
    ------
    DTypeError, ShapeError
        For words of another type, or too few or too many of them.

    Examples
    --------
    >>> import numpy as np
    >>> from portable import gf2
    >>> gf2.BitMatrix.from_dense(np.eye(3))
    BitMatrix 3x3 on cpu:intel
    100
    010
    001
    """

    def __init__(self, words: Any, columns: int, *, device: str | Device | None = None) -> None:
        self.device: Final = _owner(words, device)
        if dtype(words.dtype) is not uint64:
            raise DTypeError(f"a BitMatrix holds words of uint64, not {dtype(words.dtype).name}")
        width = packed_file.word_count(columns)
        if len(words.shape) != 2 or words.shape[1] != width:
            raise ShapeError(
                f"{columns} columns take words of shape (rows, {width}), not {tuple(words.shape)}"
            )
        self.words: Final = words
        self.shape: Final = (int(words.shape[0]), int(columns))

    # -- making one -----------------------------------------------------------------------------

    @classmethod
    def zeros(cls, shape: tuple[int, int], *, device: str | Device | None = None) -> Self:
        """A matrix of zeros."""
        words = np.zeros((_extent(shape[0]), packed_file.word_count(_extent(shape[1]))), np.uint64)
        return cls.from_words(words, shape[1], device=device)

    @classmethod
    def identity(cls, n: int, *, device: str | Device | None = None) -> Self:
        """The identity of order `n`."""
        words = np.zeros((_extent(n), packed_file.word_count(n)), np.uint64)
        places = np.arange(n)
        words[places, places // 64] = np.uint64(1) << (places % 64).astype(np.uint64)
        return cls.from_words(words, n, device=device)

    @classmethod
    def from_dense(cls, a: ArrayLike | Any, *, device: str | Device | None = None) -> Self:
        """The matrix of an array of shape (rows, columns) of any library; what is not 0 is 1.

        It is made on the device of the array unless `device` names another.
        """
        held = asarray(a) if hasattr(a, "__dlpack_device__") else np.asarray(a)
        if len(held.shape) != 2:
            raise ShapeError(f"a BitMatrix has two dimensions, not shape {tuple(held.shape)}")
        if device is None and not isinstance(held, np.ndarray):
            device = device_of_arrays(held)
        return cls.from_words(packed_file.pack(to_numpy(held)), int(held.shape[1]), device=device)

    @classmethod
    def from_columns(
        cls, rows: Sequence[Sequence[int]], columns: int, *, device: str | Device | None = None
    ) -> Self:
        """The matrix of which each row is given by the columns of its ones, in any order.

        Parameters
        ----------
        rows : sequence of sequence of int
            The columns of the ones of each row.
        columns : int
            How many columns there are.
        device : str or Device, optional
            Where it goes; the device in use if left out.

        Raises
        ------
        DataError
            For a column out of range, or given twice in a row.
        """
        return cls.from_words(
            packed_file.pack_columns(rows, _extent(columns)), columns, device=device
        )

    @classmethod
    def from_words(
        cls, words: packed_file.Words, columns: int, *, device: str | Device | None = None
    ) -> Self:
        """NumPy's words on a device, which shares them if it takes NumPy's arrays.

        Parameters
        ----------
        words : array of uint64, shape (rows, words of a row)
            Bits beyond the last column are zeros.
        columns : int
            How many columns there are.
        device : str or Device, optional
            Where it goes; the device in use if left out.
        """
        target = registry.device(device)
        held = words if target.owns(words) else target.from_numpy(words)
        return cls(held, columns, device=target)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | Device | None = None) -> Self:
        """What `save` wrote.

        Raises
        ------
        DataError
            If the file is of another format, or cut short.
        """
        words, columns = packed_file.read_packed(path)
        return cls.from_words(words, columns, device=device)

    # -- what is in it --------------------------------------------------------------------------

    def to_words(self) -> packed_file.Words:
        """The words as a NumPy array of its own."""
        return self.device.to_numpy(self.words)

    def to_dense(self, *, like: Any = None) -> Any:
        """The elements as an array of bools, of shape (rows, columns).

        Parameters
        ----------
        like : array, optional
            Of its library (PyTorch, JAX, ...) and on its device; NumPy's if left out.
        """
        dense = packed_file.unpack(self.to_words(), self.shape[1])
        return dense if like is None else interchange.like(like, dense)

    def to_columns(self) -> list[list[int]]:
        """For each row the columns of its ones, in ascending order."""
        return [
            places.tolist() for places in packed_file.columns_of(self.to_words(), self.shape[1])
        ]

    def to(self, device: str | Device) -> BitMatrix:
        """The matrix on a device; itself if it is there."""
        target = registry.device(device)
        if target is self.device:
            return self
        return self.from_words(self.to_words(), self.shape[1], device=target)

    def copy(self) -> BitMatrix:
        """A matrix of its own with the same elements."""
        return self.from_words(self.to_words(), self.shape[1], device=self.device)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it whole or not at all, in a format that can be memory-mapped."""
        packed_file.write_packed(path, self.to_words(), self.shape[1])

    def __eq__(self, other: object) -> bool:
        """Whether shapes and all elements are the same, wherever the two are."""
        if not isinstance(other, BitMatrix):
            return NotImplemented
        return self.shape == other.shape and bool(np.array_equal(self.to_words(), other.to_words()))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        head = f"BitMatrix {self.shape[0]}x{self.shape[1]} on {self.device.name}"
        if max(self.shape) > _SHOWN or 0 in self.shape:
            return head
        rows = ("".join("01"[int(x)] for x in row) for row in self.to_dense())
        return "\n".join([head, *rows])


def _owner(words: Any, device: str | Device | None) -> Device:
    """The device that holds words, which is `device` if that takes them."""
    if device is not None:
        target = registry.device(device)
        if target.owns(words):
            return target
    return device_of_arrays(words)


def _extent(n: int) -> int:
    if n < 0:
        raise ShapeError(f"a BitMatrix cannot have {n} rows or columns")
    return int(n)


# Matrices over GF(2) given element by element, as arrays of any library.

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def takes_dense(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Makes an operation take arrays of bools or numbers, too, and give such arrays of the library.

    What is not 0 is 1. Matrices in results are then arrays of bools, like the first array given; a
    vector beside a matrix is a column, and so is the result. Arrays beside a `BitMatrix` go to its
    device.
    """
    parameters = signature(function)

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        arrays = [x for x in (*args, *kwargs.values()) if _is_dense(x)]
        if not arrays:
            return function(*args, **kwargs)
        given = parameters.bind(*args, **kwargs).arguments
        second: Any = given.get("b")
        is_vector = _is_dense(second) and len(second.shape) == 1
        if is_vector:
            given["b"] = second[:, None]
        device = next((x.device for x in given.values() if isinstance(x, BitMatrix)), None)
        packed = {
            name: BitMatrix.from_dense(x, device=device) if _is_dense(x) else x
            for name, x in given.items()
        }
        dense = _like(cast(Callable[..., _Result], function)(**packed), arrays[0])
        return cast(_Result, dense[:, 0] if is_vector else dense)

    return call


def _is_dense(x: Any) -> bool:
    return not isinstance(x, BitMatrix) and hasattr(x, "shape")


def _like(words: Any, sample: Any) -> Any:
    if isinstance(words, BitMatrix):
        return words.to_dense(like=None if isinstance(sample, np.ndarray) else sample)
    if isinstance(words, tuple) and hasattr(words, "_fields"):
        return type(words)(*(_like(part, sample) for part in words))
    return words
