"""Fourier transforms of complex numbers beside the array libraries' own."""

from functools import partial
from typing import Any

import numpy as np

from portable_bench.operation import Case, Operation, Run, Sizes, Verifier, Work
from portable_bench.operations.array_functions import ArrayFunction
from portable_bench.peers import Peers, in_libraries, on_host


class Fft(ArrayFunction):
    """``fft`` of rows of N complex numbers, whose parts are of the type."""

    axes = ("ROWS", "N")
    sizes = {
        "cpu": Sizes("1024x1024", full="1024x1024,1x1048576,1x99991", sweep="1x1024..4194304"),
        "gpu": Sizes("16384x1024", full="16384x1024,1x4194304,64x99991", sweep="1x1024..16777216"),
        "simulator": Sizes("2x12"),
    }
    inputs = Operation.inputs

    def work(self, case: Case) -> Work:
        rows, n = case.size
        return Work(5.0 * rows * n * np.log2(n), case.bytes(4 * rows * n))

    def verifier(self, case: Case, real: Any, imag: Any) -> Verifier:
        exact = np.fft.fft(real.astype(np.float64) + 1j * imag)
        size = np.linalg.norm(exact) * np.finfo(case.dtype.numpy).eps
        allowed = 6 * size * (1 + np.log2(case.size[1]))
        return lambda result: float(np.linalg.norm(result - exact) / allowed)

    def prepare(self, case: Case, real: Any, imag: Any) -> Run:
        return _transform(case.device.namespace(), real, imag)

    def peers(self, case: Case) -> Peers:
        names = {"cuda": "cuFFT", "rocm": "rocFFT"}
        return on_host(case, "SciPy", _by_scipy) or in_libraries(case, _transform, names)


def _transform(xp: Any, real: Any, imag: Any) -> Run:
    return partial(xp.fft.fft, real + 1j * imag)


def _by_scipy(real: Any, imag: Any) -> Run:
    from scipy import fft

    return partial(fft.fft, real + 1j * imag, workers=-1)
