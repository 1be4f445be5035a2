"""Barriers must be reached by a whole workgroup, and sub-group operations by a whole sub-group.

The rule is WGSL's (W3C, section "Uniformity"): control flow is uniform while every condition
around it, and every early exit before it, depends on uniform values only. A value is uniform
where it comes from constants, arguments, sizes and group indices, or from `workgroup_uniform`
or `assume_uniform`; what is read from memory never is. There are three grades: the same
throughout the workgroup, the same throughout a sub-group, and varying.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple, NoReturn

from portable.errors import KernelError, Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.walks import all_statements, children, operands


class _Grade(IntEnum):
    WORKGROUP = 0
    SUB_GROUP = 1
    VARYING = 2


_UNIFORM: Final = _Grade.WORKGROUP
_WORDS: Final = {
    "global_id": _Grade.VARYING,
    "local_id": _Grade.VARYING,
    "sub_group_local_id": _Grade.VARYING,
    "sub_group_id": _Grade.SUB_GROUP,
}
_SAME_IN_SUB_GROUP: Final = (
    "broadcast",
    "reduce_add",
    "reduce_min",
    "reduce_max",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
    "any",
    "all",
)
_SCOPES: Final = {
    "workgroup": _Grade.WORKGROUP,
    "sub_group": _Grade.SUB_GROUP,
    "work_item": _Grade.VARYING,
}


_CALLED: Final[dict[type, str]] = {
    s.Barrier: "kl.barrier",
    s.BulkWait: "kl.bulk_wait",
    s.CopyTile: "kl.copy_async or kl.copy",
    s.ForElements: "kl.elements",
    Pipeline: "kl.pipeline",
    s.WorkgroupUniform: "kl.workgroup_uniform",
    s.WorkgroupReduce: "kl.workgroup_reduce",
} | dict.fromkeys(
    (s.FragmentFill, s.FragmentLoad, s.FragmentStore, s.Multiply), "a matrix operation"
)


def _called(statement: s.Statement) -> str:
    """What a user calls a statement."""
    if isinstance(statement, s.SubGroup):
        return f"kl.sub_group_{statement.op}"
    return _CALLED.get(type(statement), type(statement).__name__)


def check(kernel: Kernel) -> None:
    """Refuses barriers and other collective operations that some work-items might not reach.

    Raises
    ------
    KernelError
        With the place of the operation and of the condition that varies.
    """
    single = kernel.workgroup == (1, 1, 1)
    if not single and any(x.together() != "work_item" for x in all_statements(kernel.body)):
        _Analysis(kernel).run()


@dataclass
class _Flow:
    """How uniform the present control flow is, and why not more so."""

    grade: _Grade
    why: Location


_grade_of: Final = attrgetter("grade")


class _Origin(NamedTuple):
    """What a value is worked out from: the worst of what is no variable, and the variables."""

    least: _Grade
    variables: tuple[str, ...]


def _origin(x: e.Expression) -> _Origin:
    least, variables, waiting = _UNIFORM, set[str](), [x]
    while waiting:
        match waiting.pop():
            case e.Variable(name=name):
                variables.add(name)
            case e.WorkItem(word=word):
                least = max(least, _WORDS.get(word, _UNIFORM))
            case e.Const() | e.Extent() | e.AssumeUniform():
                pass
            case made:
                inner = children(made)
                if not inner:
                    raise TypeError(f"whether {type(made).__name__} is uniform is not known here")
                waiting += inner
    return _Origin(least, tuple(variables))


@dataclass
class _Analysis:
    """The grades of a kernel's variables, which rise from round to round.

    A round after which no variable is worse than it was taken for is the last one.

    Attributes
    ----------
    kernel : Kernel
    grades : dict
        Of variables that vary, by their names.
    asked : set of str
        Names of the variables of which a grade was asked for.
    changed : bool
        Whether one of those has become worse in this round.
    met : dict
        Collective operations in the order of the text, with the flow that gets there at last.
    """

    kernel: Kernel
    grades: dict[str, _Grade] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    changed: bool = False
    met: dict[int, tuple[s.Statement, _Flow]] = field(default_factory=dict)
    _origins: dict[int, _Origin] = field(default_factory=dict)

    def run(self) -> None:
        """Grades variables to a fixed point, then looks at every collective operation."""
        self.changed = True
        while self.changed:
            self.changed = False
            self._block(self.kernel.body, _Flow(_UNIFORM, self.kernel.loc))
        for statement, flow in self.met.values():
            self._meet(statement, flow)

    # -- values ----------------------------------------------------------------------------

    def _grade(self, x: e.Expression) -> _Grade:
        """That of a value that is worked out from others is the worst of theirs."""
        origin = self._origins.get(id(x))  # the kernel holds on to it
        if origin is None:
            origin = self._origins[id(x)] = _origin(x)
            self.asked.update(origin.variables)
        return max((origin.least, *[self.grades.get(name, _UNIFORM) for name in origin.variables]))

    def _worst(self, values: Iterable[e.Expression | None]) -> _Grade:
        return max((self._grade(x) for x in values if x is not None), default=_UNIFORM)

    def _set(self, var: e.Variable, grade: _Grade) -> None:
        if grade > self.grades.get(var.name, _UNIFORM):
            self.grades[var.name] = grade
            self.changed |= var.name in self.asked

    # -- control flow ----------------------------------------------------------------------

    def _block(self, block: s.Block, flow: _Flow) -> tuple[_Flow, _Flow]:
        """The flow of what follows: by leaving the loop, and by returning, some may be gone."""
        left = _Flow(_UNIFORM, flow.why)
        gone = _Flow(_UNIFORM, flow.why)
        here = flow
        for statement in block:
            more_left, more_gone = self._statement(statement, here)
            if more_left.grade > left.grade or more_gone.grade > gone.grade:
                left = max(left, more_left, key=_grade_of)
                gone = max(gone, more_gone, key=_grade_of)
                here = max(flow, left, gone, key=_grade_of)
        return left, gone

    def _statement(self, statement: s.Statement, flow: _Flow) -> tuple[_Flow, _Flow]:
        stay = _Flow(_UNIFORM, flow.why)
        match statement:
            case s.Let() | s.Assign():
                self._set(statement.var, max(self._grade(statement.value), flow.grade))
                return stay, stay
            case s.If():
                return self._if(statement, flow)
            case s.For() | s.Loop() | Pipeline():
                return stay, self._loop(statement, flow)
            case s.ForElements():
                self._simple(statement, flow)
                self._block(statement.body, _Flow(_Grade.VARYING, statement.loc))
                return stay, stay
            case s.Break() | s.Continue():
                return flow, stay
            case s.Return():
                return stay, flow
            case _ if statement.blocks():
                raise TypeError(f"what flows through {type(statement).__name__} is not known here")
            case _:
                self._simple(statement, flow)
                return stay, stay

    def _if(self, statement: s.If, flow: _Flow) -> tuple[_Flow, _Flow]:
        grade = self._grade(statement.condition)
        inner = _Flow(grade, statement.loc) if grade > flow.grade else flow
        left1, gone1 = self._block(statement.then, inner)
        left2, gone2 = self._block(statement.orelse, inner)
        return max(left1, left2, key=_grade_of), max(gone1, gone2, key=_grade_of)

    def _loop(self, statement: s.For | s.Loop | Pipeline, flow: _Flow) -> _Flow:
        grade = _UNIFORM
        if isinstance(statement, s.For | Pipeline):
            grade = self._worst((statement.start, statement.stop, statement.step))
            self._set(statement.var, max(grade, flow.grade))
        inner = _Flow(grade, statement.loc) if grade > flow.grade else flow
        if isinstance(statement, Pipeline):
            self.met[id(statement)] = statement, inner
        left, gone = self._block(statement.body, inner)
        again = max(inner, left, gone, key=_grade_of)
        if isinstance(statement, s.For | Pipeline):
            self._set(statement.var, again.grade)
        if again is not inner:  # breaks leave some work-items out of later rounds
            self._block(statement.body, again)
        return gone

    # -- simple statements -----------------------------------------------------------------

    def _simple(self, statement: s.Statement, flow: _Flow) -> None:
        if statement.together() != "work_item":
            self.met[id(statement)] = statement, flow
        grade = _given(statement)
        for var in (*statement.binds(), *statement.sets()):
            self._set(var, grade)

    def _meet(self, statement: s.Statement, flow: _Flow) -> None:
        """Refuses what not all may reach who have to, and operands that differ but must not."""
        needed, what = _SCOPES[statement.together()], _called(statement)
        self._collective(statement, flow, needed, what)
        if statement.alike and self._worst(operands(statement)) > needed:
            self._fail(statement.loc, f"{what} is given indices that differ among its work-items")

    def _collective(self, statement: s.Statement, flow: _Flow, needed: _Grade, what: str) -> None:
        if flow.grade > needed:
            group = "workgroup" if needed is _Grade.WORKGROUP else "sub-group"
            self._fail(
                statement.loc,
                f"{what} may not be reached by the whole {group}: the condition at line "
                f"{flow.why.line} is not provably uniform",
            )

    def _fail(self, loc: Location, reason: str) -> NoReturn:
        raise KernelError(
            reason,
            loc,
            "move it out of the branch or loop, make the condition uniform by "
            "kl.workgroup_uniform(x), or vouch for it by kl.assume_uniform(x)",
            linecache.getline(loc.file, loc.line),
        )


def _given(statement: s.Statement) -> _Grade:
    """How uniform the values are that a statement, no assignment, gives to variables."""
    match statement:
        case s.WorkgroupUniform() | s.WorkgroupReduce():
            return _UNIFORM
        case s.SubGroup(op=op) if op in _SAME_IN_SUB_GROUP:
            return _Grade.SUB_GROUP
        case _:
            return _Grade.VARYING
