"""A few of SciPy's own tests on arrays of `portable.array`; all of them are `tests.peers.scipy`."""

from __future__ import annotations

import pytest

from portable import registry
from portable.errors import BackendUnavailableError
from tests.peers.scipy import run

pytest.importorskip("scipy", minversion="1.17")


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("simulator:arrays", "logsumexp", "array_api_strict and (device or shape or dtypes)"),
        ("cpu:native-arrays", "fft", "array_api_strict and TestFFT and (test_fft or test_irfft)"),
    ],
)
def test_scipys_own_tests(name: str, module: str, words: str) -> None:
    try:
        registry.device(name)
    except BackendUnavailableError as error:
        pytest.skip(str(error))
    outcome = run(name, module, ["-k", words])
    assert not outcome.failed
    assert outcome.passed
