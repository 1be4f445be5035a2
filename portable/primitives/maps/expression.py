"""What stands for an array while a function of arrays is looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.primitives.maps.operation import Operation


class Expression(ABC):
    """An operand of element-wise functions that records what is done to it.

    Attributes
    ----------
    device : Device
        Where the arrays are that it stands for.
    dtype : DType
        Of its elements.
    shape : tuple of int
        Extents.
    """

    __slots__ = ()

    device: Device
    dtype: DType
    shape: tuple[int, ...]

    @abstractmethod
    def record(self, operation: Operation, operands: tuple[Any, ...]) -> Any:
        """What stands for the result of an operation, this being one of the operands."""
