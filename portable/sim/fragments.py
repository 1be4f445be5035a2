"""Matrix fragments: one whole matrix for each instance of the scope that holds it."""

from __future__ import annotations

import numpy as np

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Region
from portable.lang.ir.types import Fragment, Scope
from portable.sim.control import assign
from portable.sim.launch import Site
from portable.sim.memory import Access, locate, read, write
from portable.sim.report import broken_promise, not_uniform
from portable.sim.steps import Builder, Pauses, Plain, Step, step
from portable.sim.values import Active, Value, stored
from portable.sim.workgroup import Running, Workgroup

# The elements of a rectangular part of an array.


class Part:
    """A region of an array, ready to be accessed.

    Attributes
    ----------
    region : Region
        The region.
    site : Site
        The statement that accesses it.
    """

    def __init__(self, region: Region, site: Site, b: Builder) -> None:
        self.region = region
        self.site = site
        self._starts = b.expressions(region.starts, site)

    def starts(self, w: Workgroup) -> Value:
        """Where the region starts for each work-item: a row each, a column per dimension."""
        columns = [start(w).astype(np.int64) for start in self._starts]
        return np.stack(columns, axis=1)

    def access(self, w: Workgroup, starts: Value, threads: Value) -> Access:
        """The components of one region per row of `starts`, each accessed by one thread.

        In the order of the region's shape, the halves of a complex element innermost. Elements
        outside a global array are left out.
        """
        index = self._index(starts)
        count = index[0].size
        items = np.repeat(threads, count // len(threads))
        width = w.buffers[self.region.array].width
        component = np.tile(np.arange(width), count)
        wide = tuple(np.repeat(i.reshape(-1), width) for i in index)
        clip = self.region.array.space == "global"
        return locate(w, self.site, wide, np.repeat(items, width), component, clip)

    def _index(self, starts: Value) -> tuple[Value, ...]:
        """Per dimension of the array, an index per region and element of its shape."""
        extents = self.region.extents
        shape = tuple(1 if extent is None else extent for extent in extents)
        steps = np.indices(shape)
        out: list[Value] = []
        for start, along in zip(starts.T, steps, strict=True):
            kept = along.reshape([extent for extent in extents if extent is not None])
            kept = kept.T if self.region.transposed else kept
            taken = kept * self.region.step(len(out))
            out.append(start.reshape((-1,) + (1,) * kept.ndim) + taken)
        return tuple(out)


# -- fragments -------------------------------------------------------------------------------------


class _Holders:
    """The instances of a scope that execute a statement.

    Attributes
    ----------
    all : int
        Instances of the scope in the workgroup.
    instances : numpy.ndarray
        Those that are here.
    first : numpy.ndarray
        A work-item of each.
    threads : numpy.ndarray
        The thread that accesses memory for each.
    members : numpy.ndarray
        The instance that each work-item of the workgroup belongs to.
    rank, sharers : numpy.ndarray
        Each work-item's place in its instance, and how many it has.
    """

    def __init__(self, w: Workgroup, scope: Scope, site: Site) -> None:
        self.members = self._instance_of(w, scope)
        self.all = int(self.members[-1]) + 1
        sizes = np.bincount(self.members)
        self.sharers = sizes[self.members]
        self.rank = np.arange(w.size) - self.members * sizes[0]
        if scope == "workgroup":
            w.meet(site, "a matrix operation of the workgroup")
        elif scope == "sub_group":
            w.meet_sub_groups(site, "a matrix operation of the sub-group")
        here = self.members[w.active.ids]
        self.instances, first = np.unique(here, return_index=True)
        self.first = w.active.ids[first]
        self.threads = self._threads(w, scope)
        self._site = site

    @staticmethod
    def _instance_of(w: Workgroup, scope: Scope) -> Value:
        items = np.arange(w.size)
        divisor = {"work_item": 1, "sub_group": w.kernel.sub_group_size, "workgroup": w.size}
        return items // divisor[scope]

    def _threads(self, w: Workgroup, scope: Scope) -> Value:
        if self.all == w.size:
            return self.first
        threads = w.launch.threads
        base = threads.workgroup if scope == "workgroup" else threads.sub_groups
        return self.instances + base

    def shared(self, w: Workgroup, what: str, x: Value) -> Value:
        """The value of each instance; all its work-items must have the same."""
        if w.settings.uniform:
            leader = np.zeros(self.all, np.intp)
            leader[self.instances] = self.first
            mine, expected = w.active.pick(x), x[leader[self.members[w.active.ids]]]
            if (mine != expected).any():
                raise not_uniform(w, self._site, what, mine, expected)
        values: Value = x[self.first]
        return values


def _matrices(w: Workgroup, fragment: Fragment, holders: _Holders) -> Value:
    """The matrices of all instances."""
    array = w.fragments.get(fragment)
    if array is None:
        array = np.zeros((holders.all, *fragment.shape), fragment.dtype.numpy)
        w.fragments[fragment] = array
    return array


@step.register
def _(statement: s.FragmentFill, b: Builder) -> Step:
    site, fragment = b.site(statement.loc), statement.fragment
    value = b.expression(statement.value, site)

    def run(w: Workgroup) -> None:
        holders = _Holders(w, fragment.scope, site)
        filling = holders.shared(w, "what fills a matrix", value(w))
        _matrices(w, fragment, holders)[holders.instances] = filling[:, None, None]
        w.changes += 1

    return Plain(run)


def _read_part(w: Workgroup, part: Part, holders: _Holders) -> Value:
    """The matrices that a region holds for each instance, as stored."""
    starts = holders.shared(w, "where a matrix starts", part.starts(w))
    values = read(w, part.access(w, starts, holders.threads))
    matrices: Value = values.reshape(-1, *part.region.shape)
    return matrices


@step.register
def _(statement: s.FragmentLoad, b: Builder) -> Step:
    fragment = statement.fragment
    site = b.site(statement.loc, statement.source.array)
    part = Part(statement.source, site, b)

    def run(w: Workgroup) -> None:
        holders = _Holders(w, fragment.scope, site)
        values = _read_part(w, part, holders)
        _matrices(w, fragment, holders)[holders.instances] = values
        w.changes += 1

    return Plain(run)


@step.register
def _(statement: s.FragmentStore, b: Builder) -> Step:
    fragment = statement.fragment
    site = b.site(statement.loc, statement.target.array)
    part = Part(statement.target, site, b)
    storage = statement.target.array.dtype

    def run(w: Workgroup) -> None:
        holders = _Holders(w, fragment.scope, site)
        starts = holders.shared(w, "where a matrix starts", part.starts(w))
        matrices = _matrices(w, fragment, holders)[holders.instances]
        access = part.access(w, starts, holders.threads)
        write(w, access, stored(matrices, storage).reshape(-1))

    return Plain(run)


class _Operand:
    """A factor of a product: a fragment, or a region of local memory."""

    def __init__(self, x: Fragment | Region, loc: Location, b: Builder) -> None:
        self._fragment = x if isinstance(x, Fragment) else None
        self._part = Part(x, b.site(loc, x.array), b) if isinstance(x, Region) else None

    def matrices(self, w: Workgroup, holders: _Holders) -> Value:
        """The factor of each instance."""
        if self._part is not None:
            return _read_part(w, self._part, holders)
        assert self._fragment is not None
        mine: Value = _matrices(w, self._fragment, holders)[holders.instances]
        return mine


@step.register
def _(statement: s.Multiply, b: Builder) -> Step:
    site, accumulator = b.site(statement.loc), statement.accumulator
    left, right = (_Operand(x, statement.loc, b) for x in (statement.a, statement.b))
    valid = b.expressions(statement.valid or (), site)
    kind = accumulator.dtype.numpy

    def run(w: Workgroup) -> None:
        holders = _Holders(w, accumulator.scope, site)
        x, y = (factor.matrices(w, holders).astype(kind) for factor in (left, right))
        product = np.matmul(x, y)
        if valid:
            limits = [holders.shared(w, "the valid part of a product", v(w)) for v in valid]
            _check_zeros(w, site, holders, (x, y), limits[2])
            product = np.where(_needed(product.shape[1:], limits[0], limits[1]), product, 0)
        sums = _matrices(w, accumulator, holders)
        if statement.anew:
            sums[holders.instances] = 0
        sums[holders.instances] += product
        w.changes += 1

    return Plain(run)


def _check_zeros(
    w: Workgroup, site: Site, holders: _Holders, factors: tuple[Value, Value], depth: Value
) -> None:
    """From `depth` on, the columns of the first factor and the rows of the second are zeros."""
    x, y = factors
    beyond = np.arange(x.shape[2]) >= depth[:, None]
    bad = (x != 0).any(axis=1) & beyond | (y != 0).any(axis=2) & beyond
    if w.settings.promises and bad.any():
        what = "a factor is not zero beyond its valid part"
        raise broken_promise(w, site, what, holders.first[bad.any(axis=1)])


def _needed(shape: tuple[int, ...], rows: Value, columns: Value) -> Value:
    """Which elements of each accumulator are needed; the others stay as they are."""
    row, column = np.indices(shape)
    needed: Value = (row < rows[:, None, None]) & (column < columns[:, None, None])
    return needed


@step.register
def _(statement: s.ForElements, b: Builder) -> Step:
    """Elements are dealt to the work-items of the scope in turn."""
    site, fragment = b.site(statement.loc), statement.fragment
    body, deal = b.block(statement.body), _Deal(statement)

    def run(w: Workgroup) -> Running:
        holders = _Holders(w, fragment.scope, site)
        matrices = _matrices(w, fragment, holders).reshape(holders.all, -1)
        others = [_matrices(w, x, holders).reshape(holders.all, -1) for x in statement.partners]
        remaining = w.active
        for number in range(deal.rounds(holders)):
            w.active = remaining
            elements = deal.round(w, holders, number, (matrices, *others))
            taking = w.active
            if not taking.count:
                break
            yield from body(w)
            if statement.writes:
                deal.put_back(w, elements, taking, matrices)
            remaining = remaining.unless(taking.mask & ~w.active.mask)
        w.active = remaining

    return Pauses(run)


class _Deal:
    """Which element each work-item has in a round of a `ForElements`."""

    def __init__(self, statement: s.ForElements) -> None:
        self._statement = statement
        rows, self._columns = statement.fragment.shape
        self._total = rows * self._columns

    def rounds(self, holders: _Holders) -> int:
        """Until all elements are dealt."""
        return -(-self._total // int(holders.sharers.min()))

    def round(
        self, w: Workgroup, holders: _Holders, number: int, matrices: tuple[Value, ...]
    ) -> Value:
        """Bind the variables; work-items without an element become inactive."""
        element = holders.rank + number * holders.sharers
        w.active = w.active.where(element < self._total)
        element = np.minimum(element, self._total - 1)
        row, column = self._statement.row, self._statement.column
        index_type = w.kernel.index_type.numpy
        w.env[row.name] = (element // self._columns).astype(index_type)
        w.env[column.name] = (element % self._columns).astype(index_type)
        variables = self._statement.value, *self._statement.others
        for variable, held in zip(variables, matrices, strict=True):
            assign(w, variable.name, held[holders.members, element])
        position: Value = holders.members * self._total + element
        return position

    def put_back(self, w: Workgroup, elements: Value, taking: Active, matrices: Value) -> None:
        """What the body left in the value becomes the element."""
        value = w.env[self._statement.value.name]
        matrices.reshape(-1)[elements[taking.ids]] = value[taking.ids]
        w.changes += 1
