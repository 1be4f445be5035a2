"""A whole kernel in the IR."""

from __future__ import annotations

from dataclasses import dataclass

from portable.dtypes import DType
from portable.errors import Location
from portable.lang.ir.expressions import Variable
from portable.lang.ir.statements import Block
from portable.lang.ir.types import Array, Fragment

__all__ = ["Kernel", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a kernel was declared with.

    Attributes
    ----------
    native_half : bool
        Whether ``float16`` stays ``float16`` in registers.
    contract : bool
        Whether ``a * b + c`` may become one fma.
    fastmath : bool
        Whether the device's fast, less accurate functions, division and square root are allowed.
    """

    native_half: bool = False
    contract: bool = True
    fastmath: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One specialisation of a kernel, checked and fully typed.

    Attributes
    ----------
    name : str
        The Python function's name, a valid C identifier.
    parameters : tuple of (Array or Variable)
        Global arrays and scalars, in the order of the launch. A complex scalar is two variables.
    variables : tuple of Variable
        Mutable variables; each is assigned before it is read on every path.
    arrays : tuple of Array
        Local and private arrays.
    fragments : tuple of Fragment
        Matrix fragments; each is filled or loaded before it is read.
    body : Block
        What a work-item does.
    workgroup : (int, int, int)
        The local size in work-items, a constant of the specialisation.
    sub_group_size : int
        1, 8, 16, 32 or 64.
    index_type : DType
        ``int32`` or ``int64``.
    options : Options
        What the kernel was declared with.
    loc : Location
        Of its ``def``.
    flat : bool
        Whether the workgroup is launched along one dimension, however it is shaped.
    ragged : tuple of int
        The dimensions along which the ndrange ends within the last workgroup. What is beyond does
        not run, and ``global_size`` there is the ndrange, a program's argument of kind "size". Only
        of kernels that are `exact`.
    """

    name: str
    parameters: tuple[Array | Variable, ...]
    variables: tuple[Variable, ...]
    arrays: tuple[Array, ...]
    fragments: tuple[Fragment, ...]
    body: Block
    workgroup: tuple[int, int, int]
    sub_group_size: int
    index_type: DType
    options: Options
    loc: Location
    flat: bool = False
    ragged: tuple[int, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether launches run the work-items asked for and no others.

        So it is where no work-item needs another one of its workgroup, by local memory or by
        meeting it; else the ndrange is padded to whole workgroups.
        """
        from portable.lang.ir.walk import all_statements

        shared = any(array.space == "local" for array in self.arrays)
        return not shared and all(x.together() == "work_item" for x in all_statements(self.body))

    @property
    def launched(self) -> tuple[int, int, int]:
        """The workgroup as it is launched."""
        x, y, z = self.workgroup
        return (x * y * z, 1, 1) if self.flat else (x, y, z)

    @property
    def written(self) -> frozenset[Array]:
        """The global arrays that some statement may write."""
        from portable.lang.ir.walk import written_arrays

        return written_arrays(self.body)

    @property
    def dimensions(self) -> int:
        """Of the ndrange, how many it asks for its place in; at least 1."""
        from portable.lang.ir.walk import places

        return max((1 + item.dim for item in places(self.body)), default=1)
