"""Arrays on the way back: what was read is added to, what was written is taken.

The adjoint of a load adds to the element's adjoint: by an atomic addition, or plainly where the
array's indices differ between work-items. That of a store takes the element's adjoint and leaves
nought, since what was there before did not reach the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

from portable.dtypes import DType
from portable.errors import Location
from portable.gradients.adjoint.activity import Activity
from portable.gradients.adjoint.names import ORDERED_BY_CHANCE, Names, adjoint_type, refuse, zero
from portable.gradients.adjoint.own_elements import own_elements
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id
from portable.lang.ir.types import Array, Layout, Vector

_Of = Callable[[e.Expression], e.Expression]


@dataclass(frozen=True)
class Gathering:
    """Some loads of an array whose adjoints a variable sums up.

    Attributes
    ----------
    loads : frozenset of int
        Their identities.
    total : Variable
    all_add : bool
        Whether elements that all work-items read are summed up as well.
    """

    loads: frozenset[int]
    total: e.Variable
    all_add: bool

    def load(self, x: s.Load, adjoint: e.Expression) -> s.Block:
        """Adds that of a load, if it is one of them."""
        if id(x) not in self.loads:
            return ()
        assert isinstance(self.total.type, DType)
        value = nodes.cast(adjoint, self.total.type)
        return (s.Assign(self.total, e.Binary("add", self.total, value), x.loc),)


class Memory:
    """The adjoints of a kernel's arrays.

    Parameters
    ----------
    kernel : Kernel
        A flat program.
    gradients : mapping
        The array of gradients by the name of the parameter.
    activity : Activity
    names : Names
    dims : int
        How many dimensions the ndrange has.

    Attributes
    ----------
    arrays : list of Array
        Local and private arrays of adjoints.
    gathered : frozenset of Array
        Arrays whose adjoints other kernels sum up (`gathers`).
    gathering : Gathering or None
        The loads whose adjoints alone are summed up here.
    totals : dict
        By the array of gradients and the index: the variable that sums up a work-item's adjoints of
        an element that all read.
    """

    def __init__(
        self,
        kernel: Kernel,
        gradients: Mapping[str, Array],
        activity: Activity,
        names: Names,
        dims: int,
    ) -> None:
        self.arrays: list[Array] = []
        self.gathered: frozenset[Array] = frozenset()
        self.gathering: Gathering | None = None
        self.totals: dict[tuple[Array, tuple[int, ...]], e.Variable] = {}
        self._kernel: Final = kernel
        self._names: Final = names
        self._activity: Final = activity
        self._adjoints: dict[Array, Array] = {}
        self._alone: Final = own_elements(kernel, dims)
        self._written = {y for x in walks.all_statements(kernel.body) for y in x.written()}
        for x in kernel.parameters:
            if isinstance(x, Array) and x.name in gradients:
                self._adjoints[x] = gradients[x.name]
        for x in kernel.arrays:
            if activity.holds(x):
                self._adjoints[x] = self._beside(x)

    def _beside(self, x: Array) -> Array:
        """An array of adjoints of the kernel's own; of shared complex numbers one of pairs."""
        kind = adjoint_type(x.dtype.register)
        assert isinstance(kind, DType)
        made = replace(x, name=self._names.fresh(f"d_{x.name}"), dtype=kind)
        if x.space == "local":
            shape = (*x.shape, 2) if kind.is_complex else x.shape
            layout = Layout.row_major(shape)
            made = replace(made, dtype=kind.real, shape=shape, layout=layout, ndim=len(shape))
        self.arrays.append(made)
        return made

    def for_some(self, gathering: Gathering) -> Memory:
        """The same arrays, of which only some loads are gone back through."""
        part = copy(self)
        part.gathering, part.totals, part.arrays = gathering, {}, list(self.arrays)
        return part

    def sums(self) -> set[str]:
        """The names of the variables that sum up adjoints of elements."""
        gathering = set() if self.gathering is None else {self.gathering.total.name}
        return gathering | {x.name for x in self.totals.values()}

    def roots(self) -> set[Array]:
        """The arrays for which a part of the adjoint is run."""
        written = {x for x in self._written if isinstance(x, Array)}
        return {*self._adjoints.values(), *written}

    def cleared(self, loc: Location) -> s.Block:
        """Nought in the adjoints of local and private arrays."""
        out = [self._fill(x, loc) for x in self.arrays]
        if any(x.space == "local" for x in self.arrays):
            out.append(s.Barrier(loc))
        return tuple(out)

    def _fill(self, x: Array, loc: Location) -> s.Statement:
        kind = self._kernel.index_type
        size, step, start = 1, 1, zero(kind)
        for extent in x.shape:
            size *= extent
        if x.space == "local":
            wide = self._kernel.workgroup
            step, start = wide[0] * wide[1] * wide[2], linear_local_id(wide, kind)
        var = self._names.variable("element", kind)
        element = Vector(x.dtype, x.lanes) if x.lanes > 1 else x.dtype
        store = s.Store(x, unravelled(var, x.shape), zero(element), loc)
        return s.For(var, start, e.Const(size, kind), e.Const(step, kind), (store,), loc)

    # -- the way back ----------------------------------------------------------------------

    def load(self, x: s.Load, of: _Of, adjoint: e.Expression) -> s.Block:
        """Adds the adjoint of what was read."""
        shared = self._is_shared(x)
        gathering = self.gathering
        if gathering is not None and x.array.space == "global":
            all_add = gathering.all_add and shared and x.array in self._adjoints
            if not all_add:
                return gathering.load(x, adjoint)
        if x.array in self.gathered:
            return ()
        into = self._adjoints.get(x.array)
        if into is None:
            if not self._activity.holds(x.array):
                return ()
            refuse(
                f"through {x.array.name}, which depends on what gradients are asked for and is "
                "read again, without an array for its own gradient",
                x,
                f"give the gradient of {x.array.name}, an array of its shape",
            )
        if x.runs_on:
            refuse("of a load that runs on into the next rows", x, "load row by row")
        index = tuple(of(i) for i in x.index)
        if not isinstance(adjoint.type, Vector) and shared:
            return self._add_total(x, into, adjoint)
        if not isinstance(adjoint.type, Vector) or x.array.lanes > 1:
            return self._add(x, into, index, adjoint)
        out: list[s.Statement] = []
        for lane in range(adjoint.type.lanes):
            out += self._add(x, into, nodes.neighbour(index, x.axis, lane), e.Lane(adjoint, lane))
        return tuple(out)

    def _is_shared(self, x: s.Load) -> bool:
        """Whether it reads an element that all work-items read, and none writes."""
        constant = all(isinstance(i, e.Const) for i in x.index)
        return constant and x.array.space == "global" and x.array not in self._written

    def _add_total(self, x: s.Load, into: Array, adjoint: e.Expression) -> s.Block:
        """Adds to what the work-item will hand on at its end."""
        constants = (i for i in x.index if isinstance(i, e.Const))
        index = tuple(int(i.value) for i in constants)
        if x.component is not None:
            index = (*index, x.component)
            if into.dtype.is_complex:
                return self._add(x, into, x.index, adjoint)
        total = self.total(into, index)
        value = nodes.cast(adjoint, into.dtype.register)
        return (s.Assign(total, e.Binary("add", total, value), x.loc),)

    def total(self, into: Array, index: tuple[int, ...]) -> e.Variable:
        """The variable that sums up a work-item's adjoints of an element that all read."""
        variable = self.totals.get((into, index))
        if variable is None:
            variable = self._names.variable("total", into.dtype.register)
            self.totals[into, index] = variable
        return variable

    def _add(
        self, x: s.Load, into: Array, index: tuple[e.Expression, ...], adjoint: e.Expression
    ) -> s.Block:
        index, component = _component(x, into, index)
        kind = into.dtype.real.register
        value = nodes.cast(adjoint, kind)
        if x.array.space == "private" or x.array in self._alone:
            old = self._names.variable("sum", value.type)
            load = s.Load(old, into, index, x.loc, component=component)
            total = e.Binary("add", old, value)
            return (load, s.Store(into, index, total, x.loc, component=component))
        if component is not None or into.dtype.itemsize < 4:
            refuse(
                f"of {x.array.name}, elements of which several work-items may read, into an array "
                f"of {into.dtype.name}",
                x,
                "give an array of float32, or of real numbers with a last dimension of 2 for "
                "complex ones",
            )
        scope: s.MemoryScope = "device" if into.space == "global" else "workgroup"
        return (s.Atomic(None, "add", into, index, value, None, "relaxed", scope, x.loc),)

    def write(
        self, x: s.Store | s.Atomic, of: _Of
    ) -> tuple[list[s.Statement], e.Expression | None]:
        """Takes the adjoint of what was written; None where it is nought."""
        into = self._adjoints.get(x.array)
        if isinstance(x, s.Atomic) and (x.op != "add" or x.var is not None):
            self._refuse_atomic(x)
        if into is None or not x.array.dtype.real.is_float:
            return [], None
        if isinstance(x, s.Store) and x.runs_on:
            refuse("of a store that runs on into the next rows", x, "store row by row")
        index = tuple(of(i) for i in x.index)
        assert x.value is not None
        kind = adjoint_type(x.value.type)
        if not isinstance(kind, Vector) or x.array.lanes > 1:
            return self._take(x, into, index, kind)
        out: list[s.Statement] = []
        lanes: list[e.Expression] = []
        for lane in range(kind.lanes):
            axis = x.axis if isinstance(x, s.Store) else -1
            made, adjoint = self._take(x, into, nodes.neighbour(index, axis, lane), kind.dtype)
            out += made
            lanes.append(adjoint)
        return out, e.MakeVector(tuple(lanes), kind)

    def _take(
        self,
        x: s.Store | s.Atomic,
        into: Array,
        index: tuple[e.Expression, ...],
        kind: DType | Vector,
    ) -> tuple[list[s.Statement], e.Expression]:
        index, component = _component(x, into, index)
        scalar = into.dtype.real.register
        wide = Vector(scalar, kind.lanes) if isinstance(kind, Vector) else scalar
        variable = self._names.variable(f"d_{x.array.name}_at", wide)
        out: list[s.Statement] = [s.Load(variable, into, index, x.loc, component=component)]
        kept = self.gathering is not None and x.array.space == "global"
        if isinstance(x, s.Store) and not kept:
            out.append(s.Store(into, index, zero(wide), x.loc, component=component))
        taken = nodes.cast(variable, kind.dtype if isinstance(kind, Vector) else kind)
        return out, taken

    def _refuse_atomic(self, x: s.Atomic) -> None:
        """Refuses one through which gradients would have to go."""
        through = x.array in self._adjoints or self._activity.depends(x.value)
        if not through and not (x.var is not None and x.array.dtype.real.is_float):
            return
        reason = f"of kl.atomic_{x.op}, which does not say whose value was taken"
        if x.op == "add":
            reason = ORDERED_BY_CHANCE
        refuse(reason, x, "gradients go through kl.atomic_add and kl.atomic_sub, unused otherwise")


def _component(
    x: s.Load | s.Store | s.Atomic, into: Array, index: tuple[e.Expression, ...]
) -> tuple[tuple[e.Expression, ...], int | None]:
    """Where the adjoint of a part of a complex number is, which may be an array of its own."""
    component = None if isinstance(x, s.Atomic) else x.component
    if component is None or into.dtype.is_complex:
        return index, component
    kind = index[0].type if index else None
    assert isinstance(kind, DType)
    return (*index, e.Const(component, kind)), None


def unravelled(x: e.Expression, shape: tuple[int, ...]) -> tuple[e.Expression, ...]:
    """The index of the element of a number in C order."""
    kind = nodes.scalar_type(x)
    out: list[e.Expression] = []
    for extent in reversed(shape[1:]):
        size = e.Const(extent, kind)
        out.append(e.Binary("mod", x, size, nonnegative=True))
        x = e.Binary("floordiv", x, size, nonnegative=True)
    return tuple(reversed([*out, x])) if shape else ()
