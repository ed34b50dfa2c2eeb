"""A domain is cut where a Minimum or Maximum over one counter selects its other operand, or a quotient of a boundary
changes, and costs as before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals import selections
from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.exact import totals
from cugen.analysis.totals.selections import Part, parts_by_quotient, parts_by_selection
from cugen.analysis.totals.sites import Counter, Predicate
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.load import load_text
from tests.drawn import examples

BLOCK, STEP, LANE = symbol("blockIdx.x"), symbol("loop 0 i"), symbol("threadIdx.x")


@dataclass(frozen=True)
class Domain:
    """A subscript over threads and counters, under guards."""

    offset: Integer
    counters: tuple[Counter, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    opaque: str = ""


def guarded(length: Integer, offset: Integer = LANE + 64 * BLOCK + 8 * STEP) -> Domain:
    """The parts of a row, of which each block takes one, in several steps."""
    return Domain(offset, (Counter(BLOCK, 4), Counter(STEP, 8)), (Predicate(((LANE + 8 * STEP - length, "<"),)),))


def test_the_last_of_several_parts_is_counted_by_itself() -> None:
    whole, last = parts_by_selection(guarded(Minimum(integer(64), 203 - 64 * BLOCK)))
    assert whole.counters == (Counter(BLOCK, 3), Counter(STEP, 8))
    assert whole.predicates == (Predicate(((LANE + 8 * STEP - 64, "<"),)),)
    assert last.counters == (Counter(STEP, 8),)
    assert last.offset == LANE + 192 + 8 * STEP
    assert last.predicates == (Predicate(((LANE + 8 * STEP - 11, "<"),)),)


@pytest.mark.parametrize(
    "length",
    [
        pytest.param(Choice(BLOCK, integer(2), integer(64), Minimum(integer(64), 203 - 64 * BLOCK)), id="choice"),
        pytest.param(Minimum(8 * STEP, 203 - 64 * BLOCK), id="two counters"),
        pytest.param(Minimum(integer(64), Mod(BLOCK, integer(3))), id="no line"),
        pytest.param(Minimum(integer(64), 60 * BLOCK) + FloorDiv(BLOCK, integer(2)), id="another quotient"),
    ],
)
def test_domains_that_no_value_of_a_counter_cuts_stay_whole(length: Integer) -> None:
    domain = guarded(length)
    (part,) = parts_by_selection(domain)
    assert (part.offset, part.counters, part.predicates) == (domain.offset, domain.counters, domain.predicates)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(-9, 9),
    st.integers(-40, 40),
    st.integers(-9, 9),
    st.integers(-40, 40),
    st.sampled_from([Minimum, Maximum]),
    st.booleans(),
)
def test_the_parts_execute_what_the_domain_does(
    slope: int, start: int, second_slope: int, end: int, extremum: type[Integer], twice: bool
) -> None:
    selected = extremum(slope * BLOCK + start, second_slope * BLOCK + end)
    length = Maximum(selected, integer(5)) if twice else selected
    domain = guarded(length, LANE + 64 * BLOCK + selected)
    ranges = {BLOCK: (0, 3), STEP: (0, 7), LANE: (0, 31)}
    expected = []
    (guard,) = domain.predicates
    for block, step, lane in product(range(4), range(8), range(32)):
        values = {BLOCK: block, STEP: step, LANE: lane}
        if evaluator(guard.terms[0][0], ranges)(values) < 0:
            expected.append(int(evaluator(domain.offset, ranges)(values)))
    seen = totals(domain, (32, 1, 1), 1, 32, lambda addresses: (1, 0, 0, len(set(addresses)), 0))
    assert seen.lanes == len(expected)
    assert seen.warps == sum(pattern.warps for pattern in seen.patterns)
    positions = sorted(position % 32 for position in expected)
    assert positions == sorted(
        address % 32 for p in seen.patterns for address in p.lanes if address is not None for _ in range(p.warps)
    )


SUM = """
cugen: 1
kernel: total
params: {N: 400000009}
arrays:
  x: {shape: [N], dtype: uint8}
  y: {shape: [], dtype: int64}
compute: y = sum(cast(x[i], int64), i)
"""


def test_a_sum_of_a_prime_number_of_elements_has_exact_costs() -> None:
    (spec,) = load_text(SUM)
    parts = generate(spec).plan.kernels[0]
    loads = [r for r in analyze_kernel(parts, "sm_90", {"N": 400000009}).accesses if r.access.array.symbol == "x"]
    assert [report.totals.lanes if report.totals else None for report in loads] == [25_000_000, 9]


THREADS = (32, 1, 1)


def test_only_the_blocks_at_both_ends_of_a_row_keep_the_remainder() -> None:
    whole = Part(Mod(32 * BLOCK + LANE - 1, integer(6400)), (Counter(BLOCK, 200),), ())
    first, inside = parts_by_quotient(whole, THREADS)
    assert first.offset == Mod(LANE - 1, integer(6400))
    assert (first.counters, inside.counters) == ((), (Counter(BLOCK, 199),))
    assert inside.offset.expand() == 32 * BLOCK + LANE + 31
    whole = Part(FloorDiv(32 * BLOCK + LANE + 1, integer(6400)), (Counter(BLOCK, 200),), ())
    inside, last = parts_by_quotient(whole, THREADS)
    assert (inside.offset, inside.counters) == (0, (Counter(BLOCK, 199),))
    assert last.offset == FloorDiv(LANE + 6369, integer(6400))


@pytest.mark.parametrize(
    "offset",
    [
        pytest.param(Mod(32 * BLOCK + LANE, integer(640)), id="many quotients"),
        pytest.param(Mod(32 * BLOCK + LANE - 1, integer(6400)) + Mod(BLOCK, integer(3)), id="another remainder"),
        pytest.param(Choice(BLOCK, integer(2), Mod(BLOCK - 1, integer(200)), LANE), id="choice"),
        pytest.param(Mod(128 * BLOCK + LANE - 1, integer(6400)), id="short period"),
        pytest.param(Mod(FloorDiv(BLOCK, integer(2)) - 1, integer(200)), id="quotient inside"),
    ],
)
def test_domains_without_such_a_boundary_stay_whole(offset: Integer) -> None:
    whole = Part(offset, (Counter(BLOCK, 200),), ())
    assert parts_by_quotient(whole, THREADS) == [whole]


@settings(deadline=None, max_examples=examples(100))
@given(
    st.integers(-9, 9),
    st.integers(-3, 3),
    st.integers(-2, 2),
    st.integers(-40, 40),
    st.integers(2, 90),
    st.sampled_from(["mod", "quotient", "reflected", "symmetric", "guard"]),
    st.integers(1, 40),
)
def test_parts_by_quotient_execute_what_the_domain_does(
    slope: int, step: int, lane: int, start: int, divisor: int, kind: str, blocks: int
) -> None:
    dividend, by = slope * BLOCK + step * STEP + lane * LANE + start, integer(divisor)
    remainder = Mod(dividend, by)
    folded = {
        "mod": remainder,
        "quotient": FloorDiv(dividend, by),
        "reflected": Minimum(remainder, divisor - 1 - remainder),
        "symmetric": Maximum(remainder, divisor // 2 - remainder),
        "guard": LANE + 3 * STEP,
    }[kind]
    guard = Predicate(((remainder - divisor // 2 if kind == "guard" else LANE + STEP - 30, "<"),))
    domain = Domain(folded + 64 * BLOCK, (Counter(BLOCK, blocks), Counter(STEP, 3)), (guard,))
    ranges = {BLOCK: (0, blocks - 1), STEP: (0, 2), LANE: (0, 31)}
    offset, condition = evaluator(domain.offset, ranges), evaluator(guard.terms[0][0], ranges)
    expected: list[int] = []
    warps = 0
    for block, trip in product(range(blocks), range(3)):
        points = ({BLOCK: block, STEP: trip, LANE: number} for number in range(32))
        active = [int(offset(point)) for point in points if condition(point) < 0]
        expected += active
        warps += bool(active)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selections, "_MAX_ENUMERATED_PERIOD", 1)
        seen = totals(domain, THREADS, 1, 32, lambda addresses: (1, 0, 0, len(set(addresses)), 0))
    assert (seen.lanes, seen.warps) == (len(expected), warps)
    assert sorted(position % 32 for position in expected) == sorted(
        address % 32 for p in seen.patterns for address in p.lanes if address is not None for _ in range(p.warps)
    )


STENCIL = """
cugen: 1
kernel: diffuse
params: {{H: 8009, W: 8011}}
arrays:
  u: {{shape: [H, W], dtype: float32, boundary: {boundary}}}
  y: {{shape: [H, W], dtype: float32}}
compute: y[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
"""


@pytest.mark.parametrize("boundary", ["wrap", "reflect", "symmetric"])
def test_large_arrays_with_a_boundary_that_folds_have_exact_costs(boundary: str) -> None:
    (spec,) = load_text(STENCIL.format(boundary=boundary))
    (report,) = generate(spec).reports
    loads = [access for access in report.accesses if access.access.array.symbol == "u"]
    assert loads
    assert [access.claim for access in loads if access.totals is None] == []
