"""How images are convolved: what all calls have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any, Final, Literal, TypedDict, Unpack, get_args

from portable.conv.geometry import Layout, Padding, Pair, padding_of, pair

Algorithm = Literal[
    "auto", "winograd2", "winograd3", "winograd4", "winograd5", "winograd6", "direct", "vendor"
]

ALGORITHMS: Final = get_args(Algorithm)
"""What ``algorithm=`` takes."""

Precision = Literal["usual", "full", "tf32"]

_PRECISIONS: Final = get_args(Precision)
_LAYOUTS: Final = ("NCHW", "NHWC")


class Options(TypedDict, total=False):
    """Keyword arguments of `conv2d` and its gradients, where they are documented."""

    stride: int | Pair
    padding: int | Padding
    dilation: int | Pair
    groups: int
    layout: Layout
    algorithm: Algorithm
    precision: Precision


@dataclass(frozen=True, slots=True)
class Settings:
    """`Options`, checked."""

    stride: Pair
    padding: Padding
    dilation: Pair
    groups: int
    layout: Layout
    algorithm: Algorithm
    precision: Precision = "usual"


def settings(**options: Unpack[Options]) -> Settings:
    """Checks options.

    Parameters
    ----------
    stride, padding, dilation, groups, layout, algorithm, precision
        As of `portable.conv.conv2d`.

    Raises
    ------
    ValueError
        For those out of range.
    TypeError
        For others.
    """
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"convolutions have no setting {', '.join(unknown)}; they have {known}")
    try:
        return _settings(**options)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    return _settings.__wrapped__(**options)


@lru_cache(maxsize=1024, typed=True)
def _settings(
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    layout: Any = "NCHW",
    algorithm: Any = "auto",
    precision: Any = "usual",
) -> Settings:
    if layout not in _LAYOUTS:
        raise ValueError(f"layout={layout!r}; conv2d knows 'NCHW' and 'NHWC'")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r}; conv2d has {', '.join(ALGORITHMS)}")
    if precision not in _PRECISIONS:
        raise ValueError(f"precision={precision!r}; conv2d has {', '.join(_PRECISIONS)}")
    if precision != "usual":
        if algorithm.startswith("winograd"):
            raise ValueError(
                f"algorithm={algorithm!r} with precision={precision!r}: its errors are those of "
                'whole tiles; use "direct" or "auto"'
            )
        algorithm = "direct" if algorithm == "auto" else algorithm
    return Settings(
        pair("stride", stride, 1),
        padding_of(padding),
        pair("dilation", dilation, 1),
        _whole("groups", groups),
        layout,
        algorithm,
        precision,
    )


def _whole(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: it takes an integer from 1 on") from None
