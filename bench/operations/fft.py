"""Fourier transforms beside the array libraries' own."""

from functools import partial
from typing import Any

import numpy as np

from portable_bench.operation import Case, Operation, Run, Sizes, Verifier, Work
from portable_bench.operations.array_functions import ArrayFunction
from portable_bench.peers import Peers, in_libraries, on_host


class Fft(ArrayFunction):
    """``fft`` of rows of N complex numbers, whose parts are two inputs; ``rfft`` of one input."""

    axes = ("ROWS", "N")
    sizes = {
        "cpu": Sizes("1024x1024", full="1024x1024,1x1048576,1x99991", sweep="1x1024..4194304"),
        "gpu": Sizes("16384x1024", full="16384x1024,1x4194304,64x99991", sweep="1x1024..16777216"),
        "simulator": Sizes("2x12"),
    }
    inputs = Operation.inputs

    def work(self, case: Case) -> Work:
        count = float(self.takes * np.prod(case.size))
        return Work(2.5 * count * np.log2(case.size[1]), case.bytes(2 * count))

    def verifier(self, case: Case, *parts: Any) -> Verifier:
        exact = _of(self.name, np, *(x.astype(np.float64) for x in parts))()
        unit = np.linalg.norm(exact) * np.finfo(case.dtype.numpy).eps
        allowed = 6 * unit * (1 + np.log2(case.size[1]))
        return lambda result: float(np.linalg.norm(result - exact) / allowed)

    def prepare(self, case: Case, *parts: Any) -> Run:
        return _of(self.name, case.device.namespace(), *parts)

    def peers(self, case: Case) -> Peers:
        names = {"cuda": "cuFFT", "rocm": "rocFFT"}
        host = on_host(case, "SciPy", partial(_by_scipy, self.name))
        return host or in_libraries(case, partial(_of, self.name), names)


def _of(name: str, xp: Any, real: Any, *imag: Any, **options: Any) -> Run:
    return partial(getattr(xp.fft, name), real + 1j * imag[0] if imag else real, **options)


def _by_scipy(name: str, *parts: Any) -> Run:
    import scipy.fft

    return _of(name, scipy, *parts, workers=-1)
