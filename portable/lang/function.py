"""Helper functions that kernels call: inlined, typed anew at each call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, cast

from portable.errors import OutsideKernelError
from portable.lang.arguments.arguments import constant_key, named_key
from portable.lang.frontend.source import FunctionSource, function_source, label, require_plain
from portable.lang.words.word import word_of

_MOST_HELPERS: Final = 4096


class Marked:
    """A Python function that is not called but translated: a kernel or a helper of kernels."""

    def __init__(self, python: Callable[..., Any]) -> None:
        functools.update_wrapper(self, python)
        self.python: Final = python
        self.__name__: str = python.__name__
        self.__qualname__: str = python.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: Python does not run what is marked."""
        raise NotImplementedError

    def __reduce__(self) -> str:
        """Pickled and copied like a Python function: by its name."""
        return self.__qualname__


class Function(Marked):
    """A function marked `@portable.function`; kernels take it as a compile-time argument too."""

    @property
    def label(self) -> str:
        """What messages call it: a method is named after its class too."""
        return label(self.python)

    @property
    def source(self) -> FunctionSource:
        """Its text and syntax tree."""
        return function_source(self.python)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: outside of kernels the words of the language mean nothing."""
        raise OutsideKernelError(
            f"{self.__name__} is a helper of kernels; call it inside a function marked "
            "@portable.kernel or @portable.function"
        )

    def __repr__(self) -> str:
        return f"<portable function {self.__name__}>"


def function(python: Callable[..., Any]) -> Function:
    """Marks a function for use inside kernels.

    It is inlined at every call and takes any arguments that kernels have: numbers, arrays or parts
    of them, matrices, dtypes, other functions. It may return numbers, tuples of them, or arrays.

    Functions, lambdas and methods without the mark are inlined likewise, and Python runs them
    outside of kernels. The mark says to readers that a function is written for kernels, refuses
    when it is defined what could not be inlined, and when Python calls it says so at once.

    Raises
    ------
    KernelError
        If it is no plain function, such as one that is marked already.

    Examples
    --------
    >>> import portable as pt
    >>> @pt.function
    ... def relu(x):
    ...     return kl.maximum(x, 0)
    """
    require_plain(python)
    return Function(python)


@functools.lru_cache(maxsize=_MOST_HELPERS)
def _plain_helper(python: Callable[..., Any]) -> Function:
    return Function(python)


def helper(x: Any) -> Function | None:
    """What kernels inline where this is called: it is marked, or a plain function or lambda.

    None of anything else, such as a word, a class, or what another decorator has wrapped.
    """
    if isinstance(x, Function):
        return x
    plain = inspect.isfunction(x) and not hasattr(x, "__wrapped__") and word_of(x) is None
    return _plain_helper(x) if plain else None


_settled: Final[dict[Any, Any]] = {}


def settled(x: Any) -> Any:
    """The same function for a ``def`` or lambda run again; anything else as it is.

    An operation that is given ``lambda a, b: a + b`` in a loop has one plan for all rounds by it,
    and another one for a function when a number that it names has changed.
    """
    if isinstance(x, Function):
        return _settled_mark(x)
    if not inspect.isfunction(x) or hasattr(x, "__wrapped__") or word_of(x) is not None:
        return x
    if len(_settled) >= _MOST_HELPERS:
        _settled.clear()
    key = constant_key(x)
    kept = _settled.get(key)
    return _settled.setdefault(key, _another(x)) if kept is None else kept


def _settled_mark(x: Function) -> Function:
    """Itself, or another one once what it names has changed; ours name what does not change."""
    if not isinstance(x.python, FunctionType) or str(x.__module__).startswith("portable."):
        return x
    key = x, named_key(x.python)
    if len(_settled) >= _MOST_HELPERS:
        _settled.clear()
    if key in _settled:
        return cast(Function, _settled[key])
    known = (x, None) in _settled
    _settled[x, None] = x
    return cast(Function, _settled.setdefault(key, Function(_another(x.python)) if known else x))


def _another(x: FunctionType) -> FunctionType:
    """A function that does the same, but is told apart where functions are told apart."""
    made = FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, x.__closure__)
    made.__kwdefaults__ = x.__kwdefaults__
    functools.update_wrapper(made, x)
    del made.__dict__["__wrapped__"]
    return made


def arity(x: Any) -> int:
    """How many arguments a function, or a struct that can be called, takes."""
    called = x if isinstance(x, Function) or inspect.isroutine(x) else type(x).__call__
    parameters = inspect.signature(called).parameters
    return len(parameters) - ("self" in parameters)
