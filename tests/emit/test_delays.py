"""Pseudo-random delays around what synchronises: where they stand, what they leave as it is."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import portable as pt
from portable import dtypes as dt
from portable import lang as kl
from portable.backend import Capabilities
from portable.errors import LaunchError
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from tests.linalg.test_gemm_sources import HOPPER, wanted
from tests.support import irbuilder as ir
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip,
    cuda_missing,
    hip_missing,
    opencl_devices,
)
from tests.support.llvm import Runtime, devices

VARIABLE = "PORTABLE_PERTURB"
CPU = replace(HIP, dialect="opencl", kind="cpu", vendor="any", local_memory_dedicated=False)
NVIDIAS_OPENCL = replace(CUDA, dialect="opencl")
TARGETS = {"cuda": CUDA, "hip": HIP, "cpu": CPU, "nvidia": NVIDIAS_OPENCL}
OURS = re.compile(r"pt_delay\(|const \w+(?: \w+)? delay_own = |delay_round\d+( = |;)")


def reversing() -> Kernel:
    """Each workgroup turns its 32 elements round four times, and counts them."""
    x, count = ir.array("x", dt.int32), ir.array("count", dt.int32)
    tile = ir.local("tile", dt.int32, (32,))
    loaded = ir.load("value", x, ir.gid())
    turned = ir.load("turned", tile, ir.binary("sub", ir.const(31), ir.lid()))
    round_trip = (
        s.Store(tile, (ir.lid(),), loaded.var, ir.LOC),
        s.Barrier(ir.LOC),
        turned,
        s.Barrier(ir.LOC),
        s.Store(x, (ir.gid(),), turned.var, ir.LOC),
    )
    again = s.For(ir.var("i"), ir.const(0), ir.const(3), ir.const(1), (loaded, *round_trip), ir.LOC)
    once = s.Loop((loaded, *round_trip, s.Break(ir.LOC)), ir.LOC)
    add = s.Atomic(
        None, "add", count, (ir.const(0),), ir.const(1), None, "acq_rel", "device", ir.LOC
    )
    return ir.kernel([x, count], [again, once, add], arrays=[tile], workgroup=(32, 1, 1))


def source(seed: str | None, target: Capabilities, patch: pytest.MonkeyPatch) -> str:
    if seed is None:
        patch.delenv(VARIABLE, raising=False)
    else:
        patch.setenv(VARIABLE, seed)
    return generate(reversing(), target).source


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_seed_adds_delays_and_changes_nothing_else(
    target: Capabilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = source(None, target, monkeypatch)
    delayed = source("1", target, monkeypatch)
    head, _, rest = delayed.partition("pt_delay(")
    before = head.partition("\n\n")[0] if "pt_clock" in head else head[: head.rindex("\n\n")]
    body = rest[rest.index("\n}\n\n") + 4 :]
    kept = [line for line in body.splitlines() if not OURS.search(line)]
    assert "pt_" not in plain.replace("pt_atomic", "")
    assert before.rstrip() + "\n\n" + "\n".join(kept) + "\n" == plain
    assert source("", target, monkeypatch) == plain


def test_delays_surround_what_synchronises(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.strip() for line in source("1", CUDA, monkeypatch).splitlines()]
    for i, line in enumerate(lines):
        if line == CUDA_BARRIER or line.startswith("pt_atomic_add"):
            assert lines[i - 1].startswith("pt_delay(delay_own, ")
            assert lines[i + 1].startswith("pt_delay(delay_own, ")
    in_loop = [line for line in lines if "(unsigned int)i * 1u" in line]
    assert len(in_loop) == 4


CUDA_BARRIER = "__syncthreads();"


def test_seeds_and_places_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [source(seed, CUDA, monkeypatch) for seed in ("0", "1", "1")]
    assert texts[1] == texts[2]
    assert texts[0] != texts[1]
    places = re.findall(r"pt_delay\(delay_own, (\d+)u", texts[0])
    assert len(set(places)) == len(places) > 8


@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.dialect)
def test_it_compiles_for_gpus(target: Capabilities, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = cuda_missing() if target is CUDA else hip_missing()
    if missing:
        pytest.skip(str(missing))
    monkeypatch.setenv(VARIABLE, "1")
    (compile_cuda if target is CUDA else compile_hip)(generate(reversing(), target))


def test_lowered_products_are_delayed_and_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring that TMA fills: copies, arrivals, waits."""
    from portable.linalg.products.kernels import gemm_tiles

    monkeypatch.setenv(VARIABLE, "1")
    specialised = wanted(pt.float16, HOPPER, False)
    program = generate(translate(gemm_tiles.python, specialised, HOPPER), HOPPER)
    lines = [line.strip() for line in program.source.splitlines()]
    copies = [i for i, line in enumerate(lines) if "cp.async.bulk.tensor" in line]
    assert copies
    assert all(lines[i - 1].startswith("pt_delay(") for i in copies)
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    compile_cuda(program, "sm_90a")


@pytest.mark.parametrize("runtime", [*opencl_devices(), *devices()], ids=lambda d: d.name)
def test_programs_compute_the_same(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    start = np.arange(96, dtype=np.int32)
    program = generate(reversing(), runtime.capabilities)
    x, count = runtime.run(program, (3, 1, 1), [start, np.zeros(1, np.int32)])
    np.testing.assert_array_equal(x, start)
    assert count[0] == 96


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "²"])
def test_a_seed_is_a_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(LaunchError, match="must be a number from 0, or unset"):
        generate(reversing(), CUDA)


@pt.kernel
def counted(out):
    kl.atomic_add(out, 0, 1)


@pytest.mark.needs_processor
def test_the_seed_belongs_to_what_a_program_is_kept_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that sets it late compiles again what it launches in another way."""
    out = np.zeros(1, np.int32)
    with pt.use("cpu"):
        monkeypatch.delenv(VARIABLE, raising=False)
        plain = counted[64, 64].lower(out).program
        monkeypatch.setenv(VARIABLE, "1")
        delayed = counted[(128), 64].lower(out).program
    assert plain is not None
    assert delayed is not None
    assert "pt_delay" not in plain.source
    assert "pt_delay" in delayed.source
