"""Tables of rotations, made in double precision on the host and kept on the device for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.dtypes import DType
from portable.primitives.base.borrowed import stored

Table = np.ndarray[Any, np.dtype[np.complex128]]


def roots(k: Any, n: int) -> Table:
    """``exp(-2 pi i k / n)`` of integers, within an ulp.

    Angles are brought into an eighth of the circle by integers, which rounds nothing.
    """
    k = np.asarray(k, np.int64) % n
    octant, rest = np.divmod(8 * k, n)
    mirrored = octant % 2 == 1
    rest = np.where(mirrored, n - rest, rest)
    angle = rest * (np.pi / 4 / n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(mirrored, s, c), np.where(mirrored, c, s)
    quadrant = octant // 2
    real = np.choose(quadrant, [c, -s, -c, s])
    imag = np.choose(quadrant, [s, c, -s, -c])
    return real - 1j * imag  # type: ignore[no-any-return]


def stage_rotations(radices: Sequence[int]) -> Table:
    """For each stage, after `s` elements of earlier ones, ``exp(-2 pi i j k / (s R))``.

    By j from 1 to R - 1, then by k below s; one element fewer than the transform has. After a gap
    of one come the roots of 7, 11 and 13.
    """
    parts = []
    s = 1
    for radix in radices:
        j = np.arange(1, radix)[:, None]
        parts.append(roots(j * np.arange(s), s * radix).reshape(-1))
        s *= radix
    primes = [roots(np.arange(p), p) for p in (7, 11, 13)]
    return np.concatenate([*parts, np.ones(1), *primes])


def between_halves(half: int) -> Table:
    """``exp(-pi i k / half)`` for k below `half`, or for 0 and 1 at least."""
    return roots(np.arange(max(half, 2)), 2 * half)


def between_long_halves(half: int, width: int) -> tuple[Table, Table]:
    """`between_halves` for k up to ``half // 2``.

    As products of ``coarse[k // width]`` and ``fine[k % width]``.
    """
    n = 2 * half
    return roots(np.arange(0, half // 2 + 1, width), n), roots(np.arange(width), n)


def between_passes(length: int, step: int, width: int) -> tuple[Table, Table]:
    """``exp(-2 pi i q k / (length step))`` for k below `length` and q below `step`.

    As products of ``coarse[q // width, k]`` and ``fine[k, q % width]``.

    Parameters
    ----------
    length : int
        Elements of the pass.
    step : int
        Elements between those of a transform.
    width : int
        Columns of the fine table.
    """
    k, n = np.arange(length), length * step
    coarse = roots(np.arange(0, step, width)[:, None] * k % n, n)
    fine = roots(k[:, None] * np.arange(min(width, step)) % n, n)
    return coarse, fine


class TableCache:
    """Tables on devices, the least recently used of them given up beyond so many bytes.

    Parameters
    ----------
    most : int
        Bytes to keep.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._bytes = 0
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def __call__(
        self, device: Device, dtype: DType, make: Callable[..., Any], *args: Any
    ) -> tuple[Any, ...]:
        """What a function makes of arguments, one table or several, as arrays of a device."""
        key = (device, dtype, make, args)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept  # type: ignore[no-any-return]
        made = make(*args)
        tables = tuple(
            stored(device, device.from_numpy(np.ascontiguousarray(table, dtype.numpy)))
            for table in (made if isinstance(made, tuple) else (made,))
        )
        with self._lock:
            self._keep(key, tables)
        return tables

    def _keep(self, key: Any, tables: tuple[Any, ...]) -> None:
        if key in self._kept:
            return
        self._kept[key] = tables
        self._bytes += _bytes(tables)
        while self._bytes > self._most and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= _bytes(gone)


def _bytes(tables: tuple[Any, ...]) -> int:
    return sum(int(table.nbytes) for table in tables)
