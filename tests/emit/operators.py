"""The scalar operations that tests run on devices, each with its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable import dtypes as dt
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Vector, lanes_of
from tests.support import irbuilder as ir

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operation:
    """An operation on operands of one type."""

    name: str
    kind: dt.DType
    arity: int
    make: Callable[..., e.Expression]
    numpy: Callable[..., Values]
    ulp: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}-{self.kind.short}"


SPECIALS: dict[str, list[float]] = {
    "i32": [0, 1, -1, 2, -2, 7, -7, 31, 32, 33, 2**31 - 1, -(2**31), -(2**31) + 1, 65536, 12345],
    "u32": [0, 1, 2, 7, 31, 32, 33, 2**31, 2**32 - 1, 65536, 12345],
    "i64": [0, 1, -1, 2, -2, 7, -7, 63, 64, 65, 2**63 - 1, -(2**63), 2**32, -(2**31), 12345],
    "u64": [0, 1, 2, 7, 63, 64, 65, 2**63, 2**64 - 1, 2**32, 12345],
}
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 1e-3, 123456.78, 2.0**31]
_FLOATS += [-(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan]
SPECIALS |= {"f32": _FLOATS, "f64": _FLOATS}


def _floordiv(x: Values, y: Values) -> Values:
    if x.dtype.kind == "f":
        return np.floor_divide(x, y)
    zero = y == 0
    return np.where(zero, 0, np.floor_divide(x, np.where(zero, 1, y))).astype(x.dtype)


def _mod(x: Values, y: Values) -> Values:
    if x.dtype.kind == "f":
        return np.remainder(x, y)
    zero = y == 0
    return np.where(zero, 0, np.remainder(x, np.where(zero, 1, y))).astype(x.dtype)


def _shift(op: Callable[..., Values]) -> Callable[..., Values]:
    def apply(x: Values, y: Values) -> Values:
        return op(x, y & y.dtype.type(8 * y.itemsize - 1))

    return apply


_BINARY: dict[str, tuple[str, Callable[..., Values]]] = {
    "add": ("iuf", np.add),
    "sub": ("iuf", np.subtract),
    "mul": ("iuf", np.multiply),
    "div": ("f", np.divide),
    "floordiv": ("iuf", _floordiv),
    "mod": ("iuf", _mod),
    "and": ("iu", np.bitwise_and),
    "or": ("iu", np.bitwise_or),
    "xor": ("iu", np.bitwise_xor),
    "shl": ("iu", _shift(np.left_shift)),
    "shr": ("iu", _shift(np.right_shift)),
    "min": ("iuf", np.minimum),
    "max": ("iuf", np.maximum),
}
_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_KINDS = (dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float32, dt.float64)


def _cast(target: dt.DType) -> Callable[[Values], Values]:
    def apply(x: Values) -> Values:
        if target.kind == "b":
            return x != 0
        if x.dtype.kind != "f" or target.is_float:
            return x.astype(target.numpy)
        info = np.iinfo(target.numpy)
        out = [
            0 if v != v else max(info.min, min(info.max, int(v) if abs(v) < np.inf else v))
            for v in x.tolist()
        ]
        return np.array([info.max if v == np.inf else info.min if v == -np.inf else v for v in out],
                        target.numpy)  # fmt: skip

    return apply


def _binaries() -> list[Operation]:
    found = []
    for op, (kinds, function) in _BINARY.items():
        for kind in _KINDS:
            if kind.kind in kinds:
                ulp = 2.5 if op == "div" and kind is dt.float32 else 0.0
                if op == "floordiv" and kind.is_float:
                    ulp = 0.0
                make = lambda x, y, op=op: e.Binary(op, x, y)  # noqa: E731
                found.append(Operation(op, kind, 2, make, function, ulp))
    for op, compare in _COMPARE.items():
        for kind in _KINDS:
            make = lambda x, y, op=op: e.Compare(op, x, y)  # noqa: E731
            found.append(Operation(op, kind, 2, make, compare))
    return found


def _unaries() -> list[Operation]:
    found = []
    for kind in _KINDS:
        make = lambda x: e.Unary("neg", x)  # noqa: E731
        found.append(Operation("neg", kind, 1, make, np.negative))
        if kind.is_integer:
            make = lambda x: e.Unary("invert", x)  # noqa: E731
            found.append(Operation("invert", kind, 1, make, np.invert))
    return found


def _casts() -> list[Operation]:
    found = []
    for kind in _KINDS:
        for target in (*_KINDS, dt.bool_):
            if target is not kind:
                make = lambda x, t=target: e.Cast(x, t)  # noqa: E731
                found.append(Operation(f"to_{target.short}", kind, 1, make, _cast(target)))
    for storage in (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.float16):
        kind = storage.register
        make = lambda x, k=kind, s=storage: e.Cast(x, k, s)  # noqa: E731
        narrow = lambda x, s=storage: x.astype(s.numpy).astype(x.dtype)  # noqa: E731
        found.append(Operation(f"as_{storage.short}", kind, 1, make, narrow))
    for a, b in ((dt.int32, dt.float32), (dt.float64, dt.uint64), (dt.int64, dt.uint64)):
        make = lambda x, b=b: e.Bitcast(x, b)  # noqa: E731
        found.append(Operation(f"bits_{b.short}", a, 1, make, lambda x, b=b: x.view(b.numpy)))
    return found


def _calls() -> list[Operation]:
    found = []
    for function in FUNCTIONS.values():
        for kind in _KINDS:
            if kind.kind not in function.kinds:
                continue
            result = dt.bool_ if function.result == "bool" else kind
            make = lambda *x, f=function, r=result: e.Call(f.name, x, r)  # noqa: E731
            ulp = function.ulp64 if kind is dt.float64 else function.ulp32
            found.append(Operation(function.name, kind, function.arity, make, function.numpy, ulp))
    return found


OPERATIONS = [*_binaries(), *_unaries(), *_casts(), *_calls()]


def operation_kernel(operation: Operation, lanes: int = 1, workgroup: int = 1) -> Kernel:
    """``out[i] = operation(x[i], ...)``, by scalars or by vectors of `lanes`."""
    return operations_kernel((operation,), lanes, workgroup)


def operations_kernel(
    operations: Sequence[Operation], lanes: int = 1, workgroup: int = 1
) -> Kernel:
    """Likewise of several operations on the same operands, each with an array of results."""
    first = operations[0]
    names = "xyz"[: first.arity]
    arrays = [ir.array(name, first.kind) for name in names]
    kind = first.kind if lanes == 1 else Vector(first.kind, lanes)
    values = [ir.var(f"{name}v", kind) for name in names]
    at = ir.mul(ir.gid(), lanes) if lanes > 1 else ir.gid()
    body: list[s.Statement] = [
        s.Load(v, a, (at,), ir.LOC) for v, a in zip(values, arrays, strict=True)
    ]
    for number, operation in enumerate(operations):
        result = _of_lanes(operation.make(*values), lanes)
        scalar = result.type.dtype if isinstance(result.type, Vector) else result.type
        out = ir.array(f"out{number}", scalar)
        assert lanes_of(result.type) == lanes
        arrays.append(out)
        body.append(s.Store(out, (at,), result, ir.LOC))
    return ir.kernel(arrays, body, workgroup=(workgroup, 1, 1), options=Options(contract=False))


def _of_lanes(result: e.Expression, lanes: int) -> e.Expression:
    """An operation that was given vectors, of a type for as many lanes."""
    if lanes == 1 or not isinstance(result, e.Cast | e.Bitcast | e.Call):
        return result
    scalar: Any = result.type
    return type(result)(*(
        Vector(scalar, lanes) if name == "type" else getattr(result, name)
        for name in result.__dataclass_fields__
    ))  # fmt: skip
