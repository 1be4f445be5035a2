"""Faults in scans, reductions, sorts, masks, moves and transforms of arrays."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

__all__ = ["ARRAYS"]

PRIMITIVES: Final = "portable.primitives."
BOARD: Final = PRIMITIVES + "scans.board_kernels:"
LOOKBACK: Final = PRIMITIVES + "scans.lookback_kernels:"
STRIPS: Final = PRIMITIVES + "scans.strip_lookback_kernels:"
BLOCKS: Final = PRIMITIVES + "scans.block_kernels:"
SCANS: Final = PRIMITIVES + "scans.scan_kernels:"
COLLECTIVES: Final = "portable.lang.library.collectives:"
ORDER: Final = PRIMITIVES + "sorts.tile_order:"
SWEEP: Final = PRIMITIVES + "sorts.sweep_kernels:"
BUCKETS: Final = PRIMITIVES + "sorts.bucket_kernels:"
HALVES: Final = PRIMITIVES + "sorts.halving_kernels:"
MASKS: Final = PRIMITIVES + "masks.mask_kernels:"
SPARSE: Final = "portable.sparse.kernels:"
FOURIER: Final = "portable.array.fourier.kernels:"

ARRAYS: Final = (
    fault(
        "a total is published before it is made",
        LOOKBACK + "LookBack.announce",
        "board.publish(board.slot(number), sums[self.tile.width - 1])",
        "board.publish(board.slot(number), sums[self.tile.width - 2])",
        "totals_looked_back_at",
        "result",
    ),
    fault(
        "totals of the launch before count as this one's",
        BOARD + "Board.looked_at",
        "(words[place + p] >> 32) == self.mark",
        "(words[place + p] >> 32) != 0",
        "totals_looked_back_at",
        "result",
    ),
    without_barrier(
        LOOKBACK + "LookBack.gathered",
        1,
        2,
        "a window is added up before it is gathered",
        "totals_looked_back_at",
    ),
    without_barrier(
        LOOKBACK + "LookBack.added_in_parts",
        0,
        1,
        "parts are merged before they are there",
        "totals_looked_back_at",
    ),
    fault(
        "a tile is taken without waiting for its copy",
        LOOKBACK + "LookBack.take_over",
        "kl.copy_wait(0)",
        "pass",
        "totals_looked_back_at",
        "copy",
    ),
    without_barrier(
        LOOKBACK + "LookBack.take_over",
        1,
        2,
        "a tile is sent for while the last one is read",
        "totals_looked_back_at",
    ),
    fault(
        "totals of tiles are not published",
        LOOKBACK + "LookBack.announce",
        "kl.local_id(0) == 0",
        "kl.local_id(0) == self.tile.width",
        "totals_looked_back_at",
        "wait",
        patience=200,
    ),
    fault(
        "the total of one block too few is taken",
        BLOCKS + "Blocks.before_block",
        "board.looked_at(self.slot(board, row + known - 1), words, 0, BLOCK_LEVELS)",
        "board.looked_at(self.slot(board, row + kl.maximum(known - 2, 0)), words, 0, BLOCK_LEVELS)",
        "totals_of_blocks",
        "result",
    ),
    fault(
        "a strip waits for a tile that comes later",
        STRIPS + "scan_strips_in_turn",
        "STRIP.slot(number - higher * strips, total, what)",
        "STRIP.slot(number + strips, total, what)",
        "totals_of_strips",
        "wait",
        patience=200,
    ),
    without_barrier(
        STRIPS + "scan_strips_in_turn",
        1,
        2,
        "totals above are added up before all are seen",
        "totals_of_strips",
    ),
    without_barrier(
        SCANS + "Tile.add_up",
        1,
        2,
        "a round of sums begins before the one before is done",
        "totals_of_sections",
    ),
    without_barrier(
        COLLECTIVES + "_begin",
        0,
        1,
        "a collective overwrites what the one before it still reads",
        "collectives",
    ),
    without_barrier(
        COLLECTIVES + "_reduced_by_sub_groups",
        0,
        1,
        "results of sub-groups are combined before they are there",
        "reductions_together",
    ),
    without_barrier(
        COLLECTIVES + "_scanned_by_sub_groups",
        0,
        1,
        "totals of sub-groups are scanned before they are there",
        "collectives",
    ),
    fault(
        "a scan begins with the sub-group's own total",
        COLLECTIVES + "_scanned_by_sub_groups",
        "kl.maximum(number - 1, 0)",
        "number",
        "collectives",
        "result",
    ),
    without_barrier(
        COLLECTIVES + "_shared",
        0,
        1,
        "votes of sub-groups are counted before they are there",
        "collectives",
    ),
    without_barrier(
        COLLECTIVES + "broadcast",
        0,
        1,
        "a broadcast is read before it is there",
        "collectives",
    ),
    fault(
        "the rest of a row is merged twice",
        PRIMITIVES + "reductions.merging:Merge.along",
        "kl.minimum(left + (stop - full), self.lanes)",
        "kl.minimum(left + (stop - full) + 1, self.lanes)",
        "reductions_at_once",
        "bounds",
    ),
    fault(
        "work-items look at elements of the next section",
        PRIMITIVES + "reductions.best_kernels:Best.of_vectors",
        "own.stop - self.lanes",
        "own.stop - self.lanes + 1",
        "positions_of_the_greatest",
        "bounds",
    ),
    without_barrier(
        PRIMITIVES + "reductions.strip_kernels:merged_down",
        0,
        1,
        "rows of sums are added up before all are there",
        "reductions_of_strips",
    ),
    fault(
        "nothing is divided by a count of nothing",
        PRIMITIVES + "reductions.moment_kernels:share",
        "kl.maximum(whole, 1)",
        "whole",
        "variances",
        "result",
    ),
    without_barrier(
        ORDER + "Tile.order_by",
        2,
        4,
        "notes overwrite counters that others still read",
        "sorting_in_a_tile",
    ),
    without_barrier(
        ORDER + "Tile.order_notes",
        0,
        1,
        "notes are overwritten while others take theirs",
        "sorting_in_a_tile",
    ),
    without_barrier(
        ORDER + "Tile.total_before",
        1,
        2,
        "counts of groups are read before they are there",
        "sorting_in_a_tile",
    ),
    without_barrier(
        SWEEP + "_Digits.find_ways",
        0,
        2,
        "digits are counted before all are marked",
        "sorting_tile_by_tile",
    ),
    fault(
        "a tile's own count passes for that of the row",
        SWEEP + "looked_back",
        "mine | (one << TOP) * OWN",
        "mine | (one << TOP) * UP_TO",
        "sorting_tile_by_tile",
        "race",
    ),
    fault(
        "looking back passes by a tile",
        SWEEP + "looked_back",
        "back - kl.cast(status != 0, back.dtype)",
        "back - kl.cast(status != 0, back.dtype) * 2",
        "sorting_tile_by_tile",
        "bounds",
    ),
    fault(
        "a section loses its last element",
        BUCKETS + "place_in_buckets",
        "range(section.first, section.stop)",
        "range(section.first, section.stop - 1)",
        "sorting_by_buckets",
        "uninitialised",
    ),
    fault(
        "a section that is halved loses its last element",
        HALVES + "divide",
        "section.first, section.stop",
        "section.first, section.stop - 1",
        "sorting_by_halves",
        "uninitialised",
    ),
    fault(
        "equal elements get one rank",
        PRIMITIVES + "sorts.sorting_kernels:sort_by_rank",
        "other < at",
        "other < 0",
        "sorting_by_rank",
        "race",
    ),
    without_barrier(
        MASKS + "words_added_up",
        0,
        2,
        "bits are counted before others have told theirs",
        "elements_of_a_mask",
    ),
    without_barrier(
        MASKS + "take_few",
        0,
        1,
        "places are read before they are noted",
        "elements_of_a_mask_by_sections",
    ),
    fault(
        "a section begins one place early",
        MASKS + "own_section",
        "done = source.counts[group - 1]",
        "done = source.counts[group - 1] - 1",
        "elements_of_a_mask_by_sections",
        "uninitialised",
    ),
    fault(
        "the last of a mask's bits are not written",
        MASKS + "pack_words",
        "bits[at] = packed_word(word, before)",
        "if word != 0:\n    bits[at] = packed_word(word, before)",
        "elements_of_a_mask_by_sections",
        "uninitialised",
    ),
    without_barrier(
        MASKS + "own_section",
        0,
        1,
        "groups are written before their bits are there",
        "distinct_values",
    ),
    without_barrier(
        PRIMITIVES + "maps.exchange_kernels:exchange_tiles",
        0,
        1,
        "a square is turned before it is there",
        "transposed_sums",
    ),
    fault(
        "a square at the edge is read without a guard",
        PRIMITIVES + "maps.exchange_kernels:_Square.bring",
        "(top + i + r < down) & (left + far + c < across)",
        "(top + i + r < down)",
        "transposed_sums",
        "bounds",
    ),
    without_barrier(
        PRIMITIVES + "moves.scattering:in_range",
        1,
        2,
        "an index counts as good before all have looked",
        "assignments_beyond_an_array",
    ),
    without_barrier(
        FOURIER + "Item.exchanged",
        0,
        3,
        "a stage reads before the one before has written",
        "transforms_of_rows",
    ),
    without_barrier(
        FOURIER + "transform_by_workgroup",
        0,
        2,
        "a stage writes while the one before is read",
        "transforms_of_long_rows",
    ),
    without_barrier(
        SPARSE + "csr_even_by_vector",
        0,
        2,
        "numbers of a share are added up before they are there",
        "uneven_rows_by_a_vector",
    ),
    without_barrier(
        SPARSE + "csr_even_by_vector",
        1,
        2,
        "rows of a share are stored before they are summed up",
        "uneven_rows_by_a_vector",
    ),
    fault(
        "a row gets nothing of the share before",
        SPARSE + "csr_add_carried",
        "rows[share - 1] != row",
        "rows[share - 1] == row",
        "uneven_rows_by_a_vector",
        "race",
    ),
    fault(
        "the last lines of a transform have no guard",
        FOURIER + "transform_by_workgroup",
        "first + b < lines",
        "first + b <= lines",
        "transforms_of_rows",
        "race",
        which=1,
        of=2,
    ),
)
