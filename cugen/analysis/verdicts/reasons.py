"""Reasons for the cost of an access, as text with computed numbers.

`claim` fits a comment in the source. `reason` derives it from the bank or address expression, the lane strides and the
alignment, or names two lanes with a bank conflict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import sympy

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.totals.sites import THREAD, Site
from cugen.analysis.verdicts import async_copy_reasons as copy_reasons
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine.requests import async_copies, segments
from cugen.machine.requests.banks import BankConflict, bank_of, bank_words, distinct_words, worst_conflict
from cugen.machine.requests.request import warp_request
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE, WORD_BYTES, active, lane_groups
from cugen.machine.target import Cache
from cugen.plan.symbols import Integer, integer

_MAX_CLAIM_CHARACTERS = 70  # characters, without the transactions


@dataclass(frozen=True)
class Subject:
    """Access with its context: `width` in bytes per lane, the bank width, the sources of an asynchronous copy, where
    global loads are cached (None for the target's default), and the period of the cost in addresses, in bytes."""

    site: Site
    space: str
    width: int
    block: tuple[int, int, int]
    target: Target
    bank_bytes: int
    wording: Wording
    sources: async_copies.Sources | None = None
    cache: Cache | None = None
    period: int = SECTOR_BYTES

    @property
    def element_bytes(self) -> int:
        return self.site.access.array.dtype.bytes

    @property
    def verb(self) -> str:
        return "read" if self.site.access.kind == "load" else "write"


@dataclass(frozen=True)
class LaneIndex:
    """Thread index as named in the source, with its range in the first warp of a block.

    step: stride of the offset in elements; None if the index enters through `//`, `%` or xor.
    """

    name: sympy.Symbol
    low: int
    high: int
    step: int | None

    @property
    def count(self) -> int:
        return self.high - self.low + 1


def claim(subject: Subject, totals: Totals, figure: str) -> str:
    """Short clause: the cost per request and its cause."""
    worst = totals.worst_pattern
    if worst is None:
        return "never runs"
    cause = _cause(subject, totals, worst)
    text = f"{figure} ({cause})"
    counted = len(text) - len(_in_transactions(subject, worst))
    return text if cause and counted <= _MAX_CLAIM_CHARACTERS else figure


def reason(subject: Subject, totals: Totals) -> str:
    """Derivation in several clauses."""
    worst = totals.worst_pattern
    if worst is None:
        return "no warp of the launch executes it"
    if subject.space == "constant":
        return _constant(subject, totals)
    if subject.space == "shared":
        return _shared(subject, totals, worst)
    if subject.space == "local":
        return _local(worst)
    return _global(subject, totals, worst)


# Lane indices and strides


def source_expression(site: Site) -> Integer:
    """Offset in elements over the source's names; other names than a thread index plus uniform terms are expanded."""
    expr = site.access.offset()
    while True:
        varying = [name for name in sorted(expr.free_symbols, key=str) if _varies_by_lane(site, name)]
        axes = Counter(_axis(site, name) for name in varying)
        expanded = {
            name: site.source_definitions[name]
            for name in varying
            if name in site.source_definitions
            and site.definitions[name] not in THREAD
            and (_axis(site, name) is None or axes[_axis(site, name)] > 1)
        }
        if not expanded:
            fixed = {name: value for name, value in site.definitions.items() if value.is_Integer}
            return sympy.expand(expr.xreplace(fixed))
        expr = expr.xreplace(expanded)


def _axis(site: Site, name: sympy.Symbol) -> sympy.Symbol | None:
    """Thread index that a name equals up to warp-uniform terms, else None."""
    value = site.definitions.get(name, name)
    for axis in THREAD:
        if axis in value.free_symbols:
            uniform = (value - axis).expand()
            return axis if uniform.free_symbols <= {counter.symbol for counter in site.counters} else None
    return None


def lane_indices(subject: Subject) -> tuple[LaneIndex, ...]:
    """Thread indices that vary between the lanes of the first warp, fastest first."""
    site, (x, y, _) = subject.site, subject.block
    expr = source_expression(site)
    threads = min(WARP_SIZE, subject.block[0] * subject.block[1] * subject.block[2])
    indices = []
    for axis, size, slower in zip(THREAD, subject.block, (1, x, x * y), strict=True):
        values = [t // slower % size for t in range(threads)]
        if max(values) > min(values):
            name = next((n for n in sorted(expr.free_symbols, key=str) if _axis(site, n) == axis), axis)
            start = _shared_part(site, name, axis)
            indices.append(LaneIndex(name, start + min(values), start + max(values), _step(expr, name)))
    return tuple(indices)


def _shared_part(site: Site, name: sympy.Symbol, axis: sympy.Symbol) -> int:
    """Uniform part of a name in the first block and first iterations."""
    uniform = site.definitions.get(name, name) - axis
    return int(uniform.xreplace({counter.symbol: integer(0) for counter in site.counters}))


def _varies_by_lane(site: Site, name: sympy.Symbol) -> bool:
    return any(axis in site.definitions.get(name, name).free_symbols for axis in THREAD)


def _step(expr: Integer, name: sympy.Symbol) -> int | None:
    terms = [term for term in sympy.Add.make_args(expr) if name in term.free_symbols]
    coefficient = sympy.Add(*(term.coeff(name) for term in terms)) if terms else integer(0)
    linear = (sympy.Add(*terms) - coefficient * name).expand() == 0
    return int(coefficient) if linear and coefficient.is_Integer else None


def _lane_ranges(lanes: tuple[LaneIndex, ...]) -> str:
    if not lanes:
        return "one active lane per warp"
    runs = " and ".join(f"{lane.name} = {lane.low}..{lane.high}" for lane in lanes)
    return f"in the first warp {runs}"


def _uniform_names(subject: Subject) -> str:
    """`, for every k and k0`: the warp-uniform names in the offset."""
    names = sorted(str(n) for n in source_expression(subject.site).free_symbols if not _varies_by_lane(subject.site, n))
    return f", for every {_listed(names)}" if names else ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _most_frequent(totals: Totals) -> Pattern:
    """Most frequent pattern."""
    return max(totals.patterns, key=lambda pattern: pattern.warps)


# Local memory


def _local_cause(worst: Pattern) -> str:
    words = len({address // WORD_BYTES for address in active(worst.lanes)})
    return "local memory, equal subscripts" if words == 1 else f"local memory, {words} words"


def _local(worst: Pattern) -> str:
    words = len({address // WORD_BYTES for address in active(worst.lanes)})
    interleaved = "local memory interleaves the 32-bit words of a warp's lanes"
    if words == 1:
        return f"{interleaved}: lanes with equal subscripts access one line of 128 bytes"
    return f"{interleaved}: {words} different words of the lanes are in {words} lines of 128 bytes"


# Shared memory


def _cause(subject: Subject, totals: Totals, worst: Pattern) -> str:
    if subject.space == "constant":
        addresses = _addresses_per_request(subject, worst)
        return "uniform address" if addresses == 1 else f"serialised: {addresses} addresses"
    if subject.space == "local":
        return _local_cause(worst)
    if subject.space == "global":
        return _global_cause(subject, worst)
    if worst.excess > 0 and subject.sources is not None:
        return copy_reasons.cause(subject.width, worst, subject.sources)
    conflict = _worst_conflict(subject, worst)
    if worst.excess > 0 and conflict is not None:
        (a, b), (first, second) = conflict.lanes, conflict.words
        words = f"word {first}" if first == second else f"words {first} and {second}"
        return f"lanes {a} and {b}: {words}, bank {conflict.bank}"
    return _spread(subject, _most_frequent(totals))


def _spread(subject: Subject, pattern: Pattern) -> str:
    """Cause of a conflict-free access."""
    words = distinct_words(pattern.lanes, subject.width)
    banks = len({bank_of(word, subject.target, subject.bank_bytes) for word in words})
    lanes = lane_indices(subject)
    if len(words) == 1:
        return "one word: broadcast"
    array = subject.site.access.array
    steps = [lane for lane in lanes if lane.step != 0]
    if len(steps) == 1 and steps[0].step is not None and len(array.strides) > 1 and len(words) == pattern.active:
        pitch = steps[0].step
        if pitch == array.strides[-2] and pitch % 2 and subject.width == WORD_BYTES:
            return f"odd pitch {pitch}: {banks} banks"
    if array.swizzle and any(lane.step is None for lane in steps) and banks == len(words) > 1:
        return f"xor swizzle: {banks} banks"
    if banks == len(words):
        return "conflict-free"
    return f"{len(words)} words over {banks} banks"


def _worst_conflict(subject: Subject, pattern: Pattern) -> BankConflict | None:
    site = subject.site
    return worst_conflict(pattern.addresses(), subject.width, subject.target, subject.bank_bytes, site.access.kind)


def bank_formula(subject: Subject) -> str:
    """`bank = (33 * tx + k) mod 32 = (tx + k) mod 32`, of the first word of an element."""
    expr, size = source_expression(subject.site), subject.element_bytes
    banks, width = subject.target.banks, WORD_BYTES * bank_words(subject.target, subject.bank_bytes)
    write = subject.wording.text
    if size >= width:
        scaled = sympy.expand(expr * (size // width))
        first, second = f"({write(scaled)}) mod {banks}", f"({write(_reduced(scaled, banks))}) mod {banks}"
    else:
        per_bank = width // size
        reduced = _reduced(expr, banks * per_bank)
        first, second = (f"(({write(e)}) // {per_bank}) mod {banks}" for e in (expr, reduced))
    return f"bank = {first}" if first == second else f"bank = {first} = {second}"


def _reduced(expr: Integer, modulus: int) -> Integer:
    """Expression with all coefficients and the constant reduced modulo `modulus`."""
    terms = []
    for term in sympy.Add.make_args(expr):
        coefficient, factor = term.as_coeff_Mul()
        terms.append(integer(int(coefficient) % modulus) * factor)
    return sympy.Add(*terms)


def _shared(subject: Subject, totals: Totals, worst: Pattern) -> str:
    lanes = lane_indices(subject)
    text = f"{bank_formula(subject)}; {_lane_ranges(lanes)}; "
    if worst.excess > 0 and subject.sources is not None:
        return (
            f"{text}{copy_reasons.conflict_clause(subject.width, worst, subject.sources)}: {_wavefronts_clause(worst)}"
        )
    conflict = _worst_conflict(subject, worst)
    if worst.excess > 0 and conflict is not None:
        return text + _conflict_reason(subject, worst, conflict)
    kinds = Counter[tuple[int, int, int, int]]()
    for pattern in totals.patterns:
        words = distinct_words(pattern.lanes, subject.width)
        banks = {bank_of(word, subject.target, subject.bank_bytes) for word in words}
        kinds[pattern.active, len(words), len(banks), pattern.cost[1]] += pattern.warps
    (active_lanes, count, hit, wavefronts), warps = kinds.most_common(1)[0]
    who = f"{_count(active_lanes, 'lane')} {subject.verb}{'s' if active_lanes == 1 else ''}"
    what = "one word (broadcast)" if count == 1 else f"{count} words in {_count(hit, 'bank')}"
    text += f"{who} {what}, {_count(wavefronts, 'wavefront')}"
    if len(kinds) == 1:
        return text + _uniform_names(subject)
    return f"{text}; in {warps:,} of {totals.warps:,} warps, the others are ideal too"


def _conflict_reason(subject: Subject, worst: Pattern, conflict: BankConflict) -> str:
    (a, b), (first, second) = conflict.lanes, conflict.words
    cost = _wavefronts_clause(worst)
    if first == second:
        rule = "one word is broadcast per pass" if subject.verb == "read" else "one of its parts is written per pass"
        return f"lanes {a} and {b} {subject.verb} word {first} in bank {conflict.bank}, and only {rule}: {cost}"
    where = f"words {first} and {second}, both in bank {conflict.bank}"
    return f"lanes {a} and {b} {subject.verb} {where}, which serves {conflict.degree} {_conflict_unit(subject)}: {cost}"


def _wavefronts_clause(worst: Pattern) -> str:
    _, wavefronts, ideal, _, _ = worst.cost
    return f"{_count(wavefronts, 'wavefront')}, ideal {ideal}"


def _conflict_unit(subject: Subject) -> str:
    if subject.target.shared_rule == "double_words":
        return "pairs of words" if subject.bank_bytes == 8 else "runs of 64 words"
    return "words"


# Global and constant memory


def transactions(subject: Subject, pattern: Pattern) -> str:
    """Number and size of the transactions of 1.x and 2.x: `2 x 128 bytes`; empty where all are sectors."""
    if subject.space != "global" or subject.target.global_rule == "sectors":
        return ""
    access = subject.site.access
    cost = warp_request("global", access.kind, subject.width, pattern.lanes, subject.target, cache=subject.cache)
    sizes = Counter(size for _, size in cost.transactions)
    if subject.target.global_rule == "lines" and set(sizes) == {SECTOR_BYTES}:
        return ""
    return f"{' + '.join(f'{sizes[size]} x {size}' for size in sorted(sizes, reverse=True))} bytes"


def _in_transactions(subject: Subject, pattern: Pattern) -> str:
    return f" in {text}" if (text := transactions(subject, pattern)) else ""


def _aligned_bytes(subject: Subject) -> int:
    """Alignment at which contiguous lanes take the fewest transactions."""
    lanes, target = subject.target.request_lanes, subject.target
    if target.global_rule == "in_order":
        return min(lanes * subject.width, segments.LINE_BYTES)
    if target.global_rule == "segments":
        return segments.LINE_BYTES
    return segments.granule_of(subject.site.access.kind, target, subject.cache)


def _global_cause(subject: Subject, worst: Pattern) -> str:
    cause = _global_pattern(subject, worst)
    if subject.target.global_rule != "in_order" or worst.excess <= 0:
        return cause
    if subject.width < WORD_BYTES:
        return f"not coalesced: {_count(subject.width, 'byte')} per lane"
    return f"not coalesced: {cause}"


def _global_pattern(subject: Subject, worst: Pattern) -> str:
    addresses = sorted(set(active(worst.lanes)))
    if len(addresses) == 1:
        return "uniform address"
    used = len(addresses) * subject.width
    contiguous = addresses[-1] - addresses[0] + subject.width == used
    if contiguous:
        off = addresses[0] % _aligned_bytes(subject)
        return f"misaligned by {off} bytes" if off and worst.excess else f"{used} contiguous bytes"
    gaps = {b - a for a, b in pairwise(addresses)}
    if len(gaps) == 1:
        return f"lanes {gaps.pop()} bytes apart"
    rows = sum(b - a > subject.width for a, b in pairwise(addresses)) + 1
    return f"{used} bytes in {rows} runs"


def _global(subject: Subject, totals: Totals, worst: Pattern) -> str:
    lanes = lane_indices(subject)
    steps = [
        f"{lane.name} and {lane.name} + 1 are {abs(lane.step * subject.element_bytes)} bytes apart"
        + _multiple(lane.step, subject)
        for lane in lanes
        if lane.step
    ]
    parts = [f"address = {_address(subject)}; {_lane_ranges(lanes)}"]
    if steps:
        parts[0] += ": " + ", ".join(steps)
    elif all(lane.step == 0 for lane in lanes):
        parts[0] += ": uniform address"
    parts.append(_alignments(subject, totals))
    parts.append(_worst_warp(subject, worst))
    parts.append(_utilisation(subject, totals))
    return "; ".join(part for part in parts if part)


def _address(subject: Subject) -> str:
    text, size = subject.wording.text(source_expression(subject.site)), subject.element_bytes
    return text if size == 1 else f"{size} * ({text})"


def _multiple(step: int, subject: Subject) -> str:
    """Whether a stride preserves the sector alignment."""
    size = abs(step * subject.element_bytes)
    if size <= subject.width:
        return ""
    return (
        f" (a multiple of {SECTOR_BYTES})"
        if size % SECTOR_BYTES == 0
        else f" ({size % SECTOR_BYTES} more than a multiple of {SECTOR_BYTES})"
    )


def _alignments(subject: Subject, totals: Totals) -> str:
    """Sectors of a full warp by alignment."""
    full = max(pattern.active for pattern in totals.patterns)
    shapes: dict[tuple[int | None, ...], dict[int, Pattern]] = {}
    weights: Counter[tuple[int | None, ...]] = Counter()
    for pattern in totals.patterns:
        low = min(active(pattern.lanes))
        shape = tuple(None if a is None else a - low for a in pattern.lanes)
        if pattern.active == full:
            shapes.setdefault(shape, {})[low] = pattern
            weights[shape] += pattern.warps
    shape = max(shapes, key=lambda s: weights[s])
    costs = Counter(pattern.cost[3] for pattern in shapes[shape].values())
    ideal = next(iter(shapes[shape].values())).cost[4]
    total = sum(costs.values())
    who = "a full warp" if full == WARP_SIZE else f"a warp with {_count(full, 'active lane')}"
    if len(costs) == 1:
        (sectors,) = costs
        moved = _count(sectors, "sector") + _in_transactions(subject, next(iter(shapes[shape].values())))
        return f"{who} moves {moved}, ideal {ideal}"
    first, *costlier = sorted(costs)
    listed = "".join(f", {sectors} at {costs[sectors]}" for sectors in costlier)
    return f"{who} moves {_count(first, 'sector')} at {costs[first]} of {total} alignments{listed}, ideal {ideal}"


def _worst_warp(subject: Subject, worst: Pattern) -> str:
    """Start and transactions of the worst warp; empty if it is ideal."""
    if worst.excess <= 0:
        return ""
    _, _, _, sectors, ideal = worst.cost
    low = min(active(worst.lanes))
    who = "the worst warp"
    if worst.active < WARP_SIZE:
        who += f", with {_count(worst.active, 'active lane')},"
    moved = _count(sectors, "sector") + _in_transactions(subject, worst)
    return f"{who} begins at byte {low} of {subject.period} and moves {moved}, ideal {ideal}"


def _utilisation(subject: Subject, totals: Totals) -> str:
    used = sum(len(set(active(p.lanes))) * subject.width * p.warps for p in totals.patterns)
    moved = sum(p.cost[3] * SECTOR_BYTES * p.warps for p in totals.patterns)
    return f"{100 * used / moved:.3g} % of the bytes moved are used" if moved else ""


def _constant(subject: Subject, totals: Totals) -> str:
    counts = Counter[int]()
    for pattern in totals.patterns:
        counts[_addresses_per_request(subject, pattern)] += pattern.warps
    head = f"address = {_address(subject)}; {_lane_ranges(lane_indices(subject))}; "
    if list(counts) == [1]:
        return head + f"uniform: one address per {_request_lanes(subject)}"
    max_addresses = max(counts)
    times = "" if len(counts) == 1 else f" in {counts[max_addresses]:,} of {totals.warps:,} warps"
    of_half = "" if subject.target.request_lanes == WARP_SIZE else " of a half-warp"
    return head + f"serialised: {max_addresses} addresses{of_half}{times}"


def _addresses_per_request(subject: Subject, pattern: Pattern) -> int:
    """The most distinct addresses of the lanes that one constant load serves."""
    return max(len(set(active(group))) for group in lane_groups(pattern.lanes, subject.target.request_lanes))


def _request_lanes(subject: Subject) -> str:
    return "warp" if subject.target.request_lanes == WARP_SIZE else "half-warp"
