"""What the operators of a language that is printed mean by themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Semantics:
    """How far a language's own operators do what the IR's do; passes see to the rest.

    Every language is taken to divide integers toward zero, to shift by counts that are less than
    the width, and to compare as IEEE 754 has it.

    Attributes
    ----------
    signed_wraps : bool
        Whether sums, differences, products, negatives and left shifts of signed integers wrap.
    saturating : frozenset of str
        The conversions of floats to integers, such as ``"f32.i32"``, that saturate and turn NaN
        into 0.
    flat_sub_groups : bool
        Whether sub-groups may not follow the linear local index but in workgroups of one dimension.
    functions : frozenset of str or None
        The functions of `portable.lang.ir.elementwise` that it has; None: all. It has at least
        `portable.lang.passes.functions.INSTRUCTIONS`; the others are made of these.
    """

    signed_wraps: bool = False
    saturating: frozenset[str] = frozenset()
    flat_sub_groups: bool = False
    functions: frozenset[str] | None = None
