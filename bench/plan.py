"""What to measure: the words of the command line turned into cases."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from portable import registry
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import PortableError
from portable_bench.operation import Case, Effort, Operation, Size
from portable_bench.operations import OPERATIONS

Planned = tuple[Operation, Case]

PRECISIONS: Final = {
    kind.short: kind for operation in OPERATIONS.values() for kind in operation.all_dtypes
}
"""All that an operation is measured in, by their short names."""


def plan(
    operations: Sequence[Operation],
    devices: Sequence[Device],
    dtypes: Sequence[DType] | None,
    size_names: str | None,
    effort: Effort,
) -> list[Planned]:
    """Every case, problem by problem, so that devices take turns at the same one.

    Parameters
    ----------
    operations : sequence of Operation
    devices : sequence of Device
    dtypes : sequence of DType, or None
        None for those that each operation measures by itself.
    size_names : str or None
        Sizes as the user wrote them; None for those of the effort.
    effort : Effort
        How much is measured.

    Raises
    ------
    ValueError
        For sizes that an operation does not take, and if there is nothing to measure.
    """
    planned = [
        (operation, Case(device, dtype, size))
        for operation in operations
        for size, wanted in _problems(operation, devices, size_names, effort).items()
        for dtype in (operation.dtypes if dtypes is None else operation.all_dtypes)
        if dtypes is None or dtype in dtypes
        for device in wanted
    ]
    if not planned:
        raise ValueError(f"nothing to measure: {_why_nothing(operations, devices)}")
    return planned


def _why_nothing(operations: Sequence[Operation], devices: Sequence[Device]) -> str:
    if not devices:
        return "no device but the simulator was found; see portable devices"
    missing = {operation.missing(device) for operation in operations for device in devices}
    return "; ".join(sorted(missing)) if all(missing) else "no operation takes such element types"


def _problems(
    operation: Operation, devices: Sequence[Device], size_names: str | None, effort: Effort
) -> dict[Size, list[Device]]:
    """The devices to measure each size on."""
    problems: dict[Size, list[Device]] = {}
    given = None if size_names is None else _sizes(operation, size_names)
    for device in devices:
        if operation.missing(device):
            continue
        for size in given or operation.sizes_for(device.capabilities.kind, effort):
            problems.setdefault(size, []).append(device)
    return problems


def _sizes(operation: Operation, names: str) -> list[Size]:
    try:
        return operation.parse(names)
    except ValueError as error:
        raise ValueError(f"--size {names} for {operation.name}: {error}") from None


def operations_named(names: Iterable[str], effort: Effort) -> list[Operation]:
    """The operations of these names; all that an effort includes, if there are none.

    A name may be several, separated by commas.

    Raises
    ------
    ValueError
        For unknown ones, with those that there are.
    """
    given = [name.strip() for several in names for name in several.split(",")]
    operations = [_known("operation", name, OPERATIONS) for name in given if name]
    if operations:
        return [OPERATIONS[name] for name in dict.fromkeys(operations)]
    return [op for op in OPERATIONS.values() if op.brief or effort != "quick"]


def devices_apart(devices: Sequence[Device]) -> list[Device]:
    """Those that are not another backend's way to the hardware of an earlier one, by its driver."""
    first: dict[tuple[str, str], str] = {}
    told = ((device, device.capabilities) for device in devices)
    return [
        x for x, can in told if x.backend == first.setdefault((can.name, can.driver), x.backend)
    ]


def devices_named(names: str) -> list[Device]:
    """The named ones; of "all", those that are made for speed, which the simulator is not.

    Raises
    ------
    ValueError
        For unknown ones, with those that there are.
    """
    if names == "all":
        return [d for d in registry.devices() if d.capabilities.kind != "simulator"]
    try:
        devices = [registry.device(name.strip()) for name in names.split(",")]
    except PortableError as error:
        raise ValueError(str(error)) from None
    return list(dict.fromkeys(devices))


def dtypes_named(names: str | None) -> list[DType] | None:
    """The named ones; None for None.

    Raises
    ------
    ValueError
        For unknown ones, with those that there are.
    """
    if names is None:
        return None
    by_name = PRECISIONS | {kind.name: kind for kind in PRECISIONS.values()}
    return [by_name[_known("element type", name.strip(), by_name)] for name in names.split(",")]


def _known(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"unknown {what} {name!r}; there are {', '.join(names)}{hint}")
