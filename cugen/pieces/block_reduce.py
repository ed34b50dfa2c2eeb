"""How the threads of a team combine their running values: shuffles in a warp, shared memory between warps.

For any family whose threads share a reduction:

    team = Team(threads, lane)                 # 8 threads: a segment of a warp; 256: eight warps
    runs = (Running("max", largest), Running("argmax", place, extreme=best))
    nodes = combine_team(team, runs, lowering, everywhere=True)

`combine_team(team, runs, lowering, *, everywhere, again=False) -> tuple[Node, ...]`: afterwards the locals of `runs`
hold the results of the whole team, the same bits in all lanes and in every run. All threads of every team of the block
must get there: no barrier may be missed, so a thread without work has the identity, and doesn't return.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine, identity
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import Assign, Barrier, Comparison, Declare, For, Guard, If, Index, Let, Loop, Node, Store
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.expressions import Const, Expr, Local, Op
from cugen.spec.types import BOOL, INT64

WARP = 32


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that share a result: 2 .. 32 lanes of a warp, a power of two, or whole warps, up to 1024 threads.

    `lane` is the thread's number in its team, along x; `teams` of them lie in a block along y, this one is `number`.
    """

    threads: int
    lane: Integer
    teams: int = 1
    number: Integer = sympy.S.Zero

    @property
    def warps(self) -> int:
        """The warps of a team, 1 where several teams share one."""
        return max(self.threads // WARP, 1)


@dataclass(frozen=True, slots=True)
class Running:
    """A thread's share of a reduction: the mutable local `value`, and for argmax and argmin, where `value` is the place
    (-1 for none), the element there as `extreme`: what max and min would yield."""

    kind: str
    value: Local
    extreme: Local | None = None

    @property
    def locals(self) -> tuple[Local, ...]:
        return (self.value,) if self.extreme is None else (self.value, self.extreme)


def first_values(run: Running) -> tuple[Node, ...]:
    """The declarations of its locals, with what nothing reduces to."""
    return tuple(Let(local, start, mutable=True) for local, start in zip(run.locals, _identities(run), strict=True))


def start_again(run: Running) -> tuple[Node, ...]:
    """The same for locals that are declared."""
    return tuple(Assign(local, start) for local, start in zip(run.locals, _identities(run), strict=True))


def combine_team(
    team: Team, runs: Sequence[Running], lowering: Lowering, *, everywhere: bool, again: bool = False
) -> tuple[Node, ...]:
    """All results of the team, with one barrier for however many of them.

    `everywhere`: in all of its threads; else surely in those of its first warp. `again`: the nodes are run once more
    before any other barrier of the block, so one closes them.
    """
    others = [_others(run, lowering) for run in runs]
    lanes = _butterfly(min(team.threads, WARP), runs, others, lowering)
    if team.warps == 1:
        return lanes
    shared = [[_results(local, team, lowering) for local in run.locals] for run in runs]
    lane, warp = Mod(team.lane, integer(WARP)), FloorDiv(team.lane, integer(WARP))
    mine = tuple(
        Store(Access(array, (team.number, warp)[-len(array.shape) :], "store"), local)
        for run, arrays in zip(runs, shared, strict=True)
        for local, array in zip(run.locals, arrays, strict=True)
    )
    gathered = (
        *(node for run, arrays in zip(runs, shared, strict=True) for node in _gather(run, arrays, team, lane)),
        *_butterfly(1 << (team.warps - 1).bit_length(), runs, others, lowering),
    )
    in_first = Guard((Comparison(team.lane, "<", integer(WARP)),))
    return (
        *lanes,
        *(Declare(array) for arrays in shared for array in arrays),
        If(Guard((Comparison(lane, "==", integer(0)),)), mine),
        Barrier(),
        *(gathered if everywhere else (If(in_first, gathered),)),
        *((Barrier(),) if again else ()),
    )


def merge(run: Running, others: Sequence[Expr]) -> tuple[Node, ...]:
    """Takes another share into a running one: the values of its locals, in their order."""
    if run.extreme is None:
        return (Assign(run.value, combine(run.kind, run.value, others[0])),)
    place, extreme = others
    taken = (Assign(run.value, place), Assign(run.extreme, extreme))
    return (If(_goes_before(run.kind, (place, extreme), (run.value, run.extreme)), taken),)


def _identities(run: Running) -> tuple[Const, ...]:
    if run.extreme is None:
        return (identity(run.kind, run.value.dtype),)
    return Const(-1, INT64), identity(run.kind.removeprefix("arg"), run.extreme.dtype)


def _others(run: Running, lowering: Lowering) -> tuple[Local, ...]:
    """Names for the place and the value of another lane, which a choice mentions more than once."""
    if run.extreme is None:
        return ()
    return tuple(Local(lowering.names.allocate(f"other_{local.name}"), local.dtype) for local in run.locals)


def _butterfly(
    lanes: int, runs: Sequence[Running], others: Sequence[tuple[Local, ...]], lowering: Lowering
) -> tuple[Node, ...]:
    """Lanes exchange values with ever nearer ones: afterwards each has taken in all others."""
    if lanes == 1:
        return ()
    distance = _lanes_index(lowering)
    body: list[Node] = []
    for run, names in zip(runs, others, strict=True):
        shuffled = [Shuffled(local.name, local.dtype, distance.symbol) for local in run.locals]
        body += [Let(name, value) for name, value in zip(names, shuffled, strict=False)]
        if run.kind in ("any", "all"):
            # C may skip the right side of `||` and `&&`; all lanes take part in a shuffle.
            body.append(Assign(run.value, combine(run.kind, shuffled[0], run.value)))
        else:
            body += merge(run, names or shuffled)
    trips = integer(lanes.bit_length() - 1)
    return (For(Loop(distance, integer(0), trips, unroll=True, halves=lanes // 2), tuple(body)),)


def _lanes_index(lowering: Lowering) -> Index:
    """How far apart lanes are that exchange values; loops side by side share the name."""
    values = (0, WARP - 1)
    name = lowering.loops.get(("lanes", values)) or lowering.names.allocate("lanes")
    lowering.loops["lanes", values] = name
    lowering.ranges[symbol(name)] = values
    return Index(name, integer(0), values)


def _results(local: Local, team: Team, lowering: Lowering) -> Array:
    """A place for the result of each warp."""
    name = lowering.names.allocate(f"warp_{local.name}")
    sizes = (team.teams, team.warps) if team.teams > 1 else (team.warps,)
    shape = tuple(integer(size) for size in sizes)
    strides = (integer(team.warps), integer(1))[-len(sizes) :]
    return Array("", name, local.dtype, shape, strides, "shared", flat=False)


def _gather(run: Running, arrays: Sequence[Array], team: Team, lane: Integer) -> Iterator[Node]:
    """Each lane takes the result of one warp; those beyond the last have nothing."""
    is_full = team.warps & (team.warps - 1) == 0
    place = Mod(team.lane, integer(team.warps)) if is_full else lane
    for local, array, nothing in zip(run.locals, arrays, _identities(run), strict=True):
        element = Element.of(Access(array, (team.number, place)[-len(array.shape) :], "load"))
        if is_full:
            yield Assign(local, element)
        else:
            has_one = Guard((Comparison(lane, "<", integer(team.warps)),))
            yield If(has_one, (Assign(local, element),), (Assign(local, nothing),))


def _goes_before(kind: str, first: tuple[Expr, Expr], second: tuple[Expr, Expr]) -> Expr:
    """Whether the first pair of place and value wins: the better value, a NaN before all, else the earlier place."""
    (place, value), (own_place, own) = first, second
    better = _op("gt" if kind == "argmax" else "lt", value, own)
    alike = _op("eq", value, own)
    if value.dtype.is_float:
        nan, own_nan = _op("ne", value, value), _op("ne", own, own)
        better = _op("or", better, _op("and", nan, _op("not", own_nan)))
        alike = _op("or", alike, _op("and", nan, own_nan))
    earlier = _op("and", alike, _op("lt", place, own_place))
    nothing_yet = _op("lt", own_place, Const(0, INT64))
    is_one = _op("ge", place, Const(0, INT64))
    return _op("and", is_one, _op("or", nothing_yet, _op("or", better, earlier)))


def _op(name: str, *args: Expr) -> Op:
    return Op(name, args, BOOL)
