"""Reductions across a thread group: warp shuffles, then shared memory between warps.

    group = ThreadGroup(threads, lane)         # 8 threads: a segment of a warp; 256: eight warps
    accumulators = (Accumulator("max", largest), Accumulator("argmax", position, extreme=best))
    nodes = reduce_group(group, accumulators, lowering, everywhere=True)

Afterwards the locals of `accumulators` hold the group's results, bitwise the same in all lanes and in every run. The
nodes contain a barrier if a group spans warps: threads without elements hold the identity and must not return early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sympy

from cugen.pieces.blocks import power_of_two
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine, identity, takes_precedence
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import Assign, Barrier, Declare, For, If, Let, Loop, Node, Section, Store, when
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.plan.traversal.sections import dissolved
from cugen.spec.expressions import Const, Expr, Local, Op, Reduce
from cugen.spec.types import BOOL, INT64

WARP = 32


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """Threads that reduce together: 2 … 32 lanes of a warp (a power of two), or whole warps, up to 1024 threads.

    `lane` is the thread's number in its group, along x; `number` the group's among `groups` of the block, along y."""

    threads: int
    lane: Integer
    groups: int = 1
    number: Integer = sympy.S.Zero

    @property
    def warps(self) -> int:
        """Warps per group; 1 for a segment of a warp."""
        return max(self.threads // WARP, 1)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A thread's partial result in the mutable local `value`.

    For argmax and argmin, `value` is the position (-1: none yet) and `extreme` the element there. `first` is the
    position of the thread's first element, where it has one for certain; the accumulator begins there."""

    kind: str
    value: Local
    extreme: Local | None = None
    first: Expr | None = None

    @property
    def locals(self) -> tuple[Local, ...]:
        return (self.value,) if self.extreme is None else (self.value, self.extreme)

    @property
    def identities(self) -> tuple[Expr, ...]:
        """What the locals hold before the first element."""
        if self.extreme is None:
            return (identity(self.kind, self.value.dtype),)
        return self.first or Const(-1, INT64), identity(self.kind.removeprefix("arg"), self.extreme.dtype)


def partial_bytes(reductions: Iterable[Reduce]) -> int:
    return sum(r.dtype.bytes + (r.body.dtype.bytes if r.is_position else 0) for r in reductions)


def declare_accumulator(accumulator: Accumulator) -> tuple[Node, ...]:
    """Declares the locals, initialised with the identity."""
    pairs = zip(accumulator.locals, accumulator.identities, strict=True)
    return tuple(Let(local, start, mutable=True) for local, start in pairs)


class SharedPartials:
    """Partial results of accumulators in shared memory: an array of `sizes` for each local."""

    def __init__(
        self,
        accumulators: Sequence[Accumulator],
        name_hint: Callable[[Local], str],
        sizes: tuple[int, ...],
        lowering: Lowering,
    ) -> None:
        def array(local: Local) -> Array:
            return dense_array(lowering.names.allocate(name_hint(local)), local.dtype, sizes, "shared")

        self.pairs = [(accumulator, [array(local) for local in accumulator.locals]) for accumulator in accumulators]
        self.lowering = lowering

    def declare(self) -> Section:
        return Section("declare_partials", tuple(Declare(array) for _, array in self.arrays))

    @property
    def arrays(self) -> list[tuple[Local, Array]]:
        """Each local with its array."""
        return [pair for accumulator, arrays in self.pairs for pair in zip(accumulator.locals, arrays, strict=True)]

    def stores(self, subscripts: tuple[Integer, ...], rank: Integer | None = None) -> tuple[Node, ...]:
        """Stores the accumulators, with a `rank` in the memory of that block of the cluster."""
        return tuple(Store(Access(array, subscripts, "store", rank=rank), local) for local, array in self.arrays)

    def combine_in_order(
        self, stores: tuple[Node, ...], barrier: Node, loop: Loop, element: Callable[[Integer], tuple[Integer, ...]]
    ) -> tuple[Section, ...]:
        """The sections that store the partial results, load the first after a barrier and merge the others in a loop;
        `element` gives the subscripts of a partial result by its number."""
        first, number = element(integer(0)), element(loop.index.symbol)
        merges: list[Node] = []
        for accumulator, arrays in self.pairs:
            others = [Element.of(Access(array, number, "load")) for array in arrays]
            merges += merge_named(accumulator, others, self.lowering)
        loads = (Assign(local, Element.of(Access(array, first, "load"))) for local, array in self.arrays)
        return (
            self.declare(),
            Section("store_partials", stores),
            Section("partials_stored", (barrier,)),
            Section("first_partial", tuple(loads)),
            Section("other_partials", (For(loop, (Section("merge", tuple(merges)),)),)),
        )


def reduce_group(
    group: ThreadGroup, accumulators: Sequence[Accumulator], lowering: Lowering, *, everywhere: bool
) -> tuple[Node, ...]:
    """Reduces every accumulator over the group, with one barrier for all of them.

    `everywhere`: the results reach all threads of the group, not only those of its first warp."""
    return dissolved(group_reduction(group, accumulators, lowering, everywhere=everywhere).body)


def group_reduction(
    group: ThreadGroup, accumulators: Sequence[Accumulator], lowering: Lowering, *, everywhere: bool
) -> SectionGroup:
    """The sections of templates/macros/block_reduction.cu.j2; a segment of a warp has none for shared partials."""
    partners = [[] if accumulator.extreme is None else _others(accumulator, lowering) for accumulator in accumulators]
    lanes = _butterfly(min(group.threads, WARP), accumulators, partners, lowering)
    if group.warps == 1:
        return SectionGroup("reduction", (Section("warp_shuffles", lanes),))
    sizes = (group.groups, group.warps) if group.groups > 1 else (group.warps,)
    partials = SharedPartials(accumulators, lambda local: f"warp_{local.name}", sizes, lowering)
    lane, warp = Mod(group.lane, integer(WARP)), FloorDiv(group.lane, integer(WARP))
    store_partials = partials.stores((group.number, warp)[-len(sizes) :])
    loading = lane if everywhere else group.lane  # of the first warp otherwise
    load_partials = tuple(
        node for accumulator, arrays in partials.pairs for node in _load_partials(accumulator, arrays, group, loading)
    )
    reduce_partials = _butterfly(power_of_two(group.warps), accumulators, partners, lowering)
    load = Section("load_partials", load_partials)
    if everywhere:
        totals: tuple[Section, ...] = (load, Section("reduce_partials", reduce_partials))
    else:
        of_first_warp = when(group.lane, "<", integer(WARP), (load, Section("warp_shuffles", reduce_partials)))
        totals = (Section("first_warp", (of_first_warp,)),)
    return SectionGroup(
        "reduction",
        (
            Section("warp_shuffles", lanes),
            partials.declare(),
            Section("store_partials", (when(lane, "==", integer(0), store_partials),)),
            Section("partials_stored", (Barrier(),)),
            *totals,
        ),
    )


def new_accumulator(name: str, reduction: Reduce, lowering: Lowering) -> Accumulator:
    """An accumulator of a reduction, under an allocated name; it is not yet declared."""
    value = Local(name, reduction.dtype)
    if not reduction.is_position:
        return Accumulator(reduction.kind, value)
    extreme = lowering.names.allocate("largest" if reduction.kind == "argmax" else "smallest")
    return Accumulator(reduction.kind, value, Local(extreme, reduction.body.dtype))


def merge(accumulator: Accumulator, partial: Sequence[Expr]) -> tuple[Node, ...]:
    """Combines another partial result (one value per local, in their order) into an accumulator."""
    if accumulator.extreme is None:
        return (Assign(accumulator.value, combine(accumulator.kind, accumulator.value, partial[0])),)
    position, extreme = partial
    update = (Assign(accumulator.value, position), Assign(accumulator.extreme, extreme))
    wins = takes_precedence(accumulator.kind, (position, extreme), (accumulator.value, accumulator.extreme))
    if accumulator.first is None:
        none_yet = _op("lt", accumulator.value, Const(0, INT64))
        exists = _op("ge", position, Const(0, INT64))
        wins = _op("and", exists, _op("or", none_yet, wins))
    return (If(wins, update),)


def merge_named(accumulator: Accumulator, partial: Sequence[Local], lowering: Lowering) -> Iterator[Node]:
    """As `merge`, with values that are named first where a select uses them twice, or where `||` could skip them."""
    if accumulator.extreme is not None or accumulator.kind in ("any", "all"):
        names = _others(accumulator, lowering)
        yield from (Let(name, value) for name, value in zip(names, partial, strict=True))
        partial = names
    yield from merge(accumulator, partial)


def _others(accumulator: Accumulator, lowering: Lowering) -> list[Local]:
    """Locals for another partial result, which the comparison of extremes mentions more than once."""
    return [Local(lowering.names.allocate(f"other_{local.name}"), local.dtype) for local in accumulator.locals]


def _butterfly(
    lanes: int, accumulators: Sequence[Accumulator], partners: Sequence[Sequence[Local]], lowering: Lowering
) -> tuple[Node, ...]:
    """A butterfly (xor) shuffle reduction over `lanes` lanes; every lane ends with the result."""
    if lanes == 1:
        return ()
    index = shared_loop_variable("lanes", (0, WARP - 1), lowering) if lanes > 2 else None
    distance = integer(1) if index is None else index.symbol
    body: list[Node] = []
    for accumulator, names in zip(accumulators, partners, strict=True):
        shuffled = [Shuffled(local.name, local.dtype, distance) for local in accumulator.locals]
        body += [Let(name, value) for name, value in zip(names, shuffled, strict=False)]
        if accumulator.kind in ("any", "all"):
            # `||` and `&&` may skip their right operand, but every lane must execute the shuffle.
            body.append(Assign(accumulator.value, combine(accumulator.kind, shuffled[0], accumulator.value)))
        else:
            body += merge(accumulator, names or shuffled)
    if index is None:
        return tuple(body)
    trips = integer(lanes.bit_length() - 1)
    return (For(Loop(index, integer(0), trips, unroll=True, halves=lanes // 2), tuple(body)),)


def _load_partials(
    accumulator: Accumulator, arrays: Sequence[Array], group: ThreadGroup, lane: Integer
) -> Iterator[Node]:
    """Each lane loads one warp's partial; lanes past the last warp take the identity."""
    is_power_of_two = group.warps == power_of_two(group.warps)
    warp = Mod(group.lane, integer(group.warps)) if is_power_of_two and group.warps < WARP else lane
    for local, array, start in zip(accumulator.locals, arrays, accumulator.identities, strict=True):
        element = Element.of(Access(array, (group.number, warp)[-len(array.shape) :], "load"))
        if is_power_of_two:
            yield Assign(local, element)
        else:
            yield when(lane, "<", integer(group.warps), (Assign(local, element),), (Assign(local, start),))


def _op(name: str, *args: Expr) -> Op:
    return Op(name, args, BOOL)
