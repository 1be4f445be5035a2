"""The kernels of arrays, compiled for GPUs that are not here."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from portable import lang as kl
from portable.array.fourier.access import Form, Source, Target
from portable.array.fourier.kernels import Shape, transform_by_workgroup
from portable.array.fourier.one_axis import Turns, join_row_pairs, recombine_rows, split_row_pairs
from portable.array.functions.vector_product_kernels import rows_by_vector
from portable.array.fusion.fused_reduction_kernel import Steps, fused
from portable.array.sets import Beginnings, Groups
from portable.backend import Capabilities, Program
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    Specialisation,
    StaticSpec,
)
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.primitives.maps.elementwise_kernel import Formula, Share
from portable.primitives.maps.exchange import Tiles, exchange_tiles
from portable.primitives.masks.compaction import Results
from portable.primitives.masks.mask_assignment import Assigned, Cut, fill
from portable.primitives.masks.mask_kernels import Mask, pack_by_workgroup, take_by_workgroup
from portable.primitives.moves.copying import copy_several
from portable.primitives.moves.gathering import Where, check, gather
from portable.primitives.moves.scattering import scatter
from portable.primitives.reductions.axis import Sections
from portable.primitives.reductions.kernels import (
    Spread,
    SpreadOfParts,
    reduce_at_once,
    reduce_by_workgroup,
    reduce_columns,
    reduce_strips,
)
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.stateful import Best
from portable.primitives.scans.lookback_kernels import (
    LookBack,
    Strip,
    chained_scan,
    chained_strip_scan,
)
from portable.primitives.scans.scan_kernels import ColumnScan, Tile, scan_by_workgroup, scan_columns
from portable.primitives.sorts.keys import Line, Order
from portable.primitives.sorts.keys import Tile as SortTile
from portable.primitives.sorts.sorting_kernels import sort_by_rank
from portable.primitives.sorts.sweep_sorting import (
    Counting,
    Ways,
    count_by_workgroup,
    place_by_workgroup,
    sort_by_workgroup,
)
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda,
    compile_hip_together,
    cuda_missing,
    hip_missing,
)


def all_of(*specs: ParameterSpec) -> CompositeSpec:
    """A tuple of arguments."""
    return CompositeSpec(tuple, specs)


def struct_of(
    kind: type, like: CompositeSpec | None = None, /, **given: ParameterSpec
) -> CompositeSpec:
    """A struct of arguments: those given, those of another, and None."""
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else kind.__annotations__
    items = like.items if like else (StaticSpec(None),) * len(names)
    return CompositeSpec(
        kind, tuple(given.get(name, old) for name, old in zip(names, items, strict=True))
    )


LINE = ArraySpec(kl.f32, ("unit",), aligned=True)
MATRIX = ArraySpec(kl.f32, ("any", "unit"), aligned=True)
CROSSWISE = ArraySpec(kl.f32, ("unit", "any"), aligned=True)
COUNTS = ArraySpec(kl.i32, ("unit",), aligned=True)
WORDS = ArraySpec(kl.u64, ("unit",), aligned=True)
BITS = ArraySpec(kl.u32, ("any", "unit"), aligned=True)
PLACES = ArraySpec(kl.i64, ("any", "unit"), aligned=True)
INDEX = ArraySpec(kl.i64, ("unit",), aligned=True)
FLAG = ArraySpec(kl.i32, ("unit",), aligned=True)
BEGINS = ArraySpec(kl.i32, ("any", "any"), aligned=True)
STATE = ArraySpec(kl.u32, ("unit",), aligned=True)
MASK = ArraySpec(kl.bool_, ("unit",), aligned=True)
BYTES = ArraySpec(kl.u8, ("unit",), aligned=True)
COUNT, NONE = ScalarSpec("int"), StaticSpec(None)
LONG = ScalarSpec("float", kl.i64)
SECTIONS = {"WIDTH": 256, "AHEAD": 4, "FEW": 2048}
SUM = Merge(kl.add, kl.f32, 0, lanes=4)
SHARED = Sections(16384, 256)
KEYS = {"ORDER": Order("f", 32, True)}
COLUMNS = {"STRIP": 1, "SECTION": 64}
STEPS = (
    (kl.multiply, ((0, None), (0.5, kl.f32, None)), None),
    (kl.tanh, ((2, None),), None),
    (kl.add, ((3, None), (1, None)), None),
)
FUSED = {"STEPS": Steps(("full", "full"), STEPS), "RESULTS": (4,), "SHARE": Share(4, 4, 1, False)}
NUMBERS = ArraySpec(kl.u64, ("any", "unit"), aligned=True)
TABLE = ArraySpec(kl.u64, ("unit",), aligned=True)
SCALE = ScalarSpec("float", kl.f32)
NUMBERS_READ = struct_of(Source, array=NUMBERS, sign=SCALE)
NUMBERS_WRITTEN = struct_of(Target, array=NUMBERS, sign=SCALE, scale=SCALE, imag_scale=SCALE)
LINES = Shape(kl.f32, 1000, (10, 10, 10), 32, 8, True, True, False, False)
ELEMENTS_KEPT = struct_of(Results, x=LINE, out=LINE, step=LONG)
LAUNCHES: dict[str, tuple[Kernel, tuple[int, int, int], tuple[Any, ...], dict[str, Any]]] = {
    "fused": (
        fused,
        (256, 1, 1),
        (all_of(LINE, LINE), all_of(LINE)),
        FUSED,
    ),
    "reduce": (
        reduce_by_workgroup,
        (256, 1, 1),
        (all_of(MATRIX), all_of(MATRIX)),
        {"FOLD": SUM, "CUT": SHARED},
    ),
    "rows by a vector": (
        rows_by_vector,
        (256, 1, 1),
        (MATRIX, LINE, MATRIX),
        {"ACC": kl.f32, "LANES": 4, "WIDTH": 256, "DEPTH": 1 << 13},
    ),
    "reduce at once": (
        reduce_at_once,
        (256, 1, 1),
        (MATRIX, MATRIX, COUNTS, LINE),
        {"MERGE": SUM, "WIDTH": 256, "AHEAD": 4},
    ),
    "columns": (
        reduce_columns,
        (64, 1, 1),
        (MATRIX, all_of(MATRIX)),
        {"FOLD": SUM.taking(1), **COLUMNS},
    ),
    "strips": (
        reduce_strips,
        (256, 1, 1),
        (CROSSWISE, MATRIX, COUNTS, LINE),
        {"MERGE": SUM, "WIDTH": 32, "TALL": 8},
    ),
    "moments": (
        reduce_by_workgroup,
        (256, 1, 1),
        (all_of(MATRIX), all_of(MATRIX, MATRIX, NONE)),
        {"FOLD": Spread(SUM, kl.i32), "CUT": SHARED},
    ),
    "variances at once": (
        reduce_by_workgroup,
        (256, 1, 1),
        (all_of(MATRIX), all_of(NONE, MATRIX, SCALE)),
        {"FOLD": Spread(SUM, kl.i32, root=True), "CUT": replace(SHARED, one=True)},
    ),
    "variances of parts": (
        reduce_by_workgroup,
        (256, 1, 1),
        (all_of(MATRIX, MATRIX, LONG), all_of(NONE, MATRIX, SCALE)),
        {
            "FOLD": SpreadOfParts(SUM, kl.i32, part=16384),
            "CUT": replace(SHARED, one=True),
        },
    ),
    "transform": (
        transform_by_workgroup,
        (256, 1, 1),
        (
            struct_of(Source, NUMBERS_READ, table=TABLE, length=COUNT, step=COUNT, inner=COUNT),
            struct_of(
                Target,
                NUMBERS_WRITTEN,
                table=TABLE,
                coarse=NUMBERS,
                fine=NUMBERS,
                step=COUNT,
                step_in=COUNT,
                inner=COUNT,
            ),
            TABLE,
            COUNT,
        ),
        {"SHAPE": LINES},
    ),
    "transform of reals": (
        transform_by_workgroup,
        (256, 1, 1),
        (
            struct_of(
                Source,
                NUMBERS_READ,
                array=MATRIX,
                form=StaticSpec(Form.PAIRED),
                real=StaticSpec(Form.SPLIT),
                turns=TABLE,
            ),
            NUMBERS_WRITTEN,
            TABLE,
            COUNT,
        ),
        {"SHAPE": replace(LINES, staged=False, splits=True)},
    ),
    "recombination": (
        recombine_rows,
        (256, 1, 1),
        (NUMBERS_READ, NUMBERS_WRITTEN, struct_of(Turns, coarse=TABLE, fine=TABLE), COUNT, COUNT),
        {"CHUNK": 1, "LANES": 1, "SIGN": 1, "ACROSS": True},
    ),
    "twins parted": (split_row_pairs, (256, 1, 1), (NUMBERS_READ, NUMBERS_WRITTEN, COUNT), {}),
    "twins joined": (
        join_row_pairs,
        (256, 1, 1),
        (
            struct_of(Source, NUMBERS_READ, real=StaticSpec(Form.MIRRORED), length=COUNT),
            NUMBERS_WRITTEN,
            COUNT,
        ),
        {},
    ),
    "pack": (
        pack_by_workgroup,
        (256, 1, 1),
        (struct_of(Mask, flags=MASK, words=STATE), WORDS, COUNTS),
        {"WIDTH": 256},
    ),
    "compact": (
        take_by_workgroup,
        (256, 1, 1),
        (struct_of(Mask, flags=MASK, bits=WORDS, counts=COUNTS), ELEMENTS_KEPT, NONE),
        SECTIONS,
    ),
    "true indices": (
        take_by_workgroup,
        (256, 1, 1),
        (
            struct_of(Mask, flags=MASK, bits=WORDS, counts=COUNTS),
            struct_of(Results, like=MATRIX, out=INDEX, step=LONG),
            NONE,
        ),
        SECTIONS,
    ),
    "compact at once": (
        take_by_workgroup,
        (256, 1, 1),
        (struct_of(Mask, flags=MASK, words=STATE), ELEMENTS_KEPT, INDEX),
        {**SECTIONS, "FEW": 0},
    ),
    "pack distinct": (
        pack_by_workgroup,
        (256, 1, 1),
        (struct_of(Beginnings, x=LINE), WORDS, COUNTS),
        {"WIDTH": 256},
    ),
    "distinct": (
        take_by_workgroup,
        (256, 1, 1),
        (
            struct_of(Beginnings, x=LINE),
            CompositeSpec(Groups, (LINE, INDEX, LINE, *(INDEX,) * 4)),
            INDEX,
        ),
        {"WIDTH": 256, "AHEAD": 4, "FEW": 0},
    ),
    "expand": (
        take_by_workgroup,
        (256, 1, 1),
        (
            struct_of(Mask, bits=WORDS, counts=COUNTS),
            struct_of(Assigned, x=MATRIX, values=LINE),
            NONE,
        ),
        {"WIDTH": 256, "AHEAD": 4, "FEW": 0},
    ),
    "fill": (
        fill,
        (256, 1, 1),
        (MASK, NONE, COUNT, BYTES),
        {"NUMBER": True, "ROW": False, "CUT": Cut(256, 8, 2048, 1)},
    ),
    "scatter": (
        scatter,
        (256, 1, 1),
        (BYTES, all_of(INDEX), FLAG, BYTES),
        {"WHERE": Where(0, 1), "NUMBER": False, "AT_ONCE": True, "SHARE": Share(1, 1, 1, False)},
    ),
    "best": (
        reduce_by_workgroup,
        (256, 1, 1),
        (all_of(MATRIX, NONE), all_of(MATRIX, PLACES)),
        {"FOLD": Best(True, kl.f32, kl.i32, 4), "CUT": SHARED},
    ),
    "scan": (
        scan_by_workgroup,
        (256, 1, 1),
        (MATRIX, MATRIX, MATRIX),
        {"TILE": Tile(SUM, 256, 4), "CUT": SHARED, "SHIFT": 1},
    ),
    "scan in turn": (
        chained_scan,
        (128, 1, 1),
        (MATRIX, WORDS, MATRIX),
        {"LOOK": LookBack(Tile(SUM, 128, 8), 4), "SHIFT": 0},
    ),
    "scan strips in turn": (
        chained_strip_scan,
        (256, 1, 1),
        (CROSSWISE, WORDS, CROSSWISE),
        {"STRIP": Strip(SUM, 16, 16, 8), "SHIFT": 0},
    ),
    "scan columns": (
        scan_columns,
        (64, 1, 1),
        (MATRIX, NONE, MATRIX),
        {"SCAN": ColumnScan(SUM.taking(1), 1, 64, 32, 0, False)},
    ),
    "best of columns": (
        reduce_columns,
        (64, 1, 1),
        (MATRIX, all_of(MATRIX, PLACES)),
        {"FOLD": Best(False, kl.f32, kl.i32, 1), **COLUMNS},
    ),
    "check": (
        check,
        (256, 1, 1),
        (all_of(INDEX, INDEX, INDEX), FLAG, all_of(LONG, LONG, LONG)),
        {"CHUNK": 1},
    ),
    "gather": (
        gather,
        (64, 4, 1),
        (MATRIX, all_of(INDEX, INDEX), FLAG, LINE),
        {"WHERE": Where(0, 2), "SHARE": Share(4, 4, 1, False)},
    ),
    "copies": (
        copy_several,
        (256, 1, 1),
        (all_of(LINE, BYTES), all_of(LINE, LINE)),
        {"KINDS": (None, kl.f32), "CHUNK": 1},
    ),
    "exchange": (
        exchange_tiles,
        (32, 8, 1),
        (all_of(CROSSWISE), MATRIX),
        {
            "FORMULA": Formula(kl.negative, ("crosswise",), (None,)),
            "CUT": Tiles(32, 8, 2),
        },
    ),
    "sort by rank": (
        sort_by_rank,
        (64, 1, 1),
        (BITS, struct_of(Line, elements=BITS, places=PLACES)),
        {"EACH": 1, **KEYS},
    ),
    "sort together": (
        sort_by_workgroup,
        (256, 1, 1),
        (BITS, struct_of(Line, elements=BITS, places=PLACES)),
        {"TILE": SortTile(15, 256), "DIGITS": 4, **KEYS},
    ),
    "count together": (
        count_by_workgroup,
        (256, 1, 1),
        (BITS, BITS, COUNT),
        {"COUNTING": Counting(16384, 8, 256, 4), **KEYS},
    ),
    "place together": (
        place_by_workgroup,
        (256, 1, 1),
        (
            struct_of(Line, elements=BITS, places=PLACES),
            CompositeSpec(Ways, (BEGINS, STATE, STATE)),
            struct_of(Line, elements=BITS, places=PLACES),
            COUNT,
        ),
        {"TILE": SortTile(15, 256), **KEYS},
    ),
}


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("name", LAUNCHES)
def test_compiles_for_cuda(name: str) -> None:
    compile_cuda(program(name, CUDA))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_all_compile_for_hip() -> None:
    compile_hip_together([program(name, HIP) for name in LAUNCHES])


def program(name: str, target: Capabilities) -> Program:
    kernel, workgroup, specs, constants = LAUNCHES[name]
    wanted = Specialisation(
        specs, kernel.constants(constants), workgroup, False, True, kernel.options
    )
    return generate(kernel.translated(wanted, target), target)
