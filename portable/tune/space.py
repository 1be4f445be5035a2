"""The parameters of a kernel that a search may choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from portable.backend import Capabilities
from portable.dtypes import DType

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
    left_out : mapping of str to object
        What parameters are that a table's entry does not mention. One that is not among `values`
        is no matter of the search: it takes any whole number from 0.
    """

    kernel: str
    values: Mapping[str, tuple[Any, ...]]
    fits: Callable[[Parameters, DType, Capabilities], bool]
    left_out: Mapping[str, Any] = field(default_factory=dict)

    def choices(self, dtype: DType, capabilities: Capabilities) -> Iterator[dict[str, Any]]:
        """Every choice that fits, in a fixed order."""
        names = tuple(self.values)
        for values in product(*self.values.values()):
            choice = dict(zip(names, values, strict=True))
            if self.fits(choice, dtype, capabilities):
                yield choice

    def checked(self, entry: object) -> Parameters:
        """A table's entry with all its parameters.

        Raises
        ------
        ValueError
            If it lacks one, or has one that the kernel does not know or a value that it does not
            take. Kernels count on values of the space: others may be wrong silently.
        """
        if not isinstance(entry, Mapping):
            raise ValueError(f"is no object but {entry!r:.40}")
        whole = {**self.left_out, **entry}
        missing = [name for name in self.values if name not in whole]
        if missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        for name, value in whole.items():
            self._check(name, value)
        return whole

    def _check(self, name: str, value: object) -> None:
        if name in self.values:
            # 1, 1.0 and True are equal, and each means something else to a kernel.
            if any(type(value) is type(x) and value == x for x in self.values[name]):
                return
            raise ValueError(f"has {name} {value!r:.40}; there are {self._listed(name)}")
        if name not in self.left_out:
            raise ValueError(f"has {name!r:.40}, which {self.kernel} does not know")
        if type(value) is not int or value < 0:
            raise ValueError(f"has {name} {value!r:.40}; expected a whole number from 0")

    def _listed(self, name: str) -> str:
        return ", ".join(map(str, self.values[name]))
