"""Slopes on their way back through activations and biases."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.lang.kernel import kernel

_WORKGROUP: Final = 64


@kernel
def apply(x: kl.Array, out: kl.Array, slopes: kl.Array | None, *, FUNCTION: Any) -> None:
    """A function of each number of a matrix, times the slope that stands there if there are any."""
    columns = out.shape[1]
    i = kl.global_id(0)
    if i < out.shape[0] * columns:
        row, column = i // columns, i % columns
        value = FUNCTION(kl.cast(x[row, column], kl.accumulator(x.dtype)))
        out[row, column] = value if slopes is None else slopes[row, column] * value


@kernel
def slopes_back(
    slopes: kl.Array,
    values: kl.Array | None,
    partial: kl.Array | None,
    rows: kl.Scalar,
    *,
    SLOPE: Any = None,
) -> None:
    """Multiplies by the activation's slope, and sums the columns of each section of so many `rows`.

    `values` are the activation's; None where there is no activation. `partial` is None where no
    sums are needed.
    """
    column, section = kl.global_id(0), kl.global_id(1)
    first = section * rows
    if column < slopes.shape[1] and first < slopes.shape[0]:
        total = kl.cast(0, kl.accumulator(slopes.dtype))
        for row in range(first, kl.minimum(first + rows, slopes.shape[0])):
            slope = slopes[row, column]
            if values is not None:
                slope = slope * SLOPE(values[row, column])
                slopes[row, column] = slope
            total += slope
        if partial is not None:
            partial[section, column] = total


@kernel
def channel_slopes_back(
    slopes: kl.Array, values: kl.Array | None, partial: kl.Array | None, *, SLOPE: Any, SECTION: int
) -> None:
    """The same for images (n, channels, pixels): a workgroup for a channel of some images."""
    channel, section = kl.group_id(0), kl.group_id(1)
    first, pixels = section * SECTION, slopes.shape[2]
    images = kl.minimum(SECTION, slopes.shape[0] - first)
    total = kl.cast(0, kl.accumulator(slopes.dtype))
    for i in kl.workgroup_range(images * pixels):
        image, pixel = first + i // pixels, i % pixels
        slope = slopes[image, channel, pixel]
        if values is not None:
            slope = slope * SLOPE(values[image, channel, pixel])
            slopes[image, channel, pixel] = slope
        total += slope
    if partial is not None:
        total = kl.workgroup_reduce(kl.add, total)
        if kl.local_id(0) == 0:
            partial[section, channel] = total


def add_sections(device: Device, partial: Any, out: Any) -> None:
    """Adds up what sections came to.

    Parameters
    ----------
    device : Device
    partial : array, shape (sections, columns)
    out : array, shape (columns,)
    """
    sections, columns = partial.shape
    total = device.namespace().reshape(out, (1, columns))
    slopes_back[(columns, 1), (_WORKGROUP, 1)](partial, None, total, sections)
