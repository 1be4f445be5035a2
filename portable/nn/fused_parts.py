"""Arguments of the kernels of small networks, and how these are cut up for a device.

Which networks are small enough is decided here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Final, Protocol

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.lang.function import Function
from portable.nn.activations import BY_VALUE, Activation
from portable.nn.layout import Layout
from portable.nn.losses import Loss


class Perceptron(Protocol):
    """What kernels of small networks are made for; `portable.nn.MLP` is one."""

    @property
    def device(self) -> Device:
        """Where it lives."""

    @property
    def dtype(self) -> DType:
        """Of parameters and samples."""

    @property
    def layout(self) -> Layout:
        """Of its parameters."""

    @property
    def vector(self) -> Any:
        """The parameters."""

    @property
    def sizes(self) -> Sequence[int]:
        """Widths of the input and of every layer."""

    @property
    def activation(self) -> str:
        """Between the layers."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One way through a layer: rows of values, each times a weight, added up for each unit.

    Attributes
    ----------
    source, depth : int
        The first row that is added up, and how many there are.
    target, units : int
        The first row of the results, and how many there are.
    weight, unit_stride, row_stride : int
        The weight of the first unit and row, and how far apart those of units and of rows lie.
    bias : int or None
        The first of the biases that sums begin with; None for zero.
    activation : Function or None
        What is applied to a sum.
    slope : Function or None
        What a sum is multiplied by: a function of the value that it takes the place of.
    """

    source: int
    depth: int
    target: int
    units: int
    weight: int
    unit_stride: int
    row_stride: int
    bias: int | None = None
    activation: Function | None = None
    slope: Function | None = None


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """A linear layer: its widths, where its values lie, and where its parameters do.

    Attributes
    ----------
    inputs, outputs : int
    source, target : int
        The first row of the values of its inputs and of its outputs.
    weight : int
        Where its weights (outputs, inputs) start in the vector of all parameters.
    bias : int
        Where its biases do.
    activation : Activation or None
        What follows it.
    below : Activation or None
        What its inputs come from.
    """

    inputs: int
    outputs: int
    source: int
    target: int
    weight: int
    bias: int
    activation: Activation | None
    below: Activation | None

    @property
    def forward(self) -> Pass:
        """Its outputs from its inputs."""
        function = None if self.activation is None else self.activation.function
        rows = self.source, self.inputs, self.target, self.outputs
        return Pass(*rows, self.weight, self.inputs, 1, self.bias, function)

    @property
    def backward(self) -> Pass:
        """The slopes of its inputs in the place of their values, from those of its outputs."""
        slope = None if self.below is None else self.below.slope
        rows = self.target, self.outputs, self.source, self.inputs
        return Pass(*rows, self.weight, 1, self.inputs, slope=slope)


@dataclass(frozen=True, slots=True)
class FusedNet:
    """A perceptron.

    Attributes
    ----------
    layers : tuple of FusedLayer
    length : int
        Parameters in all.
    rows : int
        Of values.
    kind : DType
        To compute in.
    """

    layers: tuple[FusedLayer, ...]
    length: int
    rows: int
    kind: DType

    @classmethod
    def forward(cls, model: Perceptron) -> FusedNet:
        """That of a forward pass: values of every second layer share their rows."""
        sizes = model.sizes
        even, odd = max(sizes[0::2]), max(sizes[1::2])
        return cls._of(model, [i % 2 * even for i in range(len(sizes))], even + odd)

    @classmethod
    def training(cls, model: Perceptron) -> FusedNet:
        """That of training, which keeps all values; the last row is for ones."""
        *places, rows = accumulate(model.sizes, initial=0)
        return cls._of(model, places, rows + 1)

    @classmethod
    def _of(cls, model: Perceptron, places: list[int], rows: int) -> FusedNet:
        """With the values of the input and of each layer from these rows on."""
        linear = [parts for parts in model.layout.layers if parts]
        between = [BY_VALUE[model.activation]] * (len(linear) - 1)
        result = zip(linear, pairwise(places), [*between, None], [None, *between], strict=True)
        layers = tuple(
            FusedLayer(
                weight.shape[1], weight.shape[0], *numbers, weight.start, bias.start, *activations
            )
            for (weight, bias), numbers, *activations in result
        )
        return cls(layers, model.layout.length, rows, model.dtype.register)


@dataclass(frozen=True, slots=True)
class FusedLoss:
    """A loss, as a function of the error of each output.

    Attributes
    ----------
    term : Function
        ``term(error, level)`` returns the loss and its slope.
    targets : int
        Numbers that a sample is compared with.
    levels : int
        Outputs that are compared with the same target.
    """

    term: Function
    targets: int
    levels: int

    @classmethod
    def of(cls, loss: Loss, outputs: int) -> FusedLoss:
        """That of a loss of so many outputs."""
        return cls(loss.term, loss.targets(outputs), len(loss.parameters))


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays: inputs, targets, and for each epoch in which order they come."""

    x: Any
    y: Any
    order: Any


# -- shapes --------------------------------------------------------------------------------------

_MOST_ROWS: Final = 256
_FEWEST_ROWS: Final = 16
_ALIGNMENT: Final = 6 * 128
"""Bytes that may lie between the local arrays of a kernel, each of which begins at a line."""

# How often sums are halved in `portable.nn.fused`.
_MOST_LANES: Final = 2**5
_MOST_ITEMS: Final = 2**10
_MOST_SHARES: Final = 2**6

# Beyond these, a product of matrices per layer is faster than one kernel.
_MOST_WEIGHTS: Final = 131_072
"""Weights that a processor's nearer caches hold."""
_MOST_FORWARD: Final = 6e6
"""Multiplications of a forward pass per compute unit of a GPU."""
_MOST_ON_ONE_UNIT: Final = 2e7
"""Multiplications of a training step by one workgroup on a GPU."""
_MOST_ON_PROCESSOR: Final = 5e7
"""Multiplications of a training step by one core."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The constants of the kernels that a device decides.

    Attributes
    ----------
    rows : int
        Samples that a workgroup holds at a time.
    lanes, units, vectors : int
        A work-item does `units` outputs of `vectors` vectors of `lanes` samples at a time.
    tile : (int, int)
        Outputs and inputs of the tile of weights whose gradients a work-item sums.
    split : int
        Work-items that share such a tile.
    pad : int
        Columns added to each row in local memory, so that neighbouring rows lie in other banks.
    size : int
        Work-items of a workgroup.
    copy, hold : bool
        Whether parameters, and an optimizer's state, come into local memory.
    whole : bool
        Whether a batch goes through in one piece.

    Raises
    ------
    ValueError
        For what the kernels do not hold for.
    """

    rows: int
    lanes: int
    units: int
    vectors: int
    tile: tuple[int, int]
    split: int
    pad: int
    size: int
    copy: bool
    hold: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        _require(self.rows % (self.lanes * self.vectors) == 0, "samples go in whole vectors")
        for name in ("lanes", "size", "split"):
            of_two = getattr(self, name).bit_count() == 1
            _require(of_two, f"sums go by halves: {name} is a power of two")
        _require(2 <= self.lanes <= _MOST_LANES, f"a vector has 2 to {_MOST_LANES} lanes")
        _require(self.size <= _MOST_ITEMS, f"a workgroup has at most {_MOST_ITEMS} work-items")
        _require(self.split <= min(self.size, _MOST_SHARES), "a tile's sharers are a sub-group")


def _require(holds: bool, what: str) -> None:
    """What the kernels take for granted of their shape."""
    if not holds:
        raise ValueError(f"a shape that no kernel of networks was made for: {what}")


def products(layout: Layout) -> int:
    """Multiplications for one sample of linear layers."""
    return sum(prod(parts[0].shape) for parts in layout.layers if parts)


def _room(can: Capabilities) -> int:
    return max(can.local_memory, can.local_memory_opt_in) - _ALIGNMENT


def _rows_within(room: int, bytes_per_row: int, wanted: int, lanes: int, pad: int) -> int:
    """The most rows that fit, up to those wanted, in whole vectors; 0 if there are too few."""
    most = room // bytes_per_row - pad
    rows = min(-(-wanted // lanes) * lanes, _MOST_ROWS, most // lanes * lanes)
    return rows if rows >= min(_FEWEST_ROWS, -(-wanted // lanes) * lanes) else 0


# -- forward ------------------------------------------------------------------------------------


def forward_shape(
    can: Capabilities, layout: Layout, sizes: Sequence[int], kind: DType, count: int
) -> Shape | None:
    """For `count` samples through a network; None if layers one by one do better.

    Parameters
    ----------
    can : Capabilities
        Of the device.
    layout : Layout
        Of the parameters.
    sizes : sequence of int
        Widths of the input and of every layer.
    kind : DType
        Of the network.
    count : int
        Samples.
    """
    computed = kind.register
    size = computed.itemsize
    lanes = can.vector_bytes // size
    row = (max(sizes[0::2]) + max(sizes[1::2])) * size
    if can.single_work_items:
        if products(layout) > _MOST_WEIGHTS:
            return None
        wanted = min(64, -(-count // can.compute_units))
        rows = _rows_within(_room(can), row, wanted, lanes, 0)
        copy = kind is not computed  # rather than convert each weight over and over
        return Shape(rows, lanes, 4, 1, (1, 1), 1, 0, 1, copy) if rows else None
    if products(layout) * count > _MOST_FORWARD * can.compute_units:
        return None
    rows = _rows_within(_room(can) - layout.length * size, row, min(32, count), lanes, lanes)
    units = 2 if max(sizes) <= 32 else 4
    items = min(128, can.max_workgroup)
    return Shape(rows, lanes, units, 1, (1, 1), 1, lanes, items, True) if rows else None


# -- training -----------------------------------------------------------------------------------


def training_shape(
    can: Capabilities,
    layout: Layout,
    sizes: Sequence[int],
    kind: DType,
    *,
    batch: int,
    slots: int,
    targets: int,
) -> Shape | None:
    """For batches of so many samples; None if layers one by one do better.

    Parameters
    ----------
    can, layout, sizes, kind
        As of `forward_shape`.
    batch : int
        Samples of a step.
    slots : int
        Numbers that the optimizer keeps for each parameter.
    targets : int
        Numbers that a sample is compared with.
    """
    size = kind.register.itemsize
    lanes = can.vector_bytes // size
    row = (sum(sizes) + 1 + targets) * size
    work = 3 * products(layout) * batch
    if can.single_work_items:
        # Its local memory is ordinary memory, so that nothing is gained by copies there.
        rows = _rows_within(_room(can) - layout.length * size, row, min(batch, 128), lanes, 0)
        small = work <= _MOST_ON_PROCESSOR
        whole = rows >= batch
        made = rows and small
        return Shape(rows, lanes, 4, 1, (2, 4), 1, 0, 1, False, whole=whole) if made else None
    items = _workgroup(can, sizes, batch)
    wanted = min(batch, _MOST_ROWS // 2)
    for hold in (True, False):
        fixed = ((2 + hold * slots) * layout.length + items) * size
        rows = _rows_within(_room(can) - fixed, row, batch, lanes, lanes)
        if rows >= wanted:
            break
    # Fewer rows keep fewer work-items busy.
    if not rows or work > _MOST_ON_ONE_UNIT * min(1, rows / wanted):
        return None
    split = min(8, can.sub_group_size)
    return Shape(rows, lanes, 4, 1, (4, 4), split, lanes, items, True, hold, rows >= batch)


def _workgroup(can: Capabilities, sizes: Sequence[int], batch: int) -> int:
    """A power of two, about as many as the widest layer has work for."""
    work = max(sizes) * min(batch, _MOST_ROWS) // prod((4, 4))
    items = 32
    while items * 2 <= min(work, 512, can.max_workgroup):
        items *= 2
    return items
