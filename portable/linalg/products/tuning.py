"""What may be tuned of the tile kernel, and which choices a call of `gemm` tries."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from portable.backend import Capabilities, Device
from portable.dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, int8
from portable.lang.tiles.mma_shapes import PARTS, room
from portable.linalg.products.model import Product, multiplying, parts_of, predicted
from portable.linalg.products.rows import bytes_by_units
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup_entries, state

_USUAL_DEPTH: Final = 1024

_VECTOR: Final = 16
"""Bytes that are copied at once; rows of parts of them are copied by elements, unless by TMA:
few work-items then keep many waiting."""

_LIKE: Final = {bfloat16: float16, int8: float32, float8_e4m3fn: float32, float8_e5m2: float32}
"""Types of which the table knows nothing, and those whose tiles they take."""

_COPIED: Final = 14
"""Multiplications in whose time a work-item that has a core to itself copies an element."""

_FINISHED: Final = 12
"""The same for clearing, finishing and storing an element of a tile."""

_KEPT: Final = 2
"""The same for bringing an unfinished element to memory and back, which a short last step of a sum
takes as well: 2048 x 64 x 2048 in steps of 48 took 1.4 times as long as at once, on two cores."""

_CROWD: Final = 4
"""How much longer such a device takes over tiles for workgroups of many work-items."""

_MANY: Final = 16
"""Tiles for each core of which it does not matter who takes which."""

_ORDER: Final = 0.01
"""What each place further down counts for where a model compares them."""

_GENERAL: Final = 0.25
"""What each entry of the table counts for that is less particular to the device than another."""

_UNTUNED: Final = 2.0
"""The same where a work-item has a core to itself: what was tuned there is taken."""

_WORTH: Final = 1 << 20
"""Multiplications of the busiest core that larger tiles are to spare where there are smaller ones.

That is a hundredth of a millisecond or two, which it takes 20,000 calls to gain for what compiling
a kernel of other tiles takes. Decompositions would want six for matrices of 300 columns.
"""

_CROWDS_ROWS: Final = 16
"""Of what the rows of a tile are multiples but where a work-item multiplies alone.

Such a one has tiles of a little more than an even share of 256 or 512 rows too.
"""


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    single = choice["WORKGROUP"] == 1
    if single != capabilities.single_work_items or choice["WORKGROUP"] > capabilities.max_workgroup:
        return False
    if not single and m % _CROWDS_ROWS:
        return False
    width = max(dtype.itemsize, 4) if single else dtype.itemsize
    specialised = choice["SPECIALISED"]
    if specialised and not _may_specialise(choice, dtype, capabilities):
        return False
    if choice.get("RESIDENT") and (single or stages == 1):
        return False
    needed = stages * (m + n) * k * width
    room = capabilities.local_memory_most
    per_item = m * n // multiplying(choice)
    registers = per_item * dtype.register.itemsize // 4
    return bool(needed * 17 // 16 <= room and (single or 16 <= registers <= 160))


def _is_possible(
    choice: Parameters, dtype: DType, product: Product, capabilities: Capabilities
) -> bool:
    """Whether local memory holds a choice's tiles, rows one after another, which is the least.

    And whether there is what those want that are copied apart: a driver may lack what another has.
    """
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    if choice["SPECIALISED"]:
        vector = _VECTOR // dtype.itemsize
        in_vectors = not (product.n % vector or product.k % vector)
        if not _may_specialise(choice, dtype, capabilities):
            return False
        if not (in_vectors or has_tensor_copies(capabilities)):
            return False
    return bool(stages * (m + n) * k * dtype.itemsize <= capabilities.local_memory_most)


def _may_specialise(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    """Where multiplications run on their own, in a ring with slots to run ahead in."""
    units = choice["UNITS"] and f"wgmma.{dtype.short}" in capabilities.matrix_units
    return bool(units and choice["STAGES"] > 2 and choice["WORKGROUP"] > multiplying(choice) > 0)


_VALUES: Final = {
    "BM": (16, 32, 48, 64, 96, 128, 132, 192, 256, 264, 384, 528),
    "BN": (32, 64, 128, 192, 256, 384, 512),
    "BK": (8, 16, 32, 48, 64, 96, 128),
    "STAGES": (1, 2, 3, 4, 6, 8),
    "SPECIALISED": (False, True),
    "WORKGROUP": (1, 64, 128, 160, 256, 288, 384, 512),
    "GROUP": (1, 4, 8),
    "UNITS": (False, True),
}

_LEFT_OUT: Final = {"SPECIALISED": False, "RESIDENT": 0}
"""RESIDENT: workgroups of a compute unit that make tiles in turn; 0 for one for each tile."""

SPACE: Final = Space("gemm", _VALUES, _fits, _LEFT_OUT)

SPACE_NT: Final = Space("gemm_nt", _VALUES, _fits, _LEFT_OUT)
"""For a `b` whose columns are contiguous.

Register tiles want its rows: copies across cost more, and larger tiles need fewer of them.
"""


SPACE_TF32: Final = Space("gemm_tf32", _VALUES, _fits, _LEFT_OUT)
"""For matrix units that round factors of single precision."""


def candidates(
    device: Device,
    dtype: DType,
    algorithm: str,
    size: tuple[int, int, int],
    b_columns: bool = False,
) -> tuple[Parameters, ...]:
    """Parameters to try for a result of (M, N, batch), the best first.

    For sums of a usual length, not cut into parts; for a `b` whose columns are contiguous those of
    "gemm_nt" come first.

    Parameters
    ----------
    device : Device
    dtype : DType
        Of the operands.
    algorithm : str
        As of `portable.linalg.gemm`.
    size : (int, int, int)
        M, N and the number of matrices.
    b_columns : bool
        Whether the columns of `b` are contiguous, not its rows.
    """
    m, n, batch = size
    product = Product(m, n, _USUAL_DEPTH, batch)
    ranked = schemes(device, dtype, algorithm, product, b_columns)
    can = has_tensor_copies(device.capabilities)
    return tuple(x for x, parts in ranked if parts == 1 and (can or not x["SPECIALISED"]))


def has_tensor_copies(capabilities: Capabilities) -> bool:
    """Whether TMA copies tiles; warps that copy them themselves take what is plain alone."""
    return "tensor" in capabilities.async_copy


def schemes(
    device: Device, dtype: DType, algorithm: str, product: Product, b_columns: bool = False
) -> tuple[tuple[Parameters, int], ...]:
    """Parameters to try for a product, and into how many parts to cut its sums, the best first.

    A model of the device ranks what its table lists (`portable.linalg.products.model`). Where a
    work-item has a core to itself, large tiles do more with what they copy, but the core with most
    tiles sets the time.

    Parameters
    ----------
    device, dtype, algorithm, b_columns
        As of `candidates`.
    product : Product
        Its extents.
    """
    return _ranked(device.capabilities, dtype, algorithm, product, b_columns, state())


@lru_cache(maxsize=4096)
def _ranked(
    capabilities: Capabilities,
    dtype: DType,
    algorithm: str,
    product: Product,
    b_columns: bool,
    table: Any,
) -> tuple[tuple[Parameters, int], ...]:
    """The schemes as of one state of the user's table."""
    extents, products = (product.m, product.n), product.batch * product.m * product.n * product.k
    if b_columns and bytes_by_units(capabilities, dtype, extents, products):
        return _ranked_of_bytes(capabilities, dtype, algorithm, product, table)
    spaces = (SPACE_NT, SPACE) if b_columns else (SPACE,)
    if algorithm == "tf32":
        spaces = (SPACE_TF32,)
    like = tiles_like(dtype)
    entries = [entry for space in spaces for entry in lookup_entries(space, like, capabilities)]
    result = [
        (_for_rung(dict(choice), algorithm), level)
        for level, entry in enumerate(entries)
        for choice in entry
    ]
    result = [x for x in result if _is_possible(x[0], dtype, product, capabilities)] or result
    units = max(1, capabilities.compute_units)
    ranked: list[tuple[float, int, Parameters, int]] = []
    for at, (choice, level) in enumerate(result):
        if capabilities.single_work_items:
            cost = _cost(choice, product, units) * (1 + _UNTUNED * level)
            ranked.append((cost, at, choice, 1))
            continue
        whole = algorithm in ("register", "pipelined")
        for parts in (1,) if whole else parts_of(choice, product, capabilities):
            time = predicted(choice, parts, product, dtype, capabilities)
            ranked.append((time * (1 + _GENERAL * level + _ORDER * at), at, choice, parts))
    ranked.sort(key=lambda x: x[:2])
    if capabilities.single_work_items:
        # The device's own entry lists large tiles first.
        near = ranked[0][0] + _WORTH / max(1, product.k)
        alike = [x for x in ranked if x[0] <= near and x[1] < len(entries[0])]
        ranked.sort(key=lambda x: x[1] != max((y[1] for y in alike), default=-1))
    return tuple((choice, parts) for _, _, choice, parts in ranked)


def tiles_like(dtype: DType) -> DType:
    """The type whose tiles products of another take, where the table knows nothing of it."""
    return _LIKE.get(dtype, dtype)


def _ranked_of_bytes(
    capabilities: Capabilities, dtype: DType, algorithm: str, product: Product, table: Any
) -> tuple[tuple[Parameters, int], ...]:
    """Those of matrix units for bytes: as for halves of a sum half as long, which are as many.

    Of bytes twice as many rows of tiles stay in caches. Of tiles as large, those made in turn
    come first: on an H200 products of 4096 and 8192 took 0.8 to 0.9 of the time so, in tall
    tiles or, where work-items add sums up, in wide ones.
    """
    halves = replace(product, k=-(-product.k // 2))
    apart = dtype is not int8 and algorithm != "fast"
    ranked = [
        (choice, parts, choice["BM"] * choice["BN"])
        for choice, parts in _ranked(capabilities, float16, algorithm, halves, False, table)
        if choice["SPECIALISED"] and (not apart or _adds_up(choice, algorithm))
    ]
    areas = [area for *_, area in ranked]
    ranked.sort(
        key=lambda x: (areas.index(x[2]), x[0]["RESIDENT"] != 1, (x[0]["BM"] > x[0]["BN"]) == apart)
    )
    return tuple(
        ({**choice, "BK": 2 * choice["BK"], "GROUP": 2 * choice["GROUP"]}, parts)
        for choice, parts, _ in ranked
    )


def _adds_up(choice: Parameters, algorithm: str) -> bool:
    """Whether work-items have registers for a step's sums, or some of them, beside those of all.

    Of whole warpgroups: on an H200 a warp of its own for copies took 1.33 of the time.
    """
    held, items = choice["BM"] * choice["BN"] // multiplying(choice), choice["WORKGROUP"]
    parts = held if algorithm == "blocks" else min(held, PARTS)
    return bool(items % 128 == 0 and held + parts <= room(items, choice["RESIDENT"]))


def _cost(choice: Parameters, product: Product, units: int) -> float:
    """Multiplications of the busiest core at each of the sum's steps, or what takes as long.

    A work-item alone leaves out what a tile holds beyond the result, but for clearing and finishing
    it, and for bringing sums to memory and back with each tile of operands but one.
    """
    rows, columns = _lengths(product.m, choice["BM"]), _lengths(product.n, choice["BN"])
    rounds = max(1, -(-product.k // choice["BK"]))
    kept = 1 + _KEPT * (rounds - 1) / max(1, product.k)
    each = float(_FINISHED * choice["BM"] * choice["BN"] / max(1, product.k))
    tiles = [kept * m * n + _COPIED * (m + n) + each for m in rows for n in columns]
    tiles *= product.batch
    crowd = 1 if choice["WORKGROUP"] == 1 else _CROWD
    fair: float = sum(tiles) / units + max(tiles) / 2
    return crowd * (fair if len(tiles) > _MANY * units else min(fair, _busiest(tiles, units)))


def _busiest(tiles: list[float], units: int) -> float:
    """What falls to the busiest core where each takes its share of the tiles from one place on.

    That is how Intel's runtime begins; who is done first takes over what others have not begun.
    """
    bounds = [core * len(tiles) // units for core in range(units + 1)]
    return max(sum(tiles[low:high]) for low, high in pairwise(bounds))


def _lengths(extent: int, tile: int) -> list[int]:
    """The extents of tiles along a dimension, the last perhaps smaller."""
    whole, rest = divmod(extent, tile)
    return [tile] * whole + [rest] * (rest > 0)


def _for_rung(choice: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """The same choice restricted to what a rung of the ladder may use."""
    if algorithm == "register":
        return {**choice, **_LEFT_OUT, "UNITS": False, "STAGES": 1}
    if algorithm == "pipelined":
        return {**choice, **_LEFT_OUT, "UNITS": False, "STAGES": max(2, choice["STAGES"])}
    return choice
