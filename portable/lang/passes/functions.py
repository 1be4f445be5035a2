"""Elementary functions, where a language has none of its own.

`portable.lang.library.elementary` writes each once, in the language. Here its text, translated
for the type at hand, takes the place of the call: for vectors lane by lane, without a branch but
where few arguments need much more work than others do, so that work-items and lanes stay side by
side. All its sums and products are `exact`: no device may round them otherwise, whatever the
kernel allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import float16, float32
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import ValueType, scalar_of
from portable.lang.passes.bindings import Bindings
from portable.lang.passes.loops import lower_loops
from portable.lang.passes.operators import lower_operators
from portable.lang.passes.semantics import Semantics

INSTRUCTIONS: Final = frozenset({
    "abs", "ceil", "clz", "copysign", "floor", "fma", "isfinite", "isinf", "isnan", "mulhi",
    "popcount", "rint", "signbit", "sqrt", "trunc",
})  # fmt: skip
"""The functions that processors have instructions for; the others are made of these."""

_ROUNDED: Final = ("add", "sub", "mul", "div")


def lower_functions(
    kernel: Kernel, capabilities: Capabilities, semantics: Semantics, bindings: Bindings
) -> Kernel:
    """The kernel without calls of functions that the language lacks.

    Parameters
    ----------
    kernel : Kernel
        In operators of the language.
    capabilities : Capabilities
        Of the device.
    semantics : Semantics
        Says which functions the language has.
    bindings : Bindings
        The kernel's names and what they are bound to.
    """
    owned = semantics.functions
    if owned is None:
        return kernel
    called = (x.function for x in walks.all_expressions(kernel.body) if isinstance(x, e.Call))
    if owned.issuperset(called):
        return kernel
    functions = _Functions(owned, capabilities, semantics, bindings)
    body = bindings.changed(kernel.body, lambda x: walks.map_expression(x, functions.inlined))
    return replace(kernel, body=body, variables=(*kernel.variables, *functions.variables))


class _Functions:
    def __init__(
        self,
        owned: frozenset[str],
        capabilities: Capabilities,
        semantics: Semantics,
        bindings: Bindings,
    ) -> None:
        self.variables: list[e.Variable] = []
        self._owned = owned
        self._capabilities = capabilities
        self._semantics = semantics
        self._bindings = bindings

    def inlined(self, x: e.Expression) -> e.Expression:
        if not isinstance(x, e.Call) or x.function in self._owned:
            return x
        kinds = tuple(a.type for a in x.arguments)
        if scalar_of(kinds[0]) is float16:
            wide = tuple(nodes.cast(a, float32) for a in x.arguments)
            return nodes.cast(self._worked_out(x.function, wide), float16)
        return self._worked_out(x.function, x.arguments)

    def _worked_out(self, name: str, arguments: tuple[e.Expression, ...]) -> e.Expression:
        kinds = tuple(x.type for x in arguments)
        template = _template(name, kinds, self._semantics, self._capabilities)
        given = (self._bindings.name(x, name) for x in arguments)
        new: dict[e.Expression, e.Expression] = dict(zip(template.parameters, given, strict=True))
        for var in (*template.variables, *template.bound):
            new[var] = self._bindings.variable(var.name.partition("@")[0], var.type)
        self.variables += [_variable(new[x]) for x in template.variables]
        for x in _renamed(template.body, new, self._bindings):
            self._bindings.add(x)
        return new[template.result]


@dataclass(frozen=True, slots=True)
class _Template:
    """The text of a function for arguments of some types.

    Attributes
    ----------
    parameters : tuple of Variable
    variables : tuple of Variable
        Those that change.
    bound : tuple of Variable
        Names that are bound once.
    body : Block
    result : Variable
        Which of the names is bound to what the function returns.
    """

    parameters: tuple[e.Variable, ...]
    variables: tuple[e.Variable, ...]
    bound: tuple[e.Variable, ...]
    body: s.Block
    result: e.Variable


@lru_cache(maxsize=1024)
def _template(
    name: str, kinds: tuple[ValueType, ...], semantics: Semantics, capabilities: Capabilities
) -> _Template:
    """A function's text, in operators of the language, and all of it exact."""
    from portable.lang.frontend.compile import translate_function
    from portable.lang.library.elementary import ELEMENTARY

    kernel = translate_function(ELEMENTARY[name], kinds, capabilities)
    bindings = Bindings(Facts(kernel))
    kernel = lower_loops(kernel, bindings)
    kernel = lower_operators(kernel, semantics, bindings)
    body = walks.map_values(kernel.body, partial(walks.map_expression, change=_exact))
    last = body[-1]
    assert isinstance(last, s.Let)
    bound = tuple(var for x in walks.all_statements(body) for var in x.binds())
    parameters = tuple(_variable(x) for x in kernel.parameters)
    return _Template(parameters, kernel.variables, bound, body, last.var)


def _variable(x: object) -> e.Variable:
    assert isinstance(x, e.Variable)
    return x


def _exact(x: e.Expression) -> e.Expression:
    rounded = isinstance(x, e.Binary) and x.op in _ROUNDED and scalar_of(x.type).is_float
    return replace(x, exact=True) if rounded else x  # type: ignore[call-arg]


def _renamed(block: s.Block, new: dict[e.Expression, e.Expression], bindings: Bindings) -> s.Block:
    """A template's statements with other names, as of the statement at hand."""

    def change(x: e.Expression) -> e.Expression:
        return new.get(x, x) if isinstance(x, e.Variable) else x

    def statement(x: s.Statement) -> s.Block:
        made = walks.map_operands(x, lambda y: walks.map_expression(y, change))
        return (replace(made, loc=bindings.loc),)  # type: ignore[type-var]

    return walks.map_block(block, statement)
