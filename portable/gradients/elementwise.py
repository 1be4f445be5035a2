"""What goes back through functions of numbers that are applied to each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from portable import lang as kl
from portable import recording
from portable.array import broadcast_to
from portable.dtypes import dtype
from portable.gradients.array_rules import summed_to
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import TapeLike, unknown
from portable.gradients.records import Gradients, OperationRecord, UnseenRecord, Value
from portable.gradients.sums import add_to, flat, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.function import arity, function
from portable.lang.kernel import Kernel, kernel
from portable.primitives import copy


@function
def _at(x: Any, i: kl.Scalar, number: bool) -> Any:
    """An element, or the number."""
    if number:
        return x
    return x[i]


@kernel
def _each_of_one(a: kl.Array, y: kl.Array, *, F: Any, NUMBERS: Any) -> None:
    """A function of each element."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]))


@kernel
def _each_of_two(a: Any, b: Any, y: kl.Array, *, F: Any, NUMBERS: Any) -> None:
    """A function of two elements, or of one and a number."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]), _at(b, i, NUMBERS[1]))


@kernel
def _each_of_three(a: Any, b: Any, c: Any, y: Any, *, F: Any, NUMBERS: Any) -> None:
    """A function of three elements, or of some and numbers."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]), _at(b, i, NUMBERS[1]), _at(c, i, NUMBERS[2]))


def elementwise(
    tape: TapeLike, function: Any, name: str, operands: Sequence[Any], result: Any
) -> None:
    """A function of numbers that is about to be applied to each element of arrays.

    Parameters
    ----------
    tape : Tape
    function : function
        In the language.
    name : str
        What the user called.
    operands : sequence
        Arrays, which broadcast, and numbers.
    result : array
        Which it is written to.
    """
    arrays = [x for x in operands if is_array(x)]
    reads, written = [tape.value(x) for x in arrays], [tape.value(result)]
    spread = any(tuple(x.shape) != tuple(result.shape) for x in arrays)
    complexes = any(dtype(x.dtype).is_complex for x in (*arrays, result))
    if not arrays or not is_real(result) or not any(map(is_real, arrays)):
        tape.record(OperationRecord(lambda g: _forget(g, written[0]), reads, written, []))
    elif len(operands) > len(_EACH) or (spread and complexes):
        why = " of complex arrays of several shapes" if spread else " of so many arrays"
        tape.record(UnseenRecord(f"{name}{why}", reads, written))
    else:
        values = iter(reads)
        given = [next(values) if is_array(x) else x for x in operands]
        through = _through_each(given, written[0], result, function)
        tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)


_EACH: Final[tuple[Kernel, ...]] = (_each_of_one, _each_of_two, _each_of_three)


def _forget(gradients: Gradients, value: Value) -> None:
    gradients.taken(value)


def _through_each(
    given: list[Any], written: Value, result: Any, function: Any
) -> Callable[[Gradients], None]:
    """What goes back through a function of each element."""
    shape = tuple(result.shape)

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        arrays: list[Any] = []
        parts: list[Any] = []
        behind: list[tuple[Any, Any]] = []
        used: set[Any] = set()
        for x in given:
            if not isinstance(x, Value):
                arrays.append(x)
                parts.append(None)
                continue
            grown = gradients.of(x) if is_real(x.array) else None
            alike = tuple(x.array.shape) == shape
            whole = x.array if alike else copy(broadcast_to(x.array, shape))
            if grown is not None and (x.memory in used or not alike):
                behind.append((grown, nought_for(whole)))
                grown = behind[-1][1]
            used.add(x.memory)
            arrays.append(flat(whole))
            last = int(dtype(x.array.dtype).is_complex)
            parts.append(None if grown is None else flat(grown, last))
        last = int(dtype(result.dtype).is_complex)
        like = flat(copy(result))
        adjoint = vjp(_EACH[len(given) - 1])[like.size]
        numbers = tuple(not isinstance(x, Value) for x in given)
        adjoint(*arrays, like, *parts, flat(total, last), F=function, NUMBERS=numbers)
        for grown, more in behind:
            add_to(grown, more if more.shape == grown.shape else summed_to(more, grown.shape))

    return through


def copied(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Copies, into a new array or a given one."""
    x = args[0]
    out = kwargs.get("out", args[1] if len(args) > 1 else None)
    if out is None:
        with recording.unwatched():
            result = function(*args, **kwargs)
        elementwise(tape, kl.positive, "copy", (x,), result)
        return result
    elementwise(tape, kl.positive, "copy", (x,), out)
    with recording.unwatched():
        return function(*args, **kwargs)


def filled(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Fills: what was there before gets no gradient."""
    elementwise(tape, kl.positive, "fill", (0.0,), args[0] if args else kwargs["out"])
    with recording.unwatched():
        return function(*args, **kwargs)


def mapped(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A function of each element of an array."""
    if len(args) != 2 or not is_array(args[1]) or arity(args[0]) != 1 or kwargs:
        return unknown(tape, function, args, kwargs, " with positions or several arrays")
    with recording.unwatched():
        result = function(*args)
    if not is_array(result):
        return unknown(tape, function, args, kwargs, " to structs")
    elementwise(tape, args[0], "map", (args[1],), result)
    return result
