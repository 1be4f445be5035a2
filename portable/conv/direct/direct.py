"""Launches of products that are gathered from images."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.conv.direct.kernels import (
    FilterGradient,
    Gathering,
    Results,
    gathered_product,
)
from portable.conv.geometry import Geometry
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, Method, Split
from portable.dtypes import DType, dtype
from portable.lang.function import Function
from portable.lang.launch.again import lies_whole
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import keep
from portable.linalg.products.tuning import candidates, multiplying
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters

_ENOUGH: Final = 2
"""Tiles for each compute unit above which the images of a gradient are not cut further."""

_TILE: Final = 64
"""About the edge of a tile."""

_SLOTS: Final = 2
"""Tiles of each operand in local memory."""


class Gathered(Method):
    """The product that is gathered from images as they are: of any strides and groups."""

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        shape = self.shape
        left = self.device.namespace().reshape(filters, (1, shape.filters, shape.depth))
        numbers = (shape.channels // shape.groups, shape.result[1])
        residual = epilogue.residual_nchw(self.device, self.layout)
        arguments = (left, x, out, epilogue.bias, residual, *numbers)
        _launch(
            self.device, shape, Results, arguments, epilogue.activation, self.choice, self.splits
        )


def filter_gradient(
    device: Device, shape: Geometry, x: Any, dy: Any, out: Any, choice: Parameters | None = None
) -> None:
    """Makes parts of the gradient by the filters, each of some of the images.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    shape : Geometry
        Of the convolution.
    x : array, shape (N, C, H, W)
        The images.
    dy : array, shape (N, K, H', W')
        The gradient by the results.
    out : array, shape (parts, K, C / groups, R, S)
        Where to put them.
    choice : mapping, optional
        What to use instead of the table of tuned parameters.
    """
    space = device.namespace()
    height, width = shape.result
    left = space.reshape(dy, (shape.images, shape.filters, height * width))
    target = space.reshape(out, (out.shape[0], shape.filters, shape.depth, 1))
    depth = shape.channels // shape.groups
    _launch(
        device, shape, FilterGradient, (left, x, target, None, None, depth, width), keep, choice
    )


def parts(device: Device, shape: Geometry) -> int:
    """Into how many parts of its images a gradient by filters is cut, to have all units at work."""
    rows, columns = shape.filters // shape.groups, shape.depth
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * shape.groups
    wanted = -(-_ENOUGH * device.capabilities.compute_units // tiles)
    images = -(-shape.images // max(1, min(shape.images, wanted)))
    return -(-shape.images // images)


def _launch(
    device: Device,
    shape: Geometry,
    product: Any,
    arguments: tuple[Any, ...],
    activation: Function,
    tried: Parameters | None = None,
    split: Split = False,
) -> None:
    """A workgroup for each tile of each matrix of the target."""
    left, x, out, bias, residual, *others = arguments
    kind = dtype(x.dtype)
    parts, channels, height, width = out.shape
    count, m, n = parts * shape.groups, channels // shape.groups, height * width
    flat = shape.groups == 1 and in_c_order(device, out)
    flat = flat and (residual is None or in_c_order(device, residual))
    if flat:
        out = device.namespace().reshape(out, (parts, channels, 1, n))
        if residual is not None:
            residual = device.namespace().reshape(residual, (parts, channels, 1, n))

    def use(choice: Parameters) -> None:
        tiles = -(-m // choice["BM"]) * -(-n // choice["BN"])
        tiling = Tiling.of({**choice, "STAGES": _SLOTS, "APART": False}, split=split)
        gathering = Gathering(product, shape.window, shape.groups, flat, tiling, activation)
        launcher = gathered_product[groups(tiles * count), (multiplying(choice), 1, 1)]
        enqueue(launcher, left, x, out, bias, residual, *others, GATHERING=gathering)

    rung = "auto" if kind.itemsize == 2 else "tf32" if split else "register"
    choices = tiles_for(device, kind, rung, (m, n, count)) if tried is None else (tried,)
    first_accepted(choices, use)


def tiles_for(
    device: Device, kind: DType, rung: str, size: tuple[int, int, int]
) -> tuple[Parameters, ...]:
    """The tiles of `gemm` of which local memory holds two slots, the best first.

    Others would be refused at each launch, after all that goes before it.

    Parameters
    ----------
    device : Device
    kind : DType
        Of images and filters.
    rung : str
        An algorithm of `gemm`.
    size : (int, int, int)
        Rows and columns of the matrices, and how many there are.
    """
    can = device.capabilities
    room = max(can.local_memory, can.local_memory_opt_in) // (_SLOTS * kind.itemsize)
    known = candidates(device, kind, rung, size)
    return tuple(x for x in known if (x["BM"] + x["BN"]) * x["BK"] <= room) or known


def in_c_order(device: Device, x: Any) -> bool:
    """Whether elements follow each other in memory, the last dimension fastest."""
    return lies_whole(device.view(x))
