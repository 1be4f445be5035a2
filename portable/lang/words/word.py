"""What makes a documented, typed function a word of the language."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar, cast

from portable.errors import OutsideKernelError
from portable.lang.arguments.parameters import Binder
from portable.lang.ir.elementwise import FUNCTIONS

_MARK: Final = "__portable_word__"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the kernel language.

    Attributes
    ----------
    name : str
        As written after ``kl.``.
    binder : Binder
        Of its parameters, which calls in kernels are checked against.
    """

    name: str
    binder: Binder


def word(function: _F) -> _F:
    """Makes a function without a body a word; called outside a kernel it raises.

    It stays a function with its signature and documentation, for `help`, editors and type checkers.
    """

    @wraps(function)
    def outside(*args: Any, **kwargs: Any) -> NoReturn:
        raise OutsideKernelError(
            f"kl.{function.__name__} has a meaning only inside a function marked @portable.kernel "
            "or @portable.function, or one that such a function calls"
        )

    setattr(outside, _MARK, Word(function.__name__, Binder(inspect.signature(function))))
    return cast(_F, outside)


def elementwise(function: _F) -> _F:
    """Makes a function of `FUNCTIONS` a word, whose documentation says how exact it is."""
    arithmetic = FUNCTIONS[function.__name__]
    accuracy = f"Within {arithmetic.ulp32:g} ulp in f32, {arithmetic.ulp64:g} in f64."
    doc = f"{function.__doc__} {accuracy if arithmetic.ulp32 else 'Exact.'}"
    if arithmetic.complex_ulp:
        doc += f" Of complex numbers within {arithmetic.complex_ulp:g} ulp of the larger part."
    function.__doc__ = doc
    return word(function)


def word_of(x: object) -> Word | None:
    """What a function is as a word; None of anything else."""
    return getattr(x, _MARK, None)
