"""A launch runs the work-items asked for; of kernels whose work-items meet, whole workgroups."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import compiled
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import float32
from portable.errors import CheckError, Remark
from portable.lang.arguments.arguments import ArraySpec, Specialisation
from portable.lang.emit import generate
from portable.lang.ir.kernel import Options
from portable.system import console
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing
from tests.support.launch import run

SHAPES = [
    ((1,), None),
    ((16,), None),
    ((1000,), (256,)),
    ((1001,), (1,)),
    ((7, 5), (4, 2)),
    ((64, 33), (16, 16)),
    ((5, 3, 4), (2, 3, 3)),
    ((40, 30, 20), None),
]


@pt.kernel
def count(x):
    kl.atomic_add(x, (kl.global_id(2), kl.global_id(1), kl.global_id(0)), 1)


@pt.kernel
def tell_size(x):
    x[kl.global_id(0)] = kl.global_size(0)


@pt.kernel
def tell_wide_size(x, far):
    x[kl.global_id(0)] = kl.i32(far // (100 * kl.global_size(0)))


@pt.kernel
def in_strides(x, out):
    own = 0.0
    for i in range(kl.global_id(0), x.shape[0], kl.global_size(0)):
        own += x[i]
    out[kl.global_id(0)] = own


@pt.kernel
def reverse_blocks(x):
    i, own = kl.global_id(0), kl.local_id(0)
    block = kl.local(64, kl.i32)
    block[own] = x[i]
    kl.barrier()
    x[i] = block[63 - own]


@pt.kernel
def reverse_guarded(x):
    i, own = kl.global_id(0), kl.local_id(0)
    inside = i < x.shape[0]
    block = kl.local(64, kl.i32)
    if inside:
        block[own] = x[i]
    kl.barrier()
    if not inside:
        return
    if own + 32 < 64:
        x[i] = block[own]


@pt.kernel
def padded_size(x):
    whole = kl.workgroup_reduce(kl.add, 1)
    if kl.global_id(0) < x.shape[0]:
        x[kl.global_id(0)] = kl.global_size(0) + 0 * whole


@pytest.mark.parametrize(("ndrange", "workgroup"), SHAPES, ids=str)
def test_exactly_the_work_items_asked_for_run(
    device: Device, ndrange: tuple[int, ...], workgroup: tuple[int, ...] | None
) -> None:
    x, y, z = (*ndrange, 1, 1)[:3]
    whole = np.zeros((z + 9, y + 17, x + 256), np.int32)
    (found,) = run(device, count[ndrange, workgroup], whole)
    assert (found[:z, :y, :x] == 1).all()
    assert found.sum() == x * y * z


def test_every_way_of_launching_is_exact(device: Device) -> None:
    """The general way, the recognised one, prepared, captured ones and whole workgroups."""
    x = pt.asarray(np.zeros(600, np.int32), device=device)
    with pt.use(device):
        for _ in range(8):
            tell_size[500, 128](x)
        assert pt.to_numpy(x).tolist() == [500] * 500 + [0] * 100
        tell_size[250, 128].prepare(x)()
        assert pt.to_numpy(x).tolist() == [250] * 250 + [500] * 250 + [0] * 100
        again = device.replay(lambda: tell_size[10](x))
        again()
        assert pt.to_numpy(x)[:12].tolist() == [10] * 10 + [250] * 2
        tell_size[pt.groups(4), 128](x)
        assert pt.to_numpy(x).tolist() == [512] * 512 + [0] * 88


def test_sizes_do_not_compile_again(device: Device) -> None:
    x = pt.asarray(np.zeros(600, np.int32), device=device)
    with pt.use(device):
        made = [tell_size[n, 64].lower(x).executable for n in (65, 100, 599)]
    assert made[0] is made[1] is made[2]


def test_the_ndrange_strides_a_loop(device: Device) -> None:
    x = np.arange(1000, dtype=np.float32)
    _, found = run(device, in_strides[77, 32], x, np.zeros(80, np.float32))
    np.testing.assert_array_equal(found[:77], [x[i::77].sum() for i in range(77)])
    assert not found[77:].any()


def test_64_bit_indices_are_exact(device: Device) -> None:
    (found,) = run(device, tell_wide_size[70, 64], np.zeros(100, np.int32), 2**40)
    assert found.tolist() == [2**40 // 7000] * 70 + [0] * 30


@pytest.mark.needs_compiler
def test_whole_workgroups_have_no_guard(device: Device) -> None:
    x = pt.asarray(np.zeros(512, np.int32), device=device)
    with pt.use(device):
        programs = [tell_size[n, 64].lower(x).program for n in (512, 500)]
    assert programs[0] is not None
    assert programs[1] is not None
    assert "return" not in programs[0].source
    assert [a.kind for a in programs[0].arguments if a.kind == "size"] == []
    assert [a.kind for a in programs[1].arguments if a.kind == "size"] == ["size"]


def test_kernels_that_meet_run_whole_workgroups(device: Device) -> None:
    (found,) = run(device, padded_size[100, 64], np.zeros(100, np.int32))
    assert found.tolist() == [128] * 100


def test_padding_that_leaves_an_array_is_remarked(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it stands, and only where nothing keeps it inside."""
    room = pt.asarray(np.zeros(128, np.int32), device=device)
    with pt.use(device), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reverse_guarded[100, 64].lower(room[:100])
        reverse_blocks[128, 64].lower(room)
        reverse_blocks[100, 64].lower(room)  # the array has room for the padding
        assert caught == []
        monkeypatch.setattr(console, "_told", set())
        reverse_blocks[100, 64].lower(room[:100])
    assert {x.category for x in caught} == {Remark}
    first = reverse_blocks.python.__code__.co_firstlineno
    assert [x.lineno - first for x in caught] == [4, 6]
    text = str(caught[0].message)
    assert "whole workgroups of 64" in text
    assert f"(line {first + 5})" in text
    assert "if kl.global_id(0) < x.shape[0]" in text


def test_checked_kernels_are_exact(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CHECK", "1")
    (found,) = run(device, tell_size[10, 16], np.zeros(10, np.int32))
    assert found.tolist() == [10] * 10
    if not device.interprets:
        with pytest.raises(CheckError, match="out of bounds"):
            _run_checked(device)


def _run_checked(device: Device) -> None:
    run(device, tell_size[11, 16], np.zeros(10, np.int32))
    pt.synchronize(device)


def test_packages_are_exact(device: Device, tmp_path: Path) -> None:
    if not device.program_facts():
        pytest.skip(f"{device.name} keeps no compiled programs")
    path = tmp_path / "package.zip"
    made = [compiled.compile_kernel(tell_size, "i32[:]", devices=[device], workgroup=64)]
    compiled.save_compiled(path, made)
    with pt.use(device):
        kernel = pt.load_compiled(path).tell_size
    for n in (10, 64, 100):
        (found,) = run(device, kernel[n, 64], np.zeros(130, np.int32))
        assert found.tolist() == [n] * n + [0] * (130 - n)


def _programs(target: Any) -> Any:
    spec = (ArraySpec(float32, ("unit",)),)
    for index64, dims in ((False, (0,)), (True, (0, 1, 2))):
        wanted = Specialisation(spec, (), (4, 4, 4), index64, True, Options(), dims)
        yield generate(in_three.translated(wanted, target), target)


@pt.kernel
def in_three(x):
    i = kl.global_id(0) + kl.global_id(1) * kl.global_size(0)
    x[i + kl.global_id(2) * kl.global_size(1) * kl.global_size(0)] = 1.0


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
def test_cuda_is_compiled() -> None:
    for program in _programs(CUDA):
        assert program.arguments[0].kind == "size"
        compile_cuda(program)


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_hip_is_compiled() -> None:
    for program in _programs(HIP):
        compile_hip(program)
