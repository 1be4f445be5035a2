"""Helper functions that kernels call: inlined, typed anew at each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from portable.errors import PortableError
from portable.lang.frontend.source import FunctionSource, function_source, require_plain

__all__ = ["Function", "Marked", "function"]


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
    def source(self) -> FunctionSource:
        """Its text and syntax tree."""
        return function_source(self.python)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: outside of kernels the words of the language mean nothing."""
        raise PortableError(
            f"{self.__name__} is a helper of kernels; call it inside a function marked "
            "@portable.kernel or @portable.function"
        )

    def __repr__(self) -> str:
        return f"<portable function {self.__name__}>"


def function(python: Callable[..., Any]) -> Function:
    """Marks a function for use inside kernels.

    It is inlined at every call and takes any arguments that kernels have: numbers, arrays or parts
    of them, matrices, dtypes, other functions. It may return numbers, tuples of them, or arrays.

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
