"""The parts of a row by where they wait between sweeps, and the loops over a thread's elements in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.rowwise.passes.schedule import Sweep
from cugen.plan import usage
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Loop, Node
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Local, walk

_SIDE_BY_SIDE = 4  # loads in flight of what isn't held in registers
REGISTERS, SHARED, MEMORY = "registers", "shared memory", "memory"


@dataclass(frozen=True, slots=True)
class Tier:
    """The accesses of each thread from number `start` on: `slots` of them, or in memory all up to the row's end.

    `sweeps` are those of this part: what is at hand, and what is kept, depends on where it waits. What waits
    `as_computed` has its compute type, also where it is only read."""

    place: str
    start: int
    slots: int
    sweeps: tuple[Sweep, ...]
    as_computed: bool = False

    @property
    def is_kept(self) -> bool:
        return self.place != MEMORY


@dataclass(frozen=True, slots=True)
class Segment:
    """Slots of a tier from `start` on, below `stop`; some of what `is_guarded` may lie beyond the row's end."""

    tier: Tier
    start: int
    stop: int
    is_guarded: bool

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def is_straight(self) -> bool:
        """Whether what is done there stands among the row's own nodes, neither in a loop nor in a choice."""
        return self.tier.is_kept and self.count == 1 and not self.is_guarded


def segments(tier: Tier, stride: int, shortest: int, longest: int) -> Iterator[Segment]:
    """The tier cut where elements may begin to lie beyond the end of a row of `shortest` to `longest`."""
    if not tier.is_kept:
        yield Segment(tier, 0, 0, is_guarded=False)
        return
    full = max(min(shortest // stride - tier.start, tier.slots), 0)
    if full == tier.slots or (full < 2 and tier.slots > 1) or full == 0:
        yield Segment(tier, 0, tier.slots, is_guarded=full < tier.slots)
        return
    yield Segment(tier, 0, full, is_guarded=False)
    yield Segment(tier, full, tier.slots, is_guarded=True)


@dataclass(frozen=True, slots=True)
class Places:
    """How elements are numbered: `first` is the index of the first of the thread's neighbours in the row, `slot` the
    loop's variable over slots; `lane` elements lie before the thread's in each `stride`."""

    first: Index
    slot: Integer
    lane: Integer
    stride: int
    extent: Integer

    def slot_of(self, segment: Segment) -> Integer:
        return integer(segment.start) if segment.count == 1 else self.slot

    def start_of(self, segment: Segment) -> Integer:
        """The first element of the slot that is walked, or in memory of the thread's first access."""
        slot = self.slot_of(segment) if segment.tier.is_kept else integer(0)
        return self.lane + (slot + segment.tier.start) * self.stride

    def around(self, segment: Segment, body: tuple[Node, ...], terms: tuple[Comparison, ...]) -> tuple[Node, ...]:
        """The body with its loop and its place in the row, where the `terms` hold."""
        start = self.start_of(segment)
        if not segment.tier.is_kept:
            return _where(terms, (For(Loop(self.first, start, self.extent, self.stride), body),))
        define = (Define(Index(self.first.name, start, self.first.range)),) if _mentions(body, self.first) else ()
        if segment.count == 1:
            terms = (Comparison(start, "<", self.extent), *terms) if segment.is_guarded else terms
            return _where(terms, (*define, *body))
        if segment.is_guarded:
            define = (Define(Index(self.first.name, start, self.first.range)),)
            body = _where((Comparison(self.first.symbol, "<", self.extent),), body)
        slots = Index(str(self.slot), integer(segment.start), (segment.start, segment.stop - 1))
        start_, stop = integer(segment.start), integer(segment.stop)
        if segment.tier.place == REGISTERS:
            loop = Loop(slots, start_, stop, unroll=True)
        else:
            loop = Loop(slots, start_, stop, unroll_by=_SIDE_BY_SIDE)
        return _where(terms, (For(loop, (*define, *body)),))


def _where(terms: tuple[Comparison, ...], nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return (If(Guard(terms), nodes),) if terms else nodes


def _mentions(nodes: tuple[Node, ...], index: Index) -> bool:
    leaves = (leaf for value in usage.values(nodes) for leaf in walk(value))
    return index.symbol in usage.free_symbols(nodes) or any(
        isinstance(leaf, Local) and leaf.name == index.name for leaf in leaves
    )
