"""Which argument is the gradient of which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portable.gradients.adjoint.assemble import Gradient
from portable.gradients.adjoint.names import Names
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    LeafSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
    leaf_specs,
)
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array


def gradients_of(
    kernel: Kernel,
    given: Sequence[ParameterSpec],
    gradients: Sequence[ParameterSpec],
) -> list[Gradient]:
    """The gradients that a launch of an adjoint is given, for the parameters of the kernel's IR.

    Parameters
    ----------
    kernel : Kernel
    given : sequence of ParameterSpec
        Of its arguments.
    gradients : sequence of ParameterSpec
        One for each: alike, with arrays for arrays and for numbers, and None for what has none, as
        `portable.gradients.arguments.check_gradients` found.
    """
    fresh, out = Names(kernel), []
    parameters = iter(kernel.parameters)
    for leaf, gradient in (p for x, y in zip(given, gradients, strict=True) for p in _pairs(x, y)):
        if isinstance(leaf, StaticSpec):
            continue
        parameter = next(parameters)
        if isinstance(leaf, ScalarSpec) and leaf.kind == "complex":
            next(parameters)
        if gradient is not None:
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
        assert isinstance(gradient, CompositeSpec)
        for x, y in zip(given.items, gradient.items, strict=True):
            yield from _pairs(x, y)
    else:
        assert isinstance(gradient, ArraySpec)
        yield given, gradient


def _array(name: str, spec: ArraySpec) -> Array:
    ndim = len(spec.strides)
    return Array(
        name, spec.dtype, "global", ndim, strides=spec.strides, aligned=spec.aligned, boxed=False
    )
