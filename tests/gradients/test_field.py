"""Gradients of kernels of fields that use them: beside finite differences and JAX's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gradients.field import CASES
from tests.support.differences import assert_gradients, gradients_of

WITH_JAX = sorted(name for name, case in CASES.items() if case.same is not None)


@pytest.mark.parametrize("name", CASES)
def test_beside_differences(name: str) -> None:
    case = CASES[name]
    assert_gradients("simulator", case.kernel, case.key, *case.arguments, count=1, **case.constants)


@pytest.mark.parametrize("name", WITH_JAX)
def test_beside_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    case = CASES[name]
    same, last = case.same, len(case.arguments) - 1
    assert same is not None
    seed = np.random.default_rng(1).standard_normal(case.arguments[-1].shape)
    seeds = [None] * last + [seed]
    found = gradients_of("cpu:native", case.kernel, case.key, case.arguments, seeds, case.constants)
    wanted = jax.grad(
        lambda *given: (same(jax.numpy, *given, None) * seed).sum(), argnums=tuple(range(last))
    )(*case.arguments[:-1])
    for ours, theirs in zip(found, wanted, strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
