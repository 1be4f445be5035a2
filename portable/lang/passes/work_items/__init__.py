"""Turns what each work-item of a workgroup does into what one thread does for all of them.

Languages whose compiler knows nothing of work-items get loops over them (`statements.ForItems`)
between the places where all meet, as PoCL and Intel's runtime make them (Jaaskelainen et al. 2015,
"pocl: a performance-portable OpenCL implementation"), but from structured control flow:

- `parts` finds what all go through together; what stands between are regions.
- `guards` leaves out guards of the padding for workgroups that they do not stop.
- `interchange` moves loops of work-items out of the loops over them, where that pays.
- `uniform` finds what is the same for all, which is done once and stays in plain variables.
- `needs` finds which values cross from one region to another; these are kept in arrays with one
  element for each work-item, but for those that `loops` works out again.
- `loops` puts loops around regions, which fetch and keep what crosses.

A barrier of some of the work-items (`Barrier.meeting`) is one of all, as the language allows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from operator import is_

from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import map_block
from portable.lang.passes.work_items.guards import without_guards
from portable.lang.passes.work_items.interchange import interchanged
from portable.lang.passes.work_items.loops import looped
from portable.lang.passes.work_items.names import own_names
from portable.lang.passes.work_items.parts import parts_of
from portable.lang.passes.work_items.uniform import take_out_uniform, varying_names

__all__ = ["in_loops"]


def in_loops(kernel: Kernel) -> Kernel:
    """A kernel that `portable.lang.passes.reduced` gave, as what one thread does for a workgroup.

    It has sub-groups of one work-item, and no fragments. What comes out has no barriers and no
    `WorkgroupUniform`; a workgroup of one work-item has no `ForItems` either.
    """
    assert kernel.sub_group_size == 1, "sub-groups of several work-items are no loops"
    if prod(kernel.workgroup) == 1:
        return replace(kernel, body=map_block(kernel.body, _alone))
    kernel = own_names(kernel)
    varying = varying_names(kernel, parts_of(kernel.body))
    chosen = without_guards(kernel, varying)
    if not _is_same(chosen, kernel):
        kernel = own_names(chosen)
        varying = varying_names(kernel, parts_of(kernel.body))
    ready, moved = interchanged(kernel, varying)
    known = not moved and _is_same(ready, kernel)
    kernel = kernel if known else own_names(ready)
    parts = parts_of(kernel.body, moved)
    varying = varying if known else varying_names(kernel, parts)
    take_out_uniform(kernel, parts, varying)
    return looped(kernel, parts, varying)


def _is_same(x: Kernel, y: Kernel) -> bool:
    """Whether a pass changed nothing."""
    return len(x.body) == len(y.body) and all(map(is_, x.body, y.body))


def _alone(x: s.Statement) -> s.Block:
    """What a statement is to a workgroup of one work-item."""
    match x:
        case s.Barrier():
            return ()
        case s.WorkgroupUniform():
            return (s.Let(x.var, x.value, x.loc),)
        case _:
            return (x,)
