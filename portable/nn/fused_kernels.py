"""Small networks in one kernel: all layers of a forward pass, or all steps of some epochs.

A workgroup holds the values of `ROWS` samples in local memory, a row of `values` for each unit and
a column for each sample, so that vectors run along samples on every device: across the registers
of a processor, whose workgroups are of one work-item, and as wide loads on a GPU.

A layer is the tuple ``(inputs, outputs, weight, bias)``: its widths, and where its weights
(outputs, inputs) and its biases start in the vector of all parameters. ``SHAPE`` is the tuple
``(rows, lanes, units, vectors, pad, size)`` of `portable.nn.fused_shapes.Shape`.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["forward_rows", "train_epochs"]


@function
def load_rows(x: Any, order: Any, first: Any, count: Any, values: Any, SHAPE: Any) -> None:
    """Samples into columns of `values`; beyond `count` zeros."""
    ROWS, _, _, _, _, SIZE = SHAPE
    for r in range(kl.local_linear_id(), ROWS, SIZE):
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
def through_layer(
    weights: Any,
    values: Any,
    source: int,
    target: int,
    LAYER: Any,
    ACTIVATION: Any,
    SHAPE: Any,
) -> None:
    """The values from row `target` on: those from row `source` on, through a layer.

    A work-item does so many units of so many vectors of samples at a time.
    """
    ROWS, LANES, UNITS, VECTORS, _, SIZE = SHAPE
    inputs, outputs, weight, bias = LAYER
    across = ROWS // (LANES * VECTORS)
    blocks = kl.cdiv(outputs, UNITS)
    for item in range(kl.local_linear_id(), blocks * across, SIZE):
        row = item % across * (LANES * VECTORS)
        first = item // across * UNITS
        sums = kl.private(UNITS * VECTORS, values.dtype, lanes=LANES)
        for j in kl.static_range(UNITS):
            start = kl.splat(weights[bias + kl.minimum(first + j, outputs - 1)], LANES)
            for v in kl.static_range(VECTORS):
                sums[j * VECTORS + v] = start
        for k in range(inputs):
            held = kl.private(VECTORS, values.dtype, lanes=LANES)
            for v in kl.static_range(VECTORS):
                held[v] = kl.vload(values, source + k, row + v * LANES, lanes=LANES)
            for j in kl.static_range(UNITS):
                unit = kl.minimum(first + j, outputs - 1)
                factor = kl.splat(weights[weight + unit * inputs + k], LANES)
                for v in kl.static_range(VECTORS):
                    sums[j * VECTORS + v] += factor * held[v]
        for j in kl.static_range(UNITS):
            if first + j < outputs:
                for v in kl.static_range(VECTORS):
                    value = sums[j * VECTORS + v]
                    if ACTIVATION is not None:
                        value = ACTIVATION(value)
                    kl.vstore(values, target + first + j, row + v * LANES, value)


@function
def back_through_layer(
    weights: Any,
    values: Any,
    source: int,
    target: int,
    LAYER: Any,
    SLOPE: Any,
    SHAPE: Any,
) -> None:
    """The loss's slopes of a layer's inputs in the place of their values, from its outputs'."""
    ROWS, LANES, UNITS, VECTORS, _, SIZE = SHAPE
    inputs, outputs, weight, _ = LAYER
    across = ROWS // (LANES * VECTORS)
    blocks = kl.cdiv(inputs, UNITS)
    for item in range(kl.local_linear_id(), blocks * across, SIZE):
        row = item % across * (LANES * VECTORS)
        first = item // across * UNITS
        sums = kl.private(UNITS * VECTORS, values.dtype, lanes=LANES)
        for i in kl.static_range(UNITS * VECTORS):
            sums[i] = kl.splat(kl.cast(0, values.dtype), LANES)
        for n in range(outputs):
            held = kl.private(VECTORS, values.dtype, lanes=LANES)
            for v in kl.static_range(VECTORS):
                held[v] = kl.vload(values, target + n, row + v * LANES, lanes=LANES)
            for j in kl.static_range(UNITS):
                unit = kl.minimum(first + j, inputs - 1)
                factor = kl.splat(weights[weight + n * inputs + unit], LANES)
                for v in kl.static_range(VECTORS):
                    sums[j * VECTORS + v] += factor * held[v]
        for j in kl.static_range(UNITS):
            if first + j < inputs:
                for v in kl.static_range(VECTORS):
                    at = row + v * LANES
                    value = kl.vload(values, source + first + j, at, lanes=LANES)
                    slope = sums[j * VECTORS + v] * SLOPE(value)
                    kl.vstore(values, source + first + j, at, slope)


@function
def sum_of_lanes(x: Any, LANES: int) -> Any:
    """The sum of a vector's lanes, by halves."""
    rest = x
    width = LANES
    for _ in kl.static_range(4):
        if width > 2:
            width = width // 2
            rest = rest[:width] + rest[width:]
    return rest[0] + rest[1]


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
    gradient: Any,
    values: Any,
    source: int,
    target: int,
    ones: int,
    more: Any,
    LAYER: Any,
    TILE: Any,
    SPLIT: int,
    SHAPE: Any,
) -> None:
    """Adds up a layer's gradient over the samples; `more`: on top of what is there.

    `SPLIT` neighbouring work-items share the samples of a tile of weights. Biases are weights of
    an input that is 1, row `ones` of `values`.
    """
    ROWS, LANES, _, _, _, SIZE = SHAPE
    inputs, outputs, weight, bias = LAYER
    high, wide = TILE
    across = kl.cdiv(inputs + 1, wide)
    tiles = across * kl.cdiv(outputs, high)
    own = kl.local_linear_id()
    for start in range(0, tiles * SPLIT, SIZE):
        item = start + own
        # Without a branch around it, since neighbours add up what they found together.
        tile = kl.minimum(item // SPLIT, tiles - 1)
        share = item % SPLIT
        unit, into = tile // across * high, tile % across * wide
        sums = kl.private(high * wide, values.dtype, lanes=LANES)
        for i in kl.static_range(high * wide):
            sums[i] = kl.splat(kl.cast(0, values.dtype), LANES)
        for row in range(share * LANES, ROWS, SPLIT * LANES):
            held = kl.private(wide, values.dtype, lanes=LANES)
            for j in kl.static_range(wide):
                k = into + j
                at = kl.where(k < inputs, source + k, ones)
                held[j] = kl.vload(values, at, row, lanes=LANES)
            for i in kl.static_range(high):
                n = target + kl.minimum(unit + i, outputs - 1)
                slope = kl.vload(values, n, row, lanes=LANES)
                for j in kl.static_range(wide):
                    sums[i * wide + j] += slope * held[j]
        for i in kl.static_range(high):
            for j in kl.static_range(wide):
                n, k = unit + i, into + j
                total = sum_of_neighbours(sum_of_lanes(sums[i * wide + j], LANES), SPLIT)
                writes = (share == 0) & (item < tiles * SPLIT) & (n < outputs) & (k <= inputs)
                if writes:
                    place = kl.where(k < inputs, weight + n * inputs + k, bias + n)
                    if more:
                        gradient[place] = gradient[place] + total
                    else:
                        gradient[place] = total


@function
def sum_of_workgroup(x: Any, held: Any, SIZE: int) -> Any:
    """The sum over the workgroup, for each; `held` has a place for each work-item."""
    own = kl.local_linear_id()
    held[own] = x
    kl.barrier()
    width = SIZE
    for _ in kl.static_range(10):
        if width > 1:
            width = width // 2
            if own < width:
                held[own] = held[own] + held[own + width]
            kl.barrier()
    return held[0]


@function
def sum_of_squares(gradient: Any, held: Any, LENGTH: int, SIZE: int) -> Any:
    """The squared 2-norm, for each work-item."""
    square = kl.cast(0, gradient.dtype)
    for i in range(kl.local_linear_id(), LENGTH, SIZE):
        square += gradient[i] * gradient[i]
    return sum_of_workgroup(square, held, SIZE)


@function
def offsets(LAYERS: Any) -> Any:
    """The row of `values` where each layer's inputs start, and last the outputs'."""
    at = 0
    found = (0,)
    for layer in kl.static_range(len(LAYERS)):
        at = at + LAYERS[layer][0]
        found = (*found, at)  # type: ignore[assignment]
    return found


@kernel
def forward_rows(
    x: Any,
    parameters: Any,
    out: Any,
    *,
    LAYERS: Any,
    LENGTH: int,
    WIDEST: Any,
    ACTIVATION: Any,
    KIND: Any,
    COPY: bool,
    SHAPE: Any,
) -> None:
    """A workgroup takes its rows of samples through all layers.

    The values of every other layer share the first `WIDEST[0]` rows of local memory, those between
    them the next `WIDEST[1]`. Where `COPY` the parameters come into local memory first.
    """
    ROWS, _, _, _, PAD, SIZE = SHAPE
    own = kl.local_linear_id()
    values = kl.local((WIDEST[0] + WIDEST[1], ROWS + PAD), KIND)
    first = kl.group_id(0) * ROWS
    count = kl.minimum(x.shape[0] - first, ROWS)
    weights = parameters
    if COPY:
        weights = kl.local(LENGTH, KIND)
        for i in range(own, LENGTH, SIZE):
            weights[i] = parameters[i]
    load_rows(x, None, first, count, values, SHAPE)
    kl.barrier()
    for i in kl.static_range(len(LAYERS)):
        function_here = ACTIVATION if i < len(LAYERS) - 1 else None
        source, target = (i % 2) * WIDEST[0], (1 - i % 2) * WIDEST[0]
        through_layer(weights, values, source, target, LAYERS[i], function_here, SHAPE)
        kl.barrier()
    outputs = LAYERS[len(LAYERS) - 1][1]
    last = (len(LAYERS) % 2) * WIDEST[0]
    for e in range(own, ROWS * outputs, SIZE):
        r, j = e // outputs, e % outputs
        if r < count:
            out[first + r, j] = values[last + j, r]


# -- training -------------------------------------------------------------------------------------


@function
def values_of_layers(
    weights: Any, values: Any, places: Any, LAYERS: Any, ACTIVATION: Any, SHAPE: Any
) -> None:
    """The values of all layers, each in its place."""
    for i in kl.static_range(len(LAYERS)):
        function_here = ACTIVATION if i < len(LAYERS) - 1 else None
        through_layer(weights, values, places[i], places[i + 1], LAYERS[i], function_here, SHAPE)
        kl.barrier()


@function
def loss_of_rows(
    values: Any,
    last: int,
    goals: Any,
    levels: Any,
    count: Any,
    scale: Any,
    OUTPUTS: int,
    LEVELS: int,
    TERM: Any,
    SHAPE: Any,
) -> Any:
    """The slopes of the loss in the place of the outputs; returns this work-item's losses."""
    ROWS, _, _, _, _, SIZE = SHAPE
    total = kl.cast(0, values.dtype)
    for e in range(kl.local_linear_id(), OUTPUTS * ROWS, SIZE):
        r, j = e % ROWS, e // ROWS
        slope = kl.cast(0, values.dtype)
        if r < count:
            error = values[last + j, r] - goals[j // LEVELS, r]
            loss, slope = TERM(error, levels[j % LEVELS])
            total += loss
        values[last + j, r] = slope * scale
    kl.barrier()
    return total


@function
def gradients_of_layers(
    gradient: Any,
    weights: Any,
    values: Any,
    places: Any,
    ones: int,
    more: Any,
    LAYERS: Any,
    SLOPE: Any,
    TILE: Any,
    SPLIT: int,
    SHAPE: Any,
) -> None:
    """All gradients, from the slopes of the outputs; `more`: on top of what is there."""
    for i in kl.static_range(len(LAYERS) - 1, -1, -1):
        source, target = places[i], places[i + 1]
        gradients_of_layer(
            gradient, values, source, target, ones, more, LAYERS[i], TILE, SPLIT, SHAPE
        )
        kl.barrier()
        if i > 0:
            back_through_layer(weights, values, source, target, LAYERS[i], SLOPE, SHAPE)
            kl.barrier()


@function
def step_of_optimizer(
    weights: Any,
    gradient: Any,
    kept: Any,
    given: Any,
    limit: Any,
    held: Any,
    RULE: Any,
    SLOTS: int,
    LENGTH: int,
    SIZE: int,
) -> None:
    """One step along the gradient, its norm limited first where there is a limit."""
    factor = kl.cast(1, weights.dtype)
    if limit is not None:
        norm = kl.sqrt(sum_of_squares(gradient, held, LENGTH, SIZE))
        factor = kl.minimum(limit / (norm + 1e-6), factor)
    for i in range(kl.local_linear_id(), LENGTH, SIZE):
        before = ()
        for slot in kl.static_range(SLOTS):
            before = (*before, kept[slot, i])  # type: ignore[assignment]
        value, after = RULE(weights[i], gradient[i] * factor, before, given)
        weights[i] = value
        for slot in kl.static_range(SLOTS):
            kept[slot, i] = after[slot]
    kl.barrier()


@function
def row_of(numbers: Any, row: Any, COUNT: int) -> Any:
    """The numbers of a row, as a tuple."""
    found = ()
    for j in kl.static_range(COUNT):
        found = (*found, numbers[row, j])  # type: ignore[assignment]
    return found


@function
def copy_state(source: Any, target: Any, SLOTS: int, LENGTH: int, SIZE: int) -> None:
    """What the optimizer keeps, into local memory or back."""
    for i in range(kl.local_linear_id(), LENGTH, SIZE):
        for slot in kl.static_range(SLOTS):
            target[slot, i] = source[slot, i]


@function
def copy_parameters(source: Any, target: Any, LENGTH: int, SIZE: int) -> None:
    """All parameters, rounded to what the target holds."""
    for i in range(kl.local_linear_id(), LENGTH, SIZE):
        target[i] = source[i]


@kernel
def train_epochs(
    x: Any,
    y: Any,
    order: Any,
    levels: Any,
    parameters: Any,
    rounded: Any,
    state: Any,
    numbers: Any,
    lost: Any,
    batch: Any,
    limit: Any,
    *,
    LAYERS: Any,
    LENGTH: int,
    UNITS_IN_ALL: int,
    TARGETS: int,
    LEVELS: int,
    NUMBERS: int,
    SLOTS: int,
    ACTIVATION: Any,
    SLOPE: Any,
    TERM: Any,
    RULE: Any,
    KIND: Any,
    WHOLE: bool,
    COPY: bool,
    HOLD: bool,
    TILE: Any,
    SPLIT: int,
    SHAPE: Any,
) -> None:
    """All steps of some epochs, one for each element of `lost`, by one workgroup.

    ``order[epoch]`` are the samples in their order, and a row of `numbers` belongs to each step. A
    batch goes through in pieces of as many samples as fit, or in one where `WHOLE`. `limit` is the
    largest norm of the gradient, or None; `rounded`, where given, gets the parameters in fewer
    bits; `lost` the sums of the loss over samples. Parameters are held in local memory where
    `COPY`, the optimizer's state where `HOLD`.
    """
    ROWS, _, _, _, PAD, SIZE = SHAPE
    own = kl.local_linear_id()
    places, outputs = offsets(LAYERS), LAYERS[len(LAYERS) - 1][1]
    values = kl.local((UNITS_IN_ALL + 1, ROWS + PAD), KIND)
    goals = kl.local((TARGETS, ROWS + PAD), KIND)
    gradient = kl.local(LENGTH, KIND)
    held = kl.local(SIZE, KIND)
    weights, kept = parameters, state
    if COPY:
        weights = kl.local(LENGTH, KIND)
        copy_parameters(parameters, weights, LENGTH, SIZE)
    if HOLD:
        kept = kl.local((SLOTS if SLOTS > 0 else 1, LENGTH), KIND)
        copy_state(state, kept, SLOTS, LENGTH, SIZE)
    for i in range(own, LENGTH, SIZE):
        gradient[i] = 0
    for r in range(own, ROWS, SIZE):
        values[UNITS_IN_ALL, r] = 1
    samples = order.shape[1]
    steps = kl.cdiv(samples, batch)
    for epoch in range(lost.shape[0]):
        total = kl.cast(0, KIND)
        for step in range(steps):
            given = row_of(numbers, epoch * steps + step, NUMBERS)
            size = kl.minimum(batch, samples - step * batch)
            scale = kl.cast(1, KIND) / kl.cast(size * outputs, KIND)
            for piece in range(0, ROWS if WHOLE else size, ROWS):
                first, count = step * batch + piece, kl.minimum(size - piece, ROWS)
                load_rows(x, order[epoch], first, count, values, SHAPE)
                load_rows(y, order[epoch], first, count, goals, SHAPE)
                kl.barrier()
                values_of_layers(weights, values, places, LAYERS, ACTIVATION, SHAPE)
                total += loss_of_rows(
                    values, places[len(LAYERS)], goals, levels, count, scale,
                    outputs, LEVELS, TERM, SHAPE,
                )  # fmt: skip
                gradients_of_layers(
                    gradient, weights, values, places, UNITS_IN_ALL, piece > 0,
                    LAYERS, SLOPE, TILE, SPLIT, SHAPE,
                )  # fmt: skip
            step_of_optimizer(
                weights, gradient, kept, given, limit, held, RULE, SLOTS, LENGTH, SIZE
            )
        summed = sum_of_workgroup(total, held, SIZE)
        if own == 0:
            lost[epoch] = summed / kl.cast(outputs, KIND)
    if COPY:
        copy_parameters(weights, parameters, LENGTH, SIZE)
    if rounded is not None:
        copy_parameters(weights, rounded, LENGTH, SIZE)
    if HOLD:
        copy_state(kept, state, SLOTS, LENGTH, SIZE)
