"""Element-wise operations on arrays of whatever class."""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol, TypeVar

from portable import lang as kl
from portable.dtypes import DType
from portable.primitives.base.storage import Storage
from portable.primitives.maps import engine
from portable.primitives.maps.expression import Expression
from portable.primitives.maps.operation import Operation

ArrayT = TypeVar("ArrayT", bound=Storage)
"""The class of arrays: functions give arrays of the class that they are given."""


class _Apply(Protocol):
    def __call__(
        self, operation: Operation, *operands: ArrayT | complex, out: ArrayT | None = None
    ) -> ArrayT: ...


apply: Final[_Apply] = engine.apply
"""`portable.primitives.maps.engine.apply`, whose results are of its operands' class."""


def is_expression(x: object) -> bool:
    """Whether it stands for an array, inside a function that is being fused."""
    return isinstance(x, Expression)


@cache
def filling(kind: DType) -> Operation:
    """The operation that fills an array with a number."""
    return Operation("full", "biufc", kl.positive, fixed=kind)


def filled(out: ArrayT, value: complex) -> ArrayT:
    """The array itself, all of whose elements are a number now."""
    return apply(filling(out.dtype), value, out=out)
