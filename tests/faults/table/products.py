"""Faults in products of matrices, and in what they become on matrix units."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

LINALG: Final = "portable.linalg."
GEMM: Final = LINALG + "products.kernels:"
PIPELINE: Final = "portable.lang.ir.pipeline:"
WARPS: Final = "portable.lang.tiles.warp_specialisation:"
BULK: Final = "portable.lang.tiles.bulk:"
SETTLE: Final = "portable.lang.tiles.wgmma:"

PRODUCTS: Final = (
    fault(
        "a row beyond the matrix is multiplied",
        GEMM + "gemm_naive",
        "row < result.shape[0] and column < result.shape[1]",
        "column < result.shape[1]",
        "products_element_by_element",
        "bounds",
    ),
    fault(
        "the sum takes one product too many",
        GEMM + "gemm_naive",
        "range(left.shape[1])",
        "range(left.shape[1] + 1)",
        "products_element_by_element",
        "bounds",
    ),
    fault(
        "a copy is not waited for",
        PIPELINE + "_arrived",
        "s.CopyWait(pending, loc)",
        "s.CopyWait(pending + 1, loc)",
        "products_of_tiles",
        "copy",
    ),
    fault(
        "a tile is multiplied when only the own part of it has come",
        PIPELINE + "_arrived",
        "(s.CopyWait(pending, loc), s.Barrier(loc))",
        "(s.CopyWait(pending, loc),)",
        "products_of_tiles",
        "race",
    ),
    fault(
        "a slot is filled one step early",
        "portable.lang.library.collectives:read_slot",
        "ahead % STAGES",
        "(ahead + 1) % STAGES",
        "products_of_tiles",
        "copy",
    ),
    fault(
        "the only slot is filled while it is read",
        PIPELINE + "in_rounds",
        "(*body, s.Barrier(x.loc))",
        "body",
        "products_of_tiles_in_turn",
        "race",
    ),
    fault(
        "what is made next is asked for a step late",
        GEMM + "ReaderOn.start",
        "step < self.end",
        "step <= self.end",
        "products_whose_last_round_is_shared_out",
        "result",
    ),
    fault(
        "parts are added of those who had none of a tile",
        GEMM + "gemm_share_sums",
        "first_sum < end and after > begin and first_sum < after",
        "first_sum < end and first_sum < after",
        "products_whose_last_round_is_shared_out",
        "uninitialised",
    ),
    without_barrier(
        GEMM + "Epilogue.store",
        0,
        1,
        "an operand is overwritten before all have read it",
        "products_into_an_operand",
    ),
    fault(
        "more columns are said to be zeros than are",
        GEMM + "Reader.valid",
        "k - step * self.DEPTH",
        "k - step * self.DEPTH - 1",
        "products_of_tiles",
        "promise",
    ),
)


UNITS: Final = (
    fault(
        "a copy brings what is not beyond the end instead of zeros",
        "portable.lang.tiles.copies:_Lowering._start",
        'e.Select(test, e.Binary("min", left, valid), self._const(0))',
        "valid",
        "products_by_warps",
        "result",
    ),
    fault(
        "the multiplying warpgroup does not fence what another copied",
        WARPS + "_consume",
        'code.instruct("proxy.fence")',
        "pass",
        "products_by_a_warpgroup_and_one_that_copies",
        "copy",
    ),
    fault(
        "slots are freed a round early, and the first one never",
        WARPS + "_consume",
        'ring.arrive(code, "mbarrier.arrive", ring.freed, after, 1)',
        'ring.arrive(code, "mbarrier.arrive", ring.freed, after, 0)',
        "products_by_a_warpgroup_and_a_copy_engine",
        "wait",
    ),
    fault(
        "the product before is not waited for",
        WARPS + "_consume",
        'code.instruct("wgmma.wait.1")',
        "pass",
        "products_by_a_warpgroup_and_a_copy_engine",
        "copy",
    ),
    fault(
        "sums of a tile are added up before units have made them",
        "portable.lang.tiles.wgmma:Wgmma._start",
        "wait(x.loc)",
        's.Instruction("wgmma.fence", x.loc)',
        "products_of_eight_bits",
        "copy",
    ),
    fault(
        "the phase of a ring is off by one",
        WARPS + "_Ring.wait",
        "add(divided(turn, self.slots), ahead)",
        "add(divided(turn, self.slots), ahead + 1)",
        "products_by_a_warpgroup_and_a_copy_engine",
        "uninitialised",
    ),
    fault(
        "a slot counts as filled before its copies have ended",
        WARPS + "_produce",
        'ring.arrive(code, "mbarrier.arrive.copied", ring.filled, turn, 0)',
        'ring.arrive(code, "mbarrier.arrive", ring.filled, turn, 0)',
        "products_by_a_warpgroup_and_one_that_copies",
        "copy",
    ),
    fault(
        "a slot is asked for before it is free",
        WARPS + "_produce_by_tma",
        "ring.wait(code, ring.freed, turn, 1)",
        "pass",
        "products_by_a_warpgroup_and_a_copy_engine",
        "copy",
    ),
    fault(
        "mbarriers are used before they are made",
        WARPS + "_Ring.begin",
        "code.emit(s.Barrier(code.loc))",
        "pass",
        "products_by_a_warpgroup_and_a_copy_engine",
        "race",
    ),
    fault(
        "barriers do not wait for products of warpgroups",
        SETTLE + "_settled",
        "(wait(x.loc), fence, x) if waiting else (fence, x)",
        "(fence, x)",
        "products_by_a_warpgroup",
        "copy",
    ),
    fault(
        "a warpgroup does not fence what it copied itself",
        SETTLE + "_settled",
        "(wait(x.loc), fence, x) if waiting else (fence, x)",
        "(wait(x.loc), x)",
        "products_by_a_warpgroup",
        "copy",
    ),
    fault(
        "a warp that copies waits as a warpgroup does",
        SETTLE + "settled",
        "partial(_settled, waiting)",
        "partial(_settled, True)",
        "products_by_a_warpgroup_and_a_warp",
        "divergence",
    ),
    fault(
        "an mbarrier is not told of the bytes to come",
        BULK + "_Bulk._issue",
        's.Instruction("mbarrier.expect_tx", x.loc, inputs=(size,), addresses=(slot,))',
        's.Instruction("mbarrier.init_fence", x.loc)',
        "band_in_a_ring_on_an_h200",
        "copy",
    ),
    fault(
        "nobody arrives at the mbarriers of a band",
        BULK + "_Bulk._wait",
        "(arrive,)",
        "()",
        "band_in_a_ring_on_an_h200",
        "wait",
    ),
    fault(
        "those who wait for bulk copies do not meet",
        BULK + "_Bulk._wait",
        "s.Barrier(x.loc, x.meeting)",
        "s.Fence('acq_rel', 'workgroup', x.loc)",
        "band_in_a_ring_on_an_h200",
        "race",
    ),
    fault(
        "a slot counts as filled when half of the copies were asked for",
        WARPS + "specialise",
        "1 if pieces.tensor_copies else 2 * copiers",
        "1 if pieces.tensor_copies else copiers",
        "products_by_a_warpgroup_and_one_that_copies",
        "copy",
    ),
    fault(
        "TMA is expected to bring half of the bytes",
        WARPS + "_produce_by_tma",
        "(code.index(size),)",
        "(code.index(size // 2),)",
        "products_by_a_warpgroup_and_a_copy_engine",
        "copy",
        completion="random",
    ),
    fault(
        "the last slot of a tile stays taken",
        WARPS + "_consume",
        "if pieces.around is not None: free(end)",
        "pass",
        "products_in_turn_by_a_warpgroup",
        "wait",
    ),
    fault(
        "the ring begins anew with each tile",
        GEMM + "make_tile",
        "multiply(total, tiles, reader, (done, done + steps), TILING)",
        "multiply(total, tiles, reader, (0, steps), TILING)",
        "products_in_turn_by_a_warpgroup",
        "result",
    ),
)
