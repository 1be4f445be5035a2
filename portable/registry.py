"""Finds backends and devices by name, and knows which device is in use.

A name is ``backend[:selector[:index]]``: ``cpu``, ``cuda:1``, ``opencl:nvidia``,
``opencl:intel:1``. Naming a backend loads that one alone.
"""

from __future__ import annotations

import copyreg
import difflib
import dis
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Final, NamedTuple, TypeVar

from portable.backend import Backend, Device, Refused, Unavailable
from portable.backend.profiles import device_table
from portable.errors import BackendUnavailableError, DeviceError
from portable.system.console import html, warn_once
from portable.system.locks import fork_safe_lock

# Tells whether the result of a call is entered by a ``with`` statement.
#
# A function that is both called plainly and used in ``with`` statements cannot tell which from its
# arguments; the instruction after the call says it.


_CACHE: Final = dis.opmap["CACHE"]
_ENTER: Final = ("BEFORE_WITH", "BEFORE_ASYNC_WITH")
_ENTER_BY_PARTS: Final = ["COPY", "LOAD_SPECIAL"]  # from Python 3.14 on
_PASS_ON: Final = ("CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX")
_FIRST_HALF: Final = "PRECALL"
"""In Python 3.11 calls of built-in functions happen in the first of two instructions."""

_REACH: Final = 48
"""Bytes that hold a call's caches and two instructions with theirs."""

_RETURN: Final = "RETURN_VALUE"


def is_for_a_block(caller: FrameType | None) -> bool:
    """Whether the result of the call that `caller` is at goes to a ``with`` statement.

    So it does, too, where it is handed on as an argument, as to `contextlib.ExitStack`, or returned
    to a frame that does so.
    """
    while caller is not None:
        following = _following(caller)
        if not following or following[0] != _RETURN:
            return bool(following) and _takes_as_block(following)
        caller = caller.f_back
    return False


def _takes_as_block(following: list[str]) -> bool:
    return following[0] in (*_ENTER, *_PASS_ON) or following == _ENTER_BY_PARTS


def _following(frame: FrameType) -> list[str]:
    """The two instructions after the call that a frame is at."""
    code, at = frame.f_code.co_code, frame.f_lasti
    rest = [dis.opname[op] for op in code[at + 2 : at + _REACH : 2] if op != _CACHE]
    second_half = dis.opname[code[at]] == _FIRST_HALF and rest[:1] == ["CALL"]
    return rest[1:3] if second_half else rest[:2]


_GROUP = "portable.backends"
_VARIABLE = "PORTABLE_BACKEND"
_BEST_FIRST = ("cuda", "rocm", "sycl", "opencl")
_LAST = ("cpu", "simulator")
_INDEX = re.compile("[0-9]{1,9}")
_Answer = TypeVar("_Answer")


class DeviceList(tuple[Device, ...]):
    """Devices in order; notebooks show them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html(device_table(self))


class _Loaded:
    """One backend's object and what it found; both made when first needed.

    Whatever a third-party package raises makes its own devices unavailable, and no others.
    """

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._lock = fork_safe_lock()
        self._backend: Backend | None = None
        self._devices: tuple[Device, ...] | None = None
        self._further: dict[str, Device] = {}
        self._failure: Unavailable | None = None

    @property
    def backend(self) -> Backend | None:
        """The backend's object; None if its module cannot be loaded."""
        with self._lock:
            if self._backend is None and self._failure is None:
                self._backend = self._tried(self._load, "cannot be loaded")
            return self._backend

    def _load(self) -> Backend:
        made = self._entry.load()()
        if not isinstance(made, Backend):
            raise TypeError(f"it makes a {type(made).__name__}, which is no portable.Backend")
        return made

    @property
    def devices(self) -> tuple[Device, ...]:
        """What the backend found, best first; copied and pickled by name, since each is one."""
        with self._lock:
            if self._devices is None:
                backend = self.backend
                listed = self._tried(lambda: _checked(backend), "cannot list its devices")
                self._devices = listed or ()
                for device in self._devices:
                    copyreg.pickle(type(device), _named_again)
            return self._devices

    @property
    def further(self) -> Mapping[str, Callable[[], Device]]:
        """What makes the devices that are asked for by name alone."""
        backend = self.backend
        return (backend and self._tried(backend.further, "cannot name further devices")) or {}

    def one_further(self, selector: str) -> Device:
        """The device of that selector, made when first asked for."""
        with self._lock:
            if selector not in self._further:
                made = self._further[selector] = self.further[selector]()
                copyreg.pickle(type(made), _named_again)
            return self._further[selector]

    @property
    def asked_for(self) -> tuple[Device, ...]:
        """Those of them that were made so far."""
        with self._lock:
            return tuple(self._further.values())

    @property
    def refused(self) -> Sequence[Refused]:
        """What the backend saw and does not offer."""
        backend, _ = self.backend, self.devices
        return (backend and self._tried(backend.refused, "cannot say what it refused")) or ()

    @property
    def unavailable(self) -> Unavailable | None:
        """Why there are no devices; None if there are."""
        if self.devices:
            return None
        backend = self._backend
        if self._failure is None and backend is not None:
            return self._tried(backend.unavailable, "cannot say why it has none") or self._failure
        return self._failure

    def arrays_of(self, module: str) -> bool:
        """Whether the backend's arrays may be of types from that top-level module."""
        backend = self.backend
        types = backend and self._tried(backend.array_types, "cannot name its types of arrays")
        return module in (types or ())

    def _tried(self, ask: Callable[[], _Answer], failing: str) -> _Answer | None:
        """The answer; None, and the reason kept, where the package raises instead."""
        try:
            return ask()
        except Exception as error:  # noqa: BLE001  (a broken third-party package stops no other)
            name, what = self._entry.name, f"{type(error).__name__}: {error}".rstrip(": ")
            reason = f"{self._entry.value} {failing} ({what})"
            self._failure = Unavailable(name, reason, f"repair or remove the package behind {name}")
            return None


def _checked(backend: Backend | None) -> tuple[Device, ...]:
    listed: tuple[object, ...] = () if backend is None else tuple(backend.devices())
    result = tuple(d for d in listed if isinstance(d, Device))
    if len(result) < len(listed):
        raise TypeError("it lists something that is no portable.Device")
    return result


class _Claim(NamedTuple):
    """A device that was made that of the process, and the object that did it."""

    device: Device
    by: weakref.ref[use]


class _Choice:
    """A device in use in a block; holds while the block runs.

    An interrupt may keep the end of a block from running, never its object from going away. Once a
    block has ended in the usual way, what still sees its choice are tasks that began in it.
    """

    __slots__ = ("block", "device", "ended", "outer")

    def __init__(self, block: use, outer: _Choice | None) -> None:
        self.block = weakref.ref(block)
        self.device = block.device
        self.outer = outer
        self.ended = False

    @property
    def holds(self) -> bool:
        return self.ended or self.block() is not None

    def is_of(self, block: use) -> bool:
        return self.block() is block


class Registry:
    """The backends of one set of entry points, and the device in use; safe under threads.

    Parameters
    ----------
    find_entries : callable
        Returns the entry points; called once, when first needed.
    """

    def __init__(self, find_entries: Callable[[], Iterable[EntryPoint]]) -> None:
        self._find_entries = find_entries
        self._lock = fork_safe_lock()
        self._loaded: dict[str, _Loaded] | None = None
        self._best: Device | None = None
        self._known: dict[str, Device] = {}
        self._at_work: dict[Device, None] = {}
        self._claims: tuple[_Claim, ...] = ()
        self.chosen: ContextVar[_Choice | None] = ContextVar("portable_device", default=None)

    @property
    def backends(self) -> dict[str, _Loaded]:
        """Every registered backend by name, none of them loaded by this."""
        with self._lock:
            if self._loaded is None:
                self._loaded = {e.name: _Loaded(e) for e in self._find_entries()}
            return self._loaded

    def devices(self) -> tuple[Device, ...]:
        """Every device, the best first; loads every backend."""
        result = [d for loaded in self.backends.values() for d in loaded.devices]
        return tuple(sorted(result, key=_rank))

    def unavailable(self) -> tuple[Unavailable, ...]:
        """The backends without a device."""
        missing = (loaded.unavailable for loaded in self.backends.values())
        return tuple(sorted(filter(None, missing), key=lambda u: u.backend))

    def further(self) -> tuple[str, ...]:
        """The names of devices that are asked for by name alone."""
        loaded = self.backends.items()
        return tuple(sorted(f"{name}:{x}" for name, backend in loaded for x in backend.further))

    def asked_for(self) -> tuple[Device, ...]:
        """Those of these devices that were made so far."""
        return tuple(x for loaded in self.backends.values() for x in loaded.asked_for)

    def refused(self) -> tuple[Refused, ...]:
        """Devices that backends saw and do not offer; loads every backend."""
        return tuple(x for loaded in self.backends.values() for x in loaded.refused)

    def given_work(self, device: Device) -> None:
        """Remember that something may be enqueued on a device."""
        with self._lock:
            self._at_work.setdefault(device)

    @property
    def at_work(self) -> tuple[Device, ...]:
        """The devices on which something may be enqueued."""
        with self._lock:
            return tuple(self._at_work)

    def device(self, name: str | Device | None = None) -> Device:
        """The device of that name, or the one in use."""
        if name is None:
            return self.current()
        if isinstance(name, Device):
            return name
        known = self._known.get(name) if type(name) is str else None
        if known is None:
            known = self._named(name)
            self._known[name] = known  # a name that means a device means it for good
        return known

    def current(self) -> Device:
        """The device in use."""
        return self._used() or self._best or self._found_default()

    def chosen_device(self) -> Device | None:
        """The device in use, where `use` or the environment variable chose it; None else."""
        choice = self.chosen.get()  # asked at launches of NumPy's arrays
        if choice is not None or self._claims:
            if choice is not None and choice.block() is not None:
                return choice.device
            used = self._used()
            if used is not None:
                return used
        return (self._best or self._found_default()) if self._wanted else None

    @cached_property
    def _wanted(self) -> str:
        """What the environment variable held when it was first asked for."""
        return os.environ.get(_VARIABLE, "").strip()

    @property
    def others(self) -> list[str]:
        """The backends of other packages."""
        return [name for name in self.backends if name not in _BEST_FIRST + _LAST]

    def _used(self) -> Device | None:
        """The device that `use` chose."""
        choice = self.chosen.get()
        while choice is not None:
            if choice.holds:
                return choice.device
            choice = choice.outer
        claims = self._claims
        return claims[-1].device if claims else None

    def _found_default(self) -> Device:
        self._best = best = self._default()
        return best

    def claim(self, by: use) -> None:
        """Make a device that of the process, until `withdraw`."""
        with self._lock:
            old = self._claims
            # Nobody can withdraw a claim whose object is gone, which covers those before it.
            lasting = max((i for i, c in enumerate(old) if c.by() is None), default=0)
            self._claims = (*old[lasting:], _Claim(by.device, weakref.ref(by)))

    def withdraw(self, by: use) -> None:
        """Take a claim back, if there is one."""
        with self._lock:
            self._claims = tuple(c for c in self._claims if c.by() is not by)

    def _default(self) -> Device:
        name = self._wanted
        if not name:
            return self._best_found()
        try:
            return self._named(name)
        except (DeviceError, BackendUnavailableError) as error:
            raise type(error)(f"{_VARIABLE}={name!r}: {error}") from None

    def _best_found(self) -> Device:
        """The first suitable device, loading no more backends than needed to find it."""
        others = self.others
        for name in (*_BEST_FIRST, *others, *_LAST):
            loaded = self.backends.get(name)
            for result in loaded.devices if loaded else ():
                if result.capabilities.kind == "gpu" or name in (*others, *_LAST):
                    self._warn_of_simulator(result)
                    return result
        raise BackendUnavailableError(
            "no device was found, not even the processor; install one of "
            f"{_listed(u.remedy for u in self.unavailable())}"
        )

    def _warn_of_simulator(self, best: Device) -> None:
        """Say that nothing better was found: only what is asked for by name may be so slow."""
        if best.capabilities.kind == "simulator":
            reasons = (
                f"{u.backend}: {u.reason} (to get it: {u.remedy})" for u in self.unavailable()
            )
            warn_once(
                f"kernels run in {best.name}, thousands of times slower than compiled ones, since "
                f"no other device was found; {_VARIABLE}={best.name} chooses it without this "
                f"warning. {'; '.join(reasons)}"
            )

    def _named(self, name: str) -> Device:
        if not isinstance(name, str):
            raise TypeError(f"a device or its name is needed, such as 'cpu', not {name!r}")
        backend, *rest = name.strip().lower().split(":")
        if len(rest) > 2 or not backend:
            raise DeviceError(
                f"{name!r} is no device name; expected backend[:selector[:index]], such as "
                "'cpu', 'cuda:1' or 'opencl:nvidia:0'"
            )
        result = self._devices_of(backend, name)
        matches, index = _select(result, rest)
        if index is not None and index < len(matches):
            return matches[index]
        loaded = self.backends[backend]
        if rest and rest[0] in loaded.further and index == 0:
            return loaded.one_further(rest[0])
        named = (f"{backend}:{selector}" for selector in loaded.further)
        raise DeviceError(_no_such(name, (*(d.name for d in result), *named)))

    def _devices_of(self, backend: str, name: str) -> tuple[Device, ...]:
        loaded = self.backends.get(backend)
        if loaded is None:
            raise DeviceError(self._no_backend(backend, name))
        missing = loaded.unavailable
        if missing is not None:
            raise BackendUnavailableError(
                f"{name!r} is not available: {missing.reason}; to get it: {missing.remedy}"
            )
        return loaded.devices

    def _no_backend(self, backend: str, name: str) -> str:
        """What is there in the place of a name whose first part names no backend."""
        there = self.devices()
        meant = [d.name for d in there if backend in d.words]
        text = _no_such(name, self.backends, meant)
        if meant or "did you mean" in text:
            return text
        none = "; none of the devices that were found is a GPU" if backend == "gpu" else ""
        names = _listed(d.name for d in there)
        return f"{text}{none}; the devices that were found are {names}"


def _rank(device: Device) -> tuple[int, int]:
    """GPUs first, then the processor through NumPy, then through the rest; the simulator last."""
    kinds = ("gpu", "accelerator", "cpu", "simulator")
    backends = (*_LAST, *_BEST_FIRST) if device.capabilities.kind == "cpu" else _BEST_FIRST
    rank = backends.index(device.backend) if device.backend in backends else len(backends)
    return kinds.index(device.capabilities.kind), rank


def _select(devices: Sequence[Device], rest: Sequence[str]) -> tuple[list[Device], int | None]:
    """The devices that a selector matches, and the index asked for (None if malformed)."""
    words, numbers = list(rest), "0"
    if words and _INDEX.fullmatch(words[-1]):
        numbers = words.pop()
    if len(words) > 1:
        return [], None
    return [d for d in devices if not words or words[0] in d.words], int(numbers)


def _no_such(name: str, existing: Iterable[str], meant: Sequence[str] = ()) -> str:
    choices = sorted(existing)
    if name.lower() == "gpu":  # near to 'cpu', and not what is meant
        near = list(meant)
    else:
        near = list(meant) or difflib.get_close_matches(name.lower(), choices, n=1)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"no device {name!r}; there are {_listed(choices)}{hint}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


registry = Registry(lambda: entry_points(group=_GROUP))


def devices() -> tuple[Device, ...]:
    """Every device found on this machine, the best first.

    Loads every backend; `device` with a name loads one alone. Notebooks show a table.
    """
    return DeviceList(registry.devices())


def device(name: str | Device | None = None) -> Device:
    """A device by name, or the one in use.

    Parameters
    ----------
    name : str, Device or None
        ``backend[:selector[:index]]``; None means the one in use: that of `use`, else that of the
        environment variable ``PORTABLE_BACKEND``, else the best found (cuda, rocm, a GPU through
        sycl, a GPU through opencl, cpu).

    Raises
    ------
    DeviceError
        If the name is malformed or names nothing that was found; the message lists what was.
    BackendUnavailableError
        If the backend's library, driver or device is missing; the message says how to get it.
    """
    return registry.device(name)


def _named_again(known: Device) -> tuple[Callable[[str], Device], tuple[str]]:
    """How `copy` and `pickle` come by a device."""
    return device, (known.name,)


def given_work(device: Device) -> None:
    """Remember that something may be enqueued on a device."""
    registry.given_work(device)


def at_work() -> tuple[Device, ...]:
    """The devices on which something may be enqueued: launches, or arrays that were made."""
    return registry.at_work


def unavailable() -> tuple[Unavailable, ...]:
    """The backends that found no device, why, and what would change it."""
    return registry.unavailable()


def further() -> tuple[str, ...]:
    """The names of devices that `devices` leaves out, such as the simulator's profiles."""
    return registry.further()


def asked_for() -> tuple[Device, ...]:
    """Devices that `devices` leaves out and that were asked for by name in this process."""
    return registry.asked_for()


def refused() -> tuple[Refused, ...]:
    """Devices that were seen and are not offered, and why."""
    return registry.refused()


def devices_of_backend(name: str) -> tuple[Device, ...]:
    """The devices of one registered backend; empty if it is unknown or found none."""
    loaded = registry.backends.get(name)
    return loaded.devices if loaded else ()


def backends_for(module: str) -> tuple[str, ...]:
    """The names of backends whose arrays may be of types from that top-level module."""
    return tuple(name for name, loaded in registry.backends.items() if loaded.arrays_of(module))


class use:  # noqa: N801  (read as a verb: `portable.use("cpu")`)
    """Choose the device in use, for the process or for a ``with`` block.

    As a plain call it sets the default of the whole process. As a context manager it holds for the
    block, in this thread and the asynchronous tasks started from it alone, and no longer, whatever
    interrupts it. So it is where it is handed to a function, such as `contextlib.ExitStack`'s
    ``enter_context``: it then waits to be entered.

    Parameters
    ----------
    name : str or Device
        What `device` takes.

    Examples
    --------
    >>> portable.use("cpu")  # doctest: +SKIP
    >>> with portable.use("simulator") as device:  # doctest: +SKIP
    ...     kernel[n](x)
    """

    def __init__(self, name: str | Device) -> None:
        self.device = registry.device(name)
        # Were each call to set the process's device and each block to undo it on entering, other
        # threads would see it in between, and an interrupt in between would leave it so.
        if not is_for_a_block(sys._getframe(1)):
            registry.claim(self)

    def __enter__(self) -> Device:
        registry.withdraw(self)  # where the object was kept, and entered later
        chosen = registry.chosen
        chosen.set(_Choice(self, chosen.get()))
        return self.device

    def __exit__(self, *_: object) -> None:
        choice = registry.chosen.get()
        while choice is not None and not choice.is_of(self):
            choice = choice.outer
        if choice is not None:
            registry.chosen.set(choice.outer)
            choice.ended = True

    def __repr__(self) -> str:
        return f"<portable uses {self.device.name}>"
