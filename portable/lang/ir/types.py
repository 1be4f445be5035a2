"""The types of values in registers, and arrays as kernels see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from portable.dtypes import DType, bool_, float16, float32, float64, int32, int64, uint32, uint64

REGISTERS = frozenset({bool_, int32, uint32, int64, uint64, float16, float32, float64})
"""The scalar types of registers; `float16` only in kernels declared ``native_half=True``."""

LANES = (2, 3, 4, 8, 16, 32)
"""The vector widths: OpenCL's, and that of 64 bytes of half precision."""

Space = Literal["global", "local", "private"]
StrideClass = Literal["unit", "zero", "any"]


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of `lanes` (2, 3, 4, 8, 16 or 32) values of one register type."""

    dtype: DType
    lanes: int

    def __repr__(self) -> str:
        return f"{self.dtype.short}x{self.lanes}"


ValueType = DType | Vector


def vector_type(dtype: DType, lanes: int) -> ValueType:
    """A vector type, or the scalar type for one lane."""
    return dtype if lanes == 1 else Vector(dtype, lanes)


Split = bool | Literal["first", "exact", "given"]
"""How matrix units multiply single precision."""


def scalar_of(kind: ValueType) -> DType:
    """The type of one lane."""
    return kind.dtype if isinstance(kind, Vector) else kind


def lanes_of(kind: ValueType) -> int:
    """The number of lanes; 1 for a scalar."""
    return kind.lanes if isinstance(kind, Vector) else 1


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a local or private array lie in memory.

    Attributes
    ----------
    strides : tuple of int
        Elements between neighbours along each dimension.
    size : int
        Elements to allocate, padding included.
    swizzle : int
        0, or the number of chunks (a power of two) of a row that change places as `Turns` has it;
        the row is the dimension of second smallest stride and its stride is then exactly that of
        so many chunks.
    """

    strides: tuple[int, ...]
    size: int
    swizzle: int = 0

    @staticmethod
    def row_major(shape: tuple[int, ...]) -> Layout:
        """The plain layout, last dimension fastest."""
        strides = []
        size = 1
        for extent in reversed(shape):
            strides.append(size)
            size *= extent
        return Layout(tuple(reversed(strides)), size)


_BANKS = 128
"""Bytes that all banks of local memory hold side by side."""


class Turns(NamedTuple):
    """How the chunks of swizzled rows change places.

    So chunks below each other, in as many rows that follow each other as there are chunks in all
    banks, lie in different banks. Chunks are what lanes of a matrix instruction read side by side:
    16 bytes, or four doubles.

    Attributes
    ----------
    chunk : int
        Elements of one.
    shift, mask : int
        Row ``r`` is turned by ``r >> shift & mask``: where rows are short several fill the banks.
    """

    chunk: int
    shift: int
    mask: int

    @staticmethod
    def of(chunks: int, itemsize: int) -> Turns:
        """For rows of so many chunks (a power of two) of elements of so many bytes."""
        size = chunk_bytes(itemsize)
        turning = min(chunks, _BANKS // size)
        shift = (_BANKS // size // turning).bit_length() - 1
        return Turns(size // itemsize, shift, turning - 1)

    @property
    def height(self) -> int:
        """Rows after which they repeat."""
        return (self.mask + 1) << self.shift

    def turned(self, column: Any, row: Any) -> Any:
        """Where in a row an element lies, or which element lies there; numbers or arrays."""
        return column ^ (row >> self.shift & self.mask) * self.chunk


def chunk_bytes(itemsize: int) -> int:
    """The size of a swizzle's chunks of elements of so many bytes."""
    return 32 if itemsize == 8 else 16


@dataclass(frozen=True, eq=False, slots=True)
class Array:
    """An array that a kernel reads and writes; compares by identity.

    Attributes
    ----------
    name : str
        Unique in the kernel.
    dtype : DType
        The element type in memory, any of the fourteen (for private arrays: the type of a lane).
    space : {"global", "local", "private"}
        Whose memory: the device's, the workgroup's, the work-item's.
    ndim : int
        Number of dimensions.
    shape : tuple of int
        Static extents of a local or private array; empty for a global one, whose extents and
        strides are arguments (`expressions.Extent`).
    layout : Layout or None
        Of local and private arrays.
    strides : tuple of StrideClass
        Of global arrays, per dimension: 1 ("unit"), 0 ("zero") or only known at launch ("any").
    aligned : bool
        Of global arrays: the first element lies at a multiple of 16 bytes, as does every element
        reached by adding multiples of the "any" strides.
    boxed : bool
        Of global arrays: TMA can be told of boxes of it.
    restrict : bool
        Of global arrays: overlaps no other array argument that is written, nor is overlapped.
    lanes : int
        Of private arrays: each element is a vector of so many lanes (1: a scalar).
    """

    name: str
    dtype: DType
    space: Space
    ndim: int
    shape: tuple[int, ...] = ()
    layout: Layout | None = None
    strides: tuple[StrideClass, ...] = ()
    aligned: bool = False
    restrict: bool = False
    lanes: int = 1
    boxed: bool = False

    def __repr__(self) -> str:
        return f"<{self.space} {self.name}: {self.dtype.short}[{self.ndim}d {self.shape}]>"


Scope = Literal["work_item", "sub_group", "workgroup"]
Use = Literal["accumulator", "a", "b"]


@dataclass(frozen=True, eq=False, slots=True)
class Fragment:
    """A matrix held by the work-items of a scope together; opaque, compares by identity.

    Attributes
    ----------
    name : str
        Unique in the kernel.
    shape : (int, int)
        Rows and columns of the whole matrix.
    dtype : DType
        The type of its elements: a register type, or ``float16`` for operands (``use`` "a", "b").
    scope : {"work_item", "sub_group", "workgroup"}
        Whose work-items hold it, and must reach each operation on it together.
    use : {"accumulator", "a", "b"}
        What `statements.Multiply` may take it for.
    units : bool
        Whether matrix units may hold and multiply it.
    split : bool, "first", "exact" or "given"
        Of ``float32``: whether factors may be split into two numbers of 11 bits for matrix units,
        or only the first of these numbers be taken; "exact": added up outside of these units;
        "given": likewise, of factors that are such numbers, half of them high, then half low.
    """

    name: str
    shape: tuple[int, int]
    dtype: DType
    scope: Scope
    use: Use = "accumulator"
    units: bool = True
    split: Split = False
