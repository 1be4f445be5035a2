"""The Array API namespace bound to a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from portable import registry
from portable.absent_names import absent, is_hidden
from portable.backend import Device, bytes_of

__all__ = ["BoundInformation", "BoundNamespace", "xp"]

_CREATION = frozenset(
    {
        "arange",
        "asarray",
        "empty",
        "eye",
        "from_dlpack",
        "full",
        "linspace",
        "ones",
        "zeros",
    }
)
_SHAPED = frozenset({"empty", "full", "ones", "zeros"})
_CREATION_OF_FREQUENCIES = frozenset({"fftfreq", "rfftfreq"})
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_OF_TUPLES = "2025.12"
"""Since which version functions give tuples of arrays, not lists."""

_ABSENT = object()


class _Bound:
    """A namespace, or a part of one, some functions of which make arrays of one device."""

    def __init__(
        self, device: Device, namespace: Any, creation: frozenset[str], prefix: str = "xp"
    ) -> None:
        self._device = device
        self._prefix = prefix
        self._namespace = namespace
        self._creation = creation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(self._namespace, name)
        attribute: Any = getattr(self._namespace, name, _ABSENT)
        if attribute is _ABSENT or is_hidden(attribute, name):
            raise absent(self._namespace, name, self._prefix)
        if name in self._creation:
            attribute = _bound(attribute, self._device)
            setattr(self, name, attribute)
        return attribute

    def __dir__(self) -> list[str]:
        names = (n for n in dir(self._namespace) if not n.startswith("_") or n.startswith("__"))
        return [n for n in names if not is_hidden(getattr(self._namespace, n, None), n)]

    def __repr__(self) -> str:
        return f"<Array API namespace of {self._device.name}>"


class BoundNamespace(_Bound):
    """An Array API namespace whose creation functions use one device unless told otherwise.

    Parameters
    ----------
    device : Device
        The device; everything but creation is its namespace's own.
    api_version : str, optional
        Of the standard; by default the latest that the namespace follows.
    """

    def __init__(self, device: Device, api_version: str | None = None) -> None:
        super().__init__(device, device.namespace(), _CREATION)
        self._gives_lists = api_version is not None and api_version < _OF_TUPLES
        if api_version is not None:
            self.__array_api_version__ = _checked_version(self._namespace, api_version)
        if self._gives_lists:
            for name in ("meshgrid", "broadcast_arrays"):
                setattr(self, name, _in_list(getattr(self._namespace, name)))

    @cached_property
    def fft(self) -> Any:
        """The extension of that name, which makes frequencies on the device."""
        return _Bound(self._device, self._namespace.fft, _CREATION_OF_FREQUENCIES, "xp.fft")

    @cached_property
    def linalg(self) -> Any:
        """The extension of that name."""
        return _Bound(self._device, self._namespace.linalg, frozenset(), "xp.linalg")

    def __array_namespace_info__(self) -> BoundInformation:
        """What the namespace supports on the device."""
        said = self._namespace.__array_namespace_info__()
        return BoundInformation(self._device, said, list if self._gives_lists else None)


class BoundInformation:
    """What a namespace says of itself, and of one device unless told otherwise.

    Parameters
    ----------
    device : Device
        The device.
    information : object
        What its namespace says; in libraries that name no devices to creation functions it stands.
    several : callable, optional
        What `devices` gives: ``list`` in versions of the standard before 2025.12; by default what
        the namespace gives.
    """

    def __init__(
        self, device: Device, information: Any, several: Callable[..., Any] | None = None
    ) -> None:
        self._own = device.creation_arguments().get("device")
        self._information = information
        self._several = several

    def __getattr__(self, name: str) -> Any:
        return getattr(self._information, name)

    def devices(self) -> Any:
        """All devices of the namespace."""
        devices = self._information.devices()
        return self._several(devices) if self._several else devices

    def default_device(self) -> Any:
        """The device that creation functions use unless told otherwise."""
        return self._information.default_device() if self._own is None else self._own

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that creation functions use."""
        chosen = self._own if device is None else device
        return self._information.default_dtypes(device=chosen)  # type: ignore[no-any-return]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes that a device has, of a kind if one is named."""
        chosen = self._own if device is None else device
        return self._information.dtypes(device=chosen, kind=kind)  # type: ignore[no-any-return]


def _checked_version(namespace: Any, wanted: str) -> str:
    """A version of the standard that a namespace follows.

    Raises
    ------
    ValueError
        For one that it does not.
    """
    latest = namespace.__array_api_version__
    known = [version for version in _VERSIONS if version <= latest]
    if wanted not in known:
        raise ValueError(f"Array API {wanted!r} is not known here; these are: {', '.join(known)}")
    return wanted


def _in_list(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function whose arrays come in a list, as they did in earlier versions of the standard."""

    @wraps(function)
    def listing(*args: Any, **kwargs: Any) -> list[Any]:
        return list(function(*args, **kwargs))

    return listing


def _refuse_huge(shape: Any) -> None:
    """Refuses shapes beyond any memory; libraries answer what is no shape."""
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    if all(isinstance(extent, int) for extent in extents):
        bytes_of(extents, 1)


def _bound(create: Callable[..., Any], device: Device) -> Callable[..., Any]:
    """`create` with the device's own arguments, unless the caller names a device."""
    shaped = getattr(create, "__name__", "") in _SHAPED

    @wraps(create)
    def on_this_device(*args: Any, **kwargs: Any) -> Any:
        if shaped:
            _refuse_huge(args[0] if args else kwargs.get("shape"))
        if kwargs.get("device") is not None:
            return create(*args, **kwargs)
        kwargs.pop("device", None)
        with device.stream_scope():
            return create(*args, **(device.creation_arguments() | kwargs))

    return on_this_device


def xp(device: str | Device | None = None, *, api_version: str | None = None) -> BoundNamespace:
    """The Array API namespace of a device (None: the one in use), creating arrays there.

    Parameters
    ----------
    device : str, Device or None
        Where arrays are to be; None means the device in use.
    api_version : str, optional
        The standard's version, such as ``"2024.12"``; by default the latest one there. Before
        2025.12, functions that give several arrays give them in lists.

    Raises
    ------
    ValueError
        For a version that the device's arrays do not follow.

    Examples
    --------
    >>> xp = portable.xp("cpu")  # doctest: +SKIP
    >>> x = xp.ones((3, 4))  # doctest: +SKIP
    """
    bound = registry.device(device).for_arrays()
    registry.given_work(bound)
    return BoundNamespace(bound, api_version)
