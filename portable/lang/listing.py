"""The text that is generated for a kernel, to be read."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable import registry
from portable.backend import ArrayView, Device
from portable.errors import PortableError, UnsupportedError, without_frames
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import flattened
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.namespace import device_of, elsewhere, on_device


def source(
    kernel: Kernel | Launcher, *args: Any, device: str | Device | None = None, **constants: Any
) -> str:
    """The source that a launch with these arguments would compile; nothing is compiled or run.

    Parameters
    ----------
    kernel : kernel, or kernel[ndrange, workgroup]
        A bare kernel stands for whole workgroups of the default size in one dimension.
    *args
        The arguments. NumPy arrays may stand for arrays of any device.
    device : str or Device
        Which device to generate for; where the arrays live if left out.
    **constants
        The keyword-only parameters.

    Raises
    ------
    UnsupportedError
        For the simulator, which runs kernels without generating source.
    """
    launcher = kernel if isinstance(kernel, Launcher) else kernel[groups(1)]
    if not isinstance(launcher.kernel, Kernel):
        raise UnsupportedError(f"{launcher.kernel!r} was read from a package, without its source")
    leaves = flattened(args)
    arrays = [x for x in leaves if is_array(x)]
    chosen = _where_run(arrays) if device is None else registry.device(device)
    if chosen.interprets:
        raise UnsupportedError(
            f"{chosen.name} runs kernels without generating source; name another device"
        )
    views = [_view(chosen, x) if is_array(x) else None for x in leaves]
    try:
        wanted = launcher.specialised(chosen, args, views, constants)
        ir = launcher.kernel.translated(wanted, chosen.capabilities)
    except PortableError as error:
        raise without_frames(error) from error.__cause__
    return generate(ir, chosen.capabilities).source


def _where_run(arrays: list[Any]) -> Device:
    """The device of a launch with these arrays."""
    away = elsewhere() if all(isinstance(x, np.ndarray) for x in arrays) else None
    return away or device_of(*arrays)


def _view(device: Device, x: Any) -> ArrayView:
    if isinstance(x, np.ndarray) and not device.owns(x):
        address = x.__array_interface__["data"][0]
        return ArrayView(x.dtype, x.shape, x.strides, None, address, writable=x.flags.writeable)
    return device.view(on_device(device, x))
