"""The operations on networks are verified, so that a wrong one is not timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
from portable.dtypes import float32
from portable_bench import networks
from portable_bench.harness import Harness, Pace
from portable_bench.operation import Case, Operation
from portable_bench.operations.forward import Forward
from portable_bench.operations.train import Train

PACE = Pace(sample=0, cell=0, least_rounds=1, rest=0)
CASES = [(Forward(), (9, 3, 5, 2)), (Train(), (2, 8, 3, 5, 2))]


@pytest.mark.parametrize(("operation", "size"), CASES)
def test_ours_are_right(operation: Operation, size: Any) -> None:
    case = Case(portable.device("simulator"), float32, size)
    cell = Harness(PACE).measure(operation, case)
    assert not cell.failure
    assert cell.outcomes[0].name.startswith("portable")
    assert all(outcome.verified for outcome in cell.outcomes if not outcome.peer)


def test_wrong_outputs_are_found() -> None:
    given = Forward().inputs(Case(portable.device("simulator"), float32, (9, 3, 5, 2)))
    _, right = networks.forward(np, *given)
    assert networks.error_of_outputs(right, *given) <= 1
    right[4, 1] += 1e-4
    assert networks.error_of_outputs(right, *given) > 1


def test_wrong_parameters_are_found() -> None:
    given = Train().inputs(Case(portable.device("simulator"), float32, (2, 8, 3, 5, 2)))
    right = networks.adam_steps(*given, steps=2)
    error = networks.parameters_verifier(*given, steps=2)
    assert error(right) <= 1
    right[1][2] += 1e-4
    assert error(right) > 1
    assert error(given[2:]) > 1
    right[1][2] = np.nan
    assert not error(right) <= 1


def test_a_step_turned_around_by_rounding_is_no_fault() -> None:
    """Large layers have some gradients that are smaller than their rounding."""
    given = Train().inputs(Case(portable.device("simulator"), float32, (1, 16, 200, 400, 1)))
    right = networks.adam_steps(*given, steps=1)
    error = networks.parameters_verifier(*given, steps=1)
    right[0][5, 7] += 2 * networks.RATE
    assert error(right) <= 1
    right[0][:50] += 2 * networks.RATE
    assert error(right) > 10
