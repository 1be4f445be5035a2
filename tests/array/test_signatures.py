"""Every function of the standard is there, with the standard's parameters."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import array_api_strict as strict
import pytest

import portable.array as xp

MODULES = {"": (strict, xp), "linalg": (strict.linalg, xp.linalg), "fft": (strict.fft, xp.fft)}
FUNCTIONS = [
    (space, name)
    for space, (theirs, _) in MODULES.items()
    for name in theirs.__all__
    if inspect.isfunction(getattr(theirs, name)) and "flags" not in name
]
METHODS = [name for name, f in vars(type(strict.ones(1))).items() if inspect.isfunction(f)]
PRIVATE = {"__buffer__", "__init__", "__new__", "__reduce__", "__str__"}


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; the names of positional-only ones mean nothing."""
    kinds = inspect.Parameter
    return [
        (
            "" if p.kind is kinds.POSITIONAL_ONLY else p.name,
            p.kind,
            # Strict tells "not given" from None.
            None if "UNDEF" in repr(p.default) else p.default,
        )
        for p in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("space", "name"), FUNCTIONS)
def test_functions(space: str, name: str) -> None:
    theirs, mine = (getattr(module, name) for module in MODULES[space])
    if name == "expand_dims":  # the standard's default, which strict dropped for a later version
        assert inspect.signature(mine).parameters["axis"].default == 0
        return
    assert _parameters(mine) == _parameters(theirs)


@pytest.mark.parametrize(("theirs", "mine"), MODULES.values(), ids=MODULES)
def test_other_names(theirs: ModuleType, mine: ModuleType) -> None:
    public = {n for n in theirs.__all__ if "lags" not in n} - {"__version__", "Device"}
    assert public <= set(dir(mine))


@pytest.mark.parametrize("name", [n for n in METHODS if n.strip("_") and n not in PRIVATE])
def test_methods(name: str) -> None:
    if name.startswith("_") and not name.startswith("__"):
        pytest.skip("private to array-api-strict")
    theirs, mine = getattr(type(strict.ones(1)), name), getattr(xp.Array, name)
    if name == "to_device":  # the standard has `stream` by keyword only
        assert inspect.signature(mine).parameters["stream"].kind is inspect.Parameter.KEYWORD_ONLY
    elif name == "__dlpack__":
        assert [p[0] for p in _parameters(mine)[1:]] == [p[0] for p in _parameters(theirs)[1:]]
    else:
        assert _parameters(mine) == _parameters(theirs)
