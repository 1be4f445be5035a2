"""How element-wise work is shared among work-items, and by how many lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, Final, Literal

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, bool_, float16, float32, float64
from portable.errors import DTypeError
from portable.primitives.base.operands import (
    in_single,
    kind_of,
    power_of_two,
    promoted,
    with_scalar,
)
from portable.primitives.tuning import row_shares_for

# An element-wise operation: what dtypes it takes and gives, and what a kernel does for it.

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

    @abstractmethod
    def reduce(self, name: str, axis: Any, dtype: Any, keepdims: bool) -> Any:
        """What stands for the result of a reduction."""


# -- work ------------------------------------------------------------------------------------------

_WIDE_ENOUGH: Final = 4
_HALF: Final = 4
"""A half takes as many bytes in a processor's registers."""
_WRITTEN: Final = 16
"""Bytes of a result that a work-item of a workgroup writes at a time at least."""
_LOADED: Final = 64
"""Bytes of an operand that it loads for that at most."""
_STREAMED: Final = 1 << 25
"""What a processor's caches hold for whoever reads a result next."""


def conversion_of(kind: DType, wanted: DType | None) -> DType | None:
    """What a kernel has to convert an operand to; None where loading or storing it gives that."""
    if wanted is None or kind is wanted or kind.is_complex:
        return None if wanted is None or kind is wanted else wanted
    if wanted.is_complex:
        return wanted
    if kind is float64 and wanted.is_float and wanted.itemsize < float32.itemsize:
        return None  # by single precision it would be rounded twice
    return None if kind.register is wanted.register else wanted.register


def streams(size: int, capabilities: Capabilities) -> bool:
    """Whether results of so many bytes are to pass the caches by: they are more than those hold.

    Else a processor reads each line before it writes it, a third of what a copy moves.
    """
    return capabilities.streaming_stores and size >= _STREAMED


def vector_lanes(
    kinds: Sequence[DType], extent: int, capabilities: Capabilities, *, streaming: bool = False
) -> int:
    """How many neighbours of these dtypes to take at a time along contiguous rows; 1 for none.

    The last dtype is the result's: on a GPU a narrow one is written in wide pieces too, on a
    processor what passes the caches by (`streaming`) in whole lines of them.

    Parameters
    ----------
    kinds : sequence of DType
        Of the operands, and last of the result.
    extent : int
        Of the rows.
    capabilities : Capabilities
        The device's.
    streaming : bool
        Whether the result passes the caches by.
    """
    if capabilities.single_work_items:
        lanes = _cpu_lanes(
            kinds, capabilities.cache_line if streaming else capabilities.vector_bytes
        )
    else:
        lanes = _gpu_lanes(kinds, capabilities)
    return lanes if 1 < lanes <= extent and not any(kind.is_complex for kind in kinds) else 1


def _cpu_lanes(kinds: Sequence[DType], widest: int) -> int:
    """Compilers make vectors of narrow integers by themselves, but not of halves."""
    widths = [_HALF if kind is float16 else kind.itemsize for kind in kinds]
    if min(widths) < _WIDE_ENOUGH and float16 not in kinds:
        return 1
    return widest // max(widths)


def _gpu_lanes(kinds: Sequence[DType], capabilities: Capabilities) -> int:
    widest = max(kind.itemsize for kind in kinds)
    lanes = min(_WRITTEN, capabilities.vector_bytes) // widest
    return max(lanes, min(_WRITTEN // kinds[-1].itemsize, _LOADED // widest))


def work_of(
    shape: tuple[int, ...], lanes: int, capabilities: Capabilities, *, strided: bool
) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
    """Elements and rows for a work-item, the ndrange and the workgroup.

    A CPU gets few long work-items, or square tiles where an operand is strided along the rows (as
    a transpose is), whose cache lines then serve a tile's worth of rows. A GPU gets one vector for
    each work-item in workgroups as wide as the rows, and of several rows where a launch cannot have
    so many workgroups.

    Parameters
    ----------
    shape : tuple of int
        Of the result, the last dimension being its rows'.
    lanes : int
        Neighbours that are taken at a time.
    capabilities : Capabilities
        The device's.
    strided : bool
        Whether an operand's neighbours do not lie along the rows.
    """
    inner, rows = shape[-1], prod(shape[:-1])
    share = row_shares_for(capabilities)
    if capabilities.single_work_items and strided and len(shape) > 1:
        tiles = -(-inner // share.tile), -(-rows // share.tile)
        return share.tile, share.tile, tiles, (1, 1)
    if capabilities.single_work_items:
        many = max(1, share.chunk // inner)
        return share.chunk, many, (-(-inner // share.chunk), -(-rows // many)), (1, 1)
    wide = -(-inner // lanes)
    across = min(share.group, power_of_two(wide))
    tall = share.group // across if rows > 1 else 1
    many = rows_for_each(rows, tall, capabilities)
    return lanes, many, (wide, -(-rows // many)), (across, tall)


def rows_for_each(rows: int, tall: int, capabilities: Capabilities) -> int:
    """How many rows a work-item does: one, unless a launch has too few workgroups along them.

    Parameters
    ----------
    rows : int
        In all.
    tall : int
        Work-items of a workgroup along them, the ndrange's dimension 1.
    capabilities : Capabilities
        The device's.
    """
    return -(-rows // (tall * capabilities.max_groups[1]))
