"""NumPy's functions of arrays that live on devices, by this package's functions and methods.

``np.sqrt(x)`` and ``np.sum(x, axis=0)`` find an array's own functions through the protocols of
NumPy's NEP 13 and NEP 18, as they do for CuPy's arrays. What has no equal here, and what would mix
arrays of the host with those of a device, raises a TypeError that says what to do; nothing is
copied to the host unasked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from portable.array.base import conversion
from portable.array.base.engine import apply
from portable.array.base.operations import OF_UFUNCS, OPERATIONS
from portable.primitives.base.storage import Storage

_OPERANDS: Final = (Storage, int, float, complex)
_ATTRIBUTES: Final = ("imag", "ndim", "real", "shape", "size")
_METHODS: Final = (
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "clip",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
)
"""Functions that arrays have as methods with NumPy's parameters, not the standard's."""
_SYNONYMS: Final = {"amax": "max", "amin": "min", "around": "round", "concatenate": "concat"}
_DO: Final = (
    "portable.array and portable.numerics have functions of such arrays, "
    "portable.to_numpy(x) makes NumPy's of them, and portable.array.implements registers your own"
)


_registered: Final[dict[Any, Callable[..., Any]]] = {}

_F = TypeVar("_F", bound=Callable[..., Any])


def implements(function: Callable[..., Any]) -> Callable[[_F], _F]:
    """Marks a function as what one of NumPy's does to arrays of `portable.array`.

    It takes the arguments that NumPy's was given, and comes before what these arrays do otherwise.
    (NumPy calls functions so by its NEP 18, ufuncs by NEP 13.)

    Parameters
    ----------
    function : function or ufunc
        Of NumPy, such as ``numpy.nanmax``.

    Returns
    -------
    decorator
        Which gives the function that it marks back.

    Raises
    ------
    TypeError
        If NumPy calls nothing in its place.

    Examples
    --------
    >>> import numpy as np
    >>> import portable.array as xp
    >>> @xp.implements(np.ptp)
    ... def spread(x, axis=None):
    ...     return xp.max(x, axis=axis) - xp.min(x, axis=axis)
    """
    if not isinstance(function, np.ufunc) and not hasattr(function, "_implementation"):
        raise TypeError(f"{function!r} is no function of NumPy's that others may implement")

    def register(implementation: _F) -> _F:
        _registered[function] = implementation
        return implementation

    return register


class NumPyFunctions:
    """What NumPy asks of arrays that are given to its functions, and to operators beside its own.

    For a class with the attributes and methods of `portable.array.Array`.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """One of NumPy's element-wise functions, its operators among them."""
        if method == "__call__" and ufunc in _registered:
            return _registered[ufunc](*inputs, **options)
        name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        operands = tuple(x.item() if isinstance(x, np.generic) else x for x in inputs)
        for x in (*operands, *options.get("out", ())):
            if isinstance(x, np.ndarray):
                raise TypeError(_mixed(name, self))
        if not all(isinstance(x, _OPERANDS) for x in operands):
            return NotImplemented
        if method == "__call__" and options.keys() == {"dtype"} and options["dtype"] is not None:
            wanted = options.pop("dtype")
            operands = tuple(x.astype(wanted) if hasattr(x, "astype") else x for x in operands)
        if method == "__call__" and not options:
            if ufunc is np.matmul:
                return _namespace("numpy").matmul(*operands)
            operation = OPERATIONS.get(OF_UFUNCS.get(ufunc.__name__, ufunc.__name__))
            if operation is not None:
                return apply(operation, *operands)
        raise TypeError(_missing(name, self, options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Another of NumPy's functions."""
        if not all(issubclass(t, Storage | np.ndarray) for t in types):
            return NotImplemented
        if function in _registered:
            return _registered[function](*args, **options)
        name = f"{function.__module__}.{function.__name__}"
        ours = _found(function, args)
        if ours is None or not _takes(ours, args, options):
            raise TypeError(_missing(name, self, options))
        return ours(*args, **options)


def _namespace(module: str) -> Any:
    """Where the functions of one of NumPy's modules are here."""
    namespace: Any = conversion.namespace(None)
    for part in module.split(".")[1:]:
        namespace = getattr(namespace, part, None)
    return namespace


def _found(function: Any, args: Any) -> Callable[..., Any] | None:
    """What does the same to arrays of this package; None if there is nothing."""
    name = _SYNONYMS.get(function.__name__, function.__name__)
    if function.__module__ == "numpy" and args and isinstance(args[0], Storage):
        if name in _ATTRIBUTES:
            return lambda x: getattr(x, name)
        if name == "transpose":
            return lambda a, axes=None: a.transpose(axes)
        if name in _METHODS:
            return getattr(type(args[0]), name, None)
    space = _namespace(function.__module__)
    return getattr(space, name, None) if name in getattr(space, "__all__", ()) else None


def _takes(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a function, or a method that hands its options on, has parameters for these."""
    declared, whole = inspect.signature(function, follow_wrapped=False), inspect.signature(function)
    try:
        declared.bind(*args, **options)
    except TypeError:
        return False
    return options.keys() <= {*declared.parameters, *whole.parameters}


def _mixed(name: str, x: Any) -> str:
    """What cannot be done for arrays in two places, and what can."""
    return (
        f"{name} of an array of {x.device.name} and one of NumPy's, on the host: bring them to one "
        f"place, by portable.asarray(y, device={x.device.name!r}) or portable.to_numpy(x)"
    )


def _missing(name: str, x: Any, options: Any) -> str:
    """What cannot be done, and what can."""
    given = f" with {', '.join(options)}" if options else ""
    return f"{name}{given} is not among NumPy's functions of arrays of {x.device.name}; {_DO}"
