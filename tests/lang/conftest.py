"""Whatever the suite runs in the simulator is also generated and compiled as CUDA C++ and HIP C++.

Compilers that are slow to start are given many programs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from portable.backend import Capabilities, Device, Program
from portable.errors import UnsupportedError
from portable.lang.arguments.arguments import Specialisation
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import Compiled
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda_together,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)

_MANY: Final = 60
"""Programs: hipcc takes as long to begin as over so many small ones."""


class _Seen:
    """The kernels that ran, and the programs still to be compiled, by their sources."""

    def __init__(self) -> None:
        self.kernels: list[tuple[Kernel, Specialisation]] = []
        self.cuda: dict[str, Program] = {}
        self.hip: dict[str, Program] = {}
        self.done: set[str] = set()

    def keep(self) -> None:
        """Generates what ran, unless it was compiled before."""
        for kernel, wanted in self.kernels:
            for target, programs in ((CUDA, self.cuda), (HIP, self.hip)):
                program = _generated(kernel, wanted, target)
                if program is not None and program.source not in self.done:
                    programs[program.source] = program
        self.kernels.clear()

    def compile_for_cuda(self) -> None:
        """Compiles what was kept."""
        self._compile(self.cuda, cuda_missing(), compile_cuda_together)

    def compile_for_hip(self) -> None:
        """Compiles what was kept."""
        self._compile(self.hip, hip_missing(), compile_hip_together)

    def _compile(
        self,
        programs: dict[str, Program],
        missing: str,
        together: Callable[[Sequence[Program]], None],
    ) -> None:
        given = list(programs.values())
        self.done.update(programs)
        programs.clear()
        if not missing:
            together(given)


@pytest.fixture(scope="session")
def _seen() -> Iterator[_Seen]:
    seen = _Seen()
    yield seen
    seen.compile_for_hip()


@pytest.fixture(autouse=True)
def generated_for_gpus(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _seen: _Seen
) -> Iterator[None]:
    """After each test on the simulator, generates what it ran for CUDA and HIP."""
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
    _seen.keep()


@pytest.fixture(scope="module", autouse=True)
def compiled_for_gpus(_seen: _Seen) -> Iterator[None]:
    """At the end of each file, compiles what its tests ran; for HIP, once there is enough."""
    yield
    _seen.compile_for_cuda()
    if len(_seen.hip) >= _MANY:
        _seen.compile_for_hip()


def _generated(kernel: Kernel, wanted: Specialisation, target: Capabilities) -> Program | None:
    """The program for a device that is not here; None where that lacks something."""
    try:
        return generate(kernel.translated(wanted, target), target)
    except UnsupportedError:
        return None
