"""Adjoints of kernels, made from their IR.

`exits` writes control flow without jumps, `flatten` single steps on names, `sweeps` the way forwards
and the way back by the `rules` of differentiation, with `memory` for arrays and a `stack` for what
cannot be worked out again; `unused` leaves out the rest. `reexecution` refuses what would be worked
out again from arrays that are no longer what they were.
"""

from __future__ import annotations

from portable.gradients.adjoint.assemble import Adjoint, Gradient, adjoint_of

__all__ = ["Adjoint", "Gradient", "adjoint_of"]
