"""What is decided when a kernel is compiled; loops; printing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from portable.backend import Capabilities
from portable.errors import OutsideKernelError
from portable.lang.words.word import word

__all__ = [
    "accumulator",
    "cdiv",
    "check",
    "print",
    "range",
    "static_assert",
    "static_range",
    "target",
    "vector_range",
]

# What a kernel's author holds for certain.


@word
def check(condition: Any, message: str = "") -> None:
    """Reports work-items for which a bool does not hold, where checks are on; else costs nothing.

    The simulator always reports. Compiled kernels do with ``PORTABLE_CHECK=1`` in the environment,
    at the next synchronisation, as `portable.errors.CheckError`; the work-item goes on.
    """


# -- compile time ----------------------------------------------------------------------------------


class _Target:
    """The capabilities of the device that the kernel is compiled for, as constants.

    ``kl.target.sub_group_size``, ``kl.target.matrix_units`` and every other attribute of
    `portable.backend.Capabilities`, which says what each means; ``dir(kl.target)`` lists them.
    An ``if`` on them is decided when the kernel is compiled.
    """

    def __repr__(self) -> str:
        return "<kl.target>"

    def __dir__(self) -> list[str]:
        return [field.name for field in fields(Capabilities)]

    def __getattr__(self, name: str) -> Any:
        if name not in dir(self):
            raise AttributeError(f"kl.target has no {name}; it has {', '.join(dir(self))}")
        raise OutsideKernelError(f"kl.target.{name} has a value only inside a kernel")


target: Final = _Target()


@word
def static_range(start: int, stop: int | None = None, step: int = 1) -> Any:
    """For loops only: a range of constants whose body is repeated at compile time.

    All such loops of a kernel may come to 65536 rounds.
    """


@word
def range(start: Any, stop: Any = None, step: Any = 1, *, unroll: int = 0) -> Any:
    """For loops only: ``range`` with so many copies of the body asked for (-1: all, 1: never)."""


@word
def vector_range(start: Any, stop: Any = None, *, lanes: int, unroll: int = 0) -> Any:
    """For loops only: a range in steps of `lanes`, and what is left of it in steps of 1.

    ``for i, lanes in kl.vector_range(first, stop, lanes=8):`` makes two loops of one body, in which
    `lanes` is the constant 8 and then 1: ``kl.vload(x, i, lanes=lanes)`` is a vector in the first
    and a number in the second. With ``lanes=1`` there is one loop. `unroll` is as of `range`.
    Variables hold on from the first loop to the second, so one that the first makes a vector of is
    refused where a single number meets it in the second; `break` is, since it leaves one of two.
    """


@word
def accumulator(dtype: Any) -> Any:
    """The dtype to sum in: f32 for f16, i64 and u64 for integers, else the dtype itself."""


@word
def cdiv(x: Any, y: Any) -> Any:
    """``x / y`` rounded up, of integers that are not negative."""


@word
def static_assert(condition: bool, message: str = "") -> None:
    """Refuses to compile unless a compile-time condition holds."""


@word
def print(*pieces: Any) -> None:
    """Prints strings, numbers, tuples and structs from each work-item, for debugging.

    As Python's `print` does it puts a space between two pieces.
    """
