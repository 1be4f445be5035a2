"""What devices can do, as JSON: written by ``portable devices --json``, read by the simulator.

A *profile* is a file of that form with one device in it. Those in ``portable_data/profiles`` and
in the folder that ``PORTABLE_PROFILES`` names can be simulated: ``simulator:h200`` makes every plan
that the device of ``h200.json`` would be given. Each says in `source` where its facts are from: the
machine that they were measured on, or what was published.
"""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol

from rich.table import Table

from portable.backend.capabilities import Asked, Capabilities
from portable.errors import DataError
from portable.system.console import literal

# Devices as a table, for the command line and for notebooks.


class _Described(Protocol):
    """What a device says of itself."""

    name: str
    capabilities: Capabilities


def device_table(devices: Sequence[_Described]) -> Table:
    """What each device is and can do, in a few words."""
    table = Table(title="Devices")
    for heading in ("name", "device", "kind", "precisions", "memory", "units", "driver"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for device in devices:
        can = device.capabilities
        memory = f"{can.global_memory / 2**30:.1f} GiB" if can.global_memory else ""
        cells = (
            device.name,
            can.name,
            can.kind,
            _precisions(can),
            memory,
            str(can.compute_units),
            can.driver,
        )
        table.add_row(*map(literal, cells))
    return table


def _precisions(can: Capabilities) -> str:
    half = "f16" if can.native_half else "f16 (storage)"
    return f"{half} f32" + (" f64" if can.float64 else "")


# -- profiles --------------------------------------------------------------------------------------

FORMAT: Final = 1
"""Counts changes after which older files can no longer be read."""

_OF_PROCESSORS: Final = {"single_work_items": True, "streaming_stores": True}
"""What files on processors lack that were written before there were such capabilities."""

_FOLDER: Final = "PORTABLE_PROFILES"
_SHIPPED: Final = "portable_data"
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class Profile:
    """A device as a file describes it.

    Attributes
    ----------
    name : str
        The device's own name, such as ``"cuda:0"``.
    source : str
        Where its facts are from.
    capabilities : Capabilities
        What it can do.
    """

    name: str
    source: str
    capabilities: Capabilities


def document(profiles: Iterable[Profile]) -> dict[str, Any]:
    """Devices as a JSON object, which `read` takes back."""
    return {"format": FORMAT, "devices": [_entry(profile) for profile in profiles]}


def _entry(profile: Profile) -> dict[str, Any]:
    values = {x.name: getattr(profile.capabilities, x.name) for x in fields(Capabilities)}
    plain = {name: _plain(value) for name, value in values.items()}
    return {"name": profile.name, "source": profile.source, "capabilities": plain}


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def read(text: str, where: str) -> tuple[Profile, ...]:
    """The devices of such a JSON object.

    Parameters
    ----------
    text : str
        The object as text.
    where : str
        What to call it in errors, such as the file's name.

    Raises
    ------
    DataError
        If it is something else; the message says what is wrong where.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None
    if not isinstance(table, dict) or not isinstance(table.get("devices"), list):
        raise DataError(f"{where} does not hold what `portable devices --json` writes")
    if table.get("format") != FORMAT:
        raise DataError(f"{where} is of format {table.get('format')!r}; expected {FORMAT}")
    return tuple(_profile(x, f"{where}, device {i}") for i, x in enumerate(table["devices"]))


def _profile(entry: Any, where: str) -> Profile:
    if not isinstance(entry, dict):
        raise DataError(f"{where} is {entry!r}; expected an object")
    for name in ("name", "source"):
        if not isinstance(entry.get(name), str):
            raise DataError(f"{where}: {name} is {entry.get(name)!r}; expected a string")
    stated = entry.get("capabilities")
    if not isinstance(stated, dict):
        raise DataError(f"{where}: capabilities is {stated!r}; expected an object")
    return Profile(entry["name"], entry["source"], capabilities_of(stated, where))


def capabilities_of(stated: Mapping[str, Any], where: str) -> Capabilities:
    """Capabilities from their names and JSON values; those with a default may be left out.

    Raises
    ------
    DataError
        If a name is unknown or missing, or a value is none of its kind.
    """
    kinds = _kinds()
    unknown = sorted(set(stated) - set(kinds))
    if unknown:
        raise DataError(f"{where} has the capability {unknown[0]!r}, which there is not")
    complete = (_OF_PROCESSORS if stated.get("kind") == "cpu" else {}) | dict(stated)
    values = {name: _value(x, kinds[name], f"{where}: {name}") for name, x in complete.items()}
    try:
        return Capabilities(**values)
    except TypeError as error:
        raise DataError(f"{where} lacks capabilities: {error}") from None


@cache
def _kinds() -> dict[str, Any]:
    hints = typing.get_type_hints(Capabilities)
    return {name: int if kind is Asked else kind for name, kind in hints.items()}


def _value(x: Any, kind: Any, where: str) -> Any:
    """A JSON value as one of a capability's type."""
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case typing.Literal if x in inner:
            return x
        case builtin if builtin is frozenset and isinstance(x, list):
            return frozenset(_value(part, inner[0], where) for part in x)
        case builtin if builtin is tuple and isinstance(x, list) and len(x) == len(inner):
            return tuple(_value(part, kind, where) for part, kind in zip(x, inner, strict=True))
        case None if type(x) is kind:
            return x
        case None if issubclass(kind, Enum) and x in list(kind):
            return kind(x)
    raise DataError(f"{where} is {x!r}; expected {_described(kind)}")


def _described(kind: Any) -> str:
    """What a JSON value of a capability's type is."""
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case typing.Literal:
            return "one of " + ", ".join(map(repr, inner))
        case None if issubclass(kind, Enum):
            return "one of " + ", ".join(repr(x.value) for x in kind)
        case None:
            return str(kind.__name__)
        case builtin if builtin is tuple:
            return f"a list of {len(inner)} values"
    return f"a list of values, each {_described(inner[0])}"


def names() -> tuple[str, ...]:
    """The profiles there are, in order."""
    return tuple(sorted(_paths()))


def load(name: str) -> Profile:
    """The profile of a name.

    Raises
    ------
    DataError
        If there is none, or its file does not hold one device.
    """
    path = _paths().get(name)
    if path is None:
        raise DataError(f"no profile {name!r}; there are {', '.join(names())}")
    profiles = read(path.read_text(encoding="utf-8"), str(path))
    if len(profiles) != 1:
        raise DataError(f"{path} describes {len(profiles)} devices; a profile describes one")
    return profiles[0]


def _paths() -> dict[str, Any]:
    """Files by the names of profiles; the user's own before the shipped ones."""
    folders: list[Any] = [files(_SHIPPED) / "profiles"]
    if os.environ.get(_FOLDER):
        folders.append(Path(os.environ[_FOLDER]))
    return {
        entry.name.removesuffix(_SUFFIX).lower(): entry
        for folder in folders
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.endswith(_SUFFIX)
    }
