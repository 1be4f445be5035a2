"""Vectors of halves as GPUs move them, run on the processors that are here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from portable import lang as kl
from portable.lang.arguments.arguments import ArraySpec, Specialisation
from portable.lang.emit import generate
from portable.lang.kernel import kernel
from tests.support.compilers import (
    CUDA,
    HIP,
    OpenCLDevice,
    compile_cuda,
    compile_hip,
    cuda_missing,
    hip_missing,
    opencl_devices,
)


@kernel
def raised(x: Any, out: Any, *, LANES: int) -> None:
    """``out = x + 0.5`` in vectors."""
    i = kl.global_id(0) * LANES
    kl.vstore(out, i, kl.vload(x, i, lanes=LANES) + 0.5)


@pytest.mark.parametrize("runtime", opencl_devices(), ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("lanes", "kind"), [(2, "gpu"), (4, "gpu"), (8, "gpu"), (16, "gpu"), (16, "cpu")]
)
def test_halves_move_in_one_piece(runtime: OpenCLDevice, lanes: int, kind: Any) -> None:
    """Aligned ones on GPUs; on processors those anywhere too."""
    line = ArraySpec(kl.f16, ("unit",), aligned=kind == "gpu")
    options = raised.options
    wanted = Specialisation((line, line), (("LANES", lanes),), (1, 1, 1), False, True, options)
    able = replace(runtime.capabilities, kind=kind, vector_bytes=16)
    program = generate(raised.translated(wanted, able), able)
    place = "_anywhere(" if kind == "cpu" else "("
    for word in ("load", "store"):
        assert f"pt_{word}_half{min(lanes, 8)}_global{place}" in program.source
    values = np.linspace(-70000, 70000, 4 * lanes)
    values[:4] = np.nan, np.inf, -0.0, 2.0**-24
    with np.errstate(over="ignore"):
        a = values.astype(np.float16)
        wanted_values = (a.astype(np.float32) + np.float32(0.5)).astype(np.float16)
    found = runtime.run(program, (4,), [a, np.zeros_like(a)])[1]
    np.testing.assert_array_equal(found, wanted_values)


@kernel
def converted(x: Any, out: Any) -> None:
    i = kl.global_id(0)
    out[i] = x[i]


@pytest.mark.parametrize("native_half", [False, True])
@pytest.mark.parametrize("kind", [kl.f16, kl.bf16, kl.f8e4m3])
def test_compilers_take_doubles_as_narrow_floats(kind: Any, native_half: bool) -> None:
    arrays = tuple(ArraySpec(x, ("unit",)) for x in (kl.f64, kind))
    options = replace(converted.options, native_half=native_half)
    wanted = Specialisation(arrays, (), (64, 1, 1), False, True, options)
    for able, compiled, missing in (
        (CUDA, compile_cuda, cuda_missing()),
        (HIP, compile_hip, hip_missing()),
    ):
        program = generate(converted.translated(wanted, able), able)
        if not missing:
            compiled(program)
