"""Random kernels as Python text, and a plain evaluation of them one work-item after the other.

A kernel is a tree of statements; `text` prints it in the language, and `evaluate` runs the printed
body as ordinary Python, the names ``kl`` and the helpers standing for scalar classes of the same
meaning.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import operator
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from portable.lang.ir.elementwise import FUNCTIONS
from tests.support.random_text import STORED

_SIZES = {"i32": 32, "u32": 32, "i64": 64, "u64": 64}
_FLOATS = {"f32": np.float32, "f64": np.float64}


def _wrap(x: int, kind: str) -> int:
    bits = _SIZES[kind]
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "i" and x >> (bits - 1) else x


def _common(x: str, y: str) -> str:
    if x == y:
        return x
    floats = sorted(k for k in (x, y) if k[0] == "f")
    if floats:
        return floats[-1]
    if x[0] == y[0]:
        return max(x, y, key=lambda k: _SIZES[k])
    assert "u64" not in (x, y), "the generator mixes no signed number with u64"
    return "i64"


class Number:
    """A number of a fixed type, with the language's arithmetic."""

    __slots__ = ("kind", "value")

    def __init__(self, value: Any, kind: str) -> None:
        self.kind = kind
        self.value: Any = _FLOATS[kind](value) if kind[0] == "f" else _wrap(int(value), kind)

    def to(self, kind: str) -> Number:
        """Converted as an explicit or implicit conversion does."""
        if self.kind[0] != "f" or kind[0] == "f":
            return Number(self.value, kind)
        if np.isnan(self.value):
            return Number(0, kind)
        bits = _SIZES[kind]
        low = 0 if kind[0] == "u" else -(1 << (bits - 1))
        high = (1 << bits) - 1 if kind[0] == "u" else (1 << (bits - 1)) - 1
        if np.isinf(self.value):
            return Number(low if self.value < 0 else high, kind)
        return Number(min(max(int(self.value), low), high), kind)

    def _with(self, other: Any) -> tuple[Number, Number]:
        if not isinstance(other, Number):
            kind = "f32" if isinstance(other, float) and self.kind[0] != "f" else self.kind
            return self.to(kind), Number(other, kind)
        kind = _common(self.kind, other.kind)
        return self.to(kind), other.to(kind)

    def _binary(self, other: Any, act: Callable[[Any, Any], Any], *, swap: bool = False) -> Number:
        x, y = self._with(other)
        if swap:
            x, y = y, x
        with np.errstate(all="ignore"):
            return Number(act(x.value, y.value), x.kind)

    def _compare(self, other: Any, act: Callable[[Any, Any], Any]) -> bool:
        x, y = self._with(other)
        return bool(act(x.value, y.value))

    def __add__(self, y: Any) -> Number:
        return self._binary(y, operator.add)

    def __radd__(self, y: Any) -> Number:
        return self._binary(y, operator.add, swap=True)

    def __sub__(self, y: Any) -> Number:
        return self._binary(y, operator.sub)

    def __rsub__(self, y: Any) -> Number:
        return self._binary(y, operator.sub, swap=True)

    def __mul__(self, y: Any) -> Number:
        return self._binary(y, operator.mul)

    def __rmul__(self, y: Any) -> Number:
        return self._binary(y, operator.mul, swap=True)

    def __floordiv__(self, y: Any) -> Number:
        return self._binary(y, lambda a, b: a // b if b else 0)

    def __mod__(self, y: Any) -> Number:
        return self._binary(y, lambda a, b: a % b if b else 0)

    def __and__(self, y: Any) -> Number:
        return self._binary(y, operator.and_)

    def __or__(self, y: Any) -> Number:
        return self._binary(y, operator.or_)

    def __xor__(self, y: Any) -> Number:
        return self._binary(y, operator.xor)

    def __lshift__(self, y: Any) -> Number:
        return self._binary(y, lambda a, b: a << (b % _SIZES[self._with(y)[0].kind]))

    def __rshift__(self, y: Any) -> Number:
        return self._binary(y, lambda a, b: a >> (b % _SIZES[self._with(y)[0].kind]))

    def __neg__(self) -> Number:
        return Number(-self.value, self.kind)

    def __invert__(self) -> Number:
        return Number(~self.value, self.kind)

    def __abs__(self) -> Number:
        return Number(abs(self.value), self.kind)

    def __lt__(self, y: Any) -> bool:
        return self._compare(y, operator.lt)

    def __le__(self, y: Any) -> bool:
        return self._compare(y, operator.le)

    def __gt__(self, y: Any) -> bool:
        return self._compare(y, operator.gt)

    def __ge__(self, y: Any) -> bool:
        return self._compare(y, operator.ge)

    def __eq__(self, y: object) -> bool:
        return self._compare(y, operator.eq)

    def __ne__(self, y: object) -> bool:
        return self._compare(y, operator.ne)

    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> int:
        return int(self.value)


def _pick(x: Any, y: Any, low: bool) -> Any:
    if not isinstance(x, Number):
        x, y = y, x
    if not isinstance(x, Number):
        return min(x, y) if low else max(x, y)
    a, b = x._with(y)
    if a.kind[0] == "f":
        with np.errstate(all="ignore"):
            return Number((np.minimum if low else np.maximum)(a.value, b.value), a.kind)
    return Number(min(a.value, b.value) if low else max(a.value, b.value), a.kind)


class Recorder:
    """An array as the evaluation sees it: numbers out as `kind`, conversions in."""

    def __init__(self, array: np.ndarray[Any, Any], kind: str) -> None:
        self.array, self.kind = array, kind
        self.shape = tuple(Number(n, "i32") for n in array.shape)

    def __getitem__(self, index: Any) -> Number:
        return Number(self.array[_plain(index)].item(), self.kind)

    def __setitem__(self, index: Any, value: Any) -> None:
        number = value if isinstance(value, Number) else Number(value, self.kind)
        held = np.asarray(number.to(self.kind).value, _dtype(self.kind))
        with np.errstate(all="ignore"):
            self.array[_plain(index)] = held.astype(self.array.dtype)


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")


def _plain(index: Any) -> Any:
    return tuple(map(_plain, index)) if isinstance(index, tuple) else operator.index(index)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne, "logical_and": operator.and_, "logical_or": operator.or_,
    "logical_xor": operator.xor, "logical_not": operator.not_, "negative": operator.neg,
    "positive": lambda x: x, "bitwise_invert": operator.invert, "abs": abs,
}  # fmt: skip


class _Type:
    """What stands for a dtype: called, it converts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Any) -> Number:
        if self.name == "bool_":
            return Number(int((x.value if isinstance(x, Number) else x) != 0), "u32")
        register = STORED.get(self.name, self.name)
        number = x if isinstance(x, Number) else Number(x, register)
        return _narrowed(number, self.name) if self.name in STORED else number.to(register)


def _narrowed(x: Number, small: str) -> Number:
    """As kept in memory and read back; floats saturate in integers."""
    register = STORED[small]
    if small == "f16":
        with np.errstate(over="ignore"):
            return Number(float(np.float16(x.to("f32").value)), register)
    bits = int(small[1:])
    low, high = (0, 2**bits - 1) if small[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if x.kind[0] == "f":
        return Number(min(max(x.to(register).value, low), high), register)
    wrapped = int(x.value) & (2**bits - 1)
    return Number(wrapped - 2**bits if small[0] == "i" and wrapped > high else wrapped, register)


_GROUP = 4
"""Work-items per workgroup where kernels are evaluated, one after the other."""


class _Words:
    """What stands for ``kl`` while a kernel is evaluated."""

    def __init__(self, work_items: int) -> None:
        self.place = 0
        self.items, self.groups = work_items, -(-work_items // _GROUP)
        self.target = SimpleNamespace(sub_group_size=1)

    def __getattr__(self, name: str) -> Any:
        if name in _OPERATORS:
            return _OPERATORS[name]
        if name in FUNCTIONS:
            return lambda *x: _applied(name, x)
        return _Type(name)

    def cast(self, x: Any, kind: _Type) -> Number:
        """`x` converted."""
        return kind(x)

    def bitcast(self, x: Number, kind: _Type) -> Number:
        """The same bits."""
        held = np.asarray([x.value], _dtype(x.kind))
        return Number(held.view(_dtype(kind.name))[0].item(), kind.name)

    def accumulator(self, kind: _Type) -> _Type:
        """The type to sum in."""
        return _Type({"i32": "i64", "u32": "u64"}.get(kind.name, kind.name))

    def clip(self, x: Number, min: Any = None, max: Any = None) -> Any:
        """Within the bounds."""
        limited = x if min is None else _pick(x, min, False)
        return limited if max is None else _pick(limited, max, True)

    def cdiv(self, x: Number, y: Any) -> Number:
        """Rounded up."""
        return (x + (y - 1)) // y

    def round(self, x: Number) -> Number:
        """Halves to even."""
        return _applied("rint", (x,))

    def copysign(self, x: Number, y: Any) -> Number:
        """The sign of a constant."""
        return _applied("copysign", (x, Number(y, x.kind)))

    def static_assert(self, condition: bool, message: str = "") -> None:
        """Python's own."""
        assert condition, message

    def range(self, start: Any, stop: Any, step: Any, unroll: int = 0) -> Iterator[Number]:
        """As Python's."""
        return _range(start, stop, step)

    def vector_range(self, start: Any, stop: Any, lanes: int) -> Iterator[tuple[Number, int]]:
        """Whole vectors, and then one by one."""
        first, last = operator.index(start), operator.index(stop)
        middle = first + max(last - first, 0) // lanes * lanes
        for i in (*range(first, middle, lanes), *range(middle, last)):
            yield Number(i, "i32"), lanes if i < middle else 1

    def global_size(self, dim: int) -> Number:
        """What was asked for: no work-item needs another one."""
        return Number(self.items, "i32")

    def local_size(self, dim: int) -> Number:
        """Of the workgroup."""
        return Number(_GROUP, "i32")

    def num_groups(self, dim: int) -> Number:
        """Of the ndrange."""
        return Number(self.groups, "i32")

    def local_id(self, dim: int) -> Number:
        """In the workgroup."""
        return Number(self.place % _GROUP, "i32")

    def local_linear_id(self) -> Number:
        """In the workgroup, of one dimension."""
        return self.local_id(0)

    def group_id(self, dim: int) -> Number:
        """Of the workgroup."""
        return Number(self.place // _GROUP, "i32")

    def global_id(self, dim: int) -> Number:
        """The work-item's index."""
        return Number(self.place, "i32")

    def where(self, condition: bool, x: Any, y: Any) -> Any:
        """Both sides in their common type."""
        if isinstance(x, Number):
            a, b = x._with(y)
        elif isinstance(y, Number):
            b, a = y._with(x)
        else:
            a, b = x, y
        return a if condition else b

    def minimum(self, x: Any, y: Any) -> Any:
        """The smaller."""
        return _pick(x, y, True)

    def maximum(self, x: Any, y: Any) -> Any:
        """The larger."""
        return _pick(x, y, False)

    def square(self, x: Number) -> Number:
        """By itself."""
        return x * x

    def sign(self, x: Number) -> Number:
        """-1, 0 or 1."""
        return x if x.value != x.value else Number(int(x.value > 0) - int(x.value < 0), x.kind)

    def private(self, n: int, kind: _Type) -> Recorder:
        """An array of the work-item."""
        name = kind.name
        return Recorder(np.zeros(n, _dtype(name)), name)

    def static_range(self, n: int) -> range:
        """A range."""
        return range(n)


def _applied(name: str, arguments: tuple[Number, ...]) -> Any:
    kind = arguments[0].kind
    if len({x.kind for x in arguments}) > 1:
        kind = functools.reduce(_common, (x.kind for x in arguments))
        arguments = tuple(x.to(kind) for x in arguments)
    with np.errstate(all="ignore"):
        value = FUNCTIONS[name].numpy(*(np.asarray([x.value], _dtype(kind)) for x in arguments))
    return bool(value[0]) if value.dtype == bool else Number(value[0].item(), kind)


def _range(*bounds: Any) -> Iterator[Number]:
    plain = [operator.index(b) for b in bounds]
    return (Number(i, "i32") for i in range(*plain))


def imported(text: str, folder: Path) -> ModuleType:
    """The module of a text, which has to lie in a file for kernels to have source."""
    name = f"random_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def evaluate(text: str, work_items: int, *args: Any) -> None:
    """Runs the text's kernel as ordinary Python for each work-item in turn."""
    words = _Words(work_items)
    portable = type("portable", (), {"kernel": _plain_decorator, "function": lambda f: f})
    body = "\n".join(line for line in text.splitlines() if not line.startswith(("import", "from")))
    body = re.sub(r": kl\.(\w+) = (\S+)$", r" = kl.\1(\2)", body, flags=re.MULTILINE)
    body = re.sub(r"= (\S+)  # (\w+)$", r"= kl.\2(\1)", body, flags=re.MULTILINE)
    space: dict[str, Any] = {"pt": portable, "kl": words, "range": _range}
    space["NamedTuple"] = NamedTuple
    exec(compile(body, "<random kernel>", "exec"), space)
    for words.place in range(work_items):
        space["kernel"](*args)


def _plain_decorator(*args: Any, **options: Any) -> Any:
    return args[0] if args else lambda f: f
