"""Networks of layers of any kind, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final, Self

from portable.backend import Device
from portable.errors import ShapeError, UnsupportedError
from portable.nn import files
from portable.nn.layers import LAYERS, Layer
from portable.nn.network import Blueprint, Network

__all__ = ["Sequential"]

_SAVED: Final = frozenset(LAYERS.values())


class Sequential(Network):
    """Layers one after the other, as ``torch.nn.Sequential``.

    Samples of any shape that all layers take go through it; the layers' workspaces are one.

    Parameters
    ----------
    *layers : Layer
        `Linear`, `Conv2d`, `MaxPool2d`, `AvgPool2d`, `Flatten`, `ReLU`, `Tanh`, `Sigmoid`.
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
        *layers: Layer,
        dtype: Any = "float32",
        device: str | Device | None = None,
        init: str = "he",
        seed: int = 0,
    ) -> None:
        for i, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(
                    f"layer {i} is {layer!r}; a Sequential is made of {', '.join(LAYERS)}, "
                    "each called with its sizes"
                )
            if not isinstance(layer, tuple(LAYERS.values())):
                raise UnsupportedError(
                    f"layer {i} is {layer!r}, of a class derived from Layer alone, which says "
                    f"nothing of how it is worked out; derive from {', '.join(LAYERS)}"
                )
        if not layers:
            raise ShapeError("Sequential() has no layers; give at least one")
        super().__init__(layers, dtype, device, init, seed)

    def __repr__(self) -> str:
        names = "-".join(type(layer).__name__ for layer in self.layers)
        return f"<Sequential {names} {self.dtype.name} on {self.device.name}>"

    def empty_copy(self, device: Device) -> Self:
        """A network of the same layers on a device."""
        return type(self)(*self.layers, dtype=self.dtype, device=device)

    def described(self) -> dict[str, str]:
        """The layers and the dtype, which networks without parameters have, too."""
        strange = [type(layer).__name__ for layer in self.layers if type(layer) not in _SAVED]
        if strange:
            raise UnsupportedError(
                f"layers of classes of your own ({', '.join(strange)}) cannot be saved: files "
                f"name layers: {', '.join(LAYERS)}. Keep state_dict() instead"
            )
        layers = [[type(layer).__name__, _arguments(layer)] for layer in self.layers]
        return {"layers": json.dumps(layers), "dtype": self.dtype.name}

    @classmethod
    def blueprint(cls, file: files.ModelFile) -> Blueprint:
        """By layers and dtype."""
        layers, kind = files.described(file, "layers and dtype", _described)
        return Blueprint(layers, "such a network", kind, partial(cls, *layers))


def _arguments(layer: Layer) -> dict[str, Any]:
    return asdict(layer)  # type: ignore[call-overload, no-any-return]


def _described(metadata: Mapping[str, str]) -> tuple[list[Layer], str]:
    """The layers, and the name of the dtype, that a file's metadata name."""
    listed = json.loads(metadata["layers"])
    if not isinstance(listed, list) or not listed:
        raise ValueError("no list of layers")
    return [_layer(*described) for described in listed], metadata["dtype"]


def _layer(name: str, arguments: Mapping[str, Any]) -> Layer:
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    return LAYERS[name](**given)
