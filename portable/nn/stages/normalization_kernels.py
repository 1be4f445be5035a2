"""Means and variances of channels and of rows, what is made of them, and slopes on the way back.

Channels are those of (n, channels, pixels), each summed by sections of some images; rows lie side
by side. Variances are sums of squared distances from a section's own mean, put together by the
formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing
sample variances", 1979), so that a mean far from zero takes nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "Running",
    "Scale",
    "channel_moments",
    "channel_slope_sums",
    "channel_slopes",
    "column_slope_sums",
    "merge_moments",
    "merge_slope_sums",
    "normalize_channels",
    "normalize_rows",
    "row_slopes",
    "running_moments",
]


@dataclass(frozen=True, slots=True)
class Scale:
    """What normalized numbers are multiplied by, and what is then added; both None where nothing.

    Attributes
    ----------
    weight, bias : array or None
        One for each channel, or each column.
    """

    weight: Any
    bias: Any

    def of(self, value: Any, i: Any) -> Any:
        """A normalized number of the i-th channel or column, scaled and shifted."""
        if self.weight is None:
            return value
        return value * self.weight[i] + self.bias[i]

    def back(self, slope: Any, i: Any) -> Any:
        """The slope by the normalized number, given that by the scaled one."""
        if self.weight is None:
            return slope
        return slope * self.weight[i]


@dataclass(frozen=True, slots=True)
class Running:
    """Means over batches.

    Attributes
    ----------
    mean, variance : array, shape (channels,)
    momentum : float
        What share the newest batch has.
    """

    mean: Any
    variance: Any
    momentum: Any


# -- channels -------------------------------------------------------------------------------------


@function
def pixel_of(i: Any, first: Any, pixels: Any) -> Any:
    """Image and pixel of the i-th pixel of a section."""
    return first + i // pixels, i % pixels


@kernel
def channel_moments(x: Any, partial: Any, *, SECTION: int) -> None:
    """Mean and squared distances from it of a section of a channel, by a workgroup.

    Parameters
    ----------
    x : array, shape (n, channels, pixels)
    partial : array, shape (2, sections, channels)
    SECTION : int
        Images.
    """
    channel, section = kl.group_id(0), kl.group_id(1)
    first, pixels = section * SECTION, x.shape[2]
    count = kl.minimum(SECTION, x.shape[0] - first) * pixels
    kind = kl.accumulator(x.dtype)
    total = kl.cast(0, kind)
    for i in kl.workgroup_range(count):
        image, pixel = pixel_of(i, first, pixels)
        total += x[image, channel, pixel]
    mean = kl.workgroup_reduce(kl.add, total) / count
    spread = kl.cast(0, kind)
    for i in kl.workgroup_range(count):
        image, pixel = pixel_of(i, first, pixels)
        distance = x[image, channel, pixel] - mean
        spread += distance * distance
    spread = kl.workgroup_reduce(kl.add, spread)
    if kl.local_id(0) == 0:
        partial[0, section, channel] = mean
        partial[1, section, channel] = spread


@kernel
def merge_moments(
    partial: Any, moments: Any, running: Any, images: Any, pixels: Any, eps: Any, *, SECTION: int
) -> None:
    """The mean and the reciprocal deviation of each channel, which running means follow.

    Parameters
    ----------
    partial : array, shape (2, sections, channels)
    moments : array, shape (2, channels)
    running : Running
    images, pixels : int
        Of the batch.
    eps : float
        Is added to variances.
    SECTION : int
        Images of a section; the last has the rest.
    """
    channel = kl.global_id(0)
    if channel < moments.shape[1]:
        mean, spread = partial[0, 0, channel], partial[1, 0, channel]
        count = kl.minimum(SECTION, images) * pixels
        for section in range(1, partial.shape[1]):
            more = kl.minimum(SECTION, images - section * SECTION) * pixels
            apart = partial[0, section, channel] - mean
            share = kl.cast(more, moments.dtype) / (count + more)
            mean += apart * share
            spread += partial[1, section, channel] + apart * apart * share * count
            count += more
        moments[0, channel] = mean
        moments[1, channel] = 1 / kl.sqrt(spread / count + eps)
        unbiased = spread / kl.maximum(count - 1, 1)
        keep = 1 - running.momentum
        running.mean[channel] = running.mean[channel] * keep + mean * running.momentum
        running.variance[channel] = running.variance[channel] * keep + unbiased * running.momentum


@kernel
def running_moments(mean: Any, variance: Any, moments: Any, eps: Any) -> None:
    """The same from running means."""
    channel = kl.global_id(0)
    if channel < moments.shape[1]:
        moments[0, channel] = mean[channel]
        moments[1, channel] = 1 / kl.sqrt(variance[channel] + eps)


@function
def element(shape: Any, ACROSS: Any) -> Any:
    """Image, channel and pixel of a work-item; neighbours are pixels, or channels if `ACROSS`."""
    if ACROSS:
        return kl.global_id(1), kl.global_id(0), kl.i32(0)
    return kl.global_id(1) // shape[1], kl.global_id(1) % shape[1], kl.global_id(0)


@function
def is_inside(image: Any, channel: Any, pixel: Any, shape: Any) -> Any:
    """Whether there is such an element."""
    return image < shape[0] and channel < shape[1] and pixel < shape[2]


@kernel
def normalize_channels(
    x: Any, y: Any, moments: Any, scale: Any, *, FUNCTION: Any, ACROSS: bool
) -> None:
    """A work-item for each number of (n, channels, pixels).

    Parameters
    ----------
    x, y : array, shape (n, channels, pixels)
    moments : array, shape (2, channels)
        Means and reciprocal deviations.
    scale : Scale
    FUNCTION : Function or None
        The activation of the results.
    ACROSS : bool
        Whether there is one pixel, and neighbouring work-items take channels.
    """
    image, channel, pixel = element(y.shape, ACROSS)
    if is_inside(image, channel, pixel, y.shape):
        value = (x[image, channel, pixel] - moments[0, channel]) * moments[1, channel]
        value = scale.of(value, channel)
        if FUNCTION is not None:
            value = FUNCTION(value)
        y[image, channel, pixel] = value


@kernel
def channel_slope_sums(
    x: Any, y: Any, dy: Any, moments: Any, partial: Any, *, SLOPE: Any, SECTION: int
) -> None:
    """Sums of slopes, and of slopes times normalized numbers, of a section by a workgroup.

    Slopes become those before the activation.

    Parameters
    ----------
    x, y, dy : array, shape (n, channels, pixels)
        `y` is None where there is no activation.
    moments : array, shape (2, channels)
    partial : array, shape (2, sections, channels)
    SLOPE : Function or None
        Of the activation, by its value.
    SECTION : int
        Images.
    """
    channel, section = kl.group_id(0), kl.group_id(1)
    first, pixels = section * SECTION, x.shape[2]
    count = kl.minimum(SECTION, x.shape[0] - first) * pixels
    total = kl.cast(0, kl.accumulator(x.dtype))
    along = total
    mean, reciprocal = moments[0, channel], moments[1, channel]
    for i in kl.workgroup_range(count):
        image, pixel = pixel_of(i, first, pixels)
        slope = dy[image, channel, pixel]
        if y is not None:
            slope = slope * SLOPE(y[image, channel, pixel])
            dy[image, channel, pixel] = slope
        total += slope
        along += slope * (x[image, channel, pixel] - mean) * reciprocal
    total = kl.workgroup_reduce(kl.add, total)
    along = kl.workgroup_reduce(kl.add, along)
    if kl.local_id(0) == 0:
        partial[0, section, channel] = total
        partial[1, section, channel] = along


@kernel
def merge_slope_sums(partial: Any, sums: Any, bias: Any, weight: Any) -> None:
    """Adds sections up; the sums are the gradients by biases and weights, if there are such.

    Parameters
    ----------
    partial : array, shape (2, sections, channels)
    sums : array, shape (2, channels)
    bias, weight : array, shape (channels,), or None
    """
    channel = kl.global_id(0)
    if channel < sums.shape[1]:
        total, along = partial[0, 0, channel], partial[1, 0, channel]
        for section in range(1, partial.shape[1]):
            total += partial[0, section, channel]
            along += partial[1, section, channel]
        sums[0, channel] = total
        sums[1, channel] = along
        if bias is not None:
            bias[channel] = total
            weight[channel] = along


@kernel
def channel_slopes(
    x: Any, dy: Any, dx: Any, moments: Any, sums: Any, scale: Any, *, ACROSS: bool
) -> None:
    """The slopes by what went in, a work-item for each number.

    Parameters
    ----------
    x, dy, dx : array, shape (n, channels, pixels)
    moments, sums : array, shape (2, channels)
    scale : Scale
    ACROSS : bool
        As of `normalize_channels`.
    """
    image, channel, pixel = element(dx.shape, ACROSS)
    if is_inside(image, channel, pixel, dx.shape):
        count = dx.shape[0] * dx.shape[2]
        reciprocal = moments[1, channel]
        along = (x[image, channel, pixel] - moments[0, channel]) * reciprocal
        rest = (sums[0, channel] + along * sums[1, channel]) / count
        slope = dy[image, channel, pixel] - rest
        dx[image, channel, pixel] = scale.back(slope * reciprocal, channel)


# -- rows -----------------------------------------------------------------------------------------


@kernel
def normalize_rows(x: Any, y: Any, moments: Any, scale: Any, eps: Any, *, FUNCTION: Any) -> None:
    """Each row less its mean, by its deviation: a workgroup for a row.

    Parameters
    ----------
    x, y : array, shape (rows, columns)
    moments : array, shape (2, rows), or None
        Where means and reciprocal deviations are kept.
    scale : Scale
    eps : float
        Is added to variances.
    FUNCTION : Function or None
        The activation of the results.
    """
    row, columns = kl.group_id(0), x.shape[1]
    kind = kl.accumulator(x.dtype)
    total = kl.cast(0, kind)
    for i in kl.workgroup_range(columns):
        total += x[row, i]
    mean = kl.workgroup_reduce(kl.add, total) / columns
    spread = kl.cast(0, kind)
    for i in kl.workgroup_range(columns):
        distance = x[row, i] - mean
        spread += distance * distance
    reciprocal = 1 / kl.sqrt(kl.workgroup_reduce(kl.add, spread) / columns + eps)
    for i in kl.workgroup_range(columns):
        value = scale.of((x[row, i] - mean) * reciprocal, i)
        if FUNCTION is not None:
            value = FUNCTION(value)
        y[row, i] = value
    if moments is not None and kl.local_id(0) == 0:
        moments[0, row] = mean
        moments[1, row] = reciprocal


@kernel
def row_slopes(x: Any, y: Any, dy: Any, dx: Any, moments: Any, scale: Any, *, SLOPE: Any) -> None:
    """The slopes by what went in, a workgroup for a row; `dy` becomes that before the activation.

    Parameters
    ----------
    x, y, dy, dx : array, shape (rows, columns)
        `y` is None where there is no activation, `dx` where its slopes are not needed.
    moments : array, shape (2, rows)
    scale : Scale
    SLOPE : Function or None
        Of the activation, by its value.
    """
    row, columns = kl.group_id(0), x.shape[1]
    mean, reciprocal = moments[0, row], moments[1, row]
    total = kl.cast(0, kl.accumulator(x.dtype))
    along = total
    for i in kl.workgroup_range(columns):
        slope = dy[row, i]
        if y is not None:
            slope = slope * SLOPE(y[row, i])
            dy[row, i] = slope
        slope = scale.back(slope, i)
        total += slope
        along += slope * (x[row, i] - mean) * reciprocal
    if dx is not None:
        total = kl.workgroup_reduce(kl.add, total) / columns
        along = kl.workgroup_reduce(kl.add, along) / columns
        for i in kl.workgroup_range(columns):
            normalized = (x[row, i] - mean) * reciprocal
            dx[row, i] = (scale.back(dy[row, i], i) - total - normalized * along) * reciprocal


@kernel
def column_slope_sums(x: Any, dy: Any, moments: Any, partial: Any, rows: Any) -> None:
    """Sums over sections of so many `rows` of slopes, and of slopes times normalized numbers.

    Parameters
    ----------
    x, dy : array, shape (n, columns)
    moments : array, shape (2, n)
    partial : array, shape (2, sections, columns)
    rows : int
    """
    column, section = kl.global_id(0), kl.global_id(1)
    first = section * rows
    if column < x.shape[1] and first < x.shape[0]:
        total = kl.cast(0, kl.accumulator(x.dtype))
        along = total
        for row in range(first, kl.minimum(first + rows, x.shape[0])):
            slope = dy[row, column]
            total += slope
            along += slope * (x[row, column] - moments[0, row]) * moments[1, row]
        partial[0, section, column] = total
        partial[1, section, column] = along
