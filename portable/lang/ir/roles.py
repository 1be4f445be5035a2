"""What the fields of a statement are to whoever walks over it: said once, used by all walkers.

A field that holds variables, expressions, memory or blocks says so in its declaration, as in
``value: Expression = field(metadata=READS)``; one that does not is refused by its name when the
first walker meets the statement. Of memory (arrays, regions of them, matrix fragments) the role
says what happens to its elements, and the indices beside it are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final

from portable.lang.ir.expressions import Variable
from portable.lang.ir.types import Array, Fragment, Region


class Role(StrEnum):
    """What a field is."""

    BINDS = "binds"
    """A new name (or None): it has this value until the block in which it stands ends."""

    SETS = "sets"
    """A variable of the kernel, which gets a new value."""

    READS = "reads"
    """Expressions that are evaluated, and memory that is read."""

    WRITES = "writes"
    """Memory that is written."""

    UPDATES = "updates"
    """Memory that is read and written, or variables of the kernel."""

    BLOCK = "block"
    """Statements inside."""


_KEY: Final = "role"
BINDS: Final[Mapping[str, Role]] = {_KEY: Role.BINDS}
SETS: Final[Mapping[str, Role]] = {_KEY: Role.SETS}
READS: Final[Mapping[str, Role]] = {_KEY: Role.READS}
WRITES: Final[Mapping[str, Role]] = {_KEY: Role.WRITES}
UPDATES: Final[Mapping[str, Role]] = {_KEY: Role.UPDATES}
BLOCK: Final[Mapping[str, Role]] = {_KEY: Role.BLOCK}

_HOLDERS: Final = ("Variable", "Expression", "Array", "Region", "Fragment", "Block", "Statement")
"""Types that are nothing to walkers only where a field says what it is to them."""

_roles: Final[dict[type, Mapping[str, Role]]] = {}
_names: Final[dict[tuple[type, tuple[Role, ...]], tuple[str, ...]]] = {}

Memory = Array | Fragment


def roles_of(kind: type[Any]) -> Mapping[str, Role]:
    """The fields of a class of statements that have a role, in order.

    Raises
    ------
    TypeError
        Naming a field that holds what walkers look for and does not say what it does with it.
    """
    known = _roles.get(kind)
    if known is not None:
        return known
    roles: dict[str, Role] = {}
    for field in fields(kind):
        role = field.metadata.get(_KEY)
        if role is not None:
            roles[field.name] = role
        elif any(word in str(field.type) for word in _HOLDERS):
            raise TypeError(
                f"{kind.__name__}.{field.name} does not say what it is to walkers: declare it with "
                "field(metadata=READS) or another role of portable.lang.ir.roles"
            )
    _roles[kind] = roles
    return roles


def declared(x: Any, *roles: Role) -> list[Any]:
    """The values of a statement's fields of some roles."""
    return [getattr(x, name) for name in _names_of(type(x), roles)]


def _names_of(kind: type[Any], roles: tuple[Role, ...]) -> tuple[str, ...]:
    """The fields of a class of statements that have one of some roles."""
    names = _names.get((kind, roles))
    if names is None:
        result = roles_of(kind)
        names = _names[kind, roles] = tuple(name for name in result if result[name] in roles)
    return names


def variables(values: Any) -> Iterator[Variable]:
    """The variables among values and in tuples of nothing else, not those in indices."""
    for value in values:
        for x in value if isinstance(value, tuple) else (value,):
            if isinstance(x, Variable):
                yield x


def memory(values: Any) -> Iterator[Memory]:
    """The arrays and fragments among values, which may be regions or tuples of them."""
    for value in values:
        if isinstance(value, Array | Fragment):
            yield value
        elif isinstance(value, Region):
            yield value.array
        elif isinstance(value, tuple):
            yield from memory(value)
