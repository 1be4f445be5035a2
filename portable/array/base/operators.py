"""The operators of arrays, for whatever the element-wise functions take."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.array.base.operations import OPERATIONS
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import apply
from portable.primitives.maps.work import Expression, Operation


class Operators:  # noqa: PLW1641  (arrays and their stand-ins differ in having a hash)
    """Python's operators, element by element; those in place are not among them."""

    __slots__ = ()

    def __neg__(self) -> Any:
        return apply(OPERATIONS["negative"], self)

    def __pos__(self) -> Any:
        return apply(OPERATIONS["positive"], self)

    def __abs__(self) -> Any:
        return apply(OPERATIONS["abs"], self)

    def __invert__(self) -> Any:
        return apply(OPERATIONS["bitwise_invert"], self)

    def __eq__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["equal"], self, other)

    def __ne__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["not_equal"], self, other)

    def __lt__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["less"], self, other)

    def __le__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["less_equal"], self, other)

    def __gt__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["greater"], self, other)

    def __ge__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["greater_equal"], self, other)

    def __add__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["add"], self, other)

    def __radd__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["add"], other, self)

    def __sub__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["subtract"], self, other)

    def __rsub__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["subtract"], other, self)

    def __mul__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["multiply"], self, other)

    def __rmul__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["multiply"], other, self)

    def __truediv__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["divide"], self, other)

    def __rtruediv__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["divide"], other, self)

    def __floordiv__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["floor_divide"], self, other)

    def __rfloordiv__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["floor_divide"], other, self)

    def __mod__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["remainder"], self, other)

    def __rmod__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["remainder"], other, self)

    def __pow__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["pow"], self, other)

    def __rpow__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["pow"], other, self)

    def __and__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_and"], self, other)

    def __rand__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_and"], other, self)

    def __or__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_or"], self, other)

    def __ror__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_or"], other, self)

    def __xor__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_xor"], self, other)

    def __rxor__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_xor"], other, self)

    def __lshift__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_left_shift"], self, other)

    def __rlshift__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_left_shift"], other, self)

    def __rshift__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_right_shift"], self, other)

    def __rrshift__(self, other: Any, /) -> Any:
        return _operated(OPERATIONS["bitwise_right_shift"], other, self)


def _operated(operation: Operation, x: Any, y: Any) -> Any:
    """The operation on what operators take; of other things Python asks the other operand."""
    if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
        x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
        if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
            return NotImplemented
    return apply(operation, x, y)


_OPERANDS: Final = (Storage, Expression, int, float, complex)
