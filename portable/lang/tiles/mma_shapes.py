"""What each mma.sync multiplies, and which lane holds which of its elements: a table of layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType, bfloat16, float16, float32, float64
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import constant
from portable.lang.tiles.work import add, mul

# Layouts of matrices in registers: which element a register of a lane holds.
#
# A layout is a function from the numbers of a lane and of a register to a row and a column. Each
# number is written in digits, the lowest first, and each digit moves so many rows and columns a
# unit, as the nested shapes and strides of CuTe's thread-value layouts do. Layouts are composed:
# an instruction's is repeated down and across for the share of a warp, and turned for the other
# operand. Filling, loading, storing and mapping follow from it (`accumulators`, `mma_sync`).


Offset = tuple[int, int]
"""Rows and columns."""

Digit = tuple[int, Offset]
"""How many values it has, and how far each moves."""

MEMBERS: Final = 4
"""Lanes of a group: a lane's lower digit is its number among them, the higher one its group's."""


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """A layout.

    Attributes
    ----------
    member, group : (int, int)
        What the digits of a lane's number move.
    registers : tuple of Digit
        Of a register's number; where several elements are packed into one, theirs come first.
    """

    member: Offset
    group: Offset
    registers: tuple[Digit, ...]

    @property
    def count(self) -> int:
        """Elements of a lane."""
        total = 1
        for extent, _ in self.registers:
            total *= extent
        return total

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """Where a lane's elements are from where it stands, in the order of registers."""
        digits = [
            [(i * down, i * across) for i in range(extent)]
            for extent, (down, across) in reversed(self.registers)
        ]
        return tuple((sum(x for x, _ in at), sum(y for _, y in at)) for at in product(*digits))

    @property
    def turned(self) -> RegisterLayout:
        """Rows for columns."""
        digits = tuple((extent, (across, down)) for extent, (down, across) in self.registers)
        return RegisterLayout(self.member[::-1], self.group[::-1], digits)

    def repeated(self, *digits: Digit) -> RegisterLayout:
        """The same so many times, each so far from the one before, in further registers."""
        return RegisterLayout(self.member, self.group, (*self.registers, *digits))

    def grouped(self, count: int) -> RegisterLayout:
        """That of the first of every `count` registers, which are whole digits or parts of one."""
        rest = []
        for extent, (down, across) in self.registers:
            taken = min(extent, count)
            count //= taken
            rest.append((extent // taken, (down * taken, across * taken)))
        return RegisterLayout(self.member, self.group, tuple(rest))

    def standing(
        self, member: e.Expression, group: e.Expression
    ) -> tuple[e.Expression, e.Expression]:
        """The row and column of a lane's first element.

        Parameters
        ----------
        member, group : Expression
            The digits of its number.
        """
        row, column = (
            add(_times(group, high), _times(member, low))
            for low, high in zip(self.member, self.group, strict=True)
        )
        return row, column

    def moved(self, which: e.Expression) -> tuple[e.Expression, e.Expression]:
        """How far the element of a register is from a lane's first, by the register's number."""
        rows = [(extent, step[0]) for extent, step in self.registers]
        columns = [(extent, step[1]) for extent, step in self.registers]
        return _sum_of_digits(rows, which), _sum_of_digits(columns, which)


def _times(x: e.Expression, step: int) -> e.Expression:
    return mul(x, step) if step else constant(0, x.type)


def _sum_of_digits(digits: list[tuple[int, int]], which: e.Expression) -> e.Expression:
    """``sum of digit * step``, the digits those of `which`; neighbours that go on are one digit."""
    joined: list[tuple[int, int]] = []
    for extent, step in digits:
        if extent == 1:
            continue
        if joined and joined[-1][0] * joined[-1][1] == step:
            extent, step = extent * joined[-1][0], joined.pop()[1]
        joined.append((extent, step))
    total, span = constant(0, which.type), 1
    for at, (extent, step) in enumerate(joined):
        digit = which
        if span > 1:
            digit = e.Binary("floordiv", which, constant(span, which.type), nonnegative=True)
        if at < len(joined) - 1:
            digit = e.Binary("mod", digit, constant(extent, which.type), nonnegative=True)
        if step:
            total = add(total, mul(digit, step))
        span *= extent
    return total


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
