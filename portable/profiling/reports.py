"""What kernels report by themselves, raised as exceptions at the next synchronisation.

Whoever has kernels write reports to a device's memory says so by `expect`; whoever waits for the
device then calls `raise_reported`.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Final

from portable.backend import Device
from portable.errors import PortableError
from portable.system.locks import fork_safe_lock

Collect = Callable[[], PortableError | None]

_expected: Final[dict[Device, Collect]] = {}
_lock: Final = fork_safe_lock()


def expect(device: Device, collect: Collect) -> None:
    """Have a device asked for a report, which `collect` gives and forgets, after it was waited for.

    Asked once; to be called again with each launch that may report.
    """
    if device not in _expected:
        with _lock:
            if not _expected:
                atexit.unregister(_tell_at_end)
                atexit.register(_tell_at_end)
            _expected[device] = collect


def raise_reported(device: Device) -> None:
    """Raise what kernels of a device that was waited for have reported."""
    if device in _expected:
        with _lock:
            collect = _expected.pop(device, None)
        error = collect() if collect else None
        if error is not None:
            raise error


def _tell_at_end() -> None:
    """Print what nobody waited for."""
    for device in list(_expected):
        try:
            device.synchronize()
            raise_reported(device)
        except PortableError as error:
            print(f"portable.errors.{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
