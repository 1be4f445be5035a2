"""The data type functions of the Array API, and what its namespace says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portable import dtypes, registry
from portable.array.base.defaults import default_dtype, device_for, is_ours
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import DTypeError
from portable.primitives.base.operands import KINDS, in_single, kind_of, promoted
from portable.primitives.base.storage import Storage
from portable.primitives.maps.work import common_type

__all__ = ["__array_namespace_info__", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


def _given(x: Any) -> DType:
    return x.dtype if isinstance(x, Storage) else dtypes.dtype(x)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion alone converts an array or dtype to a dtype.

    Parameters
    ----------
    from_ : Array or dtype
        What is to be converted.
    to : dtype
        What to.

    Returns
    -------
    bool
        False where values might be lost, and where the two have no common dtype.
    """
    source, target = _given(from_), dtypes.dtype(to)
    try:
        return promoted(source, target) is target
    except DTypeError:
        return False


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a name, a dtype, or a tuple of them.

    Parameters
    ----------
    dtype : dtype
        Which is asked about.
    kind : str, dtype or tuple of them
        Such as ``"real floating"``.

    Raises
    ------
    ValueError
        For a name that the standard does not have.
    """
    result = dtypes.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(result, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of dtype; there are {', '.join(KINDS)}")
        return result.kind in KINDS[kind]
    return result is dtypes.dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers give together.

    Parameters
    ----------
    *arrays_and_dtypes : Array, dtype, bool, int, float or complex
        Numbers have a kind alone, and leave the width to the others.

    Returns
    -------
    DType
        A single-precision one where an array is on a device without double precision.

    Raises
    ------
    ValueError
        If there are numbers alone.
    DTypeError
        If they have no common dtype.
    """
    operands: list[DType | str] = []
    for x in arrays_and_dtypes:
        plain = isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic)
        operands.append(kind_of(x) if plain else _given(x))
    if not any(isinstance(x, DType) for x in operands):
        raise ValueError("result_type needs at least one array or dtype")
    common = common_type(operands)
    arrays = [x for x in arrays_and_dtypes if isinstance(x, Storage)]
    double = all(x.device.capabilities.float64 for x in arrays)
    return common if double else in_single(common)


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point dtype, or of the parts of a complex one.

    Parameters
    ----------
    type : Array or dtype
        Of floating-point or complex numbers.

    Returns
    -------
    FloatInfo
        `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`.

    Raises
    ------
    DTypeError
        For other dtypes.
    """
    kind = _given(type).real
    if not kind.is_float:
        raise DTypeError(f"finfo takes floating-point dtypes, not {kind.name}")
    info = np.finfo(kind.numpy)
    return FloatInfo(
        kind.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        kind,
    )


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype.

    Parameters
    ----------
    type : Array or dtype
        Of integers.

    Returns
    -------
    IntegerInfo
        `bits`, `max`, `min` and `dtype`.

    Raises
    ------
    DTypeError
        For other dtypes.
    """
    kind = _given(type)
    if not kind.is_integer:
        raise DTypeError(f"iinfo takes integer dtypes, not {kind.name}")
    info = np.iinfo(kind.numpy)
    return IntegerInfo(kind.bits, int(info.max), int(info.min), kind)


class Information:
    """What a namespace supports."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on data work.

        No function limits the number of dimensions, but the host does, where NumPy takes 64.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The default device of creation functions."""
        return device_for(None)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that creation functions use; single precision where a device lacks double."""
        target = device_for(device)
        return {
            "real floating": default_dtype(target, "f"),
            "complex floating": default_dtype(target, "c"),
            "integral": default_dtype(target, "i"),
            "indexing": default_dtype(target, "i"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that a device has, of a kind if one is named."""
        target = device_for(device)
        double = target.capabilities.float64
        by_name = {
            d.name: d
            for d in dtypes.ALL
            if d is not dtypes.float16 and (double or d.real is not dtypes.float64)
        }
        return {n: d for n, d in by_name.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> tuple[Device, ...]:
        """Every device whose arrays these are."""
        listed = (d.for_arrays() for d in (*registry.devices(), *registry.asked_for()))
        return tuple(dict.fromkeys(d for d in listed if is_ours(d)))


def __array_namespace_info__() -> Information:  # noqa: N807  (the standard's name)
    """What this namespace supports."""
    return Information()
