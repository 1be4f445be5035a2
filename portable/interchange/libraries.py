"""Arrays of libraries that are no backend's own (PyTorch's, JAX's), in and out of operations.

An operation marked `takes_other_libraries` sees them as arrays of their device over the same
memory, does its work in the order of the library's own stream, and its results are given back as
arrays of the library. Whatever offers DLPack and the Array API is such a library.

NumPy's arrays go to the device that was chosen, where it does not take them in place: such an
operation runs there and gives NumPy's arrays back. One that is made of a library's own functions
(`portable.numerics`) is marked `runs_where_chosen`, a method of what lives on a device (networks,
prepared convolutions) `runs_where_it_lives`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from portable import recording, registry
from portable.backend import Device
from portable.dtypes import NARROW, dtype
from portable.interchange import jax_arrays, tensors
from portable.interchange.host_arrays import MovedCall, rebuilt
from portable.interchange.tensors import is_tensor, tensor_over
from portable.namespace import device_of, device_of_memory, elsewhere, on_device, takes_numpys

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_NONE: Final = frozenset({type(None), bool, int, float, str})
"""Types of most arguments beside arrays."""

_other: Final[dict[type, bool]] = {np.ndarray: False}
"""Whether arrays of a type are of a library that is no backend's."""


def is_other(x: object) -> bool:
    """Whether this is an array of a library that is no backend's own."""
    kind = type(x)
    known = _other.get(kind)
    if known is None:
        known = _other[kind] = _is_of_other_library(kind)
    return known


def _is_of_other_library(kind: type) -> bool:
    if issubclass(kind, np.generic) or not hasattr(kind, "__dlpack_device__"):
        return False
    return not registry.backends_for(kind.__module__.partition(".")[0])


def takes_other_libraries(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Makes an operation take arrays of any library, and give results as arrays of the same.

    Arguments are looked at themselves and in tuples; results likewise. An argument that is given
    back (``out=``) is given back as the object that it was.
    """

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if recording.active and recording.current() is not None:
            return cast(_Result, recording.operation(call, args, kwargs))
        on_host = False
        for x in args:
            if is_other(x) or (isinstance(x, tuple) and any(map(is_other, x))):
                return exchanged(function, args, kwargs)
            on_host = on_host or type(x) is np.ndarray
        for x in kwargs.values():
            if is_other(x) or (isinstance(x, tuple) and any(map(is_other, x))):
                return exchanged(function, args, kwargs)
        if on_host and (device := device_elsewhere(args, kwargs)) is not None:
            return cast(_Result, MovedCall(device).called(function, args, kwargs))
        return function(*args, **kwargs)

    return call


def runs_where_chosen(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Makes an operation run on the device that was chosen where all its arrays are NumPy's.

    Other arrays are left to it. Arguments are looked at as by `takes_other_libraries`.
    """

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if any(type(x) is np.ndarray for x in _leaves((*args, *kwargs.values()))):
            device = device_elsewhere(args, kwargs)
            if device is not None:
                return cast(_Result, MovedCall(device).called(function, args, kwargs))
        return function(*args, **kwargs)

    return call


_Resident = TypeVar("_Resident", bound="_LivesOnDevice")


class _LivesOnDevice(Protocol):
    @property
    def device(self) -> Device: ...


def runs_where_it_lives(
    method: Callable[Concatenate[_Resident, _Parameters], _Result],
) -> Callable[Concatenate[_Resident, _Parameters], _Result]:
    """Makes a method of what lives on a device take NumPy's arrays, too, and give these back."""

    @wraps(method)
    def call(owner: _Resident, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        given = [x for x in _leaves((*args, *kwargs.values())) if _looks_like_array(x)]
        on_host = bool(given) and all(type(x) is np.ndarray for x in given)
        if not on_host or takes_numpys(owner.device):
            return method(owner, *args, **kwargs)
        return cast(_Result, MovedCall(owner.device).called(partial(method, owner), args, kwargs))

    return call


def device_elsewhere(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Device | None:
    """The device that was chosen, where a call's arrays are all NumPy's and have to go there.

    Networks and prepared operations, the first argument of their methods, stay where they are and
    say what they take.
    """
    device = elsewhere()
    if device is None or (args and isinstance(getattr(args[0], "device", None), Device)):
        return None
    arrays = [x for x in _leaves((*args, *kwargs.values())) if _looks_like_array(x)]
    return device if all(isinstance(x, np.ndarray) for x in arrays) else None


def _looks_like_array(x: object) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.generic)


def exchanged(
    function: Callable[..., _Result], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Result:
    """A call with arrays of other libraries: what `takes_other_libraries` makes of it.

    Parameters
    ----------
    function : callable
        The operation.
    args : tuple
        What it is given by position, arrays of other libraries among it.
    kwargs : dict
        What it is given by name.
    """
    given = (*args, *kwargs.values())
    viewed = tensors_viewed(given) or _looked_at(given)
    values = viewed.values
    named = dict(zip(kwargs, values[len(args) :], strict=True))
    with viewed.scope:
        return cast(_Result, viewed.given(function(*values[: len(args)], **named)))


class Viewed(NamedTuple):
    """The arguments of a call with tensors or the like, as a device's own arrays see them.

    Attributes
    ----------
    values : list
        The arguments, those as arrays.
    tensors : list of (array, tensor)
        Which of them they were.
    scope : context manager
        Puts the device on the stream that PyTorch works on.
    """

    values: list[Any]
    tensors: list[tuple[Any, Any]]
    scope: AbstractContextManager[None]

    def given(self, result: Any) -> Any:
        """A result as the caller gets it: the library's own, those of the call as they were."""
        kind = type(result)
        if kind in _NONE:
            return result
        for view, tensor in self.tensors:
            if result is view:
                return tensor
        if isinstance(result, tuple):
            return rebuilt(result, map(self.given, result))
        view, sample = self.tensors[0]
        return _in_library(sample, result) if type(view) is kind else result


_NO_SCOPE: Final = nullcontext()


def tensors_viewed(values: Iterable[Any]) -> Viewed | None:
    """Arguments of which some are plain tensors, or others' arrays, of one device.

    None where there are none such, or one that has to be looked at longer (`on_device`): this is
    asked for at each call, and costs a microsecond a tensor, two an array of the host. Where an
    array lies is asked once, and those of a GPU are taken together.
    """
    arrays: list[Any] = []
    seen: list[tuple[Any, Any]] = []
    lent: list[int] = []
    memory: Any = None  # a tensor's device's number, -1 for the host, or DLPack's numbers of others
    for x in values:
        kind = type(x)
        if kind in _NONE:
            arrays.append(x)
        elif is_tensor(x):
            device_number = x.get_device()
            view = tensors.host_view(x) if device_number < 0 else _gpu_view(x, device_number)
            if view is None or (memory != device_number and memory is not None):
                return None
            memory = device_number
            seen.append((view, x))
            arrays.append(view)
        elif isinstance(x, tuple):
            return None
        elif is_other(x):
            numbers, view = _memory_and_view(x)
            if numbers is None or (memory != numbers and memory is not None):
                return None
            memory = numbers
            if view is None:
                lent.append(len(arrays))
            else:
                seen.append((view, x))
            arrays.append(x if view is None else view)
        else:
            arrays.append(x)
    if lent:
        return _borrowed(arrays, lent, memory)
    if not seen:
        return None
    return Viewed(arrays, seen, _NO_SCOPE if memory == _ON_HOST else _on_its_stream(seen[0][1]))


_ON_HOST: Final = -1


def _memory_and_view(array: Any) -> tuple[Any, np.ndarray[Any, Any] | None]:
    """Where another library's array lies, and NumPy's over it on the host.

    None for that which takes a longer look.
    """
    try:
        kind, index = array.__dlpack_device__()
        if kind == tensors.HOST:
            return _ON_HOST, np.from_dlpack(array)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None, None  # none that exists yet, dtypes that NumPy lacks, gradients
    # Classes derived from PyTorch's tensors work on its stream and record gradients.
    plain = hasattr(array, "dtype") and not hasattr(array, "requires_grad")
    return (kind, index) if plain and dtype(array.dtype) not in NARROW else None, None


class _Located:
    """An array of which it is known where it lies: JAX takes microseconds to say it again."""

    __slots__ = ("_array", "_memory")

    def __init__(self, array: Any, memory: tuple[int, int]) -> None:
        self._array = array
        self._memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory

    def __dlpack__(self, *, stream: Any = None, **wanted: Any) -> Any:
        pack = jax_arrays.function_of(self._array, "buffer_to_dlpack_managed_tensor")
        if pack is None:
            return self._array.__dlpack__(stream=stream, **wanted)
        return pack(self._array, stream=stream)


def _borrowed(arrays: list[Any], lent: Sequence[int], memory: tuple[int, int]) -> Viewed:
    """Arguments, those of some numbers being arrays of one library in a GPU's memory."""
    theirs = [arrays[i] for i in lent]
    views = device_of_memory(*memory).adopt_together([_Located(x, memory) for x in theirs])
    for i, view in zip(lent, views, strict=True):
        arrays[i] = view
    return Viewed(arrays, list(zip(views, theirs, strict=True)), _NO_SCOPE)


def _gpu_view(tensor: Any, index: int) -> Any:
    """A CuPy array over a tensor; None where that takes a longer look."""
    if not tensor.is_cuda or tensor.is_conj() or tensor.is_neg():
        return None
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        return None
    return _gpu_of(tensor).adopt(tensor)


def _gpu_of(tensor: Any) -> Device:
    """The device of a tensor's memory."""
    return device_of_memory(*(tensors.place_of(tensor) or (0, 0)))


def _on_its_stream(tensor: Any) -> AbstractContextManager[None]:
    address = tensors.stream_of(tensor)
    return _NO_SCOPE if address is None else _gpu_of(tensor).on_stream(address)


def _looked_at(values: Sequence[Any]) -> Viewed:
    """The same for arguments that take a longer look, among them arrays in tuples.

    They are taken on the stream of the work: other libraries have it wait until they are written.
    """
    others = [x for x in _leaves(values) if type(x) not in _NONE and is_other(x)]
    device = device_of(*others)
    seen: list[tuple[Any, Any]] = []

    def taken(x: Any) -> Any:
        if isinstance(x, tuple):
            return rebuilt(x, map(taken, x))
        if type(x) in _NONE or not is_other(x):
            return x
        seen.append((on_device(device, x), x))
        return seen[-1][0]

    stream = stream_of(others)
    scope = nullcontext if stream is None else partial(device.on_stream, stream)
    with scope():
        arrays = [*map(taken, values)]
    return Viewed(arrays, seen, scope())


def _tensor(values: Any) -> Any:
    """A tensor over a device's array."""
    kind = dtype(values.dtype)
    if kind not in NARROW:
        return tensor_over(values)
    words = np.uint8 if kind.itemsize == 1 else np.int16
    return tensor_over(values.view(words)).view(getattr(sys.modules["torch"], kind.name))


def _leaves(values: Iterable[Any]) -> Iterable[Any]:
    for x in values:
        if isinstance(x, tuple):
            yield from x
        else:
            yield x


def _in_library(sample: Any, result: Any) -> Any:
    """A device's array as one of the library that another is of."""
    if is_tensor(sample):
        return _tensor(result)
    kind = dtype(result.dtype)
    narrow = kind in NARROW
    shared = result.view(np.uint8 if kind.itemsize == 1 else np.int16) if narrow else result
    give = jax_arrays.giver_like(sample, kind.name)
    if give is not None:
        return give(result)
    xp = _namespace(sample)
    array = xp.from_dlpack(shared)
    return array.view(getattr(xp, kind.name)) if narrow else array


def _namespace(array: Any) -> Any:
    """Its library's namespace."""
    kind = type(array)
    xp = _namespaces.get(kind)
    if xp is None:
        from array_api_compat import array_namespace

        xp = _namespaces[kind] = array_namespace(array)
    return xp


_namespaces: Final[dict[type, Any]] = {}


def stream_of(arguments: Sequence[Any]) -> int | None:
    """The address of the stream that PyTorch works on, where there are tensors of a GPU; else None.

    JAX orders its work with others' itself: streams are handed over with DLPack.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    for x in arguments:
        if isinstance(x, torch.Tensor):
            return tensors.stream_of(x)
    return None


def in_order_of_tensors(
    again: Callable[[], _Result], device: Device, arguments: Iterable[Any]
) -> Callable[[], _Result]:
    """Prepared work on PyTorch's stream of each call, where a GPU's tensors are among arguments."""
    sample = next((x for x in arguments if is_tensor(x) and x.is_cuda), None)
    if sample is None:
        return again

    def ordered() -> _Result:
        address = tensors.stream_of(sample)
        assert address is not None
        with device.on_stream(address):
            return again()

    return ordered


def prepares_for_other_libraries(
    function: Callable[_Parameters, Callable[[], _Result]],
) -> Callable[_Parameters, Callable[[], _Result]]:
    """Makes what prepares work, a function without arguments, take arrays of any library.

    They are taken once. What each call does is in the order of PyTorch's stream at that time.
    """

    @wraps(function)
    def prepare(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Callable[[], _Result]:
        given = (*args, *kwargs.values())
        others = [x for x in given if type(x) not in _NONE and is_other(x)]
        if not others:
            return function(*args, **kwargs)
        return in_order_of_tensors(exchanged(function, args, kwargs), device_of(*others), others)

    return prepare


def like(sample: Any, host: np.ndarray[Any, Any]) -> Any:
    """A host's array in the library, and on the device, of another array."""
    from array_api_compat import device

    return _namespace(sample).asarray(host, device=device(sample))
