"""How long a device takes to a product, worked out beforehand: which tiles, in how many parts.

A compute unit works off the tiles that fall to it, several side by side where they fit. Each round
of these (or each tile, where workgroups make tiles in turn) takes the arithmetic of its steps, the
way of their operands into local memory, and what cannot hide behind the next round: filling the
ring and storing the result. Where tiles are fewer than compute units can keep busy, the sum over k
is cut into parts, at the price of a second launch that adds them up. None of this is faster than
memory allows.

The scheme is that of a roof (S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52 (2009))
with quantised rounds, as the decomposition of M. Osama et al., "Stream-K", PPoPP 2023, starts from.
Its constants and rates were fitted to what products took on an H200. There its first choice took at
most 0.04 longer than the best of 7 to 42 choices of tiles and parts, for 28 products of all
precisions, and for 9 with tiles in turn in half precision 0.08 longer than the best of 2 to 5;
other devices have general rates, of which nothing was shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from math import ceil
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType, bfloat16, float16, float32
from portable.tune.space import Parameters
from portable.tune.table import device_keys

PARTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)
"""Into how many the sum over k may be cut."""

_USUAL: Final = 16
"""Parts beyond which a sum is cut only where the tiles leave most compute units without work."""
_TOGETHER: Final = 8
"""Parts that are on their way together when they are added up."""

_WARPGROUP: Final = 128
"""Work-items that multiply together; where copies are made apart, a part of one has that to do."""

_REGISTERS: Final = 65536
_MOST_ITEMS: Final = 2048
"""Of a compute unit, which workgroups share."""

_OTHER_REGISTERS: Final = 64
_OTHER_REGISTERS_SPECIALISED: Final = 28
"""What a work-item has beside its part of the result."""

_LATENCY: Final = 0.5
"""Microseconds from asking memory to having it: what is under way at once bounds its rate."""

_RAMP: Final = 4.0
"""Microseconds that memory loses at the beginning and the end of what takes it long."""

_BESIDE: Final = 0.15
"""What arithmetic and memory traffic cost each other."""

_SHARED: Final = 40 * 2**20
"""Bytes of a left operand that rows of tiles side by side find in the last cache of a large GPU."""

_LEAVING: Final = 0.05
"""Of the time, what it costs where they do not: on an H200 0.03 to 0.09 in double precision."""

_STORED_PERSISTENTLY: Final = 1.74
"""How much faster tiles are stored while the next one's operands come; fitted like the rates."""

_BIASED: Final = 0.006
"""Microseconds of a tile for each of its columns where a bias is added, of warpgroups."""

_PERSISTENT: Final = 1.02
"""What it costs that tiles are handed out beforehand."""

_DEEPEST: Final = 4
"""Steps that each part of a sum has at least."""

_ROUNDS: Final = 6
"""Tiles for each compute unit beyond which more of them help nothing."""


@dataclass(frozen=True, slots=True)
class Product:
    """What is multiplied: `batch` times M x K by K x N, perhaps `biased` on its way to memory.

    Other work has `taken` compute units meanwhile.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    biased: bool = False
    taken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a device does in a microsecond, as it was seen to.

    Attributes
    ----------
    arithmetic : float
        Multiplications and additions of a compute unit.
    traffic : float
        Elements of operands that a compute unit brings into tiles.
    stored : float
        Elements of a result that a compute unit finishes.
    half : float
        Elements of tiles on a compute unit at which arithmetic has half its rate.
    memory, summed : float
        Megabytes that memory moves, and that it moves while partial sums are added up.
    launch, round : float
        Microseconds of a launch, and of filling a ring.
    """

    arithmetic: float
    traffic: float
    stored: float
    half: float
    memory: float
    summed: float
    launch: float
    round: float


def multiplying(choice: Parameters) -> int:
    """The work-items that share a tile of the result out."""
    items = int(choice["WORKGROUP"])
    return (items - 1) // _WARPGROUP * _WARPGROUP if choice["SPECIALISED"] else items


def rates_of(choice: Parameters, dtype: DType, capabilities: Capabilities) -> Rates:
    """The rates of a device, or of one like it, in the way that a choice of tiles multiplies.

    Parameters
    ----------
    choice : mapping
        Of the space "gemm".
    dtype : DType
        Of the operands.
    capabilities : Capabilities
        Of the device.
    """
    units = capabilities.matrix_units if choice["UNITS"] else ()
    kind = "tf32" if dtype is float32 else dtype.short
    way = "units" if f"mma.{kind}" in units else "plain"
    if choice["SPECIALISED"] and f"wgmma.{kind}" in units:
        way = "specialised"
    return _rates_of(capabilities, dtype, way)


@lru_cache(maxsize=256)
def _rates_of(capabilities: Capabilities, dtype: DType, way: str) -> Rates:
    like = float16 if dtype is bfloat16 else float32 if dtype.itemsize == 1 else dtype
    table = _table()[like.name]
    key = next(key for key in device_keys(capabilities) if way in table.get(key, {}))
    return Rates(**table[key][way])


@cache
def _table() -> Any:
    resource = files("portable_data") / "tuning" / "gemm_rates.json"
    return json.loads(resource.read_text(encoding="utf-8"))


def predicted(
    choice: Parameters, parts: int, product: Product, dtype: DType, capabilities: Capabilities
) -> float:
    """Microseconds that a product is expected to take with a choice of tiles.

    Parameters
    ----------
    choice : mapping
        Of the space "gemm".
    parts : int
        Into how many the sum is cut.
    product : Product
        Its extents.
    dtype : DType
        Of the operands.
    capabilities : Capabilities
        Of the device.
    """
    rates = rates_of(choice, dtype, capabilities)
    compute_units = _free_units(product, capabilities)
    tiles = _tiles(choice, product) * parts
    shares = shares_out(choice)
    each = tiles / compute_units if shares else -(-tiles // compute_units)
    room = choice.get("RESIDENT") or _resident(choice, dtype, capabilities)
    beside: int = room if shares else min(int(each), room)
    busy = _unit_time(choice, product, parts, each, beside, rates)
    needed = _memory_time(choice, product, min(tiles, beside * compute_units), dtype, rates)
    sums = 0.0
    if parts > 1:
        moved = parts * product.batch * product.m * product.n * 2 * dtype.register.itemsize
        sums = rates.launch + 1e-6 * moved / rates.summed
        sums += max(0, parts - _USUAL) / _TOGETHER * _LATENCY
    elif shares and (left := tiles % (room * compute_units)):
        area = choice["BM"] * choice["BN"]
        moved = (left + room * compute_units) * area * 2 * dtype.register.itemsize
        sums = rates.launch + 1e-6 * moved / rates.memory
    time = max(busy, needed) + _BESIDE * min(busy, needed)
    leaving = _LEAVING * time if _leaves_cache(choice, product, dtype) else 0.0
    return rates.launch + time + leaving + sums


def _leaves_cache(choice: Parameters, product: Product, dtype: DType) -> bool:
    """Whether tiles side by side share more than stays in the last cache, in both directions."""
    rows, group = choice["BM"], choice["GROUP"]
    if min(product.m // rows, product.n // choice["BN"]) <= group:
        return False
    return bool(group * rows * product.k * dtype.itemsize > _SHARED)


def _unit_time(
    choice: Parameters, product: Product, parts: int, each: float, beside: int, rates: Rates
) -> float:
    """Microseconds of the busiest compute unit, which has `each` tiles, so many side by side."""
    m, n, k = choice["BM"], choice["BN"], choice["BK"]
    steps = ceil(ceil(product.k / k) / parts)
    area = m * n
    filled = beside * area / (beside * area + rates.half)
    step = area * k / (rates.arithmetic * filled) + (m + n) * k / rates.traffic
    step = max(step, _LATENCY / _ahead(choice) / beside)
    end = rates.round + area / rates.stored
    if product.biased and choice["SPECIALISED"]:
        end += _BIASED * n
    if choice.get("RESIDENT"):
        others = end - rates.round - area / rates.stored * (1 - 1 / _STORED_PERSISTENTLY)
        ends = end + max(0, each - 1) * others
        return float(each * steps * step + ends) * _PERSISTENT
    return float(each * steps * step + -(-each // beside) * end)


def _ahead(choice: Parameters) -> int:
    """Steps whose operands are under way while one is multiplied.

    Where multiplications run on their own, one more is held until the next has begun.
    """
    return int(max(1, choice["STAGES"] - (2 if choice["SPECIALISED"] else 1)))


def _memory_time(
    choice: Parameters, product: Product, running: int, dtype: DType, rates: Rates
) -> float:
    """Microseconds that the operands and the result are on their way at least."""
    m, n, k = product.m, product.n, product.k
    moved = product.batch * (m * k + k * n + m * n) * dtype.itemsize
    rows, columns = min(choice["BM"], m), min(choice["BN"], n)
    asked = running * _ahead(choice) * (rows + columns) * choice["BK"] * dtype.itemsize
    time: float = moved / min(1e6 * rates.memory, asked / _LATENCY)
    return time + min(_RAMP, time / 5)


def _resident(choice: Parameters, dtype: DType, capabilities: Capabilities) -> int:
    """Workgroups that a compute unit has room for."""
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    local = stages * (m + n) * k * dtype.itemsize
    held = m * n // multiplying(choice) * dtype.register.itemsize // 4
    registers = held + (_OTHER_REGISTERS_SPECIALISED if choice["SPECIALISED"] else _OTHER_REGISTERS)
    items = choice["WORKGROUP"]
    fitting = room // local, _REGISTERS // (registers * items), _MOST_ITEMS // items
    return int(max(1, min(fitting)))


def shares_out(choice: Parameters) -> bool:
    """Whether the last round of tiles is shared out among all workgroups."""
    return bool(choice.get("RESIDENT")) and not choice["SPECIALISED"]


def parts_of(choice: Parameters, product: Product, capabilities: Capabilities) -> Iterator[int]:
    """Into how many parts a sum over k may be cut.

    Parameters
    ----------
    choice : mapping
        Of the space "gemm".
    product : Product
        Its extents.
    capabilities : Capabilities
        Of the device, which has enough to do with so many tiles.
    """
    units = _free_units(product, capabilities)
    most = _ROUNDS * units
    for parts in (1,) if shares_out(choice) else PARTS:
        deep = product.k >= parts * _DEEPEST * choice["BK"]
        tiles = _tiles(choice, product)
        if parts > _USUAL and tiles * _USUAL >= units:
            return
        if parts == 1 or (deep and tiles * parts <= most):
            yield parts


def _free_units(product: Product, capabilities: Capabilities) -> int:
    return max(1, capabilities.compute_units - product.taken)


def _tiles(choice: Parameters, product: Product) -> int:
    down, across = -(-product.m // choice["BM"]), -(-product.n // choice["BN"])
    return int(down * across * product.batch)
