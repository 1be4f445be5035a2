"""What all networks have in common: parameters in one vector, on one device."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Self, TypeVar, cast

import numpy as np

from portable import lang as kl
from portable import namespace, registry
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DeviceMismatchError, DTypeError, ShapeError, UnsupportedError
from portable.interchange.host_arrays import tell_of_copies
from portable.interchange.libraries import (
    prepares_for_other_libraries,
    runs_where_it_lives,
    takes_other_libraries,
)
from portable.linalg.base.operands import require_apart
from portable.nn import files
from portable.nn.layers.layer import Layer, Shape, output_shapes
from portable.nn.layout import (
    INITIAL,
    Layout,
    computing_on,
    first_buffers,
    initial_vector,
    layout_of,
)
from portable.nn.stages import Build, ForwardPass, Stage, stages_of
from portable.typing import ArrayT

_MOST_SHAPES: Final = 64
_COUNTS: Final = ".num_batches_tracked"
"""Of PyTorch's normalizations, which momentum makes no use of."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A network as a file describes it.

    Attributes
    ----------
    layers : sequence of Layer
    whole : str
        What it is called in messages.
    dtype : str or None
        None: that of the parameters.
    make : callable
        Makes it, given ``dtype=`` and ``device=``.
    """

    layers: Sequence[Layer]
    whole: str
    dtype: str | None
    make: Callable[..., Any]


class Network(ABC):
    """Layers with their parameters on a device.

    Parameters
    ----------
    layers : sequence of Layer
    dtype : dtype
    device : str or Device, optional
        Where it lives; None: the device in use.
    init : {"he", "xavier", "uniform"}
        How far weights reach at first.
    seed : int
        Of the generator that draws them.

    Attributes
    ----------
    layers : tuple of Layer
        From the inputs to the outputs.
    device : Device
        Where it lives.
    dtype : DType
        Of parameters, inputs and outputs.
    layout : Layout
        Where parameters lie in `vector`.
    vector : array
        All parameters.
    buffers : array
        All that training estimates beside them, such as running means; of the type that is
        computed in.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        dtype: Any,
        device: str | Device | None,
        init: str,
        seed: int,
    ) -> None:
        self.layers: Final = tuple(layers)
        self.device: Final = registry.device(device)
        self.dtype: Final = _checked_dtype(dtype, self.layers, self.device)
        self.layout: Final = layout_of(self.layers)
        drawn = initial_vector(self.layers, known("init", init, INITIAL), seed)
        self.vector: Final = self.device.from_numpy(drawn.astype(self.dtype.numpy))
        self._parts: Final = self.layout.views(self.device.namespace(), self.vector)
        self._kept: Final = layout_of(self.layers, lambda layer: layer.buffers())
        first = first_buffers(self.layers, self._kept).astype(self.dtype.register.numpy)
        self.buffers: Final = self.device.from_numpy(first)
        self._kept_parts: Final = self._kept.views(self.device.namespace(), self.buffers)
        self._stages: Final[dict[tuple[Shape, bool], list[Stage]]] = {}

    @abstractmethod
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What makes a network of the same layers and dtype: by position, and by name."""

    def empty_copy(self, device: Device) -> Self:
        """A network of the same layers and dtype on a device, with parameters of its own."""
        args, options = self.arguments()
        made: Self = cast(Any, type(self))(*args, **options, device=device)
        return made

    # -- forward ------------------------------------------------------------------------------

    def __call__(self, x: ArrayT, *, out: ArrayT | None = None) -> ArrayT:
        """The outputs for a batch of inputs; see `forward`."""
        return self.forward(x, out=out)

    @takes_other_libraries
    @runs_where_it_lives
    def forward(self, x: ArrayT, *, out: ArrayT | None = None) -> ArrayT:
        """The outputs for a batch of inputs.

        Parameters
        ----------
        x : array, shape (n, ...)
            n samples of the network's dtype, on its device or NumPy's; any strides.
        out : array, shape (n, ...), optional
            Where to put the outputs.

        Returns
        -------
        array, shape (n, ...)
            `out`, or a new array; NumPy's for NumPy's, which are copied to the device and back.

        Raises
        ------
        ShapeError
            For samples of a shape that a layer does not take; it is named.
        DTypeError, DeviceMismatchError
            For arrays of another dtype or device.
        """
        shape = self.check_inputs(x)
        if out is not None:
            self._check_outputs(x, out, shape)
        count = x.shape[0]
        with computing_on(self.device):
            target = self.device.empty((count, *shape), self.dtype) if out is None else out
            if count > 0:
                self._forward(x, target)
        return target

    @prepares_for_other_libraries
    def prepare(self, x: Any, *, out: Any) -> Callable[[], object]:
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
        if isinstance(x, np.ndarray) and isinstance(out, np.ndarray) and not self._on_host():
            return self._prepare_copied(x, out)
        self._check_outputs(x, out, self.check_inputs(x))
        if x.shape[0] == 0:
            return lambda: None
        with computing_on(self.device):
            return self._prepare(x, out)

    def _prepare_copied(self, x: Any, out: Any) -> Callable[[], None]:
        """A pass of NumPy's arrays, which are copied there and back each time."""
        tell_of_copies(self.device)
        there = self.device.from_numpy(x)
        results = self.device.empty(tuple(out.shape), dtype(out.dtype))
        ready = self.prepare(there, out=results)

        def again() -> None:
            there[...] = self.device.from_numpy(x)
            ready()
            out[...] = self.device.to_numpy(results)

        return again

    def _on_host(self) -> bool:
        return namespace.takes_numpys(self.device)

    def _forward(self, x: Any, out: Any) -> None:
        """Enqueues a pass of arrays that were checked."""
        self._pass(x)(x, out)

    def _prepare(self, x: Any, out: Any) -> Callable[[], object]:
        """Likewise, for later."""
        ready = self._pass(x)

        def again() -> None:
            with computing_on(self.device):
                ready(x, out)

        return self.device.replay(again)

    def _pass(self, x: Any) -> ForwardPass:
        stages = self.stages(tuple(x.shape[1:]))
        return ForwardPass(self.device, self.dtype, stages, int(x.shape[0]))

    def stages(self, shape: Shape, *, training: bool = False) -> list[Stage]:
        """Its layers at work on samples of this shape.

        Parameters
        ----------
        shape : tuple of int
        training : bool
            Whether they are gone back through.

        Raises
        ------
        ShapeError
            If a layer does not take what comes to it.
        """
        key = shape, training
        if key not in self._stages:
            if len(self._stages) >= _MOST_SHAPES:
                self._stages.clear()
            build = Build(self.device, self.dtype, training)
            self._stages[key] = stages_of(build, self.layers, self._parts, self._kept_parts, shape)
        return self._stages[key]

    def output_shape(self, shape: Shape) -> Shape:
        """The shape of the outputs for a sample of this shape.

        Raises
        ------
        ShapeError
            If a layer does not take what comes to it; it is named.
        """
        return output_shapes(self.layers, shape)[-1]

    def largest_sample(self, shape: Shape) -> int:
        """The most numbers that a sample of this shape has anywhere in the network."""
        return max(prod(between) for between in (shape, *output_shapes(self.layers, shape)))

    # -- checks -------------------------------------------------------------------------------

    def check_inputs(self, x: Any, name: str = "x") -> Shape:
        """The shape of the outputs for one of the samples in `x`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            Unless `x` is a batch of inputs as `forward` takes them.
        """
        self.check_owned(name, x)
        if x.ndim == 0:
            raise ShapeError(f"{name} is a single number; {self!r} takes (n, ...)")
        return self.output_shape(tuple(x.shape[1:]))

    def check_owned(self, name: str, x: Any) -> None:
        """Raises unless `x` has the network's dtype and device."""
        self.check_place(name, x)
        if dtype(x.dtype) is not self.dtype:
            raise DTypeError(
                f"{name} is {dtype(x.dtype).name}, the network {self.dtype.name}; convert one"
            )

    def check_place(self, name: str, x: Any) -> None:
        """Raises unless `x` is on the network's device."""
        if not self.device.owns(x):
            raise DeviceMismatchError(
                f"{name} is {type(x).__module__}.{type(x).__name__}, the network lives on "
                f"{self.device.name}; move it with portable.asarray(x, device={self.device.name!r})"
            )

    def _check_outputs(self, x: Any, out: Any, shape: Shape) -> None:
        self.check_owned("out", out)
        if tuple(out.shape[1:]) != shape or out.ndim == 0:
            raise ShapeError(
                f"out has shape {tuple(out.shape)}; {self!r} gives {('n', *shape)} for this x"
            )
        if out.shape[0] != x.shape[0]:
            raise ShapeError(f"out has {out.shape[0]} rows, x {x.shape[0]}")
        require_apart("forward", self.device, out, {"x": x})

    # -- parameters ---------------------------------------------------------------------------

    def parameters(self) -> list[Any]:
        """Weights and biases of each layer in turn; not copies."""
        return [part for layer in self._parts for part in layer]

    def copy(self, device: str | Device | None = None) -> Self:
        """A network with the same parameters.

        Parameters
        ----------
        device : str or Device, optional
            Where it is to live; None: beside this one.
        """
        there = self.device if device is None else registry.device(device)
        return _filled(self.empty_copy(there), *self._held())

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any, /) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        args, options = self.arguments()
        return _remade, (type(self), args, {**options, "device": self.device}, *self._held())

    def _held(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Parameters and buffers, as they are on the host."""
        return self.device.to_numpy(self.vector), self.device.to_numpy(self.buffers)

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of parameters and buffers on the host, named and shaped as in PyTorch.

        ``torch.nn.Sequential`` of the same layers has these names; it counts batches as well.
        """
        state: dict[str, np.ndarray[Any, Any]] = {}
        for layout, vector in self._vectors():
            host = self.device.to_numpy(vector)
            for part in layout.parts():
                state[part.name] = host[part.start : part.stop].reshape(part.shape)
        return state

    def _vectors(self) -> tuple[tuple[Layout, Any], ...]:
        """Parameters and buffers: where they lie, and in what."""
        return (self.layout, self.vector), (self._kept, self.buffers)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over parameters named and shaped as `state_dict` gives them.

        Parameters
        ----------
        state : mapping of str to array
            NumPy arrays, arrays of any device, or PyTorch's tensors; rounded to the dtype.
            PyTorch's counts of batches (``num_batches_tracked``) are passed over.

        Raises
        ------
        ShapeError
            For missing or unknown names and other shapes; the network is then unchanged.

        Warns
        -----
        UserWarning
            If a parameter is not finite once it is rounded.
        """
        state = {name: x for name, x in state.items() if not name.endswith(_COUNTS)}
        wanted = {
            name: shape for layout, _ in self._vectors() for name, shape in layout.shapes().items()
        }
        if set(state) != set(wanted):
            missing, unknown = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
            raise ShapeError(
                f"a state for {self!r} has the names {', '.join(wanted)}; missing: "
                f"{', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}"
            )
        if not np.isfinite(self.take_state(state)).all():
            warnings.warn(
                f"a state for {self!r} holds NaN, infinities or numbers beyond {self.dtype.name}",
                stacklevel=2,
            )

    def take_state(self, state: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Takes over parameters of the right names; the vector of all, on the host."""
        taken = [self._taken(state, layout, vector) for layout, vector in self._vectors()]
        for (_, vector), given in zip(self._vectors(), taken, strict=True):
            if given.size:
                vector[...] = self.device.from_numpy(given)
        return np.concatenate([given.astype(np.float64) for given in taken])

    def _taken(self, state: Mapping[str, Any], layout: Layout, like: Any) -> np.ndarray[Any, Any]:
        """A state's arrays in one vector, of the type of another."""
        vector = np.zeros(layout.length, dtype(like.dtype).numpy)
        for part in layout.parts():
            given = _on_host(state[part.name])
            if given.shape != part.shape:
                raise ShapeError(
                    f"{part.name} has shape {given.shape}, {self!r} needs {part.shape}"
                )
            with np.errstate(over="ignore"):
                vector[part.start : part.stop] = given.ravel()
        return vector

    # -- files --------------------------------------------------------------------------------

    @abstractmethod
    def described(self) -> dict[str, str]:
        """What makes a network like this one again but for its parameters, as metadata."""

    @classmethod
    @abstractmethod
    def blueprint(cls, file: files.ModelFile) -> Blueprint:
        """What `described` gave, from a file.

        Raises
        ------
        ModelFileError
            If it says no such thing.
        """

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Writes the parameters in the safetensors format, and as its metadata what the network is.

        A file of that name is replaced only once the new one is complete.

        Parameters
        ----------
        path : path
        metadata : mapping of str to str, optional
            What else to keep in the file.
        """
        files.write(path, self.state_dict(), {**(metadata or {}), **self.described()})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str | Device | None = None,
        check_finite: bool = True,
    ) -> Self:
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
        with files.opened(path) as file:
            plan = cls.blueprint(file)
            state = files.read(file, plan.layers, plan.whole, check_finite=check_finite)
        with files.blamed(path):
            parameters = layout_of(plan.layers).shapes()
            kinds = {part.dtype.name for name, part in state.items() if name in parameters}
            kind = plan.dtype or next(iter(kinds))
            if kinds - {kind}:
                raise files.ModelFileError(f"it says {kind}, its parameters are others")
            model: Self = plan.make(dtype=kind, device=device)
            model.take_state(state)
        return model


_Made = TypeVar("_Made", bound=Network)


def _filled(made: _Made, vector: np.ndarray[Any, Any], buffers: np.ndarray[Any, Any]) -> _Made:
    """The same network with these parameters and buffers."""
    made.vector[...] = made.device.from_numpy(vector)
    made.buffers[...] = made.device.from_numpy(buffers)
    return made


def _remade(
    kind: type[_Made], args: tuple[Any, ...], options: dict[str, Any], *held: np.ndarray[Any, Any]
) -> _Made:
    """A network that was pickled."""
    return _filled(kind(*args, **options), *held)


def known(what: str, given: object, table: Mapping[str, Any]) -> str:
    """The name that was given, if the table has it.

    Parameters
    ----------
    what : str
        What is named, for the message.
    given : object
        The name.
    table : mapping
        By the names that there are.
    """
    if not isinstance(given, str) or given not in table:
        raise ValueError(f"{what}={given!r}; there are {', '.join(table)}")
    return given


def _checked_dtype(given: Any, layers: Sequence[Layer], device: Device) -> DType:
    kind = dtype(given)
    if kind not in Layer.dtypes:
        names = ", ".join(k.name for k in Layer.dtypes)
        raise DTypeError(f"networks are of {names}, not {kind.name}")
    for layer in layers:
        if kind not in layer.dtypes:
            names = ", ".join(k.name for k in layer.dtypes)
            raise DTypeError(f"{layer!r} is worked out in {names}, not in {kind.name}")
    if kind is kl.f64 and not device.capabilities.float64:
        raise UnsupportedError(f"{device.name} lacks double precision; use float32")
    return kind


def _on_host(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach"):  # PyTorch's parameters give nothing away while gradients hold them
        held = x.detach().cpu()
        return np.asarray(
            held.float() if held.element_size() == 2 else held
        )  # bfloat16 is not NumPy's
    return namespace.to_numpy(x)
