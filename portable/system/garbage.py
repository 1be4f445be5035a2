"""When Python looks for garbage in circles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collected_later"]


@contextmanager
def collected_later() -> Iterator[None]:
    """Leave circles of garbage to a later look, for work that makes many objects and few circles.

    A kernel under translation is ten thousands of small objects, which Python would look through
    again and again: a tenth of the time.
    """
    if not gc.isenabled():  # by the user, or by another thread, which will enable it
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
