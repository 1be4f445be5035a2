"""General matrix multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import (
    CompileError,
    DTypeError,
    LaunchError,
    PortableError,
    ShapeError,
    UnsupportedError,
)
from portable.lang.function import Function
from portable.linalg.gemm_kernels import keep, relu
from portable.linalg.gemm_launches import TileLaunch, launches
from portable.linalg.gemm_rows import in_rows, row_multiples
from portable.linalg.operands import (
    broadcast_shape,
    broadcasts_to,
    common_dtype,
    same_elements,
    views_overlap,
)
from portable.namespace import device_of_arrays, on_device
from portable.tune.table import state

__all__ = ["ALGORITHMS", "Algorithm", "gemm", "no_tiles", "product_launches"]

Algorithm = Literal["auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor"]

ALGORITHMS: Final = ("auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor")
"""What ``algorithm=`` takes: "auto", the rungs of the ladder from the plainest up, "vendor"."""

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_ACTIVATIONS: Final = {None: keep, "relu": relu}


def gemm(
    a: Any,
    b: Any,
    *,
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    bias: Any = None,
    activation: Literal["relu"] | Function | None = None,
    out: Any = None,
    accumulate: Any = None,
    algorithm: Algorithm = "auto",
) -> Any:
    """``activation(alpha a @ b + beta c + bias)``, where `a` and `b` live.

    Parameters
    ----------
    a : array, shape (..., M, K)
        ``float16``, ``float32`` or ``float64``; any strides, so that a transpose is a view.
    b : array, shape (..., K, N)
        Of the same dtype and device; leading dimensions broadcast with those of `a`.
    alpha, beta : float
        Factors; with ``beta=0`` `c` is never read.
    c : array, broadcasting to (..., M, N), optional
        Needed if `beta` is not 0.
    bias : array, shape (N,) or broadcasting to (..., M, N), optional
        Added once.
    activation : "relu" or function, optional
        A `portable.function` of one number, applied to each element before it is rounded.
    out : array, shape (..., M, N), optional
        Where to put the result; may be `c` but may not overlap `a` or `b`.
    accumulate : dtype, optional
        The type to sum in: ``float32`` (the default for ``float16`` and ``float32``) or
        ``float64``.
    algorithm : str
        "auto": the tuned kernel for the device. "naive", "tiled", "register", "pipelined" and
        "matrix" are the rungs of the ladder towards it, "vendor" is the array library's own
        ``matmul``.

    Returns
    -------
    array, shape (..., M, N)
        `out`, or a new array. Elementwise within ``4 (K u_acc + u_out) (|alpha| |A| |B| +
        |beta C| + |bias|)`` of the exact result, u the unit roundoffs. K = 0 gives the rest of the
        formula.

    Raises
    ------
    DTypeError
        For mixed or other dtypes.
    ShapeError
        For shapes that do not fit, or an `out` that overlaps an operand.
    LaunchError
        For an `out` that is read-only.
    DeviceMismatchError
        For arrays of different devices.

    Notes
    -----
    Tiles of the result are held in registers while tiles of the operands stream through local
    memory: the scheme of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix
    multiplication", ACM TOMS 34 (2008), on CPUs and of V. Volkov and J. Demmel (SC 2008) on GPUs.
    No workspace beyond the tiles, but for large products of operands whose rows do not begin at
    multiples of 16 (`b`'s, of half precision, 32) bytes: GPUs with asynchronous copies work on
    copies.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.ones((4, 3), np.float32)
    >>> portable.linalg.gemm(a, a.T, alpha=2)[0, 0]
    6.0
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r}; gemm has {', '.join(ALGORITHMS)}")
    function = _activation(activation)
    alpha, beta = _factor("alpha", alpha), _factor("beta", beta)
    sum_in = None if accumulate is None else dtype(accumulate)
    device = device_of_arrays(a, b, *[x for x in (c, bias, out) if x is not None])
    forms = [None if x is None else _Form(x.dtype, tuple(x.shape)) for x in (a, b, c, bias, out)]
    columns = _columns_lie_together(device, b)
    plan = _planned(device, *forms, columns, bool(beta), function, sum_in, algorithm, state())
    if not beta:
        c = None
    if out is not None:
        _check_out(device, out, a, b, c, bias)
    if algorithm == "vendor" and 0 not in plan.shape:
        return _vendor(device, a, b, alpha, beta, c, bias, function, out)
    result = device.empty(plan.shape, plan.kind) if out is None else out
    if plan.rows is not None:
        a, rows = (in_rows(device, x, n) for x, n in zip((a, b), plan.rows, strict=True))
        if rows is not b and columns:
            plan = _planned(device, *forms, False, bool(beta), function, sum_in, algorithm, state())
        b = rows
    if 0 not in plan.shape:
        _run(plan, (alpha, a, b, beta, c, bias, result))
    return result


def product_launches(a: Any, b: Any, out: Any) -> tuple[tuple[TileLaunch, ...], tuple[Any, ...]]:
    """What `gemm` launches for ``out = a @ b``, to be tried in turn, and the arguments.

    For libraries that keep launches to repeat them; `out`, not empty, overlaps no operand.
    """
    device = device_of_arrays(a, b, out)
    forms = [None if x is None else _Form(x.dtype, tuple(x.shape)) for x in (a, b, None, None, out)]
    columns = _columns_lie_together(device, b)
    plan = _planned(device, *forms, columns, False, keep, None, "auto", state())
    return plan.launches, (1.0, a, b, 0.0, None, None, out)


# -- what depends on dtypes and shapes alone ------------------------------------------------------


class _Form(NamedTuple):
    """What of an array may be checked once for all calls with the like."""

    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What calls with operands of the same forms share; its launches are to be tried in turn.

    Operands whose rows do not begin at multiples of so many bytes, of a and b, are copied: `rows`.
    """

    device: Device
    kind: DType
    shape: tuple[int, ...]
    launches: tuple[TileLaunch, ...]
    rows: tuple[int, int] | None


@lru_cache(maxsize=4096)
def _planned(
    device: Device,
    a: _Form,
    b: _Form,
    c: _Form | None,
    bias: _Form | None,
    out: _Form | None,
    b_columns: bool,
    reads_c: bool,
    function: Function,
    sum_in: DType | None,
    algorithm: Algorithm,
    table: object,
) -> _Plan:
    """Checks the operands; `table` is the state of the user's table of tuned parameters."""
    kind = common_dtype("gemm", _DTYPES, a=a, b=b, c=c, bias=bias, out=out)
    shape = _result_shape(a.shape, b.shape)
    if reads_c and c is None:
        raise ShapeError("gemm with beta other than 0 needs c")
    _check_addend("c", c if reads_c else None, shape)
    _check_addend("bias", bias, shape)
    if out is not None and out.shape != shape:
        raise ShapeError(f"gemm: out has shape {out.shape}, the result {shape}")
    constants = {"ACC": _accumulator(kind, sum_in), "ACTIVATION": function}
    tried = launches(device, kind, shape, algorithm, constants, b_columns)
    rows = None
    if algorithm in ("auto", "matrix"):
        rows = row_multiples(device.capabilities, kind, shape, a.shape[-1], b_columns)
    return _Plan(device, kind, shape, tuple(tried), rows)


def _columns_lie_together(device: Device, x: Any) -> bool:
    """Whether neighbours in a column are closer in memory than neighbours in a row."""
    strides = x.strides if hasattr(x, "strides") else on_device(device, x).strides
    return len(strides) > 1 and bool(abs(strides[-2]) < abs(strides[-1]))


def _result_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    if len(a) < 2 or len(b) < 2:
        raise ShapeError(
            f"gemm takes matrices (..., M, K) and (..., K, N), not shapes {a} and {b}; "
            "give a vector a dimension of extent 1"
        )
    if a[-1] != b[-2]:
        raise ShapeError(
            f"gemm of shapes {a} and {b}: the last extent of a, {a[-1]}, is not the last but one "
            f"of b, {b[-2]}"
        )
    return (*broadcast_shape("gemm", a[:-2], b[:-2]), int(a[-2]), int(b[-1]))


def _check_addend(name: str, x: _Form | None, shape: tuple[int, ...]) -> None:
    if x is not None and not (x.shape and broadcasts_to(x.shape, shape)):
        raise ShapeError(f"gemm: {name} of shape {x.shape} does not broadcast to {shape}")


def _activation(activation: object) -> Function:
    if isinstance(activation, Function):
        return activation
    if activation is None or activation == "relu":
        return _ACTIVATIONS[activation]
    raise TypeError(
        f"activation={activation!r}; gemm takes None, 'relu' or a function marked "
        "@portable.function"
    )


def _factor(name: str, x: Any) -> float:
    try:
        if not isinstance(x, str | bytes):
            return float(x)
    except TypeError:
        pass
    raise TypeError(f"{name}={x!r}; gemm takes a real number")


def _accumulator(kind: DType, wanted: DType | None) -> DType:
    default = kind.register
    if wanted is None:
        return default
    if wanted not in (kl.f32, kl.f64) or wanted.itemsize < default.itemsize:
        raise DTypeError(
            f"accumulate={wanted.name} for {kind.name}: gemm sums in {default.name}"
            + (" or float64" if default is not kl.f64 else "")
        )
    return wanted


# -- what is done at each call --------------------------------------------------------------------


def _check_out(device: Device, out: Any, a: Any, b: Any, c: Any, bias: Any) -> None:
    """Refuses a result that is read-only, or overlaps what it is made of and is not `c` itself."""
    target = device.view(out)
    if not target.writable:
        raise LaunchError("gemm: out is read-only; pass a writable array")
    for name, x in (("a", a), ("b", b), ("bias", bias)):
        if x is not None and views_overlap(target, device.view(x)):
            raise ShapeError(f"gemm: out overlaps {name}; pass another array")
    if c is None or c is out:
        return
    view = device.view(c)
    if views_overlap(target, view) and not same_elements(target, view):
        raise ShapeError("gemm: out overlaps c without being the same array; pass another array")


def _run(plan: _Plan, args: tuple[Any, ...]) -> None:
    """The first launch that builds and is accepted; the later ones are fallbacks of the table."""
    failures: list[str] = []
    for launcher, constants in plan.launches:
        try:
            launcher(*args, **constants)
        except (CompileError, LaunchError, UnsupportedError) as error:
            failures.append(f"{constants}: {error}")
        else:
            return
    raise no_tiles(args[-1], failures)


def no_tiles(out: Any, failures: Sequence[str]) -> PortableError:
    """The error where no launch for a result is possible, and why each was not."""
    return PortableError(
        f"no tile sizes for {dtype(out.dtype).name} gemm work on {device_of_arrays(out).name}:\n"
        + "\n".join(failures)
    )


def _vendor(
    device: Device,
    a: Any,
    b: Any,
    alpha: float,
    beta: float,
    c: Any,
    bias: Any,
    function: Function,
    out: Any,
) -> Any:
    """The array library's own ``matmul``, the rest of the formula by its element-wise functions."""
    xp = device.namespace()
    own = getattr(xp, "__name__", "").startswith("portable.")
    if own or function not in (keep, relu):
        raise UnsupportedError(
            f'algorithm="vendor" on {device.name} with activation {function.__name__}: it needs an '
            "array library with matmul, and knows no activation but relu"
        )
    total = xp.matmul(a, b)
    if alpha != 1:
        total = total * alpha
    if c is not None:
        total = total + beta * c
    if bias is not None:
        total = total + bias
    if function is relu:
        total = xp.maximum(total, xp.zeros_like(total))
    if out is None:
        return total
    out[...] = total
    return out
