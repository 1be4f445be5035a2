"""The `device` fixture: one suite, run on the devices that `tests/support/devices.py` chooses.

A test says with a marker, or by asking for a fixture, what it needs of a device. It is not
collected for devices that lack it; the last lines of a run count what was left out, by device and
reason. Where all devices lack it, the test is skipped by that name.
"""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from portable import registry
from portable.backend import Device
from portable.system.isolation import with_room
from tests.support.devices import (
    compiled_by,
    day,
    device_names,
    keep_no_binaries,
    lacks,
    out_of_turn,
    spared,
)

_left_out: Final[Counter[str]] = Counter()
"""Tests that were not collected, by device and reason."""

_leading: Final[dict[Path, str]] = {}
"""By file the first of its tests."""


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn; skipped where it lacks what the test needs."""
    found = registry.device(request.param)
    markers = [marker.name for marker in request.node.iter_markers()]
    if lacking := lacks(found, markers, request.fixturenames):
        pytest.skip(lacking)
    keep_no_binaries(found)
    if _name_of_dtype(request) in ("float64", "complex128") and not found.capabilities.float64:
        pytest.skip(f"{found.name} lacks double precision")
    return found


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Python's own handler of Ctrl-C, which processes in the background begin without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _name_of_dtype(request: pytest.FixtureRequest) -> str:
    """That of the test's parameter, if it has one."""
    callspec = getattr(request.node, "callspec", None)
    given = callspec.params.get("dtype", "") if callspec else ""
    return str(getattr(given, "name", given))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_processor") and not registry.devices_of_backend("cpu"):
        pytest.skip("no runtime for the processor was found, which runs NumPy's arrays")


# -- what is collected ----------------------------------------------------------------------------


def pytest_configure() -> None:
    """One day for all workers of pytest-xdist, which begin after this."""
    day()


def pytest_report_header() -> str:
    """What is to be set for the same tests on another day."""
    return f"tests that take turns are those of PORTABLE_TEST_DAY={day()}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    _leading.setdefault(metafunc.definition.path, metafunc.definition.nodeid)
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", _devices_for(metafunc), indirect=True)


def _devices_for(metafunc: pytest.Metafunc) -> list[str]:
    """Those that have what a test needs; one that lacks it, to say so, if none does."""
    names = device_names()
    markers = [marker.name for marker in metafunc.definition.iter_markers()]
    lacking = {name: lacks(registry.device(name), markers, metafunc.fixturenames) for name in names}
    able = [name for name in names if not lacking[name]]
    _left_out.update(lacking[name] for name in names if able and lacking[name])
    test = metafunc.definition.nodeid
    late = out_of_turn(test, leads=_leading[metafunc.definition.path] == test)
    in_turn = [name for name in able if name not in late]
    if in_turn:  # thousands of cases need not be made to be left out
        _left_out.update(late[name] for name in able if name in late)
    return in_turn or able or names[:1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what a device with the same compiler runs."""
    reasons = spared([(item.nodeid, _device_name(item)) for item in items])
    left_out = [item for item, reason in zip(items, reasons, strict=True) if reason]
    items[:] = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    _left_out.update(filter(None, reasons))
    config.hook.pytest_deselected(items=left_out)


def _device_name(item: pytest.Item) -> str:
    """The device of a case; of one that takes a runtime for the processor the device over it."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    capabilities = getattr(params.get("runtime"), "capabilities", None)
    if capabilities is not None:  # as where no runtime is found
        return compiled_by(capabilities.vendor)
    return str(params.get("device", ""))


_RARELY: Final = (100_000, 20, 100)
"""How often garbage is looked for: kernels under translation are many small objects that stay."""


def pytest_collection_finish() -> None:
    """What is there by now stays: collectors of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """What a file's tests leave for good, as kernels and their programs, is looked through once.

    Else each collection goes through all of it: seconds, once some thousand tests have run.
    """
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Below pytest calls are so deep that pieces of memory for frames come and go."""
    names = pyfuncitem._fixtureinfo.argnames
    with_room(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True


# -- what was not collected is counted at the end -------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the counts of a worker of pytest-xdist to the process that reports."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes them; all workers collect alike."""
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}) if not _left_out else {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in sorted(_left_out.items()):
        terminalreporter.write_line(f"not collected: {count} tests, since {reason}")
