"""The gradient by filters by Winograd's minimal filtering, the transpose of the convolution.

What is summed over tiles of images are the products of transformed tiles of images and of
gradients by results; their sums are transformed to filters at last.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.conv.tuning import exact, winograd_choices
from portable.conv.winograd.kernels import transform_gradient, transform_sums
from portable.conv.winograd.product_kernels import multiply_many
from portable.conv.winograd.winograd import Winograd
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.tune.search import Parameters
from portable.tune.table import first_accepted, state

_ENOUGH: Final = 4
"""Tiles of products for each compute unit above which sums are not cut further."""

_MANY: Final = 4096
"""Matrices of which the tiles of all kinds keep all units at work."""


@dataclass(frozen=True, slots=True)
class WinogradGradient:
    """The gradient by filters of a convolution.

    Attributes
    ----------
    forward : Winograd
        The convolution.
    """

    forward: Winograd

    def run(self, x: Any, dy: Any, dw: Any) -> None:
        """Makes `dw` (K, C / groups, 3, 3) of images and gradients, seen as (N, C, H, W)."""
        forward = self.forward
        device, kind = forward.device, forward.workspace_kind
        workspace = device.empty((forward.workspace()[0],), kind)
        block = forward.block
        batch = workspace.shape[0] // forward.each * block
        firsts = range(0, forward.total, batch)
        parts = self._parts(min(batch, forward.total))
        sums = device.empty((len(firsts) * parts, *self._matrices()), kind)
        for at, first in enumerate(firsts):
            tiles = min(batch, forward.total - first)
            blocks = -(-tiles // block)
            v, m = forward.matrices(workspace, blocks)
            forward.transform_images(x, v, first)
            self._transform_gradient(dy, m, first)
            self._sum(m, v, sums[at * parts : (at + 1) * parts], tiles)
        enqueue(transform_sums[(dw.shape[1], dw.shape[0]), None], sums, dw, BY=forward.by)

    def _matrices(self) -> tuple[int, int, int, int]:
        """Elements of a tile, groups, filters and channels of a group."""
        shape = self.forward.shape
        count = shape.groups
        return self.forward.by.inputs**2, count, shape.filters // count, shape.channels // count

    def _parts(self, tiles: int) -> int:
        """Into how many parts the sums over so many tiles are cut, to have all units at work."""
        choice = self._choices()[0]
        elements, count, rows, columns = self._matrices()
        products = int(elements * count * -(-rows // choice["BM"]) * -(-columns // choice["BN"]))
        units = self.forward.device.capabilities.compute_units
        return max(1, min(-(-_ENOUGH * units // products), -(-tiles // self.forward.block)))

    def _choices(self) -> tuple[Parameters, ...]:
        """Large tiles, since sums are cut into as many parts as keep all units at work."""
        forward, columns = self.forward, self._matrices()[3]
        if forward.choice is not None:
            return (forward.choice,)
        can, kind = forward.device.capabilities, forward.workspace_kind
        return winograd_choices(can, kind, forward.shape, columns, _MANY, state(), blocked=False)

    def _transform_gradient(self, dy: Any, m: Any, first: int) -> None:
        forward = self.forward
        launcher = transform_gradient[forward.launch(m.shape[0], forward.shape.filters)]
        enqueue(launcher, dy, forward.turned(m), forward.tiles_from(first), PLAN=forward.plan)

    def _sum(self, m: Any, v: Any, sums: Any, tiles: int) -> None:
        """Sums of products of transformed gradients (K, tiles) and images (tiles, C)."""
        space, forward = self.forward.device.namespace(), self.forward
        left = forward.turned(m)
        right = v if forward.channels_fast else space.permute_dims(v, (0, 1, 2, 4, 3))
        *count, rows, columns = sums.shape

        def use(choice: Parameters) -> None:
            each = -(-rows // choice["BM"]) * -(-columns // choice["BN"])
            enqueue(
                multiply_many[groups(prod(count) * each), (choice["WORKGROUP"], 1, 1)],
                left,
                right,
                sums,
                tiles,
                TILING=Tiling.of(exact(choice)),
                RUN=1,
                DOWN=True,
                ACC=forward.workspace_kind,
            )

        first_accepted(self._choices(), use)
