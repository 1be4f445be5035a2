"""Gradients of sixty kernels of fields that use them: beside finite differences and JAX's.

Unless `PORTABLE_TEST_DEVICES` says where, they are simulated, and races looked for.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.gradients.field import CASES as FIRST
from tests.gradients.field import Case, numbers
from tests.gradients.further_field import FURTHER
from tests.gradients.test_wave import Medium, T, wave
from tests.support.devices import device_names
from tests.support.differences import assert_gradients, gradients_of

CASES = FIRST | FURTHER
CASES["wave equation"] = Case(
    wave, ((8, 8), (T, T)), (Medium(numbers(6, 7), 0.3, 0.4), 0.7, numbers(6, 7, seed=1),
    numbers(6, 7, seed=2), np.zeros((6, 7))), {"T": T},
)  # fmt: skip
WITH_JAX = sorted(name for name, case in CASES.items() if case.same is not None)
DEVICES = device_names() if os.environ.get("PORTABLE_TEST_DEVICES") else ["simulator"]


def test_there_are_sixty() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_beside_differences(name: str, where: str) -> None:
    case = CASES[name]
    assert_gradients(where, case.kernel, case.key, *case.arguments, count=1, **case.constants)


@pytest.mark.parametrize("name", WITH_JAX)
def test_beside_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    case = CASES[name]
    same, last = case.same, len(case.arguments) - 1
    assert same is not None
    seed = np.random.default_rng(1).standard_normal(case.arguments[-1].shape)
    seeds = [None] * last + [seed]
    ours = gradients_of("cpu:native", case.kernel, case.key, case.arguments, seeds, case.constants)
    wanted = jax.grad(
        lambda *given: (same(jax.numpy, *given, None) * seed).sum(), argnums=tuple(range(last))
    )(*case.arguments[:-1])
    for our, theirs in zip(ours, wanted, strict=False):
        np.testing.assert_allclose(our, theirs, rtol=1e-9, atol=1e-12)
