"""Collectives of a workgroup, for workgroups of sizes that divide nothing, and loops shared out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run

Array = np.ndarray[Any, Any]
GROUPS = 2


@dataclass(frozen=True)
class Found:
    """A value and where it stands."""

    value: Any
    index: kl.i32


@pt.function
def larger(x, y):
    return x if x.value >= y.value else y


@pt.function
def after(f, g):
    """The affine functions ``f[0] * t + f[1]`` and `g` one after the other: no order but theirs."""
    return f[0] * g[0], f[1] * g[0] + g[1]


@pt.kernel
def reductions(x, y, sums, best, composed):
    g, i = kl.group_id(0), kl.local_id(0)
    total = kl.workgroup_reduce(kl.add, x[g, i])
    if total > 0:  # counts as uniform
        kl.barrier()
    sums[0, g, i] = total
    sums[1, g, i] = kl.workgroup_reduce(max, x[g, i])
    best[g, i] = kl.workgroup_reduce(larger, Found(x[g, i], i)).index
    composed[g, i] = kl.workgroup_reduce(after, (kl.i64(3), y[g, i]))[1]


@pt.kernel
def scans(y, z, composed, sums, totals, products):
    g, i = kl.group_id(0), kl.local_id(0)
    composed[g, i] = kl.workgroup_scan(after, (kl.i64(3), y[g, i]))[1]
    before, total = kl.workgroup_scan(kl.add, y[g, i], inclusive=False, initial=5, total=True)
    sums[0, g, i] = before
    sums[1, g, i] = kl.workgroup_scan(kl.add, y[g, i], initial=total)
    totals[g, i] = total
    products[g, i] = kl.workgroup_scan(kl.multiply, z[g, i])


@pt.kernel
def votes(x, counts, sent):
    g, i = kl.group_id(0), kl.local_id(0)
    n = kl.i32(0)
    for k in range(3):
        bound = 0.9 + 0.04 * kl.f32(k)
        if kl.workgroup_any(x[g, i] > bound):
            n += 1
        if kl.workgroup_all(x[g, i] < bound):
            n += 10
        source = kl.workgroup_broadcast(Found(x[g, i], i), (k * 7) % kl.local_size(0))
        sent[k, g, i] = source.value + kl.f32(source.index)
    counts[g, i] = n


SIZES = [64, 100]


@pytest.mark.parametrize("size", SIZES)
def test_reductions_keep_the_order(device: Device, size: int) -> None:
    x, y, _ = _numbers(size)
    sums, best, composed = run(
        device,
        reductions[GROUPS * size, size],
        x,
        y,
        np.zeros((2, GROUPS, size), np.float32),
        np.zeros((GROUPS, size), np.int32),
        np.zeros((GROUPS, size), np.int64),
    )[2:]
    np.testing.assert_allclose(sums[0], _for_all(x.sum(1), size), rtol=1e-5)
    np.testing.assert_array_equal(sums[1], _for_all(x.max(1), size))
    np.testing.assert_array_equal(best, _for_all(x.argmax(1), size))
    np.testing.assert_array_equal(composed, _for_all(_composed(y)[:, -1], size))


@pytest.mark.parametrize("size", SIZES)
def test_scans_keep_the_order(device: Device, size: int) -> None:
    _, y, z = _numbers(size)
    composed, sums, totals, products = run(
        device,
        scans[GROUPS * size, size],
        y,
        z,
        np.zeros((GROUPS, size), np.int64),
        np.zeros((2, GROUPS, size), np.int64),
        np.zeros((GROUPS, size), np.int64),
        np.zeros((GROUPS, size), np.complex64),
    )[2:]
    np.testing.assert_array_equal(composed, _composed(y))
    upto = np.cumsum(y, 1)
    np.testing.assert_array_equal(sums[0], 5 + upto - y)
    np.testing.assert_array_equal(totals, _for_all(5 + upto[:, -1], size))
    np.testing.assert_array_equal(sums[1], upto + totals)
    np.testing.assert_allclose(products, np.cumprod(z, 1), rtol=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_votes_and_broadcasts(device: Device, size: int) -> None:
    x, _, _ = _numbers(size)
    counts, sent = run(
        device,
        votes[GROUPS * size, size],
        x,
        np.zeros((GROUPS, size), np.int32),
        np.zeros((3, GROUPS, size), np.float32),
    )[1:]
    bounds = np.float32([0.9, 0.94, 0.98])[:, None, None]
    wanted = ((x > bounds).any(2) + 10 * (x < bounds).all(2)).sum(0)
    np.testing.assert_array_equal(counts, _for_all(wanted, size))
    for k in range(3):
        at = k * 7 % size
        np.testing.assert_allclose(sent[k], _for_all(x[:, at] + np.float32(at), size), rtol=1e-6)


@pytest.mark.parametrize("width", ["1", "32"])
def test_other_sub_groups(monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    """None, and sub-groups of which the last one is narrower than there are sub-groups."""
    from portable_backends.simulator import backend as simulator

    monkeypatch.setenv("PORTABLE_SIM_SUB_GROUP_SIZE", width)
    found = simulator.SimulatorBackend().devices()[0]
    for size in (1, 5, 33, 65):
        test_reductions_keep_the_order(found, size)
        test_scans_keep_the_order(found, size)
        test_votes_and_broadcasts(found, size)
    for size, span in ((64, 8), (128, 64), (66, 33), (96, 1)):
        _check_neighbours(found, size, span)


def _numbers(size: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(size)
    turns = np.exp(1j * rng.random((GROUPS, size)))
    x = rng.random((GROUPS, size), np.float32)
    return x, rng.integers(-5, 5, (GROUPS, size)), turns.astype(np.complex64)


def _composed(y: Array) -> Array:
    out = np.zeros_like(y)
    held = np.zeros(len(y), np.int64)
    with np.errstate(over="ignore"):
        for i in range(y.shape[1]):
            out[:, i] = held = held * 3 + y[:, i]
    return out


def _for_all(x: Array, size: int) -> Array:
    return np.repeat(x[:, None], size, 1)


@pt.kernel
def neighbours(y, out, *, WIDTH):
    i = kl.local_id(0)
    own = (kl.i64(3), y[i])
    out[0, i] = kl.workgroup_reduce(after, own, width=WIDTH)[1]
    out[1, i] = kl.workgroup_scan(after, own, width=WIDTH)[1]
    before, total = kl.workgroup_scan(
        kl.add, y[i], inclusive=False, initial=5, total=True, width=WIDTH
    )
    out[2, i], out[3, i] = before, total


@pytest.mark.parametrize(("size", "width"), [(60, 6), (64, 4), (64, 32)])
def test_so_many_neighbours_each(device: Device, size: int, width: int) -> None:
    _check_neighbours(device, size, width)


def _check_neighbours(device: Device, size: int, width: int) -> None:
    y = np.arange(size) % 7
    (out,) = run(device, neighbours[size, size], y, np.zeros((4, size), np.int64), WIDTH=width)[1:]
    rows = y.reshape(-1, width)
    upto, composed = np.cumsum(rows, 1), _composed(rows)
    np.testing.assert_array_equal(out[0], composed[:, -1].repeat(width))
    np.testing.assert_array_equal(out[1], composed.reshape(-1))
    np.testing.assert_array_equal(out[2], (5 + upto - rows).reshape(-1))
    np.testing.assert_array_equal(out[3], (5 + upto[:, -1]).repeat(width))


def test_all_nan_is_uniform() -> None:
    with pt.use("simulator"):
        x = np.full(8, np.nan, np.float32)
        _summed[8, 8](x)
    assert np.isnan(x).all()


@pt.kernel
def _summed(x):
    x[kl.local_id(0)] = kl.workgroup_reduce(kl.add, x[kl.local_id(0)])


# -- loops that a workgroup shares out ------------------------------------------------------------


@pt.kernel
def shared(x, out):
    total = x[0] * 0
    for i in kl.workgroup_range(2, x.shape[0], 3):
        total += x[i]
        out[1 + i] = x[i]
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_linear_id() == 0:
        out[0] = total


@pytest.mark.parametrize("workgroup", [(1, 1, 1), (4, 2, 1)])
def test_one_source_walks_alone_and_together(
    device: Device, workgroup: tuple[int, int, int]
) -> None:
    x = np.arange(100, dtype=np.float32)
    (out,) = run(device, shared[workgroup, workgroup], x, np.zeros(101, np.float32))[1:]
    wanted = np.zeros(101, np.float32)
    wanted[3::3] = x[2::3]
    wanted[0] = x[2::3].sum()
    np.testing.assert_array_equal(out, wanted)


def test_one_work_item_needs_nothing() -> None:
    device = next(d for d in pt.devices() if d.capabilities.dialect != "ir")
    x = np.ones(4, np.float32)
    text = kl.source(shared[1, 1], x, x, device=device)
    assert "scratch" not in text
    assert "barrier" not in text
    assert "sync" not in text


# -- what is refused --------------------------------------------------------------------------


@pt.kernel
def in_a_branch(x):
    if kl.local_id(0) > 3:
        x[0] = kl.workgroup_reduce(kl.add, x[0])


@pt.kernel
def without_start(x):
    x[0] = kl.workgroup_scan(kl.add, x[0], inclusive=False)


@pt.kernel
def no_part(x):
    x[0] = kl.workgroup_scan(kl.add, x[0], width=3)


@pt.kernel
def no_function(x):
    x[0] = kl.workgroup_reduce("add", x[0])


@pt.kernel
def of_an_array(x):
    x[0] = kl.workgroup_reduce(kl.add, x)


@pt.kernel
def too_far(x):
    x[0] = kl.workgroup_broadcast(x[0], 8)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (in_a_branch, "not provably uniform"),
        (without_start, "initial="),
        (
            no_part,
            "width of kl.workgroup_scan is a constant that divides the 8 work-items",
        ),
        (no_function, "takes a function of two values, not the constant 'add'"),
        (of_an_array, "takes numbers, and tuples and structs of numbers, not 1-d f32"),
        (too_far, "from work-item 8 of 8"),
    ],
)
def test_what_collectives_refuse(kernel: Any, reason: str) -> None:
    with pt.use("simulator"), pytest.raises(errors.KernelError, match=reason):
        kernel[8, 8](np.ones(4, np.float32))
