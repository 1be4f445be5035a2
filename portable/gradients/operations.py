"""What is done of operations that a tape is told of, by their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from portable import recording
from portable.array.fuse import Fused
from portable.conv import conv1d, conv2d, conv3d
from portable.dtypes import dtype
from portable.gradients.array_rules import ARRAY_RULES, JOINING, VIEWS
from portable.gradients.custom import CustomFunction
from portable.gradients.elementwise import copied, filled, mapped
from portable.gradients.linalg_rules import LINALG_RULES
from portable.gradients.moves import gathers, in_order, scatters
from portable.gradients.products import convolved, multiplied
from portable.gradients.recorders import TapeLike, add_shares, called, done, unknown
from portable.gradients.records import Gradients, OperationRecord, UnseenRecord, Value
from portable.gradients.reductions import reduced, scanned
from portable.lang.arguments.arguments import is_array
from portable.linalg import gemm
from portable.primitives import copy, fill, gather, reduce, scan, scatter, sort
from portable.primitives import map as map_each
from portable.primitives.base.storage import Storage


def by_rule(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A function with a rule of its own (`array_rules`, `linalg_rules`)."""
    plain = getattr(function, "__wrapped__", function)
    if plain in _JOINING and is_array(args[0]):  # its rows, one by one
        args = (tuple(args[0]), *args[1:])
    with recording.unwatched():
        result = function(*args, **kwargs)
    operands = list(_arrays_in((args, kwargs)))
    reads = [tape.value(x) for x in operands]
    results = list(result) if isinstance(result, tuple) else [result]
    seen = plain in _VIEWS
    written = [tape.value(x, view=seen) for x in results]
    if any(dtype(x.dtype).is_complex for x in (*operands, *results)):
        tape.record(UnseenRecord(f"{called(function)} of complex numbers", reads, written))
    else:
        through = _through_rule(RULES[plain], args, kwargs, (operands, reads), written)
        needs = reads if seen else [*reads, *written]
        tape.record(OperationRecord(through, reads, written, needs))
    if not seen:
        tape.overwrite(written)
    return result


def _through_rule(
    rule: Any,
    args: Any,
    kwargs: Any,
    read: tuple[list[Any], list[Value]],
    written: list[Value],
) -> Callable[[Gradients], None]:
    """What goes back by a rule."""
    several = len(written) > 1
    kept = {id(x): value for x, value in zip(*read, strict=True)}

    def then(x: Any) -> Any:
        """Arguments with arrays as they were."""
        if isinstance(x, tuple | list):
            return type(x)(map(then, x)) if type(x) in (tuple, list) else x
        return kept[id(x)].array if id(x) in kept else x

    def through(gradients: Gradients) -> None:
        totals = [gradients.taken(value) for value in written]
        if all(x is None for x in totals):
            return
        y = [value.array for value in written]
        given = {name: then(x) for name, x in kwargs.items()}
        slopes = rule(
            totals if several else totals[0], y if several else y[0], *then(args), **given
        )
        add_shares(gradients, read[1], slopes)

    return through


def _arrays_in(x: Any) -> Iterator[Any]:
    """The arrays in tuples, lists and dicts, in order."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, tuple | list):
        for item in x:
            yield from _arrays_in(item)
    elif is_array(x) and hasattr(x, "dtype"):
        yield x


def _fused(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A fused function: what goes back is what goes back through its steps."""
    fused, *given = args
    arrays = [x for x in given if is_array(x)]
    ours = all(isinstance(x, Storage) for x in arrays)
    if not ours or any(dtype(x.dtype).is_complex for x in arrays):
        why = " of complex numbers" if ours else " of another library's arrays"
        return unknown(tape, function, args, kwargs, f" ({fused.__name__}){why}")
    with recording.unwatched():
        result = function(*args)
    values = {id(x): tape.value(x) for x in arrays}
    results = list(result) if isinstance(result, tuple) else [result]
    written = [tape.value(x) for x in results]

    def through(gradients: Gradients) -> None:
        totals = [gradients.taken(value) for value in written]
        inputs = [values[id(x)].array if is_array(x) else x for x in given]
        for number, total in enumerate(totals):
            if total is None or not total.size:
                continue
            for x, share in tape.replayed(fused.__wrapped__, inputs, number, total):
                value = next(v for v in values.values() if v.array is x)
                add_shares(gradients, [value], [lambda share=share: share])  # type: ignore[misc]

    reads = list(values.values())
    tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)
    return result


def custom(tape: TapeLike, function: CustomFunction, args: Any) -> Any:
    """A function with an adjoint of its own."""
    with recording.unwatched():
        result = function.function(*args)
    values = [tape.value(x) if is_array(x) else None for x in args]
    reads = [v for v in values if v is not None]

    def shares(total: Any) -> Any:
        given = [x if v is None else v.array for x, v in zip(args, values, strict=True)]
        slopes = zip(values, function.adjoint(total, *given), strict=True)
        return [None if x is None else (lambda x=x: x) for v, x in slopes if v is not None]

    return done(tape, shares, reads, result, reads)


def _plain(x: Any) -> Any:
    return getattr(x, "__wrapped__", x)


RULES: Final = {_plain(f): rule for f, rule in (*ARRAY_RULES.items(), *LINALG_RULES.items())}
_JOINING: Final = frozenset(map(_plain, JOINING))
_VIEWS: Final = frozenset(map(_plain, VIEWS))

OPERATIONS: Final[dict[Any, Callable[[TapeLike, Any, Any, Any], Any]]] = {
    **dict.fromkeys(RULES, by_rule),
    _plain(copy): copied,
    _plain(fill): filled,
    _plain(map_each): mapped,
    _plain(reduce): reduced,
    _plain(scan): scanned,
    _plain(gather): gathers,
    _plain(scatter): scatters,
    _plain(sort): in_order,
    **dict.fromkeys(map(_plain, (conv1d, conv2d, conv3d)), convolved),
    _plain(Fused.__call__): _fused,
    gemm: multiplied,
}
"""What is done of operations that a tape is told of."""
