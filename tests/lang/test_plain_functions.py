"""Methods, functions and lambdas without a mark: inlined in kernels, run by Python elsewhere."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import dtypes, errors, primitives
from portable import lang as kl
from portable.backend import Device
from portable.compiled.descriptions import constant_of
from portable.lang.arguments.arguments import ArraySpec, Specialisation, constant_key
from portable.lang.emit import generate
from portable.lang.function import settled
from portable.linalg import gemm
from tests.support.compilers import CUDA
from tests.support.launch import run


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any

    def dot(self, other, times=1):
        return (self.x * other.x + self.y * other.y) * times

    def scaled(self, by):
        return type(self)(by * self.x, by * self.y)

    @property
    def norm1(self):
        return abs(self.x) + abs(self.y)

    @cached_property
    def swapped(self):
        return replace(self, x=self.y, y=self.x)

    @classmethod
    def both(cls, value):
        return cls(value, value)

    @staticmethod
    def weight(value):
        return value + 1

    def __add__(self, other):
        return type(self)(self.x + other.x, self.y + other.y)

    def __eq__(self, other):
        return self.x == other.x

    def __getitem__(self, index):
        return self.scaled(index).x


@dataclass(frozen=True)
class Shifted(Point):
    def dot(self, other, times=1):
        return super().dot(other, times) + Point.weight(100)


class Fold(NamedTuple):
    start: Any

    def combine(self, a, b):
        return a + b + self.start


@pt.kernel
def measured(v, out, fold):
    p, q = Point(v[0], v[1]), Shifted(v[1], v[2])
    out[0] = p.dot(q)
    out[1] = q.dot(p, times=2)
    out[2] = p.scaled(3).norm1 + p.swapped.x
    out[3] = Point.both(v[2]).dot(p) + p.weight(v[0])
    total = p
    total += q
    out[4] = total.x * 10 + kl.i32(p == q) + kl.i32(p == p.scaled(1))
    out[5] = p[4]
    out[6] = kl.workgroup_reduce(fold.combine, v[0])
    out[7] = Point(3, 4).norm1 + Point(1, 2).dot(Point(3, 4))


def on_the_host(v: tuple[int, int, int], fold: Fold) -> list[int]:
    p, q = Point(v[0], v[1]), Shifted(v[1], v[2])
    return [
        p.dot(q),
        q.dot(p, times=2),
        p.scaled(3).norm1 + p.swapped.x,
        Point.both(v[2]).dot(p) + p.weight(v[0]),
        (p + q).x * 10 + int(p == q) + int(p == p.scaled(1)),
        p[4],
        v[0],
        Point(3, 4).norm1 + Point(1, 2).dot(Point(3, 4)),
    ]


def test_methods_without_a_mark_are_the_same_in_kernels_and_on_the_host(device: Device) -> None:
    given = (2, -5, 7)
    found = run(device, measured[1, 1], np.array(given), np.zeros(8, int), Fold(1))[1]
    assert list(found) == on_the_host(given, Fold(1))


LIMIT = 3


def limited(x):
    return min(x, LIMIT)


@pt.kernel
def applied(v, out, *, OP):
    out[0] = OP(v[0], v[1])
    out[1] = limited(v[1])


OPERATIONS: list[tuple[Callable[..., int], int]] = [
    (lambda a, b: a * b, 10),
    (
        lambda a, b: (
            a  # on lines of its own
            - b
        ),
        -3,
    ),
    (Fold(7).combine, 14),
]


def test_functions_and_lambdas_are_called_as_they_are(device: Device) -> None:
    second = (lambda x: x + 1, lambda x: x + 2)[1]
    for op, want in [*OPERATIONS, (lambda a, b: second(a) * b, 20)]:
        found = run(device, applied[1, 1], np.array([2, 5]), np.zeros(2, int), OP=op)[1]
        assert list(found) == [want, 3]


def test_a_constant_without_a_place_is_found_by_what_it_does() -> None:
    constants = (lambda x: -4), (lambda x: 2**3)
    for given, want in zip(constants, (-4, 8), strict=True):
        code = given.__code__.replace(co_linetable=b"")  # Python 3.12 gives it no columns
        made, x = FunctionType(code, globals(), "<lambda>"), np.zeros(1, np.float32)
        assert run(pt.device("simulator"), of_one[1, 1], x, x, OP=made)[1] == want


def test_primitives_take_lambdas() -> None:
    x = np.array([5, 1, 6, 2])
    with pt.use("simulator"):
        np.testing.assert_array_equal(
            primitives.scan(x, lambda a, b: a ^ b, neutral=0), np.bitwise_xor.accumulate(x)
        )
        found = primitives.reduce(x, lambda a, b: a + b, neutral=0, each=lambda x, i: x * i)
        assert found == 1 + 12 + 6
        np.testing.assert_array_equal(primitives.compact(x, lambda value: value > 2), [5, 6])
        np.testing.assert_array_equal(primitives.map(limited, x), [3, 1, 3, 2])


def _made(factor: float) -> Callable[[Any], Any]:
    return lambda x: x * factor


def test_a_lambda_that_is_run_again_is_the_same_constant() -> None:
    assert settled(_made(2)) is settled(_made(2))
    assert settled(_made(2)) is not settled(_made(2.0))
    assert constant_key(Fold(1).combine) == constant_key(Fold(1).combine)
    assert constant_key(Fold(1).combine) != constant_key(Fold(True).combine)
    before = constant_key(limited)
    globals()["LIMIT"] = 4
    try:
        assert constant_key(limited) != before
    finally:
        globals()["LIMIT"] = 3
    assert constant_key(limited) == before


FACTOR = 1


def by_factor(x):
    return sum(x * FACTOR for _ in (1, 2))


@pt.kernel
def of_one(x, out, *, OP):
    out[0] = OP(x[0])


def test_numbers_that_a_given_function_names_may_change(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, x = of_one[1, 1], np.ones((1, 1), np.float32)
    for factor in (1, 2):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(6):  # the last of which are recognised
            assert run(device, launcher, x[0], x[0], OP=by_factor)[1] == 2 * factor
            with pt.use(device):
                own = device.from_numpy(x)
                assert pt.to_numpy(primitives.map(by_factor, own)) == 2 * factor
                assert pt.to_numpy(gemm(own, own, activation=by_factor)) == 2 * factor


def test_packages_tell_methods_apart_and_know_no_lambdas() -> None:
    assert constant_of(Fold(1).combine) != constant_of(Fold(2).combine)
    with pytest.raises(errors.UnsupportedError, match="define it by 'def'"):
        constant_of(_made(2))


METHOD = """\
from typing import Any, NamedTuple
import portable as pt
class Held(NamedTuple):
    x: Any
    def value(self):
        return self.x + {number}
@pt.kernel
def stores(out):
    out[0] = Held(out[0]).value()
"""


def test_a_changed_method_is_another_program(tmp_path: Path) -> None:
    texts = []
    for number in (1, 2):
        path = tmp_path / f"version{number}.py"
        path.write_text(METHOD.format(number=number))
        space: dict[str, Any] = {"__name__": "version"}
        exec(compile(path.read_text(), str(path), "exec"), space)
        linecache.checkcache()
        taken = ArraySpec(dtypes.int32, ("unit",))
        wanted = Specialisation((taken,), (), (1, 1, 1), False, True, space["stores"].options)
        texts.append(generate(space["stores"].translated(wanted, CUDA), CUDA).source)
    assert texts[0] != texts[1]


# -- what Python works out of constants ---------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    name: str
    width: int

    @property
    def tile(self):
        return {"small": 4, "large": 16}[self.name]

    @property
    def units(self):
        return kl.target.sub_group_size * self.width

    def padded(self, n):
        return -(-n // self.tile) * self.tile


@pt.kernel
def planned(x, out, *, PLAN):
    out[0] = PLAN.padded(x[0])
    out[1] = PLAN.units


def test_properties_of_constants_are_pythons_where_python_can(device: Device) -> None:
    plan = Plan("small", 3)
    found = run(device, planned[1, 1], np.array([5]), np.zeros(2, int), PLAN=plan)[1]
    assert list(found) == [8, 3 * device.capabilities.sub_group_size]
    assert plan.padded(5) == 8


# -- mistakes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faulty:
    x: Any

    def outer(self):
        return self.inner(1)

    def inner(self, by):
        return [self.x, by]

    def recursive(self):
        return self.recursive()

    @lru_cache(maxsize=1)  # noqa: B019
    def kept(self):
        return self.x

    exec("def unseen(self):\n    return self.x")


class Other:
    def method(self, x):
        return x


@pt.kernel
def mistaken(out, *, NAME, OP=None):
    struct = Faulty(out[0])
    if NAME == "outer":
        out[0] = struct.outer()
    elif NAME == "arguments":
        out[0] = struct.inner()
    elif NAME == "recursive":
        out[0] = struct.recursive()
    elif NAME == "kept":
        out[0] = struct.kept()
    elif NAME == "unseen":
        out[0] = struct.unseen()
    elif NAME == "tile":
        out[0] = Plan("middle", 1).tile
    else:
        out[0] = OP(out[0])


MISTAKES = [
    (
        "outer",
        None,
        r"List is not.*\n.*\n.*\n.*\n  in Faulty\.inner, called at .*\n  in Faulty\.outer",
    ),
    ("arguments", None, r"Faulty\.inner: missing a required argument: 'by'"),
    ("recursive", None, r"Faulty\.recursive calls itself without end"),
    ("kept", None, "kept of a Faulty is Python's"),
    ("unseen", None, r"source of unseen cannot be read.*as mistaken calls it"),
    ("tile", None, r"Plan\.tile: KeyError: 'middle'"),
    ("", Other().method, "method of a Other, no struct"),
    ("", partial(limited), "partial"),
    ("", np.linalg.norm, "NumPy's functions are of whole arrays"),
    ("", linecache.getline, "cannot be called in a kernel"),
]


@pytest.mark.parametrize(("name", "op", "reason"), MISTAKES)
def test_what_cannot_be_inlined_is_told(name: str, op: Any, reason: str) -> None:
    with pytest.raises(errors.KernelError, match=reason):
        run(pt.device("simulator"), mistaken[1, 1], np.zeros(1, np.int32), NAME=name, OP=op)


def test_words_and_marked_functions_are_refused_by_python() -> None:
    with pytest.raises(errors.OutsideKernelError, match=r"kl\.target"):
        _ = Plan("small", 1).units
    with pytest.raises(errors.OutsideKernelError, match="helper of kernels"):
        pt.function(limited)(1)


def test_keys_are_as_long_as_what_is_named() -> None:
    """Thirty functions, each of which names the one before in two ways: not 2^30 of them."""
    lines = ["def f0(v): return v", "g0 = lambda v: v"]
    for n in range(1, 31):
        lines.append(f"def f{n}(v): return f{n - 1}(v) + g{n - 1}(v)")
        lines.append(f"g{n} = lambda v: f{n - 1}(v) - g{n - 1}(v)")
    text = "\n".join(lines)
    space, again, other = ({"__name__": "ladder"} for _ in range(3))
    exec(text, space)
    key = constant_key(space["f30"])
    assert _length(key) < 1000
    exec(text, again)
    assert key == constant_key(space["f30"]) != constant_key(again["f30"])
    exec(text.replace("return v", "return v + 1"), other)
    other["f0"], space["f0"] = space["f0"], other["f0"]
    assert key != constant_key(space["f30"])


def _length(key: Any) -> int:
    return sum(map(_length, key)) if isinstance(key, tuple) else 1
