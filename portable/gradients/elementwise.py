"""What goes back through functions of numbers that are applied to each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from portable import lang as kl
from portable import recording
from portable.array import broadcast_to
from portable.dtypes import dtype
from portable.gradients.array_rules import summed_to
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import TapeLike, unknown
from portable.gradients.records import Gradients, OperationRecord, UnseenRecord
from portable.gradients.sums import add_to, flat, nought_for
from portable.gradients.versions import Value
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import flattened, is_composite
from portable.lang.function import arity, function
from portable.lang.kernel import kernel
from portable.primitives import copy
from portable.primitives.elements import map_elements
from portable.primitives.mapping import how_to_map


@function
def _at(x: Any, i: kl.Scalar, number: bool) -> Any:
    """An element, or the number."""
    if number:
        return x
    return x[i]


@kernel
def _each(operands: tuple[Any, ...], y: kl.Array, *, F: Any, NUMBERS: Any) -> None:
    """A function of elements and numbers."""
    i = kl.global_id(0)
    y[i] = F(*[_at(operands[k], i, NUMBERS[k]) for k in range(len(NUMBERS))])


@kernel
def _spread(x: kl.Array, out: kl.Array) -> None:
    """The one element of an array in all places of another one."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = x[0]


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
    elif spread and complexes:
        tape.record(UnseenRecord(f"{name} of complex arrays of several shapes", reads, written))
    else:
        values = iter(reads)
        given = [next(values) if is_array(x) else x for x in operands]
        through = _through_each(given, written[0], result, function)
        tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)


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
            if grown is not None and (not alike or any(x.memory.overlaps(y) for y in used)):
                behind.append((grown, nought_for(whole)))
                grown = behind[-1][1]
            used.add(x.memory)
            arrays.append(flat(whole))
            last = int(dtype(x.array.dtype).is_complex)
            parts.append(None if grown is None else flat(grown, last))
        last = int(dtype(result.dtype).is_complex)
        like = flat(copy(result))
        numbers = tuple(not isinstance(x, Value) for x in given)
        operands, slopes = (tuple(arrays), like), (tuple(parts), flat(total, last))
        vjp(_each)[like.size](*operands, *slopes, F=function, NUMBERS=numbers)
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
    """A function of each element of an array, or of elements of several."""
    given = {"dtype": None, **dict(zip(("function", "x"), args, strict=False)), **kwargs}
    each, x, kind = given["function"], given["x"], given["dtype"]
    with recording.unwatched():
        result = function(each, x, dtype=kind)
    if is_array(x) and kind is None and arity(each) == 1:
        elementwise(tape, each, "map", (x,), result)
        return result
    reads = [tape.value(y) for y in flattened((x,))]
    written = [tape.value(y) for y in flattened((result,))]
    if any(dtype(y.array.dtype).is_complex for y in (*reads, *written)):
        tape.record(UnseenRecord("map of several arrays of complex numbers", reads, written))
    else:
        how = how_to_map(each, type(x) if is_composite(type(x)) else None, kind)

        def through(gradients: Gradients) -> None:
            totals = [gradients.taken(y) if is_real(y.array) else None for y in written]
            if any(y is not None for y in totals):
                _back_to_elements(gradients, how, reads, [copy(y.array) for y in written], totals)

        tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)
    return result


def summed_together(
    tape: TapeLike, function: Any, args: Any, kwargs: Any, x: Any, each: Any
) -> Any:
    """The sum of a function of elements of several arrays, or of elements and their positions."""
    with recording.unwatched():
        result = function(*args, **kwargs)
    arrays = flattened((x,))
    if not is_array(result) or any(dtype(y.dtype).is_complex for y in (*arrays, result)):
        return unknown(tape, function, args, kwargs, " to structs, or of complex numbers")
    reads, written = [tape.value(y) for y in arrays], tape.value(result)
    how = how_to_map(each, type(x) if is_composite(type(x)) else None, result.dtype)

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is not None:
            spread = nought_for(reads[0].array)
            _spread[max(1, spread.size)](total.reshape(1), flat(spread))
            _back_to_elements(gradients, how, reads, [copy(spread)], [spread])

    tape.record(OperationRecord(through, reads, [written], reads))
    tape.overwrite([written])
    return result


def _back_to_elements(
    gradients: Gradients, how: Any, reads: Sequence[Value], made: Sequence[Any], totals: Any
) -> None:
    """Adds to the gradients of arrays those by what a function made of their elements.

    Parameters
    ----------
    gradients : Gradients
    how : How
        The function.
    reads : sequence of Value
        The arrays.
    made : sequence of array
        Like what it made; they may be written.
    totals : sequence of array or None
        Their gradients.
    """
    grown = [gradients.of(x) if is_real(x.array) else None for x in reads]
    parts = tuple(None if g is None else nought_for(g) for g in grown)
    if not reads[0].array.size or all(x is None for x in parts):
        return
    arrays = tuple(x.array for x in reads), tuple(made)
    vjp(map_elements)[reads[0].array.size](*arrays, parts, tuple(totals), HOW=how, CHUNK=1)
    for total, part in zip(grown, parts, strict=True):
        if total is not None:
            add_to(total, part)
