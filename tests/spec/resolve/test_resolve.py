"""Resolution of names, extents and roles in a block of statements, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cugen.spec.expressions import Cast, Const, Expr, Index, IndexValue, Op, ParamValue, Read, Reduce, Scan, walk
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import FLOAT32, INT64

Compute = Callable[..., Any]


def index(name: str) -> IndexValue:
    return IndexValue(name)


def test_a_matrix_multiplication_is_a_sum_over_the_index_that_both_share(compute: Compute) -> None:
    result = compute(
        "C[m, n] = sum(A[m, k] * B[k, n], k)", params="{M: 1000, K: 513, N: 777}", A="M, K", B="K, N", C="M, N"
    )
    a = Read("A", (index("m"), index("k")), FLOAT32)
    b = Read("B", (index("k"), index("n")), FLOAT32)
    assert result.value == Reduce("sum", Op("mul", (a, b), FLOAT32), (Index("k", ParamValue("K")),), FLOAT32)
    statement = result.spec.statements[0]
    assert statement.indices == (Index("m", ParamValue("M")), Index("n", ParamValue("N")))
    assert statement.subscripts == (index("m"), index("n"))
    assert statement.text == "C[m, n] = sum(A[m, k] * B[k, n], k)"
    assert {array.name: array.role for array in result.spec.arrays} == {"A": "input", "B": "input", "C": "output"}


def bound(expr: Expr) -> list[str]:
    reduced = [part.indices[0].name for part in walk(expr) if isinstance(part, Reduce)]
    return reduced + [part.inner.name for part in walk(expr) if isinstance(part, Scan)]


def test_bound_indices_keep_the_users_names_where_they_can(compute: Compute) -> None:
    both = compute("y[i] = sum(x[i, k], k) / max(x[i, k], k)", x="4, 5", y="4")
    assert bound(both.value) == ["k", "k"]
    differ = compute("y = sum(a[k], k) + sum(b[k], k)", a="4", b="5", y="; float32")
    assert bound(differ.value) == ["k", "k_1"]
    nested = compute("y[i] = var(x[i, k], k)", x="4, 5", y="4")
    assert sorted(set(bound(nested.value))) == ["k", "k_1"]
    scan = compute("y[i] = cumsum(x[i], i)", x="4", y="4")
    assert bound(scan.value) == ["i_1"]


def test_a_generated_name_avoids_declared_ones(compute: Compute) -> None:
    result = compute("y[j] = softmax(x[j], j) + j_1", x="4", y="4", scalars="{j_1: {dtype: float32}}")
    assert "j_1" not in bound(result.value)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("y[i] = alhpa * x[i]", "CG1201", "did you mean `alpha`?"),
        ("y[i] = x[i] * exq(2)", "CG1202", "did you mean `exp`?"),
        ("y[i] = x[i] * exp", "CG1201", "exp(x)"),
        ("y[i] = z[i]", "CG1201", "arrays"),
        ("y[i] = x[q]", "CG1205", "sum(..., q)"),
        ("y[i] = sum(x[i], i)", "CG1204", "another name"),
        ("y[i] = sum(x[N], N)", "CG1204", "another name"),
        ("y[alpha] = 1", "CG1204", "another name"),
        ("y[pi] = x[pi]", "CG1204", "another name"),
        ("y[i] = x[i, 0]", "CG1206", "`x[i]`"),
        ("y[i] = x", "CG1206", "`x[i]`"),
        ("y[i] = alpha[i]", "CG1207", "without subscripts"),
        ("y[i] = sum(x[k] + x[i], k + 1)", "CG1211", "name an index"),
        ("y[i] = max(x[i], alpha)", "CG1211", "maximum(a, b)"),
        ("y[i] = cumsum(x[i], k)", "CG1212", "a bare index of the left side"),
        ("y[i] = sum(cumsum(x[k], k), k)", "CG1212", "a statement of its own"),
        ("y[i] = x[i * i]", "CG1216", "integer array"),
        ("y[i] = x[minimum(i, 3)]", "CG1216", "clamp"),
        ("y[i] = x[i & 3]", "CG1216", "a statement of its own"),
        ("y[i] = x[1.5]", "CG1216", "integer"),
        ("y[i] = x[x[i]]", "CG1216", "integer type"),
        ("y[i] = x[i // 0]", "CG1217", "positive"),
        ("alpha = 1", "CG1219", "write an array"),
        ("y[i] = sum(x[i], k)", "CG1301", "indices"),
        ("y[i] = x[i] + sum(x[k] * w[k], k)", "CG1302", "shapes agree"),
        ("y[i] = t[i]\nt[i] = x[i]", "CG1310", "move the statement"),
        ("t[i] += x[i]\ny[i] = t[i]", "CG1310", "`=` first"),
        ("t[i] = x[i]\ny[i] = x[i]", "CG1311", "read it"),
        ("t[2 * i] = x[i]\ny[i] = t[i]", "CG1313", "declare `t`"),
        ("t[i] = x[i]\nt[i] = x[i]\ny[i] = t[i]", "CG1306", "temporary"),
    ],
)
def test_a_mistake_has_a_code_a_span_and_help(compute: Compute, text: str, code: str, says: str) -> None:
    arrays = {"x": "8", "w": "9"} if "w[" in text else {"x": "8"}
    text = text if "x" in text else f"{text}\nu[i] = x[i]"
    more = {"u": "8"} if "u[" in text else {}
    result = compute(
        text,
        params="{N: 3}",
        scalars="{alpha: {dtype: float32}}",
        **arrays,
        **more,
        **({"y": "8"} if "y" in text else {}),
    )
    assert result.codes == [code]
    assert says in result.diagnostics[0].help
    assert result.diagnostics[0].label
    assert result.diagnostics[0].span.line


def test_all_errors_of_all_statements_are_reported_and_no_consequential_errors(compute: Compute) -> None:
    result = compute("t[i] = foo(x[i]) + bar\ny[i] = t[i] * t[i]\nz[i] = x[i] + qux(1)", x="8", y="8", z="8")
    assert [(f.code, f.span.line - result.diagnostics[0].span.line) for f in result.diagnostics] == [
        ("CG1202", 0),
        ("CG1201", 0),
        ("CG1202", 2),
    ]


def test_spans_underline_the_exact_span(compute: Compute) -> None:
    (diagnostic,) = compute("y[i] = 2 * x[i] + undefined", x="8", y="8").diagnostics
    assert diagnostic.source_line[diagnostic.span.column - 1 : diagnostic.span.end_column - 1] == "undefined"


def test_disagreeing_extents_name_both_spans_and_numbers(compute: Compute) -> None:
    (diagnostic,) = compute("y[i] = x[i] + z[i]", params="{N: 8, M: 9}", x="N", z="M", y="N").diagnostics
    assert "N = 8" in diagnostic.message
    assert "M = 9" in diagnostic.message
    assert "dimension 0 of `y`" in diagnostic.notes[0]


def test_dynamic_extents_agree_only_as_expressions(compute: Compute) -> None:
    dynamic = "{M: dynamic, N: dynamic}"
    assert compute("y[i] = x[i]", params=dynamic, x="M", y="N").codes == ["CG1302"]
    assert compute("y[i] = x[i]", params=dynamic, x="2 * M + N - M", y="N + M").codes == []
    assert compute("y[i] = x[i]", params="{M: 8, N: M}", x="M", y="N").codes == []


def test_indices_may_shorten_an_extent_and_never_lengthen_it(compute: Compute) -> None:
    short = compute("y = sum(x[k], k)", x="8", y="; float32", indices="{k: 5}")
    assert short.value.indices[0].extent == Const(5, INT64)
    assert compute("y = sum(x[k], k)", x="8", y="; float32", indices="{k: 9}").codes == ["CG1303"]
    dynamic = {"params": "{N: dynamic}", "x": "N", "y": "; float32"}
    assert compute("y = sum(x[k], k)", indices="{k: N // 2}", **dynamic).codes == []
    assert compute("y = sum(x[k], k)", indices="{k: N + 1}", **dynamic).codes == ["CG1303"]


def test_an_entry_of_indices_that_is_unused_is_rejected(compute: Compute) -> None:
    assert compute("y[i] = x[i]", x="8", y="8", indices="{ii: 4}").codes == ["CG1218"]


def test_a_temporary_has_the_shape_and_compute_type_of_its_expression(compute: Compute) -> None:
    result = compute("t[j, i] = h[i] * h[j]\ny[i] = sum(t[k, i], k)", params="{N: 8}", h="N; float16", y="N")
    temporary = result.spec.array("t")
    assert temporary.is_temporary
    assert temporary.role == "temporary"
    assert temporary.dtype == FLOAT32
    assert temporary.shape == (ParamValue("N"), ParamValue("N"))
    assert [evaluate(stride, {"N": 8}) for stride in temporary.strides] == [8, 1]


@pytest.mark.parametrize(
    ("block", "roles"),
    [
        ("y[i] = x[i]", {"x": "input", "y": "output"}),
        ("y[i] += x[i]", {"x": "input", "y": "inout"}),
        ("y[i] = 2 * y[i] + x[i]", {"x": "input", "y": "inout"}),
        ("x[i] = 2 * x[i]\ny[i] = x[i]", {"x": "inout", "y": "output"}),
        ("x[i] = 2\ny[i] = x[7 - i]", {"x": "output", "y": "output"}),
        ("y[i] = x[7 - i]\nx[i] = 2", {"x": "inout", "y": "output"}),
    ],
)
def test_roles_follow_from_reads_and_writes(compute: Compute, block: str, roles: dict[str, str]) -> None:
    result = compute(block, x="8", y="8")
    assert result.codes == []
    assert {array.name: array.role for array in result.spec.arrays} == roles


@pytest.mark.parametrize("space", ["register", "scratch", "shared"])
def test_a_declared_array_that_is_internal_is_a_temporary(compute: Compute, space: str) -> None:
    result = compute("t[i] = x[i]\ny[i] = t[i]", x="8", y="8", t=f"8; float32; memory: {space}")
    assert result.spec.array("t").role == "temporary"
    assert not result.spec.array("t").is_temporary


def test_an_array_with_values_is_baked_and_not_written(compute: Compute) -> None:
    baked = "2; float32; values: [1, 2]"
    assert compute("y[i] = w[i]", w=baked, y="2").spec.array("w").role == "baked"
    assert compute("w[i] = y[i]", w=baked, y="2").codes == ["CG1219"]


def test_a_statement_may_read_what_it_overwrites_only_in_place(compute: Compute) -> None:
    assert compute("x[i] = 2 * x[i]", x="8").codes == []
    assert compute("x[i] = x[7 - i]", x="8").codes == ["CG1309"]
    assert compute("x[i, j] = x[j, i]", x="8, 8").codes == ["CG1309"]
    assert compute("x[i] = sum(x[k], k)", x="8").codes == ["CG1309"]


def test_a_row_may_be_made_from_another_row_of_the_same_array(compute: Compute) -> None:
    made = compute("z[0, i] = 2 * x[i]\nz[1, i] = z[0, 7 - i] + 1", x="8", z="2, 8")
    assert {array.name: array.role for array in made.spec.arrays} == {"x": "input", "z": "output"}
    given = compute("z[1, i] = z[0, i] + 1\nz[0, i] = x[i]", x="8", z="2, 8")
    assert {array.name: array.role for array in given.spec.arrays} == {"x": "input", "z": "inout"}
    assert compute("z[1, i] = z[1, 7 - i]\nz[0, i] = x[i]", x="8", z="2, 8").codes == ["CG1309"]


def test_an_unused_array_is_rejected(compute: Compute) -> None:
    assert compute("y[i] = x[i]", x="8", y="8", z="8").codes == ["CG1312"]


def test_a_scan_keeps_its_index_and_its_options(compute: Compute) -> None:
    text = "y[i, j] = cumsum(x[i, j], j, exclusive=true, reverse=true, where=x[i, j] > 0)"
    scan = compute(text, x="4, 5", y="4, 5").value
    assert isinstance(scan, Scan)
    assert (scan.kind, scan.outer, scan.exclusive, scan.reverse) == ("sum", "j", True, True)
    assert scan.body == Read("x", (index("i"), index(scan.inner.name)), FLOAT32)
    assert scan.where is not None


def test_an_argmax_is_an_int64_and_needs_something_to_choose_from(compute: Compute) -> None:
    result = compute("y[i] = argmax(x[i, k], k)", x="4, 5", y="4; int64")
    assert isinstance(result.value, Reduce)
    assert result.value.dtype == INT64
    dynamic = {"x": "4, K", "y": "4; int64"}
    assert compute("y[i] = argmax(x[i, k], k)", params="{K: dynamic}", **dynamic).codes == ["CG1314"]
    assert compute("y[i] = argmax(x[i, k], k)", params="{K: {range: [1, 9]}}", **dynamic).codes == []


def test_a_mean_divides_by_the_count_of_its_terms(compute: Compute) -> None:
    value = compute("y = mean(x[k], k)", params="{K: 5}", x="K", y="; float32").value
    assert isinstance(value, Op)
    assert value.args[1] == Cast(ParamValue("K"), FLOAT32)


def test_inside_is_true_where_every_subscript_is_in_range(compute: Compute) -> None:
    value = compute("y[i] = where(inside(x[(i - 1) / 2]), x[(i - 1) / 2], 0)", x="8", y="8").value
    assert [part.name for part in walk(value) if isinstance(part, Op) and part.name in ("eq", "le", "lt")] == [
        "eq",
        "le",
        "lt",
    ]


def test_a_reduction_may_sit_in_a_condition(compute: Compute) -> None:
    assert compute("y[i] = where(any(x[i, k] > 0, k), sum(x[i, k], k), 0)", x="4, 5", y="4").codes == []


@pytest.mark.parametrize("count", [50, 110, 3000])
def test_long_chains_are_resolved_or_rejected_without_overflow(compute: Compute, count: int) -> None:
    chain = " < ".join(["x[i]"] * count)
    assert compute(f"y[i] = cast({chain}, int32)", x="8", y="8; int32").codes in ([], ["CG1106"])


def test_deeply_nested_conditions_take_no_time_that_doubles_with_each_level(compute: Compute) -> None:
    nested = "x[i] > 0"
    for _ in range(40):
        nested = f"where({nested}, i > 1, i > 2)"
    assert compute(f"y[i] = where({nested}, 1, 0) + where({nested}, x[i], 0)", x="8", y="8").codes == []


def extents(spec, temporary: str) -> list[object]:
    return [getattr(extent, "value", extent) for extent in spec.array(temporary).shape]


def test_a_temporary_has_the_extent_of_its_readers_bare_indices(compute):
    resolved = compute("t[i, j] = x[i, j + 2] + x[i, j + 1]\ny[i, j] = t[i, j] * 2", x="8, 9", y="8, 7")
    assert extents(resolved.spec, "t") == [8, 7]


def test_a_temporary_gets_its_extent_through_another_temporary(compute):
    resolved = compute("t[i] = x[i + 1]\nu[k] = t[k] + x[k + 1]\ny[j] = u[j]", x="8", y="7")
    assert (extents(resolved.spec, "t"), extents(resolved.spec, "u")) == ([7], [7])


def test_readers_that_disagree_on_a_temporarys_extent_are_reported(compute):
    resolved = compute("t[i] = x[i + 1]\ny[j] = t[j]\nz[j] = t[j]", x="8", y="7", z="6")
    assert "CG1302" in resolved.codes


def test_a_temporary_is_as_long_as_its_readers_index_under_indices(compute):
    block = "t[k] = 2 * x[2 * k]\ny[j] = t[j]\nz[2 * i] = t[i]\nz[2 * i + 1] = 0"
    resolved = compute(block, params="{N: 20}", indices="{i: N}", x="2 * N", y="N // 2", z="2 * N")
    assert resolved.codes == []
    statements = {s.text: [evaluate(i.extent, {"N": 20}) for i in s.indices] for s in resolved.spec.statements}
    assert statements == {"t[k] = 2 * x[2 * k]": [20], "y[j] = t[j]": [10], "z[2 * i] = t[i]": [20],
                          "z[2 * i + 1] = 0": [20]}  # fmt: skip


def test_a_reduction_over_a_part_of_a_temporary_decides_its_extent(compute):
    block = "t[k] = x[2 * k]\ny[i] = sum(t[j] * a[j], j) + i"
    resolved = compute(block, indices="{j: 50}", x="100", a="200", y="8")
    assert resolved.codes == []
    assert extents(resolved.spec, "t") == [50]


def test_readers_of_extents_that_cant_be_compared_are_reported(compute):
    block = "t[k] = k\ny[2 * i] = t[i]\ny[2 * i + 1] = 0\nz[j] = t[j]"
    dynamic = "{M: dynamic, N: dynamic}"
    resolved = compute(block, params=dynamic, indices="{i: M}", y="2 * M", z="N")
    assert resolved.codes == ["CG1302"]
    assert "in `indices`" in resolved.diagnostics[0].message


def test_a_temporary_without_a_bare_reader_needs_an_extent(compute):
    assert compute("t[i] = x[i + 1]\ny[j] = t[2 * j]", x="8", y="3").codes == ["CG1301"]
