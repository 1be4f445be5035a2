"""The text of random kernels on vectors and complex numbers, exchanged through local memory.

Nothing in them rounds differently between devices: integers, and + - x of floats uncontracted.
"""

from __future__ import annotations

from random import Random
from typing import Final

ITEMS: Final = 8
LANES: Final = 4

_HEAD: Final = f'''import portable as pt
from portable import lang as kl


@pt.kernel(contract=False)
def kernel(x, y, out, real, rest):
    """Generated."""
    lid, at = kl.local_id(0), kl.global_id(0)
    ints = kl.local(({ITEMS}, {LANES}), kl.i32)
    floats = kl.local(({ITEMS}, {LANES}), kl.f32)
    points = kl.local(({ITEMS},), kl.c64)
    own = kl.private((3,), kl.f32, lanes={LANES})
    i0 = kl.vload(x, at, 0, lanes={LANES})
    f0 = kl.vload(y, at, 0, lanes={LANES})
    z0 = kl.complex(f0[0], f0[3])
'''
_TAIL: Final = """    kl.vstore(out, at, 0, {i})
    kl.vstore(real, at, 0, {f})
    rest[at] = {z}
"""


class _Names:
    """The values of each kind so far, and lines that make more."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = {"i": 1, "f": 1, "z": 1}
        self.lines: list[str] = []

    def some(self, kind: str) -> str:
        """A value made before."""
        return f"{kind}{self._random.randrange(self._count[kind])}"

    def last(self, kind: str) -> str:
        """The newest one."""
        return f"{kind}{self._count[kind] - 1}"

    def add(self, kind: str, value: str) -> None:
        """Names a value."""
        self.lines.append(f"    {kind}{self._count[kind]} = {value}")
        self._count[kind] += 1


def _vector(random: Random, names: _Names, kind: str) -> str:
    a, b, c = (names.some(kind) for _ in range(3))
    operators = "+-*&|^" if kind == "i" else "+-*"
    lanes = ", ".join(f"{names.some(kind)}[{random.randrange(LANES)}]" for _ in range(LANES))
    number = random.randrange(-9, 10)
    choices = [
        f"{a} {random.choice(operators)} {b}",
        f"{a} {random.choice('+-*')} {number if kind == 'i' else number / 4}",
        f"kl.where({a} {random.choice(['<', '>=', '=='])} {b}, {c}, {a})",
        f"kl.{random.choice(['minimum', 'maximum'])}({a}, {b})",
        f"kl.vector({lanes})",
        f"kl.splat({a}[{random.randrange(LANES)}], {LANES})",
        f"kl.abs({a})",
        f"kl.clip({a}, -3, 100)",
        f"kl.shuffle2({a}, {b}, {tuple(random.randrange(2 * LANES) for _ in range(LANES))})",
        f"kl.vector({a}[1:3][0], {b}[3], {a}[0:2][1], {c}[2])",
        f"kl.compress({a}, {b} > {c})",
        f"{a} - kl.count({b} < {c})",
        f"-{a} * {random.choice(['-1', '2'])}",
        f"-{a}",
    ]
    if kind == "f":
        choices.append(f"kl.cast({names.some('i')}, kl.f32)")
        choices.append(f"kl.copysign({a}, -1.0)")
    else:
        choices += [f"kl.mulhi({a}, {b})", f"kl.bitwise_xor({a}, {b})", f"{a} >> {abs(number)}"]
        choices.append(f"kl.cast(kl.cast({a}, kl.{random.choice(['u8', 'i16'])}), kl.i32)")
        choices.append(f"kl.cast({names.some('f')}, kl.i32)")
    return random.choice(choices)


def _point(random: Random, names: _Names) -> str:
    a, b, f = names.some("z"), names.some("z"), names.some("f")
    lane = random.randrange(LANES)
    return random.choice([
        f"{a} {random.choice('+-*')} {b}",
        f"{a} {random.choice('+-*')} {f}[{lane}]",
        f"{f}[{lane}] {random.choice('+-*')} {a}",
        f"{a} * {random.choice(['1j', '(2 - 0.5j)', '3', '0.25'])}",
        f"kl.conj({a})",
        f"kl.square({a})",
        f"kl.where({a}.real < {b}.imag, {a}, {b})",
        f"kl.complex({a}.imag, {f}[{lane}])",
        f"{a} if {a} != {b} else -{b}",
        f"kl.complex(kl.real({a}), kl.imag({b}))",
    ])  # fmt: skip


def _exchange(random: Random, names: _Names) -> None:
    """Every work-item leaves its values and takes another's."""
    step = random.randrange(1, ITEMS)
    other = random.choice([f"(lid + {step}) % {ITEMS}", f"lid ^ {step}"])
    i, f, z = (names.some(kind) for kind in "ifz")
    names.lines += [
        f"    kl.vstore(ints, lid, 0, {i})",
        f"    kl.vstore(floats, lid, 0, {f})",
        f"    points[lid] = {z}",
        "    kl.barrier()",
    ]
    names.add("i", f"kl.vload(ints, {other}, 0, lanes={LANES})")
    names.add("f", f"kl.vload(floats, {other}, 0, lanes={LANES})")
    names.add("z", f"points[{other}]")
    names.lines.append("    kl.barrier()")


def _kept(random: Random, names: _Names) -> None:
    """Vectors in a private array, one of them read back by a run-time index."""
    names.lines += [f"    own[{slot}] = {names.some('f')}" for slot in range(3)]
    names.add("f", f"own[(at + {random.randrange(3)}) % 3]")


def random_exchange(random: Random) -> str:
    """One kernel, a module's text."""
    names = _Names(random)
    for _ in range(random.randrange(8, 24)):
        what = random.choice("iiffzzzxk")
        if what == "x":
            _exchange(random, names)
        elif what == "k":
            _kept(random, names)
        elif what == "z":
            names.add("z", _point(random, names))
        else:
            names.add(what, _vector(random, names, what))
    last = {kind: names.last(kind) for kind in "ifz"}
    return "\n".join([_HEAD.rstrip(), *names.lines, _TAIL.format(**last)])
