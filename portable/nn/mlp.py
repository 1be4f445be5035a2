"""Multi-layer perceptrons, small ones of which run as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import index
from typing import Any, Final, Self

from portable.backend import Device
from portable.errors import ShapeError
from portable.lang.launch.launch import Launcher
from portable.nn import files
from portable.nn.activations import BY_VALUE
from portable.nn.fused import fused_forward
from portable.nn.layers import LAYERS, Layer, Linear, Shape
from portable.nn.network import Blueprint, Network, known

_MOST_LAUNCHES: Final = 64


class MLP(Network):
    """A multi-layer perceptron: linear layers with an activation between each and the next.

    Parameters
    ----------
    sizes : sequence of int
        The width of the input, of every hidden layer, and of the output.
    activation : {"relu", "tanh", "sigmoid"}
        After every layer but the last.
    dtype : dtype
        ``float16``, ``bfloat16``, ``float32`` or ``float64``: of parameters, inputs and outputs.
    device : str or Device, optional
        Where it lives; None: the device in use.
    init : {"xavier", "he", "uniform"}
        Weights uniform within ``sqrt(6 / (inputs + outputs))``, ``sqrt(6 / inputs)``, or within
        [-1, 1]. Biases start at 0.
    seed : int
        Of NumPy's Philox generator, which draws the weights on the host: the same on all devices.

    Raises
    ------
    ShapeError
        For fewer than two sizes, or sizes below 1.
    ValueError
        For an unknown activation or init.
    DTypeError, UnsupportedError
        For other dtypes, or double precision where the device has none.

    Examples
    --------
    >>> import numpy as np
    >>> from portable.nn import MLP
    >>> model = MLP([10, 64, 1], device="cpu")
    >>> model(np.zeros((3, 10), np.float32)).shape
    (3, 1)
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        activation: str = "relu",
        dtype: Any = "float32",
        device: str | Device | None = None,
        init: str = "xavier",
        seed: int = 0,
    ) -> None:
        self.sizes: Final = checked_sizes(sizes)
        self.activation: Final = known("activation", activation, BY_VALUE)
        super().__init__(perceptron(self.sizes, activation), dtype, device, init, seed)
        self._launches: Final[dict[int, tuple[Launcher, dict[str, Any]] | None]] = {}

    def __repr__(self) -> str:
        widths = "-".join(map(str, self.sizes))
        return f"<MLP {widths} {self.activation} {self.dtype.name} on {self.device.name}>"

    def empty_copy(self, device: Device) -> Self:
        """A network of the same sizes on a device."""
        return type(self)(self.sizes, activation=self.activation, dtype=self.dtype, device=device)

    def check_inputs(self, x: Any, name: str = "x") -> Shape:
        """As of `Network.check_inputs`; known before the layers are asked."""
        self.check_owned(name, x)
        if x.ndim != 2 or x.shape[1] != self.sizes[0]:
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}; {self!r} takes (n, {self.sizes[0]})"
            )
        return (self.sizes[-1],)

    def _forward(self, x: Any, out: Any) -> None:
        fused = self._fused(x.shape[0])
        if fused is None:
            super()._forward(x, out)
        else:
            launcher, constants = fused
            launcher(x, self.vector, out, **constants)

    def _prepare(self, x: Any, out: Any) -> Callable[[], object]:
        fused = self._fused(x.shape[0])
        if fused is None:
            return super()._prepare(x, out)
        launcher, constants = fused
        return launcher.prepare(x, self.vector, out, **constants)

    def _fused(self, count: int) -> tuple[Launcher, dict[str, Any]] | None:
        """How to launch one kernel for `count` samples; None if that is not the way."""
        if count not in self._launches:
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            self._launches[count] = fused_forward(self, count)
        return self._launches[count]

    # -- files --------------------------------------------------------------------------------

    def described(self) -> dict[str, str]:
        """Sizes and activation."""
        return {"sizes": ",".join(map(str, self.sizes)), "activation": self.activation}

    @classmethod
    def blueprint(cls, file: files.ModelFile) -> Blueprint:
        """By sizes and activation."""
        sizes, activation = files.described(file, "sizes and activation", _described)
        with files.blamed(file.path):
            checked = checked_sizes(sizes)
            layers = perceptron(checked, known("activation", activation, BY_VALUE))
        whole = f"a network of sizes {files.shown(checked)}"
        return Blueprint(layers, whole, None, partial(cls, checked, activation=activation))


def _described(metadata: Mapping[str, str]) -> tuple[tuple[int, ...], str]:
    return tuple(int(n) for n in metadata["sizes"].split(",")), metadata["activation"]


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The widths of a network, as integers.

    Raises
    ------
    ShapeError
        Unless they are two whole numbers from 1 or more.
    """
    try:
        sizes_read = tuple(map(index, sizes))
    except TypeError:
        sizes_read = ()
    if len(sizes_read) < 2 or min(sizes_read) < 1:
        raise ShapeError(
            f"sizes={sizes!r:.200}: give the widths of the input, the hidden layers and the "
            "output, each a whole number from 1"
        )
    return sizes_read


def perceptron(sizes: Sequence[int], activation: str) -> list[Layer]:
    """Linear layers of these widths, the input's first, with an activation between them."""
    between = next(kind for kind in LAYERS.values() if kind.activation == activation)
    layers: list[Layer] = []
    for inputs, outputs in pairwise(sizes):
        layers += [Linear(inputs, outputs), between()]
    return layers[:-1]
