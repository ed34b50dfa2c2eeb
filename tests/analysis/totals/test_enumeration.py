"""Counters that decide by cases: listing them changes no count."""

from __future__ import annotations

from collections import Counter as Multiset
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.enumeration import enumerated
from cugen.analysis.totals.sites import Counter, Predicate
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.families.gemm.selection import search_space
from cugen.families.gemm.stream_k_schedule import schedule_stream_k
from cugen.kernel import generate
from cugen.plan.symbols import Choice, FloorDiv, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.load import load_text

BLOCK, WORK_UNIT, K, C, LANE = (symbol(name) for name in ("blockIdx.x", "turn", "k", "c", "threadIdx.x"))
CYCLE, LANES = 32, 8
PRODUCT = """
cugen: 1
kernel: k
params: {M: 100, N: 70, K: 90}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, stream: 1}
"""


def values(offset, counters, predicates, names=(), rows=(((), 1),)) -> Multiset[tuple[int, int]]:
    """How often the offset takes each value but for cycles in each lane, where the predicates hold."""
    actual: Multiset[tuple[int, int]] = Multiset()
    for row, times in rows:
        for chosen in product(*(range(counter.count) for counter in counters)):
            symbols = (*(counter.symbol for counter in counters), *names)
            assignment = {**dict(zip(symbols, (*chosen, *row), strict=True)), LANE: np.arange(LANES)}
            ranges = {name: (int(np.min(value)), int(np.max(value))) for name, value in assignment.items()}
            on = np.ones(LANES, np.bool_)
            for predicate in predicates:
                holds = np.logical_and.reduce(
                    [evaluator(d, ranges)(assignment) + 0 * assignment[LANE] < 0 for d, _ in predicate.terms]
                )
                on &= holds != predicate.negated
            residues = (evaluator(offset, ranges)(assignment) + 0 * assignment[LANE]) % CYCLE
            for lane in np.flatnonzero(on).tolist():
                actual[lane, int(residues[lane])] += times
    return actual


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(0, 2), st.integers(1, 9), st.integers(0, 40), st.booleans())
def test_listed_counters_run_through_the_same_values(blocks, rounds, share, edge, negated):
    steps, total = 7, share * blocks
    first, last = share * BLOCK, Minimum(share * (BLOCK + 1), integer(total))
    tile = Choice(
        WORK_UNIT, integer(rounds), BLOCK + blocks * WORK_UNIT, FloorDiv(last - 1, integer(steps)) + rounds - WORK_UNIT
    )
    start = Choice(WORK_UNIT, integer(rounds), integer(0), Maximum(first - steps * tile, integer(0)))
    stop = Choice(WORK_UNIT, integer(rounds), integer(steps), Minimum(last - steps * tile, integer(steps)))
    offset = 5 * FloorDiv(tile, integer(3)) + 11 * Mod(tile, integer(3)) + 2 * start + 3 * K + 13 * C + LANE
    predicates = (
        Predicate(((start - stop, "<"),)),
        Predicate(((K - stop + start, "<"),)),
        Predicate(((tile + 2 * C + LANE - edge, "<"), (C - 2, "<")), negated),
    )
    counters = (Counter(BLOCK, blocks), Counter(WORK_UNIT, rounds + 3), Counter(K, steps), Counter(C, 3))
    enumeration = enumerated(offset, counters, predicates, (LANES, 1, 1), CYCLE)
    assert [counter.symbol for counter in enumeration.counters] == [C]
    assert values(
        enumeration.offset, enumeration.counters, enumeration.predicates, enumeration.symbols, enumeration.cases
    ) == values(offset, counters, predicates)


def test_without_choices_all_stays_as_it_is():
    counters, predicates = (Counter(BLOCK, 9),), (Predicate(((3 * BLOCK + LANE - 20, "<"),)),)
    enumeration = enumerated(Minimum(3 * BLOCK, integer(19)) + LANE, counters, predicates, (LANES, 1, 1), CYCLE)
    assert (enumeration.counters, enumeration.predicates, enumeration.symbols) == (counters, predicates, ())


def test_conditions_of_lane_and_choice_are_not_enumerated():
    offset = FloorDiv(Choice(WORK_UNIT, integer(1), BLOCK, integer(3)) + LANE, integer(2))
    counters = (Counter(BLOCK, 4), Counter(WORK_UNIT, 2))
    assert enumerated(offset, counters, (), (LANES, 1, 1), CYCLE).counters == counters


def test_too_many_combinations_are_not_enumerated():
    counters = (Counter(BLOCK, 1 << 13), Counter(WORK_UNIT, 1 << 13))
    offset = Choice(WORK_UNIT, integer(9), BLOCK, integer(0)) + LANE
    assert enumerated(offset, counters, (), (LANES, 1, 1), CYCLE).counters == counters


@pytest.mark.slow
def test_blocks_that_share_out_the_last_tiles_cost_what_a_walk_finds(walk, monkeypatch):
    def on_5_blocks(tiles, k_tiles, _, waves, threads):
        return schedule_stream_k(tiles, k_tiles, 5, waves, threads)

    monkeypatch.setattr(search_space, "schedule_stream_k", on_5_blocks)
    (spec,) = load_text(PRODUCT)
    (launch,) = generate(spec, analysis=False).plan.kernels
    params = {"M": 100, "N": 70, "K": 90}
    walked = walk(launch, params, "sm_90").sums
    for actual in analyze_kernel(launch, "sm_90", params).accesses:
        if actual.access.array.symbol in ("C_flags", "shared_block_id"):
            continue  # which the walk leaves out
        assert actual.totals is not None
        expected = walked[id(actual.access)]
        assert expected["warps"] > 0
        assert {name: getattr(actual.totals, name) for name in expected} == expected
