"""The operators of arrays, for whatever the element-wise functions take."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.array import elementwise
from portable.array.base.storage import Storage
from portable.array.engine import apply
from portable.array.expression import Expression
from portable.array.operation import Operation

__all__ = [
    "ADD",
    "BITWISE_AND",
    "BITWISE_LEFT_SHIFT",
    "BITWISE_OR",
    "BITWISE_RIGHT_SHIFT",
    "BITWISE_XOR",
    "DIVIDE",
    "FLOOR_DIVIDE",
    "MULTIPLY",
    "POW",
    "REMAINDER",
    "SUBTRACT",
    "Operators",
]

_OPERATIONS: Final = elementwise.OPERATIONS


class Operators:  # noqa: PLW1641  (arrays and their stand-ins differ in having a hash)
    """Python's operators, by the functions of the Array API; those in place are not among them."""

    __slots__ = ()

    def __neg__(self) -> Any:
        return apply(_NEGATIVE, self)

    def __pos__(self) -> Any:
        return apply(_POSITIVE, self)

    def __abs__(self) -> Any:
        return apply(_ABS, self)

    def __invert__(self) -> Any:
        return apply(_BITWISE_INVERT, self)

    def __eq__(self, other: Any, /) -> Any:
        return _operated(_EQUAL, self, other)

    def __ne__(self, other: Any, /) -> Any:
        return _operated(_NOT_EQUAL, self, other)

    def __lt__(self, other: Any, /) -> Any:
        return _operated(_LESS, self, other)

    def __le__(self, other: Any, /) -> Any:
        return _operated(_LESS_EQUAL, self, other)

    def __gt__(self, other: Any, /) -> Any:
        return _operated(_GREATER, self, other)

    def __ge__(self, other: Any, /) -> Any:
        return _operated(_GREATER_EQUAL, self, other)

    def __add__(self, other: Any, /) -> Any:
        return _operated(ADD, self, other)

    def __radd__(self, other: Any, /) -> Any:
        return _operated(ADD, other, self)

    def __sub__(self, other: Any, /) -> Any:
        return _operated(SUBTRACT, self, other)

    def __rsub__(self, other: Any, /) -> Any:
        return _operated(SUBTRACT, other, self)

    def __mul__(self, other: Any, /) -> Any:
        return _operated(MULTIPLY, self, other)

    def __rmul__(self, other: Any, /) -> Any:
        return _operated(MULTIPLY, other, self)

    def __truediv__(self, other: Any, /) -> Any:
        return _operated(DIVIDE, self, other)

    def __rtruediv__(self, other: Any, /) -> Any:
        return _operated(DIVIDE, other, self)

    def __floordiv__(self, other: Any, /) -> Any:
        return _operated(FLOOR_DIVIDE, self, other)

    def __rfloordiv__(self, other: Any, /) -> Any:
        return _operated(FLOOR_DIVIDE, other, self)

    def __mod__(self, other: Any, /) -> Any:
        return _operated(REMAINDER, self, other)

    def __rmod__(self, other: Any, /) -> Any:
        return _operated(REMAINDER, other, self)

    def __pow__(self, other: Any, /) -> Any:
        return _operated(POW, self, other)

    def __rpow__(self, other: Any, /) -> Any:
        return _operated(POW, other, self)

    def __and__(self, other: Any, /) -> Any:
        return _operated(BITWISE_AND, self, other)

    def __rand__(self, other: Any, /) -> Any:
        return _operated(BITWISE_AND, other, self)

    def __or__(self, other: Any, /) -> Any:
        return _operated(BITWISE_OR, self, other)

    def __ror__(self, other: Any, /) -> Any:
        return _operated(BITWISE_OR, other, self)

    def __xor__(self, other: Any, /) -> Any:
        return _operated(BITWISE_XOR, self, other)

    def __rxor__(self, other: Any, /) -> Any:
        return _operated(BITWISE_XOR, other, self)

    def __lshift__(self, other: Any, /) -> Any:
        return _operated(BITWISE_LEFT_SHIFT, self, other)

    def __rlshift__(self, other: Any, /) -> Any:
        return _operated(BITWISE_LEFT_SHIFT, other, self)

    def __rshift__(self, other: Any, /) -> Any:
        return _operated(BITWISE_RIGHT_SHIFT, self, other)

    def __rrshift__(self, other: Any, /) -> Any:
        return _operated(BITWISE_RIGHT_SHIFT, other, self)

    def __matmul__(self, other: Any, /) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any, /) -> Any:
        return _product(other, self)


def _operated(operation: Operation, x: Any, y: Any) -> Any:
    """The operation on what operators take; of other things Python asks the other operand."""
    if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
        x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
        if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
            return NotImplemented
    return apply(operation, x, y)


def _product(x: Any, y: Any) -> Any:
    from portable.array.products import matmul

    if not isinstance(x, Storage) or not isinstance(y, Storage):
        return NotImplemented
    return matmul(x, y)  # type: ignore[arg-type]


_OPERANDS: Final = (Storage, Expression, int, float, complex)
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
ADD: Final = _OPERATIONS["add"]
SUBTRACT: Final = _OPERATIONS["subtract"]
MULTIPLY: Final = _OPERATIONS["multiply"]
DIVIDE: Final = _OPERATIONS["divide"]
FLOOR_DIVIDE: Final = _OPERATIONS["floor_divide"]
REMAINDER: Final = _OPERATIONS["remainder"]
POW: Final = _OPERATIONS["pow"]
BITWISE_AND: Final = _OPERATIONS["bitwise_and"]
BITWISE_OR: Final = _OPERATIONS["bitwise_or"]
BITWISE_XOR: Final = _OPERATIONS["bitwise_xor"]
BITWISE_LEFT_SHIFT: Final = _OPERATIONS["bitwise_left_shift"]
BITWISE_RIGHT_SHIFT: Final = _OPERATIONS["bitwise_right_shift"]
