"""Reasons for the cost of an access, as text with computed numbers.

`claim` fits a comment in the source. `reason` derives it from the bank or address expression, the lane strides and the
alignment, or names two lanes with a bank conflict.
"""

from __future__ import annotations

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.verdicts import async_proxy, constant_reasons, global_reasons, shared_reasons
from cugen.analysis.verdicts.subjects import Subject
from cugen.machine.requests.warp import WORD_BYTES, active

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
    if subject.site.instruction is not None:
        return async_proxy.reason(subject.site, totals)
    if subject.space == "constant":
        return constant_reasons.reason(subject, totals)
    if subject.space == "shared":
        return shared_reasons.reason(subject, totals, worst)
    if subject.space == "local":
        return _local(worst)
    return global_reasons.reason(subject, totals, worst)


def _cause(subject: Subject, totals: Totals, worst: Pattern) -> str:
    if subject.site.instruction is not None:
        return async_proxy.cause(subject.site)
    if subject.space == "constant":
        return constant_reasons.cause(subject, worst)
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
