"""Prints sub-group operations; all are made of one shuffle by index."""

from __future__ import annotations

from portable.dtypes import DType, bool_, int32, uint32
from portable.lang.emit.code import Code
from portable.lang.emit.expressions import Expressions, placeholder
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s

__all__ = ["SubGroups"]

_REDUCTIONS: dict[str, e.BinaryOp] = {
    "reduce_add": "add",
    "reduce_min": "min",
    "reduce_max": "max",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
    "any": "or",
    "all": "and",
}
_SHUFFLES = ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast")


class SubGroups:
    """Sub-group operations of one kernel."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._context = expressions.context
        kernel = expressions.context.kernel
        self._size = kernel.sub_group_size
        self._items = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]
        self._full = self._items % self._size == 0

    def text(self, x: s.SubGroup) -> str:
        """The text of the result."""
        if self._size == 1:
            return self._expressions.text(x.value)
        self._context.prelude.features.add("sub_groups")
        kind = x.var.type
        assert isinstance(kind, DType)
        value: e.Expression = x.value
        if kind is bool_:
            value = e.Cast(value, int32)
        result = self._operation(x, value, int32 if kind is bool_ else kind)
        return f"{result} != 0" if kind is bool_ else result

    def _operation(self, x: s.SubGroup, value: e.Expression, kind: DType) -> str:
        own = self._expressions.text(e.WorkItem("sub_group_local_id", 0, uint32))
        active = self._active()
        text = self._expressions.text(value)
        if x.op in _SHUFFLES:
            assert x.argument is not None
            helper = self._shuffle_helper(kind)
            return f"{helper}({text}, {self._source(x.op, own, x.argument)}, {own}, {active})"
        if x.op == "scan_add":
            return f"{self._scan_helper(kind)}({text}, {own}, {active})"
        return f"{self._reduce_helper(_REDUCTIONS[x.op], kind)}({text}, {own}, {active})"

    def _active(self) -> str:
        """How many work-items this sub-group has; the workgroup's last may have fewer."""
        if self._full:
            return f"{self._size}u"
        number = e.WorkItem("sub_group_id", 0, uint32)
        before = e.Binary("mul", number, e.Const(self._size, uint32))
        left = e.Binary("sub", e.Const(self._items, uint32), before)
        return self._expressions.text(e.Binary("min", left, e.Const(self._size, uint32)))

    def _source(self, op: str, own: str, argument: e.Expression) -> str:
        unsigned = self._expressions.text(_unsigned(argument))
        if op in ("shuffle", "broadcast"):
            return unsigned
        operator = {"shuffle_xor": "^", "shuffle_up": "-", "shuffle_down": "+"}[op]
        return f"({own}) {operator} ({unsigned})"

    # -- helpers ----------------------------------------------------------------------------

    def _head(self, name: str, kind: DType, source: str = "") -> str:
        types, function = self._context.dialect.types, self._context.dialect.function
        unsigned = types["u32"]
        return (
            f"{function} {types[kind.short]} {name}"
            f"({types[kind.short]} x, {source}{unsigned} own, {unsigned} active)"
        )

    def _shuffle(self, value: str, source: str) -> str:
        return self._context.dialect.sub_groups["shuffle"].format(
            value, source, active="active", size=self._size
        )

    def _shuffle_helper(self, kind: DType) -> str:
        name = f"pt_shuffle_{kind.short}"
        unsigned = self._context.dialect.types["u32"]

        def make() -> str:
            head = self._head(name, kind, f"{unsigned} source, ")
            shuffled = self._shuffle("x", "source < active ? source : own")
            return f"{head}\n{{\n    return {shuffled};\n}}"

        return self._context.prelude.define(name, make)

    def _combined(self, op: e.BinaryOp, kind: DType) -> str:
        """``x op other`` in the language's meaning."""
        x, other = (placeholder(text, kind) for text in ("x", "other"))
        code: Code = self._expressions.code(e.Binary(op, x, other))
        return code.text

    def _reduce_helper(self, op: e.BinaryOp, kind: DType) -> str:
        name = f"pt_sub_group_{op}_{kind.short}"
        types = self._context.dialect.types
        combined = self._combined(op, kind)

        def make() -> str:
            lines = [self._head(name, kind), "{"]
            lines += ["    #pragma unroll"]
            lines += [f"    for ({types['u32']} step = {self._size // 2}; step > 0; step /= 2) {{"]
            if self._full:
                shuffled = self._shuffle("x", "own ^ step")
                lines += [
                    f"        const {types[kind.short]} other = {shuffled};",
                    f"        x = {combined};",
                    "    }",
                    "    return x;",
                ]
            else:
                source = "own + step < active ? own + step : own"
                lines += [
                    f"        const {types[kind.short]} other = {self._shuffle('x', source)};",
                    "        if (own + step < active)",
                    f"            x = {combined};",
                    "    }",
                    f"    return {self._shuffle('x', '0')};",
                ]
            return "\n".join([*lines, "}"])

        return self._context.prelude.define(name, make)

    def _scan_helper(self, kind: DType) -> str:
        name = f"pt_sub_group_scan_{kind.short}"
        types = self._context.dialect.types
        combined = self._combined("add", kind)

        def make() -> str:
            source = "own >= step ? own - step : own"
            lines = [
                self._head(name, kind),
                "{",
                "    #pragma unroll",
                f"    for ({types['u32']} step = 1; step < {self._size}; step *= 2) {{",
                f"        const {types[kind.short]} other = {self._shuffle('x', source)};",
                "        if (own >= step)",
                f"            x = {combined};",
                "    }",
                "    return x;",
                "}",
            ]
            return "\n".join(lines)

        return self._context.prelude.define(name, make)


def _unsigned(x: e.Expression) -> e.Expression:
    return x if x.type is uint32 else e.Cast(x, uint32)
