"""Products and transposes over GF(2), and random matrices."""

from __future__ import annotations

from typing import Final

import numpy as np

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.errors import DeviceMismatchError, ShapeError
from portable.gf2.blocks import multiply_blocks
from portable.gf2.layout import Order, random_words, striped, transpose_blocks, unstriped
from portable.gf2.matrix import BitMatrix, takes_dense
from portable.gf2.packed_file import word_count
from portable.gf2.tuning import Shape, shape_for
from portable.lang.launch.geometry import groups

_STEPS: Final = 24


@takes_dense
def matmul(a: BitMatrix, b: BitMatrix, *, shape: Shape | None = None) -> BitMatrix:
    """The product ``a @ b`` over GF(2).

    Parameters
    ----------
    a : BitMatrix, shape (m, k)
        On the device of `b`.
    b : BitMatrix, shape (k, n)
        Likewise.
    shape : Shape, optional
        The layout; the tuned one for the device if left out.

    Returns
    -------
    BitMatrix, shape (m, n)
        On the same device.

    Raises
    ------
    ShapeError
        If the columns of `a` are not as many as the rows of `b`.
    DeviceMismatchError
        For matrices of different devices.

    Notes
    -----
    The method of the four Russians: for each 64 rows of `b` all sums of K neighbours are
    tabulated, and a row of the result takes one entry of each table: about ``m k n / (64 K)``
    additions of words.
    """
    require_one_device("matmul", a, b)
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"matmul of shapes {a.shape} and {b.shape}: the columns of a, {a.shape[1]}, are not as "
            f"many as the rows of b, {b.shape[0]}"
        )
    device = a.device
    if 0 in a.shape or 0 in b.shape:
        return BitMatrix.zeros((a.shape[0], b.shape[1]), device=device)
    layout = shape or shape_for(device.capabilities)
    order = Order(b.shape[1], backward=True)
    with registry.use(device):
        named = striped(a, Order(a.shape[1], backward=True), layout.of_width(1))
        rows = striped(b, order, layout)
        stripes, m = int(rows.shape[0]), a.shape[0]
        out = device.empty((stripes, m, layout.width), kl.u64)
        multiply_blocks(
            named[:, :, 0], rows, out, shape=layout, capabilities=device.capabilities, adds=False
        )
        return BitMatrix(unstriped(out, order, device, layout), b.shape[1], device=device)


@takes_dense
def transpose(a: BitMatrix) -> BitMatrix:
    """The transpose, of shape (n, m), on the device of `a`."""
    m, n = a.shape
    device = a.device
    if 0 in a.shape:
        return BitMatrix.zeros((n, m), device=device)
    items = 1 if shape_for(device.capabilities).alone else 32
    with registry.use(device):
        out = device.empty((n, word_count(m)), kl.u64)
        transpose_blocks[groups(word_count(n), word_count(m)), items](a.words, out)
        return BitMatrix(out, m, device=device)


def random(
    shape: tuple[int, int],
    *,
    density: float = 0.5,
    seed: int = 0,
    device: str | Device | None = None,
) -> BitMatrix:
    """A random matrix, the same on every device.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns.
    density : float
        The probability of a one, taken as a multiple of 2**-24.
    seed : int
        From 0 to 2**64 - 1.
    device : str or Device, optional
        Where; the device in use if left out.

    Raises
    ------
    ValueError
        For a density that is not from 0 to 1.
    """
    if not 0 <= density <= 1:
        raise ValueError(f"density={density!r}; expected a number from 0 to 1")
    target = registry.device(device)
    level = round(density * 2**_STEPS)
    if 0 in shape or min(shape) < 0 or level == 0:
        return BitMatrix.zeros(shape, device=target)
    with registry.use(target):
        words = target.empty((shape[0], word_count(shape[1])), kl.u64)
        random_words[(word_count(shape[1]), shape[0]), (16, 8)](
            words, shape[1], np.uint64(seed), level, STEPS=_STEPS
        )
        return BitMatrix(words, shape[1], device=target)


def require_one_device(operation: str, a: BitMatrix, b: BitMatrix) -> None:
    """Refuses matrices of different devices.

    Parameters
    ----------
    operation : str
        Who asks, for the error.
    a, b : BitMatrix

    Raises
    ------
    DeviceMismatchError
        If they are on different ones.
    """
    if a.device is not b.device:
        raise DeviceMismatchError(
            f"{operation}: one matrix is on {a.device.name}, the other on {b.device.name}; move "
            "one of them with .to()"
        )
