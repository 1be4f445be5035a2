"""Binds names to values, and merges bindings where branches and loops meet."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Any, Final

from portable.dtypes import DType
from portable.lang.frontend import values as v
from portable.lang.frontend import variables
from portable.lang.frontend.conversion import constant_truth
from portable.lang.frontend.expressions import CallTranslator
from portable.lang.frontend.structs import store
from portable.lang.frontend.variables import Unassigned
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.walks import subexpressions

_MOST_REPETITIONS: Final = 2**16


class BindingTranslator(CallTranslator):
    """Gives names, elements of arrays and items of tuples what they stand for."""

    def _element(self, node: ast.Subscript) -> tuple[v.View | v.StructView, Any]:
        view = self.visit(node.value)
        if not isinstance(view, v.View | v.StructView):
            self.builder.fail(
                f"{v.describe(view)} has no elements to assign",
                "pass an array, or see kl.local and kl.private",
            )
        return view, self._snapshot("i", self.visit(node.slice))

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name():
                self._bind(target.id, value)
            case ast.Tuple():
                self._unpack(target.elts, value)
            case ast.Subscript():
                view, index = self._element(target)
                self.builder.node = target
                store(self.builder, view, index, value)
            case ast.Attribute():
                self.builder.fail(
                    "fields of structs do not change",
                    f"make a new struct: dataclasses.replace(x, {target.attr}=...)",
                )
            case _:
                self.builder.fail("only names and array elements can be assigned")

    def _unpack(self, targets: list[ast.expr], value: Any) -> None:
        """``x, *y, z = ...``."""
        items = v.sequence(value)
        stars = [i for i, x in enumerate(targets) if isinstance(x, ast.Starred)]
        count = len(targets) - len(stars)
        if items is None or len(items) < count or (not stars and len(items) > count):
            hint = "name its fields: x.name" if isinstance(value, v.Struct) else ""
            if isinstance(value, v.View):
                hint = "its extent is not known when compiled: write x[0], x[1], ..."
            self.builder.fail(f"{v.describe(value)} does not unpack to {len(targets)} names", hint)
        for at in stars:
            end = at + len(items) - count
            items = (*items[:at], items[at:end], *items[end:])
        for one, item in zip(targets, items, strict=True):
            self._assign(one.value if isinstance(one, ast.Starred) else one, item)

    def _bind(self, name: str, value: Any) -> None:
        held = self.frame.env.get(name)
        if isinstance(held, variables.Mutable):
            variables.assign(self.builder, held, value, name)
        elif variables.is_wholly_mutable(held):
            # The parts of the new value may be made of the parts of the old one.
            variables.assign(self.builder, held, self._snapshot(name, value), name)
        else:
            self.frame.env[name] = self._snapshot(name, value)

    def _snapshot(self, name: str, value: Any) -> Any:
        """A value that later assignments to the variables in it cannot change."""
        return v.rebuilt(self._fixed_part, value, name)

    def _fixed_part(self, part: v.Value | e.Expression, name: str) -> v.Value | e.Expression:
        if isinstance(part, v.Value):
            return self._named(name, part)
        if isinstance(part, e.Const) or self._is_bound(part):
            return part
        if name.endswith(v.SHAPE) and not self._may_change(part):
            return part  # views are compared by their extents
        (fixed,) = self._fixed((part,))
        return self.builder.let(name, fixed)

    def _may_change(self, x: e.Expression) -> bool:
        """Whether a mutable variable stands in an expression."""
        return any(y in self.builder.variables for y in subexpressions(x))

    def _is_bound(self, x: e.Expression) -> bool:
        """Whether an expression is a name that is never assigned again."""
        return isinstance(x, e.Variable) and x not in self.builder.variables

    def _named(self, name: str, value: v.Value) -> v.Value:
        if isinstance(value.expr, e.Const) or self._is_bound(value.expr):
            return value
        (expr,) = self._fixed((value.expr,))
        bound = self.builder.let(name, expr)
        if isinstance(bound, e.Variable) and not isinstance(expr, e.Variable):
            self._remember(bound, expr)
        return v.Value(bound, value.weak, value.slots)

    def _remember(self, var: e.Variable, expr: e.Expression) -> None:
        if isinstance(var.type, DType) and var.type.is_integer:
            self.builder.intervals[var] = self.builder.bounds(expr)

    def _fixed(self, values: Iterable[e.Expression]) -> list[e.Expression]:
        """Expressions in which no bare mutable variable stands, so that `let` copies it."""
        out = []
        for x in values:
            if isinstance(x, e.Variable) and x in self.builder.variables:
                copy = self.builder.bind(x.name, x.type)
                self.builder.emit(s.Let(copy, x, self.builder.location))
                x = copy
            out.append(x)
        return out

    # -- what is repeated at compile time ------------------------------------------------

    def constants(self, over: v.Range) -> range:
        """A range of constants, as Python's."""
        for x in (over.start, over.stop, over.step):
            if not isinstance(x, int):
                self.builder.fail(
                    f"what is repeated at compile time takes constants, not {v.describe(x)}",
                    "write a for loop over range(...)",
                )
        return range(over.start, over.stop, over.step)

    def count_repetition(self) -> None:
        """Refuses programs that would grow too large by what is repeated at compile time."""
        self.builder.repetitions += 1
        if self.builder.repetitions > _MOST_REPETITIONS:
            self.builder.fail(
                f"loops repeated at compile time come to more than {_MOST_REPETITIONS} rounds",
                "write range(...), which makes one loop of the program",
            )

    def visit_listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
        """``[f(x) for x in ...]``, or without brackets: a tuple."""
        before, out = self.frame.env, list[Any]()
        self.frame.env = dict(before)
        self._generate(node, 0, out)
        self.frame.env = before
        return tuple(out)

    visit_generatorexp = visit_listcomp

    def _generate(self, node: ast.ListComp | ast.GeneratorExp, depth: int, out: list[Any]) -> None:
        if depth == len(node.generators):
            out.append(self.visit(node.elt))
            return
        part = node.generators[depth]
        over = self.visit(part.iter)
        self.builder.node = part.iter
        items = self._items(over)
        if items is None:
            self.builder.fail(f"a comprehension runs over a tuple, not {v.describe(over)}")
        names = {x.id for x in ast.walk(part.target) if isinstance(x, ast.Name)}
        for item in items:
            self.count_repetition()
            for name in names:
                self.frame.env.pop(name, None)
            self._assign(part.target, item)
            if all(self._chosen(test) for test in part.ifs):
                self._generate(node, depth + 1, out)

    def _items(self, over: Any) -> Iterable[Any] | None:
        """What a comprehension runs through; None of what is no range or tuple."""
        if isinstance(over, v.Product):
            parts = [self._items(part) for part in over.parts]
            return None if None in parts else product(*parts)  # type: ignore[arg-type]
        return self.constants(over) if isinstance(over, v.Range) else v.sequence(over)

    def _chosen(self, test: ast.expr) -> bool:
        condition = self.visit(test)
        if isinstance(condition, v.Value):
            self.builder.fail("the condition of a comprehension is only known at run time")
        return constant_truth(self.builder, condition)

    # -- names that branches and loops assign ------------------------------------------

    def _merged(
        self, before: dict[str, Any], branches: list[tuple[dict[str, Any], list[s.Statement]]]
    ) -> dict[str, Any]:
        """The names after a branch: variables for those that each branch bound for itself."""
        env = dict(before)
        for name in dict.fromkeys(name for branch_env, _ in branches for name in branch_env):
            absent = None if name == "return" else _MISSING
            values = [branch_env.get(name, absent) for branch_env, _ in branches]
            if name in before and all(x is before[name] for x in values):
                continue
            env[name] = self._joined(name, values, [block for _, block in branches])
        return env

    def _joined(self, name: str, values: list[Any], blocks: list[list[s.Statement]]) -> Any:
        """What a name stands for after a branch of which each side bound it for itself."""
        here = self.builder.location
        if any(x is _MISSING or isinstance(x, Unassigned) for x in values):
            return Unassigned(here, f"only one side of the branch at line {here.line} assigns it")
        values = [variables.read(self.builder, x) for x in values]
        why = self._unlike(name, values)
        if why:
            if name == "return":
                self.builder.fail(f"the function returns {why}")
            return Unassigned(here, f"the branch at line {here.line} makes {why}")
        return self._join(self.frame.key(name), name, values, blocks)

    def _unlike(self, name: str, values: list[Any]) -> str:
        """Why a branch's sides cannot meet in one variable; nothing if they can."""
        first = values[0]
        if all(variables.same(x, first) for x in values) or all(v.is_number(x) for x in values):
            return ""
        if v.items_in(first) is not None and all(variables.alike(x, first) for x in values):
            columns = zip(*(v.items_in(x) or () for x in values), strict=True)
            labels = [part for part, _ in v.labelled(first)]
            reasons = (
                self._unlike(name + part, list(items))
                for part, items in zip(labels, columns, strict=True)
            )
            return next(filter(None, reasons), "")
        if None in values and name == "return":
            given = next(x for x in values if x is not None)
            return f"{v.describe(given)} on some paths only"
        other = next((x for x in values if not variables.same(x, first)), first)
        what = "" if name == "return" else f"{name.removeprefix('return')} "
        return f"{what}{v.describe(first)} on some paths and {v.describe(other)} on others"

    def _join(self, key: Any, name: str, values: list[Any], blocks: list[list[s.Statement]]) -> Any:
        """A variable, or a tuple or struct of some, that each block gives its own value."""
        first = values[0]
        if v.items_in(first) is not None:
            columns = zip(*(v.items_in(x) or () for x in values), strict=True)
            return v.like(
                first,
                (
                    self._join((key, i), name + part, list(items), blocks)
                    for i, ((part, _), items) in enumerate(
                        zip(v.labelled(first), columns, strict=True)
                    )
                ),
            )
        if all(self._unmoved(x, first) for x in values):
            return first
        sample = next((x for x in values if isinstance(x, v.Complex)), first)
        variable = variables.new(self.builder, key, name, sample)
        for value, block in zip(values, blocks, strict=True):
            with self.builder.block() as tail:
                variables.assign(self.builder, variable, value, name)
            at = len(block)
            block[at:at] = tail
        return variable

    def _unmoved(self, x: Any, first: Any) -> bool:
        """Whether a value is the other one, and no variable that could change."""
        if isinstance(first, v.Value):
            fixed = isinstance(first.expr, e.Variable | e.Const)
            return fixed and x == first and first.expr not in self.builder.variables
        return not isinstance(first, v.Complex) and variables.same(x, first)

    def _promote_in_loop(self, names: AbstractSet[str], counted: AbstractSet[str]) -> None:
        """Likewise for a loop, where what is no number can only be assigned before it is read.

        So can the names `counted` of the loops within it: no variables, they have no value there.
        """
        self._promote(names - counted)
        here = self.builder.location
        for name in (names | counted) & set(self.frame.env):
            held = self.frame.env[name]
            if isinstance(held, Unassigned) or (variables.is_mutable(held) and name not in counted):
                continue
            what = v.describe(variables.read(self.builder, held))
            why = f"the loop at line {here.line} assigns it, and it was {what} before"
            hint = f"give the inner loop over {name} another name" if name in counted else ""
            self.frame.env[name] = Unassigned(here, why, hint)

    def _is_struct(self, name: str) -> bool:
        """Of a struct that a branch makes anew, fields that stay constants stay so: see `_join`."""
        return isinstance(self.frame.env.get(name), v.Struct)

    def _promote(self, names: AbstractSet[str]) -> None:
        """Turns bound names that run-time control flow assigns into variables."""
        for name in [x for x in self.frame.env if x in names]:
            held = self.frame.env[name]
            if held is None or variables.is_wholly_mutable(held) or not _holds_numbers(held):
                continue
            present = variables.read(self.builder, held)
            variable = variables.new(self.builder, self.frame.key(name), name, present)
            variables.assign(self.builder, variable, present, name)
            self.frame.env[name] = variable


class _Missing:
    """A name that a branch did not bind."""


_MISSING: Final = _Missing()


def _holds_numbers(x: Any) -> bool:
    """Whether a name stands for a number, or a tuple or struct with one in it."""
    return any(v.is_number(leaf) for leaf in v.leaves(x)) or variables.is_mutable(x)
