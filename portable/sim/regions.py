"""The elements of a rectangular part of an array."""

from __future__ import annotations

from typing import cast

import numpy as np

from portable.lang.ir.expressions import Expression
from portable.lang.ir.types import Region
from portable.sim.expressions import Builder
from portable.sim.memory import Access, locate
from portable.sim.touches import Site
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup


class Part:
    """A region of an array, ready to be accessed.

    Attributes
    ----------
    region : Region
        The region.
    site : Site
        The statement that accesses it.
    """

    def __init__(self, region: Region, site: Site, b: Builder) -> None:
        self.region = region
        self.site = site
        self._starts = b.expressions(cast(tuple[Expression, ...], region.starts), site)

    def starts(self, w: Workgroup) -> Value:
        """Where the region starts for each work-item: a row each, a column per dimension."""
        columns = [start(w).astype(np.int64) for start in self._starts]
        return np.stack(columns, axis=1)

    def access(self, w: Workgroup, starts: Value, threads: Value) -> Access:
        """The components of one region per row of `starts`, each accessed by one thread.

        In the order of the region's shape, the halves of a complex element innermost. Elements
        outside a global array are left out.
        """
        index = self._index(starts)
        count = index[0].size
        items = np.repeat(threads, count // len(threads))
        width = w.buffers[self.region.array].width
        component = np.tile(np.arange(width), count)
        wide = tuple(np.repeat(i.reshape(-1), width) for i in index)
        clip = self.region.array.space == "global"
        return locate(w, self.site, wide, np.repeat(items, width), component, clip)

    def _index(self, starts: Value) -> tuple[Value, ...]:
        """Per dimension of the array, an index per region and element of its shape."""
        extents = self.region.extents
        shape = tuple(1 if extent is None else extent for extent in extents)
        steps = np.indices(shape)
        out = []
        for start, along in zip(starts.T, steps, strict=True):
            kept = along.reshape([extent for extent in extents if extent is not None])
            kept = kept.T if self.region.transposed else kept
            out.append(start.reshape((-1,) + (1,) * kept.ndim) + kept)
        return tuple(out)
