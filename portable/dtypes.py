"""The element types that arrays hold, and the register types that kernels compute in."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.errors import DTypeError

_NOT_NUMPYS: Final = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Types that NumPy has from ``ml_dtypes``, and their bytes."""


def _numpy_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name; bare bytes for what ``ml_dtypes`` has, where that is not."""
    if name not in _NOT_NUMPYS:
        return np.dtype(name)
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return np.dtype(f"V{_NOT_NUMPYS[name]}")
    numpy_type: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return numpy_type


class DType:
    """One element type, of which there is one object; it also equals NumPy's, and names of both.

    Attributes
    ----------
    name : str
        The Array API's name, such as ``"float32"``.
    short : str
        The short name used in messages and generated names, such as ``"f32"``.
    kind : str
        ``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` real floating, ``"c"`` complex.
    itemsize : int
        Bytes per element in memory.
    numpy : numpy.dtype
        The NumPy dtype of the same memory format.
    """

    __slots__ = ("itemsize", "kind", "name", "numpy", "short")

    def __init__(self, name: str, short: str, kind: str) -> None:
        self.name: Final = name
        self.short: Final = short
        self.kind: Final = kind
        self.numpy: Final[np.dtype[Any]] = _numpy_of(name)
        self.itemsize: Final = self.numpy.itemsize

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's, under the name by which ``numpy.dtype`` asks for it."""
        return self.numpy

    @property
    def bits(self) -> int:
        """Width in bits."""
        return 8 * self.itemsize

    @property
    def is_float(self) -> bool:
        """Whether this is a real floating-point type."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type."""
        return self.kind in "iu"

    @property
    def is_complex(self) -> bool:
        """Whether this is a complex type."""
        return self.kind == "c"

    @property
    def real(self) -> DType:
        """The type of one component: ``float32`` of ``complex64``; the type itself if real."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def register(self) -> DType:
        """The type a kernel computes in after loading this one (`float16` loads as `float32`)."""
        return {
            "int8": int32,
            "int16": int32,
            "uint8": uint32,
            "uint16": uint32,
            "float16": float32,
            "bfloat16": float32,
            "float8_e4m3fn": float32,
            "float8_e5m2": float32,
        }.get(self.name, self)

    def __call__(self, x: Any) -> Any:
        """`x` converted: in kernels a value of the register type, elsewhere a NumPy scalar."""
        return self.numpy.type(x)

    def __eq__(self, other: object) -> bool:
        """Whether it is the type that is meant, as ``x.dtype == np.float32`` asks of NumPy's."""
        if isinstance(other, np.dtype | type | str):
            try:
                return dtype(other) is self
            except DTypeError:
                return False
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.short

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype, (self.name,))


bool_: Final = DType("bool", "bool", "b")
int8: Final = DType("int8", "i8", "i")
int16: Final = DType("int16", "i16", "i")
int32: Final = DType("int32", "i32", "i")
int64: Final = DType("int64", "i64", "i")
uint8: Final = DType("uint8", "u8", "u")
uint16: Final = DType("uint16", "u16", "u")
uint32: Final = DType("uint32", "u32", "u")
uint64: Final = DType("uint64", "u64", "u")
float16: Final = DType("float16", "f16", "f")
float32: Final = DType("float32", "f32", "f")
float64: Final = DType("float64", "f64", "f")
bfloat16: Final = DType("bfloat16", "bf16", "f")
"""The upper half of ``float32``. Kernels load, store and multiply it; it is none of the Array API's
types. NumPy has it from ``ml_dtypes``."""

float8_e4m3fn: Final = DType("float8_e4m3fn", "f8e4m3", "f")
"""Four bits of exponent, three of fraction, up to 448; infinities become NaN. As `bfloat16` in
kernels."""

float8_e5m2: Final = DType("float8_e5m2", "f8e5m2", "f")
"""The upper half of ``float16``: five bits of exponent, two of fraction, up to 57344."""

NARROW: Final = (bfloat16, float8_e4m3fn, float8_e5m2)
"""Floats that NumPy has from ``ml_dtypes``."""

complex64: Final = DType("complex64", "c64", "c")
complex128: Final = DType("complex128", "c128", "c")

__all__ = [
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip
ALL: Final = (bool_, *(globals()[name] for name in __all__))
"""The types of the Array API: numbers have these names in `portable` and `portable.array` too."""

_BY_NAME: Final[dict[str, DType]] = {d.name: d for d in ALL} | {d.short: d for d in ALL}
for _kind in NARROW:
    if _kind.numpy.name == _kind.name:
        _BY_NAME.update({_kind.name: _kind, _kind.short: _kind})

_TO_NUMPY: Final = {"i8": "int64", "u8": "uint64"}
"""Short names that NumPy counts in bytes, and so means other types by."""

_BY_NUMPY: Final[dict[Any, DType]] = {d.numpy: d for d in (*ALL, *set(_BY_NAME.values()))}


def dtype(spec: object) -> DType:
    """The `DType` that a name, a NumPy dtype, a NumPy scalar type or another library's dtype means.

    Parameters
    ----------
    spec : DType, str, numpy.dtype, type or object
        ``"float32"``, ``"f32"``, ``numpy.float32``, ``numpy.dtype("f4")``, or any object whose
        string ends in such a name (``torch.float32``).

    Raises
    ------
    DTypeError
        If it names none of these types; structured, object and byte-swapped dtypes do not. For
        ``"i8"`` and ``"u8"``, which are other types to NumPy.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _TO_NUMPY:
        raise DTypeError(
            f"{spec!r} is {_TO_NUMPY[spec]} to NumPy and {_BY_NAME[spec].name} in kernels; write "
            "the one that you mean"
        )
    try:
        if isinstance(spec, np.dtype):
            result = _BY_NUMPY.get(spec)
        else:
            result = _BY_NAME.get(str(spec).rpartition(".")[2])
        if result is None:
            result = _BY_NUMPY.get(np.dtype(spec))  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):
        result = None
    if result is None:
        known = ", ".join(dict.fromkeys(d.name for d in _BY_NAME.values()))
        lacking = next((name for name in _NOT_NUMPYS if name in str(spec)), None)
        hint = f"; for {lacking}, pip install ml_dtypes" if lacking else ""
        if isinstance(spec, np.dtype) and not spec.isnative:
            hint = "; x.astype(x.dtype.newbyteorder('=')) has the bytes in this machine's order"
        raise DTypeError(f"{spec!r} is no supported dtype; supported are {known}{hint}")
    return result


def named_in_kernels(name: str) -> DType:
    """What a name means where kernels are spoken of: ``i8`` has eight bits, as ``kl.i8``.

    Raises
    ------
    DTypeError
        As `dtype`.
    """
    return _BY_NAME.get(name) or dtype(name)
