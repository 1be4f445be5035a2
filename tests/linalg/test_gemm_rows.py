"""Operands whose rows begin anywhere, copied into rows that begin where devices want them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.dtypes import DType, float16, float32, float64
from portable.errors import OutOfMemoryError
from portable.lang.arguments.arguments import array_spec
from portable.linalg import gemm, prepare_gemm
from portable.linalg.products import launches as gemm_launches
from portable.linalg.products import plan as plan_module
from portable.linalg.products import rows as gemm_rows
from portable.linalg.products.plan import planned
from portable.linalg.products.rows import Rows, in_rows, row_multiples
from tests.support.calls import products_checked
from tests.support.compilers import CUDA

CASES = [((3, 5), "float16"), ((70, 131), "float16"), ((2, 3, 9, 67), "float32")]


def counted(shape: tuple[int, ...], dtype: str) -> Any:
    return (np.arange(np.prod(shape)) % 511).reshape(shape).astype(dtype)


def transposed(device: Device, x: Any) -> Any:
    """A view."""
    return device.namespace().matrix_transpose(x)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_rows_are_aligned_and_the_same(
    device: Device, shape: tuple[int, ...], dtype: str, across: bool
) -> None:
    x = counted(shape, dtype)
    given = device.from_numpy(x)
    if across:
        given, x = transposed(device, given), x.swapaxes(-1, -2)
    assert not array_spec(device.view(given)).aligned
    for columns in (False, True):
        found = in_rows(device, given, across=columns)
        view = device.view(found)
        assert array_spec(view).aligned
        assert view.strides[-2 if columns else -1] == view.dtype.itemsize
        assert (device.to_numpy(found) == x).all()


@pytest.mark.parametrize("across", [False, True])
def test_aligned_arrays_are_taken_as_they_are(device: Device, across: bool) -> None:
    whole = device.from_numpy(counted((8, 40), "float32"))
    x = transposed(device, whole) if across else whole
    assert in_rows(device, x) is x


def test_arrays_are_taken_as_they_are_where_there_is_no_room(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OutOfMemoryError("full")

    x = device.from_numpy(counted((3, 5), "float32"))
    monkeypatch.setattr(type(device), "empty", full)
    assert in_rows(device, x) is x


@pytest.mark.parametrize("across", [False, True])
def test_products_of_copies(device: Device, monkeypatch: pytest.MonkeyPatch, across: bool) -> None:
    if "vector" not in device.capabilities.async_copy:
        pytest.skip(f"{device.name} copies nothing asynchronously")
    monkeypatch.setattr(gemm_rows, "_FEWEST_PRODUCTS", {float16: 1})
    monkeypatch.setattr(gemm_rows, "_FEWEST_USES", 1)
    a, b = (counted(shape, "float16") % 7 for shape in ((19, 23), (23, 13)))
    left, right = device.from_numpy(a), device.from_numpy(b)
    if across:
        left, right = (transposed(device, device.from_numpy(x.T.copy())) for x in (a, b))
    found = device.to_numpy(gemm(left, right))
    assert (found == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_prepared_products_of_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device as an H200 is, whose rows are copied at each call."""
    monkeypatch.setattr(gemm_rows, "_FEWEST_PRODUCTS", {float16: 1})
    monkeypatch.setattr(gemm_rows, "_FEWEST_USES", 1)
    a, b = (counted(shape, "float16") % 7 for shape in ((9, 11), (11, 5)))
    out = np.zeros((9, 5), np.float16)
    with portable.use("simulator:h200"):
        again = prepare_gemm(a, b, out=out)
        for _ in range(2):
            again()
            assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()
            a += 1


@pytest.mark.parametrize(("dtype", "columns"), [("float16", False), ("float32", True)])
def test_prepared_products_copy_at_each_call(
    device: Device, monkeypatch: pytest.MonkeyPatch, dtype: str, columns: bool
) -> None:
    """Both operands of stacks of matrices, before launches of partial sums that are added up."""
    monkeypatch.setattr(
        plan_module, "row_multiples", lambda *_: Rows(128, 128, turned=columns, across=columns)
    )
    usual = gemm_launches.schemes
    monkeypatch.setattr(gemm_launches, "schemes", lambda *x: [(y, 2) for y, _ in usual(*x)])
    a, b = (counted(shape, dtype) % 7 for shape in ((2, 9, 131), (131, 5)))
    left, right = device.from_numpy(a), device.from_numpy(b)
    if columns:
        right = transposed(device, device.from_numpy(b.T.copy()))
    out = device.from_numpy(np.zeros((2, 9, 5), dtype))
    again = prepare_gemm(left, right, out=out)
    for factor in (1, 0, 2):
        left[...] = device.from_numpy(a * np.asarray(factor, dtype))
        again()
        wanted = factor * (a.astype(np.float32) @ b.astype(np.float32))
        assert (device.to_numpy(out) == wanted.astype(dtype)).all()


def test_columns_of_b_are_turned_into_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a kernel of their own, before products of single precision; not for matrix units."""
    monkeypatch.setattr(gemm_rows, "_FEWEST_PRODUCTS", {float32: 1})
    monkeypatch.setattr(gemm_rows, "_FEWEST_USES", 1)
    monkeypatch.setattr(gemm_rows, "_FEWEST_ROWS_TURNED", 8)
    copied: list[Any] = []
    copy = gemm_rows.copy_into

    def copy_into(x: Any, out: Any) -> None:
        copied.append(x)
        copy(x, out)

    monkeypatch.setattr(gemm_rows, "copy_into", copy_into)
    a, b = (counted(shape, "float32") % 7 for shape in ((8, 12), (12, 20)))
    columns = np.ascontiguousarray(b.T).T
    with portable.use("simulator:h200"):
        assert (gemm(a, columns) == a @ b).all()
        assert len(copied) == 1
        assert copied[0] is columns
        gemm(a, b)
        gemm(a, columns, precision="tf32")
        assert len(copied) == 1


class Lent:
    """An array of another library."""

    def __init__(self, x: Any) -> None:
        self.shape, self.dtype, self._lender = x.shape, x.dtype, x

    def __dlpack__(self, **options: Any) -> Any:
        return self._lender.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._lender.__dlpack_device__()  # type: ignore[no-any-return]


@pytest.mark.needs_processor
def test_prepared_products_of_other_libraries_arrays() -> None:
    a, b = (counted(shape, "float32") % 7 for shape in ((9, 16), (16, 8)))
    out = np.zeros((9, 8), np.float32)
    with portable.use("cpu"):
        prepare_gemm(Lent(a), Lent(b), out=Lent(out))()
    assert (out == a @ b).all()


def test_rows_are_copied_where_they_begin_between_sectors(device: Device) -> None:
    x = device.from_numpy(counted((6, 40), "float16"))
    assert in_rows(device, x) is x
    found = in_rows(device, x, 32)
    view = device.view(found)
    assert view.strides[0] % 32 == 0
    assert (device.to_numpy(found) == counted((6, 40), "float16")).all()


def test_large_products_of_narrow_types_are_worth_copies() -> None:
    large, thin, small = (2, 1024, 1024), (1, 2**30), (64, 64)
    kinds = [float16, float32, float64]
    found = [row_multiples(CUDA, kind, large, 1024, False) for kind in kinds]
    assert found == [Rows(16, 16), Rows(16, 16, across=True), None]
    assert not any(row_multiples(CUDA, float16, shape, 64, False) for shape in (thin, small))
    plain = replace(CUDA, async_copy=frozenset())
    assert row_multiples(plain, float16, large, 1024, False) is None


@pytest.mark.parametrize(
    ("kind", "edge", "b_columns", "multiples"),
    [
        (float16, 4104, False, Rows(16, 32)),
        (float16, 4104, True, Rows(16, 16)),
        (float16, 1032, False, Rows(16, 16)),
        (float32, 4104, False, Rows(16, 16, across=True)),
        (float32, 4104, True, Rows(16, 16, turned=True, across=True)),
        (float32, 1032, True, Rows(16, 16, across=True)),
    ],
)
def test_how_the_rows_of_b_should_lie(
    kind: DType, edge: int, b_columns: bool, multiples: Rows
) -> None:
    engine = replace(CUDA, async_copy=CUDA.async_copy | {"tensor"})
    assert row_multiples(engine, kind, (edge, edge), edge, b_columns) == multiples


@pytest.mark.parametrize(
    ("rows", "columns", "wants"),
    [
        (19, False, Rows(16, 16)),
        (21, True, Rows(16, 16, turned=True, across=True)),
        (25, False, Rows(16, 16, along_sum=True)),
    ],
)
def test_calls_alike_of_products_of_copies(
    device: Device, monkeypatch: pytest.MonkeyPatch, rows: int, columns: bool, wants: Rows
) -> None:
    """Copies and product are launched again without a plan; what operands hold is read anew."""
    if device.interprets:
        pytest.skip("the simulator recognises no launches")
    monkeypatch.setattr(plan_module, "row_multiples", lambda *_: wants)
    checked = products_checked(monkeypatch)
    planned.cache_clear()
    a, b = (counted(shape, "float32") % 7 for shape in ((rows, 23), (23, 13)))
    for count in range(8):
        left, right = device.from_numpy(a + count), device.from_numpy(b)
        if columns:
            right = transposed(device, device.from_numpy(b.T.copy()))
        found = device.to_numpy(gemm(left, right))
        assert (found == (a + count) @ b).all()
    planned.cache_clear()
    assert len(checked) == 4
