"""Compiler transformations of one access: the sites that its instructions implement, against those of the plan.

Transformations are named by their first word: vectorised, split, unrolled, partially unrolled, hoisted, reused,
duplicated, merged, joined, speculated, eliminated, predicated. Others are `unexplained`. Without exact sites there is
a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import sympy

from cugen.analysis.totals import infeasible
from cugen.analysis.totals.sites import THREAD, UNKNOWN_LANES, Site, data_dependence
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.transformations import transformed_sites, unrolled_trips
from cugen.compiled.transformations.code import Code, copies_of, loops_round
from cugen.compiled.transformations.live_elements import live_elements
from cugen.plan.symbols import integer

SOME_TRIPS = "eliminated: the values are unused or in registers already, of"
_MAX_UNROLLED_TRIPS = 4096  # trips of unrolled loops enumerated for one access (heuristic: bounds the run time)

Transformed = tuple[list[str], tuple[Site, ...] | None, str]  # changes, sites as executed (None: unknown), reason


def transformations(code: Code, site: Site, instructions: tuple[Instruction, ...]) -> Transformed:
    """Transformed sites of an access, given all its instructions."""
    if any(i in code.merged for i in instructions):
        return [], None, "merged: one instruction serves several accesses on different paths (tail merging)"
    program = code.program
    straight = all(program.loop_of(i) is None for i in instructions)
    speculated = _speculated(code, site, instructions) if straight else None
    if straight and not speculated and _is_sunk(code, site, instructions):
        return [], None, "sunk: it runs under the conditions of its uses, or of some, not under its own alone"
    site = speculated or site
    live = _unrolled_trips_of(site) if straight else None
    if live is not None and (eliminated := _partly_eliminated(code, site, live, instructions)) is not None:
        return eliminated
    copies = copies_of(site, instructions)
    site, repeated = _without_register_reuse(code, site, copies, straight)
    if repeated and straight:
        live = _unrolled_trips_of(site)
    changes, executed, why = _widths(site, instructions)
    changes = [*repeated, *changes]
    if executed is None:
        if _is_partly_used(code, site):
            why = "eliminated: some elements are unused (dead-code eliminated); which ones remain is unknown"
        elif joined := _joined_by(code, site, instructions):
            return [], None, f"joined: one wide instruction serves it and {joined} of the elements beside it"
        return changes, None, why
    if speculated:
        changes.append("speculated: runs under the guards of the store in its block, not under its own")
    if copies > 1:
        changes.append(f"unrolled: {len(instructions)} instructions for {copies} trips")
    if guarded := sum(1 for i in instructions if i.predicate):
        changes.append(f"predicated: {guarded} of {len(instructions)}")
    live = _feasible_trips(code, site, live, copies) if live is not None else None
    if (
        live is not None
        and executed != (site,)
        and len(instructions) != sum(transformed_sites.trips(part) for part in executed)
    ):
        why = f"vectorised: {len(instructions)} instructions for {len(live)} trips, in an unknown way"
        return changes, None, why
    if live is not None and len(live) != copies and not _overruns(site, executed, copies, live):
        trip_changes, others, why = _other_trips(site, live, copies, code.uneven)
        if others is None and executed == (site,) and _are_any_trips(code, site, live, instructions):
            trip_changes = [f"{SOME_TRIPS} {len(live) - copies} of {len(live)} trips"]
            others = (unrolled_trips.any_trips(site, live, copies, code.total),)
        return [*changes, *trip_changes], others, why
    may_reuse = not straight and not repeated and not _is_copy(site)
    if may_reuse and copies < code.max_elements[loops_round(site, code.open)]:
        return (
            changes,
            None,
            "reused: it has fewer trips than adjacent accesses, so its values are in registers already",
        )
    if not straight and (copies < _needed_copies(code, site) or not _adds_up(code, site, instructions)):
        return changes, None, "reused: its instructions don't make up its trips; other values are in registers"
    loops = transformed_sites.divergent_loops(site, code.uneven, code.threads)
    if loops and copies > 1 and (live is None or len(live) != copies):
        sizes = _chunks(program, instructions)
        if len(loops) > 1:
            return changes, None, f"partially unrolled: {sizes} trips at once inside another divergent loop"
        try:
            executed = tuple(chunk for part in executed for chunk in transformed_sites.partially_unrolled(part, sizes))
        except ValueError as unknown:
            return changes, None, f"unexplained: {unknown}"
        listed = ", ".join(map(str, sizes))
        changes.append(f"partially unrolled: {listed} trips at once, with divergent trip counts")
    return changes, executed, ""


def _without_register_reuse(code: Code, site: Site, copies: int, straight: bool) -> tuple[Site, list[str]]:
    """The site without the unrolled loops that don't change its address, if the number of instructions shows that each
    element is loaded only once. Guards on such a loop hold for the fewer lanes the later the trip, so that the first
    trip loads for all."""
    loops = [counter for counter in site.counters if transformed_sites.is_loop(counter)]
    unrolled = loops if straight else [counter for counter in loops if str(counter.symbol) in code.unrolled]
    guarded = transformed_sites.symbols_of(site.predicates)
    same = [
        counter
        for counter in unrolled
        if counter.symbol not in site.offset.free_symbols
        and (counter.symbol not in guarded or transformed_sites.narrows(site, counter))
    ]
    trips = prod(counter.count for counter in unrolled if counter not in same)
    if not same or copies != trips or (straight and not {c.symbol for c in same} & guarded):
        return site, []
    names = ", ".join(str(counter.symbol).rpartition(" ")[2] for counter in same)
    once = transformed_sites.fixed(site, dict.fromkeys((counter.symbol for counter in same), 0))
    return once, [f"reused: one element for every {names}"]


def _needed_copies(code: Code, site: Site) -> int:
    """Trips of the loops with a full `#pragma unroll` whose guards may hold for some lane: as many accesses as there
    are without reuse, elimination or merging."""
    unrolled = tuple(counter for counter in site.counters if str(counter.symbol) in code.unrolled)
    live = _unrolled_trips_of(replace(site, counters=unrolled))
    if live is None:
        return prod(counter.count for counter in unrolled)
    ranges = _ranges(code, site)
    return sum(not infeasible.are_infeasible(transformed_sites.fixed(site, trip).predicates, ranges) for trip in live)


def _ranges(code: Code, site: Site) -> dict[sympy.Symbol, tuple[int, int]]:
    """Ranges of the counters of a site and of the thread indices."""
    ranges = {c.symbol: (0, c.count - 1) for c in site.counters}
    return ranges | {t: (0, size - 1) for t, size in zip(THREAD, code.threads, strict=True)}


def _adds_up(code: Code, site: Site, instructions: Sequence[Instruction]) -> bool:
    """Whether the compiled loop can make exactly the planned trips: 513 trips are 13 peeled ones and 5 iterations of a
    loop unrolled by 100. True without a check for nested loops, loops with an exit inside an unrolled iteration, loops
    in chunks, and trip counts that differ between lanes."""
    looped = [i for i in instructions if code.program.loop_of(i) is not None]
    spans = {code.program.loop_of(i) for i in looped}
    enclosing = [s for s in code.program.loops if s[0] <= looped[0].address <= s[1]]
    blocks = {code.program.block_of(i) for i in looped}
    if (
        len(spans) > 1
        or len(enclosing) > 1
        or len(blocks) > 1
        or transformed_sites.symbols_of(site.predicates) & _loops(site)
    ):
        return True
    inside = copies_of(site, looped)
    left = transformed_sites.trips(site) - (
        copies_of(site, instructions) - inside if len(looped) < len(instructions) else 0
    )
    return (left >= inside and left % inside == 0) or _in_chunks(code, site, instructions)


def _in_chunks(code: Code, site: Site, instructions: Sequence[Instruction]) -> bool:
    """Whether an open loop runs in chunks with different elements in each trip. Such elements can't be reused from
    registers, since the trip count is unknown at compile time."""
    loops = [counter for counter in site.counters if transformed_sites.is_loop(counter)]
    names = {str(name) for name in code.open}
    last = max((n for n, c in enumerate(loops) if str(c.symbol).rpartition(" ")[2] in names), default=None)
    if last is None:
        return False
    inner = [counter.count for counter in loops[last + 1 :]]
    blocks: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        blocks.setdefault(code.program.block_of(instruction), []).append(instruction)
    speculated = [copies_of(site, block) for block in blocks.values()]
    sizes = [count // prod(inner) for count in speculated]
    if any(count % prod(inner) for count in speculated) or not transformed_sites.is_unroll_chain(sizes):
        return False
    trips = product(range(max(sizes)), *map(range, inner))
    results = [
        sympy.expand(site.offset.xreplace({c.symbol: integer(v) for c, v in zip(loops[last:], trip, strict=True)}))
        + element
        for trip in trips
        for element in range(site.access.width)
    ]
    return len(set(results)) == len(results)


def _speculated(code: Code, site: Site, instructions: Sequence[Instruction]) -> Site | None:
    """The site under the guards of a store in the same basic block; None if its guards are the same.

    A basic block runs as a whole, and a store is never speculated."""
    blocks = {code.program.block_of(i) for i in instructions}
    store = code.pinned.get(min(blocks))
    guarded = any(i.predicate for i in instructions) or transformed_sites.symbols_of(site.predicates) & _loops(site)
    if store is None or len(blocks) > 1 or guarded or (site.opaque and site.opaque not in UNKNOWN_LANES):
        return None
    if site.predicates == store.predicates and not site.opaque:
        return None
    return replace(site, predicates=store.predicates, opaque=data_dependence(site.offset, site.counters))


def _is_sunk(code: Code, site: Site, instructions: Sequence[Instruction]) -> bool:
    """Whether an instruction of a load runs under conditions that accesses with the same guards don't have, or that
    other instructions of the load don't have, though its guards are the same in each trip."""
    loops = {str(counter.symbol) for counter in site.counters}
    if site.access.kind != "load" or loops & set(code.uneven) or loops_round(site, code.open)[1]:
        return False
    always: frozenset[object] = frozenset()
    usual = code.conditions.get(site.predicates, frozenset()) | ({always} if not site.predicates else frozenset())
    of_load = [code.program.conditions(i) for i in instructions]
    if not transformed_sites.symbols_of(site.predicates) & _loops(site):
        usual = usual.union(of_load)
    return any(conditions > others for conditions in of_load for others in usual)


def _loops(site: Site) -> frozenset[sympy.Symbol]:
    return frozenset(c.symbol for c in site.counters if transformed_sites.is_loop(c))


def _widths(site: Site, instructions: Sequence[Instruction]) -> Transformed:
    """Sites with the access widths of the instructions."""
    written = site.access.array.dtype.bytes * site.access.width
    widths = sorted({i.bytes for i in instructions}, reverse=True)
    if widths[-1] < written:
        if len(widths) > 1:
            return [], None, f"unexplained: {written} bytes in instructions of {widths}"
        parts = written // widths[0]
        return (
            [f"split: {written} bytes in {parts} instructions of {widths[0]}"],
            transformed_sites.scalarised(site, parts),
            "",
        )
    if widths[0] == written:
        return [], (site,), ""
    factor = widths[0] // written
    changes = [f"vectorised: {factor} trips of a loop in one instruction of {widths[0]} bytes"]
    merged = transformed_sites.vectorised(site, [width // written for width in widths])
    if merged is None:
        return changes, None, f"unexplained: no loop moves it by {written} bytes in each trip"
    return changes, merged, ""


def _unrolled_trips_of(site: Site) -> list[dict[sympy.Symbol, int]] | None:
    """Counter values of fully unrolled loops whose guards may hold for some lane. None above `_MAX_UNROLLED_TRIPS`."""
    loops = [c for c in site.counters if transformed_sites.is_loop(c)]
    total = 1
    for counter in loops:
        total *= counter.count
    if total > _MAX_UNROLLED_TRIPS:
        return None
    names = {c.symbol for c in loops}
    fixed = [p for p in site.predicates if p.terms and all(t.free_symbols <= names for t, _ in p.terms)]
    results = []
    for values in product(*(range(c.count) for c in loops)):
        trip = dict(zip((c.symbol for c in loops), values, strict=True))
        if all(transformed_sites.holds(predicate, trip) for predicate in fixed):
            results.append(trip)
    return results


def _feasible_trips(
    code: Code, site: Site, live: list[dict[sympy.Symbol, int]], copies: int
) -> list[dict[sympy.Symbol, int]]:
    """The trips without those whose guards never hold, if the number of instructions fits the remaining ones. Every
    feasible trip of an asynchronous copy has an instruction; any excess belongs to infeasible trips."""
    if copies >= len(live):
        return live
    ranges = _ranges(code, site)
    never = [trip for trip in live if infeasible.are_infeasible(transformed_sites.fixed(site, trip).predicates, ranges)]
    left = [trip for trip in live if trip not in never]
    return (left + never)[:copies] if len(left) == copies or (_is_copy(site) and len(left) < copies) else live


def _is_copy(site: Site) -> bool:
    """Whether it is an operand of an asynchronous copy, which is never in a register or left out."""
    return site.copy_target is not None or site.access.kind == "async_copy"


def _partly_eliminated(
    code: Code, site: Site, live: Sequence[Mapping[sympy.Symbol, int]], instructions: Sequence[Instruction]
) -> Transformed | None:
    """Transformed sites of an access with dead elements; None if all are live, or if the elements that its instructions
    move are unknown."""
    kept = code.register_stores.get(site.access.serial)
    if kept is None or site.opaque or site.access.kind != "load":
        return None
    wanted = [live_elements(site, trip, kept) for trip in live]
    total, count = len(live) * site.access.width, sum(map(len, wanted))
    if count == total:
        return None
    executed = unrolled_trips.whole_trips(site, live, wanted, instructions)
    if executed is None:
        executed = unrolled_trips.by_address(site, live, wanted, instructions, code.forms, code.threads)
    if executed is None:
        return None
    changes = [f"eliminated: {count} of {total} elements are used"]
    if guarded := sum(1 for i in instructions if i.predicate):
        changes.append(f"predicated: {guarded} of {len(instructions)}")
    return changes, executed, ""


def _is_partly_used(code: Code, site: Site) -> bool:
    """Whether some elements of the access are dead in some trip of its unrolled loops."""
    kept = code.register_stores.get(site.access.serial)
    if kept is None:
        return False
    unrolled = [counter for counter in site.counters if str(counter.symbol) in code.unrolled]
    trips = product(*(range(counter.count) for counter in unrolled))
    names = [counter.symbol for counter in unrolled]
    return any(
        len(live_elements(site, dict(zip(names, trip, strict=True)), kept)) < site.access.width for trip in trips
    )


def _joined_by(code: Code, site: Site, instructions: Sequence[Instruction]) -> int:
    """How many accesses without an instruction are of elements that a wide instruction of this one covers."""
    elements = max(i.bytes for i in instructions) // site.access.array.dtype.bytes
    distances = (
        (idle.offset - site.offset).expand()
        for idle in code.idle
        if (idle.access.array.symbol, idle.access.kind) == (site.access.array.symbol, site.access.kind)
        and idle.counters == site.counters
    )
    return sum(0 < abs(int(distance)) < elements for distance in distances if distance.is_Integer)


def _overruns(site: Site, executed: tuple[Site, ...], copies: int, live: Sequence[Mapping[sympy.Symbol, int]]) -> bool:
    """Whether vectorised instructions move more elements than the source, in a partial first or last vector."""
    width = max(part.access.width for part in executed)
    return width > site.access.width and len(live) < copies < len(live) + 2 * width


def _other_trips(site: Site, live: list[dict[sympy.Symbol, int]], copies: int, uneven: Collection[str]) -> Transformed:
    """Transformed sites of unrolled code with more or fewer instructions than trips."""
    trips = len(live)
    if copies > trips:
        return (
            [],
            None,
            f"duplicated: {copies} instructions on several paths for {trips} trips; divergent lanes run separately",
        )
    offsets = dict.fromkeys(site.offset.xreplace(trip) for trip in live)
    if len(offsets) == copies == 1 and (hoisted := transformed_sites.hoisted_site(site, uneven)) is not None:
        return [f"hoisted: read once for {trips} trips"], (hoisted,), ""
    bound = {s for trip in live[:1] for s in trip} & transformed_sites.symbols_of(site.predicates)
    if len(offsets) == copies and not bound and site.access.width == 1:
        once = {site.offset.xreplace(trip): trip for trip in reversed(live)}
        return (
            [f"reused: {copies} addresses for {trips} trips"],
            tuple(transformed_sites.fixed(site, trip) for trip in once.values()),
            "",
        )
    return [], None, f"reused: {trips - copies} of {trips} trips find their value in a register; which ones is unknown"


def _are_any_trips(
    code: Code, site: Site, live: Sequence[Mapping[sympy.Symbol, int]], instructions: Sequence[Instruction]
) -> bool:
    """Whether each instruction of an unrolled load without guards runs once in every warp, as some of the trips do."""
    unconditional = not site.predicates and not any(code.program.conditions(i) for i in instructions)
    return site.access.is_load and not _is_copy(site) and unconditional and len(instructions) < len(live)


def _chunks(program: Program, instructions: Sequence[Instruction]) -> list[int]:
    """Number of instructions in each basic block, in address order."""
    blocks: dict[int, int] = {}
    for instruction in instructions:
        start = program.block_of(instruction)
        blocks[start] = blocks.get(start, 0) + 1
    return list(blocks.values())
