"""The table of tuned parameters: what the package ships and what the user's own searches found.

A table is a JSON object: kernel -> dtype -> device key -> list of choices, the one for the largest
problems first. Device keys are looked up from the particular to the general: the device's name, its
architecture, its vendor, its kind (``"cpu"``, ``"gpu"``), ``"default"``; the user's own come
before the shipped ones of the same key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any, Final

import platformdirs

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.files import write_whole
from portable.tune.space import Parameters

__all__ = ["device_keys", "lookup", "record", "state", "user_table"]

_SHIPPED: Final = "portable_data"

_SECONDS_BETWEEN_LOOKS: Final = 1.0

State = tuple[str, int, int, int]


def user_table() -> Path:
    """Where the user's own findings are kept; ``PORTABLE_TUNING`` names another file."""
    return Path(_user_table())


def _user_table() -> str:
    return os.environ.get("PORTABLE_TUNING") or _usual_table()


@cache
def _usual_table() -> str:
    return str(Path(platformdirs.user_config_dir("portable-arrays")) / "tuning.json")


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


def lookup(kernel: str, dtype: DType, capabilities: Capabilities) -> list[Parameters]:
    """All choices for a device, most particular key first; the later ones are fallbacks."""
    return list(_found(kernel, dtype.name, capabilities, state()))


@lru_cache(maxsize=1024)
def _found(
    kernel: str, dtype: str, capabilities: Capabilities, now: State
) -> tuple[Parameters, ...]:
    """As of one state of the user's table."""
    found: list[Parameters] = []
    tables = (_read_user(now[0]), _load_shipped(kernel))
    for key in device_keys(capabilities):
        for table in tables:
            found += table.get(kernel, {}).get(dtype, {}).get(key, [])
    return tuple(found)


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
        """As of the last look, which was less than a second ago."""
        path = _user_table()
        found, due = self._last
        now = monotonic()
        if now >= due or found[0] != path:
            found = _look(path)
            self._last = (found, now + _SECONDS_BETWEEN_LOOKS)
        return found

    def renew(self) -> None:
        """The next look is due at once."""
        self._last = (self._last[0], 0.0)


_watch: Final = _Watch()


def _look(path: str) -> State:
    try:
        found = Path(path).stat()
    except OSError:
        return path, 0, 0, 0
    return path, found.st_mtime_ns, found.st_ino, found.st_size


@cache
def _load_shipped(kernel: str) -> dict[str, Any]:
    resource = files(_SHIPPED) / "tuning" / f"{kernel}.json"
    return {kernel: json.loads(resource.read_text(encoding="utf-8"))}


def _read_user(path: str) -> dict[str, Any]:
    """The user's table; what is damaged counts as absent."""
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {
        kernel: {
            dtype: {key: _choices(found) for key, found in _items(keys)}
            for dtype, keys in _items(dtypes)
        }
        for kernel, dtypes in _items(table)
    }


def _items(x: Any) -> Iterable[tuple[str, Any]]:
    return x.items() if isinstance(x, dict) else ()


def _choices(x: Any) -> list[Parameters]:
    return [choice for choice in x if isinstance(choice, dict)] if isinstance(x, list) else []


def record(
    kernel: str, dtype: DType, key: str, choices: Sequence[Parameters], path: Path | None = None
) -> Path:
    """Writes what a search found to the user's table, replacing the entry of the same key.

    Raises
    ------
    OSError
        If the file cannot be written; the old one is then untouched.
    """
    target = path or user_table()
    table = _read_user(str(target))
    entry = table.setdefault(kernel, {}).setdefault(dtype.name, {})
    entry[key] = [dict(choice) for choice in choices]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, (json.dumps(table, indent=1, sort_keys=True) + "\n").encode())
    _watch.renew()
    return target
