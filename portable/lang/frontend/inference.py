"""The types of variables and of weak numbers, found by repeating the translation to a fixed point.

A pass reads each type as the passes before left it and widens it where an assignment or a use
asks for more. Types only ever widen, so a few passes settle them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from portable.dtypes import DType, int64
from portable.errors import Location
from portable.lang.frontend.values import Slot, Value
from portable.lang.ir.types import ValueType, scalar_of


@dataclass(slots=True)
class VariableType:
    """What is known of a variable so far."""

    type: ValueType
    weak: bool


@dataclass
class Inference:
    """Types that outlive a pass, and what there is to remark on the latest one, by its place."""

    carriers: dict[Slot, DType] = field(default_factory=dict)
    variables: dict[Any, VariableType] = field(default_factory=dict)
    changed: bool = False
    remarks: dict[Location, str] = field(default_factory=dict)
    _taken_weak: set[Any] = field(default_factory=set)

    def begin(self) -> None:
        """Another pass begins."""
        self.changed = False
        self.remarks.clear()
        self._taken_weak.clear()

    def read(self, key: Any) -> VariableType:
        """What is known of a variable, for who takes its value."""
        known = self.variables[key]
        if known.weak:
            self._taken_weak.add(key)
        return known

    def learn(self, key: Any, kind: VariableType) -> None:
        """Takes in what a variable holds; another pass follows where this one went by less."""
        known = self.variables.get(key)
        self.variables[key] = kind
        if known is not None and kind != known and not self._was_so(key, known, kind):
            self.changed = True

    def _was_so(self, key: Any, known: VariableType, kind: VariableType) -> bool:
        """Whether a number, weak until now, was declared with its type and not taken as weak."""
        carrier = self.carriers.get(Slot(key))
        declared = carrier is None or carrier is scalar_of(kind.type)
        return kind.type == known.type and declared and key not in self._taken_weak

    def carrier(self, slot: Slot, default: DType) -> DType:
        """The type by which a slot's number is carried."""
        return self.carriers.setdefault(slot, default)

    def widen(self, x: Value, dtype: DType) -> None:
        """Asks that a weak number be carried by at least this type of the same kind."""
        for slot in x.slots if x.weak else ():
            held = self.carriers[slot]
            same_kind = held.is_float == dtype.is_float and held.is_integer == dtype.is_integer
            if same_kind and dtype.itemsize > held.itemsize:
                self.carriers[slot] = int64 if dtype.is_integer else dtype
                self.changed = True
