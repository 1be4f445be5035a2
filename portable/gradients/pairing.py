"""Which argument is the gradient of which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portable.dtypes import DType
from portable.errors import LaunchError
from portable.gradients.adjoint.assemble import Gradient
from portable.gradients.adjoint.names import Names
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    LeafSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
    leaf_names,
    leaf_specs,
)
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array


def gradients_of(
    kernel: Kernel,
    names: Sequence[str],
    given: Sequence[ParameterSpec],
    gradients: Sequence[ParameterSpec],
) -> list[Gradient]:
    """The gradients that a launch of an adjoint is given, for the parameters of the kernel's IR.

    Parameters
    ----------
    kernel : Kernel
    names : sequence of str
        What its arguments are called.
    given : sequence of ParameterSpec
        Of its arguments.
    gradients : sequence of ParameterSpec
        One for each: alike, with arrays for arrays and for numbers, and None for what has none.

    Raises
    ------
    LaunchError
        Naming a gradient that does not fit.
    """
    fresh, out = Names(kernel), []
    parameters = iter(kernel.parameters)
    said = leaf_names(names, given)
    pairs = [p for x, y in zip(given, gradients, strict=True) for p in _pairs(x, y)]
    for name, (leaf, gradient) in zip(said, pairs, strict=True):
        if isinstance(leaf, StaticSpec):
            continue
        parameter = next(parameters)
        if isinstance(leaf, ScalarSpec) and leaf.kind == "complex":
            next(parameters)
            if gradient is not None:
                raise LaunchError(f"{name} is a complex number, which has no gradient: pass None")
        if gradient is not None:
            _check(name, leaf, gradient)
            label = fresh.fresh(f"d_{parameter.name}")
            out.append(Gradient(parameter.name, _array(label, gradient)))
    return out


def _pairs(
    given: ParameterSpec, gradient: ParameterSpec
) -> Iterator[tuple[LeafSpec, ArraySpec | None]]:
    """Each array, number and constant with its gradient."""
    if isinstance(gradient, StaticSpec) and gradient.value is None:
        yield from ((leaf, None) for leaf in leaf_specs((given,)))
    elif isinstance(given, CompositeSpec):
        if not isinstance(gradient, CompositeSpec) or len(gradient.items) != len(given.items):
            raise LaunchError(
                "the gradient of a tuple or struct is one with as many items, or None"
            )
        for x, y in zip(given.items, gradient.items, strict=True):
            yield from _pairs(x, y)
    elif isinstance(gradient, ArraySpec):
        yield given, gradient
    else:
        raise LaunchError(
            "a gradient is an array, of numbers too: of shape (1,); None stands for no gradient"
        )


def _check(name: str, leaf: LeafSpec, gradient: ArraySpec) -> None:
    """Refuses a gradient that does not fit."""
    if isinstance(leaf, StaticSpec) or not _has_gradient(leaf):
        raise LaunchError(f"{name} holds no real or complex numbers and has no gradient: pass None")
    ndim = len(gradient.strides)
    if isinstance(leaf, ArraySpec):
        dtype, expected = leaf.dtype, len(leaf.strides)
        expected += dtype.is_complex and not gradient.dtype.is_complex
        fits = ndim == expected
        wanted = f"{expected} dimensions"
    else:
        fits, wanted = ndim < 2, "0 or 1 dimensions"
    if not fits or not gradient.dtype.real.is_float:
        raise LaunchError(
            f"the gradient of {name} is an array of {gradient.dtype.name} of {ndim} dimensions; it "
            f"must be one of floating-point numbers of {wanted}"
        )


def _has_gradient(leaf: ArraySpec | ScalarSpec) -> bool:
    if isinstance(leaf, ArraySpec):
        return leaf.dtype.real.is_float
    return leaf.kind == "float" and (leaf.dtype is None or isinstance(leaf.dtype, DType))


def _array(name: str, spec: ArraySpec) -> Array:
    ndim = len(spec.strides)
    return Array(
        name, spec.dtype, "global", ndim, strides=spec.strides, aligned=spec.aligned, boxed=False
    )
