"""Reasons for the wavefronts of shared-memory accesses: bank formulas and conflicts."""

from __future__ import annotations

from collections import Counter

import sympy

from cugen.analysis.totals.exact import Pattern, Totals
from cugen.analysis.verdicts import async_copy_reasons as copy_reasons
from cugen.analysis.verdicts.subjects import (
    Subject,
    count_of,
    lane_indices,
    lane_ranges,
    source_expression,
    uniform_names,
)
from cugen.machine.requests.banks import BankConflict, bank_of, bank_words, distinct_words, worst_conflict
from cugen.machine.requests.warp import WORD_BYTES
from cugen.plan.symbols import Integer, integer


def cause(subject: Subject, totals: Totals, worst: Pattern) -> str:
    """Clause of a claim: the conflict of the worst pattern, or how the words of the most frequent one are spread."""
    if worst.excess > 0 and subject.sources is not None:
        return copy_reasons.cause(subject.width, worst, subject.sources)
    conflict = _worst_conflict(subject, worst)
    if worst.excess > 0 and conflict is not None:
        (a, b), (first, second) = conflict.lanes, conflict.words
        words = f"word {first}" if first == second else f"words {first} and {second}"
        return f"lanes {a} and {b}: {words}, bank {conflict.bank}"
    return _spread(subject, max(totals.patterns, key=lambda pattern: pattern.warps))


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
    return f"{len(words)} words over {count_of(banks, 'bank')}"


def _worst_conflict(subject: Subject, pattern: Pattern) -> BankConflict | None:
    site = subject.site
    return worst_conflict(pattern.addresses(), subject.width, subject.target, subject.bank_bytes, site.access.kind)


def reason(subject: Subject, totals: Totals, worst: Pattern) -> str:
    """Derivation from the bank formula."""
    lanes = lane_indices(subject)
    text = f"{bank_formula(subject)}; {lane_ranges(lanes)}; "
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
    who = f"{count_of(active_lanes, 'lane')} {subject.verb}{'s' if active_lanes == 1 else ''}"
    what = "one word (broadcast)" if count == 1 else f"{count} words in {count_of(hit, 'bank')}"
    text += f"{who} {what}, {count_of(wavefronts, 'wavefront')}"
    if len(kinds) == 1:
        return text + uniform_names(subject)
    return f"{text}; in {warps:,} of {totals.warps:,} warps, the others are ideal too"


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
    return f"{count_of(wavefronts, 'wavefront')}, ideal {ideal}"


def _conflict_unit(subject: Subject) -> str:
    if subject.target.shared_rule == "double_words":
        return "pairs of words" if subject.bank_bytes == 8 else "runs of 64 words"
    return "words"
