"""Every function beside `portable.array` runs where a device was chosen, with NumPy's arrays too.

A function that is new in `tests.support.ordinary` is tested here at once.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import pytest

import portable
from portable.array.base.defaults import is_ours
from portable.backend import Device
from portable.namespace import takes_numpys
from tests.support.ordinary.checks import difference, parts
from tests.support.ordinary.model import Case, Function
from tests.support.ordinary.others import other_functions

_DRAWS: Final = ("random.uniform", "random.normal", "random.exponential", "random.integers")
"""Which take no arrays."""

_FUNCTIONS: Final = [f for f in other_functions() if f.name not in _DRAWS]


def _case(function: Function) -> Case:
    """The smallest one of its first dtype that all devices have."""
    dtypes = [d for d in function.dtypes() if d not in ("float64", "float16", "complex64")]
    return Case(function, dtypes[0], min(function.shapes(0, whole=True), key=prod))


@pytest.mark.needs_compiler
@pytest.mark.needs_namespace
@pytest.mark.parametrize("function", _FUNCTIONS, ids=[f.name for f in _FUNCTIONS])
def test_functions_run_where_it_was_chosen(device: Device, function: Function) -> None:
    if takes_numpys(device):
        pytest.skip(f"{device.name} takes NumPy's arrays as they are")
    case = _case(function)
    operands = case.operands()
    with portable.use(device), portable.profile() as profile:
        found: list[Any] = parts(function.call(np, *operands))
    assert all(isinstance(x, np.ndarray | np.generic) for x in found)
    assert not difference([np.asarray(x) for x in found], case, operands)
    launched = {s.device for s in profile.spans if s.entry.kind == "launch"}
    assert launched <= {device.name, device.for_arrays().name}
    assert launched or not is_ours(device.for_arrays())  # another library has kernels of its own
