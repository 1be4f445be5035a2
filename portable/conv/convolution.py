"""Convolutions of images with filters, prepared or called."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, Literal, Unpack

import numpy as np

from portable import registry
from portable.backend import Device
from portable.conv.geometry import Geometry, geometry
from portable.conv.layouts import DTYPES, extents_nchw
from portable.conv.method import Epilogue
from portable.conv.route import Route, route
from portable.conv.settings import Options, Settings, settings
from portable.dtypes import DType, dtype
from portable.errors import DeviceMismatchError, DTypeError, LaunchError, ShapeError
from portable.interchange.libraries import (
    exchanged,
    is_other,
    prepares_for_other_libraries,
    runs_where_it_lives,
    takes_other_libraries,
)
from portable.lang.function import Function, settled
from portable.lang.launch.call_cache import CallTraits, cached_call
from portable.lang.launch.enqueued import enqueue_call, repeated
from portable.linalg.base.operands import common_dtype, require_apart
from portable.linalg.products.activation import activation_of
from portable.namespace import device_of_arrays, elsewhere
from portable.tune.table import recent_state, state
from portable.typing import ArrayT

_CALLS: Final = CallTraits(alike=((4, 5),), written=(3,), whole=True)


@takes_other_libraries
def conv2d(
    x: ArrayT,
    w: ArrayT,
    *,
    bias: ArrayT | None = None,
    scale: ArrayT | None = None,
    residual: ArrayT | None = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    out: ArrayT | None = None,
    workspace: ArrayT | None = None,
    **options: Unpack[Options],
) -> ArrayT:
    """The convolution of networks, a correlation of images with filters, on the images' device.

    ``out[n, k, y, z] = activation(scale[k] sum + bias[k] + residual[n, k, y, z])``, the sum over c,
    r, s of ``w[k, c, r, s] x[n, c, i, j]``, ``i = y stride + r dilation - padding``, `j` likewise.

    Parameters
    ----------
    x : array, shape (N, C, H, W), or (N, H, W, C) for "NHWC"
        ``float16``, ``bfloat16`` (NumPy's of ``ml_dtypes``), ``float32``, ``float64``; any strides.
    w : array, shape (K, C / groups, R, S)
        Filters, of the same dtype and device, in this order for both layouts.
    bias, scale : array, shape (K,), optional
    residual : array of the results' shape and layout, optional
        `scale` is multiplied with the filters, which rounds them, beforehand.
    activation : "relu" or function, optional
        A function of one number that kernels can call, applied before results are rounded.
    out : array, optional
        Where to put the results, of their shape; it may not overlap the operands.
    workspace : array, shape (n,), optional
        Contiguous, of the type of sums ("direct": of images) and `workspace_size` bytes or less.
    stride, dilation : int or (int, int)
        Vertically and horizontally; 1 if left out.
    padding : int, (int, int), ((int, int), (int, int)) or "same"
        Rows and columns of zeros around images, or before and behind them; 0 if left out. "same":
        for one result for each pixel, or each that a stride meets, the odd one behind.
    groups : int
        Parts of the channels, and as many of the filters, which see only each other; 1 if left out.
    layout : {"NCHW", "NHWC"}
        Order of the dimensions of images and results. Half precision is fastest with "NHWC".
    algorithm : str
        "auto" (if left out): as `portable tune conv` found, or a model. "direct": any shape.
        "winograd2" to "winograd6": F(m x m, r x r) of 3 x 3, up to m = 4 of 5 x 5 and m = 2 of 7 x
        7 taps, without strides. "vendor": PyTorch's.
    precision : {"usual", "full", "tf32"}
        "full" has elementwise bounds, without Winograd's method and matrix units for ``float32``;
        "tf32", of ``float32``, matrix units that cut factors to 11 bits.

    Returns
    -------
    array, shape (N, K, H', W') or (N, H', W', K)
        `out`, or a new array, within ``4 u (C / groups) R S`` of ``|w| * |x|``, u the roundoff, of
        ``float32`` for narrower sums; a `scale` adds ``2 u``, "tf32" 2^-10. Winograd's method (A.
        Lavin, S. Gray, CVPR 2016), which "auto" may take, has a few times that: see the chapter.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For operands that do not fit together, an `out` or a `workspace` that overlaps one.
    UnsupportedError, ValueError
        For an algorithm that cannot do the shape, and for other arguments out of range.

    Examples
    --------
    >>> import numpy as np
    >>> conv2d(np.ones((1, 2, 4, 4)), np.ones((3, 2, 3, 3)), padding=1)[0, 0, 0].tolist()
    [8.0, 12.0, 12.0, 8.0]
    """

    def work(*_: Any) -> Any:
        more: dict[str, Any] = {"bias": bias, "scale": scale, "workspace": workspace}
        plan = prepare(x.shape, w, activation=activation, **more, **options)
        return plan(x, residual=residual, out=out)

    if scale is not None:
        return work()  # type: ignore[no-any-return]
    function = None if activation is None else settled(activation)
    arrays, call_key = (x, w, bias, workspace, residual), (function, *options.items())
    return cached_call(_CALLS, arrays, out, call_key, (), recent_state(), work)  # type: ignore[no-any-return]


def prepare(
    x_shape: tuple[int, ...],
    w: Any,
    *,
    bias: Any = None,
    scale: Any = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    workspace: Any = None,
    **options: Unpack[Options],
) -> Convolution:
    """A convolution prepared for images of one shape: filters transformed, workspace allocated.

    Parameters
    ----------
    x_shape : tuple of int
        The images' shape.
    w : array, shape (K, C / groups, R, S)
        The filters, which are read now.
    bias : array, shape (K,), optional
        Read at each call.
    scale : array, shape (K,), optional
        Factors of the filters, read now.
    activation, workspace, **options
        As of `conv2d`. NumPy's arrays go to the device that was chosen, where there is one.

    Returns
    -------
    Convolution
        To be called with images, and with ``out=`` for no allocation at all.
    """
    given = [a for a in (w, bias, scale, workspace) if a is not None]
    if any(map(is_other, given)):
        named = {"bias": bias, "scale": scale, "workspace": workspace, "activation": activation}
        return exchanged(prepare, (x_shape, w), named | dict(options))
    away = elsewhere() if all(isinstance(a, np.ndarray) for a in given) else None
    if away is not None:
        sent = [None if a is None else away.from_numpy(a) for a in (w, bias, scale, workspace)]
        vectors = {"bias": sent[1], "scale": sent[2], "workspace": sent[3]}
        made = prepare(x_shape, sent[0], activation=activation, **vectors, **options)
        made.reads_bias_of(bias)
        return made
    device = device_of_arrays(*given)
    kind = common_dtype("conv2d", DTYPES, w=w, bias=bias, scale=scale)
    way = _route(device, tuple(x_shape), tuple(w.shape), settings(**options), kind)
    filters = way.method.shape.filters
    for name, vector in (("bias", bias), ("scale", scale)):
        if vector is not None and tuple(vector.shape) != (filters,):
            shape = tuple(vector.shape)
            raise ShapeError(f"a {name} of shape {shape}; {filters} filters take as many")
    if scale is not None:
        w = w * device.namespace().reshape(scale, (filters, 1, 1, 1))
    return Convolution(way, w, bias, activation_of(activation, "conv2d"), workspace)


def workspace_size(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    *,
    dtype: Any = "float32",
    device: str | Device | None = None,
    **options: Unpack[Options],
) -> int:
    """Bytes of workspace that `conv2d` would ask for; 0 where it needs none.

    Parameters
    ----------
    x_shape, w_shape : tuple of int
        Shapes of images and filters.
    dtype : dtype or str
        Of all arrays.
    device : Device or str, optional
        Where they are to be; the one in use if it is left out.
    **options
        As of `conv2d`.
    """
    where, kind = registry.device(device), _kind(dtype)
    way = _route(where, tuple(x_shape), tuple(w_shape), settings(**options), kind)
    if 0 in way.result_shape:
        return 0
    method = way.method
    return method.workspace()[0] * method.workspace_kind.itemsize


def _kind(given: Any) -> DType:
    kind = dtype(given)
    if kind not in DTYPES:
        names = ", ".join(known.name for known in DTYPES)
        raise DTypeError(f"conv2d takes {names}, not {kind.name}")
    return kind


@lru_cache(maxsize=1024)
def _shape_of(x: tuple[int, ...], w: tuple[int, ...], given: Settings) -> Geometry:
    images = extents_nchw(x, given.layout)
    return geometry(images, w, given.stride, given.padding, given.dilation, given.groups)


def _route(
    device: Device, x: tuple[int, ...], w: tuple[int, ...], given: Settings, kind: DType
) -> Route:
    shape = _shape_of(x, w, given)
    layout, asked, precision = given.layout, given.algorithm, given.precision
    return route(device, shape, kind, layout, asked, state(), precision=precision)


class Convolution:
    """A convolution of images of one shape with fixed filters; made by `prepare`.

    Attributes
    ----------
    algorithm : str
        What was chosen.
    device : Device
        Where it runs.
    """

    def __init__(
        self, route: Route, w: Any, bias: Any, activation: Function, workspace: Any
    ) -> None:
        self.device: Final = route.method.device
        self.algorithm: Final = route.algorithm
        self._route: Final = route
        self._bias: Final = bias
        self._activation: Final = activation
        self._filters: Any = w
        self._workspace: Any = None
        if 0 not in route.result_shape:
            self._filters = route.method.filters(w)
            self._workspace = _workspace(route, workspace)
        self._host_bias: Any = None
        self._given_workspace: Any = None
        if workspace is not None and self._workspace is workspace:
            self._given_workspace = workspace
            self._keep_apart({"w": w, "bias": bias})

    def reads_bias_of(self, bias: np.ndarray[Any, Any] | None) -> None:
        """Takes the bias at each call from the host."""
        self._host_bias = bias

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the results."""
        return self._route.result_shape

    def __repr__(self) -> str:
        shape = self._route.method.shape
        return (
            f"<convolution of {shape.channels} x {shape.height} x {shape.width} with "
            f"{shape.filters} filters by {self.algorithm} on {self.device.name}>"
        )

    @takes_other_libraries
    @runs_where_it_lives
    def __call__(
        self, x: ArrayT, *, residual: ArrayT | None = None, out: ArrayT | None = None
    ) -> ArrayT:
        """The results for images like those it was prepared for.

        Parameters
        ----------
        x : array
            The images.
        residual : array of `result_shape`, optional
            Added to the results; it may be `out`.
        out : array of `result_shape`, optional
            Where to put them.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            For other images, an `out` of another shape or one that overlaps an operand, or images
            that overlap the workspace.
        """
        self._check(x, residual, out)
        return self._made(x, residual, out)  # type: ignore[no-any-return]

    @prepares_for_other_libraries
    def prepare(self, x: Any, *, out: Any, residual: Any = None) -> Callable[[], None]:
        """The results of the same arrays again and again, at the cost of a launch a kernel.

        Parameters
        ----------
        x, out, residual : array
            As of a call, on the convolution's device; they must stay where they are, and what they
            hold is read at each call. Results are made once at once.

        Returns
        -------
        callable
            Without arguments; it puts the results into `out`.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            As of a call.
        """
        self._check(x, residual, out)
        return repeated(self.device, partial(self._made, x, residual, out))

    def _made(self, x: Any, residual: Any, out: Any) -> Any:
        route, device = self._route, self.device
        result = device.empty(route.result_shape, route.method.kind) if out is None else out
        if 0 in route.result_shape:
            return result
        if self._host_bias is not None:
            enqueue_call(self._send_bias)
        route.method.run(
            x,
            self._filters,
            result,
            Epilogue(self._bias, self._activation, residual),
            self._workspace,
        )
        return result

    def _send_bias(self) -> None:
        self._bias[...] = self.device.from_numpy(self._host_bias)

    def _check(self, x: Any, residual: Any, out: Any) -> None:
        route = self._route
        expected = route.image_shape
        if tuple(x.shape) != expected:
            raise ShapeError(f"images of shape {tuple(x.shape)}; prepared for {expected}")
        if (given := dtype(x.dtype)) is not (kind := route.method.kind):
            raise DTypeError(
                f"conv2d of images of {given.name} by filters of {kind.name}; convert one of them"
            )
        common_dtype("conv2d", (route.method.kind,), x=x, residual=residual, out=out)
        if residual is not None and tuple(residual.shape) != route.result_shape:
            raise ShapeError(
                f"a residual of shape {tuple(residual.shape)}; the results have "
                f"{route.result_shape}"
            )
        owner = device_of_arrays(x, *(a for a in (residual, out) if a is not None))
        if owner is not self.device:
            raise DeviceMismatchError(
                f"images on {owner.name}; the filters are on {self.device.name}"
            )
        if self._given_workspace is not None:
            self._keep_apart({"x": x, "residual": residual})
        if out is None:
            return
        if tuple(out.shape) != self._route.result_shape:
            raise ShapeError(
                f"out has shape {tuple(out.shape)}, the results {self._route.result_shape}"
            )
        operands = {"x": x, "w": self._filters, "bias": self._bias, "workspace": self._workspace}
        require_apart("conv2d", self.device, out, operands, ("residual", residual))

    def _keep_apart(self, operands: dict[str, Any]) -> None:
        """Refuses a workspace that would overwrite what is read."""
        require_apart("conv2d", self.device, self._given_workspace, operands, what="workspace")


def _workspace(route: Route, given: Any) -> Any:
    """A new workspace, or the given one if it will do; None where none is needed."""
    kind = route.method.workspace_kind
    wanted, least = route.method.workspace()
    if given is None or not wanted:
        return route.new_workspace()
    if dtype(given.dtype) is not kind or given.ndim != 1:
        raise DTypeError(
            f"a workspace of {given.ndim} dimensions in {given.dtype}; it is a vector of "
            f"{kind.name}"
        )
    if given.shape[0] < least:
        size = kind.itemsize
        raise ShapeError(
            f"a workspace of {given.shape[0] * size} bytes; the fewest that are of use here are "
            f"{least * size}, the best {wanted * size}"
        )
    view = route.method.device.view(given)
    if view.strides != (kind.itemsize,) or not view.writable:
        wrong = "has steps" if view.writable else "is read-only"
        raise LaunchError(f"conv2d: workspace {wrong}; pass a contiguous array that is writable")
    return given
