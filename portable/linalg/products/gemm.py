"""General matrix multiplication.

Tiles of the result are held in registers while tiles of the operands stream through local memory:
the scheme of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
TOMS 34 (2008), on CPUs and of V. Volkov and J. Demmel (SC 2008) on GPUs. Beyond the tiles room is
needed for partial sums, where a result has too few tiles for a device, or the last round of them is
shared out (33 MiB on an H200); and for large products of operands whose rows do not begin at
multiples of 16 (`b`'s, of half precision, 32) bytes, of which GPUs with asynchronous copies work on
copies, as of a `b` of single precision whose columns are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack, cast

import numpy as np

from portable import recording
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import (
    CompileError,
    LaunchError,
    PortableError,
    UnsupportedError,
)
from portable.interchange.host_arrays import MovedCall
from portable.interchange.jax_arrays import is_recognised
from portable.interchange.libraries import (
    device_elsewhere,
    exchanged,
    is_other,
    prepares_for_other_libraries,
)
from portable.interchange.tensors import is_tensor
from portable.lang.function import Function, settled
from portable.lang.launch.call_cache import CallTraits, cached_call
from portable.lang.launch.enqueued import attempted, enqueue, repeated
from portable.linalg.base.operands import require_apart
from portable.linalg.products.activation import activation_of
from portable.linalg.products.kernels import keep, relu
from portable.linalg.products.launches import TileLaunch, in_order
from portable.linalg.products.plan import (
    ALGORITHMS,
    PRECISIONS,
    Algorithm,
    Form,
    Plan,
    Precision,
    Wanted,
    planned,
    taken_units,
)
from portable.linalg.products.rows import in_rows
from portable.namespace import device_of_arrays, on_device
from portable.tune.table import recent_state, state
from portable.typing import ArrayT


class Options(TypedDict, total=False):
    """Keyword arguments of `gemm`, where they are documented."""

    accumulate: Any
    algorithm: Algorithm
    precision: Precision


def gemm(
    a: ArrayT,
    b: ArrayT,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: ArrayT | None = None,
    bias: ArrayT | None = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    out: ArrayT | None = None,
    **options: Unpack[Options],
) -> ArrayT:
    """``activation(alpha a @ b + beta c + bias)``, on the device of `a` and `b`.

    Parameters
    ----------
    a : array, shape (..., M, K)
        ``float16``, ``bfloat16`` (NumPy's of ``ml_dtypes``), ``float32``, ``float64``; ``int8``,
        whose results are ``int32``, or ``float8_e4m3fn`` or ``float8_e5m2``, whose results are
        ``float32`` or as `out`. Any strides, so that a transpose is a view.
    b : array, shape (..., K, N)
        Of the same dtype and device; leading dimensions broadcast with those of `a`.
    alpha, beta : float
        Factors; with ``beta=0`` `c` is never read.
    c : array, broadcasting to (..., M, N), optional
        Needed if `beta` is not 0.
    bias : array, shape (N,) or broadcasting to (..., M, N), optional
    activation : "relu" or function, optional
        Applied before rounding: a function of a number for kernels, such as `portable.lang.tanh`.
    out : array, shape (..., M, N), optional
        Where to put the result; may be `c` but may not overlap `a` or `b`.
    accumulate : dtype, optional
        The type to sum in: ``float32`` (the default for all but ``float64``) or ``float64``; of
        ``int8`` always ``int32``, in which sums wrap. ``float16`` of ``float16`` allows coarser
        sums; they are made in ``float32`` all the same.
    algorithm : str
        "auto": the tuned kernel for the device. "naive", "tiled", "register", "pipelined" and
        "matrix" are the rungs of the ladder towards it, "vendor" is the array library's ``matmul``.
    precision : {"full", "tf32x3", "tf32", "fast"}
        Of ``float32`` on devices with matrix units for it: "tf32" rounds factors to 11 bits,
        "tf32x3" multiplies them as sums of two such numbers (an infinite factor gives NaN). "fast",
        of floats of eight bits: matrix units keep the sums, on Hopper some 14 bits of them.

    Returns
    -------
    array, shape (..., M, N)
        `out`, or a new array. Each element is within ``4 (K u_acc + u_out) (|alpha| |A| |B| +
        |beta C| + |bias|)`` of the exact result, u being the unit roundoffs; long sums are added
        up in parts and are closer. "tf32" adds ``|alpha| |A| |B| / 1024``, "tf32x3"
        ``|alpha| |A| |B| / 2^19``. K = 0 gives the rest of the formula.

    Raises
    ------
    DTypeError, ShapeError, LaunchError, DeviceMismatchError
        For mixed dtypes, a `precision` that they do not have, shapes that do not fit, an `out` that
        overlaps an operand or is read-only, and arrays of two devices.

    Examples
    --------
    >>> import numpy as np, portable
    >>> a = np.ones((4, 3), np.float32)
    >>> portable.linalg.gemm(a, a.T, alpha=2)[0, 0]
    6.0
    """
    recorder = recording.current() if recording.active else None
    away = device_elsewhere((a, b, c, bias, out), {}) if type(a) is np.ndarray else None
    handed_over = recorder is not None or away is not None
    if handed_over or (is_other(a) and not (is_tensor(a) or is_recognised(a))):
        told: dict[str, Any] = {"alpha": alpha, "beta": beta, "c": c, "bias": bias, "out": out}
        told |= {"activation": activation, **options}
        return _handed_over((a, b), told, recorder, away)  # type: ignore[no-any-return]
    alpha = alpha if type(alpha) is float else _factor("alpha", alpha)
    beta = beta if type(beta) is float else _factor("beta", beta)
    function = activation if activation is None else settled(activation)
    call_key = beta != 0, function, taken_units.get(), *options.items()
    arrays, factors = (a, b, c, bias), (alpha, beta)
    return cached_call(_CALLS, arrays, out, call_key, factors, recent_state(), _made)  # type: ignore[no-any-return]


def _handed_over(
    factors: tuple[Any, Any],
    told: dict[str, Any],
    recorder: recording.Recorder | None,
    away: Device | None,
) -> Any:
    """A call of `gemm` that is recorded, made on another device, or made of views of arrays."""
    if recorder is not None:
        return recorder.operation(gemm, factors, told)
    if away is not None:
        return MovedCall(away).called(gemm, factors, told)
    return exchanged(gemm, factors, told)


_CALLS: Final = CallTraits(alike=((0, 1), (2, 4)))


@prepares_for_other_libraries
def prepare_gemm(
    a: ArrayT,
    b: ArrayT,
    *,
    out: ArrayT,
    alpha: float = 1,
    beta: float = 0,
    c: ArrayT | None = None,
    bias: ArrayT | None = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    **options: Unpack[Options],
) -> Callable[[], None]:
    """A function that repeats the product of the same arrays at the least cost.

    The arguments are those of `gemm`, so that a call is prepared by changing its name.

    Parameters
    ----------
    a, b, out, alpha, beta, c, bias, activation, **options
        As in `gemm`. The arrays must stay alive and where they are; what they hold is read at each
        call, the factors now. NumPy's are copied at each call where another device was chosen.

    Returns
    -------
    callable
        Without arguments; it puts the product into `out`, on the queue that is current then.

    Raises
    ------
    DTypeError, ShapeError, LaunchError, DeviceMismatchError
        As in `gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a, out = np.ones((4, 4), np.float32), np.empty((4, 4), np.float32)
    >>> product = portable.linalg.prepare_gemm(a, a, out=out)
    >>> product()
    >>> out[0, 0]
    4.0
    """
    if type(a) is np.ndarray and device_elsewhere((a, b, c, bias, out), {}):
        again = partial(gemm, a, b, c=c, bias=bias, out=out, alpha=alpha, beta=beta)
        return partial(_discarded, partial(again, activation=activation, **options))
    given = _Given(_factor("alpha", alpha), a, b, _factor("beta", beta), c, bias, out)
    wanted = _wanted(given.beta, activation, options)
    device, plan = _checked(given, wanted)
    if 0 in plan.shape:
        return _nothing
    if wanted.algorithm == "vendor":
        return partial(_vendor, device, given, wanted)

    def work() -> None:  # copies of rows are made at each call, too
        _run(*_in_rows(plan, given, given.out, wanted))

    return repeated(device, work, prepares=True)


def _nothing() -> None:
    """What is left to do for an empty result."""


def _discarded(call: Callable[[], object]) -> None:
    call()


def product_launches(a: Any, b: Any, out: Any) -> tuple[tuple[TileLaunch, ...], tuple[Any, ...]]:
    """What `gemm` launches for ``out = a @ b``, to be tried in turn, and the arguments.

    For libraries that keep launches to repeat them.

    Parameters
    ----------
    a, b : array
        As in `gemm`.
    out : array
        Of the result's shape and dtype; it is not empty and overlaps no operand.
    """
    given = _Given(1.0, a, b, 0.0, None, None, out)
    plan = _plan_of(device_of_arrays(a, b, out), given, Wanted(False, keep, None, "auto"))
    return plan.launches, _arguments(plan, given, out)


class _Given(NamedTuple):
    """The operands of a call."""

    alpha: float | None
    a: Any
    b: Any
    beta: Any
    c: Any
    bias: Any
    out: Any


def _arguments(plan: Plan, given: _Given, result: Any) -> tuple[Any, ...]:
    """Those of a launch; `c` only where it is read, and whole factors of integers."""
    alpha, a, b, beta, c, bias, _ = given
    c = c if beta else None
    if plan.result.is_integer:
        alpha, beta = _whole_factors(alpha, beta)
    return alpha, a, b, beta, c, bias, result


def _whole_factors(alpha: Any, beta: Any) -> tuple[int, int]:
    return _whole("alpha", alpha), _whole("beta", beta)


def _whole(name: str, x: float) -> int:
    if not x.is_integer() or abs(x) >= 2**31:
        raise ValueError(f"{name}={x!r}; gemm of int8 takes whole numbers of 32 bits")
    return int(x)


# -- what is asked for ----------------------------------------------------------------------------


def _wanted(beta: float, activation: Any, options: Options) -> Wanted:
    unknown = options.keys() - Options.__annotations__
    if unknown:
        names = ", ".join(Options.__annotations__)
        raise TypeError(f"gemm knows no {', '.join(sorted(unknown))}; its options are {names}")
    algorithm, precision = options.get("algorithm", "auto"), options.get("precision", "full")
    accumulate = options.get("accumulate")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r}; gemm has {', '.join(ALGORITHMS)}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}; gemm has {', '.join(PRECISIONS)}")
    sum_in = None if accumulate is None else dtype(accumulate)
    function, taken = activation_of(activation, "gemm"), taken_units.get()
    return Wanted(bool(beta), function, sum_in, algorithm, precision, taken)


def _factor(name: str, x: Any) -> float:
    try:
        if not isinstance(x, str | bytes):
            return float(x)
    except TypeError:
        pass
    raise TypeError(f"{name}={x!r}; gemm takes a real number")


# -- what is done at each call --------------------------------------------------------------------


def _made(
    arrays: tuple[Any, ...], out: Any, call_key: tuple[Any, ...], alpha: float, beta: float
) -> Any:
    """The product of arrays as `gemm` is given them."""
    a, b, c, bias = arrays
    given, (_, activation, _, *rest) = _Given(alpha, a, b, beta, c, bias, out), call_key
    options = cast(Options, dict(rest))
    if any(map(is_other, (*arrays, out))):
        by_name = given._asdict()
        left, right = by_name.pop("a"), by_name.pop("b")
        return exchanged(gemm, (left, right), by_name | {"activation": activation, **options})
    wanted = _wanted(beta, activation, options)
    device, plan = _checked(given, wanted)
    if wanted.algorithm == "vendor" and 0 not in plan.shape:
        return _vendor(device, given, wanted)
    result = device.empty(plan.shape, plan.result) if given.out is None else given.out
    if 0 not in plan.shape:
        _run(*_in_rows(plan, given, result, wanted))
    return result


def _checked(given: _Given, wanted: Wanted) -> tuple[Device, Plan]:
    """Where the operands live and what to do with them, once nothing is wrong with them."""
    arrays = (given.a, given.b, given.c, given.bias, given.out)
    device = device_of_arrays(given.a, given.b, *[x for x in arrays[2:] if x is not None])
    plan = _plan_of(device, given, wanted)
    if given.out is not None:
        operands = {"a": given.a, "b": given.b, "bias": given.bias}
        addend = "c", given.c if wanted.reads_c else None
        require_apart("gemm", device, given.out, operands, addend)
    if plan.result.is_integer and wanted.algorithm == "vendor":
        raise UnsupportedError(
            'algorithm="vendor" takes no int8: array libraries wrap its products'
        )
    return device, plan


def product_with_factors(
    a: Any,
    b: Any,
    factors: tuple[Any, Any],
    out: Any,
    precision: Precision | Literal["blocks"] = "full",
) -> None:
    """Puts into `out` ``factors[0] * (a @ b) * factors[1]``, on its way to memory.

    Parameters
    ----------
    a, b : array
        As in `gemm`.
    factors : (array, array)
        Of float32, of shapes that broadcast to (..., M, 1) and (..., 1, N); with "blocks" of those
        that `gemm_tiles` has.
    out : array, shape (..., M, N)
        The result; its dtype may be any that `gemm` gives of operands like these.
    precision : str
        As in `gemm`; "blocks": each block of the sum has factors of its own.
    """
    given = _Given(None, a, b, factors, None, None, out)
    wanted = Wanted(False, keep, None, "auto", precision)
    _, plan = _checked(given, wanted)
    if 0 not in plan.shape:
        _run(*_in_rows(plan, given, out, wanted))


def _plan_of(device: Device, given: _Given, wanted: Wanted, b: Any = None) -> Plan:
    """The plan for what is given; `b`: a copy of it, which is to be read instead."""
    arrays = (given.a, given.b, given.c, given.bias, given.out)
    forms = [None if x is None else Form(x.dtype, tuple(x.shape)) for x in arrays]
    by_column = given.b.shape[-1:] == (1,)
    columns = (
        by_column and _columns_lie_together(device, given.a),
        _columns_lie_together(device, given.b if b is None else b),
    )
    return planned(device, *forms, columns, wanted, state())


def _columns_lie_together(device: Device, x: Any) -> bool:
    """Whether neighbours in a column are closer in memory than neighbours in a row."""
    strides = x.strides if hasattr(x, "strides") else on_device(device, x).strides
    return len(strides) > 1 and bool(abs(strides[-2]) < abs(strides[-1]))


def _in_rows(
    plan: Plan, given: _Given, result: Any, wanted: Wanted
) -> tuple[Plan, tuple[Any, ...]]:
    """The arguments of a launch, operands copied where their rows begin where they should not."""
    args = _arguments(plan, given, result)
    if plan.rows is None:
        return plan, args
    alpha, a, b, *rest = args
    device, wants = plan.device, plan.rows
    a = in_rows(device, a, wants.a, wants.along_sum, wants.across)
    if wants.along_sum:
        columns = b.swapaxes(-1, -2)
        turned = in_rows(device, columns, wants.b, turned=True)
        rows = b if turned is columns else turned.swapaxes(-1, -2)
    else:
        rows = in_rows(device, b, wants.b, wants.turned)
    if rows is not b:
        plan = _plan_of(device, given, wanted, rows)
    return plan, (alpha, a, rows, *rest)


def _run(plan: Plan, args: tuple[Any, ...]) -> None:
    """Runs the first launch that builds and is accepted; the later ones are its fallbacks."""
    failures: list[str] = []
    for launch in plan.launches:
        key = plan.device.name, dtype(args[-1].dtype), *launch.constants.values()
        if key in _refused and launch is not plan.launches[-1]:
            continue
        try:
            with attempted():
                for step, given, how in in_order(launch, args, plan.activation, plan.device.empty):
                    enqueue(step, *given, **how)
        except (CompileError, LaunchError, UnsupportedError) as error:
            failures.append(f"{launch.constants}: {error}")
            _refuse(key)
        else:
            return
    raise no_tiles(args[-1], failures)


_refused: Final[dict[Any, None]] = {}
"""Launches that did not build, the last ones: to find that out takes as long as to build."""

_MOST_REFUSED: Final = 256


def _refuse(key: Any) -> None:
    """Remembers a launch that is not to be tried again."""
    while len(_refused) >= _MOST_REFUSED:
        _refused.pop(next(iter(_refused)), None)
    _refused[key] = None


def no_tiles(out: Any, failures: Sequence[str]) -> PortableError:
    """The error where no launch for a result is possible, and why each was not."""
    return PortableError(
        f"no tile sizes for {dtype(out.dtype).name} gemm work on {device_of_arrays(out).name}:\n"
        + "\n".join(failures)
    )


def _vendor(device: Device, given: _Given, wanted: Wanted) -> Any:
    """The array library's own ``matmul``, the rest of the formula by its element-wise functions."""
    xp, function, out = device.namespace(), wanted.activation, given.out
    is_ours = getattr(xp, "__name__", "").startswith("portable.")
    if is_ours or function not in (keep, relu):
        raise UnsupportedError(
            f'algorithm="vendor" on {device.name} with activation {function.__name__}: it needs an '
            "array library with matmul, and knows no activation but relu"
        )
    total = xp.matmul(given.a, given.b)
    if given.alpha != 1:
        total = total * given.alpha
    if wanted.reads_c:
        total = total + given.beta * given.c
    if given.bias is not None:
        total = total + given.bias
    if function is relu:
        total = xp.maximum(total, xp.zeros_like(total))
    if out is None:
        return total
    out[...] = total
    return out
