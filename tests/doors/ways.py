"""The ways: by which kernels an operation is done, of which sizes, and on which devices.

A way is recognised by the kernels that were launched. `WAYS` has each with operands of the smallest
size that takes it; `STEPS` are kernels that come before, between or behind those; `ELSEWHERE` says
of further kernels which tests run them. A kernel that is nowhere here fails a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable.backend import Device
from tests.doors import doors
from tests.doors.doors import Operation

PROFILES: Final = ("simulator:h200", "simulator:intel-cpu")
"""Devices that the simulator takes the place of, for ways that no device here takes."""


@dataclass(frozen=True)
class Way:
    """How an operation is done.

    Attributes
    ----------
    name : str
        In plain words.
    operation : Operation
        What is done.
    kernels : frozenset of str
        All of these are launched.
    shapes : tuple of tuple of int
        Of the operands.
    dtype : str
        Of the operands.
    taken : callable
        Whether a device takes it at this size.
    """

    name: str
    operation: Operation
    kernels: frozenset[str]
    shapes: tuple[tuple[int, ...], ...]
    taken: Callable[[Device], bool]
    dtype: str = "float32"

    def operands(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Quarters from -4 to 4, the same in each run; whole numbers where the dtype asks so.

        Complex numbers have others for their imaginary parts.
        """
        random = np.random.default_rng(len(self.name))
        drawn = [random.integers(-16, 17, shape) for shape in self.shapes]
        step = 1 if np.dtype(self.dtype).kind == "i" else 4
        if np.dtype(self.dtype).kind == "c":
            drawn = [x + 1j * np.flip(x) for x in drawn]
        return tuple((x / step).astype(self.dtype) for x in drawn)


def _any(_: Device) -> bool:
    return True


def _alone(device: Device) -> bool:
    return device.capabilities.single_work_items


def _crowd(device: Device) -> bool:
    return not device.capabilities.single_work_items


def _compiled_alone(device: Device) -> bool:
    return _alone(device) and not device.interprets


def _compiled(device: Device) -> bool:
    return not device.interprets


def _ordered(device: Device) -> bool:
    return device.capabilities.memory_orders == "acq_rel"


def _in_blocks(device: Device) -> bool:
    return _alone(device) and device.capabilities.atomics64


def _in_turn(device: Device) -> bool:
    can = device.capabilities
    return _crowd(device) and can.forward_progress and can.atomics64


def _many_units(device: Device) -> bool:
    return device.capabilities.compute_units >= _MANY_UNITS


_MANY_UNITS: Final = 64


def _way(
    name: str,
    operation: Operation,
    kernels: str,
    shapes: tuple[tuple[int, ...], ...],
    taken: Callable[[Device], bool] = _any,
    dtype: str = "float32",
) -> Way:
    return Way(name, operation, frozenset(kernels.split()), shapes, taken, dtype)


WAYS: Final[tuple[Way, ...]] = (
    # products
    _way("tiles", doors.PRODUCT, "gemm_tiles", ((20, 64), (64, 97))),
    _way("few columns", doors.PRODUCT, "gemm_slim", ((50, 64), (64, 3)), _alone),
    _way("few rows", doors.PRODUCT, "gemm_wide", ((5, 24), (24, 300)), _alone),
    _way("small", doors.PRODUCT, "gemm_slim", ((20, 24), (24, 17)), _alone),
    _way(
        "sums in parts", doors.PRODUCT, "gemm_tiles gemm_sums", ((8, 512), (512, 8)),
        _many_units,
    ),
    _way("a vector", doors.PRODUCT, "gemm_by_vector", ((20, 24), (24, 1)), _alone),
    _way(
        "a vector of complex numbers", doors.ARRAY_PRODUCT, "pairs_by_vector",
        ((20, 24), (24, 1)), _alone, "complex64",
    ),
    _way(
        "a vector by workgroup", doors.ARRAY_PRODUCT, "rows_by_vector", ((20, 700), (700, 1)),
        _crowd,
    ),
    _way(
        "integers", doors.ARRAY_PRODUCT, "plain_product", ((9, 11), (11, 7)), _crowd, "int32"
    ),
    _way(
        "few columns of integers", doors.ARRAY_PRODUCT, "gemm_slim", ((9, 11), (11, 7)), _alone,
        "int32",
    ),
    _way(
        "columns of integers", doors.ARRAY_PRODUCT, "gemm_wide", ((9, 11), (11, 200)), _alone,
        "int32",
    ),
    _way(
        "a vector of integers", doors.ARRAY_PRODUCT, "reduce_by_workgroup", ((20, 24), (24, 1)),
        _alone, "int32",
    ),
    _way(
        "complex numbers", doors.ARRAY_PRODUCT, "elementwise gemm_slim", ((20, 24), (24, 17)),
        _alone, "complex64",
    ),
    _way(
        "few rows of complex numbers", doors.ARRAY_PRODUCT, "elementwise", ((2, 24), (24, 40)),
        _alone, "complex64",
    ),
    # sums
    _way("by workgroup", doors.TOTAL_OF_ROWS, "reduce_by_workgroup", ((50, 40),)),
    _way("short rows alone", doors.TOTAL_OF_ROWS, "reduce_by_workgroup", ((5000, 3),), _alone),
    _way("in pairs", doors.COMPLEX_TOTAL, "reduce_columns", ((4096,),), _alone, "complex64"),
    _way("at once", doors.TOTAL, "reduce_at_once", ((70000,),), _ordered),
    _way("columns", doors.TOTAL_OF_COLUMNS, "reduce_columns", ((50, 40),), _alone),
    _way("strips", doors.TOTAL_OF_COLUMNS, "reduce_strips", ((50, 40),), _crowd),
    _way("fused", doors.FUSED_TOTAL, "fused_reduction", ((50, 40),)),
    _way("of parts", doors.SPREAD, "reduce_by_workgroup", ((3, 500),)),
    _way("of columns", doors.SPREAD_OF_COLUMNS, "reduce_columns", ((50, 40),)),
    _way("by workgroup", doors.GREATEST, "reduce_by_workgroup", ((5, 700),)),
    # running sums
    _way("rows", doors.SCAN, "scan_rows", ((50, 40),), _in_blocks),
    _way("by workgroup", doors.SCAN, "scan_by_workgroup", ((50, 40),), _crowd),
    _way("blocks in turn", doors.SCAN, "chained_block_scan", ((70000,),), _in_blocks),
    _way("in turn", doors.SCAN, "chained_scan", ((70000,),), _in_turn),
    _way("columns", doors.SCAN_OF_COLUMNS, "scan_columns", ((50, 40),)),
    # sorts
    _way("by rank", doors.SORT, "sort_by_rank", ((30,),)),
    _way("in parts", doors.SORT, "sort_parts", ((500,),), _alone),
    _way("by buckets", doors.SORT, "draw_samples divide sort_parts", ((70000,),), _compiled_alone),
    _way("by workgroup", doors.SORT, "sort_by_workgroup", ((500,),), _crowd),
    _way(
        "in sweeps", doors.SORT, "count_by_workgroup place_by_workgroup", ((20000,),), _crowd
    ),
    # elements
    _way("one by one", doors.ELEMENTS, "elementwise", ((33, 47), (33, 47))),
    _way("fused", doors.FUSED_ELEMENTS, "fused", ((33, 47), (33, 47))),
    _way("chosen", doors.SELECTION, "take", ((500,),), _alone),
    _way("chosen by workgroup", doors.SELECTION, "take_by_workgroup", ((500,),), _crowd),
    _way("gathered", doors.ROWS_TAKEN, "gather", ((50, 7),)),
    _way("scattered", doors.SCATTERED, "scatter", ((50, 7),)),
    _way("filled", doors.ASSIGNMENT, "fill", ((500,),)),
    _way("in blocks", doors.TURNED_ELEMENTS, "exchange_blocks", ((33, 33), (33, 33)), _alone),
    _way("in tiles", doors.TURNED_ELEMENTS, "exchange_tiles", ((33, 33), (33, 33)), _crowd),
    _way("searched", doors.SEARCH, "search", ((50,),)),
    _way("by halving", doors.MEMBERS, "member", ((50,), (20,))),
    _way("of three", doors.CROSS, "cross_products", ((50, 3), (50, 3))),
    _way("one side", doors.TRIANGLE, "triangle", ((33, 47),)),
    # transforms
    _way("in vectors", doors.TRANSFORM, "transform_in_vectors", ((64,),), _alone, "complex64"),
    _way(
        "by workgroup", doors.TRANSFORM, "transform_by_workgroup", ((64,),), _crowd, "complex64"
    ),
    _way(
        "by workgroup, a prime", doors.TRANSFORM, "transform_by_workgroup", ((67,),), _crowd,
        "complex64",
    ),
    _way("a prime", doors.TRANSFORM, "transform_in_vectors", ((67,),), _alone, "complex64"),
    _way(
        "in two passes", doors.TRANSFORM, "transform_in_vectors", ((2**15,),), _compiled_alone,
        "complex64",
    ),
    _way("in vectors", doors.REAL_TRANSFORM, "transform_in_vectors", ((8, 64),), _alone),
    _way("by workgroup", doors.REAL_TRANSFORM, "transform_by_workgroup", ((8, 64),), _crowd),
    # singular values
    _way("by rotations", doors.SINGULAR_VALUES, "jacobi_svdvals", ((20, 20),)),
    _way(
        "directly", doors.SINGULAR_VALUES, "load_dense bidiagonalize bisect", ((60, 60),),
        _compiled,
    ),
    # singular vectors and eigenvectors
    _way("by rotations", doors.SINGULAR_VECTORS, "svd_by_rotations", ((20, 20),)),
    _way("by rotations", doors.EIGENVECTORS, "hermitian_by_rotations", ((20, 20),)),
    _way(
        "in stages", doors.SINGULAR_VECTORS, "bidiagonalize solve_secular apply_blocks",
        ((70, 70),), _compiled_alone,
    ),
    _way(
        "in stages", doors.EIGENVECTORS, "tridiagonalize solve_secular", ((70, 70),), _compiled
    ),
    # images
    _way("boxes", doors.CONVOLUTION, "multiply_boxes", ((1, 9, 9, 8), (2, 9, 2, 2)), _crowd),
    _way(
        "a first layer", doors.CONVOLUTION, "arrange_filters convolve_groups",
        ((1, 1, 9, 8), (2, 1, 3, 3)), _crowd,
    ),
    _way(
        "by lanes of pixels", doors.CONVOLUTION, "pack_lane_filters convolve_rows",
        ((1, 1, 9, 8), (2, 1, 3, 3)), _alone,
    ),
    _way(
        "in blocks", doors.CONVOLUTION, "pack_filters convolve_blocks",
        ((1, 48, 20, 20), (48, 48, 3, 3)), _alone,
    ),
    _way("one by one", doors.CONVOLVED, "convolved", ((50,),)),
)  # fmt: skip

STEPS: Final = frozenset(
    {
        "cut_leaves",
        "clear",
        "clear_below",
        "collect",
        "copy_columns",
        "copy_rows",
        "copy_several",
        "count_table",
        "deflate",
        "form_factor",
        "join",
        "largest_kernel",
        "largest_of_each",
        "largest_parts",
        "keep_flags",
        "load_scaled",
        "make_hermitian",
        "pad_diagonals",
        "place_roots",
        "refine_weights",
        "reflector_triangles",
        "scale_rows",
        "settle_bidiagonal",
        "spaced",
        "spread",
        "squares",
        "store_values",
        "take_lines",
        "tridiagonal",
        "unrotate",
    }
)
"""Kernels that come before, between or behind those of several ways."""

ELSEWHERE: Final[dict[str, str]] = {
    # products
    "gemm_naive": "tests/linalg/test_gemm.py",
    "copy_into_rows": "tests/linalg/test_gemm_rows.py",
    "scale_rows turn_factors": "tests/linalg/test_scaled_matmul.py",
    "gemm_shares gemm_share_sums": "tests/linalg/test_gemm_shares.py",
    # bands and singular values
    "item_wave load_band move_band store_bidiagonal vector_packs "
    "panel_packs panel_wave product_packs ring_packs": "tests/linalg/test_band.py",
    "apply_reflectors factor_panel store_band": "tests/linalg/test_dense_band.py",
    "iterate_bidiagonal sort_vectors": "tests/linalg/test_bidiagonal.py",
    "change_both_sides": "tests/linalg/test_symmetric_panels.py",
    "add_band_rows bidiagonalize_in_panels choose_factor count_values make_lines take_squares "
    "orthogonal_factors "
    "factor_shifted_bands apply_hops put_ones spread_hops square_bidiagonal store_shifted "
    "real_bidiagonal real_tridiagonal unfold_complex": "tests/linalg/test_spectral.py",
    # factorisations
    "cholesky_block cholesky_rows put_factors copy_matrices": "tests/linalg/test_cholesky.py",
    "copy_single eliminate_slices exchange eliminate_panel "
    "exchange_rows "
    "narrow_product part_rows part_squares add_parts solve_strips solve_segments "
    "diagonal_products": "tests/linalg/test_lu.py",
    "factor_columns reflect_slices start_factor small_diagonals sum_squares "
    "add_grams deviations gram_rows multiply_rows": "tests/linalg/test_qr.py",
    # images
    "transform_filters transform_gradient transform_images transform_results transform_sums "
    "arrange_filters gather_patches multiply_boxes": "tests/conv/test_conv.py",
    "add_parts arrange_along_channels part_filters part_pixels": "tests/conv/test_plans.py",
    "add_up_filters add_up_taps clear_pixels gathered_product "
    "sum_boxes": "tests/conv/test_gradients.py",
    "fold_depths": "tests/conv/test_dimensions.py",
    "add_windows convolve_channels sum_group_channels sum_group_pixels": "tests/conv/test_ways.py",
    # transforms
    "join_row_pairs recombine_rows split_row_pairs": "tests/array/test_fft.py",
    # matrices of bits
    "advance_stripes place_pivots solve_pivots take_step": "tests/gf2/test_eliminate.py",
    "begin_marks begin_owners find_beyond find_leads find_owners from_stripes multiply_stripes "
    "random_words take_rows to_stripes transpose_blocks": "tests/gf2/test_algebra.py",
    # elements and their order
    "map_elements reduce_elements scan_elements": "tests/primitives/test_reduce.py",
    "check": "tests/array/test_gathering.py",
    "pack pack_by_workgroup": "tests/array/test_indexing.py",
    "chained_strip_scan": "tests/array/test_scans.py",
    "sizes_of": "tests/array/test_sets.py",
    "count": "tests/numerics/test_numerics.py",
    "segments_by_item segments_by_workgroup": "tests/numerics/test_further_numerics.py",
    # sparse matrices
    "csr_add_carried csr_columns_by_vector csr_even_by_matrix csr_even_by_vector csr_mark_shares "
    "csr_rows_by_vector csr_share_by_matrix csr_share_by_vector csr_count_pairs "
    "csr_count_products csr_fill_products": "tests/sparse/test_sparse.py",
}
"""Kernels, several in a key, that only sizes or options beyond these doors reach, and their tests.

Their ways are the next to get sizes and doors here.
"""
