"""Singular value and eigenvalue decompositions, and what is made of them, on every device."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.lang.kernel import kernel
from portable.linalg import eigh, eigvalsh, matrix_rank, pinv, polar, svd
from portable.linalg.dense.reduction import Sweep, begin_of_further
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.singular_values.direct_kernels import Block, DirectShape, Step, change
from portable.linalg.spectral import banded, hop_blocks, reductions
from portable.linalg.spectral.banded import eigen_by_band, svd_by_band
from portable.linalg.spectral.divide import bidiagonal_vectors
from tests.linalg.spectral_matrices import (
    HERMITIAN,
    RECTANGULAR,
    check_eigh,
    check_svd,
    hermitian,
    random,
)

DTYPES = ["float32", "float64", "complex64", "complex128"]
SMALL, STAGED = 13, 67


def on(device: Device, function: Any, a: np.ndarray, **options: Any) -> Any:
    """Results as NumPy arrays; what was given is not changed."""
    with portable.use(device.name):
        given = device.from_numpy(a)
        results = function(given, **options)
        np.testing.assert_array_equal(device.to_numpy(given), a)
    if isinstance(results, tuple):
        return tuple(device.to_numpy(x) for x in results)
    return device.to_numpy(results)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RECTANGULAR)
def test_small_singular_vectors(device: Device, name: str, dtype: str) -> None:
    a = RECTANGULAR[name](SMALL, dtype)
    check_svd(a, *on(device, svd, a))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RECTANGULAR)
def test_singular_vectors_in_stages(device: Device, name: str, dtype: str) -> None:
    a = RECTANGULAR[name](STAGED, dtype)
    check_svd(a, *on(device, svd, a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", HERMITIAN)
def test_small_eigenvectors(device: Device, name: str, dtype: str) -> None:
    a = HERMITIAN[name](SMALL, dtype)
    check_eigh(a, *on(device, eigh, a))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", HERMITIAN)
def test_eigenvectors_in_stages(device: Device, name: str, dtype: str) -> None:
    a = HERMITIAN[name](STAGED, dtype)
    values, vectors = on(device, eigh, a)
    check_eigh(a, values, vectors)
    alone = on(device, eigvalsh, a)
    assert np.max(np.abs(alone - values)) <= 60 * np.finfo(alone.dtype).eps * np.max(np.abs(values))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigenvectors_by_several_cores(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Small matrices are one core's."""
    device, a = portable.device("cpu:native"), HERMITIAN["random"](150, dtype)
    monkeypatch.setattr(reductions, "_CACHED_SYMMETRIC", 0)
    monkeypatch.setattr(reductions, "_step_shape", reductions._step_shape.__wrapped__)
    check_eigh(a, *on(device, eigh, a))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", HERMITIAN)
def test_eigenvalues_by_a_band(device: Device, name: str) -> None:
    a = HERMITIAN[name](STAGED, "float32")
    with portable.use(device.name):
        given, values = device.from_numpy(a[None]), device.empty((1, STAGED), kl.f32)
        eigen_by_band(device, given, values, None)
    largest = float(np.max(np.abs(a))) or 1.0
    found = device.to_numpy(values)[0] / largest
    wanted = np.linalg.eigvalsh(a.astype(np.float64) / largest)
    room = 60 * np.finfo(np.float32).eps * max(np.max(np.abs(wanted)), np.finfo(np.float32).tiny)
    assert np.all(np.diff(found) >= 0)
    assert np.max(np.abs(found - wanted)) <= room


def test_a_band_is_factored_where_workgroups_are_no_power_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of some devices are, of 384 work-items at most."""
    n, width = 24, 8
    lower = np.tril(np.triu(np.random.default_rng(0).standard_normal((n, n)), -width))
    monkeypatch.setattr(banded, "_ITEMS", 48)
    with portable.use("simulator"):
        ab, _, (_, shift, _) = banded._shifted_factor(portable.device("simulator"), lower, n, width)
    factor = sum(np.diag(ab[width - i, i:], i) for i in range(width + 1))
    wanted = lower + np.tril(lower, -1).T + shift * np.eye(n)
    np.testing.assert_allclose(factor.T @ factor, wanted, atol=100 * np.finfo(np.float64).eps)


@pytest.mark.needs_acq_rel
@pytest.mark.needs_forward_progress
@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", RECTANGULAR)
def test_singular_vectors_by_a_band(device: Device, name: str) -> None:
    if device.capabilities.single_work_items:
        pytest.skip("vectors are led back in stages where work-items are alone")
    a = RECTANGULAR[name](STAGED, "float32")
    m, n = a.shape
    with portable.use(device.name):
        shapes = (min(m, n),), (m, m), (min(m, n), n)
        results = [device.empty((1, *shape), kl.f32) for shape in shapes]
        svd_by_band(device, device.from_numpy(a[None]), *results)
    s, u, vh = (device.to_numpy(x)[0] for x in results)
    check_svd(a, u, s, vh)


@pytest.mark.needs_acq_rel
@pytest.mark.needs_forward_progress
@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", HERMITIAN)
def test_eigenvectors_by_a_band(device: Device, name: str) -> None:
    if device.capabilities.single_work_items:
        pytest.skip("vectors are led back in stages where work-items are alone")
    a = HERMITIAN[name](STAGED, "float32")
    with portable.use(device.name):
        results = [device.empty((1, *shape), kl.f32) for shape in ((STAGED,), a.shape)]
        for _ in range(3):  # the first as it is, then recorded, and repeated
            eigen_by_band(device, device.from_numpy(a[None]), *results)
    check_eigh(a, *(device.to_numpy(x)[0] for x in results))


def test_blocks_of_hops_are_made_ahead_or_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several portions, of which there is room for the first one, the same comes out."""
    n, b, device = 22, 4, portable.device("simulator")
    kept, x = random((n, n + b), "float32"), random((n, 3), "float32", 1)
    monkeypatch.setattr(hop_blocks, "_AT_ONCE", 1 << 11)
    monkeypatch.setattr(hop_blocks, "_AHEAD", 1 << 12)
    portions = list(hop_blocks._portions(n, (b // 2, b), kl.f32))
    assert len(portions) > 1
    results = []
    with portable.use(device.name):
        made, make = hop_blocks.blocks_ahead(device, kept, n, b)
        assert len(made) == 1
        make()
        for ahead in (made, ()):
            given = x.copy()
            shape = DenseShape(b, 2, 1, 1, (1, 1), 8, 4, 0, climb=False)
            hop_blocks.lead_back_hops(device, kept, given, (n, 3), b, shape, ahead)
            results.append(given)
    assert np.any(results[0] != x)
    np.testing.assert_array_equal(*results)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_plans_are_kept(device: Device, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where launches are replayed, arrays of an earlier call are worked in again."""
    able = dataclasses.replace(device.capabilities, replays=True)
    monkeypatch.setattr(device, "capabilities", able, raising=False)
    given = [random((55, 50), dtype, seed) for seed in (1, 2)]
    given[1][3, 4] = np.nan
    for a in given[:1] * 3:
        check_svd(a, *on(device, svd, a))
    with pytest.raises(np.linalg.LinAlgError, match="NaN or an infinity"):
        on(device, svd, given[1])
    squares = [hermitian(random((50, 50), dtype, seed)) for seed in (3, 4)]
    for a in squares * 2:
        check_eigh(a, *on(device, eigh, a))
        np.testing.assert_allclose(on(device, eigvalsh, a), on(device, eigh, a)[0], atol=1e-4)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_ordinary_sizes(device: Device, dtype: str) -> None:
    a = random((331, 257), dtype)
    check_svd(a, *on(device, svd, a))
    a = hermitian(random((307, 307), dtype))
    check_eigh(a, *on(device, eigh, a))


@pytest.mark.needs_compiler
@pytest.mark.needs_float64
def test_long_sums_keep_vectors_orthogonal(device: Device) -> None:
    """Of Kahan's matrix all terms of a reflector's products have one sign."""
    a = RECTANGULAR["Kahan"](300, "float64")
    u, s, vh = on(device, svd, a)
    check_svd(a, u, s, vh)
    for q in (u, vh.T):
        assert np.linalg.norm(q.T @ q - np.eye(300), 2) <= 60 * np.finfo(s.dtype).eps


@pytest.mark.needs_compiler
@pytest.mark.needs_float64
@pytest.mark.parametrize("least", [1.0, 2.0**-12, 2.0**-20, 0.0])
def test_tall_matrices_go_by_gram_matrices(
    device: Device, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of large condition numbers do not, and are no less accurate."""
    monkeypatch.setattr("portable.linalg.factorisations.qr._LEAST", 1)
    bases = (np.linalg.qr(random((rows, 9), "float64", rows))[0] for rows in (90, 9))
    left, right = bases
    a = ((left * np.linspace(1, least, 9)) @ right.T).astype(np.float32)
    for given in (a, a.T):
        u, s, vh = on(device, svd, given)
        check_svd(given, u, s, vh)
        if least > 2.0**-13:
            wide = u.astype(np.float64)
            assert np.linalg.norm(wide.T @ wide - np.eye(9), 2) <= 4 * np.finfo(s.dtype).eps


@pytest.mark.needs_float64
@pytest.mark.parametrize("least", [1e-2, 1e-9, 0.0])
def test_batches_rotate_one_side(
    device: Device, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Singular ones rotate both, and are no less accurate."""
    monkeypatch.setattr("portable.linalg.spectral.decompositions._SEVERAL", 1)
    a = random((3, 9, 7), "float64")
    a[1] = np.linalg.qr(a[1])[0] * np.append(np.linspace(1, 2, 6), least)
    for given in (a, np.swapaxes(a, 1, 2)):
        u, s, vh = on(device, svd, given)
        for i in range(3):
            check_svd(given[i], u[i], s[i], vh[i])


@pytest.mark.needs_processor
def test_neighbours_that_are_merged_do_not_drift() -> None:
    """Values a few roundoffs apart, beside one that is large: many in a row become one."""
    n, eps = 250, np.float32(np.finfo(np.float32).eps)
    d = np.full((1, n), n * eps / 5, np.float32)
    e, d[0, 0] = d.copy(), 1
    device = portable.device("cpu")
    with portable.use(device.name):
        blocks, _ = bidiagonal_vectors(device, device.from_numpy(d), device.from_numpy(e))
    s, u, v = (device.to_numpy(x)[0].astype(np.float64) for x in blocks[:3:2] + blocks[1:2])
    wanted = np.diag(d[0]) + np.diag(e[0, :-1], 1)
    found = (u[:n, :n] * s[:n]) @ v[:n, :n].T
    assert np.linalg.norm(found - wanted, 2) <= 30 * eps


@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (4, 7), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_square_factors(device: Device, shape: tuple[int, int], dtype: str) -> None:
    a = random(shape, dtype)
    u, s, vh = on(device, svd, a, full_matrices=True)
    assert u.shape == (shape[0], shape[0])
    assert vh.shape == (shape[1], shape[1])
    check_svd(a, u, s, vh)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("shape", [(80, 60), (60, 80), (300, 3)], ids=str)
def test_square_factors_in_stages(device: Device, shape: tuple[int, int]) -> None:
    a = random(shape, "float32")
    check_svd(a, *on(device, svd, a, full_matrices=True))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("kind", ["float32", "float64", "complex64"])
def test_zeros_in_stages(device: Device, kind: str) -> None:
    """No rounding errors of numbers that were never there, of which an inverse is large."""
    a = np.zeros((50, 50), kind)
    u, s, vh = on(device, svd, a)
    assert not s.any()
    np.testing.assert_allclose(u @ vh @ (u @ vh).conj().T, np.eye(50), atol=1e-5)
    assert not on(device, pinv, a).any()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 4, 2), (2, 0, 3)], ids=str)
def test_no_elements(device: Device, shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, "float32")
    for full in (False, True):
        found = on(device, svd, a, full_matrices=full)
        for x, y in zip(found, np.linalg.svd(a, full_matrices=full), strict=True):
            np.testing.assert_array_equal(x, y)
    assert on(device, pinv, a).shape == (*shape[:-2], shape[-1], shape[-2])
    assert not np.any(on(device, matrix_rank, a))
    square = np.zeros((*shape[:-1], shape[-2]), "float32")
    if square.size == 0:
        assert on(device, eigh, square)[1].shape == square.shape


@kernel
def change_block(a: Any, by: Any, sums: Any, c: Any, *, SHAPE: DirectShape) -> None:
    """Changes rows 1 to 4 after step 0; column 1 is the next one."""
    own, x, numbers = kl.private(4, a.dtype), kl.private(4, a.dtype), kl.private(4, a.dtype)
    for r in kl.static_range(4):
        own[r], x[r], numbers[r] = 0, 0, c[r]
    change(Step(a, by[0], by[1], 0, 0), Block(1, own, x, numbers), sums, SHAPE, True)


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_reflector_is_made_of_what_is_stored(device: Device, lanes: int) -> None:
    """Where much cancels, contraction makes another number of the same sum in another place."""
    a, c = random((5, 8), "float32"), random((4,), "float32")
    given, by, sums = (device.from_numpy(x) for x in (a, a[:2] * 0, a[0] * 0))
    shape = DirectShape(lanes, 4, 1, 1)
    change_block[1, 1](given, by, sums, device.from_numpy(c), SHAPE=shape)
    expected = a.copy()
    expected[1:, 1] = c
    np.testing.assert_array_equal(device.to_numpy(given), expected)
    np.testing.assert_allclose(device.to_numpy(sums), c[1:] @ expected[2:], rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (6, 9, 9)], ids=str)
def test_rows_of_matrices_and_views(device: Device, shape: tuple[int, ...]) -> None:
    a = random(shape, "float32")
    for x, *parts in zip(
        a.reshape(-1, *shape[-2:]),
        *(y.reshape(-1, *y.shape[len(shape) - 2 :]) for y in on(device, svd, a)),
        strict=True,
    ):
        check_svd(x, *parts)
    with portable.use(device.name):
        given = device.from_numpy(a)
        turned = device.namespace().permute_dims(
            given, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)
        )
        values = device.to_numpy(svd(turned).S)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), rtol=1e-4)


def test_half_precision_is_computed_in_single(device: Device) -> None:
    a = random((6, 5), "float16")
    u, s, vh = on(device, svd, a)
    assert u.dtype == s.dtype == vh.dtype == np.float32
    check_svd(a.astype(np.float32), u, s, vh)


@pytest.mark.parametrize(("n", "value"), [(5, np.inf), (36, np.nan)])
def test_what_is_not_finite_is_refused(device: Device, n: int, value: float) -> None:
    a = random((n, n), "float32")
    a[n // 2, 1] = value
    with pytest.raises(np.linalg.LinAlgError, match="NaN or an infinity"):
        on(device, svd, a)
    with pytest.raises(np.linalg.LinAlgError, match="NaN or an infinity"):
        on(device, eigh, a)


def test_what_is_no_matrix_is_refused(device: Device) -> None:
    with pytest.raises(ShapeError, match=r"matrices \(\.\.\., m, n\)"):
        on(device, svd, np.zeros(3, "float32"))
    with pytest.raises(ShapeError, match="square"):
        on(device, eigh, np.zeros((3, 2), "float32"))
    with pytest.raises(DTypeError):
        on(device, svd, np.zeros((3, 2), "int32"))
    with pytest.raises(ValueError, match="right"):
        on(device, polar, np.zeros((3, 2), "float32"), side="top")


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (2, 7, 7)], ids=str)
def test_pseudo_inverses(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    a[..., 1] = a[..., 0]
    found = on(device, pinv, a, rtol=1e-4)
    np.testing.assert_allclose(found, np.linalg.pinv(a, rtol=1e-4), atol=1e-5)
    rank = on(device, matrix_rank, a, rtol=1e-4)
    np.testing.assert_array_equal(rank, np.linalg.matrix_rank(a, rtol=1e-4))
    assert rank.dtype == np.int64


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (2, 5, 5)], ids=str)
def test_polar_decompositions(
    device: Device, shape: tuple[int, ...], side: str, dtype: str
) -> None:
    a = random(shape, dtype)
    u, p = on(device, polar, a, side=side)
    np.testing.assert_allclose(u @ p if side == "right" else p @ u, a, atol=1e-5)
    np.testing.assert_array_equal(p, np.swapaxes(p.conj(), -1, -2))
    assert np.all(np.linalg.eigvalsh(p) > -1e-5)
    small = (
        np.swapaxes(u.conj(), -1, -2) @ u
        if shape[-2] >= shape[-1]
        else u @ np.swapaxes(u.conj(), -1, -2)
    )
    np.testing.assert_allclose(
        small, np.broadcast_to(np.eye(small.shape[-1]), small.shape), atol=1e-5
    )


def test_identities_beside_a_matrix_become_its_bases(device: Device) -> None:
    """The last panel of 10 columns is narrower than others, behind which begins the identity."""
    climb = device.capabilities.memory_orders == "acq_rel"
    n, shape = 10, DenseShape(4, 2, 1, 1, (8, 4), 8, 16, 0, climb=climb)
    a, begin = random((n, n), "float32"), begin_of_further(n, shape)
    work = np.zeros(shape.room(begin + n, begin + n), np.float32)
    work[:n, :n], work[begin:, :n], work[:n, begin:] = a, np.eye(n), np.eye(n)
    with portable.use(device.name):
        moved = device.from_numpy(work)
        Sweep(device, moved, (n, n), 4, shape, further=(n, n)).run()
    work = device.to_numpy(moved)
    band = np.triu(work[:n, :n]) - np.triu(work[:n, :n], 5)
    np.testing.assert_allclose(work[:n, begin:] @ a @ work[begin:, :n], band, atol=1e-4)
