"""The parameters of a kernel that a search may choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from portable.backend import Capabilities
from portable.dtypes import DType

__all__ = ["Parameters", "Space"]

Parameters = Mapping[str, Any]
"""A value for each parameter of a space."""


@dataclass(frozen=True)
class Space:
    """Everything that may be tuned of one kernel, declared in one place.

    Attributes
    ----------
    kernel : str
        The name in tables and on the command line.
    values : mapping of str to tuple
        Per parameter its possible values.
    fits : callable
        Whether a choice makes sense for a dtype on a device: enough local memory, whole tiles, ...
    """

    kernel: str
    values: Mapping[str, tuple[Any, ...]]
    fits: Callable[[Parameters, DType, Capabilities], bool]

    def choices(self, dtype: DType, capabilities: Capabilities) -> Iterator[dict[str, Any]]:
        """Every choice that fits, in a fixed order."""
        names = tuple(self.values)
        for values in product(*self.values.values()):
            choice = dict(zip(names, values, strict=True))
            if self.fits(choice, dtype, capabilities):
                yield choice
