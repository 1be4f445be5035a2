"""Where a work-item stands: numbers of the launch, of its workgroup, and in loops over items."""

from __future__ import annotations

from portable.dtypes import DType, int64
from portable.lang.emit.llvm.builder import Context, value_type
from portable.lang.ir import expressions as e

GROUPS = ("%group0", "%group1", "%group2")
"""The workgroup's numbers, as 64 bits."""


class Places:
    """The words for places of one kernel.

    Attributes
    ----------
    local : list of str
        The work-item's own numbers, of the index type, while a loop over work-items is printed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._builder = context.builder
        self._index = context.kernel.index_type
        self.local: list[str] = []

    def value(self, x: e.WorkItem) -> str:
        """The value of a word, in its type."""
        return self._as(self._word(x), x.type)

    def _as(self, value: str, kind: DType) -> str:
        """A number of the index type as another; none of them is negative."""
        own_type, wanted = value_type(self._index), value_type(kind)
        if own_type == wanted or value.isdigit():
            return value
        word = "trunc" if kind.bits < self._index.bits else "zext nneg"
        return self._builder.op(f"{word} {own_type} {value} to {wanted}")

    def _word(self, x: e.WorkItem) -> str:
        match x.word:
            case "global_id":
                return self._global(x.dim)
            case "local_id":
                return self.local[x.dim]
            case "group_id":
                return self.group(x.dim)
            case "num_groups":
                return self._launch(x.dim)
            case "global_size" if x.dim in self._context.kernel.ragged:
                return self._context.range_end(x.dim)
            case "global_size":
                return self._launch(3 + x.dim)
            case _:
                raise AssertionError(f"{x.word} has not been lowered")

    def group(self, dim: int) -> str:
        """The workgroup's number along a dimension, of the index type."""
        if self._index is int64:
            return GROUPS[dim]
        text = f"trunc nuw nsw i64 {GROUPS[dim]} to i32"
        return self._builder.once(self._builder.workgroup, f"group {dim}", text)

    def _launch(self, number: int) -> str:
        value = self._context.launch(number)
        if self._index is int64:
            return value
        return self._builder.argument(f"launch {number} in 32", f"trunc nuw nsw i64 {value} to i32")

    def _global(self, dim: int) -> str:
        """Of the workgroup's first work-item, and of this one."""
        size = self._context.kernel.launched[dim]
        if size == 1:
            return self.group(dim)
        kind = value_type(self._index)
        text = f"mul nuw nsw {kind} {self.group(dim)}, {size}"
        first = self._builder.once(self._builder.workgroup, f"first {dim}", text)
        return self._builder.op(f"add nuw nsw {kind} {first}, {self.local[dim]}")
