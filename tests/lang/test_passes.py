"""How often a kernel is translated until the types of its variables are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.lang.frontend import compile as translation
from tests.support.launch import run


@pt.kernel
def typed_before_it_is_taken(x, out):
    found = 0
    if x[0] > 1:
        found = x[0]
    out[0] = kl.f64(found) + kl.f64(0.5)


@pt.kernel
def taken_before_it_is_typed(x, out):
    found = 0
    for i in range(out.shape[0]):
        out[i] = found + 2**30
        found = x[i]


@pytest.mark.parametrize(
    ("kernel", "passes", "expected"),
    [(typed_before_it_is_taken, 1, [7.5, 0]), (taken_before_it_is_typed, 2, [2**30, 2**30 + 7])],
)
def test_another_pass_follows_only_where_a_number_was_taken_for_less(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, passes: int, expected: list[float]
) -> None:
    made = []
    once = translation._pass
    monkeypatch.setattr(translation, "_pass", lambda *given: made.append(given) or once(*given))
    x, out = np.array([7, 8], np.int32), np.zeros(2)
    _, found = run(pt.device("simulator"), kernel[1, 1], x, out)
    translations = {id(inference) for *_, inference in made}
    assert len(made) == passes * len(translations)
    np.testing.assert_array_equal(found, expected)
