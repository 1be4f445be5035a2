"""General matrix multiplication."""

from __future__ import annotations

from math import prod
from typing import Any, Final, Literal

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
from portable.lang.geometry import groups
from portable.linalg.gemm_kernels import gemm_naive, gemm_tiled, gemm_tiles, keep, relu
from portable.linalg.gemm_tuning import TILED_EDGE, candidates
from portable.linalg.operands import (
    broadcast_shape,
    broadcasts_to,
    common_dtype,
    overlap,
    same_memory,
)
from portable.namespace import device_of
from portable.tune.space import Parameters

__all__ = ["ALGORITHMS", "Algorithm", "gemm"]

Algorithm = Literal["auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor"]

ALGORITHMS: Final = ("auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor")
"""What ``algorithm=`` takes: "auto", the rungs of the ladder from the plainest up, "vendor"."""

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_ACTIVATIONS: Final = {None: keep, "relu": relu}
_EDGE: Final = 16


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
    DeviceMismatchError
        For arrays of different devices.

    Notes
    -----
    Tiles of the result are held in registers while tiles of the operands stream through local
    memory: the scheme of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix
    multiplication", ACM TOMS 34 (2008), on CPUs and of V. Volkov and J. Demmel (SC 2008) on GPUs.
    No workspace beyond the tiles.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.ones((4, 3), np.float32)
    >>> portable.linalg.gemm(a, a.T, alpha=2)[0, 0]
    6.0
    """
    arrays = [x for x in (a, b, c, bias, out) if x is not None]
    device = device_of(*arrays)
    kind = common_dtype("gemm", _DTYPES, a=a, b=b, c=c, bias=bias, out=out)
    shape = _result_shape(a, b)
    c = _checked_addend("c", c if beta else None, shape, needed=bool(beta))
    bias = _checked_addend("bias", bias, shape)
    _check_algorithm(algorithm)
    function = _activation(activation)
    sum_in = _accumulator(kind, accumulate)
    _check_out(device, a, b, c, bias, out, shape)
    result = device.empty(shape, kind) if out is None else out
    if prod(shape) == 0:
        return result
    if algorithm == "vendor":
        return _vendor(device, a, b, alpha, beta, c, bias, function, out)
    args = (float(alpha), a, b, float(beta), c, bias, result)
    _run(device, kind, args, algorithm, {"ACC": sum_in, "ACTIVATION": function})
    return result


# -- checks -------------------------------------------------------------------------------------


def _result_shape(a: Any, b: Any) -> tuple[int, ...]:
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(
            f"gemm takes matrices (..., M, K) and (..., K, N), not shapes {a.shape} and {b.shape}; "
            "give a vector a dimension of extent 1"
        )
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"gemm of shapes {tuple(a.shape)} and {tuple(b.shape)}: the last extent of a, "
            f"{a.shape[-1]}, is not the last but one of b, {b.shape[-2]}"
        )
    lead = broadcast_shape("gemm", tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return (*lead, int(a.shape[-2]), int(b.shape[-1]))


def _checked_addend(name: str, x: Any, shape: tuple[int, ...], needed: bool = False) -> Any:
    if x is None:
        if needed:
            raise ShapeError("gemm with beta other than 0 needs c")
        return None
    if x.ndim < 1 or not broadcasts_to(tuple(x.shape), shape):
        raise ShapeError(f"gemm: {name} of shape {tuple(x.shape)} does not broadcast to {shape}")
    return x


def _check_out(
    device: Device, a: Any, b: Any, c: Any, bias: Any, out: Any, shape: tuple[int, ...]
) -> None:
    if out is None:
        return
    if tuple(out.shape) != shape:
        raise ShapeError(f"gemm: out has shape {tuple(out.shape)}, the result {shape}")
    for name, x in (("a", a), ("b", b), ("bias", bias)):
        if x is not None and overlap(device, out, x):
            raise ShapeError(f"gemm: out overlaps {name}; pass another array")
    if c is not None and overlap(device, out, c) and not same_memory(device, out, c):
        raise ShapeError("gemm: out overlaps c without being the same array; pass another array")


def _check_algorithm(algorithm: str) -> None:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r}; gemm has {', '.join(ALGORITHMS)}")


def _activation(activation: object) -> Function:
    if isinstance(activation, Function):
        return activation
    if activation is None or activation == "relu":
        return _ACTIVATIONS[activation]
    raise TypeError(
        f"activation={activation!r}; gemm takes None, 'relu' or a function marked "
        "@portable.function"
    )


def _accumulator(kind: DType, accumulate: Any) -> DType:
    default = kind.register
    if accumulate is None:
        return default
    wanted = dtype(accumulate)
    if wanted not in (kl.f32, kl.f64) or wanted.itemsize < default.itemsize:
        raise DTypeError(
            f"accumulate={wanted.name} for {kind.name}: gemm sums in {default.name}"
            + (" or float64" if default is not kl.f64 else "")
        )
    return wanted


# -- running ------------------------------------------------------------------------------------


def _run(
    device: Device,
    kind: DType,
    args: tuple[Any, ...],
    algorithm: Algorithm,
    constants: dict[str, Any],
) -> None:
    *lead, m, n = args[-1].shape
    batch = prod(lead)
    if algorithm == "naive":
        gemm_naive[(n, m, batch), (_EDGE, _EDGE, 1)](*args, **constants)
    elif algorithm == "tiled":
        edge = TILED_EDGE
        counts = groups(-(-n // edge), -(-m // edge), batch)
        gemm_tiled[counts, (edge, edge, 1)](*args, TILE=edge, **constants)
    else:
        _run_tiles(device, kind, args, algorithm, constants, (m, n, batch))


def _run_tiles(
    device: Device,
    kind: DType,
    args: tuple[Any, ...],
    algorithm: Algorithm,
    constants: dict[str, Any],
    size: tuple[int, int, int],
) -> None:
    """The first candidate that builds and launches; the others of the table are fallbacks."""
    failures: list[str] = []
    for parameters in candidates(device, kind, algorithm, size):
        try:
            launch_tiles(parameters, args, constants)
        except (CompileError, LaunchError, UnsupportedError) as error:
            failures.append(f"{parameters}: {error}")
        else:
            return
    raise PortableError(
        f"no tile sizes for {kind.name} gemm work on {device.name}:\n" + "\n".join(failures)
    )


def launch_tiles(parameters: Parameters, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Launches the tile kernel with one set of tuned parameters."""
    *lead, m, n = args[-1].shape
    tiles = -(-m // parameters["BM"]) * -(-n // parameters["BN"])
    sizes = {name: value for name, value in parameters.items() if name != "WORKGROUP"}
    workgroup = (parameters["WORKGROUP"], 1, 1)
    gemm_tiles[groups(tiles * prod(lead)), workgroup](*args, **sizes, **constants)


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
