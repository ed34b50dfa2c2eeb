"""A domain is cut where a quotient or remainder of a boundary changes its value, and costs as before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals import quotients
from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.exact import totals
from cugen.analysis.totals.quotients import parts_by_quotient
from cugen.analysis.totals.selections import Part
from cugen.analysis.totals.sites import Counter, Predicate
from cugen.kernel import generate
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.load import load_text
from tests.drawn import examples

BLOCK, STEP, LANE = symbol("blockIdx.x"), symbol("loop 0 i"), symbol("threadIdx.x")
THREADS = (32, 1, 1)


@dataclass(frozen=True)
class Domain:
    """A subscript over threads and counters, under guards."""

    offset: Integer
    counters: tuple[Counter, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    opaque: str = ""


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
def test_the_parts_execute_what_the_domain_does(
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
        patched.setattr(quotients, "_MAX_ENUMERATED_PERIOD", 1)
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
