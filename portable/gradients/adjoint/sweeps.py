"""Forwards and backwards through a flat program.

A *level* is the kernel's body or one round of a loop. It is run forwards with all its values at
hand, and then backwards. A loop in it is run through by itself on the way forwards, which keeps
what each round begins with; on the way back each round is a level of its own. So a loop in a loop
keeps as much as both have rounds, not as the product, and what is not needed is left out later
(`unused`): of sums nothing is left of the way forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from portable.dtypes import int32
from portable.errors import Location
from portable.gradients.adjoint.activity import Activity
from portable.gradients.adjoint.adjoints import Adjoints
from portable.gradients.adjoint.extremes import extreme_shares, extremes
from portable.gradients.adjoint.logs import Log
from portable.gradients.adjoint.memory import Memory
from portable.gradients.adjoint.names import Names, adjoint_type, refuse, zero
from portable.gradients.adjoint.reexecution import Again
from portable.gradients.adjoint.rounds import Rounds, integer_type, trips
from portable.gradients.adjoint.rules import shares
from portable.gradients.adjoint.stack import Stack
from portable.gradients.adjoint.sub_groups import sub_group_shares
from portable.gradients.adjoint.unused import needed
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector


def exposed(block: s.Block) -> list[e.Variable]:
    """Those variables, in order; names that are bound in it are none."""
    bound = {v.name for x in walks.all_statements(block) for v in x.binds()}
    variables: dict[str, e.Variable] = {}
    _look(block, set(bound), variables)
    return list(variables.values())


def _look(block: s.Block, given: set[str], variables: dict[str, e.Variable]) -> set[str]:
    """Adds what is read without a value; what surely has one after the block."""
    for x in block:
        for y in walks.reads(x):
            for z in walks.subexpressions(y):
                if isinstance(z, e.Variable) and z.name not in given:
                    variables.setdefault(z.name, z)
        if isinstance(x, s.If):
            branches = [_look(part, set(given), variables) for part in (x.then, x.orelse)]
            given |= branches[0] & branches[1]
        elif x.blocks():
            for part in x.blocks():
                _look(part, set(given), variables)
        given |= {v.name for v in x.sets()}
    return given


_FORWARD_ONLY: Final = (s.Print, s.Check)


@dataclass
class Round:
    """What a loop's rounds are on the way back.

    Attributes
    ----------
    var : Variable or None
        The counter.
    kept : list of Variable
        The variables whose values at the beginning of each round are kept.
    body : Block
        Forwards and backwards.
    """

    var: e.Variable | None
    kept: list[e.Variable]
    body: s.Block


@dataclass
class Level:
    """A level as it is written down.

    Attributes
    ----------
    env : dict
        What stands here for the names of the program.
    adjoints : Adjoints
        Of the names that are bound here.
    counts : dict
        By the loops of the level: how many rounds they ran.
    rounds : dict
        By the loops of the level: what a round is on the way back.
    """

    env: dict[str, e.Expression]
    adjoints: Adjoints
    counts: dict[int, e.Expression] = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)

    def of(self, x: e.Expression) -> e.Expression:
        """An expression of the program in the names of this level."""
        return walks.map_expression(
            x, lambda y: self.env.get(y.name, y) if isinstance(y, e.Variable) else y
        )

    def inside(self) -> Level:
        """The same names, for a run of which this level keeps nothing."""
        return Level(dict(self.env), self.adjoints)


_Rounds = Callable[[Rounds, Level], s.Block]


class Sweeps:
    """Writes down both ways.

    Parameters
    ----------
    kernel : Kernel
        The flat program.
    names : Names
    activity : Activity
    memory : Memory
        How arrays and their adjoints are read and written.
    stack : Stack
        Keeps what rounds begin with.
    logs : mapping
        By the identity of loads whose findings are kept.

    Attributes
    ----------
    cells : list of Variable
        Variables that came in beside the program's.
    again : dict
        The loads that the way back does again, by the names that they bind.
    """

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        activity: Activity,
        memory: Memory,
        stack: Stack,
        logs: Mapping[int, Log],
    ) -> None:
        self.cells: list[e.Variable] = []
        self.again: dict[str, Again] = {}
        self._kernel: Final = kernel
        self._names: Final = names
        self._activity: Final = activity
        self._spread: Final = activity.spread
        self._memory: Final = memory
        self._stack: Final = stack
        self._logs: Final = logs
        self._variables: Final = frozenset(x.name for x in kernel.variables)
        self._adjoints: Final[dict[str, e.Variable]] = {}
        self._kept: Final[dict[int, list[e.Variable]]] = {}
        self._finals: Final[dict[int, e.Variable]] = {}
        self._compared: Final[set[str]] = set()
        self._cleared: Final[list[s.Store]] = []
        self._depth = 0
        self._measuring = False

    # -- levels ----------------------------------------------------------------------------

    def whole(self) -> tuple[s.Block, Level]:
        """The kernel forwards and backwards."""
        parameters = {x.name for x in self._kernel.parameters}
        level = self._new({}, parameters | _bound(self._kernel.body), None)
        return self._both(self._kernel.body, level, self._kernel.loc), level

    def measured(self) -> s.Block:
        """A run that finds how high the stacks become; after `whole`."""
        level = self._new({}, set(), None)
        self._measuring = True
        return self._walk(self._kernel.body, level, self._measured_rounds)

    def zeros(self) -> s.Block:
        """Nought for the adjoints of variables, which all levels share."""
        loc = self._kernel.loc
        return tuple(s.Assign(x, zero(x.type), loc) for x in self._adjoints.values())

    def _new(self, env: dict[str, e.Expression], bound: set[str], above: Adjoints | None) -> Level:
        return Level(env, Adjoints(self._names, self._spread, self._activity, bound, above))

    def _both(self, block: s.Block, level: Level, loc: Location) -> s.Block:
        forwards = self._walk(block, level, self._kept_rounds)
        backwards = self._backwards(block, level)
        self.cells += level.adjoints.cells
        return (*level.adjoints.zeros(loc), *_joined(forwards, backwards))

    # -- forwards --------------------------------------------------------------------------

    def _walk(self, block: s.Block, level: Level, rounds: _Rounds) -> s.Block:
        out: list[s.Statement] = []
        for x in block:
            if isinstance(x, s.If):
                then = self._walk(x.then, level, rounds)
                orelse = self._walk(x.orelse, level, rounds)
                out.append(s.If(_alike(level.of(x.condition), x), then, orelse, x.loc))
            elif isinstance(x, Rounds):
                out += rounds(x, level)
            elif not isinstance(x, _FORWARD_ONLY):
                out += self._step(x, level)
        return tuple(out)

    def _step(self, x: s.Statement, level: Level) -> s.Block:
        bound = {v: self._names.variable(v.name, v.type) for v in x.binds()}

        def change(y: e.Expression) -> e.Expression:
            return bound[y] if isinstance(y, e.Variable) and y in bound else level.of(y)

        made = walks.map_operands(x, change)
        if made is x:  # each is an object of its own, by which it is known later
            made = replace(x)  # type: ignore[type-var]
        level.env.update({v.name: new for v, new in bound.items()})
        log = self._logs.get(id(x))
        if not isinstance(x, s.Load) or self._measuring or (log is None and not self._depth):
            return (made,)
        var = bound[x.var]
        if log is None:
            self.again[var.name] = Again(x, self._depth)
            return (made,)
        entry = self._stack.at(level.of(log.place))
        if self._depth:
            return (s.Load(var, log.array, entry, x.loc),)
        return (made, s.Store(log.array, entry, var, x.loc))

    def _kept_rounds(self, x: Rounds, level: Level) -> s.Block:
        """A loop on the way forwards; what a round is on the way back is written at once."""
        finals = self._begun(x)
        made = level.rounds[id(x)] = self._round(x, level)
        self._kept[id(x)] = made.kept
        known = trips(x, level.of)
        counter = None if known is not None else self._names.variable("rounds", int32)

        def body(at: Level) -> s.Block:
            pushed = self._stack.push(made.kept, x.loc)
            through = self._walk(x.body, at, self._plain_rounds)
            return (*pushed, *through, *_counted(counter, x.loc))

        loop = self._run(x, level, body)
        value = known if counter is None else counter
        assert value is not None
        told = self._names.variable("rounds", value.type)
        level.counts[id(x)] = told
        after = (s.Let(told, value, x.loc), *finals)
        if counter is None:
            return (loop, *after)
        self.cells.append(counter)
        return (s.Assign(counter, zero(int32), x.loc), loop, *after)

    def _begun(self, x: Rounds) -> list[s.Let]:
        """Names what the loop finds the greatest of, and gives the names their values after it."""
        out: list[s.Let] = []
        for comparison, (cell, loaded) in extremes(x, self._kernel).items():
            self._compared.add(loaded.name)
            final = self._finals[comparison] = self._names.variable(cell.name, cell.type)
            out.append(s.Let(final, cell, x.loc))
        return out

    def _plain_rounds(self, x: Rounds, level: Level) -> s.Block:
        return (self._run(x, level, lambda at: self._walk(x.body, at, self._plain_rounds)),)

    def _measured_rounds(self, x: Rounds, level: Level) -> s.Block:
        def body(at: Level) -> s.Block:
            inner = self._walk(x.body, at, self._measured_rounds)
            return self._stack.measured(self._kept[id(x)], inner, x.loc)

        return (self._run(x, level, body),)

    def _run(self, x: Rounds, level: Level, body: Callable[[Level], s.Block]) -> s.Statement:
        """A loop that is run through."""
        inner = level.inside()
        var = None
        if x.var is not None:
            var = inner.env[x.var.name] = self._names.variable(x.var.name, x.var.type)
        made = body(inner)
        if x.going is not None:
            ended = _alike(e.Unary("not", x.going), x)
            made = (*made, s.If(ended, (s.Break(x.loc),), (), x.loc))
        if var is None or x.bounds is None:
            return s.Loop(made, x.loc)
        start, stop, step = (_alike(level.of(y), x) for y in x.bounds)
        return s.For(var, start, stop, step, made, x.loc, x.unroll)

    # -- backwards -------------------------------------------------------------------------

    def _round(self, x: Rounds, level: Level) -> Round:
        """A round forwards and backwards, and what it needs to begin with."""
        at = self._new(dict(level.env), _bound(x.body), level.adjoints)
        var = None
        if x.var is not None:
            var = at.env[x.var.name] = self._names.variable(x.var.name, x.var.type)
        self._depth += 1
        body = self._both(x.body, at, x.loc)
        self._depth -= 1
        if any(isinstance(y, s.Barrier) for y in walks.all_statements(x.body)):
            body = (s.Barrier(x.loc), *body)
        after = {v.name for v in self._adjoints.values()} | level.adjoints.all_names()
        after |= self._memory.sums()
        live = needed(body, self._memory.roots(), cells=after)
        assigned = {v.name for y in walks.all_statements(x.body) for v in y.sets()}
        return Round(var, [v for v in exposed(live) if v.name in assigned], live)

    def _backwards(self, block: s.Block, level: Level) -> s.Block:
        """The way back through a block; what is cleared in global memory comes as late as it may.

        A GPU that stores to an address while a load of it is under way takes five times as long.
        """
        out: list[s.Statement] = []
        late: list[s.Store] = []
        for x in reversed(block):
            made = self._back(x, level)
            if late and any(_may_meet(y, late) for y in walks.all_statements(made)):
                out += late
                late.clear()
            out += made
            late += self._cleared
            self._cleared.clear()
        return (*out, *late)

    def _back(self, x: s.Statement, level: Level) -> s.Block:
        match x:
            case s.Let():
                return self._back_let(x, level)
            case s.Assign():
                return self._back_assign(x, level)
            case s.Load():
                adjoint, before = level.adjoints.taken(x.var, x.loc)
                if adjoint is None:
                    return ()
                added = self._memory.load(x, level.of, adjoint)
                if x.var.name in self._compared and added:  # one in a loop has an adjoint
                    some = e.Compare("ne", adjoint, zero(adjoint.type))
                    added = (s.If(some, added, (), x.loc),)
                return (*before, *added)
            case s.Store() | s.Atomic():
                return self._back_write(x, level)
            case s.If():
                then = self._backwards(x.then, level)
                orelse = self._backwards(x.orelse, level)
                condition = _alike(level.of(x.condition), x)
                return (s.If(condition, then, orelse, x.loc),) if then or orelse else ()
            case Rounds():
                return self._back_rounds(x, level)
            case s.SubGroup() | s.WorkgroupUniform() | s.WorkgroupReduce():
                return self._back_together(x, level)
            case s.Barrier():
                return (replace(x),)
            case s.Fence() | s.Print() | s.Check():
                return ()
            case _:
                refuse(
                    f"through {type(x).__name__}, which a workgroup does together",
                    x,
                    "write it by loads, stores and loops, or give the kernel an adjoint of your "
                    "own by portable.custom_vjp",
                )

    def _back_let(self, x: s.Let, level: Level) -> s.Block:
        adjoint, before = level.adjoints.taken(x.var, x.loc)
        if adjoint is None:
            return ()
        if isinstance(x.value, e.Variable) and x.value.name in self._variables:
            adjoint_here = self._adjoint(x.value)
            return (*before, s.Assign(adjoint_here, e.Binary("add", adjoint_here, adjoint), x.loc))
        final = self._finals.get(id(x))
        terms = (
            shares(x.value, x.var, adjoint)
            if final is None
            else extreme_shares(x.value, final, adjoint)
        )
        if terms is None:
            word = getattr(x.value, "op", getattr(x.value, "function", type(x.value).__name__))
            hint = "give the kernel an adjoint of your own by portable.custom_vjp"
            refuse(f"of {word}", x, hint)
        out = [*before]
        for operand, part in terms:
            out += level.adjoints.add(operand, level.of(part), x.loc)
        return tuple(out)

    def _adjoint(self, cell: e.Variable) -> e.Variable:
        """That of a variable."""
        variable = self._adjoints.get(cell.name)
        if variable is None:
            variable = self._names.variable(f"d_{cell.name}", adjoint_type(cell.type))
            self._adjoints[cell.name] = variable
            self.cells.append(variable)
        return variable

    def _back_assign(self, x: s.Assign, level: Level) -> s.Block:
        if x.var.name not in self._activity.names:
            return ()
        adjoint = self._adjoint(x.var)
        taken = self._names.variable(adjoint.name, adjoint.type)
        let = s.Let(taken, adjoint, x.loc)
        clear = s.Assign(adjoint, zero(adjoint.type), x.loc)
        return (let, clear, *level.adjoints.add(x.value, taken, x.loc))

    def _back_write(self, x: s.Store | s.Atomic, level: Level) -> s.Block:
        statements, adjoint = self._memory.write(x, level.of)
        if x.array.space == "global":
            self._cleared.extend(y for y in statements if isinstance(y, s.Store))
            statements = [y for y in statements if not isinstance(y, s.Store)]
        if adjoint is None or x.value is None:
            return tuple(statements)
        return (*statements, *level.adjoints.add(x.value, adjoint, x.loc))

    def _back_together(
        self, x: s.SubGroup | s.WorkgroupUniform | s.WorkgroupReduce, level: Level
    ) -> s.Block:
        if x.var.name not in self._activity.names:
            return ()
        adjoint, before = level.adjoints.taken(x.var, x.loc)
        given = zero(adjoint_type(x.var.type)) if adjoint is None else adjoint
        made, share = sub_group_shares(x, level.of, given, self._kernel, self._names)
        return (*before, *made, *level.adjoints.add(x.value, share, x.loc))

    def _back_rounds(self, x: Rounds, level: Level) -> s.Block:
        count, made = level.counts[id(x)], level.rounds[id(x)]
        kind = integer_type(count)
        number = self._names.variable("round", kind)
        first = self._counter(x, level, made.var, number, count)
        body = (*first, *self._stack.pop(made.kept, x.loc), *made.body)
        stop = _alike(count, x)
        return (s.For(number, zero(kind), stop, e.Const(1, kind), body, x.loc, x.unroll),)

    def _counter(
        self,
        x: Rounds,
        level: Level,
        var: e.Variable | None,
        number: e.Variable,
        count: e.Expression,
    ) -> s.Block:
        """The counter in a round of the way back, which begins with the last one."""
        if var is None or x.bounds is None:
            return ()
        start, _, step = map(level.of, x.bounds)
        kind = integer_type(count)
        last = e.Binary("sub", e.Binary("sub", count, e.Const(1, kind)), number)
        number_here = last if kind is var.type else e.Cast(last, var.type)
        value = e.Binary("add", start, e.Binary("mul", number_here, step))
        return (s.Let(var, value, x.loc),)


def _alike(value: e.Expression, x: s.If | Rounds) -> e.Expression:
    """A condition of something, or how often it goes round, as it was proven to be in the kernel.

    What is the same for a workgroup that does something together there is so on the way back, too,
    where it comes from what rounds keep.
    """
    if isinstance(value, e.Const) or all(
        y.together() != "workgroup" for y in walks.all_statements((x,))
    ):
        return value
    return e.AssumeUniform(value)


def _may_meet(x: s.Statement, cleared: Sequence[s.Store]) -> bool:
    """Whether elements have to be cleared before a statement: others wait, or it may touch one."""
    if x.together() != "work_item":
        return True
    touched = x.touched()
    return any(y.array in touched and not _are_apart(x, y) for y in cleared)


def _are_apart(x: s.Statement, y: s.Store) -> bool:
    """Whether constants in indices tell elements apart."""
    if not isinstance(x, s.Load | s.Store) or isinstance(y.value.type, Vector):
        return False
    if isinstance((x.var if isinstance(x, s.Load) else x.value).type, Vector):
        return False
    pairs = zip(x.index, y.index, strict=True)
    return any(isinstance(a, e.Const) and isinstance(b, e.Const) and a != b for a, b in pairs)


def _bound(block: s.Block) -> set[str]:
    """The names that a level binds: not those of loops in it."""
    names: set[str] = set()
    for x in block:
        if isinstance(x, Rounds):
            continue
        names |= {v.name for v in x.binds()}
        for part in x.blocks():
            names |= _bound(part)
    return names


def _joined(forwards: s.Block, backwards: s.Block) -> s.Block:
    """One block after the other; a condition at the turn is asked once."""
    if forwards and backwards:
        last, first = forwards[-1], backwards[0]
        if isinstance(last, s.If) and isinstance(first, s.If) and last.condition == first.condition:
            then, orelse = _joined(last.then, first.then), _joined(last.orelse, first.orelse)
            turn = s.If(last.condition, then, orelse, last.loc)
            return (*forwards[:-1], turn, *backwards[1:])
    return (*forwards, *backwards)


def _counted(counter: e.Variable | None, loc: Location) -> s.Block:
    if counter is None:
        return ()
    return (s.Assign(counter, e.Binary("add", counter, e.Const(1, int32)), loc),)
