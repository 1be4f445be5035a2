"""Adjoints as programs of devices that are not here, and without races under their profiles."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend.capabilities import INTEL_CPU
from portable.errors import KernelError, PortableError
from portable.lang.emit import generate
from portable.lang.ir import statements as s
from portable.lang.ir.walks import all_statements
from tests.gradients import test_loops as loops
from tests.gradients import test_straight_line as straight
from tests.gradients.further_field import product_by_tiles
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing
from tests.support.differences import assert_gradients

N = 19
x, y = loops.numbers(N), loops.numbers(N, seed=1)
CASES: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "saxpy": (straight.saxpy, 64, (1.5, x, y), {}),
    "branches": (straight.branches, 64, (straight.Shape(0.61, 1.7), x, np.zeros(N)), {}),
    "stencil": (straight.stencil, ((16, 16), None), (loops.numbers(9, 7), np.zeros((9, 7))), {}),
    "logistic": (loops.logistic, N, (2.9, x, 5, np.zeros(N)), {}),
    "newton": (loops.newton, N, (loops.numbers(N, low=1.5, high=9), np.zeros(N)), {}),
    "in_place": (loops.in_place, N, (x, y), {}),
    "softmax": (loops.softmax, (pt.groups(5), 64), (loops.numbers(5, 64), np.zeros((5, 64))), {}),
    "scans": (loops.scans, (pt.groups(3), 64), (loops.numbers(3, 64), np.zeros((3, 64))), {}),
    "sub_groups": (loops.sub_groups, (64, 64), (loops.numbers(64), np.zeros(64)), {}),
    "tiles": (
        loops.tiles,
        ((8, 8), (4, 4)),
        (loops.numbers(7, 10), loops.numbers(10, 6), np.zeros((7, 6))),
        {"T": 4},
    ),
}


@pytest.mark.parametrize("profile", ["simulator:h200", "simulator:mi300"])
@pytest.mark.parametrize("case", CASES)
def test_no_races_under_profiles(case: str, profile: str) -> None:
    try:
        pt.device(profile)
    except PortableError as error:
        pytest.skip(str(error))
    kernel, key, args, constants = CASES[case]
    assert_gradients(profile, kernel, key, *args, count=1, **constants)


@pytest.mark.parametrize("case", CASES)
def test_adjoints_compile(case: str) -> None:
    missing = cuda_missing()
    if missing:
        pytest.skip(missing)
    kernel, key, args, constants = CASES[case]
    for ir in _adjoint(kernel, key, args, constants, CUDA):
        compile_cuda(generate(ir, CUDA))


@pytest.mark.parametrize("case", ["sub_groups", "newton"])
def test_adjoints_compile_for_hip(case: str) -> None:
    missing = hip_missing()
    if missing:
        pytest.skip(missing)
    kernel, key, args, constants = CASES[case]
    for ir in _adjoint(kernel, key, args, constants, HIP):
        compile_hip(generate(ir, HIP))


@pt.kernel
def times_the_first(s, x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = s[0] * x[i]


def test_adjoints_shuffle_nothing_where_compilers_lose_lanes() -> None:
    """Their own sums go by local memory, and what the kernel shuffles."""
    args = loops.numbers(1), x, np.zeros(N)
    sound = replace(CUDA, dialect="opencl", kind="cpu", vendor="intel", pointer_offsets=True)
    for case in ((times_the_first, (N, 64), args, {}), CASES["sub_groups"]):
        for capabilities in (sound, replace(sound, faults=INTEL_CPU)):
            programs = _adjoint(*case, capabilities)
            text = "".join(generate(ir, capabilities).source for ir in programs)
            assert ("sub_group_" in text) == (capabilities is sound)
            assert "barrier(" in text or capabilities is sound


@pt.kernel
def shuffles_in_a_branch(x, out):
    i = kl.global_id(0)
    total = x[i]
    if kl.sub_group_id() == 0:
        total = kl.sub_group_reduce_add(total * total)
    out[i] = total


def test_adjoints_of_tiles_are_in_registers_where_nobody_else_sees_them() -> None:
    a = np.zeros((8, 8))
    case = ((8, 8), (4, 4)), (a, a.copy(), a.copy()), {"T": 4}
    ir = _adjoint(product_by_tiles, *case, CUDA)[0]
    arrays = sorted(x.name.rstrip("0123456789_") for x in ir.arrays)
    assert arrays == ["d_total_of", "local", "local"]
    assert sum(isinstance(x, s.Barrier) for x in all_statements(ir.body)) == 5
    ir = _adjoint(loops.tiles, *case, CUDA)[0]
    assert sorted(x.name for x in ir.arrays) == ["d_acc_of", "d_ta", "ta", "tb"]


def test_shuffles_of_some_sub_groups_are_refused_there() -> None:
    case = shuffles_in_a_branch, (64, 64), (x[:64], np.zeros(64)), {}
    capabilities = replace(CUDA, dialect="opencl", kind="cpu", vendor="intel")
    assert _adjoint(*case, capabilities)
    with pytest.raises(KernelError, match=r"(?s)may not be reached.*called at .*test_compiled.py"):
        _adjoint(*case, replace(capabilities, faults=INTEL_CPU))


_PROGRAM = """
from hashlib import sha256
from portable.lang.emit import generate
from tests.gradients.test_compiled import CUDA, _adjoint
from tests.gradients.test_users_kernels import CASES
case = CASES["units of a long short-term memory"]
made = _adjoint(case.kernel, case.key, case.arguments, case.constants, CUDA)
print(sha256("".join(generate(ir, CUDA).source for ir in made).encode()).hexdigest())
"""


def test_adjoints_are_the_same_in_each_process() -> None:
    """Else what another one compiled would not be found on the disk."""
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def _adjoint(
    kernel: Any, key: Any, args: tuple[Any, ...], constants: dict[str, Any], capabilities: Any
) -> list[Any]:
    """The IR of an adjoint, and of what measures it, for a device that is not here."""
    from portable.gradients.adjoint.assemble import Gradient, How, adjoint_of
    from portable.gradients.adjoint.names import Names
    from portable.gradients.arguments import views_of
    from portable.gradients.derived import in_plain_words
    from portable.lang.arguments.structs import flattened
    from portable.lang.ir.types import Array

    device = pt.device("cpu:native")
    wanted = kernel[key].specialised(device, args, views_of(device, flattened(args)), constants)
    wanted = replace(wanted, options=replace(wanted.options, whole_reductions=True))
    ir = in_plain_words(kernel.translated(wanted, capabilities), capabilities)
    names = Names(ir)
    gradients = []
    for p in ir.parameters:
        if isinstance(p, Array) and p.dtype.is_float:
            own = Array(names.fresh(f"d_{p.name}"), p.dtype, "global", p.ndim, strides=p.strides)
            gradients.append(Gradient(p.name, own))
    found = adjoint_of(ir, gradients, How(2))
    measures = [] if found.measure is None else [found.measure]
    return [found.kernel, *measures, *(x.kernel for x in found.gathers)]
