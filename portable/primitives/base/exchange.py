"""Arrays of libraries that are no backend's own, in structs and tuples as well."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from portable import recording
from portable.interchange.host_arrays import MovedCall
from portable.interchange.libraries import device_elsewhere, exchanged, is_other
from portable.lang.arguments.structs import flattened, mapped

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def takes_other_libraries(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """As `portable.interchange.libraries.takes_other_libraries`, with arrays in structs as well.

    Results that are among the arguments (``out=``) are given back as what these were.
    """

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if recording.active and recording.current() is not None:
            return cast(_Result, recording.operation(call, args, kwargs))
        given = (*args, *kwargs.values())
        parts = flattened(given)
        others = on_host = False
        for x in parts:
            on_host = on_host or type(x) is np.ndarray
            others = others or is_other(x)
        away = device_elsewhere(tuple(parts), {}) if on_host and not others else None
        if not others and away is None:
            return function(*args, **kwargs)
        results: list[_Result] = []

        def of_parts(*parts: Any) -> tuple[Any, ...]:
            taken = _with_parts(given, parts)
            named = dict(zip(kwargs, taken[len(args) :], strict=True))
            results.append(function(*taken[: len(args)], **named))
            return tuple(flattened((results[0],)))

        if away is None:
            result = exchanged(of_parts, tuple(parts), {})
        else:
            result = MovedCall(away).called(of_parts, tuple(parts), {})
        return cast(_Result, _with_parts((results[0],), result)[0])

    return call


def _with_parts(like: tuple[Any, ...], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same structs and tuples around other parts."""
    rest = iter(parts)
    return mapped(like, lambda _: next(rest))
