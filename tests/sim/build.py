"""A small builder of kernels in the IR, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from portable.dtypes import DType, bool_, float32, int32
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Array, Fragment, Layout, ValueType


def const(value: Any, kind: DType = int32) -> e.Const:
    return e.Const(value, kind)


def _expression(x: Any, kind: ValueType = int32) -> Any:
    return x if isinstance(x, e.Expression) else e.Const(x, kind)  # type: ignore[arg-type]


def binary(op: Any, x: e.Expression, y: Any) -> e.Binary:
    return e.Binary(op, x, _expression(y, x.type))


def compare(op: Any, x: e.Expression, y: Any) -> e.Compare:
    return e.Compare(op, x, _expression(y, x.type))


def cast(x: e.Expression, kind: DType) -> e.Cast:
    return e.Cast(x, kind)


class K:
    """A kernel under construction; each statement takes a new line of ``kernel.py``."""

    def __init__(self, *parameters: Any, workgroup: Any = 4, sub_group_size: int = 1) -> None:
        self.parameters = parameters
        self.workgroup = workgroup if isinstance(workgroup, tuple) else (workgroup, 1, 1)
        self.sub_group_size = sub_group_size
        self.variables: list[e.Variable] = []
        self.arrays: list[Array] = []
        self.fragments: list[Fragment] = []
        self._blocks: list[list[s.Statement]] = [[]]
        self._line = 0
        self.index_type = int32

    # -- places and names -----------------------------------------------------------------

    @property
    def loc(self) -> Location:
        self._line += 1
        return Location("kernel.py", self._line)

    @property
    def line(self) -> int:
        """The line of the statement added last."""
        return self._line

    def name(self, stem: str) -> str:
        self._line += 0
        count = sum(len(b) for b in self._blocks)
        return f"{stem}{self._line}_{count}"

    def add(self, statement: s.Statement) -> None:
        self._blocks[-1].append(statement)

    def word(self, word: Any, dim: int = 0) -> e.WorkItem:
        return e.WorkItem(word, dim, self.index_type)

    @property
    def gid(self) -> e.WorkItem:
        return self.word("global_id")

    @property
    def lid(self) -> e.WorkItem:
        return self.word("local_id")

    @property
    def group(self) -> e.WorkItem:
        return self.word("group_id")

    # -- declarations ---------------------------------------------------------------------

    def variable(self, name: str, kind: ValueType = int32) -> e.Variable:
        self.variables.append(e.Variable(name, kind))
        return self.variables[-1]

    def local(self, name: str, shape: tuple[int, ...], dtype: DType = float32, **k: Any) -> Array:
        layout = k.pop("layout", Layout.row_major(shape))
        array = Array(name, dtype, "local", len(shape), shape, layout, **k)
        self.arrays.append(array)
        return array

    def private(
        self, name: str, shape: tuple[int, ...], dtype: DType = float32, lanes: int = 1
    ) -> Array:
        array = Array(
            name, dtype, "private", len(shape), shape, Layout.row_major(shape), lanes=lanes
        )
        self.arrays.append(array)
        return array

    def fragment(self, name: str, shape: Any, dtype: DType = float32, **k: Any) -> Fragment:
        self.fragments.append(Fragment(name, shape, dtype, **k))
        return self.fragments[-1]

    # -- statements -----------------------------------------------------------------------

    def let(self, value: e.Expression) -> e.Variable:
        loc = self.loc
        var = e.Variable(self.name("let"), value.type)
        self.add(s.Let(var, value, loc))
        return var

    def assign(self, var: e.Variable, value: Any) -> None:
        self.add(s.Assign(var, _expression(value, var.type), self.loc))

    def load(self, array: Array, *index: Any, kind: ValueType | None = None, **k: Any) -> Any:
        loc = self.loc
        var = e.Variable(self.name("load"), kind or array.dtype.real.register)
        self.add(s.Load(var, array, tuple(map(_expression, index)), loc, **k))
        return var

    def store(self, array: Array, *index_value: Any, **k: Any) -> None:
        *index, value = index_value
        value = _expression(value, array.dtype.real.register)
        self.add(s.Store(array, tuple(map(_expression, index)), value, self.loc, **k))

    def atomic(
        self,
        op: Any,
        array: Array,
        index: Any,
        value: Any = None,
        expected: Any = None,
        order: Any = "relaxed",
        scope: Any = "device",
    ) -> e.Variable:
        loc = self.loc
        var = e.Variable(self.name("atomic"), array.dtype)
        value = None if value is None else _expression(value, array.dtype)
        expected = None if expected is None else _expression(expected, array.dtype)
        where = (_expression(index),)
        self.add(s.Atomic(var, op, array, where, value, expected, order, scope, loc))
        return var

    def barrier(self, meeting: int = 0) -> None:
        self.add(s.Barrier(self.loc, meeting))

    def fence(self, order: Any, scope: Any = "device") -> None:
        self.add(s.Fence(order, scope, self.loc))

    def sub_group(self, op: Any, value: e.Expression, argument: Any = None) -> e.Variable:
        loc = self.loc
        var = e.Variable(self.name("sub"), value.type)
        argument = None if argument is None else _expression(argument)
        self.add(s.SubGroup(var, op, value, argument, loc))
        return var

    def uniform(self, value: e.Expression) -> e.Variable:
        loc = self.loc
        var = e.Variable(self.name("uniform"), value.type)
        self.add(s.WorkgroupUniform(var, value, loc))
        return var

    def stop(self) -> None:
        self.add(s.Break(self.loc))

    def skip(self) -> None:
        self.add(s.Continue(self.loc))

    def end(self) -> None:
        self.add(s.Return(self.loc))

    # -- blocks ---------------------------------------------------------------------------

    @contextmanager
    def _block(self) -> Iterator[list[s.Statement]]:
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    @contextmanager
    def when(self, condition: e.Expression) -> Iterator[None]:
        loc = self.loc
        with self._block() as then:
            yield
        self.add(s.If(condition, tuple(then), (), loc))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The other branch of the `when` just before."""
        with self._block() as orelse:
            yield
        before = self._blocks[-1].pop()
        assert isinstance(before, s.If)
        self.add(s.If(before.condition, before.then, tuple(orelse), before.loc))

    @contextmanager
    def loop(self) -> Iterator[None]:
        loc = self.loc
        with self._block() as body:
            yield
        self.add(s.Loop(tuple(body), loc))

    @contextmanager
    def range(self, start: Any, stop: Any, step: Any = 1) -> Iterator[e.Variable]:
        loc = self.loc
        var = e.Variable(self.name("i"), int32)
        with self._block() as body:
            yield var
        bounds = (_expression(x) for x in (start, stop, step))
        self.add(s.For(var, *bounds, tuple(body), loc))

    @contextmanager
    def elements(self, fragment: Fragment, value: e.Variable, writes: bool) -> Iterator[Any]:
        loc = self.loc
        row, column = e.Variable(self.name("row"), int32), e.Variable(self.name("col"), int32)
        with self._block() as body:
            yield row, column
        self.add(s.ForElements(fragment, row, column, value, tuple(body), writes, loc))

    def spin_until(self, array: Array, index: Any, value: int, order: Any = "acquire") -> int:
        """Wait until an atomic holds a value; gives the loop's line."""
        with self.loop():
            line = self.line
            seen = self.atomic("load", array, index, order=order)
            with self.when(compare("eq", seen, value)):
                self.stop()
        return line

    def build(self) -> Kernel:
        return Kernel(
            "kernel",
            tuple(self.parameters),
            tuple(self.variables),
            tuple(self.arrays),
            tuple(self.fragments),
            tuple(self._blocks[0]),
            self.workgroup,
            self.sub_group_size,
            self.index_type,
            Options(),
            Location("kernel.py", 1),
        )


def global_array(name: str, dtype: DType = float32, ndim: int = 1) -> Array:
    return Array(name, dtype, "global", ndim, strides=("any",) * ndim)


def true() -> e.Const:
    return e.Const(True, bool_)
