"""Means and variances of channels and of rows, what is made of them, and slopes on the way back.

Channels are those of (n, channels, pixels), each summed by sections of some images, or the columns
of a matrix where there is one pixel; rows are normalized each by itself. Variances are sums of
squared distances from a section's own mean, put together by the formula of Chan, Golub and LeVeque
("Updating formulae and a pairwise algorithm for computing sample variances", 1979), so that a mean
far from zero takes nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.base.sums import lane_sum


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

    def of(self, value: kl.Scalar, i: kl.Scalar) -> Any:
        """A normalized number of the i-th channel or column, scaled and shifted."""
        if self.weight is None:
            return value
        return value * self.weight[i] + self.bias[i]

    def back(self, slope: kl.Scalar, i: kl.Scalar) -> Any:
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


@dataclass(frozen=True, slots=True)
class Back:
    """What slopes on the way back are made of.

    Attributes
    ----------
    x, y, dy : array, shape (n, channels, pixels) or (rows, columns)
        What went in and came out, and slopes by that; `y` is None where there is no activation.
    moments : array, shape (2, channels) or (2, rows)
        Means and reciprocal deviations.
    """

    x: Any
    y: Any
    dy: Any
    moments: Any

    def slopes(self, SLOPE: Any, LANES: int, *first: kl.Scalar) -> Any:
        """Some neighbours before the activation, of which `SLOPE` is that by its value."""
        slopes = kl.vload(self.dy, *first, lanes=LANES)
        if self.y is not None:
            slopes = slopes * SLOPE(kl.vload(self.y, *first, lanes=LANES))
            kl.vstore(self.dy, *first, slopes)
        return slopes


# -- channels -------------------------------------------------------------------------------------


@kernel
def channel_moments(x: kl.Array, partial: kl.Array, *, SECTION: int, LANES: int) -> None:
    """Mean and squared distances from it of a section of a channel, by a workgroup.

    Parameters
    ----------
    x : array, shape (n, channels, pixels)
    partial : array, shape (2, sections, channels)
    SECTION : int
        Images.
    LANES : int
        Neighbours that a work-item takes at a time.
    """
    channel, section = kl.group_id(0), kl.group_id(1)
    first, pixels = section * SECTION, x.shape[2]
    last, whole = kl.minimum(first + SECTION, x.shape[0]), pixels // LANES
    rest = kl.cast(0, kl.accumulator(x.dtype))
    total = kl.splat(rest, LANES)
    for image in range(first, last):
        for i in kl.workgroup_range(whole):
            total += kl.vload(x, image, channel, i * LANES, lanes=LANES)
        for i in kl.workgroup_range(whole * LANES, pixels):
            rest += x[image, channel, i]
    mean = kl.workgroup_reduce(kl.add, lane_sum(total) + rest) / ((last - first) * pixels)
    rest = rest * 0
    spread = kl.splat(rest, LANES)
    for image in range(first, last):
        for i in kl.workgroup_range(whole):
            distances = kl.vload(x, image, channel, i * LANES, lanes=LANES) - mean
            spread += distances * distances
        for i in kl.workgroup_range(whole * LANES, pixels):
            distance = x[image, channel, i] - mean
            rest += distance * distance
    squares = kl.workgroup_reduce(kl.add, lane_sum(spread) + rest)
    if kl.local_id(0) == 0:
        partial[0, section, channel] = mean
        partial[1, section, channel] = squares


@kernel
def column_moments(x: kl.Array, partial: kl.Array, *, SECTION: int, LANES: int) -> None:
    """The same of a section of so many rows of some columns, by a work-item.

    Parameters
    ----------
    x : array, shape (n, columns)
    partial : array, shape (2, sections, columns)
    SECTION : int
    LANES : int
        Columns of a work-item; it divides their number.
    """
    column, section = kl.global_id(0) * LANES, kl.global_id(1)
    first = section * SECTION
    if column < x.shape[1] and first < x.shape[0]:
        last = kl.minimum(first + SECTION, x.shape[0])
        total = kl.splat(kl.cast(0, kl.accumulator(x.dtype)), LANES)
        for row in range(first, last):
            total += kl.vload(x, row, column, lanes=LANES)
        mean = total / (last - first)
        spread = total * 0
        for row in range(first, last):
            distances = kl.vload(x, row, column, lanes=LANES) - mean
            spread += distances * distances
        kl.vstore(partial, 0, section, column, mean)
        kl.vstore(partial, 1, section, column, spread)


@kernel
def merge_moments(
    partial: kl.Array,
    moments: kl.Array,
    running: Running,
    images: kl.Scalar,
    pixels: kl.Scalar,
    eps: kl.Scalar,
    *,
    SECTION: int,
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
def running_moments(mean: kl.Array, variance: kl.Array, moments: kl.Array, eps: kl.Scalar) -> None:
    """The same from running means."""
    channel = kl.global_id(0)
    if channel < moments.shape[1]:
        moments[0, channel] = mean[channel]
        moments[1, channel] = 1 / kl.sqrt(variance[channel] + eps)


@dataclass(frozen=True, slots=True)
class Elements:
    """Which numbers of (n, channels, pixels) a work-item takes; a constant of kernels.

    Attributes
    ----------
    across : bool
        Whether there is one pixel, and neighbours are channels.
    lanes : int
        Neighbours of a work-item; it divides their number.
    """

    across: bool
    lanes: int

    def first(self, shape: tuple[kl.Scalar, ...]) -> Any:
        """Image, channel and pixel of the first."""
        i = kl.global_id(0) * self.lanes
        if self.across:
            return kl.global_id(1), i, kl.i32(0)
        return kl.global_id(1) // shape[1], kl.global_id(1) % shape[1], i

    def of(self, x: kl.Array, first: tuple[kl.Scalar, ...]) -> Any:
        """The numbers, of an array that may have one for each channel."""
        if x.ndim == 3:
            return kl.vload(x, *first, lanes=self.lanes, axis=1 if self.across else 2)
        if self.across:
            return kl.vload(x, first[1], lanes=self.lanes)
        return x[first[1]]

    def put(self, x: kl.Array, first: tuple[kl.Scalar, ...], value: kl.Scalar) -> None:
        """Writes the numbers."""
        kl.vstore(x, *first, value, axis=1 if self.across else 2)


@kernel
def normalize_channels(
    x: kl.Array, y: kl.Array, moments: kl.Array, scale: Scale, *, FUNCTION: Any, ELEMENTS: Elements
) -> None:
    """A function of numbers less their channel's mean, by its deviation, scaled and shifted.

    Parameters
    ----------
    x, y : array, shape (n, channels, pixels)
    moments : array, shape (2, channels)
        Means and reciprocal deviations.
    scale : Scale
    FUNCTION : Function or None
        The activation of the results.
    ELEMENTS : Elements
    """
    first = ELEMENTS.first(y.shape)
    if first[0] < y.shape[0] and first[1] < y.shape[1] and first[2] < y.shape[2]:
        value = ELEMENTS.of(x, first) - ELEMENTS.of(moments[0], first)
        value = value * ELEMENTS.of(moments[1], first)
        if scale.weight is not None:
            value = value * ELEMENTS.of(scale.weight, first) + ELEMENTS.of(scale.bias, first)
        if FUNCTION is not None:
            value = FUNCTION(value)
        ELEMENTS.put(y, first, value)


@kernel
def channel_slope_sums(
    back: Back, partial: kl.Array, *, SLOPE: Any, SECTION: int, LANES: int
) -> None:
    """Sums of slopes, and of slopes times normalized numbers, of a section by a workgroup.

    Slopes become those before the activation.

    Parameters
    ----------
    back : Back
    partial : array, shape (2, sections, channels)
    SLOPE : Function or None
        Of the activation, by its value.
    SECTION : int
        Images.
    LANES : int
        Neighbours that a work-item takes at a time.
    """
    channel, section, x = kl.group_id(0), kl.group_id(1), back.x
    first, pixels = section * SECTION, x.shape[2]
    last, whole = kl.minimum(first + SECTION, x.shape[0]), pixels // LANES
    mean = back.moments[0, channel]
    rest = kl.cast(0, kl.accumulator(x.dtype))
    rest_along = rest
    total, along = kl.splat(rest, LANES), kl.splat(rest, LANES)
    for image in range(first, last):
        for i in kl.workgroup_range(whole):
            slopes = back.slopes(SLOPE, LANES, image, channel, i * LANES)
            total += slopes
            along += slopes * (kl.vload(x, image, channel, i * LANES, lanes=LANES) - mean)
        for i in kl.workgroup_range(whole * LANES, pixels):
            slope = back.slopes(SLOPE, 1, image, channel, i)
            rest += slope
            rest_along += slope * (x[image, channel, i] - mean)
    slopes_sum = kl.workgroup_reduce(kl.add, lane_sum(total) + rest)
    along_sum = kl.workgroup_reduce(kl.add, lane_sum(along) + rest_along)
    if kl.local_id(0) == 0:
        partial[0, section, channel] = slopes_sum
        partial[1, section, channel] = along_sum * back.moments[1, channel]


@kernel
def merge_slope_sums(
    partial: kl.Array, sums: kl.Array, bias: kl.Array | None, weight: kl.Array | None
) -> None:
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
        if bias is not None and weight is not None:
            bias[channel] = total
            weight[channel] = along


@kernel
def channel_slopes(
    back: Back, dx: kl.Array, sums: kl.Array, scale: Scale, *, ELEMENTS: Elements
) -> None:
    """The slopes by what went in.

    Parameters
    ----------
    back : Back
        Of slopes before the activation.
    dx : array, shape (n, channels, pixels)
    sums : array, shape (2, channels)
    scale : Scale
    ELEMENTS : Elements
    """
    first = ELEMENTS.first(dx.shape)
    if first[0] < dx.shape[0] and first[1] < dx.shape[1] and first[2] < dx.shape[2]:
        count = dx.shape[0] * dx.shape[2]
        reciprocal = ELEMENTS.of(back.moments[1], first)
        along = (ELEMENTS.of(back.x, first) - ELEMENTS.of(back.moments[0], first)) * reciprocal
        rest = ELEMENTS.of(sums[0], first) + along * ELEMENTS.of(sums[1], first)
        slope = (ELEMENTS.of(back.dy, first) - rest / count) * reciprocal
        if scale.weight is not None:
            slope = slope * ELEMENTS.of(scale.weight, first)
        ELEMENTS.put(dx, first, slope)


# -- rows -----------------------------------------------------------------------------------------


@kernel
def normalize_rows(
    x: kl.Array,
    y: kl.Array,
    moments: kl.Array | None,
    scale: Scale,
    eps: kl.Scalar,
    *,
    FUNCTION: Any,
) -> None:
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
def row_slopes(back: Back, dx: kl.Array | None, scale: Scale, *, SLOPE: Any) -> None:
    """The slopes by what went in, a workgroup for a row; `dy` becomes that before the activation.

    Parameters
    ----------
    back : Back
    dx : array, shape (rows, columns), or None
    scale : Scale
    SLOPE : Function or None
        Of the activation, by its value.
    """
    row, x = kl.group_id(0), back.x
    columns = x.shape[1]
    mean, reciprocal = back.moments[0, row], back.moments[1, row]
    total = kl.cast(0, kl.accumulator(x.dtype))
    along = total
    for i in kl.workgroup_range(columns):
        slope = scale.back(back.slopes(SLOPE, 1, row, i), i)
        total += slope
        along += slope * (x[row, i] - mean) * reciprocal
    if dx is not None:
        total = kl.workgroup_reduce(kl.add, total) / columns
        along = kl.workgroup_reduce(kl.add, along) / columns
        for i in kl.workgroup_range(columns):
            normalized = (x[row, i] - mean) * reciprocal
            dx[row, i] = (scale.back(back.dy[row, i], i) - total - normalized * along) * reciprocal


@kernel
def slope_sums(
    back: Back, partial: kl.Array, *, SLOPE: Any, SECTION: int, LANES: int, BY_ROWS: bool
) -> None:
    """As `channel_slope_sums`, of a section of rows of some columns, by a work-item.

    Parameters
    ----------
    back : Back
    partial : array, shape (2, sections, columns)
    SLOPE : Function or None
    SECTION : int
        Rows.
    LANES : int
        Columns of a work-item; it divides their number.
    BY_ROWS : bool
        Whether numbers are normalized by their row, not by their column.
    """
    column, section = kl.global_id(0) * LANES, kl.global_id(1)
    first = section * SECTION
    x, moments = back.x, back.moments
    if column < x.shape[1] and first < x.shape[0]:
        total = kl.splat(kl.cast(0, kl.accumulator(x.dtype)), LANES)
        mean, factor, along = total, total + 1, total
        if not BY_ROWS:
            mean = kl.vload(moments, 0, column, lanes=LANES)
            factor = kl.vload(moments, 1, column, lanes=LANES)
        for row in range(first, kl.minimum(first + SECTION, x.shape[0])):
            slopes = back.slopes(SLOPE, LANES, row, column)
            total += slopes
            values = kl.vload(x, row, column, lanes=LANES)
            if BY_ROWS:
                along += slopes * (values - moments[0, row]) * moments[1, row]
            else:
                along += slopes * (values - mean)
        kl.vstore(partial, 0, section, column, total)
        kl.vstore(partial, 1, section, column, along * factor)
