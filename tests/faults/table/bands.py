"""Faults in the reduction of bands, wherever they are worked on."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

__all__ = ["BANDS"]

LINALG: Final = "portable.linalg."
RING: Final = LINALG + "band_ring:"
BAND: Final = LINALG + "band_kernels:"
TILES: Final = LINALG + "band_tiles:"
ITEMS: Final = LINALG + "band_items:"

BANDS: Final = (
    fault(
        "the ring waits for one block fewer where it has run out of blocks",
        RING + "looked",
        "found = awaited(sync, pack, found, due, RING)",
        "found = awaited(sync, pack, found, due - 1, RING) + 1",
        "band_in_a_ring",
        "race",
        schedule="held",
    ),
    fault(
        "a pack does not wait for the hop that its last column takes part in",
        RING + "load_blocks",
        "kl.minimum(last, seen - 2)",
        "kl.minimum(last, seen - 1)",
        "band_in_a_ring_with_blocks_under_way",
        "race",
    ),
    fault(
        "the progress of a pack is read relaxed",
        RING + "awaited",
        'kl.atomic_load(sync, pack.number, order="acquire")',
        "kl.atomic_load(sync, pack.number)",
        "band_in_a_ring",
        "race",
    ),
    fault(
        "progress is published relaxed",
        BAND + "publish",
        'kl.atomic_store(sync, 1 + pack, done, order="release")',
        "kl.atomic_store(sync, 1 + pack, done)",
        "band_in_a_ring",
        "race",
    ),
    fault(
        "progress is published one block early",
        RING + "ring_packs",
        "publish(sync, pack.number, done // 2 + 1)",
        "publish(sync, pack.number, done // 2 + 2)",
        "band_in_a_ring_of_many_sweeps",
        "race",
    ),
    fault(
        "progress is published in the turn that a block is left in",
        RING + "ring_packs",
        "done = turn + 1 - _APART * SWEEPS",
        "done = turn + 2 - _APART * SWEEPS",
        "band_in_a_ring_with_blocks_under_way",
        "race",
    ),
    fault(
        "a sweep reads what the one before is about to write",
        RING + "left_reflectors",
        "tile.fetch(memory.ring, above, B, corner.missing, SHAPE)",
        "tile.fetch(memory.ring, above, B, False, SHAPE)",
        "band_in_a_ring",
        "race",
    ),
    fault(
        "what a sweep eliminates stays in global memory",
        RING + "left_reflectors",
        "tile.across == 0",
        "False",
        "band_in_a_ring",
        "result",
    ),
    without_barrier(
        RING + "ring_packs",
        1,
        2,
        "a pack is finished before its last turn",
        "band_in_a_ring",
    ),
    fault(
        "the ring is one slot too short",
        RING + "Ring.slots",
        "(_APART * self.sweeps + self.ahead) // 2",
        "(_APART * self.sweeps + self.ahead) // 2 - 1",
        "band_in_a_ring",
        "race",
    ),
    fault(
        "the phase of a completion is off by one",
        RING + "ring_packs",
        "needed // RING.slots % 2",
        "(needed + 1) // RING.slots % 2",
        "band_in_a_ring",
        "copy",
    ),
    without_barrier(
        RING + "ring_packs",
        0,
        2,
        "a turn begins before the last one is over",
        "band_in_a_ring",
    ),
    fault(
        "a hop's columns do not wrap round in the ring",
        TILES + "within",
        "kl.where(column >= ring.shape[0], column - ring.shape[0], column)",
        "column",
        "band_in_a_ring",
        "bounds",
    ),
    fault(
        "a pack of vectors follows too closely",
        BAND + "vector_packs",
        "follow(sync, pack, start + EVERY + LAG * SWEEPS)",
        "follow(sync, pack, start + EVERY + LAG * SWEEPS - 1)",
        "band_in_vectors",
        "race",
    ),
    fault(
        "a pack of vectors publishes before its hops",
        BAND + "vector_packs",
        "follow(sync, pack, start + EVERY + LAG * SWEEPS)",
        "follow(sync, pack, start + EVERY + LAG * SWEEPS)\n"
        "publish(sync, pack, kl.where(start + EVERY >= steps, FINISHED, start + EVERY))",
        "band_in_vectors",
        "race",
    ),
    fault(
        "a pack by items follows too closely",
        BAND + "item_packs",
        "follow(sync, pack, step + 2 + AHEAD)",
        "follow(sync, pack, step + AHEAD)",
        "band_by_items",
        "race",
        seed=1,
    ),
    fault(
        "a pack by items publishes steps that it has not made",
        BAND + "item_packs",
        "publish(sync, pack, step)",
        "publish(sync, pack, step + 2)",
        "band_by_items",
        "race",
    ),
    without_barrier(
        BAND + "item_packs",
        1,
        2,
        "a pack by items is finished before its last hop",
        "band_by_items",
    ),
    fault(
        "packs are taken by number, not by ticket",
        BAND + "taken_pack",
        "ticket = kl.atomic_add(sync, 0, 1)",
        "ticket = kl.group_id(0)",
        "band_by_items",
        "wait",
        resident=1,
    ),
    without_barrier(
        ITEMS + "hop_by_items",
        0,
        4,
        "a row is read while it is fetched",
        "band_by_items",
    ),
    without_barrier(
        ITEMS + "hop_by_items",
        1,
        4,
        "columns are combined before rows are",
        "band_in_steps",
    ),
    without_barrier(
        ITEMS + "hop_by_items",
        2,
        4,
        "a tile is worked on before it is there",
        "band_by_few_items",
    ),
    without_barrier(
        ITEMS + "hop_by_items",
        3,
        4,
        "a tile is written back before it is done",
        "band_by_few_items",
    ),
    fault(
        "neighbouring waves touch",
        BAND + "item_wave",
        "k = wave - (SHAPE.lag + 1) * sweep",
        "k = wave - SHAPE.lag * sweep",
        "band_in_waves",
        "race",
    ),
)
