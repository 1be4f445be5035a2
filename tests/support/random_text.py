"""The text of random kernels over integers and floats, for `random_kernels` to run.

Every variable has one type, written into its name; divisions are of integers only, so that results
are exact and every device has to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

KINDS = ("i32", "u32", "i64", "u64", "f32", "f64")
STORED = {"i8": "i32", "u8": "u32", "i16": "i32", "u16": "u32", "f16": "f32"}
"""Types that are only stored, and what they are loaded as."""
ROWS = 4
"""Elements per work-item of each output, and elements of each input."""

_INTEGER_OPS = ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
_FLOAT_OPS = ("+", "-", "*")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_AS_WORD = {
    "+": "add", "-": "subtract", "*": "multiply", "//": "floor_divide", "%": "remainder",
    "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal", "==": "equal", "!=": "not_equal",
}  # fmt: skip
"""The operators that are words too."""
_HEADER = """from typing import NamedTuple

import portable as pt
from portable import lang as kl


class Pair(NamedTuple):
    first: object
    second: object


"""
_EXACT = {
    "i": ("sign({})", "square({})", "popcount({})", "clz({})", "mulhi({}, {})"),
    "u": ("sign({})", "square({})", "popcount({})", "clz({})", "mulhi({}, {})"),
    "f": (
        "floor({})", "ceil({})", "trunc({})", "rint({})", "round({})", "square({})",
        "fma({}, {}, {})", "copysign({}, 2.5)", "copysign({}, -1.0)", "nextafter({}, {})",
        "fmod({}, {})",
    ),
}  # fmt: skip
"""Functions without an error, by the kind of number that they take and give."""
_LITERALS = (0, 1, 2, 3, 5, 7, 31, 100, 255, 65536, 2147483647)


class Writer:
    """A text that grows line by line, and the names that its next line may use."""

    def __init__(self, random: Random, more: Sequence[str] = ()) -> None:
        self.random = random
        self.arrays = [f"{a}_{kind}" for a in ("x", "out") for kind in (*KINDS, *STORED)]
        self.arrays += more
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, list[str]] = {kind: [f"v_{kind}", f"w_{kind}"] for kind in KINDS}
        self.fixed: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.tests: list[str] = []
        self.helpers: list[tuple[str, str, str]] = []
        self.pairs: list[tuple[str, str, str]] = []
        self.counter = 0
        self.inside_kernel = True
        self.leaves = False

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self) -> str:
        self.counter += 1
        return f"t{self.counter}"

    def kind(self) -> str:
        return self.random.choice(KINDS)

    # -- expressions -----------------------------------------------------------------------

    def expression(self, kind: str, depth: int) -> str:
        """An expression of exactly this type."""
        if depth <= 0:
            return self.leaf(kind)
        makers = [self.leaf, self.operation, self.operation, self.unary, self.converted]
        makers += [self.least, self.chosen, self.selected, self.called, self.exact]
        makers += [self.limited, self.same_bits, self.place, self.totalled, self.narrowed]
        maker = self.random.choice(makers)
        return maker(kind) if maker == self.leaf else maker(kind, depth - 1)

    def leaf(self, kind: str) -> str:
        options = self.names[kind] + self.fixed[kind]
        pick = self.random.randint(0, 3)
        if pick == 0 and self.inside_kernel:
            return self.element(kind)
        if pick == 1:
            return f"kl.{kind}({self.literal(kind)})"
        return self.random.choice(options)

    def element(self, kind: str) -> str:
        """An element of an input or of the work-item's own array."""
        held = [f"x_{kind}", f"own_{kind}"]
        held += [f"x_{small}" for small, loaded in STORED.items() if loaded == kind]
        return f"{self.random.choice(held)}[{self.index()}]"

    def index(self) -> str:
        if self.random.randint(0, 1):
            return str(self.random.randint(0, ROWS - 1))
        kind = self.random.choice(KINDS[:4])
        return f"kl.u32({self.random.choice(self.names[kind])}) % {ROWS}"

    def literal(self, kind: str) -> str:
        number = self.random.choice(_LITERALS)
        if kind[0] == "f":
            return self.random.choice((f"{number / 4}", f"-{number / 8}", str(number)))
        return f"-{number}" if kind[0] == "i" and self.random.randint(0, 1) else str(number)

    def operand(self, kind: str, depth: int) -> str:
        """Something that an operation with a number of this type leaves in it."""
        pick = self.random.randint(0, 3)
        if pick == 0:
            return f"({self.literal(kind)})"
        if pick == 1 and kind in ("i64", "f64", "f32"):
            narrower = {"i64": ("i32", "u32"), "f64": KINDS[:5], "f32": KINDS[:4]}[kind]
            return self.expression(self.random.choice(narrower), depth)
        return self.expression(kind, depth)

    def operation(self, kind: str, depth: int) -> str:
        op = self.random.choice(_FLOAT_OPS if kind[0] == "f" else _INTEGER_OPS)
        x, y = self.expression(kind, depth), self.operand(kind, depth)
        if op in "+-*" and self.random.randint(0, 1):
            x, y = y, x
        return self.spelled(op, x, y)

    def spelled(self, op: str, x: str, y: str) -> str:
        """An operation by its operator, now and then by its word."""
        if self.random.randint(0, 5) == 0:
            return f"kl.{_AS_WORD[op]}({x}, {y})"
        return f"({x} {op} {y})"

    def unary(self, kind: str, depth: int) -> str:
        forms = ["-{}", "abs({})", "kl.negative({})", "kl.positive({})", "kl.abs({})"]
        if kind[0] != "f":
            forms += ["~{}", "kl.bitwise_invert({})"]
        return f"({self.random.choice(forms).format(self.expression(kind, depth))})"

    def converted(self, kind: str, depth: int) -> str:
        return f"kl.{kind}({self.expression(self.kind(), depth)})"

    def narrowed(self, kind: str, depth: int) -> str:
        """Converted to what is only stored, floats saturating, and back."""
        small = self.random.choice(("i8", "u8", "i16", "u16", "f16", "bool_"))
        x = self.expression(self.kind(), depth)
        inner = f"kl.cast({x}, kl.{small})"
        return f"kl.{kind}({inner})"

    def least(self, kind: str, depth: int) -> str:
        word = self.random.choice(("kl.minimum", "kl.maximum"))
        return f"{word}({self.expression(kind, depth)}, {self.operand(kind, depth)})"

    def limited(self, kind: str, depth: int) -> str:
        x, high = self.expression(kind, depth), self.random.choice(_LITERALS[1:])
        low = self.random.choice((0, 1))
        bounds = (f"{low}, {high}", f"min={low}", f"max={high}", f"None, {high}")
        return f"kl.clip({x}, {self.random.choice(bounds)})"

    def same_bits(self, kind: str, depth: int) -> str:
        """Another type's bits; of floats only what has but one NaN, none."""
        if kind[0] == "f":
            return self.operation(kind, depth)
        other = {"i": "u", "u": "i"}[kind[0]] + kind[1:]
        if self.random.randint(0, 1):
            return f"kl.bitcast({self.expression(other, depth)}, kl.{kind})"
        name = "f" + kind[1:]
        x = self.expression(name, depth)
        return f"kl.bitcast(kl.where(kl.isfinite({x}), {x}, 1.5), kl.{kind})"

    def place(self, kind: str, depth: int) -> str:
        """Where the work-item stands, or what the compiler knows."""
        if kind == "u32":
            return f"kl.cdiv({self.expression(kind, depth)} % 1000, {self.random.choice('137')})"
        words = ("global_id", "global_size", "local_id", "local_size", "group_id", "num_groups")
        word = f"kl.{self.random.choice(words)}(0)"
        return f"kl.{kind}({self.random.choice((word, 'kl.local_linear_id()'))})"

    def totalled(self, kind: str, depth: int) -> str:
        """Converted to the type to sum in, and back."""
        return f"kl.{kind}(kl.accumulator(kl.{kind})({self.expression(kind, depth)}))"

    def selected(self, kind: str, depth: int) -> str:
        test = self.condition(depth)
        return f"kl.where({test}, {self.expression(kind, depth)}, {self.operand(kind, depth)})"

    def chosen(self, kind: str, depth: int) -> str:
        test = self.condition(depth)
        x, y = self.expression(kind, depth), self.expression(kind, depth)
        return f"({x} if {test} else {y})"

    def called(self, kind: str, depth: int) -> str:
        fitting = [h for h in self.helpers if h[2] == kind]
        if not fitting:
            return self.operation(kind, depth)
        name, takes, _ = self.random.choice(fitting)
        return f"{name}({self.expression(takes, depth)}, {self.expression(kind, depth)})"

    def exact(self, kind: str, depth: int) -> str:
        form = self.random.choice(_EXACT[kind[0]])
        arguments = [self.expression(kind, depth) for _ in range(form.count("{}"))]
        return f"kl.{form.format(*arguments)}"

    def condition(self, depth: int) -> str:
        if self.tests and self.random.randint(0, 4) == 0:
            return self.random.choice(self.tests)
        kind = self.kind()
        x, y = self.expression(kind, depth), self.operand(kind, depth)
        plain = f"{x} {self.random.choice(_COMPARISONS)} {y}"
        pick = self.random.randint(0, 9)
        if pick >= 6:
            return self.tested(pick, kind, depth)
        if depth > 0 and pick == 0:
            return f"({plain} and {self.condition(depth - 1)})"
        if depth > 0 and pick == 1:
            return f"({plain} or {self.condition(depth - 1)})"
        if pick == 2:
            return f"(not {plain})"
        if pick == 3:
            return f"({self.expression(kind, 0)} <= {plain})"
        return f"({plain})"

    def tested(self, pick: int, kind: str, depth: int) -> str:
        """A condition by words."""
        compared = self.spelled(
            self.random.choice(_COMPARISONS), self.expression(kind, depth), self.operand(kind, 0)
        )
        if pick == 6:
            words = ("logical_and", "logical_or", "logical_xor")
            return f"kl.{self.random.choice(words)}({compared}, {self.condition(depth - 1)})"
        if pick == 7:
            return f"kl.logical_not({compared})"
        if pick == 8:
            words = ("isnan", "isinf", "isfinite")
            number = self.expression(self.random.choice(("f32", "f64")), depth)
            return f"kl.{self.random.choice(words)}({number})"
        return f"({compared})"

    # -- statements ------------------------------------------------------------------------

    def block(self, depth: int, *, loop: bool = False) -> None:
        self.depth += 1
        shared = {kind: list(names) for kind, names in self.fixed.items()}
        tests = list(self.tests)
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, loop=loop)
        self.fixed, self.tests = shared, tests
        self.depth -= 1

    def statement(self, depth: int, *, loop: bool) -> None:
        simple = [self.assign, self.assign, self.augment, self.name, self.swap]
        if self.inside_kernel:
            simple += [self.store, self.store, self.update, self.own, self.keep, self.shrink]
            simple += [self.both, self.together_kept, self.asserted]
        if self.leaves and self.random.randint(0, 15) == 0:
            self.line(f"if {self.condition(1)}:")
            self.line("    return")
        nested = [self.branch, self.branch, self.counted, self.repeated, self.unrolled]
        if depth > 0 and self.random.randint(0, 2) == 0:
            self.random.choice(nested)(depth - 1, loop=loop)
        elif loop and self.random.randint(0, 5) == 0:
            self.line(f"if {self.condition(1)}:")
            self.line(f"    {self.random.choice(('break', 'continue'))}")
        else:
            self.random.choice(simple)()

    def assign(self) -> None:
        kind = self.kind()
        self.line(f"{self.random.choice(self.names[kind])} = {self.expression(kind, 3)}")

    def augment(self) -> None:
        kind = self.kind()
        op = self.random.choice(_FLOAT_OPS if kind[0] == "f" else _INTEGER_OPS)
        self.line(f"{self.random.choice(self.names[kind])} {op}= {self.operand(kind, 2)}")

    def name(self) -> None:
        kind, name = self.kind(), self.fresh()
        self.line(f"{name} = {self.expression(kind, 3)}")
        self.fixed[kind].append(name)

    def test(self) -> None:
        name = self.fresh()
        self.line(f"{name} = {self.condition(2)}")
        self.tests.append(name)

    def both(self) -> None:
        if not self.pairs:
            return self.test()
        helper, takes, gives = self.random.choice(self.pairs)
        names = f"{self.random.choice(self.names[takes])}, {self.random.choice(self.names[gives])}"
        self.line(f"{names} = {helper}({self.expression(takes, 2)}, {self.expression(gives, 2)})")
        return None

    def together_kept(self) -> None:
        """Two numbers in a struct or a tuple, one of them changed under a condition."""
        takes, gives, name = self.kind(), self.kind(), self.fresh()
        first, second = self.expression(takes, 2), self.expression(gives, 2)
        if self.random.randint(0, 1):
            self.line(f"{name} = Pair(kl.{takes}({first}), kl.{gives}({second}))")
            self.line(f"if {self.condition(1)}:")
            self.line(f"    {name} = Pair({self.expression(takes, 1)}, {name}.second)")
            self.fixed[takes].append(f"{name}.first")
            self.fixed[gives].append(f"{name}.second")
        else:
            self.line(f"{name} = ({first}, {second})")
            self.fixed[takes].append(f"{name}[0]")
            self.fixed[gives].append(f"{name}[1]")

    def asserted(self) -> None:
        """What the compiler knows of the device."""
        self.line("kl.static_assert(kl.target.sub_group_size > 0, 'no sub-groups')")

    def swap(self) -> None:
        kind = self.kind()
        v, w = self.names[kind][:2]
        self.line(f"{v}, {w} = {w}, {self.expression(kind, 2)}")

    def store(self) -> None:
        kind = self.kind()
        self.line(f"out_{kind}[i, {self.index()}] = {self.operand(kind, 3)}")

    def update(self) -> None:
        kind = self.kind()
        op = self.random.choice(_FLOAT_OPS if kind[0] == "f" else _INTEGER_OPS)
        self.line(f"out_{kind}[i, {self.index()}] {op}= {self.operand(kind, 2)}")

    def own(self) -> None:
        kind = self.kind()
        self.line(f"v_{kind} = out_{kind}[i, {self.index()}]")

    def keep(self) -> None:
        kind = self.kind()
        self.line(f"own_{kind}[{self.index()}] = {self.operand(kind, 2)}")

    def shrink(self) -> None:
        small, kind = self.random.choice(sorted(STORED.items()))
        self.line(f"out_{small}[i, {self.index()}] = {self.expression(kind, 2)}")

    def branch(self, depth: int, *, loop: bool) -> None:
        self.line(f"if {self.condition(2)}:")
        self.block(depth, loop=loop)
        if self.random.randint(0, 2) == 0:
            self.line(f"elif {self.condition(1)}:")
            self.block(depth, loop=loop)
        if self.random.randint(0, 1):
            self.line("else:")
            self.block(depth, loop=loop)

    def counted(self, depth: int, *, loop: bool) -> None:
        name = self.fresh()
        start, step = self.random.randint(-3, 3), self.random.choice((1, 2, -1, -3))
        stop = f"kl.i32({self.expression('i32', 1)} % 5)"
        if self.random.randint(0, 2) == 0:
            return self.in_vectors(f"{start}, {stop}", depth)
        if self.random.randint(0, 2):
            self.line(f"for {name} in range({start}, {stop}, {step}):")
        else:
            copies = self.random.choice((-1, 1, 2))
            self.line(f"for {name} in kl.range({start}, {stop}, {step}, unroll={copies}):")
        self.fixed["i32"].append(name)
        self.block(depth, loop=True)
        self.fixed["i32"].remove(name)
        return None

    def in_vectors(self, bounds: str, depth: int) -> None:
        """Some at a time, and what is left one by one."""
        name, lanes = self.fresh(), self.fresh()
        wanted = self.random.choice((1, 2, 3, 4))
        self.line(f"for {name}, {lanes} in kl.vector_range({bounds}, lanes={wanted}):")
        own = [name, f"kl.i32({lanes})"]
        self.fixed["i32"] += own
        self.block(depth)
        self.fixed["i32"] = self.fixed["i32"][: -len(own)]
        if self.random.randint(0, 2) == 0:
            self.line(f"    if {self.condition(1)}:")
            self.line("        continue")
            self.line(f"    v_i32 = v_i32 ^ {lanes}")

    def unrolled(self, depth: int, *, loop: bool) -> None:
        name = self.fresh()
        if self.random.randint(0, 2):
            self.line(f"for {name} in kl.static_range({self.random.randint(1, 3)}):")
            self.block(depth)
            return
        kind = self.kind()
        pair = f"{self.expression(kind, 1)}, {self.expression(kind, 1)}"
        self.line(f"for {name} in ({pair}):")
        self.fixed[kind].append(name)
        self.block(depth)
        self.fixed[kind].remove(name)

    def repeated(self, depth: int, *, loop: bool) -> None:
        name = self.fresh()
        self.line(f"{name} = 0  # i32")
        self.line(f"while {name} < {self.random.randint(1, 4)} and {self.condition(1)}:")
        self.line(f"    {name} += 1")
        self.block(depth, loop=True)

    # -- functions -------------------------------------------------------------------------

    def helper(self) -> None:
        """A function of two numbers, which returns one or two."""
        takes, gives = self.kind(), self.kind()
        two = self.random.randint(0, 2) == 0
        name = f"helper{len(self.helpers) + len(self.pairs)}"
        outer, self.names = self.names, {kind: [f"kl.{kind}(p)"] for kind in KINDS}
        self.names[takes].append("p")
        self.names[gives].append("q")
        self.depth, self.inside_kernel = 0, False
        self.line("@pt.function")
        self.line(f"def {name}(p, q):")
        self.depth = 1
        for _ in range(self.random.randint(0, 2)):
            self.returned_early(takes if two else "", gives)
        self.returned(takes if two else "", gives)
        self.line("")
        self.names, self.inside_kernel = outer, True
        (self.pairs if two else self.helpers).append((name, takes, gives))

    def returned_early(self, first: str, second: str) -> None:
        """Under one or two conditions."""
        depth = self.depth
        for _ in range(self.random.randint(1, 2)):
            self.line(f"if {self.condition(1)}:")
            self.depth += 1
        self.returned(first, second)
        self.depth = depth

    def returned(self, first: str, second: str) -> None:
        start = f"{self.expression(first, 2)}, " if first else ""
        self.line(f"return {start}{self.expression(second, 2)}")

    def start(self, body: str) -> list[str]:
        """Lines before the body: the work-item's own variables, and the arrays that it uses."""
        lines = ["if i >= out_i32.shape[0]:", "    return"]
        for kind in KINDS:
            lines.append(f"v_{kind} = x_{kind}[i % {ROWS}]")
            lines.append(f"w_{kind}: kl.{kind} = {self.literal(kind)}")
            if f"own_{kind}" in body:
                lines.append(f"own_{kind} = kl.private({ROWS}, kl.{kind})")
                lines.append(f"for k in range({ROWS}):")
                lines.append(f"    own_{kind}[k] = x_{kind}[k]")
        return lines

    def body(self) -> None:
        """What the kernel does between its start and storing its variables."""
        self.leaves = True
        for _ in range(self.random.randint(2, 7)):
            self.statement(2, loop=False)

    def kernel(self) -> str:
        """The text of a module."""
        for _ in range(self.random.randint(0, 3)):
            self.helper()
        self.depth = 0
        self.line("@pt.kernel(contract=False)")
        self.line(f"def kernel({', '.join(self.arrays)}):")
        self.depth = 1
        self.line("i = kl.global_id(0)")
        first = len(self.lines)
        self.body()
        body = "\n".join(self.lines[first:])
        self.lines[first:first] = ["    " + line for line in self.start(body)]
        for kind in KINDS:
            self.line(f"out_{kind}[i, 0] = v_{kind}")
            self.line(f"out_{kind}[i, 1] = w_{kind}")
            if f"own_{kind}" in body:
                self.line(f"out_{kind}[i, 2] = own_{kind}[i % {ROWS}]")
        return _HEADER + "\n".join(self.lines) + "\n"


def random_kernel(random: Random) -> str:
    """The text of a module with one kernel, named ``kernel``."""
    return Writer(random).kernel()
