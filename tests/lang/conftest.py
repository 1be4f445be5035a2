"""Whatever the suite runs in the simulator is also generated and compiled as CUDA C++ and HIP C++.

CUDA goes through NVRTC one program at a time; HIP through hipcc, which is slow to start, in
batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from portable.backend import Capabilities, Device, Program
from portable.errors import UnsupportedError
from portable.lang.definition import Compiled
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.lang.signature import Specialisation
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)


class _Seen:
    """The kernels that ran, and the HIP programs still to be compiled."""

    def __init__(self) -> None:
        self.kernels: list[tuple[Kernel, Specialisation]] = []
        self.hip: dict[str, Program] = {}
        self.done: set[str] = set()


@pytest.fixture(scope="session")
def _seen() -> _Seen:
    return _Seen()


@pytest.fixture(autouse=True)
def compiled_for_gpus(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _seen: _Seen
) -> Iterator[None]:
    """After each test on the simulator, compiles for CUDA what it ran, and keeps it for HIP."""
    if "simulator" not in request.node.name:
        yield
        return
    original = Kernel._compile

    def recording(self: Kernel, wanted: Specialisation, device: Device) -> Compiled:
        _seen.kernels.append((self, wanted))
        return original(self, wanted, device)

    monkeypatch.setattr(Kernel, "_compile", recording)
    _seen.kernels.clear()
    yield
    for kernel, wanted in _seen.kernels:
        cuda = _generated(kernel, wanted, CUDA)
        if cuda is not None and cuda.source not in _seen.done and not cuda_missing():
            _seen.done.add(cuda.source)
            compile_cuda(cuda)
        hip = _generated(kernel, wanted, HIP)
        if hip is not None:
            _seen.hip.setdefault(hip.source, hip)


@pytest.fixture(scope="module", autouse=True)
def compiled_for_hip(_seen: _Seen) -> Iterator[None]:
    """At the end of each file, compiles for HIP what its tests ran."""
    yield
    programs, _seen.hip = list(_seen.hip.values()), {}
    if not hip_missing():
        compile_hip_together(programs)


def _generated(kernel: Kernel, wanted: Specialisation, target: Capabilities) -> Program | None:
    """The program for a device that is not here; None where that lacks something."""
    try:
        return generate(kernel.translated(wanted, target), target)
    except UnsupportedError:
        return None
