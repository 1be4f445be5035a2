"""Mutable variables: names assigned under run-time control flow, and their types.

Of a tuple or struct each number becomes a variable of its own; what else it holds, such as dtypes,
functions and arrays, stays as it is and cannot become another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable.dtypes import DType, float32
from portable.errors import Location
from portable.lang.arguments.arguments import constant_key
from portable.lang.frontend import values as v
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_type, common_dtype, default_dtype
from portable.lang.frontend.inference import VariableType
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import constant, like, splat
from portable.lang.ir.types import ValueType, lanes_of, scalar_of, vector_type

_CONSTANTS: Final = (bool, int, float, complex, str, DType, type(None))


@dataclass(frozen=True, slots=True)
class Mutable:
    """A name that stands for a variable of the generated program."""

    key: Any
    var: e.Variable


@dataclass(frozen=True, slots=True)
class MutableComplex:
    """A complex variable: two real ones."""

    real: Mutable
    imag: Mutable


_VARIABLES: Final = (Mutable, MutableComplex)


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A name that was bound on some paths only, or only inside a block that has ended."""

    where: Location
    why: str
    hint: str = ""


def is_mutable(binding: object) -> bool:
    """Whether a binding is a variable, or a tuple or struct that holds one."""
    items = v.items_in(binding)
    return isinstance(binding, _VARIABLES) if items is None else any(map(is_mutable, items))


def is_wholly_mutable(binding: object) -> bool:
    """Whether all numbers in a binding are variables.

    A struct that only some branches change has fields that are and others that are not.
    """
    return is_mutable(binding) and not any(v.is_number(leaf) for leaf in v.leaves(binding))


def same(x: Any, y: Any) -> bool:
    """Whether two things are certainly one: the same object, equal constants, the same array."""
    if x is y:
        return True
    if isinstance(x, v.View):
        return isinstance(y, v.View) and x == y
    return isinstance(x, _CONSTANTS) and constant_key(x) == constant_key(y)


def new(builder: Builder, key: Any, name: str, sample: Any) -> Any:
    """A variable that can hold what `sample` is, or a tuple or struct of such.

    Parameters
    ----------
    builder : Builder
    key : anything
        What the variable is known by.
    name : str
        What it is called in the program.
    sample : number, Value, or tuple or struct of them
    """
    if v.items_in(sample) is not None:
        made = (
            new(builder, (key, i), name + part, item)
            for i, (part, item) in enumerate(v.labelled(sample))
        )
        return v.like(sample, made)
    if not v.is_number(sample):
        return sample
    if isinstance(sample, v.Complex | complex):
        real, imag = sample.real, sample.imag
        return MutableComplex(
            new(builder, (key, "re"), f"{name}_re", real),
            new(builder, (key, "im"), f"{name}_im", imag),
        )
    _join(builder, key, sample)
    return Mutable(key, builder.declare(name, _type(builder, key)))


def _type(builder: Builder, key: Any) -> ValueType:
    """The type that a variable is declared with in this pass."""
    info = builder.inference.variables[key]
    if not info.weak:
        return info.type
    slot = v.Slot(key)
    least = scalar_of(info.type)
    carrier = builder.inference.carrier(slot, least)
    if carrier.kind != least.kind or carrier.itemsize < least.itemsize:
        carrier = builder.inference.carriers[slot] = least
    lanes = lanes_of(info.type)
    return vector_type(carrier, lanes)


def _join(builder: Builder, key: Any, value: Any) -> None:
    """Widens what is known of a variable by one more value that it holds."""
    lanes = value.lanes if isinstance(value, v.Value) else 1
    weak = not isinstance(value, v.Value) or value.weak
    kind = default_dtype(builder, value)
    known = builder.inference.variables.get(key)
    if known is not None:
        held = v.Value(e.Variable("held", scalar_of(known.type)), known.weak)
        scalar = v.Value(e.Variable("new", kind), weak)
        if known.weak and weak:
            kind, _ = common_dtype(builder, held, scalar)
        else:
            kind, still_weak = common_dtype(builder, held, scalar)
            kind = max(kind, float32, key=lambda d: d.itemsize) if still_weak else kind
            weak = False
        lanes = max(lanes, lanes_of(known.type))
    joined = VariableType(vector_type(kind, lanes), weak)
    builder.inference.learn(key, joined)


def assign(builder: Builder, target: Any, value: Any, name: str) -> None:
    """Gives a variable a new value, widening its type where needed.

    Parameters
    ----------
    builder : Builder
    target : anything
        What `new` gave.
    value : number, Value, or tuple or struct of them
    name : str
        The user's, for errors.
    """
    if v.items_in(target) is not None:
        _assign_items(builder, target, value, name)
        return
    if not isinstance(target, _VARIABLES):
        if not same(target, value):
            builder.fail(
                f"{name} is {v.describe(target)} and cannot become {v.describe(value)} under a "
                "run-time condition"
            )
        return
    if not v.is_number(value):
        builder.fail(
            f"{name} holds a number and cannot become {v.describe(value)} under a run-time "
            "condition"
        )
    if isinstance(target, MutableComplex):
        assign(builder, target.real, value.real if not isinstance(value, v.Value) else value, name)
        imag = 0.0 if isinstance(value, v.Value) else value.imag
        assign(builder, target.imag, imag, name)
        return
    if isinstance(value, v.Complex | complex):
        builder.fail(
            f"{name} starts as a real number and cannot become complex",
            "start it as kl.complex(...)",
        )
    _join(builder, target.key, value)
    builder.emit(s.Assign(target.var, _converted(builder, value, target), builder.location))


def _assign_items(builder: Builder, target: Any, value: Any, name: str) -> None:
    if not alike(target, value):
        builder.fail(
            f"{name} holds {v.describe(target)} and cannot become {v.describe(value)} under a "
            "run-time condition"
        )
    for (part, one), item in zip(v.labelled(target), v.items_in(value) or (), strict=True):
        assign(builder, one, item, name + part)


def alike(x: Any, y: Any) -> bool:
    """Whether two things are structs of one type, or tuples of one length."""
    if isinstance(x, v.Struct) or isinstance(y, v.Struct):
        return isinstance(x, v.Struct) and isinstance(y, v.Struct) and x.kind is y.kind
    return isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y)


def _converted(builder: Builder, value: Any, target: Mutable) -> e.Expression:
    kind = target.var.type
    dtype = scalar_of(kind)
    if not isinstance(value, v.Value):
        if builder.inference.changed and dtype.is_integer:
            return constant(0, kind)  # for this pass; the next has a wider type
        number = int(value) if dtype.is_integer else value
        return splat(as_type(builder, number, dtype).expr, kind)
    builder.inference.widen(value, dtype)
    builder.meet(v.Value(target.var), value)
    if value.dtype is not dtype:
        value = v.Value(e.Cast(value.expr, vector_type(dtype, value.lanes)))
    return splat(value.expr, kind)


def read(builder: Builder, target: Any) -> Any:
    """A variable's present value."""
    if v.items_in(target) is None or not is_mutable(target):
        return _read_one(builder, target)
    return v.map_leaves(lambda leaf: _read_one(builder, leaf), target)


def _read_one(builder: Builder, target: Any) -> Any:
    if isinstance(target, MutableComplex):
        return v.Complex(_read_one(builder, target.real), _read_one(builder, target.imag))
    if not isinstance(target, Mutable):
        return target
    info = builder.inference.read(target.key)
    slots = frozenset({v.Slot(target.key)}) if info.weak else frozenset()
    return v.Value(_as_known(target.var, info), info.weak, slots)


def _as_known(var: e.Variable, info: VariableType) -> e.Expression:
    """The variable in the type that it has by now; where that is wider another pass follows."""
    if info.weak or var.type == info.type:
        return var
    kind = like(var.type, scalar_of(info.type))
    return splat(var if var.type == kind else e.Cast(var, kind), info.type)
