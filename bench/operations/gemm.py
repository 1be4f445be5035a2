"""Matrix multiplication beside the array libraries' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float16, float32, float64
from portable.linalg import gemm
from portable.linalg.gemm import ALGORITHMS
from portable.linalg.gemm_check import ProductCheck
from portable.linalg.gemm_tunable import parse_size
from portable_bench.operation import Case, Contender, Operation, Size, Task, Work
from portable_bench.peers import Peer, libraries

__all__ = ["Gemm"]

_Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class Gemm(Operation):
    """``a @ b`` of an M x K and a K x N matrix, into an array that exists."""

    name = "gemm"
    dtypes = (float16, float32, float64)

    def sizes(self, capabilities: Capabilities) -> Sequence[Size]:
        """Squares: what a processor does in some milliseconds, and what fills a GPU."""
        edges = {"cpu": (512, 1024), "simulator": (16,)}.get(capabilities.kind, (1024, 4096))
        return [(n, n, n) for n in edges]

    def parse_size(self, text: str) -> Size:
        """``n`` for a square problem, or ``MxNxK``."""
        return parse_size(text)

    def label(self, size: Size) -> str:
        """Just n where it is square."""
        return str(size[0]) if len(set(size)) == 1 else super().label(size)

    def work(self, size: Size, dtype: DType) -> Work:
        """A multiplication and an addition per product."""
        m, n, k = size
        return Work(2.0 * m * n * k, float(dtype.itemsize * (m * k + k * n + m * n)))

    def contenders(self, case: Case) -> Sequence[Contender]:
        """Our tuned kernel, the device's own library, and NumPy where the device is a processor."""
        return [_rung(case, "auto", lambda: _operands(case, case.device)), *self._peers(case)]

    def ladder(self, case: Case) -> Sequence[Contender]:
        """Every algorithm of `portable.linalg.gemm` but "auto", which is one of them."""
        operands = cache(lambda: _operands(case, case.device))
        rungs = [name for name in ALGORITHMS if name not in ("auto", "vendor")]
        return [*(_rung(case, name, operands) for name in rungs), *self._peers(case)]

    def error(self, case: Case, result: np.ndarray[Any, Any]) -> float:
        """By the bound of `portable.linalg.gemm`: all elements, or sampled rows if it is large."""
        return _check(case.size, case.dtype).error(result)

    def _peers(self, case: Case) -> list[Contender]:
        found = libraries(case.device, case.dtype)
        return [Contender(p.name, partial(_theirs, p, case), p.device, peer=True) for p in found]


def _rung(case: Case, algorithm: str, operands: Callable[[], tuple[Any, Any]]) -> Contender:
    name = "portable" if algorithm == "auto" else algorithm
    return Contender(name, lambda: _ours(case, operands(), algorithm), case.device)


def _ours(case: Case, operands: tuple[Any, Any], algorithm: Any) -> Task:
    a, b = operands
    out = case.device.empty(case.size[:2], case.dtype)
    return Task(lambda: gemm(a, b, out=out, algorithm=algorithm), out)


def _theirs(peer: Peer, case: Case) -> Task:
    a, b = _host(case.size, case.dtype) if peer.device is None else _operands(case, peer.device)
    matmul = peer.namespace.matmul
    out = matmul(a, b)
    return Task(lambda: matmul(a, b, out=out), out)


def _operands(case: Case, device: Device) -> tuple[Any, Any]:
    a, b = _host(case.size, case.dtype)
    return device.from_numpy(a), device.from_numpy(b)


@lru_cache(maxsize=8)
def _host(size: Size, dtype: DType) -> _Arrays:
    m, n, k = size
    random = np.random.default_rng(1)
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    return a.astype(dtype.numpy), b.astype(dtype.numpy)


@lru_cache(maxsize=8)
def _check(size: Size, dtype: DType) -> ProductCheck:
    return ProductCheck(*_host(size, dtype))
