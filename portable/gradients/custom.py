"""Adjoints of a user's own: ``portable.custom_vjp``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from portable import recording
from portable.lang.function import Function
from portable.lang.kernel import Kernel

_own: Final[WeakKeyDictionary[Kernel, Kernel]] = WeakKeyDictionary()


class CustomFunction:
    """A function of arrays with an adjoint of its own; called like the function.

    Attributes
    ----------
    function : callable
    adjoint : callable
    """

    def __init__(self, function: Callable[..., Any], adjoint: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.adjoint = adjoint

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        recorder = recording.current() if recording.active else None
        if recorder is None:
            return self.function(*args)
        return recorder.operation(self, args, {})


def custom_vjp(forward: Any, adjoint: Any) -> Any:
    """Gives a kernel or a function of arrays an adjoint of one's own.

    Parameters
    ----------
    forward : kernel or function
        A function takes arrays and other things by position and gives a new array.
    adjoint : kernel or function
        Of a kernel: one that is launched over the same ndrange with its arguments and then their
        gradients, as `vjp` says. Of a function: takes the gradient of the result and then the
        arguments; gives a tuple of the gradients of the arguments, None for what has none.

    Returns
    -------
    kernel or CustomFunction
        The kernel itself, whose launches on a tape now take this adjoint; of a function one to be
        called in its place.

    Raises
    ------
    TypeError
        If one is a kernel and the other is not, or is a function that kernels call.
    """
    if isinstance(forward, Function):
        raise TypeError(
            f"{forward.__name__} is called in kernels, which go back through it step by step; give "
            "an adjoint to the kernel that calls it"
        )
    if isinstance(forward, Kernel) != isinstance(adjoint, Kernel) or not callable(adjoint):
        raise TypeError("the adjoint of a kernel is a kernel, that of a function a function")
    if isinstance(forward, Kernel):
        _own[forward] = adjoint
        return forward
    return CustomFunction(forward, adjoint)


def own_adjoint(kernel: Kernel) -> Kernel | None:
    """The adjoint that a kernel was given."""
    return _own.get(kernel)
