"""The launches of each algorithm of `gemm`: kernels, workgroups, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.lang.function import Function
from portable.lang.kernel import Kernel
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.linalg.base.tiling import Tiling
from portable.linalg.products import kernels
from portable.linalg.products.by_vector import by_vector_for, gemm_by_vector
from portable.linalg.products.model import Product, shares_out
from portable.linalg.products.slim import gemm_slim, gemm_wide, slim_for, wide_for
from portable.linalg.products.tuning import schemes
from portable.tune.space import Parameters
from portable.tune.ways import Way, Ways

_EDGE: Final = 16
"""Edge of the squares of the rungs "naive" and "tiled", one work-item per element."""

_SQUARES: Final[Parameters] = {
    **dict.fromkeys(("BM", "BN", "BK"), _EDGE),
    "STAGES": 1,
    "WORKGROUP": _EDGE * _EDGE,
    "GROUP": 1,
    "UNITS": False,
}
"""Tiles of which each element read serves as many products, each of two loads from local memory."""

BLOCK: Final = 128
"""Products of a step, of which blocks that have factors of their own are multiples."""

MOST_ROWS: Final = 256
"""Rows or columns of a tile, whose factors by blocks are read without looking where they end."""

_LINE: Final = 256
"""Work-items of a workgroup that adds partial sums up."""

_EACH: Final = 8
"""Elements of each of them at most, where they add up parts of tiles."""

_LEAST: Final = 2
"""Times as many steps as copies run ahead, of a share or a tile that is cut."""

_LONGEST: Final = 1 << 16
"""Products that tiles of a lone work-item add up, those of a step by themselves first."""

_LONGEST_OF_CROWDS: Final = 1 << 13
"""The same for workgroups, whose partial sums go to memory and back, 0.01 of the time."""

_LONGEST_OF_FEWER_BITS: Final = 1 << 20
"""The same where a result has fewer bits than what it is summed in: that drifts unseen for long."""


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
    ) -> Iterator[Step]:
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
            arguments = parts, alpha, bias, self.depth, self.groups, out
            yield kernels.gemm_share_sums[groups(pieces), (_LINE, 1, 1)], arguments, how


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
    return kernels.gemm_shares[groups(sharing.groups), (items, 1, 1)]


Step = tuple[Launcher, tuple[Any, ...], dict[str, Any]]


class TileLaunch(NamedTuple):
    """A kernel over the tiles of a result, and its compile-time constants.

    Attributes
    ----------
    launcher : Launcher
        The kernel with its workgroups.
    constants : dict
        By name.
    parts : int
        Into how many the sums are cut; of several, it makes partial results (`in_order`).
    sharing : Sharing or None
        How the last tiles are shared out (`in_order`).
    """

    launcher: Launcher
    constants: dict[str, Any]
    parts: int = 1
    sharing: Sharing | None = None


class EpilogueKind(NamedTuple):
    """What is done to sums of products.

    Attributes
    ----------
    added : bool
        Whether `c` is added, for which workgroups meet before they store: they do not make tiles in
        turn.
    biased : bool
        Whether a bias is.
    """

    added: bool = False
    biased: bool = False


_NOTHING: Final = EpilogueKind()


class Asked(NamedTuple):
    """What is asked of the ways of a product.

    Attributes
    ----------
    device, kind, shape
        Where the result is made, its dtype and its shape (..., M, N).
    k : int
        The extent that is summed over.
    algorithm : str
        What `gemm` calls so, or "tf32": by matrix units that round factors of single precision.
    constants : dict
        ``ACC`` and ``ACTIVATION``.
    b_columns : bool
        Whether the columns of `b` are contiguous, not its rows.
    beside : EpilogueKind
        What is done to sums of products.
    taken : int
        Compute units that other work has meanwhile.
    a_columns : bool
        Whether the columns of `a` are contiguous, where `b` is a column.
    """

    device: Device
    kind: DType
    shape: tuple[int, ...]
    k: int
    algorithm: str
    constants: dict[str, Any]
    b_columns: bool
    beside: EpilogueKind = _NOTHING
    taken: int = 0
    a_columns: bool = False

    @property
    def best(self) -> bool:
        """Whether any kernel may be taken, not a rung of the ladder alone."""
        return self.algorithm in ("auto", "matrix")

    @property
    def product(self) -> Product:
        """The extents."""
        *lead, m, n = self.shape
        return Product(m, n, self.k, prod(lead), self.beside.biased, self.taken)


def launches(asked: Asked) -> Iterator[TileLaunch]:
    """What to try, the best first."""
    return iter(()) if asked.algorithm == "vendor" or 0 in asked.shape else PRODUCTS.of(asked)


def _naive(asked: Asked) -> Iterator[TileLaunch]:
    square = (_EDGE, _EDGE, 1)
    launcher = _over_tiles(kernels.gemm_naive, asked.shape, _EDGE, _EDGE, square)
    yield TileLaunch(launcher, asked.constants)


def _in_squares(asked: Asked) -> Iterator[TileLaunch]:
    constants = {name: asked.constants[name] for name in ("ACC", "ACTIVATION")}
    yield tiles_launch(_SQUARES, asked.shape, constants)


def _by_vector(asked: Asked) -> Iterator[TileLaunch]:
    """A row or a column by a matrix, where work-items are alone."""
    capabilities, constants = asked.device.capabilities, asked.constants
    columns = asked.a_columns, asked.b_columns
    shared = by_vector_for(capabilities, constants["ACC"], asked.shape, asked.k, columns)
    if shared is not None:
        how, parts, items = shared
        settings = {**constants, "ACTIVATION": kernels.keep} if parts > 1 else constants
        how = how._replace(plain=settings["ACTIVATION"] is kernels.keep)
        yield TileLaunch(gemm_by_vector[items, 1], {"HOW": how, **settings}, parts)


def _multiplies_whole_factors(asked: Asked) -> bool:
    return asked.best and "SPLIT" not in asked.constants


def _is_slim(asked: Asked) -> bool:
    whole = _multiplies_whole_factors(asked)
    return whole and not asked.b_columns and not asked.kind.is_integer


def _slim(asked: Asked) -> Iterator[TileLaunch]:
    """The kernel for few columns and small matrices, where it pays."""
    capabilities, constants = asked.device.capabilities, asked.constants
    launch = slim_launch(capabilities, asked.shape, asked.k, constants)
    if launch is not None:
        yield launch


def slim_launch(
    capabilities: Capabilities, shape: tuple[int, ...], k: int, constants: dict[str, Any]
) -> TileLaunch | None:
    """The kernel for few columns and small matrices, or None where it does not pay.

    Parameters
    ----------
    capabilities : Capabilities
        The device's.
    shape : tuple of int
        Of the result, (..., M, N).
    k : int
        The extent that is summed over.
    constants : dict
        ``ACC`` and ``ACTIVATION``.
    """
    tiles = slim_for(capabilities, constants["ACC"], shape, k)
    if tiles is None:
        return None
    slim, parts, items = tiles
    settings = {**constants, "ACTIVATION": kernels.keep} if parts > 1 else constants
    whole = not slim.clamped and settings["ACTIVATION"] is kernels.keep
    given = {"SLIM": slim._replace(whole=whole), **settings}
    return TileLaunch(gemm_slim[items, 1], given, parts)


def _wide(asked: Asked) -> Iterator[TileLaunch]:
    """The kernel for few rows and short sums, where it pays."""
    capabilities, constants = asked.device.capabilities, asked.constants
    launch = wide_launch(capabilities, asked.shape, asked.k, constants)
    if launch is not None:
        yield launch


def wide_launch(
    capabilities: Capabilities, shape: tuple[int, ...], k: int, constants: dict[str, Any]
) -> TileLaunch | None:
    """The kernel for few rows, or None where it does not pay; parameters as of `slim_launch`."""
    shared = wide_for(capabilities, constants["ACC"], shape, k)
    if shared is None:
        return None
    slim, items = shared
    slim = slim._replace(whole=constants["ACTIVATION"] is kernels.keep)
    return TileLaunch(gemm_wide[items, 1], {"SLIM": slim, **constants})


def _tiles(asked: Asked) -> Iterator[TileLaunch]:
    """Tiles by a device's table, ranked by a model, in one of the schedules."""
    device, kind, shape, k, algorithm, constants, b_columns, beside, *_ = asked
    product = asked.product
    by_blocks = algorithm == "blocks"
    least = 1 if by_blocks else _parts_against_drift(device, kind, product, constants["ACC"])
    for choice, parts in schemes(device, kind, algorithm, product, b_columns):
        if beside.added and choice.get("RESIDENT"):
            continue
        if by_blocks:
            most = max(choice["BM"], choice["BN"])
            if parts == 1 and choice["BK"] <= BLOCK and not MOST_ROWS % most:
                yield _split_k(device, choice, 1, shape, constants)
        elif shares_out(choice) and least == 1:
            yield from shared_launch(device, choice, shape, k, constants)
        else:
            settings = {**choice, "RESIDENT": 0} if shares_out(choice) else choice
            yield _split_k(device, settings, max(parts, least), shape, constants)


_RUNGS: Final = "naive", "tiled"

PRODUCTS: Final = Ways[Asked, TileLaunch](
    "product",
    Way("element by element", "gemm_naive", _naive, lambda x: x.algorithm == "naive"),
    Way("in squares", "gemm_tiles", _in_squares, lambda x: x.algorithm == "tiled"),
    Way("by a vector", "gemm_by_vector gemm_sums", _by_vector, _multiplies_whole_factors),
    Way("slim", "gemm_slim gemm_sums", _slim, _is_slim),
    Way("wide", "gemm_wide", _wide, _is_slim),
    Way(
        "in tiles",
        "gemm_tiles gemm_sums gemm_shares gemm_share_sums",
        _tiles,
        lambda x: x.algorithm not in _RUNGS,
    ),
)
"""How matrices are multiplied."""


def shared_launch(
    device: Device, choice: Parameters, shape: tuple[int, ...], k: int, constants: dict[str, Any]
) -> Iterator[TileLaunch]:
    """The kernel that shares out the last round of tiles; whole tiles where no share is worth it.

    In their order an H200 took 0.87 of the time of the next choice for 8192 x 1024 x 8192 doubles.
    """
    settings = dict(constants)
    tiling = Tiling.of(choice, split=settings.pop("SPLIT", False))
    *lead, m, n = shape
    tiles = prod(lead) * -(-m // tiling.rows) * -(-n // tiling.columns)
    most = device.capabilities.compute_units * choice["RESIDENT"]
    sharing = sharing_for(tiling, tiles, most, k)
    if sharing is not None:
        launcher = first_launch(sharing, choice["WORKGROUP"])
        yield TileLaunch(launcher, {"TILING": tiling, **settings}, sharing=sharing)
    elif tiles >= most:
        yield tiles_launch({**choice, "RESIDENT": 0}, shape, constants)


def _parts_against_drift(device: Device, kind: DType, product: Product, accumulator: DType) -> int:
    """Into how many parts long sums are cut, that a chain of rounded additions is not as long.

    Partial sums of workgroups take no more room than the operands.
    """
    if accumulator.kind not in "fc":
        return 1
    m, n, k = product.m, product.n, product.k
    if device.capabilities.single_work_items:
        return -(-k // _LONGEST) if k > 2 * _LONGEST else 1
    fewer_bits = kind.itemsize < accumulator.itemsize
    longest = _LONGEST_OF_FEWER_BITS if fewer_bits else _LONGEST_OF_CROWDS
    return min(-(-k // longest), max(1, (m + n) * k // (m * n))) if k > 2 * longest else 1


def _split_k(
    device: Device,
    choice: Parameters,
    parts: int,
    shape: tuple[int, ...],
    constants: dict[str, Any],
) -> TileLaunch:
    """The tile kernel for a result, or for partial ones that `gemm_sums` adds up."""
    units = device.capabilities.compute_units
    if parts == 1:
        return tiles_launch(choice, shape, constants, compute_units=units)
    sums = {**constants, "ACTIVATION": kernels.keep}
    return tiles_launch(choice, (parts, *shape), sums, parts, units)


def in_order(
    launch: TileLaunch,
    args: tuple[Any, ...],
    activation: Function,
    empty: Callable[[tuple[int, ...], DType], Any],
) -> Iterator[Step]:
    """The launches that make a product, one after the other, each with arguments and constants.

    Parameters
    ----------
    launch : TileLaunch
        The tile kernel's.
    args : tuple
        ``(alpha, a, b, beta, c, bias, out)``.
    activation : Function
        What is applied at last.
    empty : callable
        Makes room for partial results.
    """
    launcher, constants = launch.launcher, launch.constants
    if launch.sharing is not None:
        yield from launch.sharing.steps(launcher, args, constants, activation, empty)
    elif launch.parts > 1:
        alpha, a, b, beta, c, bias, out = args
        partial = empty((launch.parts, *out.shape), constants["ACC"])
        one = 1.0 if alpha is None else type(alpha)(1)
        yield launcher, (one, a, b, 0 * one, None, None, partial), constants
        arguments = partial, alpha, beta, c, bias, out
        yield kernels.gemm_sums[prod(out.shape), _LINE], arguments, {"ACTIVATION": activation}
    else:
        yield launcher, args, constants


def tiles_launch(
    parameters: Parameters,
    shape: tuple[int, ...],
    constants: dict[str, Any],
    parts: int = 1,
    compute_units: int = 0,
) -> TileLaunch:
    """The tile kernel with one set of tuned parameters, for a result or its partial sums.

    Parameters
    ----------
    parameters : mapping
        A choice of the space "gemm".
    shape : tuple of int
        Of the result, (..., M, N), or of the partial ones, (parts, ..., M, N).
    constants : dict
        ``ACC`` and ``ACTIVATION``, and ``SPLIT`` where factors may be split.
    parts : int
        Into how many the sums are cut.
    compute_units : int
        Of the device, where some workgroups of each make tiles in turn; 0 for one for each tile.
    """
    settings = dict(constants)
    split = settings.pop("SPLIT", False)
    tiling = Tiling.of(parameters, split=split, split_k=parts > 1)
    workgroup = (parameters["WORKGROUP"], 1, 1)
    most = compute_units * parameters["RESIDENT"] if tiling.persistent else 0
    launcher = _over_tiles(kernels.gemm_tiles, shape, tiling.rows, tiling.columns, workgroup, most)
    return TileLaunch(launcher, {"TILING": tiling, **settings}, parts)


def _over_tiles(
    kernel: Kernel,
    shape: tuple[int, ...],
    bm: int,
    bn: int,
    workgroup: tuple[int, int, int],
    most: int = 0,
) -> Launcher:
    """The kernel with a workgroup for each tile of each matrix of the result, or at `most` some."""
    *lead, m, n = shape
    tiles = prod(lead) * -(-m // bm) * -(-n // bn)
    return kernel[groups(min(tiles, most) if most else tiles), workgroup]
