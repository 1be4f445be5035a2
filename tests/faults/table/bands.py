"""Faults in the reduction of bands, wherever they are worked on."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

LINALG: Final = "portable.linalg."
RING: Final = LINALG + "bands.ring:"
BAND: Final = LINALG + "bands.kernels:"
PRODUCTS: Final = LINALG + "bands.products:"
TILES: Final = LINALG + "bands.tiles:"
ITEMS: Final = LINALG + "bands.items:"

BANDS: Final = (
    fault(
        "the ring waits for one hop fewer of the pack before",
        RING + "load_block",
        "result < block + 2",
        "result < block + 1",
        "band_in_a_ring",
        "race",
        schedule="held",
    ),
    fault(
        "an mbarrier's phase ends before the bytes were announced",
        RING + "ring_packs",
        "wait_for(progress, _LOADED, (needed + 1) * RING.tile.items)",
        "pass",
        "band_in_a_ring_on_an_h200",
        "copy",
    ),
    fault(
        "the progress of a pack is read relaxed",
        RING + "load_block",
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
        "publish(sync, pack.number, done)",
        "publish(sync, pack.number, done + 1)",
        "band_in_a_ring_of_many_sweeps",
        "race",
    ),
    fault(
        "a sweep reads what the one before is about to write",
        RING + "left_reflectors",
        "tile.fetch(memory.ring, above, 0, hop.leads, RING)",
        "tile.fetch(memory.ring, above, 0, False, RING)",
        "band_in_a_ring",
        "race",
    ),
    fault(
        "what a sweep eliminates stays in global memory",
        RING + "left_reflectors",
        "tile.has_first_column",
        "False",
        "band_in_a_ring",
        "result",
    ),
    without_barrier(
        RING + "ring_packs",
        0,
        1,
        "a pack is finished before its last turn",
        "band_in_a_ring",
    ),
    fault(
        "the ring is one slot too short",
        RING + "Ring.slots",
        "_DISTANCE * self.sweeps // 2 + 1 + self.spare",
        "_DISTANCE * self.sweeps // 2 + self.spare",
        "band_in_a_ring",
        "copy",
    ),
    fault(
        "the phase of a completion is off by one",
        RING + "begin_turn",
        "needed // RING.slots % 2",
        "(needed + 1) // RING.slots % 2",
        "band_in_a_ring",
        "copy",
    ),
    fault(
        "a turn begins before the last one is over",
        RING + "ring_packs",
        "kl.barrier(sub_groups=WORKING)",
        "pass",
        "band_in_a_ring_with_blocks_under_way",
        "race",
    ),
    fault(
        "a hop's columns do not wrap round in the ring",
        TILES + "Tile.place",
        "kl.where(beyond, begin - RING.slots * RING.block, begin)",
        "begin",
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
        "a pack of panels applied as products follows too closely",
        PRODUCTS + "product_packs",
        "follow(sync, pack, step + 1 + LAG * SWEEPS)",
        "follow(sync, pack, step + LAG * SWEEPS)",
        "band_by_products",
        "race",
    ),
    fault(
        "a pack of panels applied as products publishes before its hops",
        PRODUCTS + "product_packs",
        "follow(sync, pack, step + 1 + LAG * SWEEPS)",
        "follow(sync, pack, step + 1 + LAG * SWEEPS)\n"
        "publish(sync, pack, kl.where(step + 1 == steps, FINISHED, step + 1))",
        "band_by_products",
        "race",
    ),
    fault(
        "packs are taken by number, not by ticket",
        BAND + "taken_pack",
        "ticket = kl.atomic_add(sync, 0, 1)",
        "ticket = kl.group_id(0)",
        "band_in_vectors",
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
