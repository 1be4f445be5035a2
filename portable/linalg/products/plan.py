"""What of a product depends on the dtypes, shapes and layouts of its operands alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, ShapeError
from portable.lang.function import Function
from portable.linalg.base.operands import broadcast_shape, broadcasts_to, common_dtype
from portable.linalg.products.launches import Asked, EpilogueKind, TileLaunch, launches
from portable.linalg.products.rows import Rows, row_multiples

Algorithm = Literal["auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor"]

ALGORITHMS: Final = ("auto", "naive", "tiled", "register", "pipelined", "matrix", "vendor")
"""What ``algorithm=`` takes: "auto", the rungs of the ladder from the plainest up, "vendor"."""

Precision = Literal["full", "tf32x3", "tf32", "fast"]

PRECISIONS: Final = ("full", "tf32x3", "tf32", "fast")
"""What ``precision=`` takes."""

_DTYPES: Final = (kl.f16, kl.bf16, kl.f32, kl.f64, kl.i8, kl.f8e4m3, kl.f8e5m2)

_RESULTS: Final = {
    kl.i8: (kl.i32,),
    **dict.fromkeys((kl.f8e4m3, kl.f8e5m2), (kl.f32, kl.bf16, kl.f16)),
}
"""Of operands of eight bits: what results may be of, the usual one first."""


class Form(NamedTuple):
    """What of an array may be checked once for all calls with the like."""

    dtype: Any
    shape: tuple[int, ...]


class Wanted(NamedTuple):
    """What is to be made of the operands.

    Attributes
    ----------
    reads_c : bool
        Whether `beta` is not 0.
    activation : Function
        Applied to each element.
    accumulate : DType or None
        What to sum in; None for the default.
    algorithm : str
        One of `ALGORITHMS`.
    precision : str
        One of `PRECISIONS`, or "blocks" where factors are of blocks (`Tiling.by_blocks`).
    taken : int
        Compute units that other work has meanwhile.
    """

    reads_c: bool
    activation: Function
    accumulate: DType | None
    algorithm: Algorithm
    precision: Precision | Literal["blocks"] = "full"
    taken: int = 0


taken_units: Final[ContextVar[int]] = ContextVar("taken units", default=0)
"""Of products that are asked for where other work has compute units meanwhile."""


@contextmanager
def beside_work(units: int) -> Iterator[None]:
    """Products in here are planned for a device of which other work has so many compute units."""
    token = taken_units.set(units)
    try:
        yield
    finally:
        taken_units.reset(token)


@dataclass(frozen=True, slots=True)
class Plan:
    """What calls with operands of the same forms share; its launches are to be tried in turn.

    Operands whose rows do not lie as `rows` has it are copied.
    """

    device: Device
    kind: DType
    result: DType
    shape: tuple[int, ...]
    activation: Function
    launches: tuple[TileLaunch, ...]
    rows: Rows | None


@lru_cache(maxsize=4096)
def planned(
    device: Device,
    a: Form,
    b: Form,
    c: Form | None,
    bias: Form | None,
    out: Form | None,
    columns: tuple[bool, bool],
    wanted: Wanted,
    table: object,
) -> Plan:
    """What to do with operands of such forms, once they are checked.

    Parameters
    ----------
    device : Device
        Where they live.
    a, b, c, bias, out : Form
        Of what `gemm` takes by these names; None for what is not given.
    columns : (bool, bool)
        Whether columns of `a`, where `b` is a column, and of `b` lie together, not rows.
    wanted : Wanted
        What is to be made of them.
    table : object
        The state of the user's table of tuned parameters.

    Raises
    ------
    DTypeError, ShapeError
        For what does not fit together.
    """
    kind, result = _kinds(a, b, c=c, bias=bias, out=out)
    shape = _result_shape(a.shape, b.shape)
    if wanted.reads_c and c is None:
        raise ShapeError("gemm with beta other than 0 needs c")
    _check_addend("c", c if wanted.reads_c else None, shape)
    _check_addend("bias", bias, shape)
    if out is not None and out.shape != shape:
        raise ShapeError(f"gemm: out has shape {out.shape}, the result {shape}")
    accumulator = _accumulator(kind, wanted.accumulate)
    constants: dict[str, Any] = {"ACC": accumulator, "ACTIVATION": wanted.activation}
    k, algorithm = int(a.shape[-1]), str(wanted.algorithm)
    if _splits_factors(device, kind, accumulator, wanted):
        algorithm = "fast" if kind.itemsize == 1 else "tf32"
        constants["SPLIT"] = True if wanted.precision == "tf32x3" else "first"
    if wanted.precision == "blocks":
        algorithm = constants["SPLIT"] = wanted.precision
    beside = EpilogueKind(wanted.reads_c, bias is not None)
    a_columns, b_columns = columns
    layout = b_columns, beside, wanted.taken, a_columns
    asked = Asked(device, kind, shape, k, algorithm, constants, *layout)
    tried = launches(asked)
    rows = None
    if wanted.algorithm in ("auto", "matrix"):
        rows = row_multiples(device.capabilities, kind, shape, k, b_columns)
    if rows is not None and algorithm == "tf32":
        rows = rows._replace(turned=False, across=False)
    return Plan(device, kind, result, shape, wanted.activation, tuple(tried), rows)


def _splits_factors(device: Device, kind: DType, accumulator: DType, wanted: Wanted) -> bool:
    """Whether matrix units multiply factors of single precision by parts, or sum fewer bits up."""
    if wanted.precision in ("full", "blocks"):
        return False
    if wanted.precision == "fast":
        if kind not in (kl.f8e4m3, kl.f8e5m2):
            raise DTypeError(f'precision="fast" is for floats of eight bits, not {kind.name}')
        return wanted.algorithm in ("auto", "matrix")
    if kind is not kl.f32:
        raise DTypeError(f'precision="{wanted.precision}" is for float32, not {kind.name}')
    units = "mma.tf32" in device.capabilities.matrix_units
    return units and accumulator is kl.f32 and wanted.algorithm in ("auto", "matrix")


def _kinds(a: Form, b: Form, **others: Form | None) -> tuple[DType, DType]:
    """The dtype of the operands, and of the result and what is added to it."""
    kinds = _RESULTS.get(dtype(a.dtype))
    if kinds is None:
        kind = common_dtype("gemm", _DTYPES, a=a, b=b, **others)
        return kind, kind
    kind = common_dtype("gemm", _DTYPES, a=a, b=b)
    if any(x is not None for x in others.values()):
        return kind, common_dtype(f"gemm of {kind.name}", kinds, **others)
    return kind, kinds[0]


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


def _check_addend(name: str, x: Form | None, shape: tuple[int, ...]) -> None:
    if x is not None and not (x.shape and broadcasts_to(x.shape, shape)):
        raise ShapeError(f"gemm: {name} of shape {x.shape} does not broadcast to {shape}")


def _accumulator(kind: DType, wanted: DType | None) -> DType:
    default = kind.register
    if wanted in (None, default) or wanted is kind is kl.f16:
        return default
    if kind is kl.i8:
        raise DTypeError(f"accumulate={wanted.name} for int8: gemm sums in int32")
    if wanted not in (kl.f32, kl.f64) or wanted.itemsize < default.itemsize:
        raise DTypeError(
            f"accumulate={wanted.name} for {kind.name}: gemm sums in {default.name}"
            + (" or float64" if default is not kl.f64 else "")
        )
    return wanted
