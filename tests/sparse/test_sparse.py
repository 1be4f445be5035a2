"""Sparse matrices and their products on every device, against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import portable as pt
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.sparse import CSR, products

RANDOM = np.random.default_rng(5)
SHAPES = [(1, 1, 1.0), (7, 5, 0.0), (0, 4, 0.5), (30, 0, 0.5), (31, 17, 0.4), (301, 97, 0.03)]
KINDS = ["float32", "float64", "float16", "complex64", "int32"]


def matrix(m: int, n: int, density: float, kind: str) -> Any:
    random = scipy.sparse.random(m, n, density, random_state=3, format="csr")
    random.data = 1 + np.round(random.data * 16)  # sums of products are exact
    return random.astype("float32" if kind == "float16" else kind)


def held(device: Device, a: Any, kind: str) -> CSR:
    parts = (a.data.astype(kind), a.indices, a.indptr)
    moved = (pt.asarray(x, device=device.for_arrays()) for x in parts)
    return CSR(*moved, shape=a.shape)


def whole(shape: Any, kind: str) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(kind)


def needs(device: Device, kind: str) -> None:
    if kind == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(device: Device, shape: tuple[int, int, float], kind: str) -> None:
    needs(device, kind)
    a = matrix(*shape, kind)
    sparse = held(device, a, kind)
    assert (sparse.shape, sparse.nnz, sparse.ndim) == (a.shape, a.nnz, 2)
    n = shape[1]
    for extents in ((n,), (n, 1), (n, 3), (n, 19)):
        x = whole(extents, kind)
        found = pt.to_numpy(sparse @ pt.asarray(x, device=device.for_arrays()))
        assert found.dtype == np.dtype(kind)
        np.testing.assert_array_equal(found, (a @ x).astype(kind))


@pytest.mark.parametrize("last", [0, 1])
def test_long_rows_among_short_ones(
    last: int, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_LONG", 40)
    monkeypatch.setattr(products, "_TIMES_MEAN", 2)
    monkeypatch.setattr(products, "_MOST_ITEMS", 32)
    monkeypatch.setattr(products, "_EACH", 3)
    monkeypatch.setattr(products, "FEW", 16)
    monkeypatch.setattr(products, "MANY", 24)
    a = matrix(60, 300, 0.02, "float32").tolil()
    a[0:5, :] = 0
    a[7, :] = 2
    a[58, ::2] = 3
    a[59, :] = last
    a = a.tocsr()
    a.eliminate_zeros()
    sparse = held(device, a, "float32")
    for extents in (300, 300, (300, 5), (300, 8), (300, 10), *[(300, 4)] * 6, *[300] * 4):
        x = whole(extents, "float32")
        found = sparse @ pt.asarray(x, device=device.for_arrays())
        np.testing.assert_array_equal(pt.to_numpy(found), a @ x)


@pytest.mark.needs_compiler
def test_more_rows_than_groups_along_a_dimension(device: Device) -> None:
    n = 70000 * 8
    a = scipy.sparse.eye_array(n, dtype=np.float32, format="csr")
    x = np.arange(n, dtype=np.float32).reshape(n, 1)
    found = held(device, a, "float32") @ pt.asarray(x, device=device.for_arrays())
    np.testing.assert_array_equal(pt.to_numpy(found), x)


def test_views_and_columns_that_come_twice(device: Device) -> None:
    data = np.float32([1, 2, 3, 4, 5])
    columns, offsets = np.int64([2, 2, 0, 1, 0]), np.int64([0, 3, 3, 5])
    place = device.for_arrays()
    a = CSR(*(pt.asarray(x, device=place) for x in (data, columns, offsets)), shape=(3, 3))
    x = pt.asarray(np.arange(12, dtype=np.float32).reshape(6, 2), device=place)
    dense = np.float32([[3, 0, 3], [0, 0, 0], [5, 4, 0]])
    np.testing.assert_array_equal(pt.to_numpy(a @ x[::2, ::-1]), dense @ pt.to_numpy(x[::2, ::-1]))
    np.testing.assert_array_equal(pt.to_numpy(a @ x[3:, 1]), dense @ pt.to_numpy(x[3:, 1]))


def test_dtypes_promote_and_infinities_pass(device: Device) -> None:
    a = held(device, matrix(20, 20, 0.3, "int32"), "int32")
    x = np.where(np.arange(20) == 3, np.inf, 1).astype(np.float32)
    found = pt.to_numpy(a @ pt.asarray(x, device=device.for_arrays()))
    kept = a.to_scipy()
    has = (kept != 0).toarray()[:, 3]
    assert np.isinf(found[has]).all()
    np.testing.assert_array_equal(found[~has], (kept @ np.ones(20))[~has])


@pytest.mark.needs_namespace
@pytest.mark.parametrize("shape", [(31, 17, 0.2), (9, 40, 0.5), (4, 4, 0.0)], ids=str)
def test_other_forms(device: Device, shape: tuple[int, int, float]) -> None:
    a = matrix(*shape, "float32")
    sparse = CSR.from_scipy(a.tocoo(), device=device)
    same = np.testing.assert_array_equal
    same(sparse.to_scipy().toarray(), a.toarray())
    same(pt.to_numpy(sparse.to_dense()), a.toarray())
    same(sparse.T.to_scipy().toarray(), a.toarray().T)
    same(pt.to_numpy(sparse.diagonal()), a.diagonal())
    again = CSR.from_dense(sparse.to_dense())
    same(again.to_scipy().toarray(), a.toarray())
    assert again.nnz == a.count_nonzero()
    assert f"{shape[0]} x {shape[1]}" in repr(sparse)


@pytest.mark.needs_namespace
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((41, 30, 0.2), "float32"),
        ((31, 17, 0.3), "complex64"),
        ((6, 5, 0.0), "float32"),
        ((0, 3, 0.5), "int32"),
    ],
    ids=str,
)
def test_sums_and_products_are_sparse(
    device: Device, shape: tuple[int, int, float], kind: str
) -> None:
    m, n, density = shape
    a, b, c = matrix(m, n, density, kind), matrix(n, m, density, kind), matrix(m, n, 0.4, kind)
    c.data = -c.data
    ours, other = held(device, a, kind), held(device, c, kind)
    wide = "complex64" if kind == "complex64" else "float64"
    for found, wanted in (
        (ours + other, a.astype(wide) + c),
        (ours - other, a.astype(wide) - c),
        (ours @ held(device, b, kind), a.astype(wide) @ b),
        (2 * ours, 2 * a),
        (np.dtype(kind).type(3) * -ours, -a * 3),
        (ours.astype(ours.dtype), a),
    ):
        sums = found.to_scipy()
        sums.sort_indices()  # no rows of a product on processors are
        assert sums.has_canonical_format or found.nnz <= 1
        assert pt.to_numpy(found.data).dtype == np.dtype(kind)
        np.testing.assert_array_equal(found.to_scipy().toarray(), wanted.toarray().astype(kind))
    np.testing.assert_array_equal(abs(other).to_scipy().toarray(), abs(c).toarray())
    zero = sum([ours, -ours])
    assert zero.nnz == a.nnz
    zero.eliminate_zeros()
    assert (zero.nnz, zero.shape) == (0, a.shape)
    for axis in (None, 0, 1, -1):
        total = pt.to_numpy(other.sum(axis))
        np.testing.assert_array_equal(total, c.toarray().astype(wide).sum(axis).astype(total.dtype))


@pytest.mark.needs_namespace
@pytest.mark.parametrize("offsets", ["int32", "int64"])
@pytest.mark.parametrize("item", [1, 7, 10**6])
def test_products_of_rows_shared_out(
    device: Device, item: int, offsets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few work-items and many, rows of hundreds of products and none, columns that come twice."""
    monkeypatch.setattr(products, "_LEAST_SHARE", item)
    a, b = matrix(40, 31, 0.1, "float32"), matrix(31, 53, 0.2, "float32")
    a = scipy.sparse.vstack([a[:7], np.ones((1, 31), "float32"), 0 * a[:9], a[7:]], format="csr")
    a.indices, a.indptr = a.indices.astype(offsets), a.indptr.astype(offsets)
    b.indices[1] = b.indices[0]
    found = (held(device, a, "float32") @ held(device, b, "float32")).to_scipy()
    np.testing.assert_array_equal(found.toarray(), a.toarray() @ b.toarray())
    a.data, b.data = np.ones_like(a.data), np.ones_like(b.data)
    assert found.nnz == (a @ b).nnz  # zeros are kept, and each column once


@pytest.mark.needs_namespace
def test_rows_columns_and_elements(device: Device) -> None:
    a = matrix(31, 17, 0.3, "float32")
    sparse, dense = held(device, a, "float32"), a.toarray()
    rows = pt.asarray(np.int32([3, -1, 3, 0]), device=device.for_arrays())
    for index in (
        5,
        -2,
        slice(4, 9),
        slice(20, None, -3),
        slice(7, 3),
        [2, 2, 30],
        dense[:, 3] > 0,
    ):
        found = sparse[index].to_scipy().toarray()
        np.testing.assert_array_equal(found, np.atleast_2d(dense[index]))
    np.testing.assert_array_equal(sparse[rows].to_scipy().toarray(), dense[[3, -1, 3, 0]])
    for pair in (
        (slice(None), 4),
        (slice(2, 9), [1, 16, 1]),
        (8, slice(None)),
        (slice(3), slice(5)),
    ):
        found = sparse[pair].to_scipy().toarray()
        np.testing.assert_array_equal(found, dense[pair].reshape(found.shape))
    elements = [[float(sparse[i, j]) for j in (0, 5, -1)] for i in (0, 9, -1)]
    np.testing.assert_array_equal(elements, dense[[0, 9, -1]][:, [0, 5, -1]])
    x = pt.asarray(whole((3, 31), "float32"), device=device.for_arrays())
    for left in (x, x[1, :]):  # dpnp's arrays refuse what they do not know
        found = sparse.__rmatmul__(left) if device.backend == "sycl" else left @ sparse
        np.testing.assert_array_equal(pt.to_numpy(found), pt.to_numpy(left) @ dense)
    coordinates = a.tocoo()
    places = (np.r_[x, x[::2]] for x in (coordinates.data, *coordinates.coords))
    parts = (pt.asarray(np.ascontiguousarray(x), device=device.for_arrays()) for x in places)
    twice = dense.copy()
    np.add.at(twice, tuple(x[::2] for x in coordinates.coords), coordinates.data[::2])
    np.testing.assert_array_equal(CSR.from_coo(*parts, a.shape).to_scipy().toarray(), twice)


@pytest.mark.needs_processor
def test_bools_are_refused() -> None:
    a = CSR.from_scipy(scipy.sparse.csr_matrix(np.eye(3, dtype=bool)))
    ones, numbers = np.ones((3, 3), bool), a.astype(np.int32)
    for refused in (
        lambda: a @ a,
        lambda: a @ ones,
        lambda: a @ ones[0],
        lambda: a + a,
        lambda: a.sum(0),
        a.diagonal,
    ):
        with pytest.raises(DTypeError, match=r"write A\.astype\(xp\.int32\)"):
            refused()
    np.testing.assert_array_equal(pt.to_numpy((a @ numbers).toarray()), np.eye(3))
    np.testing.assert_array_equal(pt.to_numpy(numbers @ ones[0]), [1, 1, 1])


def test_what_has_no_sparse_result() -> None:
    a = CSR.from_scipy(matrix(3, 4, 0.5, "float32"), device="cpu")
    for wrong in (lambda: a + 1, lambda: np.ones((3, 4)) - a, lambda: a - np.ones((3, 4))):
        with pytest.raises(TypeError, match=r"unsupported|toarray\(\) \+ x"):
            wrong()
    for wrong in (lambda: a * a, lambda: np.ones(4) * a, lambda: a / np.ones(4)):
        with pytest.raises(TypeError, match="write A @ x for a product"):
            wrong()
    for name, hint in (("dot", "write A @ x"), ("indptr", "A.offsets"), ("nothing", "nothing$")):
        with pytest.raises(AttributeError, match=hint):
            getattr(a, name)
    with pytest.raises(TypeError, match=r"write A\.toarray\(\)"):
        np.asarray(a)
    with pytest.raises(IndexError, match=r"write A\[rows\]\[:, columns\]"):
        _ = a[[0, 1], [2, 3]]  # elements to SciPy
    for index in ((1, 4), (1, [4]), (slice(None), 4)):
        with pytest.raises(IndexError, match=r"column .*is out of range for 4 columns"):
            _ = a[index]
    with pytest.raises(TypeError, match=r"CSR\.from_scipy\(x\)"):
        _ = a @ a.to_scipy().T
    with pytest.raises(ShapeError, match=r"shapes \(3, 4\) and \(4, 3\)"):
        _ = a + a.T
    with pytest.raises(ShapeError, match=r"\(3, 4\) and \(3, 4\) in A @ B"):
        _ = a @ a
    for index in (3, [5], [0.5], np.ones((2, 2), int)):
        with pytest.raises(IndexError, match=r"out of range for 3 rows|expected numbers, a slice"):
            a[index]
    with pytest.raises(ValueError, match="axis=2"):
        a.sum(2)
    for row in (2, -1):
        with pytest.raises(ValueError, match="row is out of range for 2 rows"):
            CSR.from_coo(np.ones(1), np.int32([row]), np.int32([0]), (2, 2))
    for rows, columns in (([0, 1], [0]), ([0], [0, 1]), ([[0]], [0]), ([0, 1], [0, 1])):
        with pytest.raises(ShapeError, match="vectors of one length"):
            CSR.from_coo(np.ones(1), np.int32(rows), np.int32(columns), (2, 2))


@pytest.mark.needs_processor
def test_what_is_no_matrix() -> None:
    data, columns, offsets = np.ones(3, np.float32), np.int32([0, 1, 2]), np.int32([0, 1, 3])
    assert CSR(data, columns, offsets, (2, 3)).nnz == 3
    with pytest.raises(ValueError, match="out of range for 2 columns"):
        CSR(data, columns, offsets, (2, 2))
    with pytest.raises(ValueError, match="ascend from 0 to 3"):
        CSR(data, columns, np.int32([0, 4, 3]), (2, 3))
    with pytest.raises(ShapeError, match="3 rows take 4 offsets"):
        CSR(data, columns, offsets, (3, 3))
    with pytest.raises(ShapeError, match="vectors of one length"):
        CSR(data[:2], columns, offsets, (2, 3))
    with pytest.raises(DTypeError, match="columns are int32 or int64"):
        CSR(data, columns.astype(np.float32), offsets, (2, 3))
    with pytest.raises(ShapeError, match=r"expected \(3,\) or \(3, k\)"):
        _ = CSR(data, columns, offsets, (2, 3)) @ np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"not ndarray; CSR\.from_dense takes arrays"):
        CSR.from_scipy(np.eye(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 5, 0.5), (300, 7, 0.3), (40, 400, 0.1)], ids=str)
def test_vectors_times_a_matrix(device: Device, shape: tuple[int, int, float], kind: str) -> None:
    needs(device, kind)
    a = matrix(*shape, kind)
    sparse, x = held(device, a, kind), whole(shape[0], kind)
    found = pt.to_numpy(sparse.__rmatmul__(pt.asarray(x, device=device.for_arrays())))
    assert found.dtype == np.dtype(kind)
    np.testing.assert_array_equal(found, (x @ a).astype(kind))
    turned = sparse.T
    for _ in range(2):  # without arrays of its own, and with them
        found = pt.to_numpy(turned @ pt.asarray(x, device=device.for_arrays()))
        np.testing.assert_array_equal(found, (a.T @ x).astype(kind))
        assert (turned.nnz, turned.T.shape) == (a.nnz, a.shape)
    sums = np.asarray(a.sum(axis=0)).reshape(-1)
    np.testing.assert_array_equal(pt.to_numpy(sparse.sum(axis=0)), sums)


def test_vectors_times_a_matrix_of_numbers_that_numpy_lacks() -> None:
    kind = dtype("bfloat16").numpy
    a = matrix(30, 17, 0.4, "float32")
    sparse, x = CSR(a.data.astype(kind), a.indices, a.indptr, shape=a.shape), whole(30, kind)
    for found in (x @ sparse, sparse.T @ x):
        assert found.dtype == kind
        np.testing.assert_array_equal(found, (x.astype(np.float32) @ a).astype(kind))
    assert sparse.sum(axis=0).dtype == kind
