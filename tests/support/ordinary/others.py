"""Functions beside `portable.array`, which take arrays of every library and device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import portable
from portable import conv, linalg, numerics, primitives
from portable.namespace import device_of
from tests.support.ordinary.model import Array, Function

_REAL: Final = "fiu"


def other_functions() -> Iterator[Function]:
    """All of them."""
    for made in (_primitives, _numerics, _matrices, _systems, _images, _fused, _random):
        yield from made()


def _of(name: str, call: Callable[..., Any], **options: Any) -> Function:
    """A function of arrays alone, which takes no namespace."""
    return Function(name=name, call=lambda _, *x: call(*x), arrays=False, **options)


@portable.function
def _doubled(x: Any) -> Any:
    return x * x + x


def _primitives() -> Iterator[Function]:
    def total(axis: Any) -> Callable[..., Any]:
        return lambda x: np.sum(abs(x), axis=axis)

    def sums(axis: int) -> Callable[..., Any]:
        return lambda x: np.cumsum(abs(x), axis=axis)

    for axis in (None, 0, -1):
        yield _of(
            f"primitives.reduce(axis={axis})", lambda x, axis=axis: primitives.reduce(x, axis=axis),
            expected=lambda x, axis=axis: np.sum(x, axis=axis, dtype=x.dtype), kinds="fic",
            sizes=total(axis), units=64,
        )  # fmt: skip
    for axis in (0, -1):
        yield _of(
            f"primitives.scan(axis={axis})", lambda x, axis=axis: primitives.scan(x, axis=axis),
            expected=lambda x, axis=axis: np.cumsum(x, axis=axis, dtype=x.dtype), kinds="fic",
            sizes=sums(axis), units=64,
        )  # fmt: skip
        yield _of(
            f"primitives.sort(axis={axis})", lambda x, axis=axis: primitives.sort(x, axis=axis),
            expected=lambda x, axis=axis: np.sort(x, axis=axis), kinds=_REAL,
        )  # fmt: skip
        yield _of(
            f"primitives.argsort(axis={axis})",
            lambda x, axis=axis: primitives.argsort(x, axis=axis),
            expected=lambda x, axis=axis: np.argsort(x, axis=axis, stable=True), kinds=_REAL,
        )  # fmt: skip
    yield _of(
        "primitives.sort_by_key", lambda x, y: primitives.sort_by_key(x, y)[1], operands=2,
        kinds=_REAL,
        expected=lambda x, y: np.take_along_axis(y, np.argsort(x, axis=-1, stable=True), axis=-1),
    )  # fmt: skip
    yield _of(
        "primitives.map", lambda x: primitives.map(_doubled, x), expected=lambda x: x * x + x,
        kinds="fic", sizes=lambda x: abs(x) ** 2 + 1, few=True,
    )  # fmt: skip
    yield _of("primitives.copy", primitives.copy, expected=np.copy)
    yield _of(
        "primitives.copy of x.T", lambda x: primitives.copy(x.T), expected=lambda x: x.T, dims=(2,)
    )
    yield _of("primitives.transpose", primitives.transpose, expected=np.transpose, dims=(2, 3))
    yield _of(
        "primitives.fill", lambda x: primitives.fill(primitives.copy(x), 1),
        expected=np.ones_like,
    )  # fmt: skip
    yield _of(
        "primitives.compact", lambda x: primitives.compact(x, x), expected=lambda x: x[x],
        kinds="b", dims=(1,),
    )  # fmt: skip
    yield _of(
        "primitives.gather", lambda x: primitives.gather(x, primitives.argsort(_firsts(x))),
        expected=lambda x: x[np.argsort(_firsts(x), stable=True)], kinds=_REAL, dims=(2, 3),
    )  # fmt: skip
    yield _of(
        "primitives.scatter",
        lambda x: primitives.scatter(primitives.copy(x), primitives.argsort(_firsts(x)), x),
        expected=_scattered, kinds=_REAL, dims=(2, 3),
    )  # fmt: skip


def _firsts(x: Any) -> Any:
    """The first element of each of the parts along the first axis."""
    return x[(slice(None), *(0,) * (x.ndim - 1))]


def _scattered(x: Any) -> Any:
    out = np.empty_like(x)
    out[np.argsort(_firsts(x), stable=True)] = x
    return out


def _numerics() -> Iterator[Function]:
    for axis in (None, 0, -1):
        yield _of(
            f"numerics.median(axis={axis})", lambda x, axis=axis: numerics.median(x, axis=axis),
            expected=lambda x, axis=axis: np.median(x, axis=axis), kinds="f", sizes="largest",
        )  # fmt: skip
    yield _of(
        "numerics.quantile", lambda x: numerics.quantile(x, 0.3, axis=-1),
        expected=lambda x: np.quantile(x, 0.3, axis=-1), kinds="f", sizes="largest",
        without=("float16",), units=64,  # places between elements are rounded, too
    )  # fmt: skip
    yield _of(
        "numerics.percentile", lambda x: numerics.percentile(x, 70),
        expected=lambda x: np.percentile(x, 70), kinds="f", sizes="largest",
        without=("float16",), units=64,
    )  # fmt: skip
    yield _of(
        "numerics.histogram", lambda x: numerics.histogram(x, 100, range=(-5, 5)).counts,
        expected=lambda x: np.histogram(x, 100, range=(-5, 5))[0], kinds="fi", widened=False,
        without=("float16",),
    )  # fmt: skip
    yield _of(
        "numerics.bincount", numerics.bincount, expected=np.bincount, kinds="iu",
        low=0, high=200, dims=(1,),
    )  # fmt: skip
    yield _of(
        "numerics.interp", lambda x: numerics.interp(x, x[:3] * 0 + _points(x), x[:3]),
        expected=lambda x: np.interp(x, [0, 1, 2], x[:3]), kinds="f", dims=(1,), sizes="largest",
        without=("float16",), units=16,
    )  # fmt: skip
    yield _of(
        "numerics.convolve", lambda x: numerics.convolve(x, x[:33]),
        expected=lambda x: np.convolve(x, x[:33]), kinds="fi", dims=(1,), sizes="largest", units=64,
    )  # fmt: skip
    yield from _more_numerics()
    for mode in ("constant", "edge", "reflect", "wrap"):
        yield _of(
            f"numerics.pad({mode!r})", lambda x, mode=mode: numerics.pad(x, 2, mode),
            expected=lambda x, mode=mode: np.pad(x, 2, mode), kinds="fiub", few=True,
        )  # fmt: skip
    yield _of(
        "numerics.einsum('ij,ij->i')", lambda x, y: numerics.einsum("ij,ij->i", x, y),
        expected=lambda x, y: np.einsum("ij,ij->i", x, y), operands=2, kinds="fi", dims=(2,),
        sizes=lambda x, y: np.einsum("ij,ij->i", abs(x), abs(y)), units=64,
    )  # fmt: skip
    yield _of(
        "numerics.einsum('ij,kj->ik')", lambda x: numerics.einsum("ij,kj->ik", x[:500], x[:448]),
        expected=lambda x: x[:500] @ x[:448].T, kinds="fi", dims=(2,), units=64,
        sizes=lambda x: abs(x[:500]) @ abs(x[:448]).T + 1,
    )  # fmt: skip
    yield _of(
        "numerics.lstsq", lambda x: x[:, :100] @ numerics.lstsq(x[:, :100], x[:, 100:102]).x,
        expected=lambda x: x[:, :100] @ np.linalg.lstsq(x[:, :100], x[:, 100:102])[0],
        kinds="f", dims=(2,), least=200, without=("float16",), units=4096, sizes="largest",
    )  # fmt: skip


def _points(x: Any) -> Any:
    """0, 1 and 2 in the library of an array."""
    return portable.asarray(np.arange(3, dtype=portable.to_numpy(x[:1]).dtype), device=device_of(x))


def _more_numerics() -> Iterator[Function]:
    def offsets(n: int) -> Array:
        return np.arange(0, n + 1, n // 100 or 1)

    def segments(x: Any) -> Any:
        places = portable.asarray(offsets(x.shape[0]), device=device_of(x).for_arrays())
        return numerics.segmented_reduce(x, places)

    def sums(x: Any) -> Any:
        *starts, stop = offsets(x.size)
        return np.add.reduceat(x[:stop], starts)

    for name in ("isclose", "digitize"):
        yield _of(
            f"numerics.{name}", lambda x, y, name=name: getattr(numerics, name)(x, y),
            expected=getattr(np, name), operands=2, kinds="fi", few=True, dims=(1,),
            without=("float16",), low=0, widened=False,
        ) if name == "isclose" else _of(
            "numerics.digitize", lambda x: numerics.digitize(x, x[:1]),
            expected=lambda x: np.digitize(x, x[:1]), kinds="fi", dims=(1,), widened=False,
        )  # fmt: skip
    yield _of(
        "numerics.norm", numerics.norm, expected=lambda x: np.sqrt(np.sum(x * x)), kinds="f",
        units=64, longer=True, without=("float16",),
    )  # fmt: skip
    for name in ("cov", "corrcoef"):
        yield _of(
            f"numerics.{name}", lambda x, name=name: getattr(numerics, name)(x[:200]),
            expected=lambda x, name=name: getattr(np, name)(x[:200]), kinds="f", dims=(2,),
            sizes="largest", units=128, without=("float16",),
        )  # fmt: skip
    yield _of(
        "numerics.gradient", lambda x: numerics.gradient(x, axis=-1),
        expected=lambda x: np.gradient(x, axis=-1), kinds="f", few=True, sizes="largest", units=16,
    )  # fmt: skip
    yield _of(
        "numerics.trapezoid", numerics.trapezoid, expected=np.trapezoid, kinds="f",
        sizes=lambda x: np.trapezoid(abs(x)) + 1, units=64, without=("float16",),
    )  # fmt: skip
    yield _of(
        "numerics.unique_rows", lambda x: numerics.unique_rows(x[:, :3]).values,
        expected=lambda x: np.unique(x[:, :3], axis=0), kinds="iu", dims=(2,), widened=False,
    )  # fmt: skip
    yield _of(
        "numerics.reduce_by_key", lambda x: numerics.reduce_by_key(x, x * 0 + 1).values,
        expected=lambda x: np.unique(x, return_counts=True)[1].astype(x.dtype), kinds="i",
        dims=(1,), widened=False,
    )  # fmt: skip
    yield _of(
        "numerics.segmented_reduce", segments, expected=sums, kinds="fi", dims=(1,),
        sizes=lambda x: sums(abs(x)) + 1, units=64, without=("float16",),
    )  # fmt: skip
    yield _of(
        "primitives.topk", lambda x: primitives.topk(x, 3).values,
        expected=lambda x: np.sort(x, axis=-1)[..., :-4:-1], kinds="fiu", widened=False,
    )  # fmt: skip


def _matrices() -> Iterator[Function]:
    yield _of(
        "linalg.gemm", lambda x: linalg.gemm(x[:2000, :1000], x[:2000, :1000].T, alpha=0.5),
        expected=lambda x: 0.5 * x[:2000, :1000] @ x[:2000, :1000].T, kinds="f", dims=(2,),
        sizes=lambda x: abs(x[:2000, :1000]) @ abs(x[:2000, :1000]).T + 1, units=64,
    )  # fmt: skip
    yield _of(
        "linalg.gemm of stacks", lambda x: linalg.gemm(x, x[:, :64, :].mT), kinds="f", dims=(3,),
        expected=lambda x: x @ x[:, :64, :].mT, sizes=lambda x: abs(x) @ abs(x[:, :64, :].mT) + 1,
        units=64,
    )  # fmt: skip
    yield _of(
        "linalg.scaled_matmul", lambda x: linalg.scaled_matmul(*_with_factors(x)),
        expected=lambda x: _scaled(x, x), kinds="f", dims=(2,), units=64,
        sizes=lambda x: abs(_scaled(x, x)) + _scaled(abs(x), abs(x)) + 1,
        without=("float16", "float64"),
    )  # fmt: skip
    yield _of(
        "linalg.svdvals", linalg.svdvals, expected=lambda x: np.linalg.svd(x, compute_uv=False),
        kinds="f", dims=(2,), most=600, units=256, sizes="largest",
    )  # fmt: skip
    yield _of(
        "linalg.svd", lambda x: linalg.svd(x).S,
        expected=lambda x: np.linalg.svd(x, compute_uv=False), kinds="f", dims=(2,), most=600,
        units=256, sizes="largest",
    )  # fmt: skip
    yield _of(
        "linalg.eigh", lambda x: linalg.eigh(_leading(x)).eigenvalues,
        expected=lambda x: np.linalg.eigvalsh(_leading(x)), kinds="f", dims=(2,), most=600,
        units=256, sizes="largest",
    )  # fmt: skip
    yield _of(
        "linalg.polar", lambda x: linalg.svdvals(linalg.polar(x).P),
        expected=lambda x: np.resize(np.append(np.linalg.svd(x)[1], np.zeros(300)), x.shape[1]),
        kinds="f", dims=(2,), most=300, units=2048, sizes="largest",
    )  # fmt: skip
    yield _of(
        "linalg.dense_to_band, band_to_bidiagonal, bidiagonal_svdvals",
        lambda x: linalg.bidiagonal_svdvals(
            *linalg.band_to_bidiagonal(linalg.dense_to_band(x, 16))
        ),
        expected=lambda x: np.linalg.svd(x, compute_uv=False), kinds="f", dims=(2,), most=500,
        least=200, units=256, sizes="largest",
    )  # fmt: skip
    yield _of(
        "linalg.bidiagonal_svd",
        lambda x: linalg.bidiagonal_svd(x[0, :250], x[1, : min(250, x.shape[1]) - 1]).S,
        expected=lambda x: np.linalg.svd(
            np.diag(x[0, :250]) + np.diag(x[1, : min(250, x.shape[1]) - 1], 1), compute_uv=False
        ),
        kinds="f", dims=(2,), most=500, least=100, units=256, sizes="largest",
    )  # fmt: skip


def _leading(x: Any) -> Any:
    """The largest square at the beginning of a matrix, of at most 200 rows."""
    n = min(200, *x.shape)
    return x[:n, :n]


def _with_factors(x: Any) -> tuple[Any, ...]:
    part = x[:2000]
    return part, part, part[:, :1], part[:, 1:2]


def _scaled(x: Any, y: Any) -> Any:
    left, right, *factors = (*_with_factors(x)[:2], *_with_factors(y)[2:])
    return (left * factors[0]) @ (right * factors[1]).T


def _definite(x: Any) -> Any:
    """A positive definite matrix of an array's first 300 rows and columns."""
    part = x[:300, :300]
    return linalg.gemm(part, part.T, c=_one(part), beta=float(10 * part.shape[0]))


def _one(x: Any) -> Any:
    eye = np.eye(*x.shape, dtype=portable.to_numpy(x[:1]).dtype)
    return portable.asarray(eye, device=device_of(x))


def _systems() -> Iterator[Function]:
    """Factorisations, each judged by what it was made of."""

    def definite(x: Any) -> Any:
        part = x[:300, :300]
        return part @ part.T + 10 * part.shape[0] * np.eye(part.shape[0], dtype=x.dtype)

    def by_cholesky(x: Any) -> Any:
        lower = linalg.cholesky(_definite(x))
        return linalg.gemm(lower, lower.T)

    def by_solution(x: Any) -> Any:
        a, b = _definite(x), x[:300, :50]
        return linalg.gemm(a, linalg.solve(a, b))

    def by_factors(x: Any) -> Any:
        a, b = _definite(x), x[:300, :50]
        return linalg.gemm(a, linalg.lu_solve(linalg.lu_factor(a), b))

    def by_triangle(x: Any) -> Any:
        lower, b = linalg.cholesky(_definite(x)), x[:300, :50]
        return linalg.gemm(lower, linalg.solve_triangular(lower, b))

    def by_reflectors(x: Any) -> Any:
        return linalg.gemm(*linalg.qr(x[:400, :300]))

    def nearest(x: Any) -> Any:
        return linalg.gemm(x[:, :100], linalg.lstsq(x[:, :100], x[:, 100:102]).x)

    known: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "linalg.qr": (by_reflectors, lambda x: x[:400, :300]),
        "linalg.lstsq": (
            nearest, lambda x: x[:, :100] @ np.linalg.lstsq(x[:, :100], x[:, 100:102])[0]
        ),
        "linalg.cholesky": (by_cholesky, definite),
        "linalg.solve": (by_solution, lambda x: x[:300, :50]),
        "linalg.lu_factor, lu_solve": (by_factors, lambda x: x[:300, :50]),
        "linalg.solve_triangular": (by_triangle, lambda x: x[:300, :50]),
        "linalg.inv": (
            lambda x: linalg.gemm(_definite(x), linalg.inv(_definite(x))),
            lambda x: np.eye(min(300, x.shape[0]), dtype=x.dtype),
        ),
        "linalg.slogdet": (
            lambda x: linalg.slogdet(_definite(x)).logabsdet,
            lambda x: np.linalg.slogdet(definite(x))[1],
        ),
        "linalg.det": (
            lambda x: linalg.det(_definite(x)[:4, :4]), lambda x: np.linalg.det(definite(x)[:4, :4])
        ),
    }  # fmt: skip
    for name, (call, expected) in known.items():
        yield _of(
            name, call, expected=expected, kinds="f", dims=(2,), least=300, without=("float16",),
            units=4096, sizes="largest",
        )  # fmt: skip


def _images() -> Iterator[Function]:
    """Convolutions of the one shape of three dimensions, as 64 images or one of 64 channels."""

    def direct(x: Any, w: Any, step: int) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view
        seen = windows(np.pad(x, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
        found = np.einsum("cijrs,kcrs->kij", seen, w, optimize=True)
        return found[None, :, ::step, ::step]

    def filters(x: Any) -> Any:
        return x[:, :12, :24].reshape((32, 64, 3, 3))

    for step in (1, 2):
        yield _of(
            f"conv.conv2d(stride={step})",
            lambda x, step=step: conv.conv2d(
                x.reshape((1, *x.shape)), filters(x), padding=1, stride=step
            ),
            expected=lambda x, step=step: direct(x, filters(x), step), kinds="f", dims=(3,),
            sizes="largest", units=256,
        )  # fmt: skip
    yield _of(
        "conv.conv2d of many images",
        lambda x: conv.conv2d(x.reshape((64, 1, 128, 100)), x[0, :1, :18].reshape((2, 1, 3, 3))),
        expected=lambda x: np.einsum(
            "nijrs,krs->nkij", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)),
            x[0, :1, :18].reshape((2, 3, 3)), optimize=True,
        ),
        kinds="f", dims=(3,), sizes="largest", units=256,
    )  # fmt: skip


@portable.fuse
def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


@portable.fuse
def _spread(x: Any) -> Any:
    return np.sum(x * x - x, axis=-1)


def _fused() -> Iterator[Function]:
    yield _of(
        "fuse", _gelu, kinds="f", units=32, sizes=lambda x: abs(x) + 1,
        expected=lambda x: 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x))),
    )  # fmt: skip
    yield _of(
        "fuse of a sum", _spread, kinds="f", units=64,
        expected=lambda x: np.sum(x * x - x, axis=-1),
        sizes=lambda x: np.sum(x * x + abs(x), axis=-1),
    )  # fmt: skip


def _random() -> Iterator[Function]:
    """What numbers drawn must be like, as whole numbers that NumPy is asked for, too."""

    def drawn(x: Any, name: str, *args: Any, **options: Any) -> Any:
        random = portable.random.Generator(7, device=device_of(x))
        found = portable.to_numpy(getattr(random, name)(*args, tuple(x.shape), **options))
        wide = found.astype(np.float64)
        return np.array([*found.shape, np.rint(8 * wide.mean()), np.rint(8 * wide.std())])

    like = {
        "uniform": ((), {"low": -1, "high": 2}, (0.5, 3 / 12**0.5)),
        "normal": ((), {"mean": 1.0}, (1, 1)),
        "exponential": ((), {}, (1, 1)),
        "integers": ((-5, 6), {}, (0, 10**0.5)),
    }
    for name, (args, options, moments) in like.items():
        yield _of(
            f"random.{name}",
            lambda x, name=name, args=args, options=options: drawn(x, name, *args, **options),
            expected=lambda x, moments=moments: np.array(
                [*x.shape, *np.rint(8 * np.array(moments))]
            ),
            kinds="f", without=("float16", "float64"),
        )  # fmt: skip
    yield _of(
        "random.permutation",
        lambda x: primitives.sort(portable.random.Generator(7).permutation(x), axis=0),
        expected=lambda x: np.sort(x, axis=0), kinds=_REAL, dims=(1,),
    )  # fmt: skip
