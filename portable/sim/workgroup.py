"""A running workgroup: its state, strands of it, and what expressions and statements do to it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property, lru_cache, singledispatch
from typing import Any, Final

import numpy as np

from portable.errors import Location, UnsupportedError
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.expressions import Const, Expression, WorkItem
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Fragment, lanes_of, scalar_of
from portable.sim import binding, report, values
from portable.sim.binding import Arguments
from portable.sim.copies import Copies, CopyGroup, MBarrier
from portable.sim.launch import Group, Launch, Site
from portable.sim.products import Products
from portable.sim.values import Active, LoopMasks, Value

# Work-items on their way through a block: where they pause, and strands that go on alone.


@dataclass(frozen=True, slots=True)
class Pause:
    """A place where another workgroup, or another strand of this one, may go on.

    Attributes
    ----------
    site : Site
        The place.
    stuck : bool
        Whether the workgroup can only repeat itself until others change global memory: the
        end of a round of a loop at which everything stands as it stood at the round's start.
    until : callable or None
        Where only other strands of the workgroup can change something (`control`): whether
        they have.
    """

    site: Site
    stuck: bool
    until: Callable[[], bool] | None = None


Running = Generator[Pause, None, None]
"""The rest of a block: the places at which others may go on."""


@dataclass(slots=True, eq=False)
class Strand:
    """Some work-items of a workgroup on their way through a block.

    Attributes
    ----------
    members, active : Active
        Its work-items, and those that take part in what is being executed.
    env : dict of str to numpy.ndarray
        Values of variables by name.
    loops : list of LoopMasks
        Of the loops that it is in.
    running : generator
        The rest of the block.
    pause : Pause or None
        Where it stands.
    seen : (int, int)
        How often memory had changed then.
    ended : bool
        Whether the block is done.
    """

    members: Active
    active: Active
    env: dict[str, Value]
    loops: list[LoopMasks]
    running: Running
    pause: Pause | None = None
    seen: tuple[int, int] = (0, 0)
    ended: bool = False

    def ready(self, w: Group) -> bool:
        """Whether it may do something new."""
        if self.ended or self.pause is None:
            return not self.ended
        if self.pause.until is not None:
            return self.pause.until()
        return not self.pause.stuck or self.seen != (w.changes, w.launch.version)

    def turn(self, w: Group) -> Pause | None:
        """Run until the next pause, which is given, or to the end."""
        saved = w.env, w.active, w.loops
        w.env, w.active, w.loops = self.env, self.active, self.loops
        self.pause = next(self.running, None)
        self.ended = self.pause is None
        self.env, self.active, self.loops = w.env, w.active, w.loops
        w.env, w.active, w.loops = saved
        self.seen = w.changes, w.launch.version
        return self.pause


# The state of one running workgroup.


class Workgroup(CopyGroup):
    """One workgroup, with all that runs in it and beside it.

    Attributes
    ----------
    fragments : dict of Fragment to numpy.ndarray
        Matrices, one per instance of their scope.
    strands : list of Strand or None
        Its parts, while they go their own ways; one of them is being executed.
    """

    def __init__(self, launch: Launch, arguments: Arguments, number: int) -> None:
        super().__init__(launch, number)
        self.env.update(arguments.scalars)
        self.env.update(arguments.blank)
        self.buffers.update(arguments.buffers)
        for array in self.kernel.arrays:
            self.buffers[array] = binding.allocate(array, self.size, launch)
        self.fragments: dict[Fragment, Value] = {}
        self.strands: list[Strand] | None = None
        self._words: dict[WorkItem, Value] = {}

    @cached_property
    def copies(self) -> Copies:
        """Asynchronous copies in groups."""
        return Copies(self.size)

    @cached_property
    def bulk(self) -> Copies:
        """Those through the asynchronous proxy, in groups of their own."""
        return Copies(self.size)

    @cached_property
    def mbarriers(self) -> dict[tuple[Array, int], MBarrier]:
        """Elements of local arrays that are mbarriers."""
        return {}

    @cached_property
    def products(self) -> Products:
        """Multiplications of warpgroups under way."""
        return Products()

    def word(self, node: WorkItem) -> Value:
        """Where each work-item stands."""
        values = self._words.get(node)
        if values is None:
            values = np.broadcast_to(self._stand(node), (self.size,)).astype(node.type.numpy)
            self._words[node] = values
        return values

    def _stand(self, node: WorkItem) -> Value | int:
        local, size = self.launch.local_ids, self.kernel.sub_group_size
        match node.word:
            case "global_id":
                return self.group_id[node.dim] * self.kernel.workgroup[node.dim] + local[node.dim]
            case "local_id":
                return local[node.dim]
            case "group_id":
                return self.group_id[node.dim]
            case "global_size":
                return self.launch.sizes[node.dim]
            case "num_groups":
                return self.launch.groups[node.dim]
            case "local_linear_id":
                return np.arange(self.size)
            case "sub_group_id":
                return np.arange(self.size) // size
            case "sub_group_local_id":
                return np.arange(self.size) % size

    def meet(self, site: Site, what: str) -> None:
        """All work-items must be here."""
        if not self.active.full and self.settings.divergence:
            missing = np.flatnonzero(~self.active.mask)
            raise report.divergence(self, site, what, missing)

    def barrier(self, meeting: int = 0) -> None:
        """All work-items meet, or so many of them, and each knows what any of them knew."""
        if meeting:
            self._meet_some(np.arange(meeting))
            return
        self.clock.barrier()
        if self.launch.survey.proxied:
            self.proxies.barrier()

    def _meet_some(self, items: Value) -> None:
        known = self.clock.release(items)
        self.clock.tick()
        self.clock.acquire_together(items, known)
        if self.launch.survey.proxied:
            self.proxies.acquire(items, self.proxies.release(items))

    def meet_sub_groups(self, site: Site, what: str, size: int = 0) -> None:
        """All work-items of every sub-group, or other `size`, that is here at all must be here."""
        if self.active.full or not self.settings.divergence:
            return
        group = np.arange(self.size) // (size or self.kernel.sub_group_size)
        here = np.isin(group, group[self.active.ids])
        missing = np.flatnonzero(here & ~self.active.mask)
        if missing.size:
            raise report.divergence(self, site, what, missing)


# Evaluating pure value trees: each node becomes a function of the workgroup.

_FEW: Final = 8
"""Of an array's extents, so many different ones are kept ready."""

Evaluate = Callable[[Workgroup], Value]
"""Gives a value for every work-item, active or not; inactive ones get something harmless."""


def evaluator(x: e.Expression, size: int, site: Site) -> Evaluate:
    """The function that evaluates an expression for `size` work-items at a statement.

    Parameters
    ----------
    x : Expression
    size : int
    site : Site
        The statement.
    """

    def inner(child: e.Expression) -> Evaluate:
        return evaluator(child, size, site)

    match x:
        case e.Const(value, of):
            constant = np.full(size, value, of.numpy)
            return lambda w: constant
        case e.Variable(name):
            return lambda w: w.env[name]
        case e.Extent(array, dim, of):
            extents = lru_cache(_FEW)(lambda n: np.full(size, n, of.numpy))
            return lambda w: extents(w.buffers[array].extents[dim])
        case e.WorkItem():
            return lambda w: w.word(x)
        case e.Unary(op, operand):
            return _unary(values.UNARY[op], inner(operand))
        case e.Binary(op, left, right, nonnegative):
            if nonnegative:
                return _nonnegative(values.BINARY[op], inner(left), inner(right), site)
            return _binary(values.BINARY[op], inner(left), inner(right))
        case e.Compare(compare, left, right):
            return _binary(values.COMPARE[compare], inner(left), inner(right))
        case e.Select(condition, left, right):
            return _select(inner(condition), inner(left), inner(right))
        case e.Cast(operand, kind, storage, _):
            source, target = inner(operand), scalar_of(kind)
            return lambda w: values.cast(source(w), target, storage)
        case e.Bitcast(operand, kind):
            source, format_ = inner(operand), scalar_of(kind).numpy
            return lambda w: source(w).view(format_)
        case e.Call():
            return _call(x, tuple(inner(a) for a in x.arguments))
        case e.Splat(operand, vector):
            source, lanes = inner(operand), vector.lanes
            return lambda w: np.repeat(source(w)[:, None], lanes, axis=1)
        case e.MakeVector(elements):
            parts = tuple(inner(element) for element in elements)
            return lambda w: np.stack([part(w) for part in parts], axis=1)
        case e.Lane(operand, lane):
            source = inner(operand)
            return lambda w: source(w)[:, lane]
        case e.Compress(operand, mask):
            return _binary(_compressed, inner(operand), inner(mask))
        case e.Count(mask):
            chosen = inner(mask)
            return lambda w: chosen(w).sum(axis=1, dtype=np.int32)
        case e.AssumeUniform(operand):
            return _assume_uniform(inner(operand), site)
        case _:
            raise UnsupportedError(f"{type(x).__name__} is not simulated")


def _compressed(x: Value, mask: Value) -> Value:
    """What is chosen in front, zeros behind."""
    chosen = np.where(mask, x, np.zeros((), x.dtype))
    return np.take_along_axis(chosen, np.argsort(~mask, axis=1, kind="stable"), axis=1)


def _unary(operation: Callable[[Value], Value], x: Evaluate) -> Evaluate:
    return lambda w: operation(x(w))


def _binary(operation: Callable[[Value, Value], Value], x: Evaluate, y: Evaluate) -> Evaluate:
    return lambda w: operation(x(w), y(w))


def _nonnegative(
    operation: Callable[[Value, Value], Value], x: Evaluate, y: Evaluate, site: Site
) -> Evaluate:
    def checked(w: Workgroup) -> Value:
        left, right = x(w), y(w)
        if w.settings.promises:
            negative = w.active.pick((left < 0) | (right < 0))
            if negative.any():
                items = w.active.ids[negative.reshape(w.active.count, -1).any(axis=1)]
                raise report.broken_promise(w, site, "a divided number is negative", items)
        return operation(left, right)

    return checked


def _select(condition: Evaluate, x: Evaluate, y: Evaluate) -> Evaluate:
    return lambda w: values.select(condition(w), x(w), y(w))


def _call(x: e.Call, arguments: tuple[Evaluate, ...]) -> Evaluate:
    function, result = FUNCTIONS[x.function].numpy, scalar_of(x.type).numpy
    assert lanes_of(x.type) == lanes_of(x.arguments[0].type)

    def call(w: Workgroup) -> Value:
        outcome: Value = function(*(argument(w) for argument in arguments))
        return outcome.astype(result, copy=False)

    return call


def _assume_uniform(x: Evaluate, site: Site) -> Evaluate:
    def same(w: Workgroup) -> Value:
        result = x(w)
        if w.settings.uniform and w.active.count:
            check_uniform(w, site, "a value assumed to be uniform", result)
        return result

    return same


def check_uniform(w: Workgroup, site: Site, what: str, x: Value) -> None:
    """Report a value that differs between the active work-items; NaN is like NaN."""
    picked = w.active.pick(x)
    expected = np.broadcast_to(picked[:1], picked.shape)
    if ((picked != expected) & ((picked == picked) | (expected == expected))).any():
        raise report.not_uniform(w, site, what, picked, expected)


# Turning statements into steps: functions that change the state of a workgroup.
#
# A step is run by calling it with the workgroup. One that `pauses` is a generator function: it
# yields a `Pause` where another workgroup may go on.

Runs = Callable[[Workgroup], Running]


@dataclass(frozen=True, slots=True)
class Plain:
    """A step that runs to its end."""

    run: Callable[[Workgroup], None]
    pauses = False


@dataclass(frozen=True, slots=True)
class Pauses:
    """A step during which other workgroups may run."""

    run: Callable[[Workgroup], Running]
    pauses = True


Step = Plain | Pauses


class Builder:
    """Builds the steps of one kernel.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    size : int
        Work-items of a workgroup.
    sites : list of Site
        Every statement that reports may name, by number.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        x, y, z = kernel.workgroup
        self.size = x * y * z
        self.sites: list[Site] = []

    def site(self, location: Location, array: Array | None = None) -> Site:
        """A new site."""
        site = Site(len(self.sites), location, array)
        self.sites.append(site)
        return site

    def expression(self, x: Expression, site: Site) -> Evaluate:
        """What evaluates an expression at a site."""
        return evaluator(x, self.size, site)

    def constant(self, x: Expression) -> int:
        """The number that an expression is, which must be a constant."""
        assert isinstance(x, Const)
        return int(x.value)

    def expressions(self, xs: tuple[Any, ...], site: Site) -> tuple[Evaluate, ...]:
        """What evaluates several."""
        return tuple(evaluator(x, self.size, site) for x in xs)

    def block(self, block: s.Block) -> Runs:
        """What runs a block until its end, or until no work-item is left in it."""
        steps = tuple((made.pauses, made.run) for made in (step(x, self) for x in block))

        def run(w: Workgroup) -> Running:
            for pauses, one in steps:
                if pauses:
                    yield from one(w)  # type: ignore[misc]
                else:
                    one(w)
                if not w.active.count:
                    return

        return run


@singledispatch
def step(statement: s.Statement, b: Builder) -> Step:
    """The step that a statement becomes; each kind is registered by the module that runs it."""
    raise UnsupportedError(
        f"{statement.loc}: {type(statement).__name__} belongs to one device and is not simulated; "
        "simulate the kernel before it is lowered for a device"
    )
