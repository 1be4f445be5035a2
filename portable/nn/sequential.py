"""Networks of layers of any kind, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import pairwise
from operator import index
from typing import Any, Final

from portable.backend import Device
from portable.errors import ShapeError, UnsupportedError
from portable.lang.launch.launch import Launcher
from portable.nn import files
from portable.nn.activations import BY_VALUE
from portable.nn.fused import fused_forward
from portable.nn.layers import LAYERS
from portable.nn.layers.layer import Chain, Layer, Shape
from portable.nn.layers.weighted import Linear
from portable.nn.network import Blueprint, Network, known

# Multi-layer perceptrons, small ones of which run as one kernel.

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

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Sizes, activation and dtype."""
        return (self.sizes,), {"activation": self.activation, "dtype": self.dtype}

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
        sizes, activation = files.described(file, "sizes and activation", _described_perceptron)
        with files.blamed(file.path):
            checked = checked_sizes(sizes)
            layers = perceptron(checked, known("activation", activation, BY_VALUE))
        whole = f"a network of sizes {files.shown(checked)}"
        return Blueprint(layers, whole, None, partial(cls, checked, activation=activation))


def _described_perceptron(metadata: Mapping[str, str]) -> tuple[tuple[int, ...], str]:
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


# -- sequential ------------------------------------------------------------------------------------

_SAVED: Final = frozenset(LAYERS.values())
_MADE_OF: Final = ("layers", "shortcut")
"""Fields of layers that hold layers."""


class Sequential(Network):
    """Layers one after the other, as ``torch.nn.Sequential``.

    Samples of any shape that all layers take go through it; the layers' workspaces are one.

    Parameters
    ----------
    *layers : Layer or Sequential
        Those of this package, or of classes of one's own that derive from `Layer`. A network among
        them becomes a `Chain` of its layers, with copies of its parameters.
    dtype : dtype
        ``float16``, ``bfloat16``, ``float32`` or ``float64``: of parameters, inputs and outputs.
    device : str or Device, optional
        Where it lives; None: the device in use.
    init : {"he", "xavier", "uniform"}
        Weights uniform within ``sqrt(6 / inputs)``, ``sqrt(6 / (inputs + outputs))``, or within
        [-1, 1], where `inputs` is how many numbers go into a result and `outputs` into how many
        results a number goes. Biases start at 0.
    seed : int
        Of NumPy's Philox generator, which draws the weights on the host: the same on all devices.

    Raises
    ------
    TypeError
        For what is no layer, or (UnsupportedError) none that networks know.
    ShapeError
        For no layers.
    ValueError
        For an unknown init.
    DTypeError, UnsupportedError
        For other dtypes, or double precision where the device has none.

    Examples
    --------
    >>> import numpy as np
    >>> from portable.nn import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
    >>> layers = Conv2d(1, 8, 3, padding=1), ReLU(), MaxPool2d(2), Flatten(), Linear(128, 10)
    >>> model = Sequential(*layers, device="cpu")
    >>> model(np.zeros((3, 1, 8, 8), np.float32)).shape
    (3, 10)
    >>> list(model.state_dict())
    ['0.weight', '0.bias', '4.weight', '4.bias']
    """

    def __init__(
        self,
        *layers: Layer | Network,
        dtype: Any = "float32",
        device: str | Device | None = None,
        init: str = "he",
        seed: int = 0,
    ) -> None:
        described = [Chain(*x.layers) if isinstance(x, Network) else x for x in layers]
        for i, layer in enumerate(described):
            _check_layer(i, layer)
        if not layers:
            raise ShapeError("Sequential() has no layers; give at least one")
        super().__init__(described, dtype, device, init, seed)
        nested = {i: x for i, x in enumerate(layers) if isinstance(x, Network)}
        if nested:
            theirs = {f"{i}.{k}": v for i, x in nested.items() for k, v in x.state_dict().items()}
            self.take_state({**self.state_dict(), **theirs})

    def __repr__(self) -> str:
        names = "-".join(type(layer).__name__ for layer in self.layers)
        return f"<Sequential {names} {self.dtype.name} on {self.device.name}>"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Layers and dtype."""
        return self.layers, {"dtype": self.dtype}

    def described(self) -> dict[str, str]:
        """The layers and the dtype, which networks without parameters have, too."""
        strange = [type(x).__name__ for x in _all_layers(self.layers) if type(x) not in _SAVED]
        if strange:
            raise UnsupportedError(
                f"layers of classes of your own ({', '.join(strange)}) cannot be saved: files "
                f"name layers: {', '.join(LAYERS)}. Keep state_dict() instead"
            )
        return {"layers": json.dumps(_listed(self.layers)), "dtype": self.dtype.name}

    @classmethod
    def blueprint(cls, file: files.ModelFile) -> Blueprint:
        """By layers and dtype."""
        layers, kind = files.described(file, "layers and dtype", _described)
        return Blueprint(layers, "such a network", kind, partial(cls, *layers))


def _check_layer(i: int, layer: object) -> None:
    if not isinstance(layer, Layer):
        raise TypeError(
            f"layer {i} is {layer!r}; a Sequential is made of {', '.join(LAYERS)}, "
            "each called with its sizes"
        )
    for inner in _all_layers([layer]):
        if not inner.is_worked_out_by_itself() and not isinstance(inner, tuple(LAYERS.values())):
            raise UnsupportedError(
                f"layer {i}, {inner!r}, is of a class derived from Layer alone which says nothing "
                "of how it is worked out; give it a method forward(self, x, y, parameters), or "
                f"derive from {', '.join(LAYERS)}"
            )


def _all_layers(layers: Iterable[Layer]) -> Iterator[Layer]:
    """The layers, and those that they are made of."""
    for layer in layers:
        yield layer
        for name in _MADE_OF:
            yield from _all_layers(getattr(layer, name, ()))


def _listed(layers: Iterable[Layer]) -> list[list[Any]]:
    """Names and arguments of layers, and of those that they are made of, for files."""
    return [[type(layer).__name__, _arguments(layer)] for layer in layers]


def _arguments(layer: Layer) -> dict[str, Any]:
    given = {field.name: getattr(layer, field.name) for field in fields(layer)}  # type: ignore[arg-type]
    return {k: _listed(v) if k in _MADE_OF else v for k, v in given.items()}


def _described(metadata: Mapping[str, str]) -> tuple[list[Layer], str]:
    """The layers, and the name of the dtype, that a file's metadata name."""
    listed = json.loads(metadata["layers"])
    if not isinstance(listed, list) or not listed:
        raise ValueError("no list of layers")
    return [_layer(*described) for described in listed], metadata["dtype"]


def _layer(name: str, arguments: Mapping[str, Any]) -> Layer:
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    inner = {k: [_layer(*described) for described in given.pop(k)] for k in _MADE_OF if k in given}
    return LAYERS[name](*inner.pop("layers", ()), **inner, **given)
