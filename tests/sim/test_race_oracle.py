"""Random programs: the race detector against every pair of accesses and dense vector clocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import dtypes as dt
from portable import sim
from portable.sim.errors import RaceError
from sim.build import K, compare, const, global_array

PLACES = 3
TABLE, DATA = global_array("table", dt.int32, 2), global_array("data", dt.int32)
TICKET, ORDER = global_array("ticket", dt.int32), global_array("order", dt.int32)


@dataclass
class Line:
    """A statement of a random program: every work-item accesses a place of its own, or none."""

    op: str
    order: Any
    scope: Any
    places: list[int]


@dataclass
class Program:
    groups: int
    items: int
    lines: list[Line]
    seed: int


ORDERS = st.sampled_from(["relaxed", "acquire", "release", "acq_rel", "acq_rel", "acq_rel"])
SCOPES = st.sampled_from(["device", "device", "device", "device", "workgroup"])


def plain_lines(threads: int) -> Any:
    """Plain accesses by one or two threads."""
    who = st.dictionaries(
        st.integers(0, threads - 1), st.integers(0, PLACES - 2), min_size=1, max_size=2
    )
    places = who.map(lambda chosen: [chosen.get(t, -1) for t in range(threads)])
    return st.builds(Line, st.sampled_from(["read", "write"]), ORDERS, SCOPES, places)


def atomic_lines(threads: int) -> Any:
    """Atomics, mostly by all threads on the last place."""
    everyone = st.just([PLACES - 1] * threads)
    mixed = st.lists(st.integers(-1, PLACES - 1), min_size=threads, max_size=threads)
    ops = st.sampled_from(["load", "store", "add", "add", "add", "fence", "fence"])
    return st.builds(Line, ops, ORDERS, SCOPES, st.one_of(everyone, everyone, everyone, mixed))


def any_lines(threads: int) -> Any:
    """Anything, barriers included."""
    mixed = st.lists(st.integers(-1, PLACES - 1), min_size=threads, max_size=threads)
    ops = st.sampled_from(["read", "write", "load", "store", "add", "barrier", "barrier"])
    return st.builds(Line, ops, ORDERS, SCOPES, mixed)


@st.composite
def programs(draw: Any) -> Program:
    groups, items = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n = groups * items
    body: list[Line] = []
    for _ in range(draw(st.integers(1, 3))):
        body.append(draw(plain_lines(n)))
        body.extend(draw(st.lists(atomic_lines(n), max_size=2)))
    body.extend(draw(st.lists(any_lines(n), max_size=2)))
    return Program(groups, items, body, draw(st.integers(0, 3)))


@st.composite
def handovers(draw: Any) -> Program:
    """One thread's access, something that may order, and another's access of the same place."""
    groups, items = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n = groups * items
    thread = st.integers(0, n - 1)

    def access(op: str) -> Line:
        who = draw(thread)
        return Line(op, "relaxed", "device", [0 if t == who else -1 for t in range(n)])

    barrier = Line("barrier", "relaxed", "device", [-1] * n)
    between = st.lists(st.one_of(atomic_lines(n), atomic_lines(n), st.just(barrier)), max_size=4)
    first, second = draw(st.sampled_from([("write", "read"), ("read", "write")]))
    body = [access(first), *draw(between), access(second)]
    return Program(groups, items, body, draw(st.integers(0, 3)))


# -- the simulator --------------------------------------------------------------------------------


def simulated(program: Program) -> int | None:
    """The number of the statement that is reported, if any."""
    k = K(TABLE, DATA, workgroup=program.items)
    at: dict[int, int] = {}
    for number, line in enumerate(program.lines):
        if line.op == "barrier":
            k.barrier()
            continue
        place = k.load(TABLE, number, k.gid)
        with k.when(compare("ge", place, 0)):
            _statement(k, line, place)
            at[k.line] = number
    table = np.array([line.places for line in program.lines], np.int32)
    with sim.checks(seed=program.seed, resident=1):
        try:
            sim.run(k.build(), (program.groups, 1, 1), [table, np.zeros(PLACES, np.int32)])
        except RaceError as fault:
            return at[fault.location.line]
    return None


def _statement(k: K, line: Line, place: Any) -> None:
    match line.op:
        case "read":
            k.load(DATA, place)
        case "write":
            k.store(DATA, place, 1)
        case "fence":
            k.fence(line.order, line.scope)
        case _:
            value = None if line.op == "load" else const(1)
            k.atomic(line.op, DATA, place, value, order=line.order, scope=line.scope)


def order_of_groups(program: Program) -> list[int]:
    k = K(TICKET, ORDER, workgroup=1)
    k.store(ORDER, k.atomic("add", TICKET, 0, 1), k.group)
    found = np.zeros(program.groups, np.int32)
    with sim.checks(seed=program.seed, resident=1):
        sim.run(k.build(), (program.groups, 1, 1), [np.zeros(1, np.int32), found])
    return [int(g) for g in found]


# -- the oracle -----------------------------------------------------------------------------------

Clock = dict[int, int]


def join(into: Clock, other: Clock) -> None:
    for thread, time in other.items():
        into[thread] = max(into.get(thread, 0), time)


@dataclass
class Oracle:
    """Each thread's clock, every access ever made, and what was released where."""

    program: Program
    clocks: dict[int, Clock] = field(default_factory=dict)
    history: list[tuple[int, int, Line, int]] = field(default_factory=list)
    released: dict[int, list[tuple[Clock, bool, int]]] = field(default_factory=dict)
    fenced: dict[tuple[int, bool], Clock] = field(default_factory=dict)
    learnt: dict[int, list[tuple[Clock, bool, int]]] = field(default_factory=dict)

    def first_race(self) -> int | None:
        for group in order_of_groups(self.program):
            for number, line in enumerate(self.program.lines):
                if self._run(group, line):
                    return number
        return None

    def _run(self, group: int, line: Line) -> bool:
        n = self.program.items
        threads = [group * n + i for i in range(n)]
        if line.op == "barrier":
            everything: Clock = {}
            for t in threads:
                join(everything, self._clock(t))
            for t in threads:
                join(self._clock(t), everything)
            return False
        here = [t for t in threads if line.places[t] >= 0]
        if line.op == "fence":
            for t in here:
                self._fence(t, line)
            return False
        raced = [self._access(t, line, line.places[t]) for t in here]
        if line.op in {"load", "store", "add"}:
            for t in here:
                self._synchronise(t, line, line.places[t])
        return any(raced)

    def _clock(self, thread: int) -> Clock:
        return self.clocks.setdefault(thread, {thread: 1})

    def _access(self, thread: int, line: Line, place: int) -> bool:
        clock = self._clock(thread)
        clock[thread] += 1
        raced = any(
            who != thread and time > clock.get(who, 0) and where == place
            and _conflict(line, other, near=self._group(who) == self._group(thread))
            for who, time, other, where in self.history
        )  # fmt: skip
        self.history.append((thread, clock[thread], line, place))
        return raced

    def _group(self, thread: int) -> int:
        return thread // self.program.items

    def _visible(self, thread: int, entry: tuple[Clock, bool, int], wide: bool) -> bool:
        _, released_wide, group = entry
        return group == self._group(thread) or (wide and released_wide)

    def _synchronise(self, thread: int, line: Line, place: int) -> None:
        wide, clock = line.scope == "device", self._clock(thread)
        if line.op != "store":
            for entry in self.released.get(place, []):
                if not self._visible(thread, entry, wide):
                    continue
                if line.order in {"acquire", "acq_rel"}:
                    join(clock, entry[0])
                else:
                    seen = (dict(entry[0]), entry[1] and wide, entry[2])
                    self.learnt.setdefault(thread, []).append(seen)
        if line.op == "load":
            return
        entries = [] if line.op == "store" else self.released.get(place, [])
        self.released[place] = list(entries)
        if line.order in {"release", "acq_rel"}:
            self.released[place].append((dict(clock), wide, self._group(thread)))
            return
        for fence_wide in (True, False):
            fenced = self.fenced.get((thread, fence_wide))
            if fenced is not None:
                entry = (dict(fenced), fence_wide and wide, self._group(thread))
                self.released[place].append(entry)

    def _fence(self, thread: int, line: Line) -> None:
        wide, clock = line.scope == "device", self._clock(thread)
        if line.order in {"acquire", "acq_rel"}:
            for entry in self.learnt.get(thread, []):
                if self._visible(thread, entry, wide):
                    join(clock, entry[0])
        if line.order in {"release", "acq_rel"}:
            self.fenced[thread, wide] = dict(clock)


def _conflict(x: Line, y: Line, *, near: bool) -> bool:
    pair = {x.op, y.op}
    if "write" in pair:
        return True
    if "read" in pair:
        return bool(pair & {"store", "add"})
    return not near and pair != {"load"} and "workgroup" in (x.scope, y.scope)


@given(st.one_of(programs(), handovers()))
@settings(max_examples=300, deadline=None)
def test_same_first_race_as_the_oracle(program: Program) -> None:
    assert simulated(program) == Oracle(program).first_race()


def test_the_oracle_knows_both_answers() -> None:
    for op, race in (("write", 0), ("add", None)):
        program = Program(1, 2, [Line(op, "relaxed", "device", [0, 0])], 0)
        assert Oracle(program).first_race() == simulated(program) == race
