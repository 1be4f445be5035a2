"""Prints atomics and fences: OpenCL's two generations, PTX, and clang's builtins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portable.dtypes import DType, uint32, uint64
from portable.errors import UnsupportedError
from portable.lang.emit.addresses import Addresses
from portable.lang.emit.context import Text
from portable.lang.emit.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.passes.operators import float_extreme

_UNSIGNED = (uint32, uint64)
_REDUCTIONS = ("add", "sub", "min", "max", "and", "or", "xor")
_NARROWEST = 4
"""Bytes of what atomics take; a relaxed store of fewer is a plain one, which no device tears."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What an atomic acts on: a pointer's text, its space, element type, order and scope."""

    pointer: str
    space: str
    dtype: DType
    order: s.MemoryOrder
    scope: s.MemoryScope

    @property
    def label(self) -> str:
        """Part of a helper's name."""
        return f"{self.dtype.short}_{self.space}_{self.order}_{self.scope}"


class Atomics:
    """Atomics and fences of one kernel."""

    def __init__(self, expressions: Expressions, addresses: Addresses) -> None:
        self._expressions = expressions
        self._addresses = addresses
        self._context = expressions.context
        self._dialect = expressions.dialect
        self._capabilities = expressions.context.capabilities
        self._words = expressions.dialect.atomics
        self._asm = f"{self._dialect.asm} volatile"

    # -- fences -----------------------------------------------------------------------------

    def fence(self, x: s.Fence) -> list[str]:
        """The lines of a fence."""
        if x.order == "relaxed":
            return []
        if self._words.style == "opencl":
            return [self._opencl_fence(x)]
        if self._words.style == "nvidia":
            return [f'{self._asm}("fence.acq_rel.{self._scope(x.scope)};" ::: "memory");']
        return ["__threadfence();" if x.scope == "device" else "__threadfence_block();"]

    def _opencl_fence(self, x: s.Fence) -> str:
        memory = "CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE"
        if self._ordered():
            return (
                f"atomic_work_item_fence({memory}, {self._order(x.order)}, {self._scope(x.scope)});"
            )
        self._refuse_device_order(x.order, x.scope, x)
        return f"mem_fence({memory});"

    def _refuse_device_order(
        self, order: s.MemoryOrder, scope: s.MemoryScope, x: s.Fence | s.Atomic
    ) -> None:
        if order != "relaxed" and scope == "device":
            raise UnsupportedError(
                f"{x.loc}: {self._capabilities.name} offers only relaxed atomics across "
                f"workgroups, not {order!r} order; end the kernel and launch another "
                'instead, or use scope="workgroup"'
            )

    def _ordered(self) -> bool:
        return self._capabilities.memory_orders == "acq_rel"

    def _volatile(self) -> str:
        """PTX says so itself, and CUDA's conversion of pointers takes no volatile ones."""
        return "" if self._words.style == "nvidia" else "volatile "

    def _order(self, order: str) -> str:
        return self._words.orders[order]

    def _scope(self, scope: str) -> str:
        return self._words.scopes[scope]

    # -- operations -------------------------------------------------------------------------

    def operation(self, x: s.Atomic) -> list[str]:
        """The lines of an atomic."""
        self._check(x)
        offset = self._addresses.offset(x.array, x.index)
        pointer = self._addresses.pointer(x.array, offset).text
        location = _Place(pointer, x.array.space, x.array.dtype, x.order, x.scope)
        value = None if x.value is None else self._expressions.text(x.value)
        if x.array.dtype.itemsize < _NARROWEST:
            memory = self._dialect.memory_type(x.array.dtype)
            space = self._dialect.spaces[x.array.space]
            return [f"*(volatile {space}{memory} *)({pointer}) = ({memory})({value});"]
        expected = None if x.expected is None else self._expressions.text(x.expected)
        if x.op == "store":
            assert value is not None
            return [f"{self._call('store', location, value)};"]
        arguments = [a for a in (expected, value) if a is not None]
        if x.var is None and self._is_reduction(x.op, location):
            return [f"{self._reduction(x.op, location, *arguments)};"]
        call = self._call(x.op, location, *arguments)
        if x.var is None:
            return [f"{call};"]
        kind = self._dialect.types[x.array.dtype.short]
        return [f"const {kind} {self._context.names.of(x.var.name)} = {call};"]

    def run(self, additions: Sequence[s.Atomic]) -> list[str]:
        """The lines of additions to neighbouring elements, several at once where they lie so.

        Two or four of them take an address that as many elements divide (PTX ISA, ``red``).
        """
        first, count = additions[0], len(additions)
        offset = self._addresses.offset(first.array, first.index)
        pointer = self._addresses.pointer(first.array, offset).text
        values = (self._expressions.text(x.value) for x in additions if x.value is not None)
        name = f"pt_atomic_add_{count}_{first.scope}"
        self._context.prelude.define(name, lambda: self._run(name, first.scope, count))
        return [f"{name}({pointer}, {', '.join(values)});"]

    def _run(self, name: str, scope: str, count: int) -> str:
        word = f"red.relaxed.{self._scope(scope)}.global.add"
        places: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for start in (0, 2, 1, 3):  # elements behind an address that four of them divide
            places.setdefault(tuple(self._at_once(start, count)), []).append(start)
        cases = []
        for widths, starts in places.items():
            asked = " || ".join(f"start == {start}" for start in starts)
            added = "\n".join(f"        {self._asm}{_added(word, *x)}" for x in widths)
            cases.append(f"if ({asked}) {{\n{added}\n    }}")
        body = f"    {' else '.join(cases)}"
        values = ", ".join(f"float x{k}" for k in range(count))
        return (
            f"{self._dialect.function} void {name}(float *p, {values})\n{{\n"
            "    const size_t at = __cvta_generic_to_global(p);\n"
            f"    const unsigned start = at >> 2 & 3;\n{body}\n}}"
        )

    def _at_once(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """Which of some numbers are added by an instruction each: the first one, and how many."""
        most, k = self._capabilities.atomic_lanes, 0
        while k < count:
            fits = (n for n in (4, 2) if n <= min(most, count - k) and (start + k) % n == 0)
            width = next(fits, 1)
            yield k, width
            k += width

    def _check(self, x: s.Atomic) -> None:
        dtype = x.array.dtype
        if dtype.bits == 64 and not self._capabilities.atomics64:
            raise UnsupportedError(
                f"{x.loc}: {self._capabilities.name} has no 64-bit atomics, which {dtype} needs; "
                "use a 32-bit array"
            )
        if self._words.style == "opencl" and not self._ordered():
            self._refuse_device_order(x.order, x.scope, x)

    def _call(self, op: str, target: _Place, *arguments: str) -> str:
        """A call of the helper for this operation, type, space, order and scope."""
        name = f"pt_atomic_{op}_{target.label}"
        self._context.prelude.features.add(f"atomics{target.dtype.bits}")
        self._context.prelude.define(name, lambda: self._helper(name, op, target))
        return f"{name}({', '.join([target.pointer, *arguments])})"

    def _is_reduction(self, op: str, target: _Place) -> bool:
        """Whether PTX has an instruction for it that gives nothing back."""
        if self._words.style != "nvidia" or target.order != "relaxed" or op not in _REDUCTIONS:
            return False
        return not target.dtype.is_float or self._native_float(op, target)

    def _reduction(self, op: str, target: _Place, value: str) -> str:
        """A call of the helper for one whose value from before nobody asks for."""
        name = f"pt_atomic_{op}_{target.label}_only"
        self._context.prelude.features.add(f"atomics{target.dtype.bits}")
        self._context.prelude.define(name, lambda: self._reducing(name, op, target))
        return f"{name}({target.pointer}, {value})"

    def _reducing(self, name: str, op: str, target: _Place) -> str:
        kind = self._dialect.types[target.dtype.short]
        space, pointer = self._ptx_pointer(target)
        word, value = ("add", f"({kind})-x") if op == "sub" else (op, "x")
        meaning = f"relaxed.{self._scope(target.scope)}{space}.{_ptx_word(word, target.dtype)}"
        given = f'{pointer}, "{_letter(target.dtype)}"({value})'
        head = f"{self._dialect.function} void {name}({self._dialect.spaces[target.space]}{kind} *p"
        text = f'{self._asm}("red.{meaning} [%0], %1;" :: {given} : "memory");'
        return f"{head}, {kind} x)\n{{\n    {text}\n}}"

    def _helper(self, name: str, op: str, target: _Place) -> str:
        kind = self._dialect.types[target.dtype.short]
        space = self._dialect.spaces[target.space]
        result = "void" if op == "store" else kind
        parameters = [f"{self._volatile()}{space}{kind} *p"]
        if op == "compare_exchange":
            parameters.append(f"{kind} expected")
        if op != "load":
            parameters.append(f"{kind} x")
        head = f"{self._dialect.function} {result} {name}({', '.join(parameters)})"
        body = "\n".join(f"    {line}" for line in self._body(op, target))
        return f"{head}\n{{\n{body}\n}}"

    def _body(self, op: str, target: _Place) -> list[str]:
        if target.dtype.is_float and not self._native_float(op, target):
            return self._by_bits(op, target)
        match self._words.style:
            case "nvidia":
                return self._nvidia(op, target)
            case "opencl" if not self._ordered():
                return self._opencl1(op, target)
            case _:
                return self._c11(op, target)

    def _native_float(self, op: str, target: _Place) -> bool:
        if op != "add" or not self._capabilities.float_atomics:
            return False
        return self._words.style != "opencl" or self._ordered()

    def _by_bits(self, op: str, target: _Place) -> list[str]:
        """Floats by way of the unsigned integer with the same bits."""
        bits = next(d for d in _UNSIGNED if d.bits == target.dtype.bits)
        kind = self._dialect.types[bits.short]
        space = self._dialect.spaces[target.space]
        pointer = f"({self._volatile()}{space}{kind} *)p"
        inner = _Place(pointer, target.space, bits, target.order, target.scope)
        to_bits = self._cast_bits(target.dtype, bits)
        back = self._cast_bits(bits, target.dtype)
        if op in _REDUCTIONS:
            return self._retried(op, target, inner, to_bits, back)
        given = {"load": (), "compare_exchange": ("expected", "x")}.get(op, ("x",))
        call = self._call(op, inner, *map(to_bits.format, given))
        return [f"{call};" if op == "store" else f"return {back.format(call)};"]

    def _retried(
        self, op: str, target: _Place, inner: _Place, to_bits: str, back: str
    ) -> list[str]:
        kind = self._dialect.types[target.dtype.short]
        unsigned = self._dialect.types[inner.dtype.short]
        old, x = (Text(text, target.dtype) for text in ("old", "x"))
        new = self._expressions.text(_float_operation(op, old, x))
        relaxed = _Place(inner.pointer, inner.space, inner.dtype, "relaxed", inner.scope)
        swap = self._call("compare_exchange", inner, "seen", to_bits.format(new))
        return [
            f"{unsigned} seen = {self._call('load', relaxed)};",
            "while (true) {",
            f"    const {kind} old = {back.format('seen')};",
            f"    const {unsigned} found = {swap};",
            "    if (found == seen)",
            "        return old;",
            "    seen = found;",
            "}",
        ]

    def _cast_bits(self, source: DType, target: DType) -> str:
        return self._dialect.bitcasts[f"{source.short}.{target.short}"]

    # -- C11 --------------------------------------------------------------------------------

    def _c11(self, op: str, target: _Place) -> list[str]:
        """C11's atomics, as OpenCL 3.0 and Clang spell them."""
        kind, space = self._dialect.types[target.dtype.short], self._dialect.spaces[target.space]
        pointer, call = "p", "__hip_atomic_{}({}, {}, {})"
        if self._words.style == "opencl":
            pointer = f"(volatile {space}atomic_{kind} *)p"
            call = "atomic_{}_explicit({}, {}, {})"
        order, scope = self._order(allowed_order(op, target.order)), self._scope(target.scope)
        match op:
            case "load":
                return [f"return {call.format('load', pointer, order, scope)};"]
            case "compare_exchange":
                orders = f"{order}, {self._order(allowed_order('load', target.order))}"
                given = f"&expected, x, {orders}"
                word = "compare_exchange_strong"
                return [f"{call.format(word, pointer, given, scope)};", "return expected;"]
            case "sub" if self._words.style != "opencl":
                word, value = "fetch_add", "-x"
            case _:
                word, value = op if op in ("store", "exchange") else f"fetch_{op}", "x"
        text = call.format(word, pointer, f"{value}, {order}", scope)
        return [f"{text};" if op == "store" else f"return {text};"]

    # -- OpenCL 1.2 -------------------------------------------------------------------------

    def _opencl1(self, op: str, target: _Place) -> list[str]:
        fence = "mem_fence(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);"
        before = [fence] if target.order in ("release", "acq_rel") else []
        after = [fence] if target.order in ("acquire", "acq_rel") else []
        prefix = "atom" if target.dtype.bits == 64 else "atomic"
        kind = self._dialect.types[target.dtype.short]
        if op == "store":
            return [*before, "*p = x;"]
        word = {"exchange": "xchg", "compare_exchange": "cmpxchg"}.get(op, op)
        arguments = "p, expected, x" if op == "compare_exchange" else "p, x"
        value = "*p" if op == "load" else f"{prefix}_{word}({arguments})"
        return [*before, f"const {kind} old = {value};", *after, "return old;"]

    # -- PTX --------------------------------------------------------------------------------

    def _nvidia(self, op: str, target: _Place) -> list[str]:
        space, pointer = self._ptx_pointer(target)
        meaning = f"{allowed_order(op, target.order)}.{self._scope(target.scope)}{space}"
        letter = _letter(target.dtype)
        kind = self._dialect.types[target.dtype.short]
        width = f"b{target.dtype.bits}"
        if op == "store":
            inputs = f'{pointer}, "{letter}"(x)'
            text = f"st.{meaning}.{width} [%0], %1;"
            return [f'{self._asm}("{text}" :: {inputs} : "memory");']
        if op == "load":
            text, inputs = f"ld.{meaning}.{width} %0, [%1];", pointer
        elif op == "compare_exchange":
            text = f"atom.{meaning}.cas.{width} %0, [%1], %2, %3;"
            inputs = f'{pointer}, "{letter}"(expected), "{letter}"(x)'
        else:
            word, value = ("add", f"({kind})-x") if op == "sub" else (op, "x")
            text = f"atom.{meaning}.{_ptx_word(word, target.dtype)} %0, [%1], %2;"
            inputs = f'{pointer}, "{letter}"({value})'
        return [
            f"{kind} old;",
            f'{self._asm}("{text}" : "={letter}"(old) : {inputs} : "memory");',
            "return old;",
        ]

    def _ptx_pointer(self, target: _Place) -> tuple[str, str]:
        """The state space of a place, and its address as an operand.

        CUDA's pointers are generic, OpenCL's are addresses within their space.
        """
        if target.space == "local":
            return ".shared", f'"r"({self._dialect.shared_address.format(p="p")})'
        if self._dialect.spaces["global"]:
            return ".global", '"l"(p)'
        return ".global", '"l"(__cvta_generic_to_global(p))'


def _added(word: str, first: int, width: int) -> str:
    """The operands of an addition of numbers that follow each other."""
    places = [f"%{k + 1}" for k in range(width)]
    text = f"{{{', '.join(places)}}}" if width > 1 else places[0]
    kind = f".v{width}.f32" if width > 1 else ".f32"
    given = ", ".join(f'"f"(x{first + k})' for k in range(width))
    return f'("{word}{kind} [%0], {text};" :: "l"(at + {4 * first}), {given} : "memory");'


def _letter(dtype: DType) -> str:
    """How PTX in a program calls registers of a type."""
    return {"f32": "f", "f64": "d"}.get(dtype.short, "rl"[dtype.bits == 64])


def _float_operation(op: str, x: e.Expression, y: e.Expression) -> e.Expression:
    """What an atomic operation on floats works out, of two names."""
    match op:
        case "add" | "sub":
            return e.Binary(op, x, y)
        case "min" | "max":
            return float_extreme(op, x, y, lambda name, _: name)
        case _:
            raise UnsupportedError(f"there is no atomic {op} of floats")


def allowed_order(op: str, order: s.MemoryOrder) -> s.MemoryOrder:
    """The part of an order that a plain load or store can have."""
    if op == "load":
        return "acquire" if order in ("acquire", "acq_rel") else "relaxed"
    if op == "store":
        return "release" if order in ("release", "acq_rel") else "relaxed"
    return order


def _ptx_word(op: str, dtype: DType) -> str:
    """An atom's operation and type; addition of signed 64-bit integers exists as unsigned only."""
    if op in ("and", "or", "xor"):
        return f"{op}.b{dtype.bits}"
    if op == "exchange":
        return f"exch.b{dtype.bits}"
    if op == "add" and dtype.is_integer:
        return f"add.u{dtype.bits}"
    return f"{op}.{dtype.kind if dtype.kind != 'i' else 's'}{dtype.bits}"
