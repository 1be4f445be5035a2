"""What the table of tuned parameters says of a device, in the form in which plans ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from portable.backend import Capabilities
from portable.dtypes import float32
from portable.errors import UnsupportedError
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

T = TypeVar("T")


class InUse(Generic[T]):
    """The parameters of a kernel for a device: the first of the table's choices that fits it.

    They are searched with `float32` and hold for every dtype. Where the table says nothing, which
    is so of kernels of other packages before they are tuned, it is the first choice of the space
    that fits.

    Parameters
    ----------
    space : Space
        The kernel's.
    make : callable
        Makes of a choice, for a device with such `Capabilities`, what plans work with.
    """

    def __init__(self, space: Space, make: Callable[[Parameters, Capabilities], T]) -> None:
        self.space: Final = space
        self._make = make
        self._tabled = lru_cache(maxsize=256)(self._looked_up)

    def __call__(self, capabilities: Capabilities) -> T:
        """What the table says of a device."""
        return self._tabled(capabilities, state())

    def _looked_up(self, capabilities: Capabilities, table: Any) -> T:
        """As of one state of the user's table."""
        del table
        space = self.space
        tuned = lookup(space, float32, capabilities)
        fitting = (c for c in tuned if space.fits(c, float32, capabilities))
        choice = next(chain(fitting, space.choices(float32, capabilities)), None)
        if choice is None:
            raise UnsupportedError(
                f"no parameters of {space.kernel} fit {capabilities.name}: its Space's `fits` "
                "refuses every choice"
            )
        return self._make(choice, capabilities)
