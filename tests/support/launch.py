"""Running kernels of the language on a device, with NumPy arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portable import use
from portable.backend import Device

Array = np.ndarray[Any, Any]


def run(device: Device, launcher: Callable[..., None], *args: Any, **constants: Any) -> list[Array]:
    """Copies the arrays among the arguments to the device, launches, returns them as left."""

    def unchanged(x: Any) -> Any:
        return x

    views = [unchanged if isinstance(x, np.ndarray) else None for x in args]
    return run_on_views(device, launcher, args, views, **constants)


def run_on_views(
    device: Device,
    launcher: Callable[..., None],
    args: Any,
    views: list[Callable[[Any], Any] | None],
    **constants: Any,
) -> list[Array]:
    """As `run`, each array passed as a view of its copy; returns the whole copies."""
    held = [x if v is None else device.from_numpy(x) for x, v in zip(args, views, strict=True)]
    passed = [x if v is None else v(x) for x, v in zip(held, views, strict=True)]
    with use(device):
        launcher(*passed, **constants)
        device.synchronize()
    return [device.to_numpy(x) for x, v in zip(held, views, strict=True) if v is not None]
