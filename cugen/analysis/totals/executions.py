"""Executions of a program point over a launch, and the warps that diverge there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.exact import Cost, totals
from cugen.analysis.totals.sites import UNKNOWN_LANES, Counter, Predicate, ProgramPoint, Site, Step
from cugen.plan.nodes import For
from cugen.plan.symbols import Integer, integer

_NOTHING: Cost = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ExecutionCount:
    """Executions over the launch: of `warps` with an active lane, and of `lanes`.

    An upper bound where not `exact`: data-dependent guards are taken to hold for every lane.
    """

    warps: int
    lanes: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class BranchDivergence:
    """Divergence at a branch: warps that reach it, divergent (mixed) warps, lanes that reach and that pass it.

    A loop counts warps once per iteration; a warp is mixed in an iteration if some of its lanes left the loop.
    `lanes` are counted for each iteration of the longest loop.
    """

    warps: int
    mixed_warps: int
    lanes: int
    taken: int


@dataclass(frozen=True, slots=True)
class _Domain:
    """Iteration domain of a program point without an access."""

    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    offset: Integer
    opaque: str


class ExecutionCounts:
    """Execution counts of one launch, cached by iteration domain."""

    def __init__(self, block: tuple[int, int, int]) -> None:
        self.block, self.budget = block, Budget()
        self.known: dict[tuple[tuple[Counter, ...], tuple[Predicate, ...]], ExecutionCount] = {}

    def of(self, point: ProgramPoint | Site) -> ExecutionCount:
        """Executions of a program point or an access. Raises Unknown where guards couple several indices."""
        counters = point.counters
        if point.opaque not in UNKNOWN_LANES:
            return self._of(counters, point.predicates)
        decided = tuple(p for p in point.predicates if p.depends_only_on(counters))
        return replace(self._of(counters, decided), exact=False)

    def divergence(self, step: Step) -> BranchDivergence:
        """Divergence at a guard, condition or loop. Raises Unknown, with the reason."""
        point, inside = step.point, step.inside
        if inside.opaque:
            raise Unknown(inside.opaque)
        counters = inside.counters
        added = inside.predicates[len(point.predicates) :]
        before = self._of(counters, point.predicates)
        taken = self._of(counters, inside.predicates)
        not_taken = 0
        if added:
            (predicate,) = added  # a node adds at most one
            negated = replace(predicate, negated=not predicate.negated)
            not_taken = self._of(counters, (*point.predicates, negated)).warps
        # Divergent warps are counted on both sides.
        mixed = taken.warps + not_taken - before.warps
        return BranchDivergence(
            taken.warps if isinstance(step.node, For) else before.warps, mixed, before.lanes, taken.lanes
        )

    def _of(self, counters: tuple[Counter, ...], predicates: tuple[Predicate, ...]) -> ExecutionCount:
        key = (counters, predicates)
        if key not in self.known:
            domain = _Domain(counters, predicates, integer(0), "")
            sums = totals(domain, self.block, 1, 1, lambda _: _NOTHING, budget=self.budget)
            self.known[key] = ExecutionCount(sums.warps, sums.lanes)
        return self.known[key]
