"""Prints vector values: natively where the dialect has vectors, else lane by lane in helpers.

A vector of bool is a vector of ``int`` holding 0 or -1 where vectors are native, else a struct of
``bool``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from portable.backend.capabilities import Fault
from portable.dtypes import bool_
from portable.errors import UnsupportedError
from portable.lang.emit.context import (
    OPERATORS,
    Code,
    Level,
    Printer,
    Text,
    conditional,
    infix,
    negated,
    operation,
    wrapped,
)
from portable.lang.ir import expressions as e
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.types import ValueType, Vector, lanes_of, scalar_of

_SHUFFLED = "0123456789abcdef"
"""How OpenCL names lanes."""

_MOST = len(_SHUFFLED)
"""Lanes that its vectors have."""

_SAFE_BYTES = 32
_ODD = 3
"""Lanes that make no power of two of bytes."""
_Operand = tuple[str, int | None, e.Expression]


def vector_name(printer: Printer, kind: Vector) -> str:
    """The C type of a vector, its struct being defined where that is needed."""
    if printer.dialect.native_vectors:
        return native_name(printer, native_scalar(printer, kind), kind.lanes)
    name = f"{kind.dtype.short}x{kind.lanes}"
    scalar = printer.dialect.types[kind.dtype.short]
    size = 1 if kind.dtype.kind == "b" else kind.dtype.itemsize
    align = size if kind.lanes == _ODD else min(16, size * kind.lanes)
    return printer.context.prelude.define(
        name, lambda: f"struct alignas({align}) {name} {{\n    {scalar} lane[{kind.lanes}];\n}};"
    )


def native_scalar(printer: Printer, kind: Vector) -> str:
    """What the lanes of a dialect's own vector are in C.

    Parameters
    ----------
    printer : Printer
    kind : Vector
    """
    return "int" if kind.dtype is bool_ else printer.dialect.types[kind.dtype.short]


def native_name(printer: Printer, scalar: str, lanes: int) -> str:
    """The type of a dialect's own vectors of a scalar.

    OpenCL C has 16 lanes at most; Clang, which compiles for processors, has any number.

    Parameters
    ----------
    printer : Printer
    scalar : str
        Its type in C.
    lanes : int

    Raises
    ------
    UnsupportedError
        For more lanes, where the compiler is not known to be Clang.
    """
    if lanes <= _MOST:
        return f"{scalar}{lanes}"
    if not printer.dialect.clang:
        raise UnsupportedError(
            f"{printer.context.capabilities.name} has vectors of 2, 4, 8 and 16 lanes, not of "
            f"{lanes}, which CUDA, HIP and processors have; work at halves of them"
        )
    name = f"pt_{scalar}{lanes}"
    typedef = f"typedef {scalar} {name} __attribute__((ext_vector_type({lanes})));"
    return printer.context.prelude.define(name, lambda: typedef)


def lane(printer: Printer, text: str, index: int, kind: Vector) -> str:
    """One lane of the vector whose postfix text is given, as a scalar.

    Parameters
    ----------
    printer : Printer
    text : str
    index : int
    kind : Vector
    """
    if not printer.dialect.native_vectors:
        return f"{text}.lane[{index}]"
    wide = kind.lanes > _MOST
    plain = f"{text}[{index}]" if wide else f"{text}.s{_SHUFFLED[index]}"
    return f"({plain} != 0)" if kind.dtype.kind == "b" else plain


def made(printer: Printer, lanes: Sequence[str], kind: Vector) -> str:
    """A vector from the texts of its lanes.

    Parameters
    ----------
    printer : Printer
    lanes : sequence of str
    kind : Vector
    """
    name = vector_name(printer, kind)
    if not printer.dialect.native_vectors:
        return f"{name}{{{{{', '.join(lanes)}}}}}"
    if kind.dtype.kind == "b":
        lanes = [f"-(int)({text})" for text in lanes]
    return f"({name})({', '.join(lanes)})"


def structural(printer: Printer, x: e.Lane | e.Splat | e.MakeVector) -> Code:
    """Lanes, splats and vectors from scalars."""
    match x:
        case e.Lane():
            kind = x.x.type
            assert isinstance(kind, Vector)
            inner = wrapped(printer.code(x.x), Level.POSTFIX)
            return Code(lane(printer, inner, x.lane, kind))
        case e.MakeVector():
            if printer.dialect.native_vectors and _is_part(x):
                return _part(printer, x)
            if printer.dialect.native_vectors and _is_mixed(printer, x):
                return _mixed(printer, x)
            return Code(made(printer, [printer.text(i) for i in x.elements], x.type))
        case e.Splat():
            return _splat(printer, x)


def _is_part(x: e.MakeVector) -> bool:
    """Whether a vector consists of lanes of one other."""
    sources = [lane.x if isinstance(lane, e.Lane) else None for lane in x.elements]
    return isinstance(sources[0], e.Variable) and all(source == sources[0] for source in sources)


def _part(printer: Printer, x: e.MakeVector) -> Code:
    lanes = [lane for lane in x.elements if isinstance(lane, e.Lane)]
    whole = printer.code(lanes[0].x)
    if max(x.type.lanes, lanes_of(lanes[0].x.type)) > _MOST:
        places = [lane.lane for lane in lanes]
        return _shuffled(printer, f"{whole.text}, {whole.text}", places, x.type)
    chosen = "".join(_SHUFFLED[lane.lane] for lane in lanes)
    return Code(f"{wrapped(whole, Level.POSTFIX)}.s{chosen}")


def _is_mixed(printer: Printer, x: e.MakeVector) -> bool:
    """Whether a vector consists of lanes of two others of its kind, and Clang compiles it.

    Clang does for processors; lane by lane, the many instructions of it take seconds to compile.
    """
    sources = {lane.x if isinstance(lane, e.Lane) else None for lane in x.elements}
    alike = all(isinstance(v, e.Variable) and v.type == x.type for v in sources)
    plain = x.type.dtype.kind != "b"
    return printer.dialect.clang and alike and plain and len(sources) == 2


def _mixed(printer: Printer, x: e.MakeVector) -> Code:
    lanes = [lane for lane in x.elements if isinstance(lane, e.Lane)]
    first, second = dict.fromkeys(lane.x for lane in lanes)
    places = [lane.lane + (0 if lane.x == first else x.type.lanes) for lane in lanes]
    both = f"{printer.text(first)}, {printer.text(second)}"
    return _shuffled(printer, both, places, x.type)


def _shuffled(printer: Printer, both: str, places: Sequence[int], kind: Vector) -> Code:
    """Lanes of two vectors; some Clangs give them a type that has no ``.lo`` and ``.hi``."""
    lanes = f"__builtin_shufflevector({both}, {', '.join(map(str, places))})"
    return Code(f"__builtin_astype({lanes}, {vector_name(printer, kind)})")


def _splat(printer: Printer, x: e.Splat) -> Code:
    name = vector_name(printer, x.type)
    if printer.dialect.native_vectors:
        value = printer.text(x.x)
        return Code(f"({name})({f'-(int)({value})' if x.type.dtype is bool_ else value})")
    helper = f"pt_splat_{x.type!r}"
    scalar = printer.dialect.types[x.type.dtype.short]
    lanes = ", ".join(["x"] * x.type.lanes)
    printer.context.prelude.define(
        helper,
        lambda: (
            f"{printer.dialect.function} {name} {helper}({scalar} x)\n"
            f"{{\n    return {name}{{{{{lanes}}}}};\n}}"
        ),
    )
    return Code(f"{helper}({printer.text(x.x)})")


def elementwise(printer: Printer, x: e.Expression) -> Code:
    """An element-wise node with vector operands."""
    if printer.dialect.native_vectors:
        text = _in_pieces(printer, x, True) if _fragile(printer, x) else _native(printer, x)
        if text is not None:
            return text
    return _in_pieces(printer, x, False)


# -- by halves --------------------------------------------------------------------------------


def breaks_wide_calls(printer: Printer) -> bool:
    """Whether built-in functions may get vectors of over 32 bytes wrongly."""
    return Fault.WIDE_CALLS in printer.context.capabilities.faults


def _fragile(printer: Printer, x: e.Expression) -> bool:
    """Whether this calls a built-in function that is not there, or may be passed vectors wrongly.

    There is none for vectors of more than 16 lanes.
    """
    types = [x.type, *(operand.type for _, _, operand in _operand_fields(x))]
    wide = max(map(lanes_of, types)) > _MOST
    if not (wide or breaks_wide_calls(printer)):
        return False
    match x:
        case e.Binary(op=op):
            called = op in ("min", "max")
        case e.Compare():
            called = wide or scalar_of(x.x.type).bits == 64
        case e.Select():
            called = isinstance(x.condition.type, Vector)
        case e.Bitcast():
            called = wide
        case _:
            called = isinstance(x, e.Call | e.Cast)
    return called and (wide or max(map(_register_bytes, types)) > _SAFE_BYTES)


def _register_bytes(kind: ValueType) -> int:
    scalar = scalar_of(kind)
    return lanes_of(kind) * (4 if scalar.kind == "b" else scalar.itemsize)


# -- lane by lane -----------------------------------------------------------------------------


def _operand_fields(x: e.Expression) -> list[_Operand]:
    operands: list[_Operand] = []
    for field in fields(x):
        value: Any = getattr(x, field.name)
        if isinstance(value, tuple):
            operands += [(field.name, i, item) for i, item in enumerate(value)]
        elif field.name != "type" and hasattr(value, "type"):
            operands.append((field.name, None, value))
    return operands


def _label(x: e.Expression) -> str:
    """What distinguishes this node from others, without its operands; part of a C identifier."""
    match x:
        case e.Call(function=word):
            return word
        case e.Unary(op=op) | e.Compare(op=op):
            return op
        case e.Binary(op=op):
            return f"{op}_nonnegative" if x.nonnegative else op
        case e.Cast():
            return f"to_{x.type!r}" + (f"_{x.storage.short}" if x.storage else "")
        case e.Bitcast():
            return f"as_{x.type!r}"
        case _:
            return type(x).__name__.lower()


def _in_pieces(printer: Printer, x: e.Expression, halves: bool) -> Code:
    """A helper that works the lanes out one by one, or the halves of a vector."""
    operands, result = _operand_fields(x), x.type
    assert isinstance(result, Vector)

    def body() -> list[str]:
        if halves:
            nodes = [
                _part_node(x, operands, half.format, result.lanes // 2)
                for half in ("{}.lo", "{}.hi")
            ]
            whole = f"({vector_name(printer, result)})({', '.join(map(printer.text, nodes))})"
        else:
            each = [printer.text(_lane_node(printer, x, operands, i)) for i in range(result.lanes)]
            whole = made(printer, each, result)
        return [f"return {whole};"]

    return by_helper(printer, x, body)


def by_helper(printer: Printer, x: e.Expression, body: Callable[[], list[str]]) -> Code:
    """A call of a helper, whose operands are named a, b and c.

    Parameters
    ----------
    printer : Printer
    x : Expression
    body : callable
        Gives the lines of the helper.
    """
    operands = _operand_fields(x)
    types = [operand.type for _, _, operand in operands]
    name = f"pt_{_label(x)}_{'_'.join(dict.fromkeys(map(repr, types)))}"
    result = _type(printer, x.type)

    def make() -> str:
        parameters = ", ".join(f"{_type(printer, t)} {'abc'[i]}" for i, t in enumerate(types))
        head = f"{printer.dialect.function} {result} {name}({parameters})"
        return "\n".join([head, "{", *(f"    {line}" for line in body()), "}"])

    printer.context.prelude.define(name, make)
    return Code(f"{name}({', '.join(printer.text(operand) for _, _, operand in operands)})")


def _type(printer: Printer, kind: ValueType) -> str:
    if isinstance(kind, Vector):
        return vector_name(printer, kind)
    return printer.dialect.types[kind.short]


def _lane_node(
    printer: Printer, x: e.Expression, operands: list[_Operand], index: int
) -> e.Expression:
    """The scalar node of one lane, on the helper's parameters."""

    def part(text: str, kind: Vector) -> str:
        return lane(printer, text, index, kind)

    return _part_node(x, operands, part, 1)


def _part_node(
    x: e.Expression, operands: list[_Operand], part: Callable[[str, Vector], str], lanes: int
) -> e.Expression:
    """The node with each vector operand replaced by some lanes of the helper's parameter."""
    changes: dict[str, Any] = {}
    for number, (name, position, operand) in enumerate(operands):
        text, kind = "abc"[number], operand.type
        if isinstance(kind, Vector):
            text, kind = part(text, kind), _narrower(kind, lanes)
        new = Text(text, kind)
        changes[name] = new if position is None else (*changes.get(name, ()), new)
    if isinstance(x, e.Cast | e.Bitcast | e.Call):
        assert isinstance(x.type, Vector)
        changes["type"] = _narrower(x.type, lanes)
    return replace(x, **changes)


def _narrower(kind: Vector, lanes: int) -> ValueType:
    return kind.dtype if lanes == 1 else Vector(kind.dtype, lanes)


# -- native -----------------------------------------------------------------------------------


def _native(printer: Printer, x: e.Expression) -> Code | None:
    match x:
        case e.Unary():
            return _native_unary(printer, x)
        case e.Binary():
            return operation(x, printer.code(x.x), printer.code(x.y))
        case e.Compare():
            mask = infix(*OPERATORS[x.op], printer.code(x.x), printer.code(x.y))
            return _narrow_mask(mask, x.x.type)
        case e.Select():
            return _native_select(printer, x)
        case e.Cast():
            return _native_cast(printer, x)
        case e.Bitcast(type=Vector() as kind):
            return Code(f"as_{vector_name(printer, kind)}({printer.text(x.x)})")
        case e.Call():
            return _native_call(printer, x)
        case _:
            return None


def _narrow_mask(mask: Code, operands: ValueType) -> Code:
    """A comparison's mask, as wide as its operands, as a vector of int."""
    assert isinstance(operands, Vector)
    if operands.dtype.kind == "b" or operands.dtype.bits == 32:
        return mask
    return Code(f"convert_int{operands.lanes}({mask})")


def _wide_mask(printer: Printer, condition: e.Expression, kind: Vector) -> str:
    """A mask as wide as the lanes that it selects."""
    text = printer.text(condition)
    bits = 32 if kind.dtype.kind == "b" else kind.dtype.bits
    signed = {16: "short", 32: "int", 64: "long"}[bits]
    return text if bits == 32 else f"convert_{signed}{kind.lanes}({text})"


def _native_unary(printer: Printer, x: e.Unary) -> Code | None:
    if printer.hides_negatives(x):
        return None
    inner = printer.operand(x.x)
    if x.op != "neg":
        return Code(f"~{inner}", Level.UNARY)
    return negated(inner)


def _native_select(printer: Printer, x: e.Select) -> Code:
    kind = x.type
    if not isinstance(x.condition.type, Vector):
        return conditional(printer, x)
    assert isinstance(kind, Vector)
    mask = _wide_mask(printer, x.condition, kind)
    return Code(f"select({printer.text(x.y)}, {printer.text(x.x)}, {mask})")


def _native_cast(printer: Printer, x: e.Cast) -> Code | None:
    source, target = x.x.type, x.type
    assert isinstance(source, Vector)
    assert isinstance(target, Vector)
    if x.storage is not None:
        return None
    inner = printer.code(x.x)
    if source.dtype is target.dtype:
        return inner
    if target.dtype.kind == "b":
        return _narrow_mask(infix("!=", Level.EQUALITY, inner, Code("0")), source)
    name = vector_name(printer, target)
    if source.dtype.kind == "b":
        inner = Code(f"-{wrapped(inner, Level.UNARY)}", Level.UNARY)
    return Code(f"convert_{name}({inner})")


def _native_call(printer: Printer, x: e.Call) -> Code | None:
    kind = x.arguments[0].type
    assert isinstance(kind, Vector)
    template = printer.template(x.function, kind.dtype)
    simple = not template.startswith(("@", "("))
    if x.function in ("sin", "cos", "tan") and breaks_wide_calls(printer):
        return None  # PoCL 3.0 reduces the arguments of 8 lanes wrongly
    if not simple or FUNCTIONS[x.function].result != "same":
        return None
    return Code(template.format(*[printer.text(a) for a in x.arguments]))
