"""What a thread does before CuPy or its driver keeps it waiting, and with it other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_here = threading.local()


def get_ready() -> None:
    """To be called before a program is loaded, memory is taken or the device is waited for."""
    ready = getattr(_here, "ready", None)
    if ready is not None:
        ready()


@contextmanager
def before_waits(ready: Callable[[], None]) -> Iterator[None]:
    """A context that has `get_ready` of this thread call `ready`, as CuPy's pool does too."""
    from cupy.cuda import MemoryHook

    class Hook(MemoryHook):  # type: ignore[misc]  # (CuPy is not typed)
        name = "portable.parallel"

        def alloc_preprocess(self, **_: Any) -> None:
            """Before the driver is asked for memory, and may wait for what goes on."""
            ready()

    before = getattr(_here, "ready", None)
    _here.ready = ready
    try:
        with Hook():
            yield
    finally:
        _here.ready = before
