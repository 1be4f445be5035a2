"""Operations take arrays of libraries that are no backend's, and give results as such."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import gf2, primitives
from portable import lang as kl
from portable.conv import conv2d, conv2d_input_gradient
from portable.conv import prepare as prepare_conv
from portable.errors import DeviceMismatchError, DTypeError, UnsupportedError
from portable.interchange import libraries
from portable.linalg import (
    band_to_bidiagonal,
    bidiagonal_svdvals,
    cholesky,
    dense_to_band,
    eigh,
    gemm,
    lstsq,
    lu_factor,
    lu_solve,
    prepare_gemm,
    qr,
    solve,
    svd,
    svdvals,
)
from portable.namespace import device_of
from portable.nn import MLP, fit

pytestmark = pytest.mark.needs_processor

RANDOM = np.random.default_rng(5)
A = RANDOM.standard_normal((6, 4)).astype(np.float32)
POSITIVE = (np.abs(A) @ np.abs(A).T + np.diag(np.arange(6, 12))).astype(np.float32)
BAND = RANDOM.standard_normal((3, 8)).astype(np.float32)
IMAGES = RANDOM.standard_normal((1, 2, 5, 5)).astype(np.float32)
FILTERS = RANDOM.standard_normal((3, 2, 3, 3)).astype(np.float32)
GRADIENT = RANDOM.standard_normal((1, 3, 3, 3)).astype(np.float32)

Make = Callable[[np.ndarray[Any, Any]], Any]


@pt.fuse
def halves(x: Any, y: Any) -> Any:
    return x / 2 + y, x - y


class Pair(NamedTuple):
    left: Any
    right: Any


@pt.function
def outer(a: Any, b: Any) -> Any:
    return Pair(kl.minimum(a.left, b.left), kl.maximum(a.right, b.right))


CASES: dict[str, Callable[[Make], Any]] = {
    "gemm": lambda m: gemm(m(A), m(A).T, bias=m(A[:, 0])),
    "svdvals": lambda m: svdvals(m(A)),
    "svdvals of a batch": lambda m: svdvals(m(BAND.reshape(2, 3, 4))),
    "dense_to_band": lambda m: dense_to_band(m(A), 2),
    "band_to_bidiagonal": lambda m: band_to_bidiagonal(m(BAND)),
    "bidiagonal_svdvals": lambda m: bidiagonal_svdvals(m(BAND[0]), m(BAND[1, 1:])),
    "factorisations": lambda m: (
        solve(m(POSITIVE), m(A)),
        lu_solve(lu_factor(m(POSITIVE)), m(A)),
        lstsq(m(POSITIVE), m(A)).x,
        cholesky(m(POSITIVE)),
        *qr(m(POSITIVE)),
        *svd(m(POSITIVE)),
        *eigh(m(POSITIVE)),
    ),
    "fuse": lambda m: halves(m(A), m(A[0])),
    "conv2d": lambda m: conv2d(m(IMAGES), m(FILTERS), padding=1),
    "a prepared convolution": lambda m: prepare_conv(IMAGES.shape, m(FILTERS))(m(IMAGES)),
    "a gradient": lambda m: conv2d_input_gradient(m(GRADIENT), m(FILTERS), IMAGES.shape),
    "MLP": lambda m: MLP([4, 8, 2], device=device_of(m(A)), seed=1)(m(A)),
    "primitives": lambda m: (
        primitives.reduce(m(A), axis=0),
        *primitives.scan(Pair(m(A), m(-A)), outer, neutral=Pair(np.inf, -np.inf)),
        *primitives.sort_by_key(m(A), (m(-A),))[1],
        primitives.gather(m(A), m(np.arange(3))),
    ),
    "gf2 of dense arrays": lambda m: (
        gf2.matmul(m(A > 0), gf2.nullspace(m(A > 0))),
        gf2.row_echelon(m(A > 0)).rows,
        gf2.transpose(m(A > 0)),
    ),
    "gf2": lambda m: gf2.BitMatrix.from_dense(m(A > 0)).to_dense(like=m(A)),
}


@pytest.fixture(params=["array_api_strict", "torch", "jax.numpy"])
def library(request: pytest.FixtureRequest) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip(request.param)


ROOM = 4e-6
"""Of the operation's magnitude. Each sum here has at most 18 products, so that two orders of adding
them up differ by less than 2 * 18 units of rounding (6e-8) of the products' absolute values; in
factorisations these differences go through one more product."""


def in_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_results_are_arrays_of_the_library(library: Any) -> None:
    """The library's device may be another one, which adds up in another order.

    What cancels leaves an error that is small beside what was added up, |A| |B|, and not beside
    what is left: so the results of the operands' absolute values are what errors are compared with.
    """
    kind = type(library.asarray(A))
    for name, call in CASES.items():
        results = (in_tuple(call(make)) for make in (library.asarray, np.asarray, np.abs))
        for mine, theirs, absolute in zip(*results, strict=True):
            assert isinstance(mine, kind), name
            exact = theirs.dtype.kind != "f"
            room = 0 if exact else ROOM * max(np.max(absolute), np.max(np.abs(theirs)))
            np.testing.assert_allclose(pt.to_numpy(mine), theirs, rtol=0, atol=room, err_msg=name)


@pt.kernel
def occupy(x, rounds):
    value = x[0]
    for _ in range(rounds):
        value = value * 0.5 + 1.0
    x[0] = value


def test_memory_that_is_let_go_outlives_the_work_on_it(library: Any) -> None:
    """Its library would put the images where filters were that a busy device has yet to read."""
    device = device_of(library.asarray(A))
    expected = conv2d(IMAGES, FILTERS)
    busy = pt.asarray(np.ones(1, np.float32), device=device)
    for rounds in (1, *[50 if device.interprets else 200_000] * 3):
        occupy[1, 1](busy, rounds)
        prepared = prepare_conv(IMAGES.shape, library.asarray(FILTERS))
        found = prepared(library.asarray(IMAGES))
        np.testing.assert_allclose(pt.to_numpy(found), expected, rtol=1e-5, atol=1e-5)


def test_prepared_work_is_in_the_order_of_the_stream() -> None:
    torch = pytest.importorskip("torch")
    where = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.tensor(x, device=where) for x in (A, IMAGES))
    out, results = torch.empty(6, 6, device=where), torch.empty(1, 3, 3, 3, device=where)
    product = prepare_gemm(a, a.T, out=out)
    convolved = prepare_conv(IMAGES.shape, torch.tensor(FILTERS, device=where))
    again = convolved.prepare(b, out=results)
    stream = torch.cuda.Stream() if where == "cuda" else None
    with torch.cuda.stream(stream):
        for scale in (2, 4):
            if stream is not None:
                torch.cuda._sleep(20_000_000)
            a.copy_(scale * torch.tensor(A))
            b.copy_(scale * torch.tensor(IMAGES))
            product()
            again()
            np.testing.assert_allclose(out.cpu(), scale**2 * A @ A.T, rtol=1e-5, atol=1e-5)
            expected = scale * conv2d(IMAGES, FILTERS)
            np.testing.assert_allclose(results.cpu(), expected, rtol=1e-5, atol=1e-5)


@pt.kernel
def add_twice(x, y):
    i = kl.global_id(0)
    if i < x.shape[0]:
        y[i, 0] += 2 * x[i, 0]


def test_launches_alike_are_in_the_order_of_the_stream() -> None:
    torch = pytest.importorskip("torch")
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, y, out = (torch.zeros(6, 6, device=where) for _ in range(3))
    for stream in (torch.cuda.Stream(), None, torch.cuda.Stream()) if where == "cuda" else (None,):
        y.zero_()
        pt.synchronize(device_of(y))
        with torch.cuda.stream(stream):
            for count in range(1, 13):  # some of which are recognised
                if stream is not None:
                    torch.cuda._sleep(2_000_000)
                x.fill_(count)
                add_twice[6](x, y)
                gemm(x, x, out=out)
                total = y[:, 0] + out[:, 0]
                expected = count * (count + 1) + 6 * count**2
                assert total.tolist() == [expected] * 6


def test_numpy_arrays_go_with_them(library: Any) -> None:
    a = library.asarray(A)
    if device_of(a) is not device_of(A):
        with pytest.raises(DeviceMismatchError, match="asarray"):
            gemm(a, np.ascontiguousarray(A.T))
        return
    found = gemm(a, np.ascontiguousarray(A.T))
    assert isinstance(found, type(a))
    np.testing.assert_allclose(pt.to_numpy(found), A @ A.T, rtol=1e-5)


def test_an_out_is_given_back_as_it_was() -> None:
    strict = pytest.importorskip("array_api_strict")
    a, out = strict.asarray(A), strict.asarray(np.zeros((6, 6), np.float32))
    assert gemm(a, a.T, out=out) is out
    np.testing.assert_allclose(np.asarray(out), A @ A.T, rtol=1e-5)


def test_fit_takes_them(library: Any) -> None:
    x, y = library.asarray(A), library.asarray(A[:, :1])
    device = device_of(x)
    model, twin = (MLP([4, 8, 1], device=device, seed=2) for _ in range(2))
    fit(model, x, y, epochs=2, batch_size=3, validation=(x, y))
    own = [pt.asarray(a, device=device) for a in (A, A[:, :1])]
    fit(twin, *own, epochs=2, batch_size=3)
    assert np.array_equal(model.state_dict()["0.weight"], twin.state_dict()["0.weight"])


class Tensor:
    """What a tensor of PyTorch tells of itself, so far as it is asked for."""

    requires_grad = False
    dtype = "torch.float8_e8m0fnu"
    shape = (2, 2)
    ndim = 2

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("Unsupported dtype in DLTensor")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_dtypes_that_kernels_lack_are_named() -> None:
    for call in (lambda x: gemm(x, x), svdvals, lambda x: halves(x, x), pt.to_numpy):
        with pytest.raises(DTypeError, match=r"float8_e8m0fnu.* is no supported dtype"):
            call(Tensor())


def test_every_option_reaches_the_operation(library: Any) -> None:
    a = library.asarray(A)
    for wrong in ({"precision": "half"}, {"algorithm": "best"}, {"accumulate": "int32"}):
        with pytest.raises((ValueError, DTypeError)) as expected:
            gemm(A, A.T, **wrong)
        with pytest.raises(expected.type):
            gemm(a, a.T, **wrong)


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("DLPack takes several times as long")


def test_tensors_are_taken_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    for name in ("__dlpack__", "__dlpack_device__"):
        monkeypatch.setattr(torch.Tensor, name, _refuse)
    a, out = torch.tensor(A), torch.empty(6, 6)
    assert gemm(a, a.T, out=out) is out
    np.testing.assert_allclose(out, A @ A.T, rtol=1e-5)
    assert torch.equal(gemm(torch.nn.Parameter(a, requires_grad=False), a.T), out)
    assert isinstance(svdvals(a[1:, ::2]), torch.Tensor)


def test_tensors_whose_memory_holds_something_else_are_refused() -> None:
    torch = pytest.importorskip("torch")
    a = torch.tensor(A)
    for wrong in (torch.complex(a, a).conj(), torch.complex(a, a).conj().imag, a.to_sparse()):
        with pytest.raises(UnsupportedError, match=r"resolve_conj|to_dense"):
            pt.to_numpy(wrong)


def test_gradients_are_not_lost_silently() -> None:
    torch = pytest.importorskip("torch")
    a = torch.tensor(A, requires_grad=True)
    with pytest.raises(UnsupportedError, match="detach"):
        gemm(a, a.T)
    with torch.no_grad():
        assert isinstance(svdvals(a), torch.Tensor)


@pytest.mark.parametrize("name", ["torch", "jax.numpy"])
def test_bfloat16_goes_in_and_out(name: str) -> None:
    library = pytest.importorskip(name)
    pytest.importorskip("ml_dtypes")
    a = library.asarray(A)
    half = a.to(library.bfloat16) if name == "torch" else a.astype(library.bfloat16)
    found = gemm(half, half.T)
    assert isinstance(found, type(half))
    assert found.dtype == half.dtype
    wide = found.to(library.float32) if name == "torch" else found.astype(library.float32)
    np.testing.assert_allclose(pt.to_numpy(wide), A @ A.T, rtol=0.05, atol=0.05)


def test_arrays_are_taken_on_the_stream_that_they_are_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where tensors say the stream, and others have the current one wait for their arrays."""
    streams, seen = [0], []

    @contextmanager
    def on_stream(address: int) -> Iterator[None]:
        streams.append(address)
        yield
        streams.pop()

    def taken(_: Any, x: Any) -> Any:
        seen.append(("taken", streams[-1]))
        return [x]

    theirs = SimpleNamespace()
    monkeypatch.setattr(libraries, "is_other", lambda x: x is theirs)
    monkeypatch.setattr(libraries, "device_of", lambda _: SimpleNamespace(on_stream=on_stream))
    monkeypatch.setattr(libraries, "stream_of", lambda _: 7)
    monkeypatch.setattr(libraries, "on_device", taken)
    libraries.exchanged(lambda _: seen.append(("used", streams[-1])), ((theirs,),), {})
    assert seen == [("taken", 7), ("used", 7)]
    assert streams == [0]
