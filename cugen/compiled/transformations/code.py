"""Properties of a kernel's machine code that decide how one of its accesses was transformed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import Counter, Predicate, Site
from cugen.compiled.addresses import Form
from cugen.compiled.matching import Matches, PrintedSite, fills_zeros
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.transformations import transformed_sites
from cugen.compiled.transformations.live_elements import RegisterStores, register_stores
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For
from cugen.plan.symbols import FloorDiv, bounds, integer, symbol
from cugen.plan.traversal.walking import walk_nodes

Loops = tuple[tuple[Counter, ...], frozenset[sympy.Symbol]]


@dataclass(frozen=True)
class Code:
    """Properties of a kernel's code shared by its accesses.

    uneven: counters of the loops whose trip count isn't a constant of the launch.
    open: indices of the loops whose trip count isn't known at compile time.
    unrolled: counters of the loops with a full `#pragma unroll`.
    merged: instructions that serve several accesses. pinned: by basic block, an unpredicated store of the block.
    max_elements: maximum number of elements that the instructions of one access move, by its loops.
    forms: address expressions, by instruction address.
    register_stores: destinations of the accesses whose elements all go to register arrays.
    conditions: on what the instructions outside of loops depend, by the guards of their accesses.
    total: totals of a site over the launch; None if unknown. idle: sites of which no instruction has the line.
    """

    program: Program
    threads: tuple[int, int, int]
    uneven: tuple[str, ...]
    open: frozenset[sympy.Symbol]
    unrolled: tuple[str, ...]
    merged: tuple[Instruction, ...]
    pinned: Mapping[int, Site]
    max_elements: Mapping[Loops, int]
    forms: Mapping[int, Form]
    register_stores: RegisterStores
    conditions: Mapping[tuple[Predicate, ...], frozenset[frozenset[object]]]
    total: Callable[[Site], Totals | None]
    idle: tuple[Site, ...] = ()


def code_of(
    kernel: Kernel,
    params: Mapping[str, int],
    program: Program,
    forms: Mapping[int, Form],
    printed: Sequence[PrintedSite],
    matches: Matches,
    total: Callable[[Site], Totals | None],
) -> Code:
    """Collects the code properties of a kernel from its matched instructions."""
    pinned: dict[int, Site] = {}
    max_elements: dict[Loops, int] = {}
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    values = {symbol(name): integer(value) for name, value in params.items()}
    open_loops = frozenset(
        loop.index.symbol for loop in loops if not (loop.stop - loop.start).xreplace(values).is_Integer
    )
    for printed_site, instructions in zip(printed, matches.instructions, strict=True):
        site = printed_site.site
        around = loops_round(site, open_loops)
        reading = [i for i in instructions if not fills_zeros(i)]
        max_elements[around] = max(copies_of(site, reading), max_elements.get(around, 0))
        once = len(instructions) == 1 and not any(map(transformed_sites.is_loop, site.counters))
        if once and site.access.kind == "store" and not instructions[0].predicate and not site.opaque:
            pinned.setdefault(program.block_of(instructions[0]), site)
    uneven = _uneven_loops(kernel, params)
    kept = register_stores(kernel, params)
    return Code(
        program,
        kernel.block,
        uneven,
        open_loops,
        unrolled_loops(kernel),
        matches.merged,
        pinned,
        max_elements,
        forms,
        kept,
        _conditions_by_guards(program, printed, matches, pinned),
        total,
        tuple(found.site for found, by in zip(printed, matches.instructions, strict=True) if not by),
    )


def unrolled_loops(kernel: Kernel) -> tuple[str, ...]:
    """Counters of the loops with a full `#pragma unroll`."""
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    return tuple(f"loop {number} {loop.index.name}" for number, loop in enumerate(loops) if loop.unroll)


def _conditions_by_guards(
    program: Program, printed: Sequence[PrintedSite], matches: Matches, pinned: Mapping[int, Site]
) -> dict[tuple[Predicate, ...], frozenset[frozenset[object]]]:
    """On what instructions outside of loops depend, by the guards of their accesses; but for loads that may be
    speculated, as they run beside a store under other guards."""
    conditions: dict[tuple[Predicate, ...], frozenset[frozenset[object]]] = {}
    for printed_site, instructions in zip(printed, matches.instructions, strict=True):
        site = printed_site.site
        if any(map(transformed_sites.is_loop, site.counters)):
            continue
        for instruction in instructions:
            store = pinned.get(program.block_of(instruction), site)
            if site.access.kind != "load" or store.predicates == site.predicates:
                known = conditions.get(site.predicates, frozenset())
                conditions[site.predicates] = known | {program.conditions(instruction)}
    return conditions


def loops_round(site: Site, open_loops: Collection[sympy.Symbol]) -> Loops:
    """Enclosing loops of an access: those with a counter, and the open ones, even with a single trip."""
    return site.counters, frozenset(name for name in open_loops if name in site.definitions)


def _uneven_loops(kernel: Kernel, params: Mapping[str, int]) -> tuple[str, ...]:
    values = {symbol(name): integer(value) for name, value in params.items()}
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    names = []
    for number, loop in enumerate(loops):
        distance = (loop.stop - loop.start).xreplace(values)
        low, high = bounds(FloorDiv(distance + (loop.step - 1), integer(loop.step)), dict(kernel.ranges))
        names += [f"loop {number} {loop.index.name}"] if low != high else []
    return tuple(names)


def copies_of(site: Site, instructions: Sequence[Instruction]) -> int:
    """Number of source-level accesses that the instructions amount to."""
    return max(1, sum(i.bytes for i in instructions) // (site.access.array.dtype.bytes * site.access.width))
