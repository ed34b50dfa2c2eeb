"""Out-of-bounds reads are reported, others accepted, and proofs agree with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.spec.expressions import Read, walk

Compute = Callable[..., Any]
RELAXED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def boundaries(result: Any) -> list[str | None]:
    return [part.boundary.mode if part.boundary else None for part in walk(result.value) if isinstance(part, Read)]


def test_an_out_of_bounds_read_has_a_counterexample(compute: Compute) -> None:
    result = compute("C[m, n] = A[m + 1, n]", params="{M: 1000}", A="M, 4", C="M, 4")
    assert result.codes == ["CG1304"]
    assert "m = 999" in result.diagnostics[0].label
    assert "reads A[1000, 0], outside 0..999" in result.diagnostics[0].label


def test_a_negative_subscript_does_not_wrap(compute: Compute) -> None:
    result = compute("y[i] = x[i - 1]", x="8", y="8")
    assert result.codes == ["CG1304"]
    assert "i = 0 reads x[-1], outside 0..7" in result.diagnostics[0].label


def test_a_read_of_a_dynamic_array_is_rejected_with_a_size_that_shows_it(compute: Compute) -> None:
    result = compute("y[i] = x[i + 1]", params="{N: dynamic}", x="N", y="N")
    assert "N = 1, i = 0 reads x[1]" in result.diagnostics[0].label


def test_a_boundary_stays_on_reads_that_may_be_out_of_bounds_only(compute: Compute) -> None:
    result = compute("y[i] = x[i] + x[i + 1]", x="8; float32; boundary: clamp", y="8")
    assert boundaries(result) == [None, "clamp"]


@pytest.mark.parametrize(
    "value",
    [
        "where(i + 1 < N, x[i + 1], 0)",
        "x[i + 1] if i < N - 1 else 0",
        "0 if i + 1 >= N else x[i + 1]",
        "where(inside(x[i + 1]), x[i + 1], 0)",
        "where(not i == 0, x[i - 1], 0)",
        "where(i != 0, x[i - 1], 0)",
        "where(0 <= i - 3 < N, x[i - 3], 0)",
        "where(i > 0 and x[i] > 0, x[i - 1], 0)",
        "where(i == 0 or i == N - 1, 0, x[i - 1] + x[i + 1])",
        "where(i > 0 and x[i - 1] > 0, 1, 0)",
        "where(i == 0 or x[i - 1] > 0, 1, 0)",
        "sum(x[k], k, where=k <= i)",
        "sum(x[k] * x[i - k], k, where=k <= i)",
        "sum(x[k] * x[i + k], k, where=i + k < N)",
        "x[N - 1 - i]",
        "x[i // 2] + x[i % 7 // 7] + x[(i + 3) // 4 * 4 // 5]",
        "where(i % 2 == 0, x[i / 2], 0)",
    ],
)
@pytest.mark.parametrize("size", ["{N: 100}", "{N: {range: [1, 65536]}}"])
def test_guards_prove_a_read_in_bounds(compute: Compute, value: str, size: str) -> None:
    result = compute(f"y[i] = {value}", params=size, x="N", y="N")
    assert result.codes == []
    assert set(boundaries(result)) <= {None}


def test_the_else_branch_is_not_guarded_by_the_condition(compute: Compute) -> None:
    assert compute("y[i] = where(i > 0, 0, x[i - 1])", x="8", y="8").codes == ["CG1304"]


def test_a_scan_is_guarded_by_its_condition(compute: Compute) -> None:
    assert compute("y[i, j] = cumsum(x[i, j - j // 8], j)", x="4, 8", y="4, 8").codes == []
    forward = "y[i, j] = cumsum(x[i, j + {}], j, where=j + {} < 8)"
    assert compute(forward.format(3, 3), x="4, 8", y="4, 8").codes == []
    assert compute(forward.format(3, 2), x="4, 8", y="4, 8").codes == ["CG1304"]


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("x[i * N + j]", "N * N"),
        ("x[i, j // 8, j % 8]", "N, N // 8, 8"),
        ("x[(i * N + j) // N, j]", "N, N"),
        ("x[i + j]", "2 * N - 1"),
        ("x[(i + 37) % N, (i * N + j) % N]", "N, N"),
        ("x[(i + j) // N, N - 1 - (i + j) % N]", "2, N"),
    ],
)
@pytest.mark.parametrize("size", ["{N: 64}", "{N: {range: [8, 4096], multiple_of: 8}}"])
def test_products_and_quotients_of_params_are_reasoned_about(
    compute: Compute, value: str, shape: str, size: str
) -> None:
    assert compute(f"y[i, j] = {value}", params=size, x=shape, y="N, N").codes == []


def test_a_gather_without_boundary_is_assumed_in_bounds(compute: Compute) -> None:
    result = compute("y[i, j] = table[ids[i], j]", ids="8; int32", table="100, 4", y="8, 4")
    assert boundaries(result) == [None, None]


def test_a_gather_keeps_its_boundary_and_its_other_subscripts_are_proved(compute: Compute) -> None:
    kept = compute("y[i] = table[ids[i]]", ids="8; int32", table="100; float32; boundary: zero", y="8")
    assert boundaries(kept) == ["zero", None]
    assert compute("y[i] = table[ids[i], i + 1]", ids="8; int32", table="9, 8", y="8").codes == ["CG1304"]


def test_a_guard_that_depends_on_data_proves_nothing_and_says_so(compute: Compute) -> None:
    result = compute("y[i] = where(x[i] > 0, x[i + 1], 0)", x="8", y="8")
    assert result.codes == ["CG1304"]
    assert "unproved" in result.diagnostics[0].message


def test_an_exact_division_with_a_remainder_is_outside(compute: Compute) -> None:
    assert compute("y[i] = x[i / 2]", x="8", y="8").codes == ["CG1304"]
    result = compute("y[i] = x[i / 2]", x="8; float32; boundary: zero", y="8")
    (read,) = [part for part in walk(result.value) if isinstance(part, Read)]
    assert [divisor for _, divisor in read.exact] == [2]
    assert read.boundary is not None


def test_small_cases_beyond_the_proof_are_enumerated(compute: Compute) -> None:
    # 7 * (i % 5) mod 5 is never 4 where i % 5 is not 2: no linear fact implies it.
    value = "where(i % 5 != 2, x[i * 7 % 5 // 4 + i * 7 % 5 % 4], 0)"
    assert compute(f"y[i] = {value}", x="4", y="40").codes == []


coefficients = st.integers(-3, 3)


@st.composite
def subscripts(draw: st.DrawFn) -> str:
    base = f"{draw(coefficients)} * i + {draw(coefficients)} * j + {draw(st.integers(-6, 6))}"
    form = draw(st.sampled_from(["{0}", "({0}) // {1}", "({0}) % {1}", "({0}) // {1} % 3 + i"]))
    return form.format(base, draw(st.integers(1, 4)))


@st.composite
def conditions(draw: st.DrawFn) -> str:
    left = f"{draw(coefficients)} * i + {draw(coefficients)} * j"
    simple = f"{left} {draw(st.sampled_from(['<', '<=', '==', '!=', '>=', '>']))} {draw(st.integers(-4, 6))}"
    return draw(st.sampled_from(["{0}", "not ({0})", "{0} and i > 1", "{0} or j == 2", "i % 2 == 0 and {0}"])).format(
        simple
    )


@RELAXED
@given(subscripts(), conditions(), st.integers(1, 7), st.integers(1, 5), st.integers(1, 12))
def test_a_static_read_is_accepted_exactly_where_no_point_is_outside(
    compute: Compute, subscript: str, condition: str, rows: int, columns: int, size: int
) -> None:
    # The language's integer expressions are Python's, so Python itself is the oracle.
    names: dict[str, Any] = {"__builtins__": {}}
    outside = any(
        eval(condition, names, {"i": i, "j": j}) and not 0 <= eval(subscript, names, {"i": i, "j": j}) < size
        for i, j in product(range(rows), range(columns))
    )
    text = f"y[i, j] = where({condition}, x[{subscript}], 0)"
    result = compute(text, x=f"{size}", y=f"{rows}, {columns}")
    assert result.codes == (["CG1304"] if outside else [])


@RELAXED
@given(subscripts(), conditions(), st.integers(1, 9))
def test_a_proof_for_all_sizes_holds_for_each(compute: Compute, subscript: str, condition: str, size: int) -> None:
    text = f"y[i, j] = where({condition}, x[{subscript}], 0)"
    arrays = {"x": "2 * N + 3", "y": "N, N + 1"}
    assume(compute(text, params="{N: {range: [1, 9]}}", **arrays).codes == [])
    assert compute(text, params=f"{{N: {size}}}", **arrays).codes == []
