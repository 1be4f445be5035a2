"""The table of tuned parameters: what the package ships and what the user's own searches found.

A table is a JSON object: kernel -> dtype -> device key -> list of choices, the one for the largest
problems first. Device keys are looked up from the particular to the general: the device's name, its
architecture, its vendor, its kind (``"cpu"``, ``"gpu"``), ``"default"``; the user's own come
before the shipped ones of the same key. A choice that is not of its kernel's space is left out,
which is told once.

The user's own table of tuned parameters: the file that searches write and lookups read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import platformdirs

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.errors import CompileError, DataError, LaunchError, UnsupportedError
from portable.system.console import warn_once
from portable.system.files import write_whole
from portable.system.locks import locked
from portable.tune.space import Parameters, Space

# Falls back to the next tuned choice where a device refuses one.


_Choice = TypeVar("_Choice")
_Result = TypeVar("_Result")


def first_accepted(choices: Sequence[_Choice], use: Callable[[_Choice], _Result]) -> _Result:
    """What `use` makes of the first choice that the device compiles and launches.

    Raises
    ------
    CompileError, LaunchError, UnsupportedError
        For the last of them, if none is.
    """
    for choice in choices[:-1]:
        with suppress(CompileError, LaunchError, UnsupportedError):
            return use(choice)
    return use(choices[-1])


_VARIABLE: Final = "PORTABLE_TUNING"
_SECONDS_BETWEEN_LOOKS: Final = 1.0

Table = dict[str, dict[str, dict[str, list[Any]]]]
"""By kernel, dtype and device key: the choices, unchecked."""

State = tuple[str, int, int, int]


def user_table() -> Path:
    """Where the user's own findings are kept; ``PORTABLE_TUNING`` names another file."""
    return Path(_user_table())


def _user_table() -> str:
    return os.environ.get(_VARIABLE) or _usual_table()


@cache
def _usual_table() -> str:
    return str(Path(platformdirs.user_config_dir("portable-arrays")) / "tuning.json")


# -- what changes -------------------------------------------------------------------------------


def state() -> State:
    """What changes with the user's table, for caches: its path, and when and how it was written.

    What another process writes is noticed within a second.
    """
    return _watch.state()


class _Watch:
    """Looks at the user's table now and then: operations ask at each call, a look takes 5 us."""

    def __init__(self) -> None:
        self._last: tuple[State, float] = (("", 0, 0, 0), 0.0)

    def state(self) -> State:
        """As of the last look, which was less than a second ago; the same object until it changes.

        Operations that repeat what they did compare it by `is`.
        """
        path = _user_table()
        result, due = self._last
        now = monotonic()
        if now >= due or result[0] != path:
            seen = _look(path)
            result = result if seen == result else seen
            self._last = (result, now + _SECONDS_BETWEEN_LOOKS)
        return result

    def recent(self) -> State:
        """The same, and of the path that was named then, whatever is named since.

        It costs a tenth, for operations that repeat what they did.
        """
        result, due = self._last
        return result if monotonic() < due else self.state()

    def renew(self) -> None:
        """The next look is due at once."""
        self._last = (self._last[0], 0.0)


_watch: Final = _Watch()

recent_state: Final[Callable[[], State]] = _watch.recent
"""`state` as of the last look, which was less than a second ago."""


def _look(path: str) -> State:
    try:
        status = Path(path).stat()
    except OSError:
        return path, 0, 0, 0
    return path, status.st_mtime_ns, status.st_ino, status.st_size


# -- reading ------------------------------------------------------------------------------------


def read(path: str) -> Table:
    """The table in a file; one that cannot be read counts as empty, which is told once."""
    try:
        return _content(Path(path))
    except (OSError, DataError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        warn_once(f"{path} is no table of tuned parameters and is left out: {reason}")
        return {}


def _content(path: Path) -> Table:
    """Empty where there is no file.

    Raises
    ------
    OSError
        If the file cannot be read.
    DataError
        If it holds something else.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if os.environ.get(_VARIABLE) == os.fspath(path):
            warn_once(f"{_VARIABLE} names {path}, which does not exist (yet)")
        return {}
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(str(error)) from None
    if not _is_table(content, 3):
        raise DataError("expected kernel -> dtype -> device -> list of choices")
    return content  # type: ignore[no-any-return]


def _is_table(x: Any, levels: int) -> bool:
    """Whether it is lists under so many levels of objects."""
    if levels == 0:
        return isinstance(x, list)
    return isinstance(x, dict) and all(_is_table(part, levels - 1) for part in x.values())


# -- writing ------------------------------------------------------------------------------------


def record(
    kernel: str, dtype: DType, key: str, choices: Sequence[Parameters], path: Path | None = None
) -> Path:
    """Writes what a search found to the user's table, replacing the entry of the same key.

    Processes that do this at the same time wait for each other. A file that is no table is kept
    under another name, which is told.

    Parameters
    ----------
    kernel : str
        The kernel.
    dtype : DType
        What was searched for.
    key : str
        The device.
    choices : sequence of mapping
        What was found, that for the largest problems first.
    path : Path, optional
        Another table than the user's.

    Raises
    ------
    OSError
        If the file cannot be read or written; the old one is then untouched.
    """
    target = path or user_table()
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}.lock")):
        table = _kept(target)
        entry = table.setdefault(kernel, {}).setdefault(dtype.name, {})
        entry[key] = [dict(choice) for choice in choices]
        write_whole(target, (json.dumps(table, indent=1, sort_keys=True) + "\n").encode())
    _watch.renew()
    return target


def _kept(target: Path) -> Table:
    """The table to be added to; what is none is set aside first."""
    try:
        return _content(target) if target.exists() else {}
    except DataError as error:
        aside = _free_name(target)
        target.rename(aside)
        warn_once(f"{target} is no table of tuned parameters and is kept as {aside}: {error}")
        return {}


def _free_name(target: Path) -> Path:
    """Beside the file, and not in use."""
    count = 1
    while (name := target.with_name(f"{target.name}.unreadable-{count}")).exists():
        count += 1
    return name


_SHIPPED: Final = "portable_data"


def device_keys(capabilities: Capabilities) -> tuple[str, ...]:
    """What a device is looked up by, most particular first, by dialect before without it."""
    dialect = capabilities.dialect
    names = (
        capabilities.name,
        capabilities.architecture,
        capabilities.vendor,
        capabilities.kind,
        "default",
    )
    keys = [f"{dialect}:{name}" for name in names if name] + [name for name in names if name]
    return tuple(dict.fromkeys(keys))


def lookup(space: Space, dtype: DType, capabilities: Capabilities) -> list[Parameters]:
    """All choices for a device, most particular key first; the later ones are fallbacks.

    There are none for a kernel of another package that was never tuned.

    Parameters
    ----------
    space : Space
        The kernel's.
    dtype : DType
        For which.
    capabilities : Capabilities
        The device's.
    """
    return [choice for entry in lookup_entries(space, dtype, capabilities) for choice in entry]


def lookup_entries(
    space: Space, dtype: DType, capabilities: Capabilities
) -> list[tuple[Parameters, ...]]:
    """The same by entries: for the very device, for others like it.

    Parameters
    ----------
    space : Space
        The kernel's.
    dtype : DType
        For which.
    capabilities : Capabilities
        The device's.
    """
    now = state()
    tables = {now[0]: _own(now), "the table of the package": _load_shipped(space.kernel)}
    entries = (
        tuple(_checked(space, dtype.name, key, name, table))
        for key in device_keys(capabilities)
        for name, table in tables.items()
    )
    return [entry for entry in entries if entry]


@lru_cache(maxsize=4)
def _own(now: State) -> Table:
    """As of one state of the user's table."""
    return read(now[0])


@cache
def _load_shipped(kernel: str) -> Table:
    resource = files(_SHIPPED) / "tuning" / f"{kernel}.json"
    try:
        return {kernel: json.loads(resource.read_text(encoding="utf-8"))}
    except FileNotFoundError:  # a kernel of another package
        return {}


def _checked(space: Space, dtype: str, key: str, name: str, table: Table) -> Iterator[Parameters]:
    """The choices of an entry that are of the space."""
    for number, entry in enumerate(table.get(space.kernel, {}).get(dtype, {}).get(key, [])):
        try:
            yield space.checked(entry)
        except ValueError as error:
            where = f"{space.kernel}.{dtype}[{key!r}][{number}]"
            warn_once(f"{name}: {where} {error}; it is left out")
