"""What parameters of kernels and functions are annotated with, and arguments given to them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
)

# What parameters of kernels and functions may be annotated with: `Array` and `Scalar`.
#
# A kernel's annotation is a promise of its author, which is checked when it is compiled for other
# types of arguments: a number where an array was promised ends with one clear error. ``kl.Array |
# None`` may be left out, ``tuple[kl.Array, ...]`` holds as many as are given. All else that stands
# there (structs, dtypes, ``int``) is for readers and type checkers.


class Array:
    """An array, or a part of one.

    Attributes
    ----------
    shape : tuple
        The extents.
    strides : tuple
        Steps between neighbours, in elements.
    dtype : DType
        Type of the elements.
    ndim : int
        The number of dimensions.
    T : array
        The same array with its dimensions in reverse.
    """

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any
    ndim: int
    T: Any

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __len__(self) -> int: ...


if TYPE_CHECKING:
    Scalar: TypeAlias = Any
else:

    class Scalar:
        """A number at run time, whose type is that of the argument."""


def mismatch(node: ast.expr | None, names: Mapping[str, Any], spec: ParameterSpec) -> str | None:
    """What a parameter was given although its annotation promises something else, in words.

    Parameters
    ----------
    node : ast.expr or None
        The annotation.
    names : mapping
        What the names in it stand for.
    spec : ParameterSpec
        The type of the argument.
    """
    if isinstance(node, ast.BinOp):
        either = [mismatch(side, names, spec) for side in (node.left, node.right)]
        return either[0] if all(either) else None
    if isinstance(node, ast.Constant) and node.value is None:
        is_none = isinstance(spec, StaticSpec) and spec.value is None
        return None if is_none else _described(spec)
    if isinstance(node, ast.Subscript) and _meant(node.value, names) is tuple:
        return _in_tuple(node.slice, names, spec)
    promised = _meant(node, names)
    if promised is Array and not isinstance(spec, ArraySpec):
        return _described(spec)
    if promised is Scalar and not _is_number(spec):
        return _described(spec)
    return None


def _in_tuple(node: ast.expr, names: Mapping[str, Any], spec: ParameterSpec) -> str | None:
    if not isinstance(spec, CompositeSpec):
        return _described(spec)
    repeated = isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_dots(node.elts[1])
    if not repeated or not isinstance(node, ast.Tuple):
        return None
    wrong = (mismatch(node.elts[0], names, item) for item in spec.items)
    return next((f"a tuple with {reason} in it" for reason in wrong if reason), None)


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _meant(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    """What a dotted name stands for; None where nothing does."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_meant(node.value, names), node.attr, None)
    return None


def _is_number(spec: ParameterSpec) -> bool:
    if isinstance(spec, StaticSpec):
        return isinstance(spec.value, int | float | complex)
    return isinstance(spec, ScalarSpec)


def _described(spec: ParameterSpec) -> str:
    if isinstance(spec, ArraySpec):
        return f"an array of {spec.dtype.name}"
    if isinstance(spec, ScalarSpec):
        return "a number"
    if isinstance(spec, CompositeSpec):
        return f"a {spec.kind.__name__}"
    return "None" if spec.value is None else f"a {type(spec.value).__name__}"


# The arguments of a call given to parameters as Python does it, fast where calls are plain.
#
# Kernels are made of thousands of calls, and `inspect.Signature.bind` goes through every parameter.

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
