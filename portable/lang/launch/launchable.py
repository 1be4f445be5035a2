"""The interface of kernels: compiled here, or read from a package, and launched over an ndrange.

A kernel may be a method of a struct, which is then its first argument: ``points.shift[n](2.0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.errors import LaunchError
from portable.lang.ir.kernel import Options
from portable.lang.launch.definition import Definition, Parameters
from portable.lang.launch.geometry import Groups, sizes
from portable.lang.launch.launch import Launcher
from portable.lang.launch.plan import Lowered

_MAX_LAUNCHERS: Final = 4096


class Launchable(Definition):
    """``kernel[ndrange, workgroup](*arguments, **constants)`` launches it; safe under threads."""

    def __init__(self, options: Options, parameters: Parameters) -> None:
        super().__init__(options, parameters)
        self._launchers: dict[Any, Launcher] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raises: a kernel is launched over an ndrange."""
        raise LaunchError(
            f"{self.__name__} is a kernel: give its ndrange, and its workgroup if you like, as in "
            f"{self.__name__}[n, 256](...)"
        )

    def __get__(self, owner: Any, kind: type | None = None) -> Launchable | BoundKernel:
        """As a method, whose first parameter is named ``self``: the kernel of that struct."""
        is_method = self.parameters.positional[:1] == ("self",)
        return self if owner is None or not is_method else BoundKernel(self, owner)

    def __getitem__(self, key: Any) -> Launcher:
        """The kernel over an ndrange: ``[n]``, ``[n, 256]``, ``[(n, m), (16, 16)]``.

        Two entries are always the ndrange and the workgroup, so that ``[(n, m)]``, which Python
        cannot tell from ``[n, m]``, is written ``[(n, m), None]``. Dimension 0, the fastest, comes
        first.
        """
        try:
            launcher = self._launchers.get(key)
        except TypeError:
            raise LaunchError(
                f"the ndrange and workgroup are {key!r}, which is not hashable; write tuples"
            ) from None
        if launcher is None:
            if len(self._launchers) >= _MAX_LAUNCHERS:
                self._launchers.clear()
            launcher = self._launchers[key] = self._launcher(key)
        return launcher

    def _launcher(self, key: Any) -> Launcher:
        pair = key if isinstance(key, tuple) else (key, None)
        if len(pair) != 2:
            raise LaunchError(
                f"{self.__name__}[{key!r}] is ambiguous: write {self.__name__}[n], or "
                f"{self.__name__}[(n, m, k), (8, 8, 4)], or [(n, m, k), None] for the default "
                "workgroup"
            )
        given, workgroup = pair
        flat = not isinstance(given, tuple | list | Groups)
        ndrange = given if isinstance(given, Groups) else sizes(given, "the ndrange")
        local = None if workgroup is None else sizes(workgroup, "the workgroup")
        if flat and local is not None and local[1:] != (1, 1):
            raise LaunchError(
                f"the ndrange is {given} and the workgroup {workgroup}, of more dimensions: write "
                f"{self.__name__}[(n, m), {workgroup}]"
            )
        return Launcher(self, ndrange, local, flat=flat)


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
