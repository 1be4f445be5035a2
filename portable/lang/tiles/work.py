"""What strategies write into: the kernel that is being lowered, and a builder of statements.

It also puts arrays in the place of others, wherever a kernel names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from portable.backend import Capabilities
from portable.dtypes import DType, bfloat16, float16
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import like
from portable.lang.ir.types import Array, Fragment, Layout, Space, ValueType, scalar_of
from portable.lang.ir.walks import all_expressions, all_statements, map_block, map_memory


def substitute(body: s.Block, new: Mapping[Array, Array]) -> s.Block:
    """The block with every array that is a key of `new` replaced; the indices stay."""
    if not new:
        return body
    return map_block(body, lambda x: (map_memory(x, lambda array: new.get(array, array)),))


class Work:
    """What strategies add to a kernel and take from it.

    Parameters
    ----------
    kernel : Kernel
        The kernel with fragments.
    capabilities : Capabilities
        Of the device.
    """

    def __init__(self, kernel: Kernel, capabilities: Capabilities) -> None:
        self.kernel = kernel
        self.capabilities = capabilities
        self.arrays: list[Array] = []
        self.variables: list[e.Variable] = []
        self.replaced: dict[Array, Array] = {}
        self.retired: set[Array] = set()
        self._names = _names(kernel)

    def fresh(self, wanted: str) -> str:
        """A name that nothing else in the kernel has."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def private(self, name: str, dtype: DType, shape: tuple[int, ...], lanes: int = 1) -> Array:
        """A new private array, last dimension fastest."""
        return self.array(name, dtype, "private", shape, Layout.row_major(shape), lanes)

    def array(
        self,
        name: str,
        dtype: DType,
        space: Space,
        shape: tuple[int, ...],
        layout: Layout,
        lanes: int = 1,
    ) -> Array:
        """A new array."""
        made = Array(self.fresh(name), dtype, space, len(shape), shape, layout, lanes=lanes)
        self.arrays.append(made)
        return made

    def variable(self, name: str, kind: ValueType) -> e.Variable:
        """A new mutable variable."""
        made = e.Variable(self.fresh(name), kind)
        self.variables.append(made)
        return made

    def replace(self, old: Array, layout: Layout) -> Array:
        """The same array in another layout; the driver rewrites its uses."""
        made = Array(old.name, old.dtype, old.space, old.ndim, old.shape, layout, lanes=old.lanes)
        self.replaced[old] = made
        return made

    def current(self, array: Array) -> Array:
        """What stands for an array of the kernel now."""
        return self.replaced.get(array, array)

    def retire(self, old: Array) -> None:
        """Drops an array whose every use the strategy rewrites."""
        self.retired.add(old)

    def code(self, loc: Location) -> Code:
        """An empty block to build, for statements that stem from `loc`."""
        return Code(self, loc)

    @cached_property
    def facts(self) -> Facts:
        """What can be proved of the kernel's integers."""
        return Facts(self.kernel)

    @property
    def items(self) -> int:
        """Work-items of a workgroup."""
        x, y, z = self.kernel.workgroup
        return x * y * z

    def held_type(self, fragment: Fragment) -> DType:
        """The type of a fragment's elements in registers."""
        native = self.kernel.options.native_half and fragment.dtype is float16
        return fragment.dtype if native else fragment.dtype.register


def _names(kernel: Kernel) -> set[str]:
    names = {x.name for x in (*kernel.parameters, *kernel.arrays, *kernel.variables)}
    names |= {fragment.name for fragment in kernel.fragments}
    names |= {x.name for x in all_expressions(kernel.body) if isinstance(x, e.Variable)}
    for x in all_statements(kernel.body):
        if isinstance(x, s.ForElements):
            names |= {y.name for y in (x.row, x.column, x.value, *x.others)}
    return names


class Code:
    """Builds a block of statements.

    Parameters
    ----------
    work : Work
        The kernel in progress.
    loc : Location
        Where in the user's source the statements come from.
    """

    def __init__(self, work: Work, loc: Location) -> None:
        self.work = work
        self.loc = loc
        self._blocks: list[list[s.Statement]] = [[]]

    @property
    def block(self) -> s.Block:
        """What was built."""
        return tuple(self._blocks[0])

    def emit(self, *statements: s.Statement) -> None:
        """Adds statements."""
        self._blocks[-1].extend(statements)

    def assign(self, var: e.Variable, value: e.Expression) -> None:
        """Gives a variable a new value."""
        self.emit(s.Assign(var, value, self.loc))

    def instruct(
        self,
        name: str,
        outputs: tuple[e.Variable, ...] = (),
        inputs: tuple[e.Expression, ...] = (),
        addresses: tuple[s.Address, ...] = (),
    ) -> None:
        """Adds a device's instruction; see `statements.Instruction`."""
        self.emit(s.Instruction(name, self.loc, outputs, inputs, addresses))

    def index(self, value: int) -> e.Const:
        """A constant of the index type."""
        return e.Const(value, self.work.kernel.index_type)

    def let(self, name: str, value: e.Expression) -> e.Expression:
        """Binds a value to a new name, unless it is a constant or a name."""
        if isinstance(value, e.Const | e.Variable):
            return value
        var = e.Variable(self.work.fresh(name), value.type)
        self.emit(s.Let(var, value, self.loc))
        return var

    def load(
        self,
        array: Array,
        index: tuple[e.Expression, ...],
        kind: ValueType,
        axis: int = -1,
    ) -> e.Variable:
        """Binds an element, or a vector of neighbours, converted to `kind`, to a new name."""
        wanted = scalar_of(kind)
        loaded = wanted if wanted is array.dtype else array.dtype.register
        var = self._bound(f"{array.name}_at", like(kind, loaded))
        self.emit(s.Load(var, array, index, self.loc, axis))
        if loaded is wanted:
            return var
        converted = self._bound(f"{array.name}_as", kind)
        self.emit(s.Let(converted, e.Cast(var, kind), self.loc))
        return converted

    def _bound(self, name: str, kind: ValueType) -> e.Variable:
        return e.Variable(self.work.fresh(name), kind)

    def store(
        self, array: Array, index: tuple[e.Expression, ...], value: e.Expression, axis: int = -1
    ) -> None:
        """Writes an element, or a vector of neighbours."""
        self.emit(s.Store(array, index, value, self.loc, axis))

    @contextmanager
    def loop(
        self,
        name: str,
        stop: e.Expression | int,
        start: e.Expression | int = 0,
        step: int = 1,
        unroll: int = 0,
    ) -> Iterator[e.Expression]:
        """A loop whose body is built inside; none where it is known to have one round or none."""
        first, last = self._number(start), self._number(stop)
        rounds = -1
        if isinstance(first, e.Const) and isinstance(last, e.Const):
            rounds = len(range(int(first.value), int(last.value), step))
            if rounds == 1:
                yield first
                return
        var = e.Variable(self.work.fresh(name), self.work.kernel.index_type)
        self._blocks.append([])
        yield var
        body = tuple(self._blocks.pop())
        if body and rounds:
            self.emit(s.For(var, first, last, self.index(step), body, self.loc, unroll))

    @contextmanager
    def over(self, loop: s.For) -> Iterator[None]:
        """A loop like another, whose body is built inside."""
        self._blocks.append([])
        yield
        body = tuple(self._blocks.pop())
        self.emit(replace(loop, body=body, loc=self.loc))

    @contextmanager
    def when(self, condition: e.Expression | None) -> Iterator[None]:
        """A branch whose body is built inside; no branch where there is no condition."""
        if condition is None:
            yield
            return
        self._blocks.append([])
        yield
        body = tuple(self._blocks.pop())
        self.emit(s.If(condition, body, (), self.loc))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The other branch of the `when` just built."""
        branch = self._blocks[-1].pop()
        assert isinstance(branch, s.If)
        self._blocks.append([])
        yield
        body = tuple(self._blocks.pop())
        self.emit(s.If(branch.condition, branch.then, body, self.loc))

    def _number(self, x: e.Expression | int) -> e.Expression:
        return self.index(x) if isinstance(x, int) else x


def stored(value: e.Expression, fragment: Fragment) -> e.Expression:
    """A value as an element of a fragment holds it: rounded to half where that is its type."""
    narrow = fragment.dtype
    if narrow in (float16, bfloat16) and value.type is not narrow:
        return e.Cast(value, value.type, narrow)
    return value


def _constant(x: e.Expression | int, like: DType) -> e.Expression:
    return e.Const(x, like) if isinstance(x, int) else x


def add(x: e.Expression, y: e.Expression | int) -> e.Expression:
    """An integer sum, folded where it is plain."""
    assert isinstance(x.type, DType)
    other = _constant(y, x.type)
    if isinstance(other, e.Const) and isinstance(x, e.Const):
        return e.Const(int(x.value) + int(other.value), x.type)
    if isinstance(other, e.Const) and other.value == 0:
        return x
    if isinstance(x, e.Const) and x.value == 0:
        return other
    return e.Binary("add", x, other)


def mul(x: e.Expression, y: int) -> e.Expression:
    """An integer product with a constant, folded where it is plain."""
    assert isinstance(x.type, DType)
    if isinstance(x, e.Const):
        return e.Const(int(x.value) * y, x.type)
    return x if y == 1 else e.Binary("mul", x, e.Const(y, x.type))


def clamp(x: e.Expression, most: int) -> e.Expression:
    """An integer brought into 0 to `most`."""
    assert isinstance(x.type, DType)
    if isinstance(x, e.Const):
        return e.Const(max(0, min(int(x.value), most)), x.type)
    return e.Binary("min", e.Binary("max", x, e.Const(0, x.type)), e.Const(most, x.type))


def smaller(x: e.Expression, y: e.Expression | int) -> e.Expression:
    """``x < y``."""
    assert isinstance(x.type, DType)
    return e.Compare("lt", x, _constant(y, x.type))
