"""Small networks in one kernel: all layers of a forward pass, or all steps of some epochs.

A workgroup holds the values of some samples in local memory, a row of `values` for each unit and a
column for each sample, so that vectors run along samples on every device: across the registers of a
processor, whose workgroups are of one work-item, and as wide loads on a GPU. ``NET``, ``LOSS``,
``RULE`` and ``SHAPE`` are structs of `portable.nn.fused_parts`, `portable.nn.optimizers` and
`portable.nn.fused_shapes`.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.sums import lane_sum
from portable.nn.optimizers import row_of

__all__ = ["forward_rows", "train_epochs"]


@function
def load_rows(x: Any, order: Any, first: Any, count: Any, values: Any, SHAPE: Any) -> None:
    """Samples into columns of `values`; beyond `count` zeros."""
    for r in range(kl.local_linear_id(), SHAPE.rows, SHAPE.size):
        if r < count:
            source = first + r
            if order is not None:
                source = order[source]
            for k in range(x.shape[1]):
                values[k, r] = x[source, k]
        else:
            for k in range(x.shape[1]):
                values[k, r] = 0


@function
def part_count(units: int, SHAPE: Any) -> Any:
    """Into how many parts the work for so many units of all samples goes."""
    return kl.cdiv(units, SHAPE.units) * (SHAPE.rows // (SHAPE.lanes * SHAPE.vectors))


@function
def place_of_part(part: Any, SHAPE: Any) -> Any:
    """The first unit of a part and the first column of its values."""
    wide = SHAPE.lanes * SHAPE.vectors
    across = SHAPE.rows // wide
    return part // across * SHAPE.units, part % across * wide


@function
def add_products(
    sums: Any, weights: Any, places: Any, depth: int, step: int, values: Any, at: Any, SHAPE: Any
) -> None:
    """Adds rows of values, each times a weight, to the sums of each unit, so many vectors wide.

    The weights of a unit begin at its place and lie `step` apart; `at` are the first row of the
    values and the column.
    """
    row, column = at
    for k in range(depth):
        held = kl.private(SHAPE.vectors, values.dtype, lanes=SHAPE.lanes)
        for v in kl.static_range(SHAPE.vectors):
            held[v] = kl.vload(values, row + k, column + v * SHAPE.lanes, lanes=SHAPE.lanes)
        for j in kl.static_range(SHAPE.units):
            factor = kl.splat(weights[places[j] + k * step], SHAPE.lanes)
            for v in kl.static_range(SHAPE.vectors):
                sums[j * SHAPE.vectors + v] += factor * held[v]


@function
def through_layer(
    weights: Any, values: Any, source: int, target: int, LAYER: Any, ACTIVATION: Any, SHAPE: Any
) -> None:
    """The values from row `target` on: those from row `source` on, through a layer.

    A work-item does so many units of so many vectors of samples at a time.
    """
    for item in range(kl.local_linear_id(), part_count(LAYER.outputs, SHAPE), SHAPE.size):
        first, column = place_of_part(item, SHAPE)
        sums = kl.private(SHAPE.units * SHAPE.vectors, values.dtype, lanes=SHAPE.lanes)
        places = ()
        for j in kl.static_range(SHAPE.units):
            unit = kl.minimum(first + j, LAYER.outputs - 1)
            places = (*places, LAYER.weight + unit * LAYER.inputs)  # type: ignore[assignment]
            for v in kl.static_range(SHAPE.vectors):
                sums[j * SHAPE.vectors + v] = kl.splat(weights[LAYER.bias + unit], SHAPE.lanes)
        add_products(sums, weights, places, LAYER.inputs, 1, values, (source, column), SHAPE)
        for j in kl.static_range(SHAPE.units):
            if first + j < LAYER.outputs:
                for v in kl.static_range(SHAPE.vectors):
                    value = sums[j * SHAPE.vectors + v]
                    if ACTIVATION is not None:
                        value = ACTIVATION(value)
                    kl.vstore(values, target + first + j, column + v * SHAPE.lanes, value)


@function
def back_through_layer(
    weights: Any, values: Any, source: int, target: int, LAYER: Any, SLOPE: Any, SHAPE: Any
) -> None:
    """The loss's slopes of a layer's inputs in the place of their values, from its outputs'."""
    for item in range(kl.local_linear_id(), part_count(LAYER.inputs, SHAPE), SHAPE.size):
        first, column = place_of_part(item, SHAPE)
        sums = kl.private(SHAPE.units * SHAPE.vectors, values.dtype, lanes=SHAPE.lanes)
        places = ()
        for j in kl.static_range(SHAPE.units):
            unit = kl.minimum(first + j, LAYER.inputs - 1)
            places = (*places, LAYER.weight + unit)  # type: ignore[assignment]
            for v in kl.static_range(SHAPE.vectors):
                sums[j * SHAPE.vectors + v] = kl.splat(kl.cast(0, values.dtype), SHAPE.lanes)
        at = target, column
        add_products(sums, weights, places, LAYER.outputs, LAYER.inputs, values, at, SHAPE)
        for j in kl.static_range(SHAPE.units):
            if first + j < LAYER.inputs:
                for v in kl.static_range(SHAPE.vectors):
                    row, here = source + first + j, column + v * SHAPE.lanes
                    value = kl.vload(values, row, here, lanes=SHAPE.lanes)
                    kl.vstore(values, row, here, sums[j * SHAPE.vectors + v] * SLOPE(value))


@function
def sum_of_neighbours(x: Any, COUNT: int) -> Any:
    """The sum over so many neighbouring work-items of a sub-group, a power of two, for each."""
    total = x
    step = 1
    for _ in kl.static_range(6):
        if step < COUNT:
            total = total + kl.sub_group_shuffle_xor(total, step)
            step = step * 2
    return total


@function
def gradients_of_layer(
    gradient: Any, values: Any, source: int, target: int, ones: int, more: Any, LAYER: Any,
    SHAPE: Any,
) -> None:  # fmt: skip
    """Adds up a layer's gradient over the samples; `more`: on top of what is there.

    Neighbouring work-items share the samples of a tile of weights. Biases are weights of an input
    that is 1, row `ones` of `values`.
    """
    high, wide = SHAPE.tile
    across = kl.cdiv(LAYER.inputs + 1, wide)
    tiles = across * kl.cdiv(LAYER.outputs, high)
    own = kl.local_linear_id()
    for start in range(0, tiles * SHAPE.split, SHAPE.size):
        item = start + own
        # Without a branch around it, since neighbours add up what they found together.
        tile = kl.minimum(item // SHAPE.split, tiles - 1)
        share = item % SHAPE.split
        unit, into = tile // across * high, tile % across * wide
        sums = kl.private(high * wide, values.dtype, lanes=SHAPE.lanes)
        for i in kl.static_range(high * wide):
            sums[i] = kl.splat(kl.cast(0, values.dtype), SHAPE.lanes)
        for row in range(share * SHAPE.lanes, SHAPE.rows, SHAPE.split * SHAPE.lanes):
            held = kl.private(wide, values.dtype, lanes=SHAPE.lanes)
            for j in kl.static_range(wide):
                k = into + j
                at = kl.where(k < LAYER.inputs, source + k, ones)
                held[j] = kl.vload(values, at, row, lanes=SHAPE.lanes)
            for i in kl.static_range(high):
                n = target + kl.minimum(unit + i, LAYER.outputs - 1)
                slope = kl.vload(values, n, row, lanes=SHAPE.lanes)
                for j in kl.static_range(wide):
                    sums[i * wide + j] += slope * held[j]
        for i in kl.static_range(high):
            for j in kl.static_range(wide):
                n, k = unit + i, into + j
                total = lane_sum(sums[i * wide + j])
                total = sum_of_neighbours(total, SHAPE.split)
                there = (n < LAYER.outputs) & (k <= LAYER.inputs)
                if there & (share == 0) & (item < tiles * SHAPE.split):
                    weight = LAYER.weight + n * LAYER.inputs + k
                    place = kl.where(k < LAYER.inputs, weight, LAYER.bias + n)
                    gradient[place] = gradient[place] + total if more else total


@function
def offsets(LAYERS: Any) -> Any:
    """The row of `values` where each layer's inputs start, and last the outputs'."""
    at = 0
    found = (0,)
    for layer in kl.static_range(len(LAYERS)):
        at = at + LAYERS[layer].inputs
        found = (*found, at)  # type: ignore[assignment]
    return found


@function
def activation_behind(layer: int, NET: Any) -> Any:
    """The activation after a layer; none after the last."""
    return NET.activation if layer < len(NET.layers) - 1 else None


@function
def copy_vector_by_workgroup(source: Any, target: Any, SHAPE: Any) -> None:
    """A vector, rounded to what the target holds."""
    for i in range(kl.local_linear_id(), target.shape[0], SHAPE.size):
        target[i] = source[i]


@kernel
def forward_rows(x: Any, parameters: Any, out: Any, *, NET: Any, SHAPE: Any) -> None:
    """A workgroup takes its rows of samples through all layers.

    The values of every other layer share the first rows of local memory, those between them the
    next ones. Parameters come into local memory first where the shape says so.
    """
    even, odd = NET.widest
    values = kl.local((even + odd, SHAPE.rows + SHAPE.pad), NET.kind)
    first = kl.group_id(0) * SHAPE.rows
    count = kl.minimum(x.shape[0] - first, SHAPE.rows)
    weights = parameters
    if SHAPE.copy:
        weights = kl.local(NET.length, NET.kind)
        copy_vector_by_workgroup(parameters, weights, SHAPE)
    load_rows(x, None, first, count, values, SHAPE)
    kl.barrier()
    for i in kl.static_range(len(NET.layers)):
        source, target = (i % 2) * even, (1 - i % 2) * even
        here = activation_behind(i, NET)
        through_layer(weights, values, source, target, NET.layers[i], here, SHAPE)
        kl.barrier()
    outputs = NET.layers[len(NET.layers) - 1].outputs
    last = (len(NET.layers) % 2) * even
    for e in range(kl.local_linear_id(), SHAPE.rows * outputs, SHAPE.size):
        r, j = e // outputs, e % outputs
        if r < count:
            out[first + r, j] = values[last + j, r]


# -- training -------------------------------------------------------------------------------------


@function
def loss_of_rows(
    values: Any, last: int, goals: Any, levels: Any, count: Any, scale: Any, OUTPUTS: int,
    LOSS: Any, SHAPE: Any,
) -> Any:  # fmt: skip
    """The slopes of the loss in the place of the outputs; returns this work-item's losses."""
    total = kl.cast(0, values.dtype)
    for e in range(kl.local_linear_id(), OUTPUTS * SHAPE.rows, SHAPE.size):
        r, j = e % SHAPE.rows, e // SHAPE.rows
        slope = kl.cast(0, values.dtype)
        if r < count:
            error = values[last + j, r] - goals[j // LOSS.levels, r]
            loss, slope = LOSS.term(error, levels[j % LOSS.levels])
            total += loss
        values[last + j, r] = slope * scale
    kl.barrier()
    return total


@function
def gradients_of_layers(
    gradient: Any, weights: Any, values: Any, places: Any, more: Any, NET: Any, SHAPE: Any
) -> None:
    """All gradients, from the slopes of the outputs; `more`: on top of what is there."""
    for i in kl.static_range(len(NET.layers) - 1, -1, -1):
        source, target, layer = places[i], places[i + 1], NET.layers[i]
        gradients_of_layer(gradient, values, source, target, NET.units, more, layer, SHAPE)
        kl.barrier()
        if i > 0:
            back_through_layer(weights, values, source, target, layer, NET.slope, SHAPE)
            kl.barrier()


@function
def step_of_optimizer(
    weights: Any, gradient: Any, kept: Any, given: Any, limit: Any, RULE: Any, SHAPE: Any
) -> None:
    """One step along the gradient, its norm limited first where there is a limit.

    No barrier ends it: a work-item alone has what it wrote until the next samples are there.
    """
    own, size = kl.local_linear_id(), SHAPE.size
    factor = kl.cast(1, weights.dtype)
    if limit is not None:
        square = kl.cast(0, gradient.dtype)
        for i in range(own, gradient.shape[0], size):
            square += gradient[i] * gradient[i]
        norm = kl.sqrt(kl.workgroup_reduce(kl.add, square))
        factor = kl.minimum(limit / (norm + 1e-6), factor)
    for i in range(own, gradient.shape[0], size):
        before = ()
        for slot in kl.static_range(RULE.slots):
            before = (*before, kept[slot, i])  # type: ignore[assignment]
        value, after = RULE.step(weights[i], gradient[i] * factor, before, given)
        weights[i] = value
        for slot in kl.static_range(RULE.slots):
            kept[slot, i] = after[slot]


@kernel
def train_epochs(
    samples: Any, trained: Any, levels: Any, lost: Any, batch: Any, limit: Any,
    *, NET: Any, LOSS: Any, RULE: Any, SHAPE: Any,
) -> None:  # fmt: skip
    """All steps of some epochs, one for each element of `lost`, by one workgroup.

    ``samples.order[epoch]`` are the samples in their order, and a row of ``trained.numbers``
    belongs to each step. A batch goes through in pieces of as many samples as fit, or in one where
    it is whole. `limit` is the largest norm of the gradient, or None; ``trained.rounded``, where
    given, gets the parameters in fewer bits; `lost` the sums of the loss over samples. Parameters
    are copied to local memory, and the optimizer's state held there, where the shape says so.
    """
    own = kl.local_linear_id()
    places, outputs = offsets(NET.layers), NET.layers[len(NET.layers) - 1].outputs
    values = kl.local((NET.units + 1, SHAPE.rows + SHAPE.pad), NET.kind)
    goals = kl.local((LOSS.targets, SHAPE.rows + SHAPE.pad), NET.kind)
    gradient = kl.local(NET.length, NET.kind)
    weights, kept = trained.parameters, trained.state
    if SHAPE.copy:
        weights = kl.local(NET.length, NET.kind)
        copy_vector_by_workgroup(trained.parameters, weights, SHAPE)
    if SHAPE.hold:
        kept = kl.local((RULE.slots if RULE.slots > 0 else 1, NET.length), NET.kind)
        for slot in kl.static_range(RULE.slots):
            copy_vector_by_workgroup(trained.state[slot], kept[slot], SHAPE)
    for i in range(own, NET.length, SHAPE.size):
        gradient[i] = 0
    for r in range(own, SHAPE.rows, SHAPE.size):
        values[NET.units, r] = 1
    steps = kl.cdiv(samples.order.shape[1], batch)
    for epoch in range(lost.shape[0]):
        order, total = samples.order[epoch], kl.cast(0, NET.kind)
        for step in range(steps):
            given = row_of(trained.numbers, epoch * steps + step, RULE.numbers)
            size = kl.minimum(batch, order.shape[0] - step * batch)
            scale = kl.cast(1, NET.kind) / kl.cast(size * outputs, NET.kind)
            for piece in range(0, SHAPE.rows if SHAPE.whole else size, SHAPE.rows):
                first, count = step * batch + piece, kl.minimum(size - piece, SHAPE.rows)
                load_rows(samples.x, order, first, count, values, SHAPE)
                load_rows(samples.y, order, first, count, goals, SHAPE)
                kl.barrier()
                for i in kl.static_range(len(NET.layers)):
                    here = activation_behind(i, NET)
                    layer = NET.layers[i]
                    through_layer(weights, values, places[i], places[i + 1], layer, here, SHAPE)
                    kl.barrier()
                total += loss_of_rows(
                    values, places[len(NET.layers)], goals, levels, count, scale, outputs, LOSS,
                    SHAPE,
                )  # fmt: skip
                gradients_of_layers(gradient, weights, values, places, piece > 0, NET, SHAPE)
            step_of_optimizer(weights, gradient, kept, given, limit, RULE, SHAPE)
        summed = kl.workgroup_reduce(kl.add, total)
        if own == 0:
            lost[epoch] = summed / kl.cast(outputs, NET.kind)
    if SHAPE.copy:
        copy_vector_by_workgroup(weights, trained.parameters, SHAPE)
    if trained.rounded is not None:
        copy_vector_by_workgroup(weights, trained.rounded, SHAPE)
    if SHAPE.hold:
        for slot in kl.static_range(RULE.slots):
            copy_vector_by_workgroup(kept[slot], trained.state[slot], SHAPE)
