"""What is known where an access runs: facts about indices, by the guards and conditions around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sympy

from cugen.analysis.bounds.forms import Forms
from cugen.analysis.totals.sites import Predicate, ProgramPoint
from cugen.plan.kernel import Kernel
from cugen.plan.memory import IndexLocal
from cugen.plan.nodes import Assign, Let, Load
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, symbol
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Expr, Local, ParamValue, walk
from cugen.spec.prove.affine import AffineForm, Variable
from cugen.spec.prove.guards import Case, alternatives_by, comparison
from cugen.spec.types import DType

_NAMES = {"<": "lt", "==": "eq", "!=": "ne"}
_NEGATED = {"lt": "ge", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class Locals:
    """The integers that a kernel loads or computes, by their names in C: their types, and those that are assigned
    again, so that what a guard says of them may not be so after it."""

    types: Mapping[str, tuple[DType, ...]]
    assigned: frozenset[str]

    @staticmethod
    def of(kernel: Kernel) -> Locals:
        """Those of a kernel."""
        types: dict[str, tuple[DType, ...]] = {}
        assigned: set[str] = set()
        for node in walk_nodes(kernel.body):
            match node:
                case Let(local=local) | Load(local=local):
                    types[local.name] = (*types.get(local.name, ()), local.dtype)
                case Assign(local=local):
                    assigned.add(local.name)
        return Locals(types, frozenset(assigned))

    def ranges(self) -> Iterator[tuple[sympy.Symbol, tuple[int, int]]]:
        """The values that their types allow, whatever the planner knows of them."""
        for name, types in self.types.items():
            if all(dtype.is_integer for dtype in types):
                yield symbol(name), (min(t.lowest for t in types), max(t.highest for t in types))


@dataclass(frozen=True, slots=True)
class Known:
    """What holds at a program point: `facts`, and one case of each of the disjunctions. Of the variables `split` it is
    known which case holds."""

    facts: Case = ()
    disjunctions: tuple[tuple[Case, ...], ...] = ()
    split: frozenset[Variable] = frozenset()

    def __and__(self, more: Known) -> Known:
        return Known(self.facts + more.facts, self.disjunctions + more.disjunctions)

    def chosen(self, variable: Variable, case: Case) -> Known:
        """The same in one case of an extremum or a choice."""
        return Known(self.facts + case, self.disjunctions, self.split | {variable})

    @staticmethod
    def of(cases: list[Case]) -> Known:
        return Known(cases[0]) if len(cases) == 1 else Known((), (tuple(cases),))


class Facts:
    """Makes facts of one kernel's guards and conditions."""

    def __init__(self, forms: Forms, names: Locals, params: Mapping[str, Integer]) -> None:
        self._forms, self._locals, self._params = forms, names, params
        self._known: dict[Predicate, Known] = {}

    def of_point(self, point: ProgramPoint) -> Known:
        known = Known()
        for predicate in point.predicates:
            if predicate not in self._known:
                self._known[predicate] = self._of_predicate(predicate)
            known &= self._known[predicate]
        for condition, holds in point.conditions:
            known &= Known.of(self._of_condition(condition, holds, point))
        return known

    def _of_predicate(self, predicate: Predicate) -> Known:
        if any(self._is_assigned(name) for difference, _ in predicate.terms for name in difference.free_symbols):
            return Known()
        terms = [self._term(*term, holds=not predicate.negated) for term in predicate.terms]
        if predicate.negated:
            return Known.of([case for cases in terms for case in cases])
        known = Known()
        for cases in terms:
            known &= Known.of(cases)
        return known

    def _term(self, difference: Integer, operator: str, *, holds: bool) -> list[Case]:
        name = _NAMES[operator] if holds else _NEGATED[_NAMES[operator]]
        return comparison(name, self._forms.form(difference), AffineForm())

    def _of_condition(self, condition: Expr, holds: bool, point: ProgramPoint) -> list[Case]:
        symbols: dict[str, Integer] = {}
        for leaf in walk(condition):
            if isinstance(leaf, ParamValue):
                symbols[leaf.name] = self._params[leaf.name]
            elif isinstance(leaf, Local) and type(leaf) in (Local, IndexLocal) and leaf.dtype.is_integer:
                symbols[leaf.name] = symbol(leaf.name)

        def form_of(expr: Expr) -> AffineForm | None:
            try:
                value = to_integer(expr, symbols).xreplace(point.definitions)
            except NotAnInteger:
                return None
            return None if any(map(self._is_assigned, value.free_symbols)) else self._forms.form(value)

        return alternatives_by(condition, holds, form_of)

    def _is_assigned(self, name: sympy.Symbol) -> bool:
        return name.name in self._locals.assigned
