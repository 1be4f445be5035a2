"""Collects a kernel's statements, names and arrays, and knows what translates each word."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.errors import KernelError, Location, UnsupportedError
from portable.lang.frontend.frames import Frame
from portable.lang.frontend.inference import Inference
from portable.lang.frontend.outer_names import NamesRead
from portable.lang.frontend.values import Value
from portable.lang.function import Function
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Const, Expression, Variable
from portable.lang.ir.facts import Interval, Leaf, interval, known_variables
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import Array, Fragment, ValueType, lanes_of
from portable.lang.ir.walks import subexpressions

# Where the loop over vectors ends and that over what is left begins: what they do must be alike.
#
# A body of `kl.vector_range` is translated twice. A variable that the first makes a vector of would
# silently take a number of the second in all of its lanes: that is refused.

_Place = tuple[Location, str, int]


@dataclass
class Seam:
    """What the first body of one loop does with vectors and numbers, held against the second.

    Attributes
    ----------
    lanes : int
        Of the first body.
    names : collection of str
        The names from before the loop.
    """

    lanes: int
    names: Collection[str]
    _second: bool = False
    _met: dict[_Place, set[int]] = field(default_factory=dict)
    _last: tuple[Location, str] | None = None
    _order: int = 0

    def cross(self) -> None:
        """The second body begins."""
        self._second, self._last = True, None

    def refused(self, location: Location, values: Collection[Value]) -> str:
        """What is wrong where values meet; nothing if the first body did the same there."""
        vectors = [x for x in values if x.lanes == self.lanes]
        if not vectors:
            return ""
        position = self._place(location)
        spread = {number for number, x in enumerate(values) if x.lanes == 1}
        if not self._second:
            self._met.setdefault(position, set()).update(spread)
        elif position in self._met and spread - self._met[position]:
            return f"{self._name(vectors[0])} has {self.lanes} lanes, and here takes one number"
        return ""

    def _place(self, location: Location) -> _Place:
        """Operations in one place, such as those of ``a * b + c``, differ by their order."""
        calls = location.calls
        self._order = self._order + 1 if (location, calls) == self._last else 0
        self._last = location, calls
        return location, calls, self._order

    def _name(self, vector: Value) -> str:
        """The user's name of a variable in it, of which the generated program may have copies."""
        inner = (x for x in subexpressions(vector.expr) if isinstance(x, Variable))
        held = [x.name for x in inner if lanes_of(x.type) == self.lanes]
        for name in self.names:
            if any(re.fullmatch(re.escape(name) + r"(_\d+)*", x) for x in held):
                return name
        return "a vector"


# -- builder ---------------------------------------------------------------------------------------


@dataclass
class Builder:
    """The state of one pass over a kernel.

    Attributes
    ----------
    capabilities : Capabilities
        Of the device that the kernel is specialised for.
    options : Options
        What the kernel was declared with.
    workgroup : (int, int, int)
        The local size.
    index_type : DType
        ``int32`` or ``int64``.
    inference : Inference
        What earlier passes found out about types.
    frame : Frame
        The function under translation.
    node : ast.AST
        What of it is under translation.
    names : NamesRead
        The outer names that it reads, in all functions.
    hint : str
        The name that the value under translation will be assigned to, if it is a single one.
    arrays, fragments : list
        What the kernel declares.
    variables : dict
        Its mutable variables, in their order, as keys.
    completions : set of Array
        Those local arrays that are slots to wait for bulk copies.
    intervals : dict
        What is known of integers.
    repetitions : int
        Rounds of loops that were repeated at compile time.
    scratch : dict
        Local arrays that the collectives of a workgroup share, by their type and a number.
    scratch_used : bool
        Whether something may still be read in them.
    seams : list of Seam
        Of the loops over vectors around the statement under translation.
    call : callable
        Calls whatever can be called in kernels, given its arguments.
    inline : callable
        Inlines a helper function, given its positional and its keyword arguments.
    """

    capabilities: Capabilities
    options: Options
    workgroup: tuple[int, int, int]
    index_type: DType
    inference: Inference
    frame: Frame
    node: ast.AST
    names: NamesRead
    hint: str = ""
    arrays: list[Array] = field(default_factory=list)
    completions: set[Array] = field(default_factory=set)
    fragments: list[Fragment] = field(default_factory=list)
    variables: dict[Variable, None] = field(default_factory=dict)
    intervals: dict[Variable, Interval] = field(default_factory=dict)
    repetitions: int = 0
    scratch: dict[tuple[DType, int], Array] = field(default_factory=dict)
    scratch_used: bool = False
    seams: list[Seam] = field(default_factory=list)
    call: Callable[[Any, list[Any]], Any] = field(init=False)
    inline: Callable[[Function, list[Any], dict[str, Any]], Any] = field(init=False)
    _leaf: Leaf = field(init=False)
    _names: dict[str, int] = field(default_factory=dict)
    _blocks: list[list[s.Statement]] = field(default_factory=lambda: [[]])

    def __post_init__(self) -> None:
        self._leaf = known_variables(self.intervals)

    @property
    def location(self) -> Location:
        """Where in the user's source the construct under translation stands."""
        return self.frame.location(self.node)

    def fail(self, reason: str, hint: str = "") -> NoReturn:
        """Refuses the construct under translation."""
        here = self.location
        raise KernelError(reason, here, hint, self.frame.source.line(here.line))

    def unsupported(self, reason: str) -> NoReturn:
        """Refuses what the language has and the device lacks."""
        calls = f"\n{self.location.calls}" if self.location.calls else ""
        raise UnsupportedError(f"{self.location}: {reason}{calls}")

    def meet(self, *values: Value) -> None:
        """Numbers among vectors are to be used in all lanes: refused in what is left of a range."""
        for seam in self.seams:
            reason = seam.refused(self.location, values)
            if reason and not self.inference.changed:
                self.fail(
                    f"{reason}: what is left of kl.vector_range is worked at one by one",
                    "keep one number by folding each vector, or write two loops and fold between",
                )

    def emit(self, statement: s.Statement) -> None:
        """Adds a statement to the block under construction."""
        self._blocks[-1].append(statement)

    @contextmanager
    def block(self) -> Iterator[list[s.Statement]]:
        """Collects what is emitted inside into a block of its own."""
        self._blocks.append([])
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()

    @property
    def body(self) -> s.Block:
        """What was emitted outside of any inner block."""
        return tuple(self._blocks[0])

    def name(self, wanted: str) -> str:
        """A new name that is also a legal and harmless C identifier."""
        base = re.sub(r"\W", "_", wanted).strip("_") or "t"
        if not base.isascii() or keyword.iskeyword(base):
            base = "v"
        count = self._names.get(base, -1) + 1
        self._names[base] = count
        candidate = base if count == 0 else f"{base}_{count}"
        if count and candidate in self._names:
            return self.name(wanted)
        self._names.setdefault(candidate, 0)
        return candidate

    def let(self, name: str, value: Expression) -> Expression:
        """Binds a value to a new name, unless it is as simple as a name itself."""
        if isinstance(value, Const | Variable):
            return value
        var = self.bind(name, value.type)
        self.emit(s.Let(var, value, self.location))
        return var

    def bind(self, name: str, kind: ValueType) -> Variable:
        """A new name of a type, for a statement that binds it."""
        return Variable(self.name(name), kind)

    def declare(self, name: str, kind: ValueType) -> Variable:
        """A new mutable variable."""
        var = self.bind(name, kind)
        self.variables[var] = None
        return var

    def bounds(self, x: Expression) -> Interval:
        """Bounds of an integer scalar expression."""
        return interval(x, self._leaf)

    def index_const(self, value: int) -> Const:
        """A constant of the index type."""
        return Const(value, self.index_type)


# The table from words to the functions that translate them.


Handler = Callable[..., Any]
"""Takes the builder and the call's arguments by name; returns what the call stands for."""

HANDLERS: Final[dict[str, Handler]] = {}


def handles(*words: str) -> Callable[[Handler], Handler]:
    """Registers a function as the meaning of words; several words: it also gets ``word``."""

    def register(function: Handler) -> Handler:
        for word in words:
            HANDLERS[word] = function if len(words) == 1 else _named(function, word)
        return function

    return register


def _named(function: Handler, word: str) -> Handler:
    def handler(builder: Builder, **arguments: Any) -> Any:
        return function(builder, word, **arguments)

    return handler
