"""Products whose last round of tiles is shared out: what is launched for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable.dtypes import DType
from portable.lang.function import Function
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.share_kernels import gemm_share_sums, gemm_shares

__all__ = ["Sharing", "first_launch", "sharing_for"]

_LINE: Final = 256
"""Work-items of a workgroup that adds parts up."""

_EACH: Final = 8
"""Elements of each of them at most."""

_LEAST: Final = 2
"""Times as many steps as copies run ahead, of a share or a tile that is cut."""


class Sharing(NamedTuple):
    """Who makes what of a product.

    Attributes
    ----------
    tiling : Tiling
        The tiles.
    groups : int
        Workgroups that run at once.
    shared : int
        Tiles that are left when each has made as many whole ones as the others.
    depth : int
        The extent that is summed over.
    """

    tiling: Tiling
    groups: int
    shared: int
    depth: int

    def steps(
        self,
        launcher: Launcher,
        args: tuple[Any, ...],
        constants: dict[str, Any],
        activation: Function,
        empty: Callable[[tuple[int, ...], DType], Any],
    ) -> Iterator[tuple[Launcher, tuple[Any, ...], dict[str, Any]]]:
        """The launches, each with its arguments and constants.

        Parameters
        ----------
        launcher : Launcher
            The first one.
        args : tuple
            ``(alpha, a, b, beta, c, bias, out)``, of which beta and c are not used.
        constants : dict
            Of the first one.
        activation : Function
            What is applied at last.
        empty : callable
            Makes room for parts of sums.
        """
        alpha, a, b, _, _, bias, out = args
        area = self.tiling.rows, self.tiling.columns
        parts = empty((2 * self.groups if self.shared else 1, *area), constants["ACC"])
        yield launcher, (alpha, a, b, bias, parts, out), constants
        if self.shared:
            count = prod(area)
            each = gcd(_EACH, count // _LINE)
            pieces = self.shared * count // (each * _LINE)
            how = {"TILING": self.tiling, "EACH": each, "ACTIVATION": activation}
            own = parts, alpha, bias, self.depth, self.groups, out
            yield gemm_share_sums[groups(pieces), (_LINE, 1, 1)], own, how


def sharing_for(tiling: Tiling, tiles: int, most: int, depth: int) -> Sharing | None:
    """How to share out the tiles of a result; None for few tiles, or sums too short to be cut.

    Parameters
    ----------
    tiling : Tiling
        The tiles, whose operands are asked for ahead.
    tiles : int
        How many there are.
    most : int
        Workgroups that run at once.
    depth : int
        The extent that is summed over.
    """
    steps, least = -(-depth // tiling.depth), _LEAST * tiling.ahead
    shared = tiles % most
    if tiles < most or steps < least or shared * steps < least * most * (shared > 0):
        return None
    return Sharing(tiling, most, shared, depth)


def first_launch(sharing: Sharing, items: int) -> Launcher:
    """The kernel that makes tiles and shares, of so many work-items each."""
    return gemm_shares[groups(sharing.groups), (items, 1, 1)]
