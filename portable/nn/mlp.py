"""Multi-layer perceptrons: the network itself, its parameters and its forward pass."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable import namespace, registry
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedError
from portable.interchange import takes_other_libraries
from portable.lang.launch import Launcher
from portable.linalg.operands import overlap
from portable.nn import files
from portable.nn.activations import ACTIVATIONS
from portable.nn.fused import fused_forward
from portable.nn.initial import INITIAL, initial_vector
from portable.nn.layer_product import layer_product
from portable.nn.layout import checked_sizes, layout_of
from portable.nn.placement import computing_on
from portable.typing import ArrayT

__all__ = ["MLP"]

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_MOST_LAUNCHES: Final = 64


class MLP:
    """A multi-layer perceptron: linear layers with an activation between each and the next.

    Parameters
    ----------
    sizes : sequence of int
        The width of the input, of every hidden layer, and of the output.
    activation : {"relu", "tanh", "sigmoid"}
        After every layer but the last.
    dtype : dtype
        ``float16``, ``float32`` or ``float64``: of parameters, inputs and outputs.
    device : str or Device, optional
        Where it lives; None: the device in use.
    init : {"xavier", "uniform"}
        Weights uniform within ``sqrt(6 / (inputs + outputs))``, or within [-1, 1]. Biases start
        at 0.
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
        self.activation: Final = _known("activation", activation, ACTIVATIONS)
        self.device: Final = registry.device(device)
        self.dtype: Final = _checked_dtype(dtype, self.device)
        self.layout: Final = layout_of(self.sizes)
        drawn = initial_vector(self.layout, _known("init", init, INITIAL), seed)
        self.vector: Final = self.device.from_numpy(drawn.astype(self.dtype.numpy))
        self._launches: Final[dict[int, tuple[Launcher, dict[str, Any]] | None]] = {}
        self._layers: Final = self.layout.views(self.device.namespace(), self.vector)

    def __repr__(self) -> str:
        widths = "-".join(map(str, self.sizes))
        return f"<MLP {widths} {self.activation} {self.dtype.name} on {self.device.name}>"

    # -- forward ------------------------------------------------------------------------------

    def __call__(self, x: ArrayT, *, out: ArrayT | None = None) -> ArrayT:
        """The outputs for a batch of inputs; see `forward`."""
        return self.forward(x, out=out)

    @takes_other_libraries
    def forward(self, x: ArrayT, *, out: ArrayT | None = None) -> ArrayT:
        """The outputs for a batch of inputs.

        Parameters
        ----------
        x : array, shape (n, inputs)
            Of the network's dtype and device; any strides.
        out : array, shape (n, outputs), optional
            Where to put the outputs.

        Returns
        -------
        array, shape (n, outputs)
            `out`, or a new array.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            For an `x` of another width, dtype or device.
        """
        self.check_inputs(x)
        if out is not None:
            self._check_outputs(x, out)
        with computing_on(self.device):
            return self._forward(x, out)  # type: ignore[no-any-return]

    def _forward(self, x: Any, out: Any) -> Any:
        fused = self._fused(x.shape[0])
        if fused is None:
            return self._layer_by_layer(x, out)
        launcher, constants = fused
        if out is None:
            out = self.device.empty((x.shape[0], self.sizes[-1]), self.dtype)
        if x.shape[0] > 0:
            launcher(x, self.vector, out, **constants)
        return out

    def prepare(self, x: Any, *, out: Any) -> Callable[[], None]:
        """The cheapest forward pass of the same arrays again and again, as a function.

        Parameters
        ----------
        x, out
            As in `forward`. They must stay alive and where they are.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            As in `forward`.
        """
        self.check_inputs(x)
        self._check_outputs(x, out)
        fused = self._fused(x.shape[0])
        if fused is None or x.shape[0] == 0:
            return partial(self._again, x, out)
        launcher, constants = fused
        with computing_on(self.device):
            return launcher.prepare(x, self.vector, out, **constants)

    def _again(self, x: Any, out: Any) -> None:
        """A pass of arrays that were checked before."""
        with computing_on(self.device):
            self._layer_by_layer(x, out)

    def _fused(self, count: int) -> tuple[Launcher, dict[str, Any]] | None:
        """How to launch one kernel for `count` samples; None if that is not the way."""
        if count not in self._launches:
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            self._launches[count] = fused_forward(self, count)
        return self._launches[count]

    def _check_outputs(self, x: Any, out: Any) -> None:
        self.check_array("out", out, self.sizes[-1])
        if out.shape[0] != x.shape[0]:
            raise ShapeError(f"out has {out.shape[0]} rows, x {x.shape[0]}")
        if overlap(self.device, out, x):
            raise ShapeError("out overlaps x; pass another array")

    def _layer_by_layer(self, x: Any, out: Any) -> Any:
        last = len(self._layers) - 1
        for i, (weight, bias) in enumerate(self._layers):
            function = None if i == last else ACTIVATIONS[self.activation].function
            target = out if i == last else None
            x = layer_product(self.device, x, weight, bias, function, target)
        return x

    def check_inputs(self, x: Any) -> None:
        """Raises unless `x` is a batch of inputs as `forward` takes them."""
        self.check_array("x", x, self.sizes[0])

    def check_array(self, name: str, x: Any, width: int) -> None:
        """Raises unless `x` has so many columns, and the network's dtype and device."""
        if not self.device.owns(x):
            raise DeviceMismatchError(
                f"{name} is {type(x).__module__}.{type(x).__name__}, the network lives on "
                f"{self.device.name}; move it with portable.asarray(x, device={self.device.name!r})"
            )
        if dtype(x.dtype) is not self.dtype:
            raise DTypeError(
                f"{name} is {dtype(x.dtype).name}, the network {self.dtype.name}; convert one"
            )
        if x.ndim != 2 or x.shape[1] != width:
            raise ShapeError(f"{name} has shape {tuple(x.shape)}; {self!r} takes (n, {width})")

    # -- parameters ---------------------------------------------------------------------------

    def layers(self) -> list[tuple[Any, Any]]:
        """Weights (outputs, inputs) and biases (outputs,) of each layer; not copies."""
        return list(self._layers)

    def parameters(self) -> list[Any]:
        """Weights and biases of each layer in turn; not copies."""
        return [part for layer in self._layers for part in layer]

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of the parameters on the host, named and shaped as in ``torch.nn.Sequential``."""
        host = self.device.to_numpy(self.vector)
        return {
            name: host[start : start + int(np.prod(shape))].reshape(shape)
            for name, start, shape in self.layout.parts()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over parameters named and shaped as `state_dict` gives them.

        Parameters
        ----------
        state : mapping of str to array
            NumPy arrays, arrays of any device, or PyTorch's tensors; rounded to the dtype.

        Raises
        ------
        ShapeError
            For missing or unknown names and other shapes; the network is then unchanged.

        Warns
        -----
        UserWarning
            If a parameter is not finite once it is rounded.
        """
        wanted = {name: shape for name, _, shape in self.layout.parts()}
        if set(state) != set(wanted):
            missing, unknown = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
            raise ShapeError(
                f"a state for {self!r} has the names {', '.join(wanted)}; missing: "
                f"{', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}"
            )
        if not np.isfinite(self._take(state)).all():
            warnings.warn(
                f"a state for {self!r} holds NaN, infinities or numbers beyond {self.dtype.name}",
                stacklevel=2,
            )

    def _take(self, state: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Takes over parameters of the right names; the vector of all, on the host."""
        vector = np.zeros(self.layout.length, self.dtype.numpy)
        for name, start, shape in self.layout.parts():
            part = _on_host(state[name])
            if part.shape != shape:
                raise ShapeError(f"{name} has shape {part.shape}, {self!r} needs {shape}")
            with np.errstate(over="ignore"):
                vector[start : start + part.size] = part.ravel()
        self.vector[...] = self.device.from_numpy(vector)
        return vector

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Writes the parameters in the safetensors format, sizes and activation as its metadata.

        A file of that name is replaced only once the new one is complete.

        Parameters
        ----------
        path : path
        metadata : mapping of str to str, optional
            What else to keep in the file.
        """
        sizes = ",".join(map(str, self.sizes))
        own = {"sizes": sizes, "activation": self.activation}
        files.write(path, self.state_dict(), {**(metadata or {}), **own})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str | Device | None = None,
        check_finite: bool = True,
    ) -> MLP:
        """A network that was saved, on a device of choice.

        Parameters
        ----------
        path : path
        device : str or Device, optional
            Where it is to live; None: the device in use.
        check_finite : bool
            Whether to refuse parameters that are NaN or infinite.

        Raises
        ------
        OSError
            If the file cannot be read.
        ModelFileError
            If it is damaged or holds something else, before memory is taken for what it says to
            hold.
        """
        state, sizes, activation = files.read(path, check_finite=check_finite)
        kind = next(iter(state.values())).dtype
        with files.blamed(path):
            model = cls(sizes, activation=activation, dtype=kind, device=device)
            model._take(state)
        return model


def _known(what: str, given: object, table: Mapping[str, Any]) -> str:
    if not isinstance(given, str) or given not in table:
        raise ValueError(f"{what}={given!r}; there are {', '.join(table)}")
    return given


def _checked_dtype(given: Any, device: Device) -> DType:
    kind = dtype(given)
    if kind not in _DTYPES:
        names = ", ".join(k.name for k in _DTYPES)
        raise DTypeError(f"networks are of {names}, not {kind.name}")
    if kind is kl.f64 and not device.capabilities.float64:
        raise UnsupportedError(f"{device.name} lacks double precision; use float32")
    return kind


def _on_host(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ndarray):
        return x
    # PyTorch's parameters refuse DLPack until they are detached from their gradients.
    return namespace.to_numpy(x.detach() if hasattr(x, "detach") else x)
