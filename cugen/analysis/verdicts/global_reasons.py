"""Reasons for the sectors and transactions of global accesses: address formulas, alignments and utilisation."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.verdicts.subjects import Subject, count_of, lane_indices, lane_ranges, source_expression
from cugen.machine.requests import segments
from cugen.machine.requests.request import warp_request
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE, WORD_BYTES, active


def cause(subject: Subject, worst: Pattern) -> str:
    """Clause of a claim: how the addresses of the worst pattern lie."""
    pattern = _pattern(subject, worst)
    if subject.target.global_rule != "in_order" or worst.excess <= 0:
        return pattern
    if subject.width < WORD_BYTES:
        return f"not coalesced: {count_of(subject.width, 'byte')} per lane"
    addresses = list(active(worst.lanes))
    return "not coalesced: lanes out of order" if addresses != sorted(addresses) else f"not coalesced: {pattern}"


def _pattern(subject: Subject, worst: Pattern) -> str:
    addresses = sorted(set(active(worst.lanes)))
    if len(addresses) == 1:
        return "uniform address"
    used = len(addresses) * subject.width
    contiguous = addresses[-1] - addresses[0] + subject.width == used
    if contiguous:
        off = addresses[0] % _aligned_bytes(subject)
        return f"misaligned by {count_of(off, 'byte')}" if off and worst.excess else f"{used} contiguous bytes"
    gaps = {b - a for a, b in pairwise(addresses)}
    if len(gaps) == 1:
        return f"lanes {gaps.pop()} bytes apart"
    rows = sum(b - a > subject.width for a, b in pairwise(addresses)) + 1
    return f"{used} bytes in {rows} runs"


def reason(subject: Subject, totals: Totals, worst: Pattern) -> str:
    """Derivation from the address formula."""
    lanes = lane_indices(subject)
    steps = [
        f"{lane.name} and {lane.name} + 1 are {abs(lane.step * subject.element_bytes)} bytes apart"
        + _multiple(lane.step, subject)
        for lane in lanes
        if lane.step
    ]
    parts = [f"address = {address_formula(subject)}; {lane_ranges(lanes)}"]
    if steps:
        parts[0] += ": " + ", ".join(steps)
    elif all(lane.step == 0 for lane in lanes):
        parts[0] += ": uniform address"
    parts.append(_alignments(subject, totals))
    parts.append(_worst_warp(subject, worst))
    parts.append(_utilisation(subject, totals))
    return "; ".join(part for part in parts if part)


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


def in_transactions(subject: Subject, pattern: Pattern) -> str:
    """`transactions` as a clause."""
    return f" in {text}" if (text := transactions(subject, pattern)) else ""


def _aligned_bytes(subject: Subject) -> int:
    """Alignment at which contiguous lanes take the fewest transactions."""
    lanes, target = subject.target.request_lanes, subject.target
    if target.global_rule == "in_order":
        return min(lanes * subject.width, segments.LINE_BYTES)
    if target.global_rule == "segments":
        return segments.LINE_BYTES
    return segments.granule_of(subject.site.access.kind, target, subject.cache)


def address_formula(subject: Subject) -> str:
    """Offset in bytes over the source's names."""
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
    who = "a full warp" if full == WARP_SIZE else f"a warp with {count_of(full, 'active lane')}"
    if len(costs) == 1:
        (sectors,) = costs
        moved = count_of(sectors, "sector") + in_transactions(subject, next(iter(shapes[shape].values())))
        return f"{who} moves {moved}, ideal {ideal}"
    first, *costlier = sorted(costs)
    listed = "".join(f", {sectors} at {costs[sectors]}" for sectors in costlier)
    return f"{who} moves {count_of(first, 'sector')} at {costs[first]} of {total} alignments{listed}, ideal {ideal}"


def _worst_warp(subject: Subject, worst: Pattern) -> str:
    """Start and transactions of the worst warp; empty if it is ideal."""
    if worst.excess <= 0:
        return ""
    _, _, _, sectors, ideal = worst.cost
    low = min(active(worst.lanes))
    who = "the worst warp"
    if worst.active < WARP_SIZE:
        who += f", with {count_of(worst.active, 'active lane')},"
    moved = count_of(sectors, "sector") + in_transactions(subject, worst)
    return f"{who} begins at byte {low} of {subject.period} and moves {moved}, ideal {ideal}"


def _utilisation(subject: Subject, totals: Totals) -> str:
    used = sum(len(set(active(p.lanes))) * subject.width * p.warps for p in totals.patterns)
    moved = sum(p.cost[3] * SECTOR_BYTES * p.warps for p in totals.patterns)
    return f"{100 * used / moved:.3g} % of the bytes moved are used" if moved else ""
