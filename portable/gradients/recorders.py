"""What operations tell a tape, and how most of them do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from portable import recording
from portable.gradients.records import Gradients, OperationRecord, Record, UnseenRecord, Value
from portable.gradients.sums import nought_for
from portable.lang.arguments.arguments import is_array
from portable.primitives import copy


class TapeLike(Protocol):
    """What operations tell."""

    def value(self, x: Any, *, view: bool = False) -> Value:
        """An array as it is now; `view`: it may be a view of another one that is known."""

    def record(self, record: Record) -> None:
        """Adds a record."""

    def overwrite(self, values: Sequence[Value]) -> None:
        """Keeps what is about to be overwritten."""

    def replayed(
        self, steps: Callable[..., Any], inputs: Sequence[Any], number: int, total: Any
    ) -> list[tuple[Any, Any]]:
        """Arrays that a result of some steps depends on, each with its gradient."""


def done(
    tape: TapeLike,
    through: Callable[[Gradients], None],
    reads: list[Value],
    result: Any,
    needs: list[Value],
) -> Any:
    """Records an operation that gave a new array."""
    written = [tape.value(result)]
    tape.record(OperationRecord(through, reads, written, needs))
    tape.overwrite(written)
    return result


def unknown(tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str = "") -> Any:
    """An operation without a gradient here, or in this form."""
    with recording.unwatched():
        result = function(*args, **kwargs)
    reads = [tape.value(x) for x in (*args, *kwargs.values()) if is_array(x)]
    written = [tape.value(x) for x in (result,) if is_array(x)]
    tape.record(UnseenRecord(called(function) + why, reads, written))
    tape.overwrite(written)
    return result


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
