"""Vectors: loads and stores along any axis, arithmetic, lanes, private arrays of them."""

from __future__ import annotations

import numpy as np
import pytest

import portable as pt
from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from portable.errors import KernelError, UnsupportedError
from tests.support.launch import run, run_on_views

REAL = [d for d in dtypes.ALL if not d.is_complex]


@pt.kernel
def moved(x, out, *, LANES, FROM, TO):
    """Loads at odd offsets, along one axis, and stores along another."""
    i = kl.global_id(0)
    v = kl.vload(x, 1 + i, 1, lanes=LANES, axis=FROM)
    kl.vstore(out, 1 + i, 2, v, axis=TO)


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("axes", [(1, 1), (0, 1), (-1, 0), (0, -2)], ids=str)
def test_loads_and_stores_along_each_axis(
    device: Device, lanes: int, axes: tuple[int, int]
) -> None:
    x = np.arange(20 * 19, dtype=np.float32).reshape(20, 19)
    launcher = moved[1, 1]
    _, found = run(device, launcher, x, np.zeros_like(x), LANES=lanes, FROM=axes[0], TO=axes[1])
    expected = np.zeros_like(x)
    taken = x[1, 1 : 1 + lanes] if axes[0] in (1, -1) else x[1 : 1 + lanes, 1]
    if axes[1] in (1, -1):
        expected[1, 2 : 2 + lanes] = taken
    else:
        expected[1 : 1 + lanes, 2] = taken
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def doubled(x, out, *, LANES):
    i = LANES * kl.global_id(0)
    if i + LANES <= x.shape[0]:
        v = kl.vload(x, i, lanes=LANES)
        if x.dtype != kl.bool_:
            kl.vstore(out, i, v + v)
        else:
            kl.vstore(out, i, ~v)


@pytest.mark.parametrize("dtype", REAL, ids=repr)
def test_vectors_of_every_dtype(device: Device, dtype: dtypes.DType) -> None:
    x = (np.arange(64) % 51).astype(dtype.numpy)
    _, found = run(device, doubled[16, 8], x, np.zeros_like(x), LANES=4)
    np.testing.assert_array_equal(found, ~x if dtype.kind == "b" else x + x)


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_vectors_need_no_alignment_and_no_contiguity(device: Device, start: int, step: int) -> None:
    x = np.arange(70, dtype=np.float32)
    views = [lambda a: a[start:][::step], lambda a: a[start:][::step]]
    launcher = doubled[35, 8]
    _, found = run_on_views(device, launcher, (x, np.zeros_like(x)), views, LANES=2)
    expected = np.zeros_like(x)
    part, target = x[start:][::step], expected[start:][::step]
    whole = len(part) // 2 * 2
    target[:whole] = 2 * part[:whole]
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def lanes_apart(x, out):
    v = kl.vload(x, 0, lanes=4)
    w = kl.vector(v[3], 1, v[0], -2)
    total = kl.splat(0, 4) + v * 2 - w
    out[0] = total[0]
    out[1] = total[1]
    s = 0
    for k in kl.static_range(4):
        s += total[k]
    out[2] = s
    best = kl.where(v > w, v, w)
    kl.vstore(out, 3, best)
    acc = kl.splat(0.0, 4)
    for k in range(3):
        acc = acc + v * k
    kl.vstore(out, 7, acc)
    same = (v == w)[1]
    out[11] = 1 if same else 0
    kl.vstore(out, 12, kl.f32(kl.i32(v * 1.5)))
    if x[0] > 100:
        acc = v
    kl.vstore(out, 16, -acc)


def test_arithmetic_on_vectors_and_their_lanes(device: Device) -> None:
    x = np.array([5, 1, -3, 7], np.float32)
    _, found = run(device, lanes_apart[1, 1], x, np.zeros(20, np.float32))
    w = np.array([7, 1, 5, -2], np.float32)
    total = 2 * x - w
    expected = [total[0], total[1], total.sum(), *np.maximum(x, w), *(3 * x), 1]
    expected += [*np.trunc(x * 1.5), *(-3 * x)]
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def halves(x, out):
    v = kl.vload(x, 0, lanes=8)
    folded = v[:4] + v[4:]
    kl.vstore(out, 0, folded)
    kl.vstore(out, 4, v[1:8:2])
    kl.vstore(out, 8, (2 * v)[6:2:-2])
    kl.vstore(out, 10, kl.f32(v > 3)[:2])


def test_some_lanes_of_a_vector(device: Device) -> None:
    x = np.arange(8, dtype=np.float32)
    _, found = run(device, halves[1, 1], x, np.zeros(12, np.float32))
    np.testing.assert_array_equal(found, [*(x[:4] + x[4:]), *x[1::2], 12, 8, 0, 0])


@pt.kernel
def five_lanes(x, out):
    kl.vstore(out, 0, kl.vload(x, 0, lanes=8)[:5])


@pt.kernel
def crossed(x, y, out, whole):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = kl.vload(x, i, 0, lanes=3), kl.vload(y, i, 0, lanes=3)
        c = kl.vector(
            a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
        )
        held = kl.private((2,), kl.f32, 3)
        held[0] = kl.where(a > b, a, b) * 2
        held[1] = held[0] + c[0:3]
        kl.vstore(out, i, 0, held[1])
        kl.vstore(whole, i, 0, kl.cast(a, kl.i32))


def test_vectors_of_three_lanes(device: Device) -> None:
    x, y = (np.random.default_rng(seed).integers(-9, 9, (20, 3)).astype("f4") for seed in (0, 1))
    out, whole = np.zeros((20, 3), "f4"), np.zeros((20, 3), "i2")
    *_, found, cut = run(device, crossed[20], x, y, out, whole)
    np.testing.assert_array_equal(found, np.maximum(x, y) * 2 + np.cross(x, y))
    np.testing.assert_array_equal(cut, x)


@pytest.mark.needs_processor
def test_refuses_part_of_a_vector_that_is_no_vector() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(KernelError, match="2, 3, 4, 8, 16 or 32"):
        five_lanes[1, 1](x, x)


# -- 32 lanes: 64 bytes of half precision, and of others so many -----------------------------------


@pt.kernel
def wide(x, y, out, numbers, *, EVEN, REPEATED):
    """What is there for vectors, at an odd place."""
    LANES = 32
    a, b = kl.vload(x, 1, lanes=LANES), kl.vload(y, 0, lanes=LANES)
    kl.vstore(out, 0, 1, a + 2 * b)
    kl.vstore(out, 1, 0, kl.where(a < b, a, kl.minimum(b, 9)))
    kl.vstore(out, 2, 0, kl.shuffle2(a, b, EVEN))
    kl.vstore(out, 3, 0, a[::-1])
    kl.vstore(out, 4, 0, kl.shuffle2(a[:2], a[:2], REPEATED))
    kl.vstore(out, 5, 0, kl.compress(a, b > 40))
    kl.vstore(out, 6, 0, a[16:])
    kl.vstore(numbers, 0, kl.f32(-a) * 1.5)
    numbers[32] = kl.f32(a[31]) + kl.count(b > 40)
    total = kl.splat(kl.cast(0, a.dtype), LANES)
    for row in range(2):
        total = total + kl.vload(x, row, lanes=LANES)
    kl.vstore(out, 7, 0, total)


def is_other_opencl(device: Device) -> bool:
    """Whether its vectors have 16 lanes at most: those of OpenCL C where it is no Clang."""
    own = device.capabilities
    return own.dialect == "opencl" and own.kind == "gpu" and not device.interprets


@pytest.mark.parametrize("dtype", [d for d in REAL if d.kind != "b"], ids=repr)
def test_vectors_of_32_lanes(device: Device, dtype: dtypes.DType) -> None:
    x, y = np.arange(33) % 51, (np.arange(32) * 29 % 47)
    given = x.astype(dtype.numpy), y.astype(dtype.numpy)
    chosen = {"EVEN": tuple(range(0, 64, 2)), "REPEATED": (0, 1) * 16}
    out, numbers = np.zeros((8, 33), dtype.numpy), np.zeros(33, np.float32)
    if is_other_opencl(device):
        with pytest.raises(UnsupportedError, match="work at halves"):
            run(device, wide[1, 1], *given, out, numbers, **chosen)
        return
    *_, found, others = run(device, wide[1, 1], *given, out, numbers, **chosen)
    a, b = given[0][1:], given[1]
    out[0, 1:] = a + 2 * b
    out[1, :32] = np.where(a < b, a, np.minimum(b, 9))
    out[2, :32] = np.concatenate([a, b])[::2]
    out[3, :32] = a[::-1]
    out[4, :32] = np.tile(a[:2], 16)
    out[5, : (b > 40).sum()] = a[b > 40]
    out[6, :16] = a[16:]
    out[7, :32] = a + given[0][:32]
    np.testing.assert_array_equal(found, out)
    signed = a.astype(np.float32)
    if dtype.kind == "u":  # negative numbers of registers, which have 32 or 64 bits
        bits = max(32, 8 * dtype.itemsize)
        signed = ((-a.astype(object)) % 2**bits).astype(np.float32)
    else:
        signed = -signed
    np.testing.assert_array_equal(others, [*(1.5 * signed), a[31] + (b > 40).sum()])


@pt.kernel
def private_vectors(x, out, *, ROWS):
    acc = kl.private((ROWS, 2), kl.f32, lanes=4)
    for r in kl.static_range(ROWS):
        for c in kl.static_range(2):
            acc[r, c] = 0
    for k in range(x.shape[0]):
        for r in range(ROWS):
            acc[r, 0] += kl.vload(x, k, 0, lanes=4) * r
            acc[r, 1] = acc[r, 1] + kl.vload(x, k, 4, lanes=4)
    for r in range(ROWS):
        kl.vstore(out, r, 0, acc[r, 0])
        kl.vstore(out, r, 4, acc[r, 1])


def test_private_arrays_of_vectors(device: Device) -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    _, found = run(device, private_vectors[1, 1], x, np.zeros((5, 8), np.float32), ROWS=5)
    total = x.sum(0)
    expected = [[*(r * total[:4]), *total[4:]] for r in range(5)]
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def local_vectors(x, out):
    tile = kl.local((4, 8), x.dtype)
    i = kl.local_id(0)
    kl.vstore(tile, i, 0, kl.vload(x, i, 0, lanes=8))
    kl.barrier()
    kl.vstore(out, i, 0, kl.vload(tile, 0, i, lanes=4, axis=0))


def test_vectors_in_local_memory(device: Device) -> None:
    x = np.arange(32, dtype=np.float16).reshape(4, 8)
    _, found = run(device, local_vectors[4, 4], x, np.zeros((4, 4), np.float16))
    np.testing.assert_array_equal(found, x[:, :4].T)


@pt.kernel
def interleaved(x, y, out, *, LANES):
    """The halves of two vectors in turn, then what is left of them backwards."""
    a, b = kl.vload(x, 0, lanes=LANES, ahead=64), kl.vload(y, 0, lanes=LANES, ahead=-2)
    upper = ()
    backwards = ()
    for lane in kl.static_range(LANES // 2):
        upper = (*upper, lane, LANES + lane)
        backwards = (*backwards, 2 * LANES - 1 - lane, LANES - 1 - lane)
    kl.vstore(out, 0, kl.shuffle2(a, b, upper), streaming=True)
    kl.vstore(out, LANES, kl.shuffle2(a, b, backwards))


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize("kind", ["float32", "int16", "bool"])
def test_lanes_of_two_vectors(device: Device, lanes: int, kind: str) -> None:
    x, y = np.arange(lanes) % 5, np.arange(lanes) % 3 + 100 * (kind != "bool")
    x, y = x.astype(kind), y.astype(kind)
    out = np.zeros(2 * lanes, kind)
    found = run(device, interleaved[1, 1], x, y, out, LANES=lanes)[2]
    half = lanes // 2
    upper = np.stack([x[:half], y[:half]], 1).ravel()
    backwards = np.stack([y[::-1][:half], x[::-1][:half]], 1).ravel()
    np.testing.assert_array_equal(found, np.concatenate([upper, backwards]))


@pt.kernel
def dots(x, y, out, *, LANES):
    i = kl.global_id(0)
    u, v = kl.vload(x, i * LANES, lanes=LANES), kl.vload(y, i * LANES, lanes=LANES)
    out[i] = kl.dot(u, v) + kl.dot(x[i], 2)


@pytest.mark.parametrize(("kind", "lanes"), [("float32", 3), ("float64", 16), ("int32", 8)])
def test_the_dot_product_of_two_vectors(device: Device, kind: str, lanes: int) -> None:
    x, y = np.arange(5 * lanes).astype(kind) % 7, np.arange(5 * lanes).astype(kind) % 5 - 2
    found = run(device, dots[5, 1], x, y, np.zeros(5, kind), LANES=lanes)[2]
    np.testing.assert_array_equal(found, (x * y).reshape(5, lanes).sum(1) + 2 * x[:5])


@pt.kernel
def chosen_first(x, equal, out, counts, *, LANES):
    i = kl.global_id(0) * LANES
    v = kl.vload(x, i, lanes=LANES)
    mask = v == kl.vload(equal, i, lanes=LANES)
    kl.vstore(out, i, kl.compress(v, mask))
    counts[kl.global_id(0)] = kl.count(mask)


@pytest.mark.parametrize(
    ("kind", "lanes"),
    [("float32", 16), ("uint64", 8), ("int32", 8), ("float64", 4), ("uint8", 4), ("bool", 2)],
)
def test_lanes_are_compressed(device: Device, kind: str, lanes: int) -> None:
    """Every mask of few lanes, and some of many: the bits of numbers choose lanes."""
    numbers = np.arange(0, 1 << lanes, 255 if lanes > 8 else 1)
    masks = numbers[:, None] >> np.arange(lanes) & 1 == 1
    places = np.arange(1, masks.size + 1) % 97
    x = (places % 2 if kind == "bool" else places).astype(kind)
    equal = np.where(masks.ravel(), x, ~x if kind == "bool" else x + 1)
    out, counts = np.zeros_like(x), np.zeros(len(masks), np.int32)
    given = x, equal.astype(kind), out, counts
    *_, found, held = run(device, chosen_first[len(masks), 1], *given, LANES=lanes)
    order = np.argsort(~masks, axis=1, kind="stable")
    chosen = np.where(masks, x.reshape(masks.shape), np.zeros((), kind))
    expected = np.take_along_axis(chosen, order, axis=1)
    np.testing.assert_array_equal(found.reshape(masks.shape), expected)
    np.testing.assert_array_equal(held, masks.sum(axis=1))


@pt.kernel
def chosen_by_a_number(x, out):
    kl.vstore(out, 0, kl.compress(kl.vload(x, 0, lanes=2), x[0] > 0))


def test_a_mask_is_a_vector(device: Device) -> None:
    x = np.zeros(2, np.float32)
    with pytest.raises(KernelError, match=r"kl\.compress takes a vector of bool"):
        run(device, chosen_by_a_number[1, 1], x, x.copy())


@pt.kernel
def out_of_reach(x, out):
    kl.vstore(out, 0, kl.shuffle2(kl.vload(x, 0, lanes=2), kl.vload(x, 2, lanes=2), (0, 4)))


def test_lanes_beyond_two_vectors_are_refused(device: Device) -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(KernelError, match="constants from 0 to 3"):
        run(device, out_of_reach[1, 1], x, x.copy())


@pt.kernel
def splat_of_one_lane(x, out):
    i = kl.global_id(0)
    out[i] = kl.splat(x[i], 1) * 2


def test_a_complex_number_is_a_vector_of_one_lane(device: Device) -> None:
    x = np.arange(4, dtype=np.complex64) + 1j
    _, found = run(device, splat_of_one_lane[4, 4], x, np.zeros_like(x))
    np.testing.assert_array_equal(found, x * 2)


@pt.kernel
def chosen_constants(x, out):
    v = kl.vload(x, 0, lanes=4)
    kl.vstore(out, 0, v * kl.where(v > 0, 0.1, 0.3))


@pytest.mark.needs_float64
def test_constants_chosen_by_a_vector_have_the_type_of_what_they_meet(device: Device) -> None:
    x = np.array([1.0, -2.0, 3.0, -4.0])
    _, out = run(device, chosen_constants[1, 1], x, np.zeros(4))
    np.testing.assert_array_equal(out, x * np.where(x > 0, 0.1, 0.3))
