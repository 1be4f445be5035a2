"""The functions of `portable.array` at ordinary sizes; NumPy has them by the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from tests.support.ordinary.model import Function

_REAL: Final = "fiu"
_AXES: Final = (None, 0, -1)

_FLOATING: Final[dict[str, tuple[float, float]]] = {
    "acos": (-0.95, 0.95),
    "acosh": (1.1, 9),
    "asin": (-0.95, 0.95),
    "asinh": (-4, 4),
    "atan": (-4, 4),
    "atanh": (-0.9, 0.9),
    "cos": (-4, 4),
    "cosh": (-4, 4),
    "exp": (-4, 4),
    "expm1": (-4, 4),
    "log": (0.1, 9),
    "log10": (0.1, 9),
    "log1p": (0.1, 9),
    "log2": (0.1, 9),
    "sin": (-4, 4),
    "sinh": (-4, 4),
    "sqrt": (0, 9),
    "tan": (-1.4, 1.4),
    "tanh": (-4, 4),
    "reciprocal": (0.5, 4),
}
"""Functions of floats, and where they are asked for."""

_UNARY: Final[dict[str, str]] = {
    "abs": "fiuc",
    "negative": "fic",
    "positive": "fiuc",
    "square": "fiuc",
    "sign": "fi",
    "ceil": _REAL,
    "floor": _REAL,
    "trunc": _REAL,
    "round": _REAL,
    "isfinite": "fiuc",
    "isinf": "fiuc",
    "isnan": "fiuc",
    "signbit": "f",
    "real": "c",
    "imag": "c",
    "conj": "c",
    "logical_not": "b",
    "bitwise_invert": "iub",
}

_BINARY: Final[dict[str, tuple[str, tuple[float, float] | None]]] = {
    "add": ("fiuc", None),
    "subtract": ("fic", None),
    "multiply": ("fiuc", None),
    "divide": ("fc", (0.5, 4)),
    "floor_divide": (_REAL, (1, 4)),
    "remainder": (_REAL, (1, 4)),
    "maximum": (_REAL, None),
    "minimum": (_REAL, None),
    "atan2": ("f", None),
    "hypot": ("f", None),
    "copysign": ("f", None),
    "logaddexp": ("f", None),
    "nextafter": ("f", None),
    "equal": ("fiubc", None),
    "not_equal": ("fiubc", None),
    "less": (_REAL, None),
    "less_equal": (_REAL, None),
    "greater": (_REAL, None),
    "greater_equal": (_REAL, None),
    "logical_and": ("b", None),
    "logical_or": ("b", None),
    "logical_xor": ("b", None),
    "bitwise_and": ("iub", None),
    "bitwise_or": ("iub", None),
    "bitwise_xor": ("iub", None),
    "bitwise_left_shift": ("iu", (0, 4)),
    "bitwise_right_shift": ("iu", (0, 4)),
}
"""Functions of two arrays, the kinds of dtypes, and where the second one's numbers lie."""


def array_functions() -> Iterator[Function]:
    """All of them."""
    yield from _elementwise()
    yield from _broadcasting()
    yield from _reductions()
    yield from _scans_and_sorts()
    yield from _moves()
    yield from _selections()
    yield from _products()
    yield from _decompositions()
    yield from _transforms()
    yield from _creations()


def _named(name: str, **options: Any) -> Callable[..., Any]:
    return lambda xp, *operands: getattr(xp, name)(*operands, **options)


def _elementwise() -> Iterator[Function]:
    for name, (low, high) in _FLOATING.items():
        yield Function(
            name=name, call=_named(name), kinds="fc", low=low, high=high, few=True, units=16
        )
    for name, kinds in _UNARY.items():
        yield Function(name=name, call=_named(name), kinds=kinds, few=True)
    for name, (kinds, second) in _BINARY.items():
        yield Function(
            name=name,
            call=_named(name),
            kinds=kinds,
            operands=2,
            second=second,
            few=True,
            sizes=_apart if name in ("add", "subtract", "logaddexp", "multiply") else "result",
            units=16 if name in ("atan2", "logaddexp", "hypot") else 4,
            widened=name != "nextafter",
        )
    yield Function(
        name="pow", call=_named("pow"), kinds=_REAL, operands=2, low=0.5, second=(0, 3), few=True,
        units=16,
    )  # fmt: skip
    yield Function(name="clip", call=lambda xp, x: xp.clip(x, 1, 2), kinds=_REAL, few=True)
    yield Function(
        name="where", call=lambda xp, x, y: xp.where(x > y, x, y), kinds=_REAL, operands=2, few=True
    )
    yield Function(
        name="astype(float32)", call=lambda xp, x: xp.astype(x, xp.float32), kinds="fiub", few=True
    )
    yield Function(
        name="astype(int32)", call=lambda xp, x: xp.astype(x, xp.int32), kinds="fiub", few=True
    )


def _apart(x: Any, y: Any) -> Any:
    """What sums of two numbers round relative to, if they cancel."""
    return abs(x) + abs(y) + 1


def _broadcasting() -> Iterator[Function]:
    ways: dict[str, Callable[..., Any]] = {
        "x + row": lambda _, x: x + x[:1, ...],
        "x + column": lambda _, x: x + x[..., :1],
        "x * 2": lambda _, x: x * 2,
        "x[..., ::2] * 2": lambda _, x: x[..., ::2] * 2,
        "x[::-1] + x": lambda _, x: x[::-1, ...] + x,
    }
    for name, call in ways.items():
        yield Function(
            name=name, call=call, kinds="fiuc", dims=(2, 3), sizes=lambda x: 2 * abs(x).max() + 1
        )
    yield Function(
        name="x.T * x.T + 1", call=lambda _, x: x.T * x.T + 1, kinds="fc", dims=(2,),
        sizes=lambda x: abs(x.T) ** 2 + 1,
    )  # fmt: skip


def _reductions() -> Iterator[Function]:
    def of_sizes(name: str, axis: Any) -> Callable[..., Any]:
        return lambda x: getattr(np, name)(abs(x), axis=axis)

    for axis in _AXES:
        for name in ("sum", "mean"):
            kinds = "fiuc" if name == "sum" else "fc"
            yield Function(
                name=f"{name}(axis={axis})", call=_named(name, axis=axis), kinds=kinds,
                sizes=of_sizes(name, axis), units=32,
            )  # fmt: skip
        for name in ("max", "min", "argmax", "argmin"):
            yield Function(name=f"{name}(axis={axis})", call=_named(name, axis=axis), kinds=_REAL)
        for name in ("std", "var"):
            yield Function(
                name=f"{name}(axis={axis})", call=_named(name, axis=axis), kinds="f", units=32
            )
        for name in ("all", "any", "count_nonzero"):
            yield Function(name=f"{name}(axis={axis})", call=_named(name, axis=axis), kinds="fiubc")
        yield Function(
            name=f"prod(axis={axis})", call=_named("prod", axis=axis), kinds="iu", low=1, high=1
        )
        yield Function(
            name=f"linalg.vector_norm(axis={axis})",
            call=lambda xp, x, axis=axis: xp.linalg.vector_norm(x, axis=axis),
            expected=lambda x, axis=axis: np.sqrt(np.sum(_exact(x) ** 2, axis=axis)),
            kinds="fc",
            units=32,
        )
    yield Function(
        name="sum(axis=(0, 1))", call=_named("sum", axis=(0, 1)), kinds="fi", dims=(3,),
        sizes=of_sizes("sum", (0, 1)), units=32,
    )  # fmt: skip


def _exact(x: Any) -> Any:
    """Sizes of numbers, wide enough that NumPy's sums of squares drift less than a double has."""
    return abs(x).astype(np.longdouble)


def _scans_and_sorts() -> Iterator[Function]:
    def sums(axis: int) -> Callable[..., Any]:
        return lambda x: np.cumulative_sum(abs(x), axis=axis)

    for axis in (0, -1):
        own = f"(axis={axis})"
        yield Function(
            name=f"cumulative_sum{own}", call=_named("cumulative_sum", axis=axis), kinds="fiuc",
            sizes=sums(axis), units=64,
        )  # fmt: skip
        yield Function(
            name=f"cumulative_prod{own}", call=_named("cumulative_prod", axis=axis), kinds="iu",
            low=1, high=1,
        )  # fmt: skip
        yield Function(name=f"diff{own}", call=_named("diff", axis=axis), kinds="fi", sizes=_eight)
        yield Function(name=f"sort{own}", call=_named("sort", axis=axis), kinds=_REAL)
        yield Function(
            name=f"sort{own} descending",
            call=lambda xp, x, axis=axis: xp.sort(x, axis=axis, descending=True),
            expected=lambda x, axis=axis: np.flip(np.sort(x, axis=axis), axis),
            kinds=_REAL,
        )
        yield Function(
            name=f"argsort{own}", call=_named("argsort", axis=axis, stable=True), kinds=_REAL
        )
    unique: dict[str, Callable[..., Any]] = {  # NumPy's own by these names are in any order
        "unique_values": np.unique,
        "unique_counts": lambda x: np.unique(x, return_counts=True),
        "unique_inverse": lambda x: np.unique(x, return_inverse=True),
    }
    for name, expected in unique.items():
        yield Function(name=name, call=_named(name), expected=expected, kinds=_REAL, widened=False)
    yield Function(
        name="isin", call=lambda xp, x, y: xp.isin(x, y), expected=np.isin, operands=2, kinds="fiub"
    )
    yield Function(
        name="searchsorted",
        call=lambda xp, x, v: xp.searchsorted(xp.sort(x), v),
        operands=2,
        kinds=_REAL,
        dims=(1,),
    )


def _eight(x: Any) -> Any:
    return 8 * abs(x).max()


def _moves() -> Iterator[Function]:
    same: dict[str, Callable[..., Any]] = {
        "flip": _named("flip"),
        "roll": _named("roll", shift=7),
        "roll(axis=0)": _named("roll", shift=-3, axis=0),
        "repeat": lambda xp, x: xp.repeat(x, 2, axis=-1),
        "x.T copied": lambda xp, x: xp.asarray(
            xp.permute_dims(x, tuple(range(x.ndim))[::-1]), copy=True
        ),
        "x.T reshaped": lambda xp, x: xp.reshape(
            xp.permute_dims(x, tuple(range(x.ndim))[::-1]), (-1,)
        ),
        "concat": lambda xp, x: xp.concat([x, x[:5, ...], x], axis=0),
        "concat(axis=-1)": lambda xp, x: xp.concat([x, x[..., :2]], axis=-1),
        "stack": lambda xp, x: xp.stack([x, x], axis=-1),
        "tile": lambda xp, x: xp.tile(x, (2,)),
        "expand_dims, broadcast_to": lambda xp, x: xp.asarray(
            xp.broadcast_to(xp.expand_dims(x, axis=0), (2, *x.shape)), copy=True
        ),
        "x[::2]": lambda xp, x: xp.asarray(x[::2, ...], copy=True),
        "x[..., ::-3]": lambda xp, x: xp.asarray(x[..., ::-3], copy=True),
        "x[..., ::2] = ": _assigned,
    }
    for name, call in same.items():
        yield Function(name=name, call=call, few=True)
    for name in ("tril", "triu"):
        yield Function(name=name, call=_named(name, k=1), dims=(2, 3))
    yield Function(
        name="moveaxis", call=lambda xp, x: xp.asarray(xp.moveaxis(x, 0, -1), copy=True), dims=(3,)
    )
    yield Function(name="unstack", call=lambda xp, x: xp.unstack(x, axis=-1)[1], few=True)


def _assigned(xp: Any, x: Any) -> Any:
    out = xp.asarray(x, copy=True)
    out[..., ::2] = x[..., 1:2]
    return out


def _selections() -> Iterator[Function]:
    def places(xp: Any, x: Any) -> Any:
        return xp.remainder(xp.arange(x.shape[0], dtype=xp.int64) * 7919, x.shape[0])

    def along(xp: Any, x: Any) -> Any:
        return xp.take_along_axis(x, xp.argsort(x, axis=-1, stable=True), axis=-1)

    def zeroed(xp: Any, x: Any) -> Any:
        out = xp.asarray(x, copy=True)
        out[x > 1] = 0
        return out

    yield Function(name="take", call=lambda xp, x: xp.take(x, places(xp, x), axis=0))
    yield Function(
        name="take(axis=-1)",
        call=lambda xp, x: xp.take(x, xp.asarray([0, 2, 1, 2, 0]), axis=-1),
    )
    yield Function(name="take_along_axis", call=along, kinds=_REAL)
    yield Function(name="x[places]", call=lambda xp, x: x[places(xp, x)])
    yield Function(name="x[mask]", call=lambda _, x: x[x > 1], kinds=_REAL)
    yield Function(name="x[mask] = 0", call=zeroed, kinds=_REAL)
    yield Function(name="nonzero", call=lambda xp, x: xp.nonzero(x)[0], kinds="fiubc")


def _products() -> Iterator[Function]:
    def gram(xp: Any, x: Any) -> Any:
        return x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x

    def sizes(x: Any) -> Any:
        return gram(np, abs(x)) + 1

    def batch(x: Any) -> Any:
        return x @ np.swapaxes(x, -1, -2)

    # One after the other, 1,000 squares of these numbers are 69 roundings off in NumPy as well, and
    # 300,000 in the parts that `gemm` documents for devices with workgroups were 100 off.
    yield Function(
        name="x @ x.T", call=gram, kinds="fiuc", dims=(2,), sizes=sizes, units=128, longer=True,
    )  # fmt: skip
    yield Function(
        name="matmul of matrices and a vector", call=lambda xp, x: xp.matmul(x, x[0, :]),
        kinds="fiuc", dims=(2,), sizes=lambda x: abs(x) @ abs(x[0]) + 1, units=64,
        longer=True,
    )  # fmt: skip
    yield Function(
        name="matmul of a vector and a matrix", call=lambda xp, x: xp.matmul(x[:, 0], x),
        kinds="fiuc", dims=(2,), sizes=lambda x: abs(x[:, 0]) @ abs(x) + 1, units=128,
        longer=True,
    )  # fmt: skip
    yield Function(
        name="matmul of stacks", call=lambda xp, x: xp.matmul(x, xp.matrix_transpose(x)),
        kinds="fiuc", dims=(3,), sizes=lambda x: batch(abs(x)) + 1, units=64,
    )  # fmt: skip
    yield Function(
        name="tensordot",
        call=lambda xp, x: xp.tensordot(x[:8, ...], x[:4, ...], axes=((1, 2), (1, 2))),
        kinds="fic", dims=(3,), units=64, longer=True,
        sizes=lambda x: np.tensordot(abs(x[:8]), abs(x[:4]), axes=((1, 2), (1, 2))) + 1,
    )  # fmt: skip
    yield Function(
        name="vecdot", call=_named("vecdot"), operands=2, kinds="fiuc", units=64,
        sizes=lambda x, y: np.vecdot(abs(x), abs(y)) + 1,
    )  # fmt: skip
    yield Function(
        name="linalg.outer", call=lambda xp, x: xp.linalg.outer(x[:1000], x[-777:]),
        kinds="fiuc", dims=(1,),
    )  # fmt: skip
    yield Function(
        name="linalg.cross", call=lambda xp, x, y: xp.linalg.cross(x[..., :3], y[..., :3]),
        operands=2, kinds="fic", dims=(2,), sizes="largest",
    )  # fmt: skip
    yield Function(
        name="linalg.matrix_norm", call=lambda xp, x: xp.linalg.matrix_norm(x), kinds="fc",
        dims=(2, 3), units=64,
    )  # fmt: skip
    yield Function(
        name="linalg.trace", call=lambda xp, x: xp.linalg.trace(x), kinds="fic", dims=(2, 3),
        sizes=lambda x: np.trace(abs(x), axis1=-2, axis2=-1) + 1, units=64,
    )  # fmt: skip
    yield Function(
        name="linalg.diagonal", call=lambda xp, x: xp.asarray(xp.linalg.diagonal(x), copy=True),
        dims=(2, 3),
    )  # fmt: skip
    yield Function(
        name="linalg.matrix_power",
        call=lambda xp, x: xp.linalg.matrix_power(x[:448, :448] * (1 / 64), 3), kinds="fc",
        dims=(2,), most=700, least=448, units=256, sizes="largest",
    )  # fmt: skip


def _decompositions() -> Iterator[Function]:
    """By what their factors multiply to, or by what is left of an equation."""

    def square(x: Any) -> Any:
        return x[:200, :200]

    def conjugated(xp: Any, x: Any) -> Any:
        return xp.matrix_transpose(xp.conj(x) if xp.isdtype(x.dtype, "complex floating") else x)

    def definite(xp: Any, x: Any) -> Any:
        half = square(x)
        return half @ conjugated(xp, half) + 100 * xp.eye(200, dtype=x.dtype)

    def by_qr(xp: Any, x: Any) -> Any:
        q, r = xp.linalg.qr(x)
        return q @ r

    def by_svd(xp: Any, x: Any) -> Any:
        u, s, vh = xp.linalg.svd(x[:200, :120], full_matrices=False)
        return (u * s) @ vh

    def by_cholesky(xp: Any, x: Any) -> Any:
        lower = xp.linalg.cholesky(definite(xp, x))
        return lower @ conjugated(xp, lower)

    def by_inverse(xp: Any, x: Any) -> Any:
        return xp.linalg.inv(definite(xp, x)) @ definite(xp, x)

    def by_solution(xp: Any, x: Any) -> Any:
        return definite(xp, x) @ xp.linalg.solve(definite(xp, x), square(x))

    def by_eigenvectors(xp: Any, x: Any) -> Any:
        values, vectors = xp.linalg.eigh(definite(xp, x))
        return (vectors * values) @ conjugated(xp, vectors)

    made: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "qr": (by_qr, lambda x: x),
        "svd": (by_svd, lambda x: x[:200, :120]),
        "cholesky": (by_cholesky, partial(definite, np)),
        "inv": (by_inverse, lambda _: np.eye(200)),
        "solve": (by_solution, square),
        "eigh": (by_eigenvectors, partial(definite, np)),
        "svdvals": (
            lambda xp, x: xp.linalg.svdvals(x),
            lambda x: np.linalg.svd(x, compute_uv=False),
        ),
    }
    for name, (call, expected) in made.items():
        yield Function(
            name=f"linalg.{name}", call=call, expected=expected, kinds="fc",
            without=("float16",), dims=(2,), most=400, least=200, units=4096, sizes="largest",
        )  # fmt: skip
    yield Function(
        name="linalg.slogdet", call=lambda xp, x: xp.linalg.slogdet(definite(xp, x))[1],
        expected=lambda x: np.linalg.slogdet(definite(np, x))[1], kinds="fc",
        without=("float16",), dims=(2,), most=400, least=200, units=4096,
    )  # fmt: skip


def _transforms() -> Iterator[Function]:
    def of(name: str, **options: Any) -> Callable[..., Any]:
        return lambda xp, x: getattr(xp.fft, name)(x, **options)

    for name, kinds in {"fft": "c", "ifft": "c", "rfft": "f", "fftn": "c", "rfftn": "f"}.items():
        yield Function(
            name=f"fft.{name}",
            call=of(name),
            kinds=kinds,
            units=64,
            sizes="largest",
            most=300000,
            without=("float16",),
        )
    yield Function(
        name="fft.irfft", call=lambda xp, x: xp.fft.irfft(xp.fft.rfft(x), n=x.shape[-1]),
        expected=lambda x: x, kinds="f", units=64, sizes="largest", most=300000,
        without=("float16",),
    )  # fmt: skip
    yield Function(
        name="fft.fftshift", call=of("fftshift"), kinds="fc", without=("float16",), few=True
    )


def _creations() -> Iterator[Function]:
    made: dict[str, Callable[..., Any]] = {
        "arange": lambda xp, x: xp.arange(x.size, dtype=x.dtype),
        "linspace": lambda xp, x: xp.linspace(-1, 2, x.size, dtype=x.dtype),
        "zeros_like": _named("zeros_like"),
        "full_like": lambda xp, x: xp.full_like(x, 3),
        "eye": lambda xp, x: xp.eye(*x.shape[:2], dtype=x.dtype),
        "meshgrid": lambda xp, x: xp.meshgrid(x[:777, 0], x[:1000, -1])[1],
    }
    for name, call in made.items():
        yield Function(
            name=name,
            call=call,
            kinds="f" if name in ("linspace", "arange") else "fiuc",
            dims=(2,) if name in ("eye", "meshgrid") else (1, 2, 3),
            few=True,
            units=16,
            sizes="largest",
            widened=name != "arange",
        )
