"""Prints addresses, loads and stores, with conversions between memory and register types."""

from __future__ import annotations

from typing import Final, Literal

from portable.backend.capabilities import Fault
from portable.dtypes import DType, bool_, float16
from portable.lang.emit import vectors
from portable.lang.emit.addresses import Addresses, lie_together
from portable.lang.emit.context import Code, Context, Level, wrapped
from portable.lang.emit.expressions import Expressions
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import neighbour
from portable.lang.ir.types import Array, Vector, scalar_of

_CARRIERS: Final = {2: "uint", 4: "uint2", 8: "uint4"}
_LOAD: Final = """\
{function} float{lanes} {name}({space}const half *p)
{{
    const {carrier} bits = *({space}const {found} *)p;
    return vload_half{lanes}(0, (__private const half *)&bits);
}}"""
_STORE: Final = """\
{function} void {name}({space}half *p, float{lanes} x)
{{
    {carrier} bits;
    vstore_half{lanes}_rte(x, 0, (__private half *)&bits);
    *({space}{found} *)p = bits;
}}"""


def half_mover(
    context: Context, word: Literal["load", "store"], space: str, lanes: int, aligned: int
) -> str:
    """The name of a function that loads or stores 2, 4 or 8 halves, aligned or anywhere.

    NVIDIA's ``vloada_half8`` and ``vstorea_half8`` move them one by one, at a quarter of the
    memory's speed; on private memory they are conversions between registers. PoCL 3.1 takes what
    ``vstore_half8`` is given to be aligned.

    Parameters
    ----------
    context : Context
        Where the function is declared.
    word : {"load", "store"}
    space : str
        Of the memory.
    lanes : int
    aligned : int
        0 where they may lie at any element.
    """
    carrier = found = _CARRIERS[lanes]
    name = f"pt_{word}_half{lanes}_{space}"
    if not aligned:
        name, found = f"{name}_anywhere", f"pt_any_half{lanes}"
        attribute = "__attribute__((aligned(2)))"
        context.prelude.define(found, lambda: f"typedef {carrier} {found} {attribute};")
    text = (_LOAD if word == "load" else _STORE).format(
        function=context.dialect.function,
        name=name,
        lanes=lanes,
        carrier=carrier,
        found=found,
        space=context.dialect.spaces[space],
    )
    return context.prelude.define(name, lambda: text)


_LINE = 64


class Memory:
    """Loads and stores of one kernel."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._context = expressions.context
        self._dialect = expressions.dialect
        self.addresses = Addresses(expressions)

    # -- loads ------------------------------------------------------------------------------

    def load(self, statement: s.Load) -> tuple[list[str], str]:
        """Lines to go before, and the text of the loaded value."""
        array, kind = statement.array, statement.var.type
        offset = self.addresses.offset(array, statement.index)
        if not isinstance(kind, Vector) or array.lanes > 1:
            return [], self._load_scalar(array, offset, scalar_of(kind), statement.component)
        if self._contiguous(array, statement.axis, kind.lanes):
            aligned = self._aligned(array, statement.index, kind.lanes)
            fetched = self._fetched(array, offset, statement.ahead)
            return fetched, self._load_contiguous(array, offset, kind, aligned)
        lines, places = self._places(
            array, statement.index, statement.axis, statement.var.name, kind.lanes
        )
        lanes = [
            self._load_scalar(array, location, kind.dtype, statement.component)
            for location in places
        ]
        return lines, vectors.made(self._expressions, lanes, kind)

    def _fetched(self, array: Array, offset: Code, ahead: int) -> list[str]:
        """Brings what will be loaded to a processor's caches, as Clang spells it."""
        if not ahead or not self._dialect.clang or array.space != "global":
            return []
        pointer = self.addresses.pointer(array, offset)
        return [f"__builtin_prefetch((const __global char *)({pointer} + {ahead}));"]

    def _load_scalar(self, array: Array, offset: Code, kind: DType, component: int | None) -> str:
        if array.lanes == 1 and array.dtype is bool_:
            return f"{self._element(array, offset, component)} != 0"
        if array.lanes == 1 and array.dtype is float16 and kind is not float16:
            name = self._context.array_name(array)
            return self._dialect.half_load.format(p=name, i=offset)
        return self._element(array, offset, component)

    def _element(self, array: Array, offset: Code, component: int | None) -> str:
        if self._is_forgotten(array, offset):
            memory = self._dialect.memory_type(array.dtype.real)
            pointer = self.addresses.pointer(array, offset, component)
            return f"*(const volatile __local {memory} *)({pointer})"
        return self.addresses.element(array, offset, component).text

    def _is_forgotten(self, array: Array, offset: Code) -> bool:
        """Whether plain loads may give what was stored before the latest store.

        So it is with Intel's OpenCL runtime for CPUs (2026.22.10), local memory, an index that is
        a constant, a barrier under a condition, and a function that some work-items only call. Of
        narrow elements, which no fast kernel keeps there, all loads are taken to be such, since
        indices become constant when loops are unrolled.
        """
        stale = Fault.STALE_LOCAL_LOADS in self._context.capabilities.faults
        constant = offset.text.isdecimal()
        return stale and array.space == "local" and (constant or array.dtype.itemsize < 4)

    def _load_contiguous(self, array: Array, offset: Code, kind: Vector, aligned: int) -> str:
        if self._dialect.native_vectors:
            return self._native_load(array, offset, kind, aligned)
        pointer = self.addresses.pointer(array, offset)
        helper = self._struct_helper("load", array.dtype, kind, aligned)
        return f"{helper}({pointer})"

    def _native_load(self, array: Array, offset: Code, kind: Vector, aligned: int) -> str:
        lanes, pointer = kind.lanes, self.addresses.pointer(array, offset)
        if array.dtype is float16 and kind.dtype is not float16:
            return self._half_load(array, pointer, lanes, aligned)
        memory = self._dialect.memory_type(array.dtype)
        space = self._dialect.spaces[array.space]
        if self._dialect.clang:
            order = "volatile " if self._is_forgotten(array, offset) else ""
            loaded = f"*(const {order}{space}{self._any_place(array.dtype, lanes)} *)({pointer})"
        elif not aligned:
            loaded = f"vload{lanes}(0, {pointer})"
        else:
            pieces = [
                f"*(const {space}{memory}{aligned} *)({_shifted(pointer, at)})"
                for at in range(0, lanes, aligned)
            ]
            whole = vectors.native_name(self._expressions, memory, lanes)
            loaded = pieces[0] if len(pieces) == 1 else f"({whole})({', '.join(pieces)})"
        return self._widened(array.dtype, loaded, kind)

    def _converted(self, text: str, source: str, target: str, lanes: int) -> str:
        """A native vector of one scalar type as one of another; by halves where that is needed.

        So it is where wide ones are passed wrongly, and where they have no function.
        """
        whole = vectors.native_name(self._expressions, target, lanes)
        if lanes < 16 or (lanes == 16 and not vectors.breaks_wide_calls(self._expressions)):
            return f"convert_{whole}({text})"
        given = vectors.native_name(self._expressions, source, lanes)
        name = f"pt_convert_{source}{lanes}_{target}{lanes}"
        parts = [self._converted(f"x.{part}", source, target, lanes // 2) for part in ("lo", "hi")]
        self._context.prelude.define(
            name,
            lambda: (
                f"{self._dialect.function} {whole} {name}({given} x)\n"
                f"{{\n    return ({whole})({', '.join(parts)});\n}}"
            ),
        )
        return f"{name}({text})"

    def _half_load(self, array: Array, pointer: Code, lanes: int, aligned: int) -> str:
        if lanes > 8:
            half = lanes // 2
            parts = [
                self._half_load(array, Code(_shifted(pointer, at), Level.SUM), half, aligned)
                for at in (0, half)
            ]
            whole = vectors.native_name(self._expressions, "float", lanes)
            return f"({whole})({', '.join(parts)})"
        if aligned or self._dialect.clang:
            mover = half_mover(self._context, "load", array.space, lanes, aligned)
            return f"{mover}({pointer})"
        return f"vload_half{lanes}(0, {pointer})"

    def _half_store(self, array: Array, pointer: Code, value: str, lanes: int, aligned: int) -> str:
        if lanes > 8:
            half = lanes // 2
            places = [Code(_shifted(pointer, at), Level.SUM) for at in (0, half)]
            parts = [
                self._half_store(array, position, f"({value}).{part}", half, aligned)
                for part, position in zip(("lo", "hi"), places, strict=True)
            ]
            return f"{{ {' '.join(parts)} }}"
        if aligned or self._dialect.clang:
            mover = half_mover(self._context, "store", array.space, lanes, aligned)
            return f"{mover}({pointer}, {value});"
        return f"vstore_half{lanes}_rte({value}, 0, {pointer});"

    def _any_place(self, dtype: DType, lanes: int) -> str:
        """A vector type that may lie at any element.

        CPUs load it in one instruction; PoCL loses kernels that call ``vload16`` from its cache.
        """
        memory = self._dialect.memory_type(dtype)
        vector = vectors.native_name(self._expressions, memory, lanes)
        name = f"pt_any_{memory}{lanes}"
        attribute = f"__attribute__((aligned({dtype.itemsize})))"
        return self._context.prelude.define(name, lambda: f"typedef {vector} {name} {attribute};")

    def _widened(self, dtype: DType, loaded: str, kind: Vector) -> str:
        if dtype is kind.dtype and dtype is not bool_:
            return loaded
        memory = self._dialect.memory_type(dtype)
        register = vectors.native_scalar(self._expressions, kind)
        converted = self._converted(loaded, memory, register, kind.lanes)
        return f"{converted} != 0" if dtype is bool_ else converted

    # -- stores -----------------------------------------------------------------------------

    def store(self, statement: s.Store) -> list[str]:
        """The lines of a store."""
        array, value = statement.array, statement.value
        kind = value.type
        offset = self.addresses.offset(array, statement.index)
        if not isinstance(kind, Vector) or array.lanes > 1:
            text = self._expressions.code(value)
            return [self._store_scalar(array, offset, text, statement.component, kind)]
        if self._contiguous(array, statement.axis, kind.lanes):
            aligned = self._aligned(array, statement.index, kind.lanes)
            if statement.streaming and self._may_stream(array, kind):
                return [self._stream(array, offset, value, kind)]
            return [self._store_contiguous(array, offset, value, kind, aligned)]
        return self._scatter(statement, kind)

    def _scatter(self, statement: s.Store, kind: Vector) -> list[str]:
        name = self._context.names.fresh("lanes")
        type_name = vectors.vector_name(self._expressions, kind)
        lines = [f"const {type_name} {name} = {self._expressions.text(statement.value)};"]
        before, places = self._places(
            statement.array, statement.index, statement.axis, name, kind.lanes
        )
        lines += before
        for number, location in enumerate(places):
            lane = Code(vectors.lane(self._expressions, name, number, kind))
            scalar = kind.dtype
            lines.append(
                self._store_scalar(statement.array, location, lane, statement.component, scalar)
            )
        return lines

    def _store_scalar(
        self, array: Array, offset: Code, value: Code, component: int | None, kind: object
    ) -> str:
        dtype = array.dtype
        if array.lanes == 1 and dtype is float16 and kind is not float16:
            name = self._context.array_name(array)
            return self._dialect.half_store.format(v=value, i=offset, p=name)
        target = self.addresses.element(array, offset, component)
        narrow = dtype is bool_ or (dtype.itemsize < 4 and kind is not dtype)
        if array.lanes == 1 and narrow:
            value = self._narrow(dtype, value)
        return f"{target} = {value};"

    def _narrow(self, dtype: DType, value: Code) -> Code:
        memory = self._dialect.memory_type(dtype)
        return Code(f"({memory}){wrapped(value, Level.UNARY)}", Level.UNARY)

    def _store_contiguous(
        self, array: Array, offset: Code, value: e.Expression, kind: Vector, aligned: int
    ) -> str:
        pointer = self.addresses.pointer(array, offset)
        text = self._expressions.text(value)
        if self._dialect.native_vectors:
            return self._native_store(array, pointer, text, kind, aligned)
        helper = self._struct_helper("store", array.dtype, kind, aligned)
        return f"{helper}({pointer}, {text});"

    def _may_stream(self, array: Array, kind: Vector) -> bool:
        """Whether a vector may fill a line of a processor's caches."""
        same = array.dtype is kind.dtype and array.space == "global"
        whole = array.dtype.itemsize * kind.lanes == _LINE
        return self._dialect.clang and same and whole

    def _stream(self, array: Array, offset: Code, value: e.Expression, kind: Vector) -> str:
        """A store past the caches where the vector is a whole line of them.

        Else there are two stores: compilers take two branches with the like for one plain store.
        """
        vector = vectors.vector_name(self._expressions, kind)
        scalar = self._dialect.memory_type(array.dtype)
        half = kind.lanes // 2
        anywhere = self._any_place(array.dtype, half)
        name = f"pt_stream_{kind!r}"
        self._context.prelude.define(
            name,
            lambda: (
                f"{self._dialect.function} void {name}(__global {scalar} *p, {vector} x)\n{{\n"
                f"    if ((ulong)p % {_LINE} == 0) {{\n"
                f"        __builtin_nontemporal_store(x, (__global {vector} *)p);\n"
                f"    }} else {{\n        *(__global {anywhere} *)p = x.lo;\n"
                f"        *(__global {anywhere} *)(p + {half}) = x.hi;\n    }}\n}}"
            ),
        )
        pointer = self.addresses.pointer(array, offset)
        return f"{name}({pointer}, {self._expressions.text(value)});"

    def _native_store(
        self, array: Array, pointer: Code, value: str, kind: Vector, aligned: int
    ) -> str:
        dtype, lanes = array.dtype, kind.lanes
        if dtype is float16 and kind.dtype is not float16:
            return self._half_store(array, pointer, value, lanes, aligned)
        memory = self._dialect.memory_type(dtype)
        if dtype is bool_:
            value = f"-({value})"
        if dtype is bool_ or dtype is not kind.dtype:
            register = vectors.native_scalar(self._expressions, kind)
            value = self._converted(value, register, memory, lanes)
        space = self._dialect.spaces[array.space]
        if self._dialect.clang:
            return f"*({space}{self._any_place(dtype, lanes)} *)({pointer}) = {value};"
        if aligned != lanes:
            return f"vstore{lanes}({value}, 0, {pointer});"
        whole = vectors.native_name(self._expressions, memory, lanes)
        return f"*({space}{whole} *)({pointer}) = {value};"

    # -- vectors ----------------------------------------------------------------------------

    def _contiguous(self, array: Array, axis: int, lanes: int) -> bool:
        if array.dtype.is_complex or lanes & (lanes - 1):
            return False  # three lanes are no aligned piece of anything
        return lie_together(array, axis % array.ndim, lanes)

    def _aligned(self, array: Array, index: tuple[e.Expression, ...], lanes: int) -> int:
        """Lanes of the aligned pieces that the vector may be accessed in; 0 for none."""
        if self._dialect.clang:
            return 0
        size = array.dtype.itemsize
        known = self.addresses.alignment(array, index)
        pieces = min(known // size, lanes)
        if array.dtype is float16 and self._dialect.native_vectors:
            return lanes if known >= min(16, size * lanes) else 0
        return pieces if pieces > 1 and known >= min(16, size * lanes) else 0

    def _places(
        self, array: Array, index: tuple[e.Expression, ...], axis: int, name: str, lanes: int
    ) -> tuple[list[str], list[Code]]:
        """The offsets of a vector's lanes, the first kept in a name of its own."""
        axis %= array.ndim
        if array.layout is not None and array.layout.swizzle:
            return [], [
                self.addresses.offset(array, neighbour(index, axis, lane)) for lane in range(lanes)
            ]
        first = self._context.names.fresh(f"{name}_at")
        kind = self._dialect.types[self._context.kernel.index_type.short]
        lines = [f"const {kind} {first} = {self.addresses.offset(array, index)};"]
        step = self.addresses.along(array, axis)
        places = [Code(first)]
        for lane in range(1, lanes):
            ahead = str(lane * int(step)) if step.isdigit() else f"{lane} * {step}"
            places.append(Code(f"{first} + {ahead}", Level.SUM))
        return lines, places

    def _struct_helper(self, word: str, dtype: DType, kind: Vector, aligned: int) -> str:
        """A function of the prelude that moves a struct's lanes from or to contiguous memory."""
        name = f"pt_{word}_{dtype.short}_{kind!r}" + ("_aligned" if aligned else "")
        make = self._struct_load if word == "load" else self._struct_store
        vectors.vector_name(self._expressions, kind)
        return self._context.prelude.define(name, lambda: make(name, dtype, kind, bool(aligned)))

    def _struct_load(self, name: str, dtype: DType, kind: Vector, aligned: bool) -> str:
        memory = self._dialect.memory_type(dtype)
        vector = vectors.vector_name(self._expressions, kind)
        source = "piece.element" if aligned else "p"
        lanes = [self._lane_from_memory(f"{source}[{i}]", dtype, kind) for i in range(kind.lanes)]
        lines = [f"{self._dialect.function} {vector} {name}(const {memory} *p)", "{"]
        if aligned:
            carrier, count = _carrier(dtype.itemsize * kind.lanes)
            lines += _union(carrier, count, memory, kind.lanes)
            lines += [
                f"    piece.whole[{i}] = reinterpret_cast<const {carrier} *>(p)[{i}];"
                for i in range(count)
            ]
        lines += [f"    return {vectors.made(self._expressions, lanes, kind)};", "}"]
        return "\n".join(lines)

    def _struct_store(self, name: str, dtype: DType, kind: Vector, aligned: bool) -> str:
        memory = self._dialect.memory_type(dtype)
        vector = vectors.vector_name(self._expressions, kind)
        target = "piece.element" if aligned else "p"
        lines = [f"{self._dialect.function} void {name}({memory} *p, {vector} x)", "{"]
        carrier, count = _carrier(dtype.itemsize * kind.lanes)
        if aligned:
            lines += _union(carrier, count, memory, kind.lanes)
        for i in range(kind.lanes):
            value = self._lane_to_memory(f"x.lane[{i}]", dtype, kind)
            lines.append(f"    {target}[{i}] = {value};")
        if aligned:
            lines += [
                f"    reinterpret_cast<{carrier} *>(p)[{i}] = piece.whole[{i}];"
                for i in range(count)
            ]
        return "\n".join([*lines, "}"])

    def _lane_from_memory(self, text: str, dtype: DType, kind: Vector) -> str:
        if dtype is float16 and kind.dtype is not float16:
            return self._dialect.casts["f16.f32"].format(text)
        if dtype is bool_:
            return f"{text} != 0"
        return text

    def _lane_to_memory(self, text: str, dtype: DType, kind: Vector) -> str:
        if dtype is float16 and kind.dtype is not float16:
            return self._dialect.casts["f32.f16"].format(text)
        if dtype is kind.dtype and dtype is not bool_:
            return text
        return f"({self._dialect.memory_type(dtype)}){text}"


def _shifted(pointer: Code, by: int) -> str:
    return f"{pointer} + {by}" if by else pointer.text


def _carrier(size: int) -> tuple[str, int]:
    """The built-in type and the number of pieces in which so many bytes move."""
    if size >= 16:
        return "uint4", size // 16
    return {8: "uint2", 4: "unsigned int", 2: "unsigned short"}[size], 1


def _union(carrier: str, count: int, memory: str, lanes: int) -> list[str]:
    return [
        f"    union {{ {carrier} whole[{count}]; {memory} element[{lanes}]; }} piece;",
    ]
