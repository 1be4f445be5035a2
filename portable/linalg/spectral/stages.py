"""Matrices of any size decomposed in stages: reduced, divided and conquered, and led back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import store_values
from portable.linalg.factorisations.matrices import copied
from portable.linalg.products.repeats import cached_plan, repeated
from portable.linalg.spectral.divide import bidiagonal_vectors, tridiagonal_vectors
from portable.linalg.spectral.reduction_kernels import collect, spread
from portable.linalg.spectral.reductions import (
    SCALED_TO,
    Reflectors,
    largest_magnitudes,
    reduced_to_bidiagonal,
    reduced_to_tridiagonal,
)
from portable.linalg.spectral.reflections import reflect, strip_of, whole_rows

_TILE: Final = (32, 8, 1)
_LINE: Final = 64

_KEPT_BYTES: Final = 8 << 20
"""Bytes of matrices up to which launches take longer to enqueue than to run, and new memory longer
to come than to be worked on."""

_ARRAYS: Final = 16
"""How many times the memory of matrices a plan has."""


def hermitian_in_stages(device: Device, a: Any, values: Any, vectors: Any) -> tuple[Any, ...]:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        The matrices, of which lower triangles are read.
    values : array, shape (count, n)
        Where eigenvalues go, the least first.
    vectors : array, shape (count, n, n), or None
        Where eigenvectors go, as columns.

    Returns
    -------
    array, array
        Largest magnitudes, and what is not 0 where rotations did not end. A later call of this
        thread may overwrite them.
    """
    return _replayed(device, a, (values, vectors), _hermitian)


def svd_in_stages(device: Device, a: Any, values: Any, left: Any, right: Any) -> tuple[Any, ...]:
    """Singular values and vectors of matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        The matrices, which are not empty.
    values : array, shape (count, min(m, n))
        Where singular values go, the largest first.
    left : array, shape (count, m, k)
        Where left vectors go, as columns; k is m or ``min(m, n)``.
    right : array, shape (count, k, n)
        Where right vectors go, conjugated, as rows; k is n or ``min(m, n)``.

    Returns
    -------
    array, array
        As of `hermitian_in_stages`.
    """
    return _replayed(device, a, (values, left, right), _svd)


class _Plan(NamedTuple):
    """Arrays for a decomposition, and what enqueues it; a later call overwrites them."""

    given: Any
    results: tuple[Any, ...]
    flags: tuple[Any, Any]
    run: Callable[[], object]


_Work = Callable[[Device, Any, tuple[Any, ...]], tuple[Any, Any]]


def _replayed(device: Device, a: Any, results: tuple[Any, ...], work: _Work) -> tuple[Any, ...]:
    """What `work` does, by arrays of a plan where launches are replayed and matrices are small."""
    count, m, n = (int(x) for x in a.shape)
    kind = dtype(a.dtype)
    size = count * m * n * kind.itemsize
    if size > _KEPT_BYTES:
        return work(device, a, results)
    extents = tuple(None if x is None else tuple(int(size) for size in x.shape) for x in results)
    key = work, (count, m, n), kind, extents
    plan = cached_plan(device, key, lambda: _new_plan(device, a, results, work), _ARRAYS * size)
    copied(device, a, plan.given)
    plan.run()
    for source, target in zip(plan.results, results, strict=True):
        if target is not None:
            moved = (x[None] if x.ndim == 2 else x for x in (source, target))
            copied(device, *moved)
    return plan.flags


def _new_plan(device: Device, a: Any, results: tuple[Any, ...], work: _Work) -> _Plan:
    def alike(x: Any) -> Any:
        return None if x is None else device.empty(tuple(int(n) for n in x.shape), dtype(x.dtype))

    given, results_alike = alike(a), tuple(alike(x) for x in results)
    count, real = int(a.shape[0]), dtype(results[0].dtype)
    flags = device.empty((count,), real), device.empty((count,), kl.i32)
    items = 1 if device.capabilities.single_work_items else _LINE

    def run() -> None:
        largest, status = work(device, given, results_alike)
        keep_flags[groups(1), items](largest, status, *flags)

    return _Plan(given, results_alike, flags, repeated(device, run))


@kernel
def keep_flags(largest: kl.Array, status: kl.Array, kept: kl.Array, worst: kl.Array) -> None:
    """Copies largest magnitudes, and into all of `worst` the largest status."""
    most = kl.cast(0, worst.dtype)
    for i in range(kl.local_id(0), status.shape[0], kl.local_size(0)):
        most = kl.maximum(most, status[i])
    most = kl.workgroup_reduce(kl.maximum, most)
    for i in range(kl.local_id(0), kept.shape[0], kl.local_size(0)):
        kept[i], worst[i] = largest[i], most


def _hermitian(device: Device, a: Any, results: tuple[Any, ...]) -> tuple[Any, Any]:
    values, vectors = results
    largest = largest_magnitudes(device, a, hermitian=True)
    reduced = reduced_to_tridiagonal(device, a, largest)
    wanted = vectors is not None
    blocks, status = tridiagonal_vectors(device, reduced.d, reduced.e, wanted=wanted)
    n = int(reduced.d.shape[1])
    _store_values(blocks.values, largest, values, reverse=False)
    if wanted:
        _lead_back(device, n, blocks.right, reduced.columns, vectors, reverse=False, turned=False)
    return largest, status


def _svd(device: Device, a: Any, results: tuple[Any, ...]) -> tuple[Any, Any]:
    values, left, right = results
    turned = a.shape[1] < a.shape[2]
    largest = largest_magnitudes(device, a, hermitian=False)
    reduced = reduced_to_bidiagonal(device, a, largest)
    blocks, status = bidiagonal_vectors(device, reduced.d, reduced.e)
    n = int(reduced.d.shape[1])
    _store_values(blocks.values, largest, values, reverse=True)
    longs, squares = (right, left) if turned else (left, right)
    assert reduced.rows is not None
    _lead_back(device, n, blocks.left, reduced.columns, longs, reverse=True, turned=turned)
    _lead_back(device, n, blocks.right, reduced.rows, squares, reverse=True, turned=not turned)
    return largest, status


def _store_values(scaled: Any, largest: Any, values: Any, *, reverse: bool) -> None:
    count, n = (int(x) for x in values.shape)
    store_values[(n, count), (_LINE, 1)](
        scaled, largest, values, TARGET=SCALED_TO, REVERSED=reverse
    )


def _lead_back(
    device: Device, n: int, vectors: Any, by: Reflectors, out: Any, *, reverse: bool, turned: bool
) -> None:
    """Vectors of a reduced matrix multiplied with the reflectors that reduced it."""
    kind = dtype(out.dtype)
    count, rows, columns = (int(x) for x in out.shape)
    rows, columns = (columns, rows) if turned else (rows, columns)
    parts = 2 if kind.is_complex else 1
    strip = strip_of(device, kind.real, columns)
    width = -(-columns // strip) * strip
    x = device.empty((count, whole_rows(device, parts * rows), width), kind.real)
    height = int(x.shape[1]) // parts
    spread[(width, height, count), _TILE](vectors, by.phases, x, n, REVERSED=reverse)
    reflect(device, by.vectors, by.factors, x, by.first)
    collect[(columns, rows, count), _TILE](x, out, TRANSPOSED=turned)
