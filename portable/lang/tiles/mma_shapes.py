"""What each mma.sync multiplies, and which lane holds which of their elements.

``g`` is a lane's number divided by 4, ``t`` the remainder. Every register of a lane holds elements
at constant offsets from where the lane stands: row ``g`` and column ``t * per_register`` of the
operand a, the same transposed for b, row ``g`` and column ``2 * t`` of the accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType, bfloat16, float16, float32, float64

__all__ = [
    "LANES",
    "MMA_F16",
    "MMA_F64",
    "MMA_F64_DEEP",
    "MMA_F64_SMALL",
    "MMA_TF32",
    "Offset",
    "Shape",
    "room",
    "shape_of",
]

LANES: Final = 32
"""Work-items that execute a matrix instruction together, whatever the sub-group's size."""

Offset = tuple[int, int]

_REGISTERS: Final = 255
_REGISTER_FILE: Final = 65536
_OTHERS: Final = 40
"""Registers for everything but the accumulator; those of the operands are mma.sync's own matter."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One matrix instruction.

    Attributes
    ----------
    name : str
        Key of the dialect's table of instructions.
    m, n, k : int
        Extents.
    operand, sum : DType
        Element types of operands and accumulator.
    a, b : tuple of tuple of (int, int)
        Per register of an operand the offsets of its elements, lowest bits first.
    accumulator : tuple of (int, int)
        Per register the offset of its element.
    split : bool
        Whether every operand is two: what its first 11 bits hold, and the rest.
    """

    name: str
    m: int
    n: int
    k: int
    operand: DType
    sum: DType
    a: tuple[tuple[Offset, ...], ...]
    b: tuple[tuple[Offset, ...], ...]
    accumulator: tuple[Offset, ...]
    split: bool = False

    @property
    def per_register(self) -> int:
        """Neighbours along k in one register of an operand."""
        return len(self.a[0])


MMA_F16: Final = Shape(
    name="mma.f16.m16n8k16",
    m=16,
    n=8,
    k=16,
    operand=float16,
    sum=float32,
    a=(((0, 0), (0, 1)), ((8, 0), (8, 1)), ((0, 8), (0, 9)), ((8, 8), (8, 9))),
    b=(((0, 0), (1, 0)), ((8, 0), (9, 0))),
    accumulator=((0, 0), (0, 1), (8, 0), (8, 1)),
)

MMA_TF32: Final = Shape(
    name="mma.tf32.m16n8k8",
    m=16,
    n=8,
    k=8,
    operand=float32,
    sum=float32,
    a=(((0, 0),), ((8, 0),), ((0, 4),), ((8, 4),)),
    b=(((0, 0),), ((4, 0),)),
    accumulator=((0, 0), (0, 1), (8, 0), (8, 1)),
    split=True,
)

MMA_F64: Final = Shape(
    name="mma.f64.m16n8k4",
    m=16,
    n=8,
    k=4,
    operand=float64,
    sum=float64,
    a=(((0, 0),), ((8, 0),)),
    b=(((0, 0),),),
    accumulator=((0, 0), (0, 1), (8, 0), (8, 1)),
)

MMA_F64_DEEP: Final = replace(
    MMA_F64,
    name="mma.f64.m16n8k8",
    k=8,
    a=(((0, 0),), ((8, 0),), ((0, 4),), ((8, 4),)),
    b=(((0, 0),), ((4, 0),)),
)

MMA_F64_SMALL: Final = Shape(
    name="mma.f64.m8n8k4",
    m=8,
    n=8,
    k=4,
    operand=float64,
    sum=float64,
    a=(((0, 0),),),
    b=(((0, 0),),),
    accumulator=((0, 0), (0, 1)),
)


MMA_BF16: Final = replace(MMA_F16, name="mma.bf16.m16n8k16", operand=bfloat16)


def room(items: int) -> int:
    """32-bit registers of a work-item that an accumulator may take, of all that there are."""
    return min(_REGISTERS, _REGISTER_FILE // items) - _OTHERS


def shape_of(
    operand: DType, total: DType, capabilities: Capabilities, depth: int, split: bool = False
) -> Shape | None:
    """The instruction for element types on a device; None where it has none.

    Of double precision the deeper one is taken where products have an even number of its steps: on
    an H200 products of 4096 took 0.97 of the time so. (One 16 deep leaves too few registers.)

    Parameters
    ----------
    operand, total : DType
        Of factors and sums.
    capabilities : Capabilities
        Of the device.
    depth : int
        A divisor of the extents that are summed over.
    split : bool
        Whether factors of single precision may be split, for which there is one.
    """
    units = capabilities.matrix_units
    if split and "mma.tf32" in units and operand is total is float32:
        return MMA_TF32
    for shape in (MMA_F16, MMA_BF16):
        if f"mma.{operand.short}" in units and (operand, total) == (shape.operand, shape.sum):
            return shape
    if "mma.f64" in units and operand is total is float64:
        if _generation(capabilities) < _HOPPER:
            return MMA_F64_SMALL
        return MMA_F64 if depth % (2 * MMA_F64_DEEP.k) else MMA_F64_DEEP
    return None


_HOPPER: Final = 90


def _generation(capabilities: Capabilities) -> int:
    digits = capabilities.architecture.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdigit() else 0
