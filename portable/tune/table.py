"""The table of tuned parameters: what the package ships and what the user's own searches found.

A table is a JSON object: kernel -> dtype -> device key -> list of choices, the one for the largest
problems first. Device keys are looked up from the particular to the general: the device's name, its
architecture, its vendor, its kind (``"cpu"``, ``"gpu"``), ``"default"``; the user's own come
before the shipped ones of the same key. A choice that is not of its kernel's space is left out,
which is told once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.system.notices import warn_once
from portable.tune.own_table import State, Table, read, recent_state, record, state, user_table
from portable.tune.space import Parameters, Space

__all__ = [
    "device_keys",
    "lookup",
    "lookup_entries",
    "recent_state",
    "record",
    "state",
    "user_table",
]

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
