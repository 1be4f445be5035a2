"""The doors: functions by which an operation is asked for, and settings to call them in.

An `Operation` has what NumPy makes of its operands and the functions that lead to it. A `Setting`
is how any of them may be called: again, on a stream, with views, with another library's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import portable
from portable import conv, linalg, numerics, primitives
from portable.backend import Device

Array = np.ndarray[Any, Any]
Call = Callable[..., Any]

_AGAIN: Final = 6
"""Calls after which launches are recognised, and one more."""


@dataclass(frozen=True)
class Door:
    """A function that leads to an operation.

    Attributes
    ----------
    name : str
        As users write it.
    call : callable
        ``call(xp, *operands)``.
    any_library : bool
        Whether it takes every library's arrays, not `portable.array`'s alone.
    own_way : bool
        Whether it takes a way of its own, where others take the operation's.
    one : bool
        Whether it takes one problem, not a stack.
    """

    name: str
    call: Call
    any_library: bool = False
    own_way: bool = False
    one: bool = False


@dataclass(frozen=True)
class Operation:
    """What is asked for.

    Attributes
    ----------
    name : str
        In plain words.
    expected : callable
        ``expected(*operands)`` of NumPy's arrays, in double precision.
    doors : tuple of Door
        The functions, the first one called in all settings.
    stacks : bool
        Whether further dimensions before its own are allowed.
    """

    name: str
    expected: Call
    doors: tuple[Door, ...]
    stacks: bool = True


# -- settings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A manner to call a door in.

    Attributes
    ----------
    name : str
        In plain words.
    run : callable
        ``run(device, door, operands)`` gives the result and what it has to be made of.
    same_way : bool
        Whether the way must be the one that a plain call takes.
    any_library : bool
        Whether it is for doors that take every library's arrays.
    stacked : bool
        Whether it is for operations that take stacks.
    """

    name: str
    run: Callable[[Device, Door, tuple[Array, ...]], tuple[Any, tuple[Array, ...]]]
    same_way: bool = True
    any_library: bool = False
    stacked: bool = False


def _called(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    return door.call(portable.xp(device), *map(device.from_numpy, operands)), operands


def _called_again(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    """Each call has other arrays; an earlier one's result must not come back.

    The simulator recognises no launches: its second call runs the recipe that the first one wrote.
    """
    for count in range(2 if device.interprets else _AGAIN):
        given = tuple(x if count % 2 else np.flip(x).copy() for x in operands)
        result, _ = _called(device, door, given)
    return result, given


def _on_a_stream(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    stream = portable.Stream(device)
    with stream:
        result, _ = _called(device, door, operands)
    stream.synchronize()
    return result, operands


def _with_numpys_arrays(_: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    return door.call(np, *operands), operands


def _with_pytorchs_arrays(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if device.capabilities.kind == "gpu" and not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU here")
    where = "cuda" if device.capabilities.kind == "gpu" else "cpu"
    if where == "cuda" and door.name == "numerics.einsum" and operands[0].dtype.kind == "i":
        pytest.skip("PyTorch multiplies no matrices of integers on GPUs")
    result = door.call(torch, *(torch.from_numpy(x).to(where) for x in operands))
    return np.asarray(result.cpu()), operands


def _with_views(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    """Every other element along the last axis of what begins behind a larger array's start."""

    def view(x: Array) -> Any:
        room = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        room[..., 1::2] = x
        return device.from_numpy(room)[..., 1::2]

    return door.call(portable.xp(device), *map(view, operands)), operands


def _transposed(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    def turned(x: Array) -> Any:
        return device.from_numpy(np.ascontiguousarray(x.T)).T if x.ndim == 2 else None

    given = [turned(x) for x in operands]
    if any(x is None for x in given):
        return _called(device, door, operands)
    return door.call(portable.xp(device), *given), operands


def _in_a_batch(device: Device, door: Door, operands: tuple[Array, ...]) -> Any:
    return _called(device, door, tuple(np.stack([x, np.flip(x)]) for x in operands))


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("called", _called),
    Setting("called again", _called_again),
    Setting("on a stream", _on_a_stream),
    Setting("with NumPy's arrays", _with_numpys_arrays, same_way=False, any_library=True),
    Setting("with PyTorch's arrays", _with_pytorchs_arrays, same_way=False, any_library=True),
    Setting("with views", _with_views, same_way=False),
    Setting("transposed", _transposed, same_way=False),
    Setting("in a batch", _in_a_batch, same_way=False, stacked=True),
)


def doors_of(operation: Operation) -> Iterator[tuple[Door, Setting]]:
    """Each door called plainly and again; the first that suits a setting, in that setting."""
    for door in operation.doors:
        yield door, SETTINGS[0]
        yield door, SETTINGS[1]
    for setting in SETTINGS[2:]:
        fitting = (
            door
            for door in operation.doors
            if (door.any_library or not setting.any_library) and not (setting.stacked and door.one)
        )
        found = next(fitting, None)
        if found is not None and (operation.stacks or not setting.stacked):
            yield found, setting


# -- products -------------------------------------------------------------------------------------


def _new_result(a: Any, b: Any) -> Any:
    shape = (*a.shape[:-1], b.shape[-1])
    empty = np.zeros(shape, portable.to_numpy(a[:1]).dtype)
    return empty if isinstance(a, np.ndarray) else portable.namespace.device_of(a).from_numpy(empty)


def _into_out(_: Any, a: Any, b: Any) -> Any:
    out = _new_result(a, b)
    assert linalg.gemm(a, b, out=out) is out
    return out


def _prepared(_: Any, a: Any, b: Any) -> Any:
    out = _new_result(a, b)
    product = linalg.prepare_gemm(a, b, out=out)
    product()
    product()
    return out


def _replayed(_: Any, a: Any, b: Any) -> Any:
    """Captured in a graph where the device has these; the third time it runs from there."""
    out = _new_result(a, b)
    device = portable.namespace.device_of(a)
    work = device.replay(linalg.prepare_gemm(a, b, out=out))
    for _ in range(3):
        work()
    device.synchronize()
    return out


_ARRAY_PRODUCTS: Final = (
    Door("a @ b", lambda _, a, b: a @ b),
    Door("xp.matmul", lambda xp, a, b: xp.matmul(a, b)),
    Door("xp.linalg.matmul", lambda xp, a, b: xp.linalg.matmul(a, b)),
    Door("xp.tensordot", lambda xp, a, b: xp.tensordot(a, b, axes=1), one=True),
    Door(
        "numerics.einsum",
        lambda _, a, b: numerics.einsum("ij,jk->ik", a, b),
        any_library=True,
        one=True,
    ),
)

ARRAY_PRODUCT: Final = Operation("a product of arrays", np.matmul, _ARRAY_PRODUCTS)

PRODUCT: Final = Operation(
    "a product",
    np.matmul,
    (
        *_ARRAY_PRODUCTS,
        Door("linalg.gemm", lambda _, a, b: linalg.gemm(a, b), any_library=True),
        Door("linalg.gemm(out=)", _into_out, any_library=True),
        Door("linalg.prepare_gemm", _prepared, any_library=True),
        Door("linalg.prepare_gemm replayed", _replayed),
    ),
)


# -- along an axis --------------------------------------------------------------------------------


@portable.fuse
def _fused_total(x: Any) -> Any:
    return np.sum(x)


@portable.fuse
def _fused_last(x: Any) -> Any:
    return np.sum(x, axis=-1)


@portable.fuse
def _fused_first(x: Any) -> Any:
    return np.sum(x, axis=0)


def _total(axis: int | None, fused: Call) -> Operation:
    return Operation(
        f"a sum along {axis}",
        lambda x: np.sum(x, axis=axis),
        (
            Door("xp.sum", lambda xp, x: xp.sum(x, axis=axis)),
            Door("primitives.reduce", lambda _, x: primitives.reduce(x, axis=axis), True),
            Door("fuse", lambda _, x: fused(x), any_library=True, own_way=True),
        ),
        stacks=axis == -1,
    )


TOTAL: Final = _total(None, _fused_total)
TOTAL_OF_ROWS: Final = _total(-1, _fused_last)
TOTAL_OF_COLUMNS: Final = _total(0, _fused_first)

COMPLEX_TOTAL: Final = Operation(
    "a sum of complex numbers",
    np.sum,
    (Door("xp.sum", lambda xp, x: xp.sum(x)),),
    stacks=False,
)

FUSED_TOTAL: Final = Operation(
    "a fused sum", lambda x: np.sum(x, axis=-1), (Door("fuse", lambda _, x: _fused_last(x), True),)
)


def _scan(axis: int) -> Operation:
    return Operation(
        f"a running sum along {axis}",
        lambda x: np.cumulative_sum(x, axis=axis),
        (
            Door("xp.cumulative_sum", lambda xp, x: xp.cumulative_sum(x, axis=axis)),
            Door("primitives.scan", lambda _, x: primitives.scan(x, axis=axis), True),
        ),
        stacks=axis == -1,
    )


SCAN: Final = _scan(-1)
SCAN_OF_COLUMNS: Final = _scan(0)

SORT: Final = Operation(
    "a sort",
    np.sort,
    (
        Door("xp.sort", lambda xp, x: xp.sort(x)),
        Door("primitives.sort", lambda _, x: primitives.sort(x), any_library=True),
    ),
)

SPREAD: Final = Operation(
    "a variance", lambda x: np.var(x, axis=-1), (Door("xp.var", lambda xp, x: xp.var(x, axis=-1)),)
)
SPREAD_OF_COLUMNS: Final = Operation(
    "a variance of columns",
    lambda x: np.var(x, axis=0),
    (Door("xp.var", lambda xp, x: xp.var(x, axis=0)),),
    stacks=False,
)
GREATEST: Final = Operation(
    "the place of the greatest",
    lambda x: np.argmax(x, axis=-1),
    (Door("xp.argmax", lambda xp, x: xp.argmax(x, axis=-1)),),
)


# -- elements -------------------------------------------------------------------------------------


@portable.fuse
def _fused_formula(x: Any, y: Any) -> Any:
    return x * 2 + y


def _formula(xp: Any, x: Any, y: Any) -> Any:
    return xp.add(xp.multiply(x, 2), y)


ELEMENTS: Final = Operation(
    "a formula of elements",
    lambda x, y: x * 2 + y,
    (
        Door("xp.add", _formula),
        Door("x + y", lambda _, x, y: x * 2 + y),
        Door("fuse", lambda _, x, y: _fused_formula(x, y), any_library=True, own_way=True),
    ),
)
FUSED_ELEMENTS: Final = Operation(
    "a fused formula",
    lambda x, y: x * 2 + y,
    (Door("fuse", lambda _, x, y: _fused_formula(x, y), any_library=True),),
)
TURNED_ELEMENTS: Final = Operation(
    "a sum with a transposed array",
    lambda x, y: x + y.T,
    (Door("x + y.T", lambda _, x, y: x + y.T),),
    stacks=False,
)
SELECTION: Final = Operation(
    "elements where a mask holds", lambda x: x[x > 0], (Door("x[mask]", lambda _, x: x[x > 0]),)
)
ROWS_TAKEN: Final = Operation(
    "rows at places",
    lambda x: x[::-1],
    (
        Door("xp.take", lambda xp, x: xp.take(x, _backwards(xp, x), axis=0)),
        Door("x[places]", lambda xp, x: x[_backwards(xp, x)]),
    ),
)


def _backwards(xp: Any, x: Any) -> Any:
    return xp.arange(x.shape[0] - 1, -1, -1)


def _with_zeros(xp: Any, x: Any) -> Any:
    out = xp.asarray(x, copy=True)
    out[out > 0] = 0
    return out


def _scattered(xp: Any, x: Any) -> Any:
    out = xp.asarray(x, copy=True)
    out[_backwards(xp, x)] = x
    return out


ASSIGNMENT: Final = Operation(
    "an assignment where a mask holds",
    lambda x: np.minimum(x, 0),
    (Door("x[mask] = 0", _with_zeros),),
)
SCATTERED: Final = Operation(
    "an assignment of rows at places",
    lambda x: x[::-1],
    (Door("x[places] = y", _scattered),),
)
SEARCH: Final = Operation(
    "places in a sorted array",
    lambda x: np.searchsorted(np.sort(x), x),
    (Door("xp.searchsorted", lambda xp, x: xp.searchsorted(xp.sort(x), x)),),
    stacks=False,
)
MEMBERS: Final = Operation(
    "elements that another array has",
    lambda x, y: np.isin(x, y).astype(float),
    (Door("xp.isin", lambda xp, x, y: xp.astype(xp.isin(x, y), xp.float32)),),
    stacks=False,
)
CROSS: Final = Operation(
    "cross products", np.cross, (Door("xp.linalg.cross", lambda xp, x, y: xp.linalg.cross(x, y)),)
)
CONVOLVED: Final = Operation(
    "a convolution of vectors",
    lambda x: np.convolve(x, x[:5]),
    (Door("numerics.convolve", lambda _, x: numerics.convolve(x, x[:5]), any_library=True),),
    stacks=False,
)
TRIANGLE: Final = Operation("a triangle", np.tril, (Door("xp.tril", lambda xp, x: xp.tril(x)),))


# -- transforms, decompositions, images -----------------------------------------------------------

TRANSFORM: Final = Operation(
    "a Fourier transform",
    np.fft.fft,
    (Door("xp.fft.fft", lambda xp, x: xp.fft.fft(x)),),
)
REAL_TRANSFORM: Final = Operation(
    "a Fourier transform of reals",
    np.fft.rfft,
    (Door("xp.fft.rfft", lambda xp, x: xp.fft.rfft(x)),),
)
SINGULAR_VALUES: Final = Operation(
    "singular values",
    lambda a: np.linalg.svd(a, compute_uv=False),
    (
        Door("linalg.svdvals", lambda _, a: linalg.svdvals(a), any_library=True),
        Door("xp.linalg.svdvals", lambda xp, a: xp.linalg.svdvals(a)),
    ),
)
SINGULAR_VECTORS: Final = Operation(
    "singular values with vectors",
    lambda a: np.linalg.svd(a, compute_uv=False),
    (
        Door("linalg.svd", lambda _, a: linalg.svd(a).S, any_library=True),
        Door("xp.linalg.svd", lambda xp, a: xp.linalg.svd(a).S),
        Door("linalg.polar", lambda _, a: linalg.svd(linalg.polar(a).P).S, any_library=True),
    ),
)
EIGENVECTORS: Final = Operation(
    "eigenvalues with vectors",
    np.linalg.eigvalsh,
    (
        Door("linalg.eigh", lambda _, a: linalg.eigh(a).eigenvalues, any_library=True),
        Door("linalg.eigvalsh", lambda _, a: linalg.eigvalsh(a), any_library=True),
        Door("xp.linalg.eigh", lambda xp, a: xp.linalg.eigh(a).eigenvalues),
        Door("xp.linalg.eigvalsh", lambda xp, a: xp.linalg.eigvalsh(a)),
    ),
)


def _convolved(x: Array, w: Array) -> Array:
    taps = w.shape[-2:]
    seen = np.lib.stride_tricks.sliding_window_view(x, taps, (2, 3))
    found: Array = np.einsum("ncijrs,kcrs->nkij", seen, w)
    return found


def _prepared_convolution(_: Any, x: Any, w: Any) -> Any:
    return conv.prepare(tuple(x.shape), w)(x)


CONVOLUTION: Final = Operation(
    "a convolution",
    _convolved,
    (
        Door("conv.conv2d", lambda _, x, w: conv.conv2d(x, w), any_library=True),
        Door("conv.prepare", _prepared_convolution),
    ),
    stacks=False,
)
