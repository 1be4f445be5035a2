"""Functions of Portable's inside other libraries' differentiation: PyTorch's and JAX's.

A function takes arrays and gives a new one, by kernels and operations that a `Tape` takes down; the
library differentiates through it as through one of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from portable.errors import UnsupportedError
from portable.gradients.tape import Tape


def for_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Portable's as one that PyTorch differentiates (``torch.autograd.Function``).

    Parameters
    ----------
    function : callable
        Takes tensors and other things by position, launches kernels and calls operations with them
        and tensors that it makes (``torch.empty_like(x)``), and gives a new tensor. Whatever else
        of PyTorch's it calls is constant to the gradient.

    Returns
    -------
    callable
        Takes tensors, with ``requires_grad`` as well, where they live. The gradient of its
        gradient (``create_graph=True`` and another way back) is refused.

    Raises
    ------
    ModuleNotFoundError
        Where PyTorch is not installed.

    Examples
    --------
    >>> @portable.gradients.for_torch  # doctest: +SKIP
    ... def squares(x):
    ...     y = torch.empty_like(x)
    ...     square[x.numel()](x, y)
    ...     return y
    """
    import torch  # type: ignore[import-not-found,unused-ignore]

    class Once(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
        """A gradient, which depends on arrays in a way that has no gradient here."""

        @staticmethod
        def forward(ctx: Any, gradient: Any, *inputs: Any) -> Any:
            """The gradient."""
            return gradient.view_as(gradient)

        @staticmethod
        def backward(ctx: Any, *seeds: Any) -> Any:
            """Refuses."""
            raise UnsupportedError(
                f"{function.__name__} has no gradient of a gradient here: write its first gradient "
                "as a function of its own, by portable.gradients.for_torch of the adjoint"
            )

    class Differentiated(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
        """The function, and its tape backwards."""

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            """Runs it on a tape."""
            given = [x.detach() if isinstance(x, torch.Tensor) else x for x in args]
            tape = Tape()
            with torch.no_grad(), tape:
                result = function(*given)
            ctx.tape, ctx.given, ctx.result = tape, given, result.detach()
            ctx.inputs = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
            return result

        @staticmethod
        def backward(ctx: Any, *seeds: Any) -> Any:
            """Goes back through the tape."""
            asked = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
            sources = [ctx.given[i] for i in asked]
            with torch.no_grad():  # the result, which the tape holds, wants gradients by now
                slopes = ctx.tape.gradient(ctx.result, sources, seed=seeds[0].contiguous())
            out: list[Any] = [None] * len(ctx.given)
            for i, gradient in zip(asked, slopes, strict=True):
                out[i] = torch.as_tensor(gradient, device=ctx.given[i].device)
                if torch.is_grad_enabled():  # create_graph=True
                    out[i] = Once.apply(out[i], *seeds, *ctx.inputs)
            return tuple(out)

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        return Differentiated.apply(*args)

    return called


def for_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Portable's as one that JAX differentiates (``jax.custom_vjp``), traced or not.

    It runs on the host's arrays by ``jax.pure_callback``, on the device that Portable uses for
    these; the way back runs it again on a tape.

    Parameters
    ----------
    function : callable
        Takes NumPy arrays, does as for `for_torch` (``numpy.empty_like(x)``), and gives a new array
        of the shape and dtype of its first argument.

    Returns
    -------
    callable
        Takes JAX's arrays.

    Raises
    ------
    ModuleNotFoundError
        Where JAX is not installed.
    """
    import jax  # type: ignore[import-not-found,unused-ignore]

    def like(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def run(*args: Any) -> Any:
        return function(*[np.array(x) for x in args])

    def run_back(seed: Any, *args: Any) -> Any:
        given = [np.array(x) for x in args]
        with Tape() as tape:
            result = function(*given)
        return tape.gradient(result, tuple(given), seed=np.array(seed))

    def called(*args: Any) -> Any:
        return jax.pure_callback(run, like(args[0]), *args)

    def back(args: Any, seed: Any) -> Any:
        return jax.pure_callback(run_back, tuple(map(like, args)), seed, *args)

    made = jax.custom_vjp(called)
    made.defvjp(lambda *args: (called(*args), args), back)

    @functools.wraps(function)
    def taking(*args: Any) -> Any:
        return made(*args)

    return taking
