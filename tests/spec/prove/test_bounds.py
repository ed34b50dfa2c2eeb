"""Out-of-bounds reads are reported, others accepted, and proofs agree with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.spec.expressions import Read, walk
from cugen.spec.prove.counterexample import Point
from tests.drawn import examples

Compute = Callable[..., Any]
RELAXED = settings(
    deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


@pytest.mark.slow
@RELAXED
@given(subscripts(), conditions(), st.integers(1, 9))
def test_a_proof_for_all_sizes_holds_for_each(compute: Compute, subscript: str, condition: str, size: int) -> None:
    text = f"y[i, j] = where({condition}, x[{subscript}], 0)"
    arrays = {"x": "2 * N + 3", "y": "N, N + 1"}
    assume(compute(text, params="{N: {range: [1, 9]}}", **arrays).codes == [])
    assert compute(text, params=f"{{N: {size}}}", **arrays).codes == []


GROUPED = (
    "sum(x[f // (F // G) * (C // G) + c] * w[f // (F // G) * (C // G) + c, f % (F // G)], c)",
    "sum(x[c + C // G * (f // (F // G))] * w[C - 1 - (f // (F // G) * (C // G) + c), F // G - 1 - f % (F // G)], c)",
    "sum(x[f * C // F // (C // G) * (C // G) + c], c)",
    "sum(w[(f // (F // G) * (C // G) + c) % C, f // G], c)",
)


@pytest.fixture
def without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that aren't proved are reported: no points are tried."""
    unproved = Point("", "", "", False)
    monkeypatch.setattr("cugen.spec.prove.bounds.find_outside", lambda *_: unproved)


def grouped(compute: Compute, value: str, params: str) -> list[str]:
    """The codes of `y[f] = value` over F outputs and C inputs in G groups."""
    shapes = {name: shape for name, shape in {"x": "C", "w": "C, F // G"}.items() if f"{name}[" in value}
    return list(compute(f"y[f] = {value}", params=params, indices="{c: C // G}", y="F", **shapes).codes)


@pytest.mark.parametrize("value", GROUPED)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 31, 128), (100, 33, 64), (7, 512, 3), (32, 1, 1), (3, 1, 4096)])
@pytest.mark.usefixtures("without_search")
def test_groups_are_inside_wherever_they_divide_the_channels(
    compute: Compute, value: str, sizes: tuple[int, int, int]
) -> None:
    g, of_input, of_output = sizes
    assert grouped(compute, value, f"{{G: {g}, C: {g * of_input}, F: {g * of_output}}}") == []


@RELAXED
@given(st.sampled_from(GROUPED[:2]), st.integers(1, 64), st.integers(1, 200), st.integers(1, 200))
def test_groups_of_any_size_are_proved(compute: Compute, value: str, g: int, of_input: int, of_output: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cugen.spec.prove.bounds.find_outside", lambda *_: Point("", "", "", False))
        assert grouped(compute, value, f"{{G: {g}, C: {g * of_input}, F: {g * of_output}}}") == []


@pytest.mark.slow
@RELAXED
@given(
    st.sampled_from(GROUPED[:2]), st.integers(2, 12), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 1, 24])
)
def test_groups_are_proved_for_all_sizes_that_they_divide(
    compute: Compute, value: str, g: int, of_input: int, of_output: int, minimum: int
) -> None:
    sizes = (f"{{range: [{minimum}, 65536], multiple_of: {g * count}}}" for count in (of_input, of_output))
    c, f = sizes
    assert grouped(compute, value, f"{{G: {g}, C: {c}, F: {f}}}") == []


@pytest.mark.parametrize(
    "params",
    [
        "{G: 12, C: {range: [12, 4096], multiple_of: 12}, F: {range: [12, 4096], multiple_of: 8}}",
        "{G: 5, C: 20, F: 21}",
    ],
)
def test_groups_that_need_not_divide_the_channels_may_be_outside(compute: Compute, params: str) -> None:
    assert set(grouped(compute, GROUPED[0], params)) == {"CG1304"}


@st.composite
def grouped_subscripts(draw: st.DrawFn) -> str:
    """Quotients and remainders of an index by a param, or by a part of one, scaled and shifted."""
    divisor = draw(st.sampled_from(["D", "(P // D)", "(2 * D)", "(D + 1)"]))
    part = draw(
        st.sampled_from(["i // {0}", "i % {0}", "(i + {1}) // {0}", "(P - 1 - i) // {0}", "(i * D + j) // {0}"])
    )
    scale = draw(st.sampled_from(["1", "D", "(P // D)", "2"]))
    form = draw(st.sampled_from(["{0}", "{0} * {1}", "{0} * {1} + j", "{0} * {1} + i % {1}"]))
    return form.format(part.format(divisor, draw(st.integers(-2, 2))), scale)


@pytest.mark.slow
@RELAXED
@given(grouped_subscripts(), st.sampled_from(["P", "P // D", "D", "2 * P"]), st.integers(1, 4), st.integers(1, 4))
def test_a_proof_with_quotients_by_params_holds_for_each_size(
    compute: Compute, subscript: str, extent: str, unit: int, multiple: int
) -> None:
    p, d = unit * multiple, unit
    dynamic = f"{{D: {d}, P: {{range: [0, 64], multiple_of: {d}}}}}"
    arrays = {"x": extent, "y": "P, D"}
    proved = not compute(f"y[i, j] = x[{subscript}]", params=dynamic, **arrays).codes
    names: dict[str, Any] = {"__builtins__": {}}
    outside = any(
        not 0 <= eval(subscript, names, {"i": i, "j": j, "P": p, "D": d}) < eval(extent, names, {"P": p, "D": d})
        for i, j in product(range(p), range(d))
    )
    assert not (proved and outside)
    static = compute(f"y[i, j] = x[{subscript}]", params=f"{{D: {d}, P: {p}}}", **arrays)
    assert static.codes == (["CG1304"] if outside else [])


@pytest.mark.parametrize(
    ("params", "require", "x"),
    [
        ("{N: dynamic, H: 32}", "N % H == 0", "N // H"),
        ("{N: dynamic, H: {range: [1, 999]}}", "N % H == 0", "N // H"),
        ("{N: dynamic, H: dynamic}", "H > 0, N % H == 0", "N // H"),
        ("{N: dynamic, H: dynamic, G: dynamic}", "H >= 2, N == G * H", "G"),
        ("{N: dynamic, H: dynamic, G: dynamic}", "H >= 2 and N <= G * H", "G"),
        ("{N: dynamic, H: 7}", "N <= 77", "11"),
    ],
)
def test_a_quotient_is_in_bounds_by_what_is_required(compute: Compute, params: str, require: str, x: str) -> None:
    assert compute("y[n] = x[n // H]", params=params, x=x, y="N").codes == ["CG1304"]
    assert compute("y[n] = x[n // H]", params=params, require=f"[{require}]", x=x, y="N").codes == []


def test_a_quotient_is_in_bounds_of_a_product_that_is_not_empty(compute: Compute) -> None:
    assert compute("y[n] = x[n // H]", params="{G: dynamic, H: dynamic}", x="G", y="G * H").codes == []
    assert compute("y[n] = x[n // H]", params="{G: dynamic, H: dynamic}", x="G", y="G * H + 1").codes == ["CG1304"]


def test_counterexamples_meet_the_requirements(compute: Compute) -> None:
    result = compute("y[n] = x[n // H]", params="{N: dynamic, H: 2}", require="[N % 3 == 1]", x="N // H", y="N")
    (diagnostic,) = result.diagnostics
    assert diagnostic.label.startswith("N = 1, n = 0 reads x[0]")


@pytest.mark.parametrize("rows", ["3", "20011", "dynamic"])
def test_bits_of_one_index_are_enumerated_whatever_the_other_dimensions(compute: Compute, rows: str) -> None:
    bits = "32 * (i % 2) + 16 * (i // 2 % 2) + 8 * (i // 4 % 2) + 4 * (i // 8 % 2) + 2 * (i // 16 % 2)"
    shape = "B, 64; float32"
    right = compute(f"y[b, i] = x[b, {bits} + i // 32]", params=f"{{B: {rows}}}", x=shape, y=shape)
    assert right.codes == []
    wrong = compute(f"y[b, i] = x[b, {bits} + i // 31]", params=f"{{B: {rows}}}", x=shape, y=shape)
    assert wrong.codes == ["CG1304"]
