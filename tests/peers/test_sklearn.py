"""A few of scikit-learn's estimators on arrays of `portable.array`; all: `tests.peers.sklearn`."""

from __future__ import annotations

import pytest

import portable as pt
from portable.errors import DeviceError
from tests.peers import sklearn


def test_estimators_give_what_they_give_for_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    few = {"StandardScaler", "r2_score", "euclidean_distances"}
    monkeypatch.setattr(sklearn, "CASES", [x for x in sklearn.CASES if x.name in few])
    try:
        pt.device("opencl")
    except DeviceError as error:
        pytest.skip(str(error))
    assert {case.name: reason for case, reason in sklearn.outcomes("opencl")} == dict.fromkeys(
        few, ""
    )
