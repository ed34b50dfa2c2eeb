"""Why an access costs what it costs, in sentences whose every number was computed.

`claim` is short enough for a comment in the source. `reason` derives it: the bank or the address over the names of the
source, what differs between the lanes of a warp, and what follows; or two lanes that collide.
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
from cugen.machine.requests import async_copies
from cugen.machine.requests.banks import BankConflict, bank_of, bank_words, distinct_words, worst_conflict
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE, WORD_BYTES, active
from cugen.plan.symbols import Integer, integer

_CLAIM = 70  # characters


@dataclass(frozen=True)
class Subject:
    """What a reason is about. `width` is bytes per lane, `bank_bytes` how wide the target's banks are set, `sources`
    where the lanes of an asynchronous copy read."""

    site: Site
    space: str
    width: int
    block: tuple[int, int, int]
    target: Target
    bank_bytes: int
    wording: Wording
    sources: async_copies.Sources | None = None

    @property
    def element_bytes(self) -> int:
        return self.site.access.array.dtype.bytes

    @property
    def verb(self) -> str:
        return "read" if self.site.access.kind == "load" else "write"


@dataclass(frozen=True)
class Lane:
    """One of a thread's coordinates as the source names it, with the values it takes in a block's first warp and what
    one step of it adds to the offset, in elements; None where it enters through `//`, `%` or xor."""

    name: sympy.Symbol
    low: int
    high: int
    step: int | None

    @property
    def count(self) -> int:
        return self.high - self.low + 1


def claim(subject: Subject, found: Totals, figure: str) -> str:
    """One clause: the figure per request and what it comes from."""
    worst = found.worst_pattern
    if worst is None:
        return "never runs"
    cause = _because(subject, found, worst)
    text = f"{figure} ({cause})"
    return text if cause and len(text) <= _CLAIM else figure


def reason(subject: Subject, found: Totals) -> str:
    """The derivation, over several clauses."""
    worst = found.worst_pattern
    if worst is None:
        return "no warp of the launch gets here"
    if subject.space == "constant":
        return _constant(subject, found)
    if subject.space == "shared":
        return _shared(subject, found, worst)
    return _global(subject, found)


# What an access looks like to the lanes of a warp


def source_expression(site: Site) -> Integer:
    """The offset in elements over the source's names. A name that differs between the lanes by more than one of the
    thread's coordinates, or beside another name for the same one, stands for its definition."""
    expr = site.access.offset()
    while True:
        varying = [name for name in sorted(expr.free_symbols, key=str) if _differs(site, name)]
        axes = Counter(_axis(site, name) for name in varying)
        found = {
            name: site.source_definitions[name]
            for name in varying
            if name in site.source_definitions
            and site.definitions[name] not in THREAD
            and (_axis(site, name) is None or axes[_axis(site, name)] > 1)
        }
        if not found:
            fixed = {name: value for name, value in site.definitions.items() if value.is_Integer}
            return sympy.expand(expr.xreplace(fixed))
        expr = expr.xreplace(found)


def _axis(site: Site, name: sympy.Symbol) -> sympy.Symbol | None:
    """The coordinate that a name follows one by one: the name is the coordinate and something all lanes share."""
    value = site.definitions.get(name, name)
    for axis in THREAD:
        if axis in value.free_symbols:
            rest = (value - axis).expand()
            return axis if rest.free_symbols <= {counter.symbol for counter in site.counters} else None
    return None


def lanes_of(subject: Subject) -> tuple[Lane, ...]:
    """The coordinates that differ between the lanes of the first warp, the fastest first."""
    site, (x, y, _) = subject.site, subject.block
    expr = source_expression(site)
    threads = min(WARP_SIZE, subject.block[0] * subject.block[1] * subject.block[2])
    found = []
    for axis, size, slower in zip(THREAD, subject.block, (1, x, x * y), strict=True):
        values = [t // slower % size for t in range(threads)]
        if max(values) > min(values):
            name = next((n for n in sorted(expr.free_symbols, key=str) if _axis(site, n) == axis), axis)
            start = _shared_part(site, name, axis)
            found.append(Lane(name, start + min(values), start + max(values), _step(expr, name)))
    return tuple(found)


def _shared_part(site: Site, name: sympy.Symbol, axis: sympy.Symbol) -> int:
    """What a name adds to the coordinate in the first block, when each loop begins."""
    rest = site.definitions.get(name, name) - axis
    return int(rest.xreplace({counter.symbol: integer(0) for counter in site.counters}))


def _differs(site: Site, name: sympy.Symbol) -> bool:
    return any(axis in site.definitions.get(name, name).free_symbols for axis in THREAD)


def _step(expr: Integer, name: sympy.Symbol) -> int | None:
    terms = [term for term in sympy.Add.make_args(expr) if name in term.free_symbols]
    coefficient = sympy.Add(*(term.coeff(name) for term in terms)) if terms else integer(0)
    linear = (sympy.Add(*terms) - coefficient * name).expand() == 0
    return int(coefficient) if linear and coefficient.is_Integer else None


def _in_a_warp(lanes: tuple[Lane, ...]) -> str:
    if not lanes:
        return "a warp has one lane at work"
    runs = " and ".join(f"{lane.name} = {lane.low}..{lane.high}" for lane in lanes)
    return f"in the first warp {runs}"


def _same(subject: Subject) -> str:
    """`, for every k and k0`: the names in the offset that all lanes share."""
    names = sorted(str(n) for n in source_expression(subject.site).free_symbols if not _differs(subject.site, n))
    return f", for every {_listed(names)}" if names else ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _usual(found: Totals) -> Pattern:
    """The pattern of most warps."""
    return max(found.patterns, key=lambda pattern: pattern.warps)


# Shared memory


def _because(subject: Subject, found: Totals, worst: Pattern) -> str:
    if subject.space == "constant":
        addresses = len(set(active(worst.lanes)))
        return "one address for all lanes" if addresses == 1 else f"{addresses} addresses, one after the other"
    if subject.space == "global":
        return _global_cause(subject, worst)
    if worst.excess > 0 and subject.sources is not None:
        return copy_reasons.cause(subject.width, worst, subject.sources)
    met = _collision(subject, worst)
    if worst.excess > 0 and met is not None:
        (a, b), (first, second) = met.lanes, met.words
        words = f"word {first}" if first == second else f"words {first} and {second}"
        return f"lanes {a} and {b}: {words}, bank {met.bank}"
    return _spread(subject, _usual(found))


def _spread(subject: Subject, pattern: Pattern) -> str:
    """Why the words of a warp don't meet."""
    words = distinct_words(pattern.lanes, subject.width)
    banks = len({bank_of(word, subject.target, subject.bank_bytes) for word in words})
    lanes = lanes_of(subject)
    if len(words) == 1:
        return "all lanes in one word: a broadcast"
    array = subject.site.access.array
    steps = [lane for lane in lanes if lane.step != 0]
    if len(steps) == 1 and steps[0].step is not None and len(array.strides) > 1 and len(words) == pattern.active:
        pitch = steps[0].step
        if pitch == array.strides[-2] and pitch % 2 and subject.width == WORD_BYTES:
            return f"pitch {pitch} is odd: lanes hit {banks} banks"
    if array.swizzle and any(lane.step is None for lane in steps) and banks == len(words) > 1:
        return f"xor by row: lanes hit {banks} banks"
    if banks == len(words):
        return f"{len(words)} words, in different banks"
    return f"{len(words)} words over {banks} banks"


def _collision(subject: Subject, pattern: Pattern) -> BankConflict | None:
    site = subject.site
    return worst_conflict(pattern.addresses(), subject.width, subject.target, subject.bank_bytes, site.access.kind)


def bank_formula(subject: Subject) -> str:
    """`bank = (33 * tx + k) mod 32 = (tx + k) mod 32`, of the first word that an element lies in."""
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
    """The sum with each coefficient, and the number, replaced by its remainder."""
    terms = []
    for term in sympy.Add.make_args(expr):
        coefficient, rest = term.as_coeff_Mul()
        terms.append(integer(int(coefficient) % modulus) * rest)
    return sympy.Add(*terms)


def _shared(subject: Subject, found: Totals, worst: Pattern) -> str:
    lanes = lanes_of(subject)
    text = f"{bank_formula(subject)}; {_in_a_warp(lanes)}; "
    if worst.excess > 0 and subject.sources is not None:
        return f"{text}{copy_reasons.meeting(subject.width, worst, subject.sources)}: {_too_many(worst)}"
    met = _collision(subject, worst)
    if worst.excess > 0 and met is not None:
        return text + _refuted(subject, worst, met)
    kinds = Counter[tuple[int, int, int, int]]()
    for pattern in found.patterns:
        words = distinct_words(pattern.lanes, subject.width)
        banks = {bank_of(word, subject.target, subject.bank_bytes) for word in words}
        kinds[pattern.active, len(words), len(banks), pattern.cost[1]] += pattern.warps
    (active_lanes, count, hit, wavefronts), warps = kinds.most_common(1)[0]
    who = f"{_count(active_lanes, 'lane')} {subject.verb}{'s' if active_lanes == 1 else ''}"
    what = "one word: a broadcast" if count == 1 else f"{count} words in {_count(hit, 'bank')}"
    text += f"{who} {what}, {_count(wavefronts, 'wavefront')}"
    if len(kinds) == 1:
        return text + _same(subject)
    return f"{text}; so do {warps:,} of {found.warps:,} warps, and none of the others is above its ideal"


def _refuted(subject: Subject, worst: Pattern, met: BankConflict) -> str:
    (a, b), (first, second) = met.lanes, met.words
    cost = _too_many(worst)
    if first == second:
        rule = "one word is broadcast at a time" if subject.verb == "read" else "one of its parts is written at a time"
        return f"lanes {a} and {b} {subject.verb} word {first} in bank {met.bank}, and only {rule}: {cost}"
    where = f"words {first} and {second}, both in bank {met.bank}"
    return f"lanes {a} and {b} {subject.verb} {where}, for which {met.degree} {_crowd(subject)} compete: {cost}"


def _too_many(worst: Pattern) -> str:
    _, wavefronts, ideal, _, _ = worst.cost
    return f"{_count(wavefronts, 'wavefront')} where {ideal} would do"


def _crowd(subject: Subject) -> str:
    if subject.target.shared_rule == "double_words":
        return "pairs of words" if subject.bank_bytes == 8 else "runs of 64 words"
    return "words"


# Global and constant memory


def _global_cause(subject: Subject, worst: Pattern) -> str:
    addresses = sorted(set(active(worst.lanes)))
    if len(addresses) == 1:
        return "one address for all lanes"
    used = len(addresses) * subject.width
    contiguous = addresses[-1] - addresses[0] + subject.width == used
    if contiguous:
        off = addresses[0] % SECTOR_BYTES
        return f"starts {off} bytes into a sector" if off and worst.excess else f"{used} bytes side by side"
    gaps = {b - a for a, b in pairwise(addresses)}
    if len(gaps) == 1:
        return f"lanes {gaps.pop()} bytes apart"
    rows = sum(b - a > subject.width for a, b in pairwise(addresses)) + 1
    return f"{used} bytes in {rows} runs"


def _global(subject: Subject, found: Totals) -> str:
    lanes = lanes_of(subject)
    steps = [
        f"{lane.name} and {lane.name} + 1 are {abs(lane.step * subject.element_bytes)} bytes apart"
        + _multiple(lane.step, subject)
        for lane in lanes
        if lane.step
    ]
    parts = [f"address = {_address(subject)}; {_in_a_warp(lanes)}"]
    if steps:
        parts[0] += ": " + ", ".join(steps)
    elif all(lane.step == 0 for lane in lanes):
        parts[0] += ": all lanes on one address"
    parts.append(_alignments(subject, found))
    parts.append(_utilisation(subject, found))
    return "; ".join(part for part in parts if part)


def _address(subject: Subject) -> str:
    text, size = subject.wording.text(source_expression(subject.site)), subject.element_bytes
    return text if size == 1 else f"{size} * ({text})"


def _multiple(step: int, subject: Subject) -> str:
    """Whether rows keep the alignment of the first."""
    size = abs(step * subject.element_bytes)
    if size <= subject.width:
        return ""
    return (
        f" (a multiple of {SECTOR_BYTES})"
        if size % SECTOR_BYTES == 0
        else f" ({size % SECTOR_BYTES} more than a multiple of {SECTOR_BYTES})"
    )


def _alignments(subject: Subject, found: Totals) -> str:
    """At how many of the alignments that occur a full warp moves how many sectors."""
    full = max(pattern.active for pattern in found.patterns)
    shapes: dict[tuple[int | None, ...], dict[int, Pattern]] = {}
    weights: Counter[tuple[int | None, ...]] = Counter()
    for pattern in found.patterns:
        low = min(active(pattern.lanes))
        shape = tuple(None if a is None else a - low for a in pattern.lanes)
        if pattern.active == full:
            shapes.setdefault(shape, {})[low] = pattern
            weights[shape] += pattern.warps
    shape = max(shapes, key=lambda s: weights[s])
    costs = Counter(pattern.cost[3] for pattern in shapes[shape].values())
    ideal = next(iter(shapes[shape].values())).cost[4]
    total = sum(costs.values())
    who = "a full warp" if full == WARP_SIZE else f"a warp with {_count(full, 'lane')} at work"
    if len(costs) == 1:
        (sectors,) = costs
        return f"{who} moves {_count(sectors, 'sector')}, ideal {ideal}"
    first, *others = sorted(costs)
    listed = "".join(f", {sectors} at {costs[sectors]}" for sectors in others)
    return f"{who} moves {_count(first, 'sector')} at {costs[first]} of {total} alignments{listed}, ideal {ideal}"


def _utilisation(subject: Subject, found: Totals) -> str:
    used = sum(len(set(active(p.lanes))) * subject.width * p.warps for p in found.patterns)
    moved = sum(p.cost[3] * SECTOR_BYTES * p.warps for p in found.patterns)
    return f"{100 * used / moved:.3g} % of the bytes moved are used" if moved else ""


def _constant(subject: Subject, found: Totals) -> str:
    counts = Counter[int]()
    for pattern in found.patterns:
        counts[len(set(active(pattern.lanes)))] += pattern.warps
    head = f"address = {_address(subject)}; {_in_a_warp(lanes_of(subject))}; "
    if list(counts) == [1]:
        return head + "uniform: the lanes of a warp read one address"
    most = max(counts)
    times = "" if len(counts) == 1 else f" in {counts[most]:,} of {found.warps:,} warps"
    return head + f"serialised over {most} addresses{times}"
