"""The operators of arrays, for whatever the element-wise functions take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.array.base.operations import OPERATIONS, raised
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import apply
from portable.primitives.maps.work import Expression, Operation


def _of_one(name: str) -> Callable[[Any], Any]:
    """The method of an operator before its operand."""
    operation = OPERATIONS[name]
    return lambda self: apply(operation, self)


def _of_two(name: str) -> Callable[[Any, Any], Any]:
    """The method of an operator between the array and another operand."""
    operation = OPERATIONS[name]
    return lambda self, other, /: _operated(operation, self, other)


def _both_ways(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The methods of an operator with the array before and behind it."""
    operation = OPERATIONS[name]
    return _of_two(name), lambda self, other, /: _operated(operation, other, self)


def _operated(operation: Operation, x: Any, y: Any) -> Any:
    """The operation on what operators take; of other things Python asks the other operand."""
    if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
        x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
        if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
            return NotImplemented
    return apply(operation, x, y)


def _power(self: Any, other: Any, /) -> Any:
    """The method of ``**`` with the array before it."""
    operation, operands = raised(self, other.item() if isinstance(other, np.generic) else other)
    return apply(operation, *operands) if len(operands) == 1 else _operated(operation, *operands)


_OPERANDS: Final = (Storage, Expression, int, float, complex)


class Operators:  # noqa: PLW1641  (arrays and their stand-ins differ in having a hash)
    """Python's operators, element by element; those in place are not among them."""

    __slots__ = ()

    __neg__ = _of_one("negative")
    __pos__ = _of_one("positive")
    __abs__ = _of_one("abs")
    __invert__ = _of_one("bitwise_invert")

    __eq__ = _of_two("equal")
    __ne__ = _of_two("not_equal")
    __lt__ = _of_two("less")
    __le__ = _of_two("less_equal")
    __gt__ = _of_two("greater")
    __ge__ = _of_two("greater_equal")

    __add__, __radd__ = _both_ways("add")
    __sub__, __rsub__ = _both_ways("subtract")
    __mul__, __rmul__ = _both_ways("multiply")
    __truediv__, __rtruediv__ = _both_ways("divide")
    __floordiv__, __rfloordiv__ = _both_ways("floor_divide")
    __mod__, __rmod__ = _both_ways("remainder")

    def __divmod__(self: Any, other: Any, /) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any, /) -> Any:
        return other // self, other % self

    __pow__, __rpow__ = _power, _both_ways("pow")[1]
    __and__, __rand__ = _both_ways("bitwise_and")
    __or__, __ror__ = _both_ways("bitwise_or")
    __xor__, __rxor__ = _both_ways("bitwise_xor")
    __lshift__, __rlshift__ = _both_ways("bitwise_left_shift")
    __rshift__, __rrshift__ = _both_ways("bitwise_right_shift")
