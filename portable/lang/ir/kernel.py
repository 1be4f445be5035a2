"""A whole kernel in the IR, and where its work-items stand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable.dtypes import DType
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir.expressions import Variable
from portable.lang.ir.statements import Block
from portable.lang.ir.types import Array, Fragment
from portable.lang.ir.walks import all_statements, places, with_arrays, written_arrays


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
    whole_reductions : bool
        Whether sums and extremes of floats over a workgroup are left as `WorkgroupReduce`.
    """

    native_half: bool = False
    contract: bool = True
    fastmath: bool = False
    whole_reductions: bool = False


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
        shared = any(array.space == "local" for array in self.arrays)
        return not shared and all(x.together() == "work_item" for x in all_statements(self.body))

    def overlapping(self) -> Kernel:
        """The same kernel, of whose global arrays nothing is known of where others lie."""
        arrays = (x for x in self.parameters if isinstance(x, Array) and x.restrict)
        new = {x: replace(x, restrict=False) for x in arrays}
        parameters = tuple(new.get(x, x) if isinstance(x, Array) else x for x in self.parameters)
        return replace(self, parameters=parameters, body=with_arrays(self.body, new))

    @property
    def launched(self) -> tuple[int, int, int]:
        """The workgroup as it is launched."""
        x, y, z = self.workgroup
        return (x * y * z, 1, 1) if self.flat else (x, y, z)

    @property
    def written(self) -> frozenset[Array]:
        """The global arrays that some statement may write."""
        return written_arrays(self.body)

    @property
    def dimensions(self) -> int:
        """Of the ndrange, how many it asks for its place in; at least 1."""
        return max((1 + item.dim for item in places(self.body)), default=1)


# Where a work-item stands, in terms of the words that every device has.


def linear_local_id(workgroup: tuple[int, int, int], kind: DType) -> e.Expression:
    """The linear local index of a work-item as an expression; dimension 0 varies fastest."""
    total: e.Expression | None = None
    for dim in (2, 1, 0):
        if workgroup[dim] == 1:
            continue
        number = e.WorkItem("local_id", dim, kind)
        if total is None:
            total = number
        else:
            scaled = e.Binary("mul", total, e.Const(workgroup[dim], kind))
            total = e.Binary("add", scaled, number)
    return e.Const(0, kind) if total is None else total


def linear_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The same, of a kernel that may be launched along one dimension."""
    if kernel.flat:
        return e.WorkItem("local_linear_id", 0, kind)
    return linear_local_id(kernel.workgroup, kind)


def sub_group_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item's sub-group; their size is a power of two."""
    exponent = kernel.sub_group_size.bit_length() - 1
    return e.Binary("shr", linear_id(kernel, kind), e.Const(exponent, kind))


def sub_group_local_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item in its sub-group."""
    if kernel.sub_group_size == 1:
        return e.Const(0, kind)
    return e.Binary("and", linear_id(kernel, kind), e.Const(kernel.sub_group_size - 1, kind))
