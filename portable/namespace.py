"""Which device and which namespace arrays belong to, and how they get to another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, lru_cache, update_wrapper, wraps
from typing import Any

import numpy as np

from portable import errors, recording, registry
from portable.absent_names import absent, is_hidden
from portable.backend import ArrayView, Device, bytes_of
from portable.dtypes import NARROW, DType, dtype
from portable.interchange import tensors
from portable.profiling import reports

# The Array API namespace bound to a device.

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
        elif self._of_several and callable(attribute) and not isinstance(attribute, type):
            attribute = _OnDevice(attribute, self._device)
            setattr(self, name, attribute)
        return attribute

    @cached_property
    def _of_several(self) -> bool:
        """Whether the library makes results on its current device, which may be another one."""
        if type(self._device).stream_scope is Device.stream_scope:
            return False
        return len(registry.devices_of_backend(self._device.backend)) > 1

    def __dir__(self) -> list[str]:
        names = (n for n in dir(self._namespace) if not n.startswith("_") or n.startswith("__"))
        return [n for n in names if not is_hidden(getattr(self._namespace, n, None), n)]

    def __repr__(self) -> str:
        return f"<Array API namespace of {self._device.name}>"


class BoundNamespace(_Bound):
    """An Array API namespace whose functions make their results on one device.

    Creation functions take another one by name.

    Parameters
    ----------
    device : Device
        The device. Functions other than creation are its namespace's own, called with the device
        as the library's current one where that decides where results are made.
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
                setattr(self, name, _in_list(getattr(self, name)))

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


class _OnDevice:
    """A function of arrays whose results are made on the device, with what else it has."""

    def __init__(self, function: Callable[..., Any], device: Device) -> None:
        update_wrapper(self, function, updated=())
        self._device = device

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._device.stream_scope():
            return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Such as `reduce` and `at` of CuPy's `add`."""
        if name == "__wrapped__":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        attribute = getattr(self.__wrapped__, name)
        return _OnDevice(attribute, self._device) if callable(attribute) else attribute


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
    return namespace_on(bound, api_version)


@lru_cache(maxsize=64)
def namespace_on(device: Device, api_version: str | None = None) -> BoundNamespace:
    """The namespace of a device's own arrays, whose results are made there, always the same one.

    It has bound some functions: to bind one takes microseconds.
    """
    return BoundNamespace(device, api_version)


# -- namespace -------------------------------------------------------------------------------------

_DLPACK_BACKENDS = {1: "cpu", 2: "cuda", 10: "rocm", 13: "cuda", 14: "sycl"}
_HOST_MEMORY = 1
_NUMBERS = (int, float, complex, np.generic)
_SAMPLE = np.empty(0, np.float32)
_candidates: dict[type, tuple[Device, ...]] = {}
_takes_numpy: dict[Device, bool] = {}


def device_of(*arrays: Any) -> Device:
    """The one device to which all `arrays` belong; the device in use where there are none.

    Python's numbers and NumPy's scalars belong to no device. NumPy arrays belong to the device in
    use where that takes them (cpu, simulator), else to cpu; `elsewhere` tells where calls with no
    other arrays run. Arrays of other libraries belong to
    the device whose memory they lie in, which can share it (`on_device`).

    Raises
    ------
    DeviceMismatchError
        If the arrays belong to two devices.
    TypeError
        If something is no array that any device takes.
    """
    device: Device | None = None
    host: Device | None = None
    for array in arrays:
        if isinstance(array, np.ndarray):
            owner = host = host or device_for_numpy()
        elif isinstance(array, _NUMBERS):
            continue
        else:
            owner = _owner(array)
        if device is None:
            device = owner
        elif owner is not device and owner.for_arrays() is not device.for_arrays():
            raise errors.DeviceMismatchError(
                f"arrays of {device.name} and of {owner.name} in one call; move one of them with "
                f"portable.asarray(x, device={device.name!r})"
            )
    return registry.device() if device is None else device


def device_of_arrays(*arrays: Any) -> Device:
    """`device_of` for operands that have to be arrays; TypeError for a number."""
    for array in arrays:
        if isinstance(array, _NUMBERS):
            raise _no_array(array)
    return device_of(*arrays)


def _owner(array: Any) -> Device:
    """The device of an array other than NumPy's."""
    named = getattr(array, "device", None)
    if isinstance(named, Device):  # arrays of Portable's own name theirs
        return named
    kind = type(array)
    candidates = _candidates.get(kind)
    if candidates is None:
        candidates = _candidates[kind] = _devices_for_type(kind)
    for device in candidates:
        if device.owns(array):
            return device
    return _foreign(array)


def device_for_numpy() -> Device:
    """The device that takes NumPy arrays in place: the one in use if it does, else cpu.

    Calls with NumPy's arrays alone run elsewhere, on copies, where that was chosen (`elsewhere`).

    Raises
    ------
    BackendUnavailableError
        If neither is there.
    """
    # Where nothing was chosen no backend of GPUs is loaded to learn that it does not.
    chosen = registry.registry.chosen_device()
    if chosen is None and registry.registry.others:
        chosen = registry.device()
    if chosen is not None and takes_numpys(chosen):
        return chosen
    try:
        return registry.device("cpu")
    except errors.BackendUnavailableError as error:
        current = registry.device()
        if takes_numpys(current):
            return current
        raise errors.BackendUnavailableError(
            f"a NumPy array runs on the processor unless it is moved, for instance with "
            f"portable.asarray(x, device={current.name!r}); {error}"
        ) from None


def elsewhere() -> Device | None:
    """The device that calls with NumPy's arrays alone run on, if it does not take these in place.

    So it is where that device was chosen; None where nothing was, or one that takes them.
    """
    chosen = registry.registry.chosen_device()
    return None if chosen is None or takes_numpys(chosen) else chosen


def takes_numpys(device: Device) -> bool:
    """Whether a device takes NumPy's arrays as they are; asked for at every launch."""
    takes = _takes_numpy.get(device)
    if takes is None:
        takes = _takes_numpy[device] = device.owns(_SAMPLE)
    return takes


def _devices_for_type(kind: type) -> tuple[Device, ...]:
    module = kind.__module__.partition(".")[0]
    names = registry.backends_for(module)
    return tuple(d for name in names for d in registry.devices_of_backend(name))


def _foreign(array: Any) -> Device:
    """The device whose memory another library's array lies in."""
    ask = getattr(array, "__dlpack_device__", None)
    if ask is None:
        raise _no_array(array)
    location = tensors.place_of(array) if tensors.is_tensor(array) else None
    memory, index = location or (int(part) for part in ask())
    return device_for_numpy() if memory == _HOST_MEMORY else device_of_memory(memory, index)


def device_of_memory(memory: int, index: int) -> Device:
    """The device that DLPack gives these numbers; not the host's.

    Raises
    ------
    DeviceError
        If no backend takes memory of that kind.
    """
    backend = _DLPACK_BACKENDS.get(memory)
    if backend is None:
        raise errors.DeviceError(f"no backend takes memory of DLPack's kind {memory}")
    return registry.device(f"{backend}:{index}")


def _no_array(thing: object) -> TypeError:
    kind = type(thing)
    if kind.__module__.partition(".")[0] == "jax":
        return TypeError(
            f"{kind.__name__} of JAX is no array: inside jax.jit, jax.grad and jax.vmap there are "
            "none yet; call this outside, or from a jax.pure_callback"
        )
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return TypeError(
        f"{name} is no array; expected a NumPy, CuPy, dpnp or Portable array, or one that offers "
        "DLPack; portable.asarray(x) makes one of numbers and lists"
    )


def on_device(device: Device, array: Any) -> Any:
    """`array` as one that `device` takes: itself, or a view of the same memory through DLPack.

    Raises
    ------
    DTypeError
        For a dtype that kernels do not know.
    UnsupportedError
        For a PyTorch tensor that records its gradient, or whose memory does not hold what it shows.
    """
    if device.owns(array):
        return array
    kind: DType | None
    if tensors.is_tensor(array):
        kind, array = tensors.dtype_of(array), tensors.plain(array)
    else:
        kind = dtype(array.dtype) if hasattr(array, "dtype") else None
        array = tensors.detached(array) if getattr(array, "requires_grad", False) else array
    if kind in NARROW:  # which DLPack hands to few libraries
        return device.adopt(as_bits(array)).view(kind.numpy)
    return device.adopt(array)


def view_on(device: Device, x: Any) -> ArrayView:
    """How a device sees an array; of NumPy's, which it may not take, what their memory is."""
    if isinstance(x, np.ndarray) and not device.owns(x):
        address = x.__array_interface__["data"][0]
        return ArrayView(x.dtype, x.shape, x.strides, None, address, writable=x.flags.writeable)
    return device.view(on_device(device, x))


def as_bits(array: Any) -> Any:
    """Another library's narrow floats as integers of its own in the same memory."""
    from array_api_compat import array_namespace

    xp = array_namespace(array)
    return array.view(xp.uint8 if dtype(array.dtype).itemsize == 1 else xp.int16)


def asarray(x: Any, *, device: str | Device | None = None) -> Any:
    """`x` as an array of a device, copied there if its memory cannot be shared.

    Parameters
    ----------
    x : array, sequence or number
        What to take.
    device : str, Device or None
        Where to; None means the one that owns `x`, or the device in use for plain Python values.
        The array is one of those that `xp` makes for the device: for the simulator, one of
        `portable.array`.
    """
    target: Device
    if isinstance(x, np.ndarray):  # whether or not kernels can run on the processor
        return x if device is None else recording.through_host(_from_host(_target(device), x), x)
    if not (hasattr(x, "__dlpack_device__") or _is_owned(x)):
        target = registry.device(None) if device is None else _target(device)
        made = np.asarray(x)
        dtype(made.dtype)  # refuses what is made of text, dates or ragged lists
        return _from_host(target, made)
    owner = _owner(x)
    target = owner if device is None else _target(device)
    if target.owns(x):
        return x
    if target is owner:
        return on_device(target, x)
    return recording.through_host(_from_host(target, owner.to_numpy(on_device(owner, x))), x)


def _target(device: str | Device) -> Device:
    """Where arrays go that are moved to a device."""
    return registry.device(device).for_arrays()


def _is_owned(x: Any) -> bool:
    return isinstance(getattr(x, "device", None), Device) or any(
        device.owns(x) for device in _devices_for_type(type(x))
    )


def _from_host(target: Device, array: np.ndarray[Any, Any]) -> Any:
    if target.owns(array):
        return array
    registry.given_work(target)
    return target.from_numpy(array)


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array with a copy of the contents, once all earlier work on them is done.

    Numbers, which some libraries' reductions give, become arrays without dimensions.
    """
    if isinstance(x, (np.ndarray, *_NUMBERS)):
        return np.array(x, order="C")
    owner = device_of(x)
    held = owner.to_numpy(on_device(owner, x))
    reports.raise_reported(owner)
    return held


def synchronize(device: str | Device | None = None) -> None:
    """Wait for all work enqueued on a device, or on every device.

    Parameters
    ----------
    device : str, Device or None
        Which; None means each device that a kernel was launched on, or arrays were made for by
        `asarray` or `xp`, and the one in use.

    Raises
    ------
    DeviceFaultError
        If earlier work failed; every other device has been waited for then, too.
    CheckError
        If a check that was compiled into a kernel failed (``PORTABLE_CHECK=1``).
    """
    if device is not None:
        _wait_for(registry.device(device))
        return
    with ExitStack() as waits:  # all of which are run, whatever one of them raises
        for each in dict.fromkeys((registry.device(), *registry.at_work())):
            waits.callback(_wait_for, each)


def _wait_for(device: Device) -> None:
    device.synchronize()
    reports.raise_reported(device)
