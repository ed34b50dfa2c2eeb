"""Reasons for the cost of an access, as text with computed numbers.

`claim` fits a comment in the source. `reason` derives it from the bank or address expression, the lane strides and the
alignment, or names two lanes with a bank conflict.
"""

from __future__ import annotations

from collections import Counter

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.verdicts import global_reasons, shared_reasons
from cugen.analysis.verdicts.subjects import Subject, lane_indices, lane_ranges
from cugen.machine.requests.warp import WARP_SIZE, WORD_BYTES, active, lane_groups

_MAX_CLAIM_CHARACTERS = 70  # characters, without the transactions


def claim(subject: Subject, totals: Totals, figure: str) -> str:
    """Short clause: the cost per request and its cause."""
    worst = totals.worst_pattern
    if worst is None:
        return "never runs"
    cause = _cause(subject, totals, worst)
    text = f"{figure} ({cause})"
    counted = len(text) - len(global_reasons.in_transactions(subject, worst))
    return text if cause and counted <= _MAX_CLAIM_CHARACTERS else figure


def reason(subject: Subject, totals: Totals) -> str:
    """Derivation in several clauses."""
    worst = totals.worst_pattern
    if worst is None:
        return "no warp of the launch executes it"
    if subject.space == "constant":
        return _constant(subject, totals)
    if subject.space == "shared":
        return shared_reasons.reason(subject, totals, worst)
    if subject.space == "local":
        return _local(worst)
    return global_reasons.reason(subject, totals, worst)


def _cause(subject: Subject, totals: Totals, worst: Pattern) -> str:
    if subject.space == "constant":
        addresses = _addresses_per_request(subject, worst)
        return "uniform address" if addresses == 1 else f"serialised: {addresses} addresses"
    if subject.space == "local":
        return _local_cause(worst)
    if subject.space == "global":
        return global_reasons.cause(subject, worst)
    return shared_reasons.cause(subject, totals, worst)


def _local_cause(worst: Pattern) -> str:
    words = len({address // WORD_BYTES for address in active(worst.lanes)})
    return "local memory, equal subscripts" if words == 1 else f"local memory, {words} words"


def _local(worst: Pattern) -> str:
    words = len({address // WORD_BYTES for address in active(worst.lanes)})
    interleaved = "local memory interleaves the 32-bit words of a warp's lanes"
    if words == 1:
        return f"{interleaved}: lanes with equal subscripts access one line of 128 bytes"
    return f"{interleaved}: {words} different words of the lanes are in {words} lines of 128 bytes"


def _constant(subject: Subject, totals: Totals) -> str:
    counts = Counter[int]()
    for pattern in totals.patterns:
        counts[_addresses_per_request(subject, pattern)] += pattern.warps
    head = f"address = {global_reasons.address_formula(subject)}; {lane_ranges(lane_indices(subject))}; "
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
