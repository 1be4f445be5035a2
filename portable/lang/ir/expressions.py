"""Pure value trees. No expression reads memory, writes anything or depends on when it is evaluated.

Whatever does (loads, atomics, sub-group operations) is a statement that binds a `Variable`.
All operands of an element-wise node have the same type unless its docstring says otherwise;
the front end inserts every conversion. Vectors behave lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

from portable.dtypes import DType, bool_, int32
from portable.lang.ir.types import Array, Fragment, ValueType, Vector, lanes_of


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of a value tree: a frozen dataclass, whose operands are the expressions in its fields.

    Printers and the simulator refuse nodes that they do not know by their name.
    """

    if TYPE_CHECKING:

        @property
        def type(self) -> ValueType:
            """The type of the value."""


@dataclass(frozen=True, slots=True)
class Const(Expression):
    """A literal: ``bool``, ``int`` (in range of `type`) or ``float`` (rounded on emission)."""

    value: bool | int | float
    type: DType


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """A named value: a parameter, a `statements.Let` (never reassigned) or a declared variable."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Extent(Expression):
    """The extent of a global array along a dimension, of the kernel's index type."""

    array: Array
    dim: int
    type: DType


WorkItemWord = Literal[
    "global_id",
    "local_id",
    "local_linear_id",
    "group_id",
    "global_size",
    "num_groups",
    "sub_group_id",
    "sub_group_local_id",
]


@dataclass(frozen=True, slots=True)
class WorkItem(Expression):
    """Where this work-item stands; `dim` is 0 to 2 (0 for sub-group words).

    Dimension 0 varies fastest. ``local_linear_id`` is of kernels that are launched along one
    dimension (`kernel.Kernel.flat`). ``local_size`` and ``sub_group_size`` are no nodes: they are
    constants of a specialisation. The sub-group of a work-item is its linear local index divided
    by the sub-group size, the remainder its ``sub_group_local_id``.
    """

    word: WorkItemWord
    dim: int
    type: DType


UnaryOp = Literal["neg", "not", "invert"]


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """``neg`` (integers wrap), ``not`` (of bool), ``invert`` (bitwise, of integers)."""

    op: UnaryOp
    x: Expression

    @property
    def type(self) -> ValueType:
        """The operand's type."""
        return self.x.type


BinaryOp = Literal[
    "add", "sub", "mul", "div", "floordiv", "mod", "quot", "rem",
    "and", "or", "xor", "shl", "shr", "min", "max",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """An operation on two operands of the same type.

    ``add sub mul``: integers wrap, floats round to nearest even (and may contract to fma).
    ``div``: of floats. ``floordiv mod``: Python's (floor; the remainder has the divisor's sign),
    for integers and floats; integer division by zero gives 0 for both; the most negative value
    floor-divided by -1 wraps to itself. ``nonnegative`` promises that both operands are not
    negative. ``quot rem``: of integers, truncated toward zero, the remainder with the dividend's
    sign; the divisor is not 0, and not -1 where the dividend may be the most negative value
    (`portable.lang.passes.division` makes them). What is ``exact`` is rounded by itself, whatever
    the kernel allows: it neither contracts nor is rearranged. ``and or xor``: of integers bitwise,
    of bool logical (both sides evaluated). ``shl shr``: of integers, the count taken modulo the
    width (as unsigned); ``shr`` is arithmetic for signed operands. ``min max``: a NaN operand gives
    NaN; of integers as usual.
    """

    op: BinaryOp
    x: Expression
    y: Expression
    nonnegative: bool = False
    exact: bool = False

    @property
    def type(self) -> ValueType:
        """The operands' type."""
        return self.x.type


CompareOp = Literal["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """A comparison of two operands of the same type; bool, or a vector of bool. NaN is unequal."""

    op: CompareOp
    x: Expression
    y: Expression

    @property
    def type(self) -> ValueType:
        """Bool, or a vector of so many."""
        lanes = lanes_of(self.x.type)
        return bool_ if lanes == 1 else Vector(bool_, lanes)


@dataclass(frozen=True, slots=True)
class Select(Expression):
    """`x` where `condition`, else `y`; both are evaluated.

    The condition is bool, or a vector of bool of the operands' width (then lane by lane).
    """

    condition: Expression
    x: Expression
    y: Expression

    @property
    def type(self) -> ValueType:
        """The operands' type."""
        return self.x.type


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """Conversion between register types (lane by lane for vectors of the same width).

    Integer to integer wraps. Integer to float and float to float round to nearest even. Float to
    integer truncates toward zero, saturates at the target's range and turns NaN into 0. To bool:
    unequal to zero (NaN is true). From bool: 0 or 1.
    `storage` narrows further: the value is rounded, once, or wrapped as if stored to and loaded
    from that memory type (``int8`` in an ``int32`` register, ``float16`` in a ``float32`` one).
    `in_range` promises that a float truncates to a number that the integer type has, or that the
    result is not used where it does not.
    """

    x: Expression
    type: ValueType
    storage: DType | None = None
    in_range: bool = False


@dataclass(frozen=True, slots=True)
class Bitcast(Expression):
    """The same bits as another type of the same width (lane by lane for vectors)."""

    x: Expression
    type: ValueType


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """An element-wise function of `portable.lang.ir.elementwise.FUNCTIONS`, by name."""

    function: str
    arguments: tuple[Expression, ...]
    type: ValueType


@dataclass(frozen=True, slots=True)
class Splat(Expression):
    """A vector whose lanes all hold the scalar `x`."""

    x: Expression
    type: Vector


@dataclass(frozen=True, slots=True)
class MakeVector(Expression):
    """A vector from as many scalars as it has lanes."""

    elements: tuple[Expression, ...]
    type: Vector


@dataclass(frozen=True, slots=True)
class Lane(Expression):
    """One lane of a vector; `lane` is a constant."""

    x: Expression
    lane: int

    @property
    def type(self) -> DType:
        """The type of one lane."""
        kind = self.x.type
        assert isinstance(kind, Vector)
        return kind.dtype


@dataclass(frozen=True, slots=True)
class Compress(Expression):
    """The lanes of `x` for which `mask` holds, in order, then zeros."""

    x: Expression
    mask: Expression

    @property
    def type(self) -> ValueType:
        """The vector's type."""
        return self.x.type


@dataclass(frozen=True, slots=True)
class Count(Expression):
    """For how many lanes the vector `mask` of bool holds."""

    mask: Expression

    @property
    def type(self) -> DType:
        """An integer."""
        return int32


@dataclass(frozen=True, slots=True)
class AssumeUniform(Expression):
    """`x`, which the user says is the same for every work-item of the workgroup that gets here."""

    x: Expression

    @property
    def type(self) -> ValueType:
        """The operand's type."""
        return self.x.type


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangular part of an array with static extents.

    Attributes
    ----------
    array : Array
        Of global or local space.
    starts : tuple of Expression
        The first index along every dimension of `array`, of the kernel's index type.
    extents : tuple of (int or None)
        Per dimension the number of elements taken, or None where the index is fixed and the
        dimension dropped. What remains is the region's shape, in the array's order of dimensions.
    transposed : bool
        For two remaining dimensions: whether they are taken in the opposite order.
    joined : bool
        Whether all that remain but the last are counted as one dimension, in C order.
    steps : tuple of int
        Per dimension how far it is to the next element taken; empty where that is its neighbour.
    """

    array: Array
    starts: tuple[Expression, ...]
    extents: tuple[int | None, ...]
    transposed: bool = False
    joined: bool = False
    steps: tuple[int, ...] = ()
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        kept = tuple(x for x in self.extents if x is not None)
        if self.joined:
            kept = prod(kept[:-1]), kept[-1]
        object.__setattr__(self, "shape", kept[::-1] if self.transposed else kept)

    def step(self, dim: int) -> int:
        """How far it is to the next element along a dimension."""
        return self.steps[dim] if self.steps else 1

    def span(self, dim: int) -> int:
        """How many elements lie from the first to the last along a dimension, both of them too."""
        return ((self.extents[dim] or 1) - 1) * self.step(dim) + 1


# What the fields of a statement are to whoever walks over it: said once, used by all walkers.
#
# A field that holds variables, expressions, memory or blocks says so in its declaration, as in
# ``value: Expression = field(metadata=READS)``; one that does not is refused by its name when the
# first walker meets the statement. Of memory (arrays, regions of them, matrix fragments) the role
# says what happens to its elements, and the indices beside it are read.


class Role(StrEnum):
    """What a field is."""

    BINDS = "binds"
    """A new name (or None): it has this value until the block in which it stands ends."""

    SETS = "sets"
    """A variable of the kernel, which gets a new value."""

    READS = "reads"
    """Expressions that are evaluated, and memory that is read."""

    WRITES = "writes"
    """Memory that is written."""

    UPDATES = "updates"
    """Memory that is read and written, or variables of the kernel."""

    BLOCK = "block"
    """Statements inside."""


_KEY: Final = "role"
BINDS: Final[Mapping[str, Role]] = {_KEY: Role.BINDS}
SETS: Final[Mapping[str, Role]] = {_KEY: Role.SETS}
READS: Final[Mapping[str, Role]] = {_KEY: Role.READS}
WRITES: Final[Mapping[str, Role]] = {_KEY: Role.WRITES}
UPDATES: Final[Mapping[str, Role]] = {_KEY: Role.UPDATES}
BLOCK: Final[Mapping[str, Role]] = {_KEY: Role.BLOCK}

_HOLDERS: Final = ("Variable", "Expression", "Array", "Region", "Fragment", "Block", "Statement")
"""Types that are nothing to walkers only where a field says what it is to them."""

_roles: Final[dict[type, Mapping[str, Role]]] = {}

Memory = Array | Fragment


def roles_of(kind: type[Any]) -> Mapping[str, Role]:
    """The fields of a class of statements that have a role, in order.

    Raises
    ------
    TypeError
        Naming a field that holds what walkers look for and does not say what it does with it.
    """
    known = _roles.get(kind)
    if known is not None:
        return known
    roles: dict[str, Role] = {}
    for x in fields(kind):
        role = x.metadata.get(_KEY)
        if role is not None:
            roles[x.name] = role
        elif any(word in str(x.type) for word in _HOLDERS):
            raise TypeError(
                f"{kind.__name__}.{x.name} does not say what it is to walkers: declare it with "
                "field(metadata=READS) or another role of portable.lang.ir.expressions"
            )
    _roles[kind] = roles
    return roles


class FieldsOf(dict[type[Any], tuple[str, ...]]):
    """By classes: the names of those of their fields that a function gives."""

    def __init__(self, chosen: Callable[[type[Any]], Iterable[str]]) -> None:
        super().__init__()
        self._chosen = chosen

    def __missing__(self, kind: type[Any]) -> tuple[str, ...]:
        names = self[kind] = tuple(self._chosen(kind))
        return names

    def values_in(self, x: Any) -> list[Any]:
        """What these fields of a statement hold."""
        return [getattr(x, name) for name in self[type(x)]]


def fields_of(*roles: Role) -> FieldsOf:
    """The fields of classes of statements that have one of some roles, in order."""
    return FieldsOf(lambda kind: (name for name, x in roles_of(kind).items() if x in roles))


def variables(values: Any) -> Iterator[Variable]:
    """The variables among values and in tuples of nothing else, not those in indices."""
    for value in values:
        for x in value if isinstance(value, tuple) else (value,):
            if isinstance(x, Variable):
                yield x


def memory(values: Any) -> Iterator[Memory]:
    """The arrays and fragments among values, which may be regions or tuples of them."""
    for value in values:
        if isinstance(value, Array | Fragment):
            yield value
        elif isinstance(value, Region):
            yield value.array
        elif isinstance(value, tuple):
            yield from memory(value)
