"""How often a place of the source is reached over a launch, and in how many warps the lanes part there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.analysis.totals.exact import Cost, Unknown, totals
from cugen.analysis.totals.sites import HIDDEN, Counter, Place, Predicate, Site, Step
from cugen.plan.nodes import For
from cugen.plan.symbols import Integer, integer

_NOTHING: Cost = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Tally:
    """`warps` reach the place with at least one lane, `lanes` are all that do; both summed over the launch.

    An upper bound where not `exact`: what depends on data is then taken to let every lane through.
    """

    warps: int
    lanes: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Parting:
    """A decision: the warps that come to it, those whose lanes part there, the lanes that come and those that go on.

    Of a loop the warps are counted once for each pass through the body, and a warp is mixed in a pass if some of the
    lanes that came to the loop sit it out; `lanes` come once for each pass that the longest loop makes.
    """

    warps: int
    mixed_warps: int
    lanes: int
    taken: int


@dataclass(frozen=True, slots=True)
class _Spot:
    """Somewhere without an access: the same few fields as a site."""

    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    offset: Integer
    opaque: str


class Tallies:
    """The tallies of one launch; places that run alike are counted once."""

    def __init__(self, block: tuple[int, int, int]) -> None:
        self.block = block
        self.known: dict[tuple[tuple[Counter, ...], tuple[Predicate, ...]], Tally] = {}

    def at(self, place: Place | Site) -> Tally:
        """How often a place is reached, or an access runs. Raises Unknown where guards couple several indices."""
        counters = place.counters
        if place.opaque not in HIDDEN:
            return self._of(counters, place.predicates)
        decided = tuple(p for p in place.predicates if p.is_decided_by(counters))
        return replace(self._of(counters, decided), exact=False)

    def parting(self, step: Step) -> Parting:
        """What becomes of the warps at a guard, condition or loop. Raises Unknown, with the reason."""
        place, inside = step.place, step.inside
        if inside.opaque:
            raise Unknown(inside.opaque)
        counters = inside.counters
        own = inside.predicates[len(place.predicates) :]
        before = self._of(counters, place.predicates)
        taken = self._of(counters, inside.predicates)
        left = 0
        if own:
            (predicate,) = own  # a node adds one at most
            negated = replace(predicate, negated=not predicate.negated)
            left = self._of(counters, (*place.predicates, negated)).warps
        # A warp with lanes on both sides is counted on both.
        mixed = taken.warps + left - before.warps
        return Parting(taken.warps if isinstance(step.node, For) else before.warps, mixed, before.lanes, taken.lanes)

    def _of(self, counters: tuple[Counter, ...], predicates: tuple[Predicate, ...]) -> Tally:
        key = (counters, predicates)
        if key not in self.known:
            spot = _Spot(counters, predicates, integer(0), "")
            found = totals(spot, self.block, 1, 1, lambda _: _NOTHING)
            self.known[key] = Tally(found.warps, found.lanes)
        return self.known[key]
