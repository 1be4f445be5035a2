"""The kernels of the singular values, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes
from portable.backend import Capabilities, Program, profiles
from portable.lang.arguments.arguments import Specialisation
from portable.lang.arguments.structs import flattened
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.linalg.bands.kernels import (
    Kept,
    item_wave,
    load_band,
    move_band,
    store_bidiagonal,
)
from portable.linalg.bands.panels import panel_packs
from portable.linalg.bands.plan import Layout
from portable.linalg.bands.ring import ring_packs
from portable.linalg.bands.shapes import plan_for
from portable.linalg.base.magnitude import largest_kernel
from portable.linalg.singular_values.bidiagonal import (
    Search,
    bisect,
    count_table,
    squares,
    tridiagonal,
)
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda_together,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)


def program(
    kernel: Kernel,
    capabilities: Capabilities,
    workgroup: tuple[int, int, int],
    *args: Any,
    **constants: Any,
) -> Program:
    host = portable.device("simulator")
    views = [host.view(x) if isinstance(x, np.ndarray) else None for x in flattened(args)]
    wanted = Specialisation(
        kernel.specs(args, views),
        kernel.constants(constants),
        workgroup,
        False,
        True,
        kernel.options,
    )
    return generate(kernel.translated(wanted, capabilities), capabilities)


def hops(capabilities: Capabilities, dtype: str, u: int) -> list[Program]:
    """The kernels of every stage, in one launch and in waves."""
    kind = dtypes.dtype(dtype)
    plan = plan_for(u, 2048, kind, replace(capabilities, forward_progress=True))
    work, sync = np.empty(900, plan.storage.numpy), np.empty(9, np.int32)
    found = []
    for stage in plan.stages:
        b = stage.bandwidth
        if stage.in_blocks:
            ring = stage.ring
            whole = (ring.items, 1, 1)
            kept = Kept(None, work[None]) if b == 32 else Kept(None, None)
            found.append(program(ring_packs, capabilities, whole, work, sync, 9, kept, RING=ring))
            continue
        if stage.residency == "panels":
            whole, shape = (stage.items, 1, 1), stage.panel_shape
            found.append(program(panel_packs, capabilities, whole, work, sync, 9, SHAPE=shape))
            continue
        alone = (stage.items, 1, 1)
        how = {"SHAPE": stage.item_shape(plan.layout(stage))}
        found.append(program(item_wave, capabilities, alone, work, 9, 1, 0, b, **how))
    return found


def programs(capabilities: Capabilities, dtype: str, u: int) -> list[Program]:
    """Every kernel as the operations would launch it."""
    kind = dtypes.dtype(dtype)
    register = kind.register
    integer = dtypes.int32 if register is dtypes.float32 else dtypes.int64
    ab = np.empty((u + 1, 9), kind.numpy)
    work, sync = np.empty(900, kind.numpy), np.empty(9, np.int32)
    d = np.empty(9, register.numpy)
    q, table = np.empty((2, 9), register.numpy), np.empty(16, integer.numpy)
    line, search = (64, 1, 1), Search(24, 2, split=3, lanes=1, vectors=1, integer=integer)
    lines, minors = np.empty((3, 8), register.numpy), search._replace(minors=True)
    layout = Layout(3 * u, 2 * u)
    scale = {"LAYOUT": layout, "TARGET": 8}
    return [
        program(largest_kernel, capabilities, line, ab, d, 0, BAND=True),
        program(load_band, capabilities, line, ab, d, work, sync, **scale),
        program(move_band, capabilities, line, work, work, BEFORE=layout, LAYOUT=Layout(20, 8, 8)),
        program(store_bidiagonal, capabilities, line, work, d, d, d, **scale),
        *hops(capabilities, dtype, u),
        program(squares, capabilities, line, d, d, d, q),
        program(count_table, capabilities, line, q, table, SEARCH=search),
        program(bisect, capabilities, line, q, table, d, d, SEARCH=search),
        program(tridiagonal, capabilities, line, d, d, d, lines),
        program(count_table, capabilities, line, lines, table, SEARCH=minors),
        program(bisect, capabilities, line, lines, table, d, d, SEARCH=minors),
    ]


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize(
    ("u", "dtype"),
    [(32, "float16"), (8, "float32"), (32, "float32"), (128, "float32"), (128, "float64")],
)
def test_compiles_for_cuda(dtype: str, u: int) -> None:
    compile_cuda_together(programs(CUDA, dtype, u))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_compiles_for_hip(dtype: str) -> None:
    compile_hip_together(programs(HIP, dtype, 16))


def test_the_last_stage_is_in_blocks_where_bulk_copies_are() -> None:
    for dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
        *steps, blocks = plan_for(130, 4096, dtype, replace(CUDA, compute_units=132)).stages
        assert [x.residency for x in steps] == ["panels"] * len(steps)
        assert (blocks.bandwidth, blocks.residency) == (32, "ring")
    assert plan_for(32, 4096, dtypes.float32, CUDA).stages[-1].residency == "ring"
    assert plan_for(32, 4096, dtypes.float32, HIP).stages[-1].residency == "items"


def test_nvidias_opencl_has_sub_groups_by_its_assembler() -> None:
    seen = profiles.load("nvidia-opencl").capabilities
    capabilities = replace(seen, async_copy=frozenset({"vector"}))
    for dtype in ("float32", "float64"):
        (each,) = hops(capabilities, dtype, 16)
        assert each.source.count("shfl.sync.idx.b32") > 3
        assert "bar.sync 1, %0;" in each.source
        assert "cl_khr_subgroups" not in each.source


def test_nvidias_opencl_keeps_a_ring_where_it_copies_in_bulk() -> None:
    """In more local memory than the driver tells of, of the types that OpenCL C has."""
    capabilities = profiles.load("nvidia-opencl").capabilities
    (each,) = hops(capabilities, "float32", 32)
    assert capabilities.local_memory < each.local_bytes <= capabilities.local_memory_most
    assert "cp.async.bulk.shared::cluster" in each.source
    assert "long long" not in each.source


@pytest.mark.parametrize("u", [2, 3, 32, 33, 65, 300])
@pytest.mark.parametrize("capabilities", [CUDA, HIP], ids=["cuda", "hip"])
def test_plans_end_in_bidiagonal_form_and_fit(u: int, capabilities: Capabilities) -> None:
    plan = plan_for(u, 5000, dtypes.float64, capabilities)
    narrower = u
    for stage in plan.stages:
        assert stage.bandwidth >= narrower
        whole = stage.items * (1 if stage.residency == "panels" else stage.sweeps)
        assert whole + 96 <= capabilities.max_workgroup
        narrower = stage.bandwidth - stage.reflector + 1
    assert narrower == 1
    for stage in plan.stages:
        reach = stage.bandwidth + (0 if stage.in_blocks else stage.length - 1)
        layout = plan.layout(stage)
        assert layout.top * layout.edge >= reach
    for each in hops(capabilities, "float64", u):
        assert each.local_bytes <= capabilities.local_memory_opt_in
