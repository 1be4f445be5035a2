"""The text of random kernels whose work-items meet: local memory, barriers, atomics.

Their statements are those of `random_text`, and between them some that the workgroup does together:
under conditions and in loops that are the same for all of it. What is added up by many is of
integers, so that no order shows.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.support.random_text import KINDS, ROWS, STORED, Writer

ITEMS: Final = 8
"""Work-items per workgroup."""
TOTALS: Final = ("add", "sub", "min", "max", "and", "or", "xor")
"""The atomic operations that kernels do to an element, each to one of its own."""

_COUNTED: Final = KINDS[:4]
_LANES: Final = (2, 4, 8)


class _Workgroups(Writer):
    """Alternates between what each work-item does by itself and what the workgroup does."""

    def __init__(self, random: Random, nesting: int) -> None:
        super().__init__(random, [f"total_{kind}" for kind in _COUNTED])
        self.nesting = nesting

    def start(self, body: str) -> list[str]:
        lines = ["lid = kl.local_id(0)"]
        lines.append(f"n = kl.workgroup_uniform(x_u32[{self.random.randrange(ROWS)}] % 3)")
        used = [kind for kind in (*KINDS, *STORED) if f"all_{kind}" in body]
        lines += [f"all_{kind} = kl.local({ITEMS}, kl.{kind})" for kind in used]
        if "seen" in body:
            lines.append("seen = kl.local(2, kl.i32)")
        return lines + super().start(body)[2:]

    def body(self) -> None:
        for _ in range(self.random.randint(3, 6)):
            self.together(self.nesting)

    def together(self, depth: int) -> None:
        """A statement that the whole workgroup comes to."""
        simple = [self.alone, self.exchange, self.exchange, self.reverse, self.count, self.total]
        simple += [self.vectors, self.neighbours, self.neighbours, self.slot, self.ordered]
        simple += [self.collective, self.collective, self.shared_out, self.in_whole_vectors]
        nested = [self.same_branch, self.same_count, self.same_while, self.same_unrolled]
        if depth > 0 and self.random.randint(0, 2) == 0:
            self.random.choice(nested)(depth - 1)
        else:
            self.random.choice(simple)()

    def inner(self, depth: int) -> None:
        self.depth += 1
        fixed, tests = {kind: list(names) for kind, names in self.fixed.items()}, list(self.tests)
        for _ in range(self.random.randint(1, 3)):
            self.together(depth)
        self.fixed, self.tests = fixed, tests
        self.depth -= 1

    # -- without others ----------------------------------------------------------------------

    def alone(self) -> None:
        self.statement(2, loop=False)

    # -- with others -------------------------------------------------------------------------

    def exchange(self) -> None:
        """Every work-item leaves a number and takes another's."""
        held, kind = self.random.choice([*((k, k) for k in KINDS), *STORED.items()])
        step = self.random.randrange(1, ITEMS)
        other = self.random.choice([f"(lid + {step}) % {ITEMS}", f"lid ^ {step}", str(step)])
        self.line(f"all_{held}[lid] = {self.expression(kind, 2)}")
        self.line("kl.barrier()")
        self.line(f"{self.random.choice('vw')}_{kind} = all_{held}[{other}]")
        self.line("kl.barrier()")

    def reverse(self) -> None:
        """Some work-items write for all, under a condition that divides the workgroup."""
        held, kind = self.random.choice([*((k, k) for k in KINDS), *STORED.items()])
        self.line(f"if lid < {ITEMS // 2}:")
        self.line(f"    all_{held}[lid] = {self.expression(kind, 1)}")
        self.line(f"    all_{held}[{ITEMS - 1} - lid] = {self.expression(kind, 1)}")
        self.line("kl.barrier()")
        name = self.fresh()
        self.line(f"for {name} in range({ITEMS}):")
        self.line(f"    if {self.condition(1)}:")
        self.line(f"        {self.random.choice(('break', 'continue'))}")
        self.line(f"    v_{kind} = v_{kind} + all_{held}[{name}]")
        self.line("kl.barrier()")

    def vectors(self) -> None:
        """A vector of what all left behind, and its lanes."""
        held, kind = self.random.choice([*((k, k) for k in KINDS), *STORED.items()])
        lanes = self.random.choice(_LANES)
        first = f"{lanes} * (kl.u32(v_i32) % {ITEMS // lanes})"
        lane, other = self.random.randrange(lanes), self.random.randrange(lanes)
        name = self.fresh()
        self.line(f"all_{held}[lid] = {self.expression(kind, 1)}")
        self.line("kl.barrier()")
        self.line(f"{name} = kl.vload(all_{held}, {first}, lanes={lanes})")
        op = self.random.choice("+-*" if kind[0] == "f" else "+-*&|^")
        self.line(f"{name} = {name} {op} {self.expression(kind, 1)}")
        self.line("kl.barrier()")
        self.line("if lid == 0:")
        self.line(f"    kl.vstore(all_{held}, {self.random.randrange(ITEMS // lanes)}, {name})")
        self.line("kl.barrier()")
        self.line(f"v_{kind} = {name}[{lane}]")
        self.line(f"w_{kind} = all_{held}[{other}]")
        self.line("kl.barrier()")

    def neighbours(self) -> None:
        """What the sub-group knows together."""
        kind = self.random.choice(_COUNTED)
        x = self.expression(kind, 2)
        reduced = ("add", "min", "max", "and", "or", "xor")
        moved = ("shuffle", "shuffle_xor", "broadcast", "shuffle_up", "shuffle_down")
        index = self.random.choice(("0", "1", "2", "(kl.sub_group_size() - 1)"))
        pick = self.random.randint(0, 4)
        if pick == 0:
            value = f"kl.sub_group_reduce_{self.random.choice(reduced)}({x})"
        elif pick == 1:
            word = self.random.choice(moved)
            index = "0" if word in ("broadcast", "shuffle") else index
            value = f"kl.sub_group_{word}({x}, {index})"
        elif pick == 2:
            value = f"kl.sub_group_scan_add({x})"
        elif pick == 3:
            word = self.random.choice(("any", "all"))
            value = f"kl.where(kl.sub_group_{word}({self.condition(1)}), {x}, {self.literal(kind)})"
        else:
            words = ("sub_group_id", "sub_group_local_id", "sub_group_size", "num_sub_groups")
            value = f"kl.{kind}(kl.{self.random.choice(words)}())"
        self.line(f"{self.random.choice('vw')}_{kind} = {value}")

    def collective(self) -> None:
        """What the workgroup knows together."""
        kind = self.random.choice(_COUNTED)
        x = self.expression(kind, 2)
        operators = ("add", "maximum", "minimum", "bitwise_xor", "bitwise_and", "bitwise_or")
        op = f"kl.{self.random.choice(operators)}"
        options = self.random.choice(("", f", inclusive=False, initial={self.literal(kind)}"))
        pick = self.random.randint(0, 4)
        if pick == 0:
            value = f"kl.workgroup_reduce({op}, {x})"
        elif pick == 1:
            value = f"kl.workgroup_scan({op}, {x}{options})"
        elif pick == 2:
            index = self.random.choice((str(self.random.randrange(ITEMS)), "n"))
            value = f"kl.workgroup_broadcast({x}, {index})"
        elif pick == 3:
            word = self.random.choice(("any", "all"))
            value = f"kl.where(kl.workgroup_{word}({self.condition(1)}), {x}, {self.literal(kind)})"
        else:
            name = self.fresh()
            self.line(f"{name} = kl.workgroup_scan({op}, {x}{options}, total=True)")
            value = f"{name}[0] ^ {name}[1]"
        self.line(f"{self.random.choice('vw')}_{kind} = {value}")

    def shared_out(self) -> None:
        """Rounds of a loop, each by one of the workgroup."""
        held, kind = self.random.choice([*((k, k) for k in KINDS), *STORED.items()])
        name, value = self.fresh(), self.expression(kind, 1)
        self.line(f"for {name} in kl.workgroup_range({ITEMS}):")
        self.line(f"    all_{held}[{ITEMS - 1} - {name}] = {value}")
        self.line("kl.barrier()")
        self.line(f"v_{kind} = all_{held}[{self.random.randrange(ITEMS)}]")
        self.line("kl.barrier()")

    def in_whole_vectors(self) -> None:
        """Some neighbours in vectors and the rest alone, by one of the workgroup."""
        held, kind = self.random.choice([*((k, k) for k in KINDS), *STORED.items()])
        name, lanes, value = self.fresh(), self.fresh(), self.expression(kind, 1)
        op = self.random.choice("+-*" if kind[0] == "f" else "+-*&|^")
        bounds = f"{self.random.randrange(3)}, {ITEMS} - n, lanes={self.random.choice(_LANES)}"
        self.line(f"all_{held}[lid] = {self.expression(kind, 1)}")
        self.line("kl.barrier()")
        self.line(f"if lid == {self.random.randrange(ITEMS)}:")
        self.line(f"    for {name}, {lanes} in kl.vector_range({bounds}):")
        taken = f"kl.vload(all_{held}, {name}, lanes={lanes})"
        self.line(f"        kl.vstore(all_{held}, {name}, {taken} {op} {value})")
        self.line("kl.barrier()")
        self.line(f"v_{kind} = all_{held}[{self.random.randrange(ITEMS)}]")
        self.line("kl.barrier()")

    def slot(self) -> None:
        """Atomics on what no other work-item touches, whose old values are known."""
        kind = self.random.choice(_COUNTED)
        x, y = self.expression(kind, 1), self.expression(kind, 1)
        self.line(f"kl.atomic_store(all_{kind}, lid, {x})")
        old = self.random.choice(
            [
                f"kl.atomic_exchange(all_{kind}, lid, {y})",
                f"kl.atomic_compare_exchange(all_{kind}, lid, {self.expression(kind, 1)}, {y})",
                *(f"kl.atomic_{word}(all_{kind}, lid, {y})" for word in TOTALS),
            ]
        )
        self.line(f"v_{kind} = {old}")
        self.line(f"w_{kind} = kl.atomic_load(all_{kind}, lid)")
        self.line("kl.barrier()")

    def ordered(self) -> None:
        """What changes no value."""
        order = self.random.choice(("acquire", "release", "acq_rel"))
        self.line(f"kl.fence('{order}', scope='workgroup')")
        self.line("v_i32 = v_i32 + kl.i32(kl.assume_uniform(n))")

    def count(self) -> None:
        """How many of the workgroup a condition holds for."""
        word = self.random.choice(("add", "max", "min", "xor", "or"))
        self.line("if lid < 2:")
        self.line(f"    seen[lid] = {self.literal('i32')}")
        self.line("kl.barrier()")
        self.line(f"if {self.condition(2)}:")
        scope = self.random.choice(("device", "workgroup"))
        value = self.expression("i32", 1)
        self.line(f"    kl.atomic_{word}(seen, lid % 2, {value}, scope='{scope}')")
        self.line("kl.barrier()")
        self.line(f"v_i32 = seen[{self.random.randrange(2)}]")
        self.line("kl.barrier()")

    def total(self) -> None:
        """Into a sum over the ndrange, which nobody reads."""
        kind, place = self.random.choice(_COUNTED), self.random.randrange(len(TOTALS))
        value = self.expression(kind, 2)
        self.line(f"kl.atomic_{TOTALS[place]}(total_{kind}, {place}, {value})")

    # -- under one condition for all ---------------------------------------------------------

    def same(self) -> str:
        """A condition that is the same for the workgroup."""
        return self.random.choice([
            f"n {self.random.choice(('<', '==', '>='))} {self.random.randint(0, 2)}",
            f"kl.group_id(0) % 2 == {self.random.randint(0, 1)}",
            f"kl.workgroup_uniform({self.expression('i32', 1)}) > {self.literal('i32')}",
            f"x_i32.shape[0] > {self.random.randint(2, 5)}",
        ])  # fmt: skip

    def same_branch(self, depth: int) -> None:
        self.line(f"if {self.same()}:")
        self.inner(depth)
        if self.random.randint(0, 1):
            self.line("else:")
            self.inner(depth)

    def same_count(self, depth: int) -> None:
        bound = self.random.choice(("n", "n + 1", "3", "kl.group_id(0) + 1"))
        self.line(f"for {self.fresh()} in range({bound}):")
        self.inner(depth)
        if self.random.randint(0, 1):
            self.line(f"    if {self.same()}:")
            self.line(f"        {self.random.choice(('break', 'continue'))}")
            self.inner(depth)

    def same_while(self, depth: int) -> None:
        name = self.fresh()
        self.line(f"{name} = 0")
        self.line(f"while {name} < {self.random.randint(1, 3)} and {self.same()}:")
        self.line(f"    {name} += 1")
        self.inner(depth)

    def same_unrolled(self, depth: int) -> None:
        self.line(f"for {self.fresh()} in kl.static_range({self.random.randint(1, 2)}):")
        self.inner(depth)


def random_workgroups(random: Random, nesting: int) -> str:
    """The text of a module with one kernel, named ``kernel``.

    Compilers that make loops of a workgroup are slow to compile barriers in loops in conditions:
    `nesting` is how many of them may stand around one.
    """
    return _Workgroups(random, nesting).kernel()
