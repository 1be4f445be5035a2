"""Matrix multiplication beside the array libraries' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float16, float32, float64
from portable.linalg import gemm
from portable.linalg.gemm import ALGORITHMS
from portable_bench.operation import Case, Contender, Operation, Size, Task, Work
from portable_bench.peers import Peer, libraries
from portable_bench.verify import unit_roundoff, worst_error

__all__ = ["Gemm"]

_FULL: Final = 1024
_SAMPLED: Final = 128
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
        extents = tuple(int(part) for part in text.lower().split("x"))
        if len(extents) not in (1, 3) or min(extents) < 1:
            raise ValueError("expected n or MxNxK, such as 1024 or 512x1024x256")
        return extents * 3 if len(extents) == 1 else extents

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
        """Elementwise by ``4 (K u_acc + u_out) |A| |B|``: all elements, or sampled rows."""
        rows, exact, magnitude = _reference(case.size, case.dtype)
        k = case.size[2]
        allowed = 4 * (k * unit_roundoff(case.dtype.register) + unit_roundoff(case.dtype))
        worst = worst_error(result[rows].astype(np.float64), exact, allowed * magnitude)
        if case.dtype is float64:
            i, j, longer, sizes = _entries(case.size, case.dtype)
            worst = max(worst, worst_error(result[i, j], longer, allowed * sizes))
        return worst

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
def _reference(size: Size, dtype: DType) -> tuple[Any, Any, Any]:
    """Which rows are compared, their exact values, and the same of the absolute values."""
    a, b = (x.astype(np.float64) for x in _host(size, dtype))
    rows: Any = slice(None)
    if max(size) > _FULL:
        count = min(_SAMPLED, size[0])
        rows = np.sort(np.random.default_rng(2).choice(size[0], count, replace=False))
    return rows, a[rows] @ b, np.abs(a[rows]) @ np.abs(b)


@lru_cache(maxsize=8)
def _entries(size: Size, dtype: DType) -> tuple[Any, Any, Any, Any]:
    """Sampled elements in a type longer than double precision, where the machine has one."""
    a, b = _host(size, dtype)
    random = np.random.default_rng(3)
    i, j = (random.integers(0, extent, _SAMPLED) for extent in size[:2])
    products = a[i].astype(np.longdouble) * b[:, j].T.astype(np.longdouble)
    return i, j, products.sum(1), np.abs(products).sum(1)
