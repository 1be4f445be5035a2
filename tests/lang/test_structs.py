"""Structs and tuples: built, joined, stored, launched, and refused where they do not fit."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.backend import Device
from portable.lang.launch.launch import Launcher
from tests.support.launch import run

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Moments:
    """How many numbers there are, their mean, and the sum of squared distances from it."""

    count: kl.i32
    mean: Any
    distance: Any

    @staticmethod
    @pt.function
    def of(x):
        return Moments(1, x, x * 0)

    @pt.function
    def __add__(self, other):
        count = self.count + other.count
        step = other.mean - self.mean
        weight = kl.f32(other.count) / kl.f32(count)
        return Moments(
            count,
            self.mean + step * weight,
            self.distance + other.distance + step * step * kl.f32(self.count) * weight,
        )

    @property
    @pt.function
    def variance(self):
        return self.distance / kl.f32(self.count)


class Series(NamedTuple):
    """Arrays and what goes with them."""

    x: Any
    y: Any
    count: Any
    kind: Any
    through: Any


@dataclass(frozen=True)
class Shape:
    """Constants of the compiler."""

    columns: int
    factor: float = 0.5

    @property
    def doubled(self) -> int:
        return 2 * self.columns


@dataclass(frozen=True)
class Both:
    """A struct in a struct."""

    shape: Shape
    moments: Any


UNIT = Shape(1)


@pt.function
def square(x):
    return x * x


@pt.function
def halves(x):
    return x * Shape(2).factor


@pt.kernel
def statistics(series, out, *, shape):
    total = Moments.of(series.x[0])
    for i in range(1, series.count):
        total = total + Moments.of(series.through(series.x[i]))
    out[0] = total.mean
    out[1] = total.variance
    out[2] = kl.f32(total.count)
    x, y, *more = series
    out[3] = y[shape.columns] + kl.f32(more[0]) + x[0]
    out[4] = series.kind(shape.doubled) * shape.factor + UNIT.factor


@pytest.mark.parametrize("through", [square, halves])
def test_a_struct_travels_as_one_argument(device: Device, through: Any) -> None:
    x = np.linspace(1, 3, 7, dtype=np.float32)
    out = np.zeros(5, np.float32)
    with pt.use(device):
        args = [pt.asarray(a, device=device) for a in (x, x + 1, out)]
        series = Series(args[0], args[1], 7, kl.f32, through)
        statistics[1, 1](series, args[2], shape=Shape(3))
        found = pt.to_numpy(args[2])
    made = np.concatenate([x[:1], x[1:] ** 2 if through is square else x[1:] / 2])
    wanted = [made.mean(), made.var(), 7, x[3] + 1 + 7 + x[0], 3.5]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pt.kernel
def joined(x, out):
    i = kl.global_id(0)
    best = Both(UNIT, Moments(0, 0.0, 0.0))
    if i % 2 == 0:
        best = Both(UNIT, Moments(i, x[i], 1.0))
    elif i > 4:
        best = dataclasses.replace(best, moments=Moments.of(x[i]))
    chosen = best.moments if x[i] > 3 else Moments.of(-x[i])
    pair = (chosen, kl.f32)
    for _ in range(2):
        pair = (pair[0] + chosen, pair[1])
    out[0, i] = pair[1](pair[0].count)
    out[1, i] = pair[0].mean
    out[2, i] = kl.private(best.shape.columns, kl.f32).shape[0]


def test_structs_meet_field_by_field(device: Device) -> None:
    x = np.arange(8, dtype=np.float32)
    with pt.use(device):
        out = pt.asarray(np.zeros((3, 8), np.float32), device=device)
        joined[8, 8](pt.asarray(x, device=device), out)
        found = pt.to_numpy(out)
    counts = [1, 1, 1, 1, 4, 1, 6, 1]
    counts = [3 * n if v > 3 else 3 for n, v in zip(counts, x, strict=True)]
    np.testing.assert_array_equal(found[0], counts)
    kept = np.where(x > 3, np.where((x % 2 == 0) | (x > 4), x, 0), -x)
    np.testing.assert_allclose(found[1], kept, rtol=1e-6)
    np.testing.assert_array_equal(found[2], 1)


@pt.kernel
def stored(x, out):
    i = kl.local_id(0)
    shared = kl.local((8,), Both(Shape(0, 0), Moments(kl.i32, x.dtype, kl.f32)).moments)
    own = kl.private((2, 2), Moments(kl.i32, kl.f32, kl.f32))
    own[1, 0] = Moments(i, x[i], 2.0)
    own[0, 0] = own[1, 0] + own[1][0]
    shared[i] = own[0, 0]
    kl.barrier()
    other = shared[7 - i]
    out[0, i] = kl.f32(other.count)
    out[1, i] = shared.mean[7 - i] + kl.f32(len(shared))


def test_arrays_of_structs_are_arrays_of_fields(device: Device) -> None:
    x = np.arange(8, dtype=np.float32)
    with pt.use(device):
        out = pt.asarray(np.zeros((2, 8), np.float32), device=device)
        stored[8, 8](pt.asarray(x, device=device), out)
        found = pt.to_numpy(out)
    np.testing.assert_array_equal(found[0], 2 * x[::-1])
    np.testing.assert_array_equal(found[1, :7], x[:0:-1] + 8)


@pt.kernel
def summed(n, *arrays, weights):
    i = kl.global_id(0)
    if i < n:
        total = arrays[0][i] * 0
        for k, (a, weight) in enumerate(zip(arrays[1:], weights, strict=True)):
            total += a[i] * weight + k
        arrays[0][i] = total


@pt.kernel
def gathered(out, parts):
    (x, scale), places = parts
    i = kl.global_id(0)
    if i < len(out):
        for k in kl.static_range(len(places)):
            out[i] += scale * x[places[k]]


def test_tuples_and_any_number_of_arrays(device: Device) -> None:
    x = np.arange(1, 6, dtype=np.float32)
    with pt.use(device):
        out, *arrays = (pt.asarray(x * k, device=device) for k in range(4))
        summed[5](5, out, *arrays, weights=(1, 2, 3))
        np.testing.assert_array_equal(pt.to_numpy(out), x * 14 + 3)
        gathered[5](out, ((arrays[0], 10), (4, 0)))
        np.testing.assert_array_equal(pt.to_numpy(out), x * 14 + 63)


@pt.kernel
def comprehended(out, *arrays):
    places = (4, 0)
    for _ in range(2):
        for k, place in enumerate(places):
            rows = [a[place] * (k + 1) for a in arrays if a.ndim == 1]
            out[k] += sum(rows) + max(tuple(row for row in rows))
    pair = (out[0], len(arrays))
    if pair != (out[0], 2) and (kl.f32(places[0]), 1) != (kl.f32(0), 1):
        out[2] = 1
    elif any(a[0] > 1 for a in arrays):
        out[2] = sum([i * j for i in range(3) for j in range(i)])


def test_comprehensions(device: Device) -> None:
    x = np.arange(1, 6, dtype=np.float32)
    (out, *_) = run(device, comprehended[1, 1], np.zeros(3, np.float32), x, 2 * x)
    np.testing.assert_array_equal(out, [50, 20, 2])


@pt.kernel
def lanes(x, out, *, WIDTH):
    own = kl.private(2, kl.f32, lanes=WIDTH)
    i = kl.global_id(0) * WIDTH
    v = kl.vload(x, i, lanes=WIDTH)
    own[1] = kl.splat(v[0], WIDTH) + kl.vector(*[v[k] for k in kl.static_range(WIDTH)])
    swapped = kl.shuffle2(own[1], v, lanes=[WIDTH - 1 - k for k in kl.static_range(WIDTH)])
    kl.vstore(out, i, swapped * v.lanes)
    out[8 + kl.global_id(0)] = v[:1]


@pytest.mark.parametrize("width", [1, 4])
def test_a_vector_of_one_is_a_scalar(device: Device, width: int) -> None:
    x = np.arange(1, 9, dtype=np.float32)
    _, out = run(device, lanes[8 // width, 1], x, np.zeros(16, np.float32), WIDTH=width)
    rows = x.reshape(-1, width)
    np.testing.assert_array_equal(
        out[:8].reshape(rows.shape), (rows + rows[:, :1])[:, ::-1] * width
    )
    np.testing.assert_array_equal(out[8 : 8 + len(rows)], rows[:, 0])


@pt.kernel
def shifts(points, shift):
    i = kl.global_id(0)
    if i < points.n:
        points.x[i] += shift.by


class Points(NamedTuple):
    x: Any
    n: int


@dataclass(frozen=True)
class Shift:
    by: kl.f32


@pytest.mark.needs_processor
def test_launches_with_structs_are_recognised() -> None:
    with pt.use("cpu"):
        x = np.zeros(4, np.float32)
        launcher: Launcher = shifts[4]
        for k in range(8):
            launcher(Points(x, 3), Shift(k))
        assert launcher._relaunches is not None
        np.testing.assert_array_equal(x, [28, 28, 28, 0])
        longer = np.zeros(6, np.float32)
        launcher(Points(longer, 2), Shift(1.5))
        launcher(Points(x, 4), Shift(1))
        np.testing.assert_array_equal(longer, [1.5, 1.5, 0, 0, 0, 0])
        np.testing.assert_array_equal(x, [29, 29, 29, 1])
        launcher.prepare(Points(x, 1), Shift(1))()
        assert x[0] == 30
        x.flags.writeable = False
        with pytest.raises(errors.LaunchError, match=r"writes its argument points\.x"):
            launcher(Points(x, 4), Shift(1))
        with pytest.raises(errors.LaunchError, match=r"given a list as points\.n"):
            launcher(Points(longer, []), Shift(1))


@dataclass(frozen=True)
class Step:
    by: float


@pt.kernel
def add_step(x: kl.Array, *, STEP: Step) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] + STEP.by


@pytest.mark.needs_processor
def test_constants_that_are_structs_made_anew_are_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pt.use("cpu"):
        x = np.zeros(4, np.float32)
        launcher: Launcher = add_step[4]
        for _ in range(6):
            launcher(x, STEP=Step(2))
        resolved = []
        monkeypatch.setattr(
            Launcher,
            "_resolve",
            lambda *given, resolve=Launcher._resolve: resolved.append(0) or resolve(*given),
        )
        launcher(x, STEP=Step(2))
        assert not resolved
        launcher(x, STEP=Step(3))
        launcher(x, STEP=Step(2.5))
        launcher(x, STEP=Step(2.0))
    assert len(resolved) == 3
    np.testing.assert_array_equal(x, [21.5] * 4)


def test_structs_in_source() -> None:
    x = np.zeros(4, np.float32)
    in_c = [d for d in pt.devices() if d.capabilities.dialect in ("opencl", "cuda", "hip")]
    if not in_c:
        pytest.skip("no device whose language is a form of C")
    text = kl.source(shifts, Points(x, 3), Shift(1), device=in_c[0])
    assert re.search(r"points_x\[i\] = .*shift_by", text)


# -- what is refused ----------------------------------------------------------------------------


@dataclass
class Changing:
    x: Any


@dataclass(frozen=True)
class Checked:
    x: Any

    def __post_init__(self) -> None: ...

    def plain(self) -> int:
        return 1


@pt.kernel
def no_such_field(x):
    x[0] = Moments.of(x[0]).men


@pt.kernel
def wrong_field(x):
    m = Moments.of(x[0])
    for _ in range(3):
        m = Moments(m.count, m.mean, kl.f32)
    x[0] = m.mean


@pt.kernel
def other_struct(x):
    m = Moments.of(x[0])
    for _ in range(3):
        m = Shift(1)
    x[0] = m.mean


@pt.kernel
def unlike(x):
    m = Points(x, 1)
    if x[0] > 0:
        m = Points(kl.f32, 2)
    x[0] = m.x[0]


@pt.kernel
def written_field(x):
    m = Moments.of(x[0])
    m.mean = 3


@pt.kernel
def mutable(x):
    x[0] = Changing(x[0]).x


@pt.kernel
def checked(x):
    x[0] = Checked(x[0]).x


@pt.kernel
def too_many(x):
    x[0] = Shift(x[0], 2).by


@pt.kernel
def unpacked(x):
    _, _, _ = Moments.of(x[0])


@pt.kernel
def open_type(x):
    kl.private(4, Moments)


@pt.kernel
def strange_store(x):
    kl.private(4, Shift)[0] = Moments.of(x[0])


REFUSALS = [
    (no_such_field, "a Moments has no field men; it has count, mean, distance", "mean"),
    (wrong_field, r"m\.distance", "dtype f32"),
    (other_struct, "m holds a Moments and cannot become a Shift", ""),
    (unlike, r"the branch at line \d+ makes m\.x the dtype f32", "1-d f32 global array x"),
    (written_field, "fields of structs do not change", "replace"),
    (mutable, "Changing is a dataclass that can change", "frozen=True"),
    (checked, "Checked has __post_init__", ""),
    (too_many, "Shift: too many positional arguments", "its fields are by"),
    (unpacked, "a Moments does not unpack to 3 names", "name its fields"),
    (open_type, "the field mean of Moments is not annotated with a dtype", "Moments"),
    (strange_store, "a Moments cannot be stored in a 1-d private array of Shift", ""),
]


@pytest.mark.parametrize(("kernel", "reason", "hint"), REFUSALS)
def test_what_does_not_fit_is_named(kernel: Any, reason: str, hint: str) -> None:
    with pt.use("simulator"), pytest.raises(errors.KernelError, match=reason) as caught:
        kernel[1, 1](np.ones(4, np.float32))
    assert hint in str(caught.value)


class Couple(NamedTuple):
    first: Any
    second: Any


@pt.kernel
def halves_changed(x, out):
    i = kl.global_id(0)
    p = Couple(x[i], kl.i64(x[i]))
    if x[i] > 2:
        p = Couple(x[i] + 10, p.second)
    for t in range(3):
        p = Couple(p.second + 0, p.second + t)
    for s in (1, 2):
        q = Couple(x[i], kl.i64(x[i] + s))
        if x[i] > 2:
            q = Couple(x[i] + s, q.second)
        p = Couple(p.first + q.first, p.second + q.second)
    out[i] = kl.i32(p.first * 1000 + p.second)


def test_structs_that_a_branch_changed_in_part_are_made_anew(device: Device) -> None:
    x = np.arange(8, dtype=np.int32)
    _, found = run(device, halves_changed[8, 8], x, np.zeros_like(x))
    wanted = []
    for v in x.tolist():
        first = second = v
        for t in range(3):
            first, second = second, second + t
        for s in (1, 2):
            first, second = first + (v + s if v > 2 else v), second + v + s
        wanted.append(first * 1000 + second)
    np.testing.assert_array_equal(found, wanted)


@dataclass(frozen=True)
class Typed:
    """Fields with types that type checkers understand, too."""

    small: Annotated[int, "how many", kl.u8]
    plain: Annotated[float, "open"]


@pt.kernel
def typed_fields(out):
    made = Typed(300, 1.5)
    out[0] = made.small
    out[1] = made.plain


def test_annotated_fields_have_types() -> None:
    out = np.zeros(2, np.float32)
    with pt.use("simulator"):
        typed_fields[1, 1](out)
    assert out.tolist() == [300 % 256, 1.5]


class Filled(NamedTuple):
    a: Any
    b: Any


@pt.kernel
def filled(x, out, *, LARGE):
    few = kl.private((2, 3), kl.f32, fill=x[0] + 1)
    wide = kl.private(2, kl.i32, lanes=4, fill=7)
    many = kl.private((LARGE, 2), kl.f32, fill=2)
    pairs = kl.private(3, Filled(kl.f32, kl.i32), fill=Filled(1, 2))
    few[0, 1] += 1
    many[kl.i32(x[0]), 0] = 4
    out[0] = few[0, 1] + few[1, 2]
    out[1] = wide[0][1] + wide[1][3]
    out[2] = many[kl.i32(x[0]), 0] + many[LARGE - 1, 1]
    out[3] = pairs[2].a + kl.f32(pairs[0].b)


def test_private_arrays_are_filled_where_they_are_made(device: Device) -> None:
    given = (np.float32([3]), np.zeros(4, np.float32))
    found = run(device, filled[1, 1], *given, LARGE=50)[1]
    assert list(found) == [9, 14, 6, 3]


@pytest.mark.parametrize(
    ("fill", "reason"), [(kl.f64(1), "f64 value stored in"), (Filled(1, 2), "fill|stored")]
)
def test_what_does_not_fit_fills_nothing(fill: Any, reason: str) -> None:
    @pt.kernel
    def misfit(out, *, FILL):
        out[0] = kl.private(2, kl.i32, fill=FILL)[0]

    with pytest.raises(errors.KernelError, match=reason):
        run(pt.device("simulator"), misfit[1, 1], np.zeros(1, np.int32), FILL=fill)
