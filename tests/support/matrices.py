"""Kernels for devices with matrix units and copy engines, which are lowered in tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.arguments.arguments import ArraySpec, Specialisation
from portable.lang.frontend.compile import translate
from portable.lang.function import function
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.kernel import Kernel as Marked
from portable.lang.kernel import kernel
from tests.support.compilers import CUDA

HOPPER = replace(CUDA, matrix_units=CUDA.matrix_units | {"wgmma.f16"})
ENGINE = replace(HOPPER, async_copy=frozenset({"vector", "bulk", "tensor"}))
AMPERE = replace(CUDA, architecture="sm_80")
OPENCL = replace(AMPERE, dialect="opencl", sub_group_size=1, local_memory_opt_in=CUDA.local_memory)


class Reader(NamedTuple):
    """Tiles of two matrices, of the rows and columns from some on."""

    a: Any
    b: Any
    row: Any
    column: Any

    def start(self, tile_a: Any, tile_b: Any, step: Any) -> None:
        (BM, BK), BN, row, column = tile_a.shape, tile_b.shape[1], self.row, self.column
        kl.copy_async(tile_a, self.a[row : row + BM, step * BK : step * BK + BK])
        kl.copy_async(tile_b, self.b[step * BK : step * BK + BK, column : column + BN])


@kernel
def in_turn(a: Any, b: Any, out: Any, *, BM: int, BN: int, BK: int, STAGES: int) -> None:
    row, column = kl.group_id(1) * BM, kl.group_id(0) * BN
    tile_a = kl.local((STAGES, BM, BK), a.dtype)
    tile_b = kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), kl.f32, scope="workgroup")
    acc.fill(0)
    reader, steps = Reader(a, b, row, column), kl.cdiv(a.shape[1], BK)
    kl.pipeline(acc, (tile_a, tile_b), reader.start, 0, steps, ahead=0)
    acc.map(doubled)
    acc.store(out[row : row + BM, column : column + BN])


@function
def doubled(x: Any, i: Any, j: Any) -> Any:
    return x + x if i == j else x


def translated(
    what: Marked,
    kind: DType,
    result: DType,
    items: int,
    on: Capabilities,
    layouts: str,
    out: str = "r",
    restrict: bool = True,
    **sizes: int,
) -> Kernel:
    """`layouts` of a and b, and `out`: "r" row-major, "c" a transposed view; "R", "C" aligned.

    What is aligned can be described to a copy engine.
    """
    arrays = [
        ArraySpec(
            dtype, ("unit", "any") if x in "cC" else ("any", "unit"), x.isupper(), boxed=x.isupper()
        )
        for dtype, x in zip((kind, kind, result), (*layouts, out), strict=True)
    ]
    wanted = Specialisation(
        tuple(arrays), tuple(sizes.items()), (items, 1, 1), False, restrict, Options()
    )
    return translate(what.python, wanted, on)


def operands(m: int, n: int, k: int, kind: DType, layouts: str) -> tuple[Any, Any]:
    """Small integers, whose products are exact."""
    rng = np.random.default_rng(m + n + k)
    shapes = (m, k), (k, n)
    a, b = (rng.integers(-4, 5, shape).astype(kind.numpy) for shape in shapes)
    a, b = (
        np.asfortranarray(x) if layout in "cC" else x
        for x, layout in zip((a, b), layouts, strict=True)
    )
    return a, b


def sizes_of(tile: tuple[int, int, int], stages: int) -> dict[str, int]:
    """The constants of `product`."""
    return {**dict(zip(("BM", "BN", "BK"), tile, strict=True)), "STAGES": stages}
