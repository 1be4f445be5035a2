"""The array object of the Array API."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final, Self

import numpy as np

from portable.array import conversion, elementwise, indexing
from portable.array.engine import apply
from portable.array.operation import Operation
from portable.array.storage import Storage
from portable.errors import ShapeError

__all__ = ["Array", "Index"]

Index = Any
"""An integer, slice, ``...``, None, an array of integers or bools, or a tuple of them."""

_OPERATIONS: Final = elementwise.OPERATIONS


class Array(Storage):
    """An array of a device, as the Array API describes it.

    Made by `portable.xp` and its functions. Slices are views: they share memory with what they were
    taken from. Work is queued on the device; printing, ``int(x)``, ``bool(x)`` and
    `portable.to_numpy` wait for it.
    """

    __slots__ = ()

    __array_ufunc__ = None
    __array_priority__ = 1000

    # -- what it is ------------------------------------------------------------------------

    @property
    def T(self) -> Array:  # noqa: N802  (the Array API's name)
        """The transpose of a matrix, a view."""
        if len(self.shape) != 2:
            raise ShapeError(
                f"T takes a matrix, not an array of shape {self.shape}; see mT and permute_dims"
            )
        return self.viewed(self.shape[::-1], self.strides[::-1])

    @property
    def mT(self) -> Array:  # noqa: N802  (the Array API's name)
        """The transposes of the matrices in the last two dimensions, a view."""
        if len(self.shape) < 2:
            raise ShapeError(f"mT takes two dimensions or more, not an array of shape {self.shape}")
        shape, strides = self.shape, self.strides
        return self.viewed(
            (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The namespace of functions on such arrays."""
        return conversion.namespace(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on another device; itself where it is there already."""
        return conversion.to_device(self, device, stream)

    def __repr__(self) -> str:
        return conversion.text(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no len()")
        return self.shape[0]

    # -- conversions, which wait for the device ----------------------------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array of {self.device.name} is not copied to the host unasked; use "
            "portable.to_numpy(x)"
        )

    def __bool__(self) -> bool:
        return bool(conversion.item(self, "bool"))

    def __int__(self) -> int:
        return int(conversion.item(self, "int"))

    def __float__(self) -> float:
        return float(conversion.item(self, "float"))

    def __complex__(self) -> complex:
        return complex(conversion.item(self, "complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError(f"an index is an integer, not a {self.dtype.name} array")
        return int(conversion.item(self, "index"))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return conversion.dlpack(self, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return conversion.dlpack_device(self)

    # -- elements --------------------------------------------------------------------------

    def __getitem__(self, key: Index, /) -> Array:
        return indexing.get(self, key)

    def __setitem__(self, key: Index, value: Any, /) -> None:
        indexing.put(self, key, value)

    # Without it Python would iterate by __getitem__ until an IndexError, for 0-d arrays too.
    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("an array without dimensions cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    # -- operators -------------------------------------------------------------------------

    def __hash__(self) -> int:
        raise TypeError("arrays can change, so they have no hash")

    def __neg__(self) -> Array:
        return apply(_NEGATIVE, self)

    def __pos__(self) -> Array:
        return apply(_POSITIVE, self)

    def __abs__(self) -> Array:
        return apply(_ABS, self)

    def __invert__(self) -> Array:
        return apply(_BITWISE_INVERT, self)

    def __eq__(self, other: Any, /) -> Array:  # type: ignore[override]
        return _operated(_EQUAL, self, other)

    def __ne__(self, other: Any, /) -> Array:  # type: ignore[override]
        return _operated(_NOT_EQUAL, self, other)

    def __lt__(self, other: Any, /) -> Array:
        return _operated(_LESS, self, other)

    def __le__(self, other: Any, /) -> Array:
        return _operated(_LESS_EQUAL, self, other)

    def __gt__(self, other: Any, /) -> Array:
        return _operated(_GREATER, self, other)

    def __ge__(self, other: Any, /) -> Array:
        return _operated(_GREATER_EQUAL, self, other)

    def __add__(self, other: Any, /) -> Array:
        return _operated(_ADD, self, other)

    def __radd__(self, other: Any, /) -> Array:
        return _operated(_ADD, other, self)

    def __iadd__(self, other: Any, /) -> Self:
        return indexing.updated(_ADD, self, other)

    def __sub__(self, other: Any, /) -> Array:
        return _operated(_SUBTRACT, self, other)

    def __rsub__(self, other: Any, /) -> Array:
        return _operated(_SUBTRACT, other, self)

    def __isub__(self, other: Any, /) -> Self:
        return indexing.updated(_SUBTRACT, self, other)

    def __mul__(self, other: Any, /) -> Array:
        return _operated(_MULTIPLY, self, other)

    def __rmul__(self, other: Any, /) -> Array:
        return _operated(_MULTIPLY, other, self)

    def __imul__(self, other: Any, /) -> Self:
        return indexing.updated(_MULTIPLY, self, other)

    def __truediv__(self, other: Any, /) -> Array:
        return _operated(_DIVIDE, self, other)

    def __rtruediv__(self, other: Any, /) -> Array:
        return _operated(_DIVIDE, other, self)

    def __itruediv__(self, other: Any, /) -> Self:
        return indexing.updated(_DIVIDE, self, other)

    def __floordiv__(self, other: Any, /) -> Array:
        return _operated(_FLOOR_DIVIDE, self, other)

    def __rfloordiv__(self, other: Any, /) -> Array:
        return _operated(_FLOOR_DIVIDE, other, self)

    def __ifloordiv__(self, other: Any, /) -> Self:
        return indexing.updated(_FLOOR_DIVIDE, self, other)

    def __mod__(self, other: Any, /) -> Array:
        return _operated(_REMAINDER, self, other)

    def __rmod__(self, other: Any, /) -> Array:
        return _operated(_REMAINDER, other, self)

    def __imod__(self, other: Any, /) -> Self:
        return indexing.updated(_REMAINDER, self, other)

    def __pow__(self, other: Any, /) -> Array:
        return _operated(_POW, self, other)

    def __rpow__(self, other: Any, /) -> Array:
        return _operated(_POW, other, self)

    def __ipow__(self, other: Any, /) -> Self:
        return indexing.updated(_POW, self, other)

    def __and__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_AND, self, other)

    def __rand__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_AND, other, self)

    def __iand__(self, other: Any, /) -> Self:
        return indexing.updated(_BITWISE_AND, self, other)

    def __or__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_OR, self, other)

    def __ror__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_OR, other, self)

    def __ior__(self, other: Any, /) -> Self:
        return indexing.updated(_BITWISE_OR, self, other)

    def __xor__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_XOR, self, other)

    def __rxor__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_XOR, other, self)

    def __ixor__(self, other: Any, /) -> Self:
        return indexing.updated(_BITWISE_XOR, self, other)

    def __lshift__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_LEFT_SHIFT, self, other)

    def __rlshift__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_LEFT_SHIFT, other, self)

    def __ilshift__(self, other: Any, /) -> Self:
        return indexing.updated(_BITWISE_LEFT_SHIFT, self, other)

    def __rshift__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_RIGHT_SHIFT, self, other)

    def __rrshift__(self, other: Any, /) -> Array:
        return _operated(_BITWISE_RIGHT_SHIFT, other, self)

    def __irshift__(self, other: Any, /) -> Self:
        return indexing.updated(_BITWISE_RIGHT_SHIFT, self, other)

    def __matmul__(self, other: Any, /) -> Array:
        return _product(self, other)

    def __rmatmul__(self, other: Any, /) -> Array:
        return _product(other, self)

    def __imatmul__(self, other: Any, /) -> Self:
        indexing.put(self, ..., _product(self, other))
        return self


def _operated(operation: Operation, x: Any, y: Any) -> Array:
    """The operation on what operators take; of other things Python asks the other operand."""
    if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
        x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
        if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
            return NotImplemented  # type: ignore[no-any-return]
    return apply(operation, x, y)


def _product(x: Any, y: Any) -> Array:
    from portable.array.products import matmul

    if not isinstance(x, Array) or not isinstance(y, Array):
        return NotImplemented  # type: ignore[no-any-return]
    return matmul(x, y)


_OPERANDS: Final = (Storage, int, float, complex)
_NEGATIVE: Final = _OPERATIONS["negative"]
_POSITIVE: Final = _OPERATIONS["positive"]
_ABS: Final = _OPERATIONS["abs"]
_BITWISE_INVERT: Final = _OPERATIONS["bitwise_invert"]
_EQUAL: Final = _OPERATIONS["equal"]
_NOT_EQUAL: Final = _OPERATIONS["not_equal"]
_LESS: Final = _OPERATIONS["less"]
_LESS_EQUAL: Final = _OPERATIONS["less_equal"]
_GREATER: Final = _OPERATIONS["greater"]
_GREATER_EQUAL: Final = _OPERATIONS["greater_equal"]
_ADD: Final = _OPERATIONS["add"]
_SUBTRACT: Final = _OPERATIONS["subtract"]
_MULTIPLY: Final = _OPERATIONS["multiply"]
_DIVIDE: Final = _OPERATIONS["divide"]
_FLOOR_DIVIDE: Final = _OPERATIONS["floor_divide"]
_REMAINDER: Final = _OPERATIONS["remainder"]
_POW: Final = _OPERATIONS["pow"]
_BITWISE_AND: Final = _OPERATIONS["bitwise_and"]
_BITWISE_OR: Final = _OPERATIONS["bitwise_or"]
_BITWISE_XOR: Final = _OPERATIONS["bitwise_xor"]
_BITWISE_LEFT_SHIFT: Final = _OPERATIONS["bitwise_left_shift"]
_BITWISE_RIGHT_SHIFT: Final = _OPERATIONS["bitwise_right_shift"]
