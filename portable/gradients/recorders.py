"""What operations tell a tape, and how most of them do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Protocol

from portable import recording
from portable.gradients.memory_of import is_real
from portable.gradients.records import Gradients, OperationRecord, Record, UnseenRecord
from portable.gradients.sums import add_to, nought_for
from portable.gradients.versions import Value
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import flattened
from portable.primitives import copy


class TapeLike(Protocol):
    """What operations tell."""

    def value(self, x: Any, *, view: bool = False) -> Value:
        """An array as it is now; `view`: one whose gradient a record hands on to another one."""

    def is_part(self, x: Any, whole: Any) -> bool:
        """Whether an array is a part of another one, whose gradient needs no record."""

    def record(self, record: Record) -> None:
        """Adds a record."""

    def need(self, values: Sequence[Value]) -> None:
        """Remembers what a gradient will need as it is now."""

    def overwrite(self, values: Sequence[Value]) -> range:
        """Keeps what is about to be overwritten."""

    def replayed(
        self, steps: Callable[..., Any], inputs: Sequence[Any], number: int, total: Any
    ) -> list[tuple[Any, Any]]:
        """Arrays that a result of some steps depends on, each with its gradient."""


Shares = Callable[[Any], Iterable[Callable[[], Any] | None]]
"""Of the gradient of a result: what works out that of each array that was read, or None."""


def done(
    tape: TapeLike, shares: Shares, reads: list[Value], result: Any, needs: list[Value]
) -> Any:
    """Records an operation that gave a new array."""
    written = tape.value(result)

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is not None and total.size:
            add_shares(gradients, reads, shares(total))

    return _recorded(tape, through, reads, written, needs)


def done_into(
    tape: TapeLike, into: Callable[[Any, Any], None], read: Value, result: Any, needs: list[Value]
) -> Any:
    """Likewise, where the gradient of the one array that was read is added to in place."""
    written = tape.value(result)

    def through(gradients: Gradients) -> None:
        total, grown = gradients.taken(written), gradients.of(read)
        if total is not None and grown is not None and total.size and grown.size:
            into(total, grown)

    return _recorded(tape, through, [read], written, needs)


def _recorded(
    tape: TapeLike,
    through: Callable[[Gradients], None],
    reads: list[Value],
    written: Value,
    needs: list[Value],
) -> Any:
    result = written.array
    tape.record(OperationRecord(through, reads, [written], needs))
    tape.overwrite([written])
    return result


def add_shares(
    gradients: Gradients, reads: Iterable[Value], shares: Iterable[Callable[[], Any] | None]
) -> None:
    """Adds to the gradients of arrays, where they are asked for."""
    for value, share in zip(reads, shares, strict=False):
        grown = gradients.of(value) if share is not None and is_real(value.array) else None
        if share is not None and grown is not None and grown.size:
            made = share()
            add_to(
                grown, made if made.dtype == grown.dtype else copy(made, nought_for(value.array))
            )


def apart(values: Sequence[Value]) -> list[Any]:
    """What values hold, in copies where it shares memory with an earlier one.

    To a tape, which goes by memory, what goes through either would be a gradient of both.
    """
    result: list[Any] = []
    for number, value in enumerate(values):
        shared = any(value.memory.overlaps(x.memory) for x in values[:number])
        result.append(copy(value.array) if shared else value.array)
    return result


def unknown(tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str = "") -> Any:
    """An operation without a gradient here, or in this form."""
    with recording.unwatched():
        result = function(*args, **kwargs)
    reads = [tape.value(x) for x in flattened((*args, *kwargs.values())) if is_plain(x)]
    written = [tape.value(x) for x in flattened((result,)) if is_plain(x)]
    tape.record(UnseenRecord(called(function) + why, reads, written))
    tape.overwrite(written)
    return result


def is_plain(x: Any) -> bool:
    """Whether something is an array with a dtype."""
    return is_array(x) and hasattr(x, "dtype")


def called(function: Any) -> str:
    """What users call a function."""
    return f"{function.__module__.rpartition('.')[0] or 'portable'}.{function.__name__}"


def three_axes(shape: tuple[int, ...], axis: int | None) -> tuple[int, int, int]:
    """What comes before an axis, along it, and after it."""
    if axis is None:
        return 1, prod(shape), 1
    at = axis % len(shape)
    return prod(shape[:at]), shape[at], prod(shape[at + 1 :])


def in_precision_of(value: Value, like: Any) -> Any:
    """An array in the precision of gradients."""
    if value.array.dtype == like.dtype:
        return value.array
    return copy(value.array, nought_for(value.array))
