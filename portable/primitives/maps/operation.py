"""An element-wise operation: what dtypes it takes and gives, and what a kernel does for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, bool_, float16
from portable.errors import DTypeError
from portable.primitives.base.operands import in_single, kind_of, promoted, with_scalar

_WORDS: Final = {
    "b": "bool",
    "iu": "integers",
    "biu": "integers and bools",
    "f": "real floating-point numbers",
    "fc": "floating-point numbers",
    "iuf": "real numbers",
    "c": "complex numbers",
    "iufc": "numbers",
}


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """One element-wise operation.

    Attributes
    ----------
    name : str
        As users call it.
    kinds : str
        The kinds of dtype that it takes.
    real, whole : object
        What the kernel calls: for floats and complex numbers, for integers and bools; a word of the
        language or a `portable.function`. `whole` defaults to `real`.
    half : object
        What it calls for `float16`, whose numbers it holds in single precision; `real` by default.
    result : {"same", "bool", "real"}
        The result's dtype: that of the operands, bool, or the real one of a complex one.
    alone : str
        The kinds of dtype of which the kernel calls it with one number at a time, not with vectors.
    plain : int
        So many first operands keep their own dtype (the condition of ``where``).
    fixed : DType or None
        The dtype to compute in and to give, whatever the operands are.
    floats : DType
        With which integers are promoted where it takes floats alone, at the least; None: it refuses
        integers, of which NumPy makes integers.
    """

    name: str
    kinds: str
    real: Any
    whole: Any = None
    half: Any = None
    result: Literal["same", "bool", "real"] = "same"
    alone: str = ""
    plain: int = 0
    fixed: DType | None = field(default=None)
    floats: DType | None = float16

    def function(self, kind: DType) -> Any:
        """What the kernel calls for operands of a dtype."""
        if kind is float16 and self.half is not None:
            return self.half
        return self.real if kind.kind in "fc" else self.whole or self.real

    def takes_vectors(self, compute: DType) -> bool:
        """Whether the kernel may call it with vectors where it computes in a dtype."""
        return not compute.is_complex and compute.kind not in self.alone

    def is_copy_of(self, x: Any) -> bool:
        """Whether it gives elements as they are."""
        return self.fixed is not None and getattr(x, "dtype", None) is self.fixed

    def types(self, operands: Sequence[DType | str], *, double: bool = True) -> tuple[DType, DType]:
        """The dtype to compute in and that of the result; Python numbers are kind letters.

        `double`: whether the device has double precision.

        Raises
        ------
        DTypeError
            For dtypes that do not combine, or that the operation does not take.
        """
        if self.fixed is not None:
            return self.fixed, self.fixed
        common = common_type(operands[self.plain :])
        if common.kind in "biu" and self.kinds in ("f", "fc") and self.floats is not None:
            common = promoted(common, self.floats)
        if not double:
            common = in_single(common)
        if common.kind not in self.kinds:
            wanted = _WORDS.get(self.kinds, "other dtypes")
            raise DTypeError(f"{self.name} takes {wanted}, not {common.name}")
        if self.result == "bool":
            return common, bool_
        return common, common.real if self.result == "real" else common


def common_type(operands: Sequence[Any]) -> DType:
    """The dtype of arrays (given by dtype) and Python numbers (by kind letter) together."""
    kinds = [x for x in operands if isinstance(x, DType)]
    common = promoted(*kinds)
    for x in operands:
        if isinstance(x, str):
            common = with_scalar(common, x)
    return common


def described(x: Any) -> DType | str:
    """What promotion sees of an operand."""
    kind: DType | None = getattr(x, "dtype", None)
    return kind_of(x) if kind is None else kind


@cache
def conversion_to(kind: DType) -> Operation:
    """The operation that converts to a dtype."""
    return Operation("astype", "biufc", kl.positive, fixed=kind)


# What stands for an array while a function of arrays is looked at.


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
