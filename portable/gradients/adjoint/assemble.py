"""The adjoint of a kernel, put together."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

from portable.dtypes import DType, int32
from portable.gradients.adjoint.activity import Activity
from portable.gradients.adjoint.assignments import without_overwritten
from portable.gradients.adjoint.cells import settled
from portable.gradients.adjoint.chunks import in_chunks
from portable.gradients.adjoint.exits import without_jumps
from portable.gradients.adjoint.flatten import flat
from portable.gradients.adjoint.gathers import (
    Moved,
    conditional,
    gatherable,
    moved_back,
    within,
)
from portable.gradients.adjoint.hoisting import after_loops
from portable.gradients.adjoint.logs import with_logs
from portable.gradients.adjoint.memory import Gathering, Memory
from portable.gradients.adjoint.names import ORDERED_BY_CHANCE, Names, adjoint_type, refuse, zero
from portable.gradients.adjoint.own_tiles import in_registers, without_last_barrier
from portable.gradients.adjoint.padding import ROW, additions_to_rows, padded
from portable.gradients.adjoint.reexecution import covered, refuse_stale
from portable.gradients.adjoint.scopes import kept_in_variables
from portable.gradients.adjoint.shares import summed_up
from portable.gradients.adjoint.stack import Stack
from portable.gradients.adjoint.strips import Turns, additions
from portable.gradients.adjoint.sweeps import Level, Sweeps
from portable.gradients.adjoint.tile_sums import TileSums
from portable.gradients.adjoint.unused import needed
from portable.gradients.adjoint.workgroup_sums import written_out
from portable.lang.checks import check
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import cast
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements


@dataclass(frozen=True, slots=True)
class Gradient:
    """An array of gradients.

    Attributes
    ----------
    parameter : str
        The name of the kernel's parameter whose gradient it is.
    array : Array
        Of as many dimensions as an array parameter; one more of a complex one, with real numbers;
        of 0 or 1 dimensions of a number.
    """

    parameter: str
    array: Array


@dataclass(frozen=True, slots=True)
class Gather:
    """A kernel that sums up the gradient of an array, each work-item that of an element.

    Attributes
    ----------
    kernel : Kernel
        Its parameters are the kernel's, then the gradients', then four numbers, the sizes of the
        ndrange of the kernel and 1 where the gradient holds nothing yet, and the arrays of
        `shared`.
    parameter : int
        The number of the array among the kernel's parameters.
    dims : tuple of int
        Which dimension of the ndrange each of the array's is.
    shared : tuple of Shared
        As of `Adjoint`: of the first gather, which works out what they need anyway. It is then
        launched over the greater of the array and the ndrange.
    """

    kernel: Kernel
    parameter: int
    dims: tuple[int, ...]
    shared: tuple[Shared, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """An element of gradients to which all work-items add.

    Attributes
    ----------
    gradient : int
        The number of the array of gradients, as given.
    index : tuple of int
    dtype : DType
        Of the shares.
    """

    gradient: int
    index: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Adjoint:
    """The adjoint of a kernel.

    Attributes
    ----------
    kernel : Kernel
        Its parameters are the kernel's, then the gradients', then the arrays of `kept` and those of
        `shared`, and three numbers where it is `sized`.
    measure : Kernel or None
        Finds how much is kept: its parameters are the same without `kept`, and at the end an array
        of int32, the greatest number for a work-item of each type in turn. None where none is.
    kept : tuple of DType
        The types of what is kept.
    gathers : tuple of Gather
        Kernels that are launched before it.
    shared : tuple of Shared
        Sums over all work-items that are left to do: an array of each is given after those of
        `kept`, of as many elements as workgroups. None where a gather has them.
    sized : bool
        Whether it is launched in whole workgroups and given the sizes of the ndrange at the end.
    steady : bool
        Whether how much is kept depends on shapes, numbers and the ndrange alone.
    strips : Strips or None
        Another way to run `kernel`, where there is one.
    """

    kernel: Kernel
    measure: Kernel | None
    kept: tuple[DType, ...]
    gathers: tuple[Gather, ...] = ()
    shared: tuple[Shared, ...] = ()
    sized: bool = False
    steady: bool = False
    strips: Strips | None = None


@dataclass(frozen=True, slots=True)
class Strips:
    """An adjoint that adds to copies of gradients (`strips`, `padding`).

    Attributes
    ----------
    kernel : Kernel
        Its parameters are the kernel's, the gradients', the arrays of `kept` and `shared`, three
        numbers, the sizes of the ndrange, and arrays for copies of gradients.
    gradients : tuple of int
        The numbers of the arrays of gradients, as given, of which there are copies.
    additions : int
        How many each work-item makes to them, about; to rows of padded ones.
    padded : bool
        Whether there is one copy of each, whose rows of three are of four; else its workgroups run
        many of the kernel's in turn, each with a copy of its own.
    """

    kernel: Kernel
    gradients: tuple[int, ...]
    additions: int
    padded: bool


@dataclass(frozen=True, slots=True)
class How:
    """How an adjoint is made.

    Attributes
    ----------
    dims : int
        How many dimensions the ndrange has.
    thrifty : bool
        Whether long loops keep little, and are run once more.
    deterministic : bool
        Whether sums that depend on the order of work-items are refused.
    workgroup_atomics, atomic_lanes
        As `Capabilities` says.
    """

    dims: int = 1
    thrifty: bool = False
    deterministic: bool = False
    workgroup_atomics: bool = False
    atomic_lanes: int = 1


def adjoint_of(kernel: Kernel, gradients: Sequence[Gradient], how: How) -> Adjoint:
    """The adjoint of a kernel that the front end gave; `gradients` as its parameters are ordered.

    Raises
    ------
    KernelError
        With the line of what has no gradient.
    """
    return _Assembly(kernel, gradients, how, Names(kernel)).made()


def _refuse_sums(body: s.Block) -> None:
    """Refuses atomic additions of floats: their last bits depend on the order of work-items."""
    for x in all_statements(body):
        if isinstance(x, s.Atomic) and x.array.dtype.is_float:
            refuse(
                f"in a fixed order: several work-items add to {x.array.name} by atomic additions",
                x,
                "read elements at the work-item's own place, or moved by constants from it, or "
                "leave out deterministic=True",
            )


def _refuse_order(body: s.Block) -> None:
    """Refuses what atomic operations return: run again, they return it in another order."""
    for x in all_statements(body):
        if isinstance(x, s.Atomic) and x.var is not None:
            refuse(
                ORDERED_BY_CHANCE,
                x,
                "work out places that do not depend on it, and keep them in an array",
            )


class _Assembly:
    def __init__(
        self, kernel: Kernel, gradients: Sequence[Gradient], how: How, names: Names
    ) -> None:
        dims = how.dims
        self.primal: Final = kernel
        self.gradients: Final = gradients
        self.how: Final = how
        self.dims: Final = dims
        self.names: Final = names
        program = flat(without_jumps(kernel, self.names), self.names)
        if how.thrifty:
            program = in_chunks(program, self.names)
        self.stack: Final = Stack(program, self.names, dims)
        self.flat, logs = with_logs(program, self.names, self.stack)
        arrays = {x.parameter: x.array for x in gradients}
        self.activity: Final = Activity(self.flat, set(arrays))
        self.logs: Final = logs
        self.memory = Memory(self.flat, arrays, self.activity, self.names, dims)
        self.sums: Final = TileSums(self.flat, self.memory.arrays, self.names)
        self.gathers = True
        self.sweeps = self._sweeps()

    def _sweeps(self) -> Sweeps:
        return Sweeps(self.flat, self.names, self.activity, self.memory, self.stack, self.logs)

    def _part(self, gathering: Gathering) -> _Assembly:
        """The same program once more, for the adjoints of some loads."""
        part = copy(self)
        part.memory = self.memory.for_some(gathering)
        part.sweeps = part._sweeps()
        return part

    def made(self) -> Adjoint:
        loc = self.flat.loc
        chosen = self._gatherable()
        self.memory.gathered = frozenset(x.array for x in chosen)
        both, level = self.sweeps.whole()
        numbers = self._numbers(level)
        shared, shares = ([], []) if chosen else self._handed_on()
        begun = (*self.memory.cleared(loc), *self.stack.empty(loc), *self.sweeps.zeros())
        totals = [x.name for x in self.memory.totals.values()] if shares else []
        live = self._lean((*begun, *both, *numbers), totals)
        _refuse_order(live)
        if self.how.deterministic:
            _refuse_sums(live)
        touched = {y for x in all_statements(live) for y in x.touched()}
        self.stack.arrays = [x for x in self.stack.arrays if x in touched]
        kept = tuple(x.dtype for x in self.stack.arrays)
        if kept and chosen:
            again = _Assembly(self.primal, self.gradients, self.how, Names(self.primal))
            again.gathers = False
            return again.made()
        inner = self._kernel(f"{self.primal.name}_adjoint", live, ())
        refuse_stale(self.flat, inner, self.sweeps.again)
        sizes = self._sizes() if shares and self.flat.exact else ()
        kernel = self._with_totals(inner, self._each_once(live, sizes), shares, sizes)
        measure = self._measure() if kept else None
        gathers = tuple(self._gather(x, first=x is chosen[0]) for x in chosen)
        steady = measure is not None and not any(
            isinstance(x, s.Load) for x in all_statements(measure.body)
        )
        strips = self._in_strips(inner, shares)
        return Adjoint(kernel, measure, kept, gathers, tuple(shared), bool(sizes), steady, strips)

    def _sizes(self) -> tuple[e.Variable, ...]:
        """The sizes of the ndrange, where a kernel is launched over another one."""
        return tuple(self.names.variable("size", self.flat.index_type) for _ in range(3))

    def _cells(self) -> tuple[e.Variable, ...]:
        """The variables that there may be."""
        totals = self.memory.totals.values()
        return (
            *self.flat.variables,
            *self.sweeps.cells,
            *self.stack.cells,
            *totals,
            *self.sums.cells,
        )

    def _lean(self, body: s.Block, totals: Sequence[str]) -> s.Block:
        """A body whose tiles are summed up without atomic additions, and what that leaves over."""
        into = [x.array for x in self.gradients]
        body = needed(body, into, cells=totals)
        body = self.sums.put(settled(body, frozenset(x.name for x in self._cells())))
        body, own = in_registers(body, self.memory.arrays, self.flat, self.names)
        self.sums.cells += own
        known = covered(self.flat, self.sweeps.again)
        known |= {name for name, before in self.sums.again.items() if before in known}
        live, cells = after_loops(
            needed(body, into, cells=totals, covered=known), self.names, self.flat.sub_group_size
        )
        self.sweeps.cells += cells
        names = frozenset(x.name for x in self._cells())
        live = without_overwritten(settled(live, names), names, totals)
        live = needed(live, into, cells=totals, covered=known)
        alone = self.how.workgroup_atomics  # one thread: parts between barriers are loops
        return without_last_barrier(live) if own and not alone else live

    def _gatherable(self) -> list[Moved]:
        """The arrays whose gradients kernels of their own sum up."""
        if not self.gathers:
            return []
        with_gradient = {x.parameter for x in self.gradients}
        arrays = [
            x for x in self.flat.parameters if isinstance(x, Array) and x.name in with_gradient
        ]
        return gatherable(self.flat, arrays, self.dims)

    def _gather(self, moved: Moved, *, first: bool) -> Gather:
        """The kernel that sums up the gradient of one; the first one those that all add to, too."""
        loc = self.flat.loc
        into = next(x.array for x in self.gradients if x.parameter == moved.array.name)
        sizes = self._sizes()
        fresh = self.names.variable("fresh", self.flat.index_type)
        total = self.names.variable("total", into.dtype.register)
        body: list[s.Statement] = [s.Assign(total, zero(total.type), loc)]
        variables: list[e.Variable] = [total]
        arrays: list[Array] = []
        shared: list[Shared] = []
        shares: list[Array] = []
        nowhere = (0,) * len(moved.dims)
        moves = moved.moves if nowhere in moved.moves or not first else (*moved.moves, nowhere)
        last: s.Block = ()
        for number, move in enumerate(moves):
            loads = frozenset(x for x, at in moved.loads.items() if at == number)
            part = self._part(Gathering(loads, total, all_add=first and move == nowhere))
            body += part._moved(move, sizes, total)
            if part.memory.totals:
                shared, shares = part._handed_on()
                begun, last = part._summed_up(shares)
                body[:0] = begun
            variables += [*part.flat.variables, *part.sweeps.cells, *part.memory.totals.values()]
            arrays += [*part.flat.arrays, *part.memory.arrays]
        added = self._element(into, moved, total, fresh)
        if shares:
            extents = [e.Extent(into, axis, self.flat.index_type) for axis in range(into.ndim)]
            added = (s.If(within(moved.point(self.flat.index_type), extents), added, (), loc),)
        body += [*added, *last]
        used = {v.name for x in all_statements(tuple(body)) for v in x.sets()}
        made = replace(
            self.flat,
            name=f"{self.primal.name}_gather",
            parameters=(
                *self.flat.parameters, *(x.array for x in self.gradients), *sizes, fresh, *shares,
            ),
            variables=tuple(dict.fromkeys(x for x in variables if x.name in used)),
            arrays=tuple(dict.fromkeys(arrays)),
            body=tuple(body),
        )  # fmt: skip
        made = self._finished(made)
        number = self.flat.parameters.index(moved.array)
        return Gather(made, number, moved.dims, tuple(shared))

    def _element(self, into: Array, moved: Moved, total: e.Variable, fresh: e.Variable) -> s.Block:
        """Adds a sum to the work-item's element, or makes it the element of a fresh gradient."""
        loc, before = self.flat.loc, self.names.variable("before", total.type)
        point = moved.point(self.flat.index_type)
        added: s.Block = (
            s.Load(before, into, point, loc),
            s.Store(into, point, e.Binary("add", before, total), loc),
        )
        holds = e.Compare("eq", fresh, zero(fresh.type))
        return (s.If(holds, added, (s.Store(into, point, total, loc),), loc),)

    def _moved(
        self, move: tuple[int, ...], sizes: Sequence[e.Variable], total: e.Variable
    ) -> s.Block:
        """What the work-item so far back would add, if there is one."""
        kind, loc = self.flat.index_type, self.flat.loc
        both, level = self.sweeps.whole()
        gathering = self.memory.gathering
        numbers = self._numbers(level) if gathering is not None and gathering.all_add else ()
        cells = (total.name, *(x.name for x in self.memory.totals.values()))
        begun = (*self.memory.cleared(loc), *self.sweeps.zeros())
        live = needed((*begun, *both, *numbers), (), cells=cells)
        out: list[s.Statement] = []
        places: list[e.Expression] = []
        for dim, by in enumerate(move):
            point: e.Expression = e.WorkItem("global_id", dim, kind)
            if by:
                var = self.names.variable("place", kind)
                out.append(s.Let(var, e.Binary("sub", point, e.Const(by, kind)), loc))
                point = var
            places.append(point)
        made = moved_back(live, places, sizes)
        return (*out, *conditional(within(places, sizes[: len(places)]), made, loc))

    def _measure(self) -> Kernel:
        counts = Array(
            self.names.fresh("counts"), int32, "global", 1, strides=("unit",), restrict=True
        )
        loc = self.flat.loc
        walked = self.sweeps.measured()
        body = (*self.stack.begun(loc), *walked, *self.stack.reported(counts, loc))
        live = needed(body, [counts])
        _refuse_order(live)
        return self._finished(self._kernel(f"{self.primal.name}_kept", live, (counts,)))

    def _finished(self, kernel: Kernel) -> Kernel:
        """A kernel as it is launched, checked."""
        made = written_out(kept_in_variables(kernel, self.names), self.names)
        check(made)
        return made

    def _kernel(self, name: str, body: s.Block, more: tuple[Array | e.Variable, ...]) -> Kernel:
        given = tuple(x.array for x in self.gradients)
        cells, arrays = self._cells(), (*self.memory.arrays, *self.sums.arrays)
        used = {v.name for x in all_statements(body) for v in x.sets()}
        touched = {y for x in all_statements(body) for y in x.touched()}
        return replace(
            self.flat,
            name=name,
            parameters=(*self.flat.parameters, *given, *more),
            variables=tuple(dict.fromkeys(x for x in cells if x.name in used)),
            arrays=tuple(x for x in (*self.flat.arrays, *arrays) if x in touched),
            body=body,
        )

    def _numbers(self, level: Level) -> s.Block:
        """Adds the adjoints of numbers that all work-items are given."""
        out: list[s.Statement] = []
        parameters = {x.name: x for x in self.flat.parameters if isinstance(x, e.Variable)}
        for gradient in self.gradients:
            var = parameters.get(gradient.parameter)
            if var is None:
                continue
            if adjoint_type(var.type) is not var.type:
                refuse(f"of {var.name}, a number in half precision", self.flat.loc, "pass a float")
            adjoint, before = level.adjoints.taken(var, self.flat.loc)
            if adjoint is None:
                continue
            total = self.memory.total(gradient.array, (0,) * gradient.array.ndim)
            value = e.Binary("add", total, cast(adjoint, gradient.array.dtype.register))
            out += [*before, s.Assign(total, value, self.flat.loc)]
        return tuple(out)

    def _handed_on(self) -> tuple[list[Shared], list[Array]]:
        """What sums over all work-items are made of: their places, and where parts of them go."""
        shared: list[Shared] = []
        arrays: list[Array] = []
        for (into, index), total in self.memory.totals.items():
            number = next(i for i, x in enumerate(self.gradients) if x.array is into)
            assert isinstance(total.type, DType)
            shared.append(Shared(number, index, total.type))
            array = Array(
                self.names.fresh("shares"), total.type, "global", 1, strides=("unit",),
                restrict=True,
            )  # fmt: skip
            arrays.append(array)
        return shared, arrays

    def _each_once(self, body: s.Block, sizes: Sequence[e.Variable]) -> s.Block:
        """A body; where sizes are given, of the work-items within these alone."""
        if not sizes:
            return body
        dims = max(self.dims, self.flat.dimensions)
        ids = [e.WorkItem("global_id", dim, self.flat.index_type) for dim in range(3)]
        inside = within(ids[:dims], sizes[:dims])
        return (s.If(inside, moved_back(body, ids, sizes), (), self.flat.loc),)

    def _in_strips(self, inner: Kernel, shares: Sequence[Array]) -> Strips | None:
        """The adjoint in strips, where it adds atomically, or with rows of four for three."""
        arrays, alone = [x.array for x in self.gradients], self.how.workgroup_atomics
        counts = additions(inner, arrays, any_element=alone)
        rows = not counts and self.how.atomic_lanes >= ROW
        counts = additions_to_rows(inner, arrays) if rows else counts
        if not counts:
            return None
        sizes, dims = self._sizes(), max(self.dims, self.flat.dimensions)
        copies = {
            x: replace(
                x, name=self.names.fresh(f"{x.name}_copies"), ndim=2, strides=("any", "unit")
            )
            for x in counts
        }
        if rows:
            exact = sizes if shares and self.flat.exact else ()
            body = self._each_once(padded(inner, copies), exact)
        else:
            body = Turns(inner, dims, sizes, copies, self.names, alone).body()
        kernel = self._with_totals(inner, body, shares, (*sizes, *copies.values()))
        numbers = tuple(i for i, x in enumerate(self.gradients) if x.array in counts)
        return Strips(kernel, numbers, sum(counts.values()), padded=rows)

    def _with_totals(
        self,
        inner: Kernel,
        body: s.Block,
        shares: Sequence[Array],
        more: Sequence[Array | e.Variable],
    ) -> Kernel:
        """An adjoint of some body, and after it the sums over each workgroup."""
        first, last = self._summed_up(shares) if shares else ((), ())
        parameters = (*self.stack.arrays, *shares, *more)
        return self._finished(self._kernel(inner.name, (*first, *body, *last), parameters))

    def _summed_up(self, into: Sequence[Array]) -> tuple[s.Block, s.Block]:
        """How sums over each workgroup begin, and how they end."""
        totals = list(self.memory.totals.values())
        first = tuple(s.Assign(x, zero(x.type), self.flat.loc) for x in totals)
        dims = max(self.dims, self.flat.dimensions)
        return first, summed_up(self.flat, totals, into, dims, self.names)
