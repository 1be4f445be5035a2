"""Products like earlier ones, launched with little more than a look at their operands.

A call of `gemm` checks its operands, looks a plan up and launches it: some 10 us of Python. A call
like a few before is found by its layouts, and the launch's own recogniser makes sure of the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import OutOfMemoryError
from portable.lang.function import Function
from portable.lang.launch.launch import Familiar
from portable.linalg.base.operands import views_overlap
from portable.linalg.products.launches import TileLaunch, in_order
from portable.linalg.products.packed import PackedAgain
from portable.linalg.products.plan import Plan
from portable.linalg.products.rows import COPYING, Rows, copy_launcher, room_for
from portable.tune.table import recent_state, state

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
    familiar : Familiar, PackedAgain or StepsAgain
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
    familiar: Familiar | PackedAgain | StepsAgain
    constants: dict[str, Any]
    whole: bool
    launch: TileLaunch | None = None


class Lying(NamedTuple):
    """The operands as a call was given them, and how they had to lie."""

    a: Any
    b: Any
    wants: Rows | None


class _Copy(NamedTuple):
    """How an operand is copied into rows: across, or as the transpose that it is a view of."""

    kind: DType
    across: bool
    turned: bool
    familiar: Familiar

    @classmethod
    def of(cls, x: Any, rows: Any, across: bool, turned: bool) -> _Copy | None:
        """From an operand and its copy; None where only calls can launch it."""
        if turned:
            x, rows = x.swapaxes(-1, -2), rows.swapaxes(-1, -2)
        familiar = copy_launcher(rows).familiar((x, rows), COPYING)
        return familiar and cls(dtype(x.dtype), across, turned, familiar)

    def made(self, device: Device, x: Any) -> Any:
        """A copy of an operand like that one; None where it is not."""
        x = x.swapaxes(-1, -2) if self.turned else x
        rows = room_for(device, self.kind, tuple(x.shape), self.across)
        if not self.familiar.launched((x, rows), COPYING):
            return None
        return rows.swapaxes(-1, -2) if self.turned else rows


class StepsAgain(NamedTuple):
    """What recognises and launches products like an earlier one that took several launches.

    Operands may be copied before, and parts of sums added up behind.

    Attributes
    ----------
    device : Device
        Where.
    a, b : copies or None
        Of the operands.
    launch, activation
        As of `in_order`.
    steps : tuple of (Familiar, dict)
        Its launches, and their constants.
    """

    device: Device
    a: _Copy | None
    b: _Copy | None
    launch: TileLaunch
    activation: Function
    steps: tuple[tuple[Familiar, dict[str, Any]], ...]

    @classmethod
    def of(
        cls, plan: Plan, launch: TileLaunch, args: tuple[Any, ...], given: Lying
    ) -> StepsAgain | None:
        """From the arguments of the product; None where only calls can make it."""
        a = b = None
        if args[1] is not given.a or args[2] is not given.b:
            assert given.wants is not None
            across, along_sum = given.wants.across, given.wants.along_sum
            a = None if args[1] is given.a else _Copy.of(given.a, args[1], across, False)
            b = None if args[2] is given.b else _Copy.of(given.b, args[2], False, along_sum)
        if (args[1] is not given.a and a is None) or (args[2] is not given.b and b is None):
            return None
        known = []
        for step, arguments in in_order(launch, args, plan.activation, plan.device.empty):
            familiar = step.launcher.familiar(arguments, step.constants, _beside(arguments))
            if familiar is None:
                return None
            known.append((familiar, step.constants))
        return cls(plan.device, a, b, launch, plan.activation, tuple(known))

    def launched(self, args: tuple[Any, ...], constants: dict[str, Any]) -> bool:
        """Makes a product of arguments alike; False, where a call has to begin anew, else."""
        device, (alpha, a, b, *rest) = self.device, args
        if not all(x is None or device.owns(x) for x in (a, b, *rest[1:])):
            return False
        target = device.view(rest[-1])
        if any(views_overlap(device.view(x), target) for x in (a, b)):
            return False
        try:
            a = a if self.a is None else self.a.made(device, a)
            b = b if self.b is None else self.b.made(device, b)
            if a is None or b is None:
                return False
            order = in_order(self.launch, (alpha, a, b, *rest), self.activation, device.empty)
            known = zip(self.steps, order, strict=True)
            return all(step[0].launched(arguments, step[1]) for step, (_, arguments) in known)
        except OutOfMemoryError:
            return False


def _beside(args: tuple[Any, ...]) -> frozenset[tuple[int, int]]:
    """Where the last argument, which is the result, stands among the others: as `c`."""
    last = len(args) - 1
    return frozenset((i, last) for i, x in enumerate(args[:last]) if x is args[last])


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
        product = _known.get(key)
    except TypeError:  # options that are to be refused
        return None
    return product if product is not None and product.table is recent_state() else None


def seen_again(
    key: Any, plan: Plan, launch: TileLaunch, args: tuple[Any, ...], given: Lying
) -> None:
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
        Its arguments; those that the call was given, but perhaps for operands and the result.
    given : Lying
        The operands.
    """
    if len(_counts) >= _MOST:
        _counts.clear()
        _known.clear()
    count = _counts[key] = _counts.get(key, 0) + 1
    if count % _AFTER:
        return
    copied = args[1] is not given.a or args[2] is not given.b
    familiar: Familiar | PackedAgain | StepsAgain | None = None
    if launch.alone and not copied:
        familiar = launch.launcher.familiar(args, launch.constants, _beside(args))
    elif launch.packing is None:
        familiar = StepsAgain.of(plan, launch, args, given)
    elif not copied:
        familiar = PackedAgain.of(plan.device, launch.packing, args, launch.constants["ACC"])
    if familiar is not None:
        make = plan.device.maker(plan.shape, plan.result)
        whole = plan.result.is_integer
        plain = launch if launch.alone and not copied and not _beside(args) else None
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
    if known is None or known.launch is None:
        return
    if known.whole:
        given = (int(given[0]), *given[1:3], int(given[3]), *given[4:])
    key_here = key_of_tensors(a, b, given[_C + 1], options)
    familiar = known.launch.launcher.familiar(given, known.launch.constants)
    if familiar is not None:
        result = given[_OUT]
        empty, shape = sys.modules["torch"].empty, tuple(result.shape)
        make = partial(empty, shape, dtype=result.dtype, device=result.device)
        _known[key_here] = Known(state(), make, familiar, known.launch.constants, known.whole)


def key_of_tensors(a: Any, b: Any, bias: Any, options: tuple[Any, ...]) -> Any:
    """As `key_of`, for tensors that nothing but a bias is added to."""
    return a.dtype, a.shape, a.stride(), b.shape, b.stride(), bias is None, options
