"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.array.base.operations import OPERATIONS, ArrayT
from portable.array.functions import manipulation
from portable.array.functions.complex_pairs import complex_product
from portable.array.functions.statistics import summed_in
from portable.array.functions.vector_product_kernels import pairs_by_vector, rows_by_vector
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.errors import CompileError, DTypeError, LaunchError, ShapeError, UnsupportedError
from portable.lang.kernel import Kernel, kernel
from portable.linalg.products.by_vector import section_of, sums_of_each
from portable.linalg.products.gemm import no_tiles, product_launches
from portable.linalg.products.kernels import keep, matrix_of
from portable.linalg.products.launches import TileLaunch, in_order, slim_launch, wide_launch
from portable.primitives.base.operands import (
    accumulator,
    broadcast_shapes,
    normalized_axes,
    normalized_axis,
    power_of_two,
    promoted_on,
)
from portable.primitives.base.recipe import Plans, Recipe, repeatable
from portable.primitives.maps.elementwise import check_arrays, check_operands, recorded
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.moves.copying import converted, reshaped
from portable.primitives.reductions.axis import lies_crosswise
from portable.primitives.reductions.dots import dotted
from portable.recording import taped
from portable.tune.table import recent_state
from portable.tune.ways import Way, Ways

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


@kernel
def plain_product(a: kl.Array, b: kl.Array, out: kl.Array, *, ACC: Any) -> None:
    """A work-item per element, for the dtypes that `gemm` does not take.

    `gemm_naive` in its place took 1.65 times as long on two cores, which make vectors of columns.
    """
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    left, right, result = [matrix_of(x, out, batch) for x in (a, b, out)]
    if (row < result.shape[0]) & (column < result.shape[1]):
        total = kl.cast(0, ACC)
        for k in range(left.shape[1]):
            total = total + kl.cast(left[row, k], ACC) * kl.cast(right[k, column], ACC)
        result[row, column] = total


@kernel(contract=False)
def cross_products(x: kl.Array, y: kl.Array, out: kl.Array, *, KIND: Any) -> None:
    """A work-item per vector of three along the last axis."""
    row = kl.global_id(0)
    lead = out.shape[: out.ndim - 1]
    if row < product_of(lead):
        outer = unravelled(row, lead)
        for i in kl.static_range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            plus = kl.cast(x[*outer, j], KIND) * kl.cast(y[*outer, k], KIND)
            out[*outer, i] = plus - kl.cast(x[*outer, k], KIND) * kl.cast(y[*outer, j], KIND)


_EDGE: Final = 8
_GROUP: Final = 64
_PAIRS: Final = 4
"""Sums of complex numbers, each of two vectors, that a work-item alone has at a time."""
_WIDEST: Final = 256
"""Work-items of a workgroup for a row at most."""
_SHORT: Final = 256
"""Products of a sum below which a workgroup for each has too little to do."""
_FEW: Final = 32
"""Results for each compute unit below which they leave it idle, a work-item each."""
_MOST_TIMES: Final = 4
"""Products that are written for each element of the operands, at most."""
_SMALL: Final = 1 << 21
"""Products of a complex matrix below which the preparations of a real one do not pay on GPUs."""


def _common(name: str, x1: ArrayT, x2: ArrayT) -> DType:
    kind = promoted_on(x1.device, x1.dtype, x2.dtype)
    if kind.kind == "b":
        raise DTypeError(f"{name} takes numbers, not bool; convert them with astype")
    return kind


@taped
def matmul(x1: ArrayT, x2: ArrayT, /) -> ArrayT:
    """The matrix product over the last two dimensions, the others broadcasting.

    Parameters
    ----------
    x1, x2 : Array
        Numbers, ``(..., m, k)`` and ``(..., k, n)``; one of a single dimension is a vector of `k`.

    Returns
    -------
    Array
        ``(..., m, n)``, without the dimension that a vector lacks, in the common dtype.

    Raises
    ------
    ShapeError
        If the inner extents differ, or one has no dimensions.
    DTypeError
        For bools, and dtypes that do not promote together.

    Notes
    -----
    Real floating-point numbers go to `portable.linalg.gemm`, which says how precise it is;
    integers wrap. A product of a matrix and a vector on a processor adds up in chains of bounded
    length, as `sum` does, and is off by ``(50 + 4 log2(k)) eps`` of the sum of the products' sizes
    at most.
    """
    check_operands("matmul", (x1, x2))
    return _matmul.run((x1, x2), recent_state())  # type: ignore[no-any-return]


def _write_matmul(arrays: tuple[Any, ...], _: object) -> Callable[..., Any]:
    """What `matmul` has to do for arrays like these, as of one state of the tuned parameters."""
    x1, x2 = arrays
    kind = _common("matmul", x1, x2)
    if not x1.ndim or not x2.ndim:
        raise ShapeError("matmul takes vectors and matrices, not arrays without dimensions")
    left = manipulation.expand_dims(x1, axis=0) if x1.ndim == 1 else x1
    right = manipulation.expand_dims(x2, axis=1) if x2.ndim == 1 else x2
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(f"matmul of shapes {x1.shape} and {x2.shape}: the inner extents differ")
    recipe = Recipe(*arrays)
    product = _multiplied(recipe, left, right, kind)
    *lead, rows, columns = product.shape
    shape = (*lead, *(() if x1.ndim == 1 else (rows,)), *(() if x2.ndim == 1 else (columns,)))
    return recipe.finish(product.shaped(shape))


_matmul: Final = Plans(_write_matmul)


def _multiplied(recipe: Recipe, a: Any, b: Any, kind: DType) -> Any:
    """The product of matrices of a recipe, a new array of it, in `kind`."""
    a, b = converted(recipe, a, kind), converted(recipe, b, kind)
    lead = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    shape = (*lead, a.shape[-2], b.shape[-1])
    return ARRAY_PRODUCTS.first(_Asked(recipe, a, b, kind, shape)).shaped(shape)


class _Asked(NamedTuple):
    """A product of matrices of a recipe, in `kind`, of some shape."""

    recipe: Recipe
    a: Any
    b: Any
    kind: DType
    shape: tuple[int, ...]

    @property
    def capabilities(self) -> Capabilities:
        """Of the device."""
        can: Capabilities = self.a.device.capabilities
        return can

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return int(self.a.shape[-1])

    def empty(self) -> Any:
        """Room for the result."""
        return self.recipe.empty(self.shape, self.kind)


def _nothing(asked: _Asked) -> Iterator[Any]:
    yield asked.empty()


def _tiles(asked: _Asked) -> Iterator[Any]:
    """By `gemm`."""
    out = asked.empty()
    _launch_product(asked.recipe, asked.a, asked.b, out)
    yield out


def _written_out(asked: _Asked) -> Iterator[Any]:
    """All products one after the other, and their sums."""
    columns = manipulation.expand_dims(matrix_transpose(asked.b), axis=-3)
    rows = manipulation.expand_dims(asked.a, axis=-2)
    product = recorded(asked.recipe, OPERATIONS["multiply"], rows, columns)
    yield summed_in(asked.recipe, product, (product.ndim - 1,), asked.kind)


def _is_few_and_long(asked: _Asked) -> bool:
    """Whether a work-item for each result leaves most of a device without work.

    Then all products are written, which must not be many times the operands.
    """
    rows, columns = asked.shape[-2:]
    short = rows * columns <= _MOST_TIMES * (rows + columns)
    few = prod(asked.shape) < _FEW * asked.capabilities.compute_units
    return not asked.kind.is_float and short and few and asked.depth >= _SHORT


def _as_real(asked: _Asked) -> Iterator[Any]:
    """A product of complex matrices as one of real ones, for which tiles are made."""
    out = asked.empty()
    complex_product(asked.recipe, asked.a, asked.b, out, _launch_product)
    yield out


def _pays_as_real(asked: _Asked) -> bool:
    small = 1 if asked.capabilities.single_work_items else _SMALL
    return asked.kind.is_complex and prod(asked.shape[-2:]) * asked.depth >= small


def _element_by_element(asked: _Asked) -> Iterator[Any]:
    """For the dtypes that `gemm` does not take."""
    kind, out = asked.kind, asked.empty()
    *lead, rows, columns = asked.shape
    across = min(_GROUP, power_of_two(columns)) if asked.capabilities.single_work_items else _EDGE
    ndrange, group = (columns, rows, prod(lead)), (across, _GROUP // across, 1)
    accumulator = kind if kind.is_complex else kind.register
    asked.recipe.launch(plain_product, ndrange, group, asked.a, asked.b, out, ACC=accumulator)
    yield out


# -- a matrix by a vector, read once --------------------------------------------------------------


def _matrix_and_vector(asked: _Asked) -> tuple[Any, Any]:
    """What is multiplied, as a matrix by a vector."""
    if asked.shape[1] == 1:
        return asked.a, _line(asked.b, 0)
    return matrix_transpose(asked.b), _line(asked.a, 1)


def _is_by_vector(asked: _Asked) -> bool:
    """Whether one operand is a vector, and elements of both lie together."""
    if asked.kind.kind not in "fc" or len(asked.shape) != 2 or 1 not in asked.shape:
        return False
    (matrix, vector), size = _matrix_and_vector(asked), asked.kind.itemsize
    return bool(0 not in matrix.shape and vector.strides == (size,) and size in matrix.strides)


def _lies_along(asked: _Asked) -> bool:
    """Whether elements of the matrix' rows lie together."""
    return bool(_matrix_and_vector(asked)[0].strides[1] == asked.kind.itemsize)


def _are_pairs_by_vector(asked: _Asked) -> bool:
    alone = asked.capabilities.single_work_items and asked.kind.is_complex
    return alone and _is_by_vector(asked) and _lies_along(asked)


def _pairs_by_vector(asked: _Asked) -> Iterator[Any]:
    """A product of a complex matrix by a vector, where work-items are alone."""
    (matrix, vector), real = _matrix_and_vector(asked), asked.kind.real
    (rows, depth), half = matrix.shape, asked.kind.itemsize // 2
    vectors = sums_of_each(rows, depth, _PAIRS, asked.capabilities)
    pairs = matrix.viewed((rows, 2 * depth), (matrix.strides[0], half), dtype=real)
    factors = vector.viewed((2 * depth,), (half,), dtype=real)
    lanes = asked.capabilities.vector_bytes // half
    how = {"ACC": real, "LANES": lanes, "VECTORS": vectors}
    yield _in_sections(asked, pairs_by_vector, (pairs, factors), -(-rows // vectors), 1, how)


def _are_rows_by_vector(asked: _Asked) -> bool:
    crowd = asked.kind.is_float and not asked.capabilities.single_work_items
    return crowd and asked.depth >= _SHORT and _is_by_vector(asked) and _lies_along(asked)


def _rows_by_vector(asked: _Asked) -> Iterator[Any]:
    """A product by a vector with a workgroup for each row, or for a part of it."""
    (matrix, vector), kind, capabilities = _matrix_and_vector(asked), asked.kind, asked.capabilities
    lanes = max(1, capabilities.vector_bytes // kind.register.itemsize)
    width = min(_WIDEST, capabilities.max_workgroup, power_of_two(-(-asked.depth // lanes)))
    how = {"ACC": kind.register, "LANES": lanes, "WIDTH": width}
    yield _in_sections(asked, rows_by_vector, (matrix, vector), matrix.shape[0], width, how)


def _in_sections(
    asked: _Asked,
    kernel: Kernel,
    operands: tuple[Any, Any],
    blocks: int,
    width: int,
    how: dict[str, Any],
) -> Any:
    """Launches a kernel over blocks of rows, and parts of their sums, which are added up."""
    kind, depth = asked.kind, asked.depth
    section = section_of(blocks, depth, asked.capabilities)
    sections, rows = -(-depth // section), operands[0].shape[0]
    summed = kind if sections == 1 or kind.is_complex else kind.register
    parts = asked.recipe.empty((sections, rows), summed)
    items = blocks * sections * width
    asked.recipe.launch(kernel, items, width, *operands, parts, DEPTH=section, **how)
    return parts if sections == 1 else summed_in(asked.recipe, parts, (0,), kind)


def _line(matrix: Any, axis: int) -> Any:
    """The one row or column of a matrix, along an axis, as a vector."""
    return matrix.viewed((matrix.shape[axis],), (matrix.strides[axis],))


# -- sums of products along rows ------------------------------------------------------------------


def _rows_of_both(asked: _Asked) -> tuple[Any, Any]:
    """What is multiplied, along the last axis of both; one of them has a single row."""
    return asked.a, matrix_transpose(asked.b)


def _are_dots(asked: _Asked) -> bool:
    """Whether a matrix of a stack, or of integers, is multiplied by a vector, both along rows."""
    kind, size = asked.kind, asked.kind.itemsize
    if not asked.capabilities.single_work_items or kind.is_complex or not asked.depth:
        return False
    if kind.is_float and len(asked.shape) == 2:  # `gemm` reads these once, too
        return False
    return 1 in asked.shape[-2:] and all(x.strides[-1] == size for x in _rows_of_both(asked))


def _dots(asked: _Asked) -> Iterator[Any]:
    """As sums of products along rows, each a work-item's."""
    *lead, rows, columns = asked.shape
    shape = (*lead, max(rows, columns), asked.depth)
    left, right = (manipulation.broadcast_to(x, shape) for x in _rows_of_both(asked))
    yield dotted(asked.recipe, left, right, accumulator(asked.kind), asked.kind)


# -- integers, of which no tiles are made ----------------------------------------------------------


def _integer_launch(asked: _Asked) -> TileLaunch | None:
    """By the kernels for few columns, or few rows, where elements of rows lie together."""
    if not asked.kind.is_integer or asked.b.strides[-1] != asked.kind.itemsize:
        return None
    constants = {"ACC": asked.kind.register, "ACTIVATION": keep}
    given = asked.capabilities, asked.shape, asked.depth, constants
    return slim_launch(*given) or wide_launch(*given)


def _integers(asked: _Asked) -> Iterator[Any]:
    out, launch, number = asked.empty(), _integer_launch(asked), asked.kind.register.numpy.type
    assert launch is not None
    _add(asked.recipe, launch, (number(1), asked.a, asked.b, number(0), None, None, out))
    yield out


def _add(recipe: Recipe, launch: TileLaunch, args: tuple[Any, ...]) -> None:
    """The steps of a product."""
    for step, given, how in in_order(launch, args, keep, recipe.empty):
        recipe.add(repeatable(step, given, how, disjoint=True), given)


def _launch_product(recipe: Recipe, a: Any, b: Any, out: Any) -> None:
    """The first of `gemm`'s launches that builds; the later ones are fallbacks."""
    tried, args = product_launches(a, b, out)
    failures: list[str] = []
    for launch in tried:
        try:
            _add(recipe, launch, args)
        except (CompileError, LaunchError, UnsupportedError) as error:
            failures.append(f"{launch.constants}: {error}")
        else:
            return
    raise no_tiles(out, failures)


ARRAY_PRODUCTS: Final = Ways[_Asked, Any](
    "product of arrays",
    Way("nothing", "", _nothing, lambda x: 0 in x.shape),
    Way("pairs by a vector", "pairs_by_vector", _pairs_by_vector, _are_pairs_by_vector),
    Way("rows by a vector", "rows_by_vector", _rows_by_vector, _are_rows_by_vector),
    Way("dots", "reduce_by_workgroup", _dots, _are_dots),
    Way("by gemm", "", _tiles, lambda x: x.kind.is_float),
    Way(
        "integers",
        "gemm_slim gemm_sums gemm_wide",
        _integers,
        lambda x: _integer_launch(x) is not None,
    ),
    Way("written out", "", _written_out, _is_few_and_long),
    Way("as real numbers", "", _as_real, _pays_as_real),
    Way("element by element", "plain_product", _element_by_element),
)
"""How matrices and vectors that are arrays are multiplied."""


@taped
def matrix_transpose(x: ArrayT, /) -> ArrayT:
    """The view with the last two dimensions exchanged.

    Parameters
    ----------
    x : Array
        A matrix or a stack of them, of shape (..., m, n).

    Returns
    -------
    Array
        Of shape (..., n, m), on the memory of `x`.

    Raises
    ------
    ShapeError
        If it has fewer than two dimensions.
    """
    check_arrays("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"mT takes two dimensions or more, not an array of shape {x.shape}")
    shape, strides = x.shape, x.strides
    return x.viewed((*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]))


def tensordot(
    x1: ArrayT, x2: ArrayT, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> ArrayT:
    """The sum of products over pairs of axes.

    Parameters
    ----------
    x1, x2 : Array
        Numbers.
    axes : int or pair of sequences of int
        The axes of `x1` and of `x2`, or how many last ones of `x1` and first ones of `x2`.

    Returns
    -------
    Array
        The axes left of `x1`, then those of `x2`, in the common dtype.

    Raises
    ------
    ShapeError
        If extents of a pair differ.
    """
    check_operands("tensordot", (x1, x2))
    check_arrays("tensordot", x1, x2)
    if isinstance(axes, int):
        ours, theirs = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
        if axes > x1.ndim or axes > x2.ndim or axes < 0:
            raise ShapeError(f"tensordot over {axes} axes of shapes {x1.shape} and {x2.shape}")
    else:
        ours = normalized_axes(tuple(axes[0]), x1.ndim)
        theirs = normalized_axes(tuple(axes[1]), x2.ndim)
    if [x1.shape[a] for a in ours] != [x2.shape[a] for a in theirs]:
        raise ShapeError(f"tensordot of {x1.shape} and {x2.shape} over axes {ours} and {theirs}")
    return _tensordot.run((x1, x2), ours, theirs, recent_state())  # type: ignore[no-any-return]


def _write_tensordot(
    arrays: tuple[Any, ...], ours: tuple[int, ...], theirs: tuple[int, ...], _: object
) -> Callable[..., Any]:
    """What `tensordot` over pairs of axes has to do for arrays like these."""
    x1, x2 = arrays
    kind = _common("tensordot", x1, x2)
    left = [a for a in range(x1.ndim) if a not in ours]
    right = [a for a in range(x2.ndim) if a not in theirs]
    shape = tuple(x1.shape[a] for a in left), tuple(x2.shape[a] for a in right)
    depth = prod(x1.shape[a] for a in ours)
    recipe = Recipe(*arrays)
    a = reshaped(recipe, manipulation.permute_dims(x1, (*left, *ours)), (prod(shape[0]), depth))
    b = reshaped(recipe, manipulation.permute_dims(x2, (*theirs, *right)), (depth, prod(shape[1])))
    product = _multiplied(recipe, a, b, kind)
    return recipe.finish(product.shaped((*shape[0], *shape[1])))


_tensordot: Final = Plans(_write_tensordot)


@taped
def vecdot(x1: ArrayT, x2: ArrayT, /, *, axis: int = -1) -> ArrayT:
    """The sum along an axis of ``conj(x1) * x2``.

    Parameters
    ----------
    x1, x2 : Array
        Numbers; all axes but this one broadcast.
    axis : int
        Counted from the end, as it is the same one of both.

    Raises
    ------
    ShapeError
        If the extents along the axis differ.

    Notes
    -----
    Real numbers are read once, where neighbours lie along the axis, and multiplied in the type that
    they are summed in; complex numbers, and others, are multiplied first, and the products summed.
    Of n products that are floating-point numbers the sum is off by ``(11 + 4 log2(n)) eps`` of the
    sum of their sizes at most: each is rounded once, and they are added up as by `sum`.
    """
    check_operands("vecdot", (x1, x2))
    return _vecdot.run((x1, x2), axis)  # type: ignore[no-any-return]


def _write_vecdot(arrays: tuple[Any, ...], axis: int) -> Callable[..., Any]:
    """What `vecdot` has to do for arrays like these."""
    x1, x2 = arrays
    kind = _common("vecdot", x1, x2)
    if axis >= 0 or axis < -min(x1.ndim, x2.ndim):
        normalized_axis(axis, min(x1.ndim, x2.ndim))
    if not x1.ndim or not x2.ndim or x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(f"vecdot of {x1.shape} and {x2.shape} along axis {axis}")
    left, right = manipulation.moveaxis(x1, axis, -1), manipulation.moveaxis(x2, axis, -1)
    shape = broadcast_shapes([left.shape, right.shape])
    recipe = Recipe(*arrays)
    first, second = manipulation.broadcast_to(left, shape), manipulation.broadcast_to(right, shape)
    crosswise = lies_crosswise(first) or lies_crosswise(second)
    if not (kind.is_complex or crosswise or 0 in shape):
        sums = dotted(recipe, first, second, accumulator(kind), kind)
        return recipe.finish(sums.shaped(shape[:-1]))
    if kind.is_complex:
        left = recorded(recipe, OPERATIONS["conj"], left)
    product = recorded(recipe, OPERATIONS["multiply"], left, right)
    return recipe.finish(summed_in(recipe, product, (len(shape) - 1,), kind))


_vecdot: Final = Plans(_write_vecdot)


def cross(x1: ArrayT, x2: ArrayT, /, *, axis: int = -1) -> ArrayT:
    """The cross product of vectors of three.

    Parameters
    ----------
    x1, x2 : Array
        Numbers, which broadcast.
    axis : int
        Along which the vectors lie.

    Raises
    ------
    ShapeError
        If the extent along the axis is not 3.
    """
    check_operands("cross", (x1, x2))
    return _cross.run((x1, x2), axis)  # type: ignore[no-any-return]


def _write_cross(arrays: tuple[Any, ...], axis: int) -> Callable[..., Any]:
    """What `cross` has to do for arrays like these."""
    x1, x2 = arrays
    kind = _common("cross", x1, x2)
    places = [normalized_axis(axis, x.ndim) for x in arrays]
    if any(x.shape[dim] != 3 for x, dim in zip(arrays, places, strict=True)):
        raise ShapeError(f"cross of shapes {x1.shape} and {x2.shape}: axis {axis} has extent 3")
    shape = broadcast_shapes([x1.shape, x2.shape])
    recipe = Recipe(*arrays)
    out = recipe.empty(shape, kind)
    if out.size:
        views = [
            manipulation.moveaxis(manipulation.broadcast_to(x, shape), axis, -1)
            for x in (x1, x2, out)
        ]
        accumulator = kind if kind.is_complex else kind.register
        recipe.launch(cross_products, out.size // 3, _GROUP, *views, KIND=accumulator)
    return recipe.finish(out)


_cross: Final = Plans(_write_cross)
