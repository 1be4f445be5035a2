"""The arguments of a call given to parameters as Python does it, fast where calls are plain.

Kernels are made of thousands of calls, and `inspect.Signature.bind` goes through every parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

_MOST_KNOWN: Final = 2**14
_PLAIN: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Binder:
    """Binds arguments to the parameters of one function.

    Attributes
    ----------
    signature : inspect.Signature
        The function's.
    names : tuple of str
        Of its parameters, in their order.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature: Final = signature
        parameters = signature.parameters
        self.names: Final = tuple(parameters)
        self._positional = [n for n, p in parameters.items() if p.kind is _PLAIN[0]]
        self._defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        self._all = frozenset(parameters)
        self._needed = self._all - self._defaults.keys()
        self._plain = all(p.kind in _PLAIN for p in parameters.values())

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What each parameter is given, and the defaults of those that are given nothing.

        Raises
        ------
        TypeError
            As Python's own where the arguments do not fit.
        """
        given = self._plainly_bound(args, kwargs)
        if given is not None:
            return given, {n: x for n, x in self._defaults.items() if n not in given}
        bound = self.signature.bind(*args, **kwargs)
        given = dict(bound.arguments)
        bound.apply_defaults()
        return given, {n: x for n, x in bound.arguments.items() if n not in given}

    def _plainly_bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """What parameters are given in a plain call; None where it takes more than a look."""
        if not self._plain or len(args) > len(self._positional):
            return None
        given = dict(zip(self._positional, args, strict=False))
        if kwargs:
            if not given.keys().isdisjoint(kwargs):
                return None
            given.update(kwargs)
        fits = self._needed <= given.keys() <= self._all
        return given if fits else None


@lru_cache(_MOST_KNOWN)
def binder_of(function: Callable[..., Any]) -> Binder:
    """That of a function or class.

    Raises
    ------
    TypeError, ValueError
        As `inspect.signature` does.
    """
    return Binder(inspect.signature(function))
