"""Products like earlier ones, launched with little more than a look at their operands.

A call of `gemm` checks its operands, looks a plan up and launches it: some 10 us of Python. A call
like a few before is found by its layouts, and the launch's own recogniser makes sure of the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from portable.lang.launch.launch import Familiar
from portable.linalg.products.launches import TileLaunch
from portable.linalg.products.packed import PackedAgain
from portable.linalg.products.plan import Plan
from portable.tune.table import recent_state, state

__all__ = [
    "Known",
    "key_of",
    "key_of_tensors",
    "known_of_tensors",
    "known_product",
    "seen_again",
]

_AFTER: Final = 4
"""Calls after which it pays to compile what recognises more of them."""

_MOST: Final = 4096
_C, _OUT = 4, 6


class Known(NamedTuple):
    """A product that was made a few times.

    Attributes
    ----------
    table : object
        The state of the tuned parameters at that time.
    make : callable
        Makes a result.
    familiar : Familiar or PackedAgain
        Recognises the arguments of its launch, or launches.
    constants : dict
        Of that launch.
    whole : bool
        Whether it takes factors as integers.
    launch : TileLaunch or None
        What is launched, where tensors may be launched likewise (`known_of_tensors`).
    """

    table: object
    make: Callable[[], Any]
    familiar: Familiar | PackedAgain
    constants: dict[str, Any]
    whole: bool
    launch: TileLaunch | None = None


_known: dict[Any, Known] = {}
_counts: dict[Any, int] = {}


def key_of(
    a: Any, b: Any, beta: float, c: Any, bias: Any, out: Any, options: tuple[Any, ...]
) -> Any:
    """What products alike have in common, as far as it is cheap to say; None where it is not.

    The rest of it is up to the recogniser.

    Parameters
    ----------
    a, b, beta, c, bias, out
        As `gemm` is given them.
    options : tuple
        What else it is given, hashable where it is right.
    """
    try:
        return (
            a.dtype, a.shape, a.strides, b.shape, b.strides,
            beta != 0, c is None, c is out, bias is None, out is None, options,
        )  # fmt: skip
    except AttributeError:  # no arrays at all, or of libraries that have no strides
        return None


def known_product(key: Any) -> Known | None:
    """What is known of products of a key, unless parameters were tuned since."""
    try:
        found = _known.get(key)
    except TypeError:  # options that are to be refused
        return None
    return found if found is not None and found.table is recent_state() else None


def seen_again(key: Any, plan: Plan, launch: TileLaunch, args: tuple[Any, ...]) -> None:
    """Counts a call that was right, and gets ready for more of them.

    Parameters
    ----------
    key : tuple
        Of its operands as they were given.
    plan : Plan
        Its plan.
    launch : TileLaunch
        The launch that was accepted.
    args : tuple
        Its arguments; those that the call was given, but perhaps for the result.
    """
    if len(_counts) >= _MOST:
        _counts.clear()
        _known.clear()
    count = _counts[key] = _counts.get(key, 0) + 1
    if count % _AFTER:
        return
    in_place = args[_C] is not None and args[_C] is args[_OUT]
    beside = frozenset({(_C, _OUT)}) if in_place else frozenset()
    familiar: Familiar | PackedAgain | None
    if launch.packing is None:
        familiar = launch.launcher.familiar(args, launch.constants, beside)
    else:
        familiar = PackedAgain.of(plan.device, launch.packing, args, launch.constants["ACC"])
    if familiar is not None:
        make = plan.device.maker(plan.shape, plan.result)
        whole = plan.result.is_integer
        plain = launch if launch.packing is None and not in_place else None
        _known[key] = Known(state(), make, familiar, launch.constants, whole, plain)


def known_of_tensors(
    a: Any, b: Any, given: tuple[Any, ...], key: Any, options: tuple[Any, ...]
) -> None:
    """Gets ready for products of tensors of a GPU like those that a known product was made of.

    Parameters
    ----------
    a, b : tensor
        The operands.
    given : tuple
        The arguments of the launch: tensors, the result among them.
    key : tuple or None
        By which the same product of arrays is known.
    options : tuple
        As of `key_of`.
    """
    known = None if key is None else known_product(key)
    if known is None or known.launch is None or known.whole:
        return
    own = key_of_tensors(a, b, given[_C + 1], options)
    familiar = known.launch.launcher.familiar(given, known.launch.constants)
    if familiar is not None:
        result = given[_OUT]
        empty, shape = sys.modules["torch"].empty, tuple(result.shape)
        make = partial(empty, shape, dtype=result.dtype, device=result.device)
        _known[own] = Known(state(), make, familiar, known.launch.constants, known.whole)


def key_of_tensors(a: Any, b: Any, bias: Any, options: tuple[Any, ...]) -> Any:
    """As `key_of`, for tensors that nothing but a bias is added to."""
    return a.dtype, a.shape, a.stride(), b.shape, b.stride(), bias is None, options
