"""Kernels as methods of structs: ``points.shift[n](2.0)``, the struct being the first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portable.lang.launch import Launcher, Lowered
    from portable.lang.launchable import Launchable

__all__ = ["BoundKernel", "BoundLauncher"]


class BoundKernel:
    """A kernel and the struct that is its ``self``."""

    def __init__(self, kernel: Launchable, owner: Any) -> None:
        self._kernel = kernel
        self._owner = owner

    def __getitem__(self, key: Any) -> BoundLauncher:
        """The kernel over an ndrange, as of a kernel that is no method."""
        return BoundLauncher(self._kernel[key], self._owner)

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Raises: a kernel is launched over an ndrange."""
        self._kernel(*args, **constants)

    def __repr__(self) -> str:
        return f"{self._kernel!r} of {self._owner!r}"


class BoundLauncher:
    """A launcher whose first argument is given."""

    def __init__(self, launcher: Launcher, owner: Any) -> None:
        self._launcher = launcher
        self._owner = owner

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launches the kernel; see `Launcher`."""
        self._launcher(self._owner, *args, **constants)

    def prepare(self, *args: Any, **constants: Any) -> Callable[[], None]:
        """Binds the other arguments, too; see `Launcher.prepare`."""
        return self._launcher.prepare(self._owner, *args, **constants)

    def lower(self, *args: Any, **constants: Any) -> Lowered:
        """What a launch would hand to the device; see `Launcher.lower`."""
        return self._launcher.lower(self._owner, *args, **constants)
