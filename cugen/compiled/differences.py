"""What the compiler made of one access: the sites that its instructions carry out, and how they differ from the plan's.

Differences are named by their first word: merged, split, unrolled, chunked, hoisted, reused, repeated, joined, moved,
trimmed, predicated. What has no name is `unexplained`. Where no exact sites can be told, the reason stands in their
place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import sympy

from cugen.analysis.totals import infeasible
from cugen.analysis.totals.sites import THREAD, UNKNOWN_LANES, Counter, Site
from cugen.compiled import peeled_sites as placing
from cugen.compiled import reshaping
from cugen.compiled.addresses import Form
from cugen.compiled.matching import Matches, Placed, fills
from cugen.compiled.register_windows import Windows, used, windows
from cugen.compiled.sass import Instruction, Program
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For
from cugen.plan.symbols import FloorDiv, bounds, integer, symbol
from cugen.plan.walking import walk_nodes

_MOST_TRIPS = 4096  # of loops that are gone from the code; what is unrolled is short

Made = tuple[list[str], tuple[Site, ...] | None, str]  # changes, the sites as executed, why there are none
_Loops = tuple[tuple[Counter, ...], frozenset[sympy.Symbol]]


@dataclass(frozen=True)
class Code:
    """What of a kernel's code bears on more than one access.

    uneven: the counters, as `sites` names them, of the loops whose number of trips isn't a constant of the launch.
    open: the indices of those between whose ends the distance isn't one that compilers see.
    unrolled: the counters of the loops that the source asks to be unrolled whole.
    joined: the instructions that serve several accesses. pinned: by basic block, a store that runs wherever the block
    does. most: how many elements the instructions of one access move at most, by the loops round the access. forms: the
    addresses. windows: where the elements of an access go that are all kept in arrays in registers.
    """

    program: Program
    threads: tuple[int, int, int]
    uneven: tuple[str, ...]
    open: frozenset[sympy.Symbol]
    unrolled: tuple[str, ...]
    joined: tuple[Instruction, ...]
    pinned: Mapping[int, Site]
    most: Mapping[_Loops, int]
    forms: Mapping[int, Form]
    windows: Windows


def code_of(
    kernel: Kernel,
    params: Mapping[str, int],
    program: Program,
    forms: Mapping[int, Form],
    placed: Sequence[Placed],
    matches: Matches,
) -> Code:
    """The code of a kernel whose instructions have been matched."""
    pinned: dict[int, Site] = {}
    most: dict[_Loops, int] = {}
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    values = {symbol(name): integer(value) for name, value in params.items()}
    open_loops = frozenset(
        loop.index.symbol for loop in loops if not (loop.stop - loop.start).xreplace(values).is_Integer
    )
    for place, instructions in zip(placed, matches.instructions, strict=True):
        site = place.site
        around = _loops_round(site, open_loops)
        reading = [i for i in instructions if not fills(i)]
        most[around] = max(_copies(site, reading), most.get(around, 0))
        once = len(instructions) == 1 and not any(map(reshaping.is_loop, site.counters))
        if once and site.access.kind == "store" and not instructions[0].predicate and not site.opaque:
            pinned.setdefault(program.block_of(instructions[0]), site)
    uneven = _uneven_loops(kernel, params)
    unrolled = tuple(f"loop {number} {loop.index.name}" for number, loop in enumerate(loops) if loop.unroll)
    kept = windows(kernel, params)
    return Code(program, kernel.block, uneven, open_loops, unrolled, matches.joined, pinned, most, forms, kept)


def _loops_round(site: Site, open_loops: Collection[sympy.Symbol]) -> _Loops:
    """The loops round an access: those with a counter, and the open ones, even if they make a single trip."""
    return site.counters, frozenset(name for name in open_loops if name in site.definitions)


def _uneven_loops(kernel: Kernel, params: Mapping[str, int]) -> tuple[str, ...]:
    values = {symbol(name): integer(value) for name, value in params.items()}
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    found = []
    for number, loop in enumerate(loops):
        distance = (loop.stop - loop.start).xreplace(values)
        low, high = bounds(FloorDiv(distance + (loop.step - 1), integer(loop.step)), dict(kernel.ranges))
        found += [f"loop {number} {loop.index.name}"] if low != high else []
    return tuple(found)


def made_of(code: Code, site: Site, instructions: tuple[Instruction, ...]) -> Made:
    """What `instructions`, all those of an access, do."""
    if any(i in code.joined for i in instructions):
        return [], None, "joined: one instruction serves several accesses, whichever path a lane came by"
    program = code.program
    straight = all(program.loop_of(i) is None for i in instructions)
    moved = _moved(code, site, instructions) if straight else None
    site = moved or site
    live = _live(site) if straight else None
    if live is not None and (trimmed := _trimmed(code, site, live, instructions)) is not None:
        return trimmed
    copies = _copies(site, instructions)
    repeated: list[str] = []
    if not straight:
        site, repeated = _without_repeats(code, site, copies)
    changes, shaped, why = _widths(site, instructions)
    changes = [*repeated, *changes]
    if shaped is None:
        if _is_partly_used(code, site):
            why = "trimmed: nothing reads some of its elements; which of the others each instruction moves isn't told"
        return changes, None, why
    if moved:
        changes.append("moved: runs wherever the store behind it does, whatever the guards round it say")
    if copies > 1:
        changes.append(f"unrolled: {len(instructions)} instructions stand for {copies} trips")
    if guarded := sum(1 for i in instructions if i.predicate):
        changes.append(f"predicated: {guarded} of {len(instructions)}")
    live = _possible(code, site, live, copies) if live is not None else None
    if live is not None and shaped != (site,) and len(instructions) != sum(reshaping.trips(part) for part in shaped):
        why = f"merged: {len(instructions)} instructions for {len(live)} trips, in a way that isn't told"
        return changes, None, why
    if live is not None and len(live) != copies and not _beyond(site, shaped, copies, live):
        found, shaped, why = _other_trips(site, live, copies, code.uneven)
        return [*changes, *found], shaped, why
    if not straight and not repeated and copies < code.most[_loops_round(site, code.open)]:
        return (
            changes,
            None,
            "reused: it stands in fewer trips than its neighbours, so others' registers have its values",
        )
    if not straight and not _adds_up(code, site, instructions):
        return changes, None, "reused: its instructions don't make up its trips, so registers have the rest"
    loops = reshaping.lane_loops(site, code.uneven, code.threads)
    if loops and copies > 1 and (live is None or len(live) != copies):
        sizes = _chunks(program, instructions)
        if len(loops) > 1:
            return changes, None, f"chunked: {sizes} trips at once inside another loop in which lanes part"
        try:
            shaped = tuple(piece for part in shaped for piece in reshaping.chunked(part, sizes))
        except ValueError as unknown:
            return changes, None, f"unexplained: {unknown}"
        listed = ", ".join(map(str, sizes))
        changes.append(f"chunked: {listed} trips at once, though lanes differ in how many they make")
    return changes, shaped, ""


def _without_repeats(code: Code, site: Site, copies: int) -> tuple[Site, list[str]]:
    """The site without the unrolled loops in whose every trip it moves the same element, where its instructions are
    as many as those of the other loops: it is loaded once."""
    unrolled = [counter for counter in site.counters if str(counter.symbol) in code.unrolled]
    moving = site.offset.free_symbols | reshaping.symbols_of(site.predicates)
    same = [counter for counter in unrolled if counter.symbol not in moving]
    trips = prod(counter.count for counter in unrolled if counter not in same)
    if not same or copies != trips:
        return site, []
    names = ", ".join(str(counter.symbol).rpartition(" ")[2] for counter in same)
    kept = tuple(counter for counter in site.counters if counter not in same)
    return replace(site, counters=kept), [f"reused: one element for every {names}"]


def _copies(site: Site, instructions: Sequence[Instruction]) -> int:
    """How many accesses of the source the instructions are worth."""
    return max(1, sum(i.bytes for i in instructions) // (site.access.array.dtype.bytes * site.access.width))


def _adds_up(code: Code, site: Site, instructions: Sequence[Instruction]) -> bool:
    """Whether some number of rounds through the code's loop gives as many trips as the plan's loops make: 513 trips are
    13 ahead of the loop and 5 rounds of 100. True where loops are nested, may end inside a round, run in chunks, or
    make other trips in other places."""
    looped = [i for i in instructions if code.program.loop_of(i) is not None]
    spans = {code.program.loop_of(i) for i in looped}
    enclosing = [s for s in code.program.loops if s[0] <= looped[0].address <= s[1]]
    blocks = {code.program.block_of(i) for i in looped}
    if len(spans) > 1 or len(enclosing) > 1 or len(blocks) > 1 or reshaping.symbols_of(site.predicates) & _loops(site):
        return True
    inside = _copies(site, looped)
    left = reshaping.trips(site) - (_copies(site, instructions) - inside if len(looped) < len(instructions) else 0)
    return (left >= inside and left % inside == 0) or _in_chunks(code, site, instructions)


def _in_chunks(code: Code, site: Site, instructions: Sequence[Instruction]) -> bool:
    """Whether an open loop runs in chunks, each trip with elements of its own: registers that had some would have to be
    as many as its trips, which the compiler doesn't know."""
    loops = [counter for counter in site.counters if reshaping.is_loop(counter)]
    names = {str(name) for name in code.open}
    last = max((n for n, c in enumerate(loops) if str(c.symbol).rpartition(" ")[2] in names), default=None)
    if last is None:
        return False
    inner = [counter.count for counter in loops[last + 1 :]]
    blocks: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        blocks.setdefault(code.program.block_of(instruction), []).append(instruction)
    moved = [_copies(site, block) for block in blocks.values()]
    sizes = [count // prod(inner) for count in moved]
    if any(count % prod(inner) for count in moved) or not reshaping.is_chain(sizes):
        return False
    trips = product(range(max(sizes)), *map(range, inner))
    found = [
        sympy.expand(site.offset.xreplace({c.symbol: integer(v) for c, v in zip(loops[last:], at, strict=True)}))
        + element
        for at in trips
        for element in range(site.access.width)
    ]
    return len(set(found)) == len(found)


def _moved(code: Code, site: Site, instructions: Sequence[Instruction]) -> Site | None:
    """The site under the guards of the store that stands in the same block; None where its own are the same.

    A block runs as a whole, and a store runs only where the source says."""
    blocks = {code.program.block_of(i) for i in instructions}
    store = code.pinned.get(min(blocks))
    guarded = any(i.predicate for i in instructions) or reshaping.symbols_of(site.predicates) & _loops(site)
    if store is None or len(blocks) > 1 or guarded or (site.opaque and site.opaque not in UNKNOWN_LANES):
        return None
    if site.predicates == store.predicates and not site.opaque:
        return None
    return replace(site, predicates=store.predicates, opaque="")


def _loops(site: Site) -> frozenset[sympy.Symbol]:
    return frozenset(c.symbol for c in site.counters if reshaping.is_loop(c))


def _widths(site: Site, instructions: Sequence[Instruction]) -> Made:
    """The site in the widths of its instructions."""
    written = site.access.array.dtype.bytes * site.access.width
    widths = sorted({i.bytes for i in instructions}, reverse=True)
    if widths[-1] < written:
        if len(widths) > 1:
            return [], None, f"unexplained: {written} bytes in instructions of {widths}"
        parts = written // widths[0]
        return [f"split: {written} bytes in {parts} instructions of {widths[0]}"], reshaping.narrowed(site, parts), ""
    if widths[0] == written:
        return [], (site,), ""
    factor = widths[0] // written
    changes = [f"merged: {factor} trips of a loop in one instruction of {widths[0]} bytes"]
    merged = reshaping.widened(site, [width // written for width in widths])
    if merged is None:
        return changes, None, f"unexplained: no loop moves it by {written} bytes in each trip"
    return changes, merged, ""


def _live(site: Site) -> list[dict[sympy.Symbol, int]] | None:
    """The values of the loops' counters for which nothing but the lane's place holds the access back: what is left of
    loops that are gone from the code. None where they are too many to be gone."""
    loops = [c for c in site.counters if reshaping.is_loop(c)]
    total = 1
    for counter in loops:
        total *= counter.count
    if total > _MOST_TRIPS:
        return None
    names = {c.symbol for c in loops}
    fixed = [p for p in site.predicates if p.terms and all(t.free_symbols <= names for t, _ in p.terms)]
    found = []
    for values in product(*(range(c.count) for c in loops)):
        at = dict(zip((c.symbol for c in loops), values, strict=True))
        if all(reshaping.holds(predicate, at) for predicate in fixed):
            found.append(at)
    return found


def _possible(
    code: Code, site: Site, live: list[dict[sympy.Symbol, int]], copies: int
) -> list[dict[sympy.Symbol, int]]:
    """The trips without those whose guards never hold, where there are instructions for just the others: what never
    runs counts nothing either way. No trip of an asynchronous copy that may run is without an instruction, so that
    those beyond are of trips that never run."""
    if copies >= len(live):
        return live
    ranges = {c.symbol: (0, c.count - 1) for c in site.counters}
    ranges.update({t: (0, size - 1) for t, size in zip(THREAD, code.threads, strict=True)})
    never = [at for at in live if infeasible.are_infeasible(reshaping.fixed(site, at).predicates, ranges)]
    left = [at for at in live if at not in never]
    copied = site.copy_target is not None or site.access.kind == "async_copy"
    return (left + never)[:copies] if len(left) == copies or (copied and len(left) < copies) else live


def _trimmed(
    code: Code, site: Site, live: Sequence[Mapping[sympy.Symbol, int]], instructions: Sequence[Instruction]
) -> Made | None:
    """What is made of an access some of whose elements nothing reads; None where all are read, or it can't be told
    which of them its instructions move."""
    kept = code.windows.get(id(site.access))
    if kept is None or site.opaque or site.access.kind != "load":
        return None
    wanted = [used(site, at, kept) for at in live]
    total, count = len(live) * site.access.width, sum(map(len, wanted))
    if count == total:
        return None
    shaped = placing.whole_trips(site, live, wanted, instructions)
    if shaped is None:
        shaped = placing.addressed(site, live, wanted, instructions, code.forms, code.threads)
    if shaped is None:
        return None
    changes = [f"trimmed: {count} of {total} elements are used"]
    if guarded := sum(1 for i in instructions if i.predicate):
        changes.append(f"predicated: {guarded} of {len(instructions)}")
    return changes, shaped, ""


def _is_partly_used(code: Code, site: Site) -> bool:
    """Whether nothing reads some of the elements of the access, in some of its trips through loops that are gone."""
    kept = code.windows.get(id(site.access))
    if kept is None:
        return False
    unrolled = [counter for counter in site.counters if str(counter.symbol) in code.unrolled]
    trips = product(*(range(counter.count) for counter in unrolled))
    names = [counter.symbol for counter in unrolled]
    return any(len(used(site, dict(zip(names, at, strict=True)), kept)) < site.access.width for at in trips)


def _beyond(site: Site, shaped: tuple[Site, ...], copies: int, live: Sequence[Mapping[sympy.Symbol, int]]) -> bool:
    """Whether wide instructions move more than is asked for, since the first or the last one isn't full."""
    width = max(piece.access.width for piece in shaped)
    return width > site.access.width and len(live) < copies < len(live) + 2 * width


def _other_trips(site: Site, live: list[dict[sympy.Symbol, int]], copies: int, uneven: Collection[str]) -> Made:
    """Straight code with more or fewer instructions than trips."""
    trips = len(live)
    if copies > trips:
        return (
            [],
            None,
            f"repeated: {copies} instructions on several paths for {trips} trips; lanes that part run apart",
        )
    places = dict.fromkeys(site.offset.xreplace(at) for at in live)
    if len(places) == copies == 1 and (hoisted := reshaping.at_first_trip(site, uneven)) is not None:
        return [f"hoisted: read once for {trips} trips"], (hoisted,), ""
    bound = {s for at in live[:1] for s in at} & reshaping.symbols_of(site.predicates)
    if len(places) == copies and not bound and site.access.width == 1:
        once = {site.offset.xreplace(at): at for at in reversed(live)}
        return (
            [f"reused: {copies} places for {trips} trips"],
            tuple(reshaping.fixed(site, at) for at in once.values()),
            "",
        )
    return [], None, f"reused: {trips - copies} of {trips} trips find their value in a register; which isn't told"


def _chunks(program: Program, instructions: Sequence[Instruction]) -> list[int]:
    """How many instructions stand in each basic block, in the order of the code."""
    blocks: dict[int, int] = {}
    for instruction in instructions:
        start = program.block_of(instruction)
        blocks[start] = blocks.get(start, 0) + 1
    return list(blocks.values())
