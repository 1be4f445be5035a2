"""Families of random kernels, each with how its results are held against others.

What no compiler may change is compared bit for bit, with Python itself or with the simulator, which
also looks for races, unwritten memory and bad indices.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import portable as pt
from portable.backend import Device
from portable.errors import KernelError
from portable_backends.simulator.backend import SimulatorDevice
from tests.support import random_functions as functions
from tests.support.differences import assert_gradients, small_strips
from tests.support.launch import run
from tests.support.random_adjoints import ITEMS as DIFFERENTIATED
from tests.support.random_adjoints import adjoint_arguments, random_adjoint
from tests.support.random_arrays import CLOSE, random_program
from tests.support.random_control import ITEMS as TOGETHER
from tests.support.random_control import ROUNDS, VALUES, random_control
from tests.support.random_exchange import ITEMS, LANES, random_exchange
from tests.support.random_kernels import Recorder, evaluate, imported
from tests.support.random_moves import random_moves
from tests.support.random_names import REFUSED, as_python, name_inputs, random_names
from tests.support.random_text import KINDS, ROWS, STORED, random_kernel
from tests.support.random_workgroups import ITEMS as WORKGROUP
from tests.support.random_workgroups import TOTALS, random_workgroups

_WORK_ITEMS: Final = 5
_HELD: Final = (*KINDS, *STORED)
_NUMPY: Final = {"i": "int", "u": "uint", "f": "float"}
_SLACK: Final = 2
"""Units in the last place by which NumPy may be off itself."""


@dataclass(frozen=True)
class Case:
    """A module's text with ``kernel``, and what checks it, or a shorter version of it."""

    text: str
    check: Callable[[Device, str, Path], None]


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(_NUMPY[kind[0]] + kind[1:])


def _inputs() -> list[np.ndarray[Any, Any]]:
    found = []
    for kind in _HELD:
        if kind[0] == "f":
            some = np.array([-2.75, 0.1, 1e9 if kind != "f16" else 1e4, -3.0])
        else:
            some = np.array([3, 2**31 - 1, 10, 77])
        found.append(some.astype(_dtype(kind)))
        if kind[0] == "i":
            found[-1][2] = np.iinfo(found[-1].dtype).min
    return found


@functools.cache
def _simulator(sub_group_size: int) -> Device:
    """A simulator with sub-groups of a size, on which results may depend."""
    plain = pt.device("simulator").capabilities
    changed = replace(plain, sub_group_size=sub_group_size)
    return SimulatorDevice(f"sub-groups of {sub_group_size}", changed)


def _equal(found: list[Any], wanted: list[Any], text: str) -> None:
    for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"argument {number} of\n{text}")


def _against_simulator(device: Device, launcher: Any, arguments: list[Any], text: str) -> None:
    with np.errstate(all="ignore"):
        wanted = run(_simulator(device.capabilities.sub_group_size), launcher, *arguments)
    _equal(run(device, launcher, *arguments), wanted, text)


# -- families ---------------------------------------------------------------------------------


def _check_scalars(device: Device, text: str, folder: Path) -> None:
    inputs = _inputs()
    outs = [np.zeros((_WORK_ITEMS, ROWS), _dtype(kind)) for kind in _HELD]
    expected = [out.copy() for out in outs]
    loaded = [STORED.get(kind, kind) for kind in _HELD]
    seen = [Recorder(a, k) for a, k in zip([*inputs, *expected], loaded * 2, strict=True)]
    evaluate(text, _WORK_ITEMS, *seen)
    found = run(device, imported(text, folder).kernel[_WORK_ITEMS, 4], *inputs, *outs)
    _equal(found[len(_HELD) :], expected, text)


def _check_exchange(device: Device, text: str, folder: Path) -> None:
    items = 2 * ITEMS
    x = np.arange(-30, 34, dtype=np.int32).reshape(items, LANES) * 1000003
    x[0] = np.iinfo(np.int32).min
    y = (np.arange(-30, 34, dtype=np.float32) / 8).reshape(items, LANES)
    outs = [np.zeros_like(x), np.zeros_like(y), np.zeros(items, np.complex64)]
    launcher = imported(text, folder).kernel[items, ITEMS]
    _against_simulator(device, launcher, [x, y, *outs], text)


def workgroup_arguments() -> list[np.ndarray[Any, Any]]:
    """Those of a kernel of `random_workgroups`, for three workgroups."""
    outs = [np.zeros((3 * WORKGROUP, ROWS), _dtype(kind)) for kind in _HELD]
    totals = [np.full(len(TOTALS), 1000, _dtype(kind)) for kind in KINDS[:4]]
    return [*_inputs(), *outs, *totals]


def _check_workgroups(device: Device, text: str, folder: Path) -> None:
    launcher = imported(text, folder).kernel[3 * WORKGROUP, WORKGROUP]
    _against_simulator(device, launcher, workgroup_arguments(), text)


def _check_control(device: Device, text: str, folder: Path) -> None:
    x = np.array([3, -7, 10, 0, 5, 1, 2, 8] * 2, np.int32)
    launcher = imported(text, folder).kernel[x.size, TOGETHER]
    out = np.zeros((x.size, VALUES), np.int32)
    _against_simulator(device, launcher, [x, out, *ROUNDS], text)


def _check_names(device: Device, text: str, folder: Path) -> None:
    expected = name_inputs()
    as_python(text)(*expected)
    given = [a.astype(np.int32) for a in name_inputs()]
    try:
        found = run(device, imported(text, folder).kernel[1, 1], *given)
    except KernelError as error:
        if error.reason.startswith(REFUSED):
            return
        raise
    _equal(found, list(expected), text)


def _moves(random: Random) -> Case:
    moves = random_moves(random)

    def check(device: Device, text: str, folder: Path) -> None:
        groups = pt.groups(*[1] * len(moves.workgroup))
        launcher = imported(text, folder).kernel[groups, moves.workgroup]
        _equal(run(device, launcher, *moves.arrays), moves.wanted, text)

    return Case(moves.text, check)


def _functions(random: Random) -> Case:
    made, rows = functions.random_functions(random)

    def check(device: Device, text: str, folder: Path) -> None:
        launcher = imported(text, folder).kernel[functions.ITEMS, 8]
        arguments = functions.function_inputs()
        with np.errstate(all="ignore"):
            wanted = run(pt.device("simulator"), launcher, *arguments)[2:]
        found = run(device, launcher, *arguments)[2:]
        for number, (name, kind, units) in enumerate(rows):
            at = functions.KINDS.index(kind)
            off = functions.units_off(found[at][number], wanted[at][number])
            assert off <= units + _SLACK, f"row {number}, {name} of {kind}: {off} units in\n{text}"

    return Case(made, check)


def _arrays(random: Random) -> Case:
    program = random_program(random)

    def check(device: Device, text: str, folder: Path) -> None:
        body = text.splitlines()[1:-1]
        program.lines[:] = [line.removeprefix("    ") for line in body]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = program.run(np, [x.copy() for x in program.inputs])
        own = device.for_arrays()
        xp = pt.xp(own)
        ours = program.run(xp, [own.from_numpy(x) for x in program.inputs])
        for name, want in wanted.items():
            _alike(name, pt.to_numpy(ours[name]), np.asarray(want), text)

    return Case(program.text, check)


def _alike(name: str, found: Any, wanted: Any, text: str) -> None:
    assert found.dtype == wanted.dtype, f"{name} is {found.dtype}, not {wanted.dtype}, in\n{text}"
    if not name.startswith(CLOSE):
        np.testing.assert_array_equal(found, wanted, err_msg=f"{name} in\n{text}")
        return
    near = 64 * float(np.finfo(wanted.dtype).eps)
    np.testing.assert_allclose(found, wanted, near, near, err_msg=f"{name} in\n{text}")


def _check_adjoints(device: Device, text: str, folder: Path) -> None:
    kernel = imported(text, folder).kernel
    arguments = adjoint_arguments()
    with small_strips() if len(text) % 2 else nullcontext():
        assert_gradients(device.name, kernel, (DIFFERENTIATED, 4), *arguments, rtol=2e-5, retries=2)


FAMILIES: Final[dict[str, Callable[[Random], Case]]] = {
    "scalars": lambda random: Case(random_kernel(random), _check_scalars),
    "exchange": lambda random: Case(random_exchange(random), _check_exchange),
    "workgroups": lambda random: Case(random_workgroups(random, 1), _check_workgroups),
    "control": lambda random: Case(random_control(random), _check_control),
    "moves": _moves,
    "functions": _functions,
    "names": lambda random: Case(random_names(random), _check_names),
    "adjoints": lambda random: Case(random_adjoint(random), _check_adjoints),
    "shuffles": lambda random: Case(random_adjoint(random, shuffles=True), _check_adjoints),
}
"""Of scalars of each work-item; of vectors and complex numbers; of work-items that meet; of
branches and loops around barriers; of tiles copied and multiplied; of functions that round; of
names whose sources change; of floats whose gradients are those of finite differences, and of those
that sub-groups exchange."""

PROGRAMS: Final[dict[str, Callable[[Random], Case]]] = {"arrays": _arrays}
"""Of functions of arrays."""


def check(family: str, device: Device, random: Random, folder: Path) -> None:
    """Makes a kernel of a family and holds it against what it should do.

    Raises
    ------
    AssertionError
        With the kernel's text, if a result is wrong.
    """
    case = (FAMILIES | PROGRAMS)[family](random)
    case.check(device, case.text, folder)
