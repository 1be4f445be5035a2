"""The element-wise operations of the Array API, by name."""

from __future__ import annotations

from typing import Final

from portable import lang as kl
from portable.array.base import real_operations as r
from portable.dtypes import float64
from portable.primitives.maps.operation import Operation

OPERATIONS: Final[dict[str, Operation]] = {
    x.name: x
    for x in (
        Operation("abs", "iufc", kl.abs, result="real"),
        Operation("acos", "fc", kl.acos),
        Operation("acosh", "fc", kl.acosh),
        Operation("asin", "fc", kl.asin),
        Operation("asinh", "fc", kl.asinh),
        Operation("atan", "fc", kl.atan),
        Operation("atanh", "fc", kl.atanh),
        Operation("bitwise_invert", "biu", kl.bitwise_invert),
        Operation("ceil", "iuf", kl.ceil, kl.positive),
        Operation("conj", "iufc", kl.conj),
        Operation("cos", "fc", kl.cos),
        Operation("cosh", "fc", kl.cosh),
        Operation("exp", "fc", kl.exp),
        Operation("expm1", "fc", kl.expm1),
        Operation("floor", "iuf", kl.floor, kl.positive),
        Operation("isfinite", "iufc", kl.isfinite, r.same, result="bool"),
        Operation("isinf", "iufc", kl.isinf, r.unequal_to_itself, result="bool"),
        Operation("isnan", "iufc", kl.isnan, r.unequal_to_itself, result="bool"),
        Operation("log", "fc", kl.log),
        Operation("log1p", "fc", kl.log1p),
        Operation("log2", "fc", kl.log2),
        Operation("log10", "fc", kl.log10),
        Operation("logical_not", "b", kl.logical_not),
        Operation("negative", "iufc", kl.negative),
        Operation("positive", "iufc", kl.positive),
        Operation("reciprocal", "fc", kl.reciprocal, floats=None),
        Operation("round", "iufc", kl.round),
        Operation("sign", "iufc", kl.sign),
        Operation("signbit", "f", kl.signbit, result="bool"),
        Operation("sin", "fc", kl.sin),
        Operation("sinh", "fc", kl.sinh),
        Operation("sqrt", "fc", kl.sqrt),
        Operation("square", "iufc", kl.square),
        Operation("tan", "fc", kl.tan),
        Operation("tanh", "fc", r.bounded_tanh),
        Operation("trunc", "iuf", kl.trunc, kl.positive),
        Operation("add", "iufc", kl.add),
        Operation("atan2", "f", kl.atan2),
        Operation("bitwise_and", "biu", kl.bitwise_and),
        Operation("bitwise_left_shift", "iu", r.shifted_left),
        Operation("bitwise_or", "biu", kl.bitwise_or),
        Operation("bitwise_right_shift", "iu", r.shifted_right),
        Operation("bitwise_xor", "biu", kl.bitwise_xor),
        Operation("copysign", "f", kl.copysign),
        Operation("divide", "fc", kl.divide, floats=float64),
        Operation("equal", "biufc", kl.equal, result="bool"),
        Operation("floor_divide", "iuf", r.float_floor_divide, kl.floor_divide, alone="iuf"),
        Operation("greater", "iuf", kl.greater, result="bool"),
        Operation("greater_equal", "iuf", kl.greater_equal, result="bool"),
        Operation("hypot", "f", kl.hypot),
        Operation("less", "iuf", kl.less, result="bool"),
        Operation("less_equal", "iuf", kl.less_equal, result="bool"),
        Operation("logaddexp", "f", kl.logaddexp),
        Operation("logical_and", "b", kl.logical_and),
        Operation("logical_or", "b", kl.logical_or),
        Operation("logical_xor", "b", kl.logical_xor),
        Operation("maximum", "iuf", kl.maximum),
        Operation("minimum", "iuf", kl.minimum),
        Operation("multiply", "iufc", kl.multiply),
        Operation("nextafter", "f", kl.nextafter, half=r.half_nextafter, alone="f"),
        Operation("not_equal", "biufc", kl.not_equal, result="bool"),
        Operation("pow", "iufc", kl.pow, r.integer_power, alone="iu"),
        Operation("remainder", "iuf", r.float_remainder, kl.remainder, alone="iuf"),
        Operation("subtract", "iufc", kl.subtract),
    )
}

OF_UFUNCS: Final = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}
"""What operations are called of NumPy's element-wise functions that have other names."""
