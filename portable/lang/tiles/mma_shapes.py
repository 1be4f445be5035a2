"""What each mma.sync multiplies, and which lane holds which of its elements: a table of layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType, bfloat16, float16, float32, float64
from portable.lang.tiles.register_layout import Digit, RegisterLayout

LANES: Final = 32
"""Work-items that execute a matrix instruction together, whatever the sub-group's size."""

_REGISTERS: Final = 255
_REGISTER_FILE: Final = 65536
_OTHERS: Final = 40
"""Registers for everything but the accumulator; those of the operands are mma.sync's own matter."""
_OTHERS_LENT: Final = 24
"""The same of those who multiply and do nothing else meanwhile."""

LENDING: Final = 384
"""Work-items of three warpgroups, of which one asks for copies and lends the others registers."""
LENT: Final = 216
"""What a work-item of the others has then."""


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
    a, b, accumulator : RegisterLayout
        Of the operands and of the sums.
    packed : int
        Neighbours along k in one register of an operand, lowest bits first.
    split : bool
        Whether every operand is two: what its first 11 bits hold, and the rest.
    """

    name: str
    m: int
    n: int
    k: int
    operand: DType
    sum: DType
    a: RegisterLayout
    b: RegisterLayout
    accumulator: RegisterLayout
    packed: int = 1
    split: bool = False


def _along_k(packed: int, *digits: Digit) -> RegisterLayout:
    """That of an operand a, whose lanes of a group have neighbours along k, `packed` of each."""
    inside = ((packed, (0, 1)),) if packed > 1 else ()
    return RegisterLayout(member=(0, packed), group=(1, 0), registers=(*inside, *digits))


SUMS: Final = RegisterLayout(member=(0, 2), group=(1, 0), registers=((2, (0, 1)), (2, (8, 0))))
"""Of 16 rows by 8 columns: two neighbours of a row, and below them two more."""

_DOWN: Final[Digit] = (2, (8, 0))
"""Rows 8 further down."""

MMA_F16: Final = Shape(
    name="mma.f16.m16n8k16",
    m=16,
    n=8,
    k=16,
    operand=float16,
    sum=float32,
    a=_along_k(2, _DOWN, (2, (0, 8))),
    b=_along_k(2, (2, (0, 8))).turned,
    accumulator=SUMS,
    packed=2,
)

MMA_TF32: Final = Shape(
    name="mma.tf32.m16n8k8",
    m=16,
    n=8,
    k=8,
    operand=float32,
    sum=float32,
    a=_along_k(1, _DOWN, (2, (0, 4))),
    b=_along_k(1, (2, (0, 4))).turned,
    accumulator=SUMS,
    split=True,
)

MMA_F64: Final = Shape(
    name="mma.f64.m16n8k4",
    m=16,
    n=8,
    k=4,
    operand=float64,
    sum=float64,
    a=_along_k(1, _DOWN),
    b=_along_k(1).turned,
    accumulator=SUMS,
)

MMA_F64_DEEP: Final = replace(
    MMA_F64,
    name="mma.f64.m16n8k8",
    k=8,
    a=_along_k(1, _DOWN, (2, (0, 4))),
    b=_along_k(1, (2, (0, 4))).turned,
)

MMA_F64_SMALL: Final = Shape(
    name="mma.f64.m8n8k4",
    m=8,
    n=8,
    k=4,
    operand=float64,
    sum=float64,
    a=_along_k(1),
    b=_along_k(1).turned,
    accumulator=replace(SUMS, registers=SUMS.registers[:1]),
)


MMA_BF16: Final = replace(MMA_F16, name="mma.bf16.m16n8k16", operand=bfloat16)


PARTS: Final = 64
"""Registers of a work-item for sums that it adds to its accumulator's, at most."""


def room(items: int, lent: bool = False) -> int:
    """32-bit registers of a work-item that an accumulator may take, of all that there are.

    Parameters
    ----------
    items : int
        Of a workgroup.
    lent : bool
        Whether some that copy lend those that multiply theirs (`LENDING`), in a loop over tiles.
    """
    if lent and items == LENDING:
        return LENT - _OTHERS_LENT
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
