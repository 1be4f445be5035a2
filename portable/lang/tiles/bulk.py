"""Lowers bulk copies: cp.async.bulk with mbarriers where there are, else a loop by one work-item.

A slot's mbarrier expects one arrival in each phase, which `BulkWait` supplies after a barrier: by
then each issuer has announced its bytes, so that no phase ends early; and the barrier also
publishes what was copied by plain loops. What copies (TMA) sees what work-items wrote only
behind a proxy fence, so that one stands before each copy, and before each barrier where copies go
outward.
"""

from __future__ import annotations

from dataclasses import replace

from portable.backend import Capabilities
from portable.dtypes import bool_
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Array
from portable.lang.ir.walks import map_block, of_kind


def lower_bulk(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel without `BulkCopy` and `BulkWait`."""
    copies = list(of_kind(kernel.body, s.BulkCopy))
    waits = list(of_kind(kernel.body, s.BulkWait))
    if not copies and not waits:
        return kernel
    if "bulk" not in capabilities.async_copy:
        return replace(kernel, body=map_block(kernel.body, _plain))
    lowering = _Bulk(kernel, any(x.completion is None for x in copies))
    body = map_block(kernel.body, lowering.statement)
    slots = {x.completion for x in copies} | {x.completion for x in waits}
    ordered = [a for a in kernel.arrays if a in slots]
    return replace(
        kernel,
        body=(*lowering.prologue(ordered), *body),
        variables=(*kernel.variables, *lowering.variables),
    )


def _plain(x: s.Statement) -> s.Block:
    match x:
        case s.BulkCopy():
            return _loop(x, "bulk.at")
        case s.BulkWait(loc=loc, meeting=meeting):
            return (s.Barrier(loc, meeting),)
        case _:
            return (x,)


def _loop(x: s.BulkCopy, name: str) -> s.Block:
    """One work-item copies element by element."""
    kind = scalar_type(x.count)
    at = e.Variable(name, kind)
    dtype = x.source.dtype
    parts: tuple[int | None, ...] = (0, 1) if dtype.is_complex else (None,)
    body: list[s.Statement] = []
    for part in parts:
        value = e.Variable(f"{name}.value{part or 0}", dtype.real.register)
        source, target = _ahead(x.source_index, at), _ahead(x.target_index, at)
        body.append(s.Load(value, x.source, source, x.loc, -1, part, runs_on=True))
        body.append(s.Store(x.target, target, value, x.loc, -1, part, runs_on=True))
    zero, one = e.Const(0, kind), e.Const(1, kind)
    return (s.For(at, zero, x.count, one, tuple(body), x.loc),)


def _ahead(index: tuple[e.Expression, ...], by: e.Expression) -> tuple[e.Expression, ...]:
    return (*index[:-1], e.Binary("add", index[-1], by))


class _Bulk:
    def __init__(self, kernel: Kernel, outward: bool) -> None:
        self._kernel = kernel
        self._outward = outward
        self._own = e.Variable("bulk.sub_group", kernel.index_type)
        self.variables: list[e.Variable] = []

    def _first(self) -> e.Expression:
        kind = self._kernel.index_type
        return e.Compare("eq", linear_local_id(self._kernel.workgroup, kind), e.Const(0, kind))

    def _among(self, count: int) -> e.Expression:
        first = e.Const(count // self._kernel.sub_group_size, self._kernel.index_type)
        return e.Compare("lt", self._own, first)

    def _own_sub_group(self) -> s.Statement:
        """By a shuffle, so that NVIDIA's compiler sees that it is the same in a sub-group."""
        kind = scalar_type(self._own)
        size = e.Const(self._kernel.sub_group_size, kind)
        number = e.Binary("quot", linear_local_id(self._kernel.workgroup, kind), size)
        return s.SubGroup(self._own, "shuffle", number, e.Const(0, kind), self._kernel.loc)

    def prologue(self, completions: list[Array]) -> s.Block:
        """One work-item makes the mbarriers; all meet before the first use."""
        loc = self._kernel.loc
        body: list[s.Statement] = []
        for array in completions:
            assert array.layout is not None
            for slot in range(array.layout.size):
                position = ((array, (e.Const(slot, self._kernel.index_type),)),)
                body.append(s.Instruction("mbarrier.init", loc, addresses=position))
        if not body:
            return ()
        body.append(s.Instruction("mbarrier.init_fence", loc))
        made = (s.If(self._first(), tuple(body), (), loc), s.Barrier(loc))
        waits = list(of_kind(self._kernel.body, s.BulkWait))
        return (*made, self._own_sub_group()) if any(x.meeting for x in waits) else made

    def statement(self, x: s.Statement) -> s.Block:
        """What a statement becomes."""
        match x:
            case s.BulkCopy():
                return self._copy(x)
            case s.BulkWait():
                return self._wait(x)
            case s.Barrier(loc=loc) if self._outward:
                return (s.Instruction("proxy.fence", loc), x)
            case s.CopyCommit(loc=loc) if self._outward:
                return (s.Instruction("bulk.commit", loc), x)
            case s.CopyWait(pending=pending, loc=loc) if self._outward:
                count = e.Const(pending, self._kernel.index_type)
                return (s.Instruction("bulk.wait", loc, inputs=(count,)), x)
            case _:
                return (x,)

    def _copy(self, x: s.BulkCopy) -> s.Block:
        number = len(self.variables)
        fits = e.Variable(f"bulk.fits{number}", bool_)
        self.variables.append(fits)
        kind = scalar_type(x.count)
        size = e.Variable(f"bulk.bytes{number}", kind)
        places = ((x.target, x.target_index), (x.source, x.source_index))
        some = e.Compare("gt", size, e.Const(0, kind))
        return (
            s.Let(size, e.Binary("mul", x.count, e.Const(x.source.dtype.itemsize, kind)), x.loc),
            s.Instruction("bulk.fits", x.loc, outputs=(fits,), inputs=(size,), addresses=places),
            s.If(
                e.Binary("and", fits, some),
                self._issue(x, size),
                _loop(x, f"bulk.at{number}"),
                x.loc,
            ),
        )

    def _issue(self, x: s.BulkCopy, size: e.Variable) -> s.Block:
        places = ((x.target, x.target_index), (x.source, x.source_index))
        if x.completion is None or x.slot is None:
            fence = s.Instruction("proxy.fence", x.loc)
            return fence, s.Instruction("bulk.store", x.loc, inputs=(size,), addresses=places)
        slot = (x.completion, (x.slot,))
        return (
            s.Instruction("mbarrier.expect_tx", x.loc, inputs=(size,), addresses=(slot,)),
            s.Instruction("proxy.fence.all", x.loc),
            s.Instruction("bulk.load", x.loc, inputs=(size,), addresses=(*places, slot)),
        )

    def _wait(self, x: s.BulkWait) -> s.Block:
        slot = ((x.completion, (x.slot,)),)
        arrive = s.Instruction("mbarrier.arrive", x.loc, addresses=slot)
        wait = s.Instruction("mbarrier.wait", x.loc, inputs=(x.phase,), addresses=slot)
        return (
            s.Barrier(x.loc, x.meeting),
            s.If(self._first(), (arrive,), (), x.loc),
            s.If(self._among(x.meeting), (wait,), (), x.loc) if x.meeting else wait,
        )
