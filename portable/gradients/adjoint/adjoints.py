"""The adjoints of a level's names: sums that grow on the way back.

That of a name which is used only in the block that binds it is an expression; another one's is a
variable, which begins as nought where the level turns round.
"""

from __future__ import annotations

from portable.errors import Location
from portable.gradients.adjoint.activity import Activity
from portable.gradients.adjoint.names import Names, adjoint_type, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s


class Adjoints:
    """Those of one level.

    Parameters
    ----------
    names : Names
    spread : set of str
        Names that are used in other blocks, too.
    activity : Activity
    bound : set of str
        The names that are bound in this level.
    above : Adjoints or None
        Those of the level around.

    Attributes
    ----------
    cells : list of Variable
        The variables.
    """

    def __init__(
        self,
        names: Names,
        spread: set[str],
        activity: Activity,
        bound: set[str],
        above: Adjoints | None,
    ) -> None:
        self.cells: list[e.Variable] = []
        self._names = names
        self._spread = spread
        self._activity = activity
        self._bound = bound
        self._above = above
        self._variables: dict[str, e.Variable] = {}
        self._terms: dict[str, list[e.Expression]] = {}

    def all_names(self) -> set[str]:
        """The names of the variables of this level and those around it."""
        cell_names = {x.name for x in self.cells}
        return cell_names if self._above is None else cell_names | self._above.all_names()

    def zeros(self, loc: Location) -> s.Block:
        """What the variables begin with."""
        return tuple(s.Assign(x, zero(x.type), loc) for x in self.cells)

    def add(self, operand: e.Expression, share: e.Expression, loc: Location) -> s.Block:
        """Adds a share to the adjoint of an operand: a name, or what has none."""
        if not isinstance(operand, e.Variable) or not self._activity.depends(operand):
            return ()
        out: list[s.Statement] = []
        if not isinstance(share, e.Variable):
            named = self._names.variable("share", share.type)
            out.append(s.Let(named, share, loc))
            share = named
        owner = self._owner(operand.name)
        if owner is self and operand.name not in self._spread:
            self._terms.setdefault(operand.name, []).append(share)
            return tuple(out)
        total = owner._variable(operand)
        return (*out, s.Assign(total, e.Binary("add", total, share), loc))

    def taken(self, var: e.Variable | None, loc: Location) -> tuple[e.Expression | None, s.Block]:
        """The adjoint of a name where it is bound, as a name; None where it is nought."""
        if var is None:
            return None, ()
        total: e.Expression | None = self._variables.get(var.name)
        for term in self._terms.pop(var.name, []):
            total = term if total is None else e.Binary("add", total, term)
        if total is None or (isinstance(total, e.Variable) and var.name not in self._variables):
            return total, ()
        named = self._names.variable(f"d_{var.name}", total.type)
        return named, (s.Let(named, total, loc),)

    def _owner(self, name: str) -> Adjoints:
        at = self
        while name not in at._bound and at._above is not None:
            at = at._above
        return at

    def _variable(self, operand: e.Variable) -> e.Variable:
        variable = self._variables.get(operand.name)
        if variable is None:
            kind = adjoint_type(operand.type)
            variable = self._names.variable(f"d_{operand.name}", kind)
            self._variables[operand.name] = variable
            self.cells.append(variable)
        return variable
