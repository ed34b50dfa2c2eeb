"""Two-pass (split) reductions: when they are used, how they are split, and correctness."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.plan.traversal.walking import accesses

FORCED = """
params: {%s}
arrays:
  x: {shape: [%s], dtype: %s}
  y: {shape: [%s], dtype: %s}
compute: y%s = %s
schedule: {family: reduce, split_k: 4}
"""


def split(params, shape, value, out_shape="", dtype="float32", out="float32"):
    subscripts = f"[{out_shape.lower()}]" if out_shape else ""
    return FORCED % (params, shape, dtype, out_shape, out, subscripts, value)


def automatic(text: str) -> str:
    return text.replace("schedule: {family: reduce, split_k: 4}\n", "")


FULL = split("N: 10_003", "N", "sum(x[i], i)")


# When a reduction is split


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "launches"),
    [
        pytest.param(split("N: 50_000", "N", "sum(x[i], i)"), 1, id="short vector"),
        pytest.param(split("N: 10_000_000", "N", "sum(x[i], i)"), 2, id="long vector"),
        pytest.param(split("M: 100_000, N: 100_000", "M, N", "sum(x[i, j], i, j)"), 2, id="matrix"),
        pytest.param(split("M: 100_000, N: 10", "M, N", "sum(x[m, j], j)", "M"), 1, id="short rows"),
        pytest.param(split("M: 4, N: 1_000_000", "M, N", "sum(x[m, j], j)", "M"), 2, id="long rows"),
        pytest.param(split("M: 1_000_000, N: 4", "M, N", "sum(x[i, n], i)", "N"), 2, id="long columns"),
        pytest.param(split("M: 32_768, N: 65_536", "M, N", "sum(x[i, n], i)", "N"), 1, id="many columns"),
        pytest.param(split("N: dynamic", "N", "max(x[i], i)"), 2, id="dynamic vector"),
        pytest.param(split("M: dynamic, N: dynamic", "M, N", "max(x[m, j], j)", "M"), 1, id="dynamic rows"),
    ],
)
def test_few_results_of_long_reductions_take_a_second_launch(made, text, launches):
    assert len(made(automatic(text)).plan.kernels) == launches


def test_the_number_of_parts_follows_the_tunable(made):
    kernel = made(FULL)
    assert [array.name for array in kernel.plan.workspace] == ["y_parts"]
    assert [str(extent) for extent in kernel.plan.kernels[0].grid] == ["4", "1", "1"]
    assert len(made(FULL.replace("split_k: 4", "split_k: 1")).plan.kernels) == 1


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "grid", "block"),
    [
        (43_973, 1855, "float64", (29, 9, 1), (64, 16, 1)),
        (21_973, 1022, "float32", (8, 32, 1), (64, 16, 1)),
        (29_874, 3000, "float32", (24, 11, 1), (32, 32, 1)),
    ],
)
def test_parts_of_columns_fill_whole_waves(made, rows, columns, dtype, grid, block):
    """Up to 264 blocks of 1024 threads, two for each multiprocessor."""
    text = split(f"M: {rows}, N: {columns}", "M, N", "sum(x[i, n], i)", "N", dtype, dtype)
    (first, _) = made(automatic(text)).manifest.launches
    assert (first.grid, first.block) == (grid, block)


def test_tunables_apply_to_the_first_pass(made):
    first, second = made(FULL.replace("split_k: 4", "split_k: 4, threads: 64")).plan.kernels
    assert first.block == (64, 1, 1)
    assert second.block == (1, 1, 1)


@pytest.mark.parametrize(("extent", "split"), [(61, "a"), (90, "a"), (4000, "e")])
def test_parts_are_of_a_slower_index_where_runs_of_the_contiguous_one_would_be_short(made, extent, split):
    text = f"""
arrays:
  t: {{shape: [31, 64, 37, 29, {extent}], dtype: float32}}
  m: {{shape: [37, 31], dtype: float32}}
  n: {{shape: [{extent}, 29], dtype: float32}}
  y: {{shape: [64], dtype: float32}}
compute: y[b] = sum(t[a, b, c, d, e] * m[c, a] * n[e, d], a, c, d, e)
schedule: {{family: reduce}}
"""
    first = made(text).plan.kernels[0]
    (load,) = (access for access in accesses(first.body) if access.array.symbol == "t")
    of_parts = [str(sub) for sub in load.subscripts if {"part", "start"} & set(map(str, sub.free_symbols))]
    assert of_parts == [{"a": "part", "e": "first_e + start"}[split]]


def test_all_chunks_but_the_last_are_whole_vectors(made):
    source = made(split("N: 100_003", "N", "sum(x[i], i)")).source
    assert "const int start = 25600 * part;" in source
    assert "const int stop = min(25600, N - start);" in source


def test_chunks_of_fused_dimensions_are_contiguous(made):
    source = made(split("M: 301, N: 333", "M, N", "sum(x[i, j], i, j)")).source
    assert "x[start + ij]" in source
    assert "M * N - start" in source


def test_statements_over_the_same_elements_share_launches(made):
    text = """
params: {N: 10_000_000}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [], dtype: float32}
  q: {shape: [], dtype: float32}
compute:
  - s = sum(x[i], i)
  - q = sum(x[i] * x[i], i)
"""
    kernel = made(text)
    assert [k.name for k in kernel.plan.kernels] == ["k_s_parts", "k_s"]


MOMENTS = """
params: {{B: {b}, H: {h}, W: {w}}}
arrays:
  x: {{shape: [B, H, W], dtype: float32}}
  m: {{shape: [B], dtype: float32}}
  r: {{shape: [B], dtype: float32}}
  c: {{shape: [B], dtype: float32}}
compute:
  - m[b] = {first}
  - r[b] = sum(x[b, i, j] * i, i, j) / m[b]
  - c[b] = {last}
{schedule}
"""
WEIGHTED = "sum(x[b, i, j] * j, i, j) / m[b]"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", ["sum(x[b, i, j], i, j)", "sum(x[b, i, j] ** 2, i, j)"])
@pytest.mark.parametrize("last", [WEIGHTED, "max(abs(x[b, i, j]), i, j)", "sum(x[b, i, j] > 0, i, j)"])
def test_statements_that_need_the_indices_of_elements_share_launches_with_others(made, first, last):
    kernel = made(MOMENTS.format(b=97, h=769, w=1021, first=first, last=last, schedule=""))
    assert [len(launch.computes) for launch in kernel.plan.kernels] == [3, 3]
    assert all("part * 37 + i" in text for text in kernel.plan.kernels[0].computes)


def test_steps_that_share_no_launch_even_so_have_parts_of_fused_indices(made):
    text = MOMENTS.format(b=97, h=769, w=1021, first="sum(x[b, i, j], i, j)", last=WEIGHTED, schedule="")
    text = text.replace("  m:", "  y: {shape: [B, H, W], dtype: float32}\n  m:", 1).replace(
        "sum(x[b, i, j],", "sum(y[b, i, j],"
    )
    kernel = made(text)
    assert "part * 38912 + ij" in kernel.plan.kernels[0].computes[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", [(3, 37, 41), (1, 5, 1000), (2, 113, 64)])
@pytest.mark.parametrize("last", [WEIGHTED, "max(abs(x[b, i, j]) * j, i, j)"])
def test_results_of_statements_that_share_launches_are_right(prove, sizes, last):
    b, h, w = sizes
    schedule = "schedule: {family: reduce, split_k: 4}"
    prove(MOMENTS.format(b=b, h=h, w=w, first="sum(x[b, i, j] ** 2, i, j)", last=last, schedule=schedule))


def test_each_pass_says_what_it_computes(made):
    first, second = made(FULL).plan.kernels
    assert first.computes == ("y_parts[part] = sum over i < 2560 at part * 2560 + i, of: y = sum(x[i], i)",)
    assert second.computes == ("y = sum(x[i], i)",)


def test_one_kernel_computes_the_largest_element_and_its_position(made):
    first, second = made(split("N: 10_003", "N", "argmax(x[i], i)", out="int64")).plan.kernels
    assert len(first.computes) == 2
    assert len(second.computes) == 2


@pytest.mark.slow
def test_a_position_is_stored_where_other_reductions_are_over_other_indices(prove):
    prove("""
params: {M: 2, K: 40_000}
arrays:
  x: {shape: [M, K], dtype: float32}
  a: {shape: [M, 300, 300], dtype: float32}
  y: {shape: [M], dtype: float64}
compute: y[i] = argmax(x[i, k], k) * norm(a[i, p, q], p, q) + sum(x[i, l], l)
schedule: {family: reduce, split_k: 4}
""")


# Correctness

VALUES = [
    ("sum(x[i], i)", "float32", "float32"),
    ("argmax(x[i], i)", "float32", "int64"),
    ("var(x[i], i)", "float32", "float32"),
    ("sum(x[i], i, where=x[i] > 0)", "float16", "float32"),
    ("argmin(x[i], i, where=x[i] > 0)", "int8", "int64"),
    ("max(x[i], i) - min(x[i], i)", "int32", "int32"),
    ("prod(x[i], i)", "float64", "float64"),
    ("any(x[i], i)", "bool", "bool"),
    ("all(x[i] > -5, i)", "float32", "bool"),
    ("sum(x[i] * i, i, where=i > 700)", "int64", "int64"),
    ("norm(x[i], i) + mean(x[i], i)", "float32", "float32"),
    ("sum(x[i], i)", "float32", "float32"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "dtype", "out"), VALUES[:2])
def test_split_full_reductions(prove, value, dtype, out):
    prove(split("N: 10_003", "N", value, dtype=dtype, out=out))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "dtype", "out"), VALUES)
@pytest.mark.parametrize("n", [5, 64, 1000, 10_003, 16_384])
def test_split_full_reductions_of_any_length(prove, value, dtype, out, n):
    if n > 10 or "where=i" not in value:
        prove(split(f"N: {n}", "N", value, dtype=dtype, out=out))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(split("M: 61, N: 77", "M, N", "sum(x[i, j], i, j)"), id="matrix"),
        pytest.param(split("M: 5, N: 1001", "M, N", "max(x[m, j], j)", "M"), marks=pytest.mark.slow, id="rows"),
        pytest.param(split("M: 1001, N: 12", "M, N", "var(x[i, n], i)", "N"), id="columns"),
        pytest.param(
            split("M: 1001, N: 13", "M, N", "argmin(x[i, n], i)", "N", out="int64"),
            marks=pytest.mark.slow,
            id="argmin of columns",
        ),
        pytest.param(
            split("M: 1001, N: 13", "M, N", "sum(x[i, n] * n, i, where=i > n)", "N"),
            marks=pytest.mark.slow,
            id="condition",
        ),
        pytest.param(
            split("A: 9, B: 10, C: 11, D: 12", "A, B, C, D", "sum(x[a, b, c, d], b, d, a, c)"),
            marks=pytest.mark.slow,
            id="four dimensions",
        ),
        pytest.param(
            split("A: 9, B: 10, C: 11", "A, B, C", "sum(x[a, b, c], a, c)", "B"),
            marks=pytest.mark.slow,
            id="outer and inner",
        ),
        pytest.param(
            split("A: 9, B: 1, C: 110", "A, B, C", "min(x[a, b, c], b, c)", "A"), marks=pytest.mark.slow, id="inner two"
        ),
    ],
)
def test_split_reductions_of_rows_columns_and_middle_dimensions(prove, text):
    prove(text)


@pytest.mark.slow
def test_empty_chunks_do_not_change_the_result(prove):
    text = split("N: {range: [1, 100000]}", "N", "argmax(x[i], i)", out="int64")
    for n in (1, 700, 20_000):
        prove(text, {"N": n})


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 3, 16_383, 16_384, 16_385, 40_001])
def test_split_reductions_of_dynamic_length(prove, n):
    prove(split("N: dynamic", "N", "sum(x[i], i)"), {"N": n})
    prove(split("N: dynamic", "N, N", "sum(x[i, j], i, j)"), {"N": n // 100})


@pytest.mark.slow
def test_a_result_accumulates_into_the_output(prove):
    prove(FULL.replace("y = sum", "y += sum"))


@pytest.mark.slow
def test_results_that_later_statements_need(prove):
    text = """
params: {N: 9_001}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [], dtype: float32}
  y: {shape: [N], dtype: float32}
compute:
  - s = max(x[i], i)
  - t = sum(exp(x[i] - s), i)
  - y[i] = exp(x[i] - s) / t
schedule:
  s: {family: reduce, split_k: 4}
  t: {family: reduce, split_k: 4}
"""
    prove(text)


@pytest.mark.slow
def test_clean_under_sanitizers_and_the_race_check(prove):
    prove(FULL, races=True)
    prove(FULL, sanitize=True)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["", "A", "B", "C", "A, B", "C, A", "B, C"]),
    st.sampled_from(["sum", "max", "min", "prod"]),
)
def test_random_shapes(prove, a, b, c, out_shape, kind):
    extents = {"a": a, "b": b, "c": c}
    reduced = ", ".join(name for name in extents if name.upper() not in out_shape)
    assume(any(extents[name] > 1 for name in reduced.split(", ")))  # else there is no reduction
    prove(split(f"A: {a}, B: {b}, C: {c}", "A, B, C", f"{kind}(x[a, b, c], {reduced})", out_shape))


WEIGHT_GRADIENT = """
params: {N: %s, C: %s, H: %s, W: %s}
arrays:
  x: {shape: [N, C, H, W], dtype: bfloat16, boundary: zero}
  dy: {shape: [N, C, H, W], dtype: bfloat16}
  dw: {shape: [C, 3, 3], dtype: float32}
compute: dw[c, r, s] = sum(x[n, c, h + r - 1, v + s - 1] * dy[n, c, h, v], n, h, v)
"""


def test_short_rows_that_a_thread_would_load_one_after_the_other_are_split(made):
    """Each of 240 rows of a thread is 128 bytes of a warp, whose latency few blocks hide."""
    (_, parts, _), *_ = [launch.grid for launch in made(WEIGHT_GRADIENT % (16, 144, 57, 57)).plan.kernels]
    assert parts == 6


def test_split_weight_gradients_are_right(prove):
    prove(WEIGHT_GRADIENT % (160, 3, 9, 13), sanitize=True)


MASKED = """
params: {N: 24, C: 4, H: 257, W: 263}
arrays:
  x: {shape: [N, C, H, W], dtype: bfloat16}
  t: {shape: [N, H, W], dtype: uint8}
  y: {shape: [], dtype: float32}
compute: y = sum(log1p(exp(-abs(x[n, c, h, w]))) * (t[n, h, w] == c), n, c, h, w)
"""


def test_no_thread_of_parts_that_are_short_runs_is_idle(made):
    """Runs of 86 elements had 128 threads, which are along the slowest index's 24 values where it isn't the next."""
    first, *_ = made(MASKED).plan.kernels
    assert (first.grid, first.block) == ((1057, 1, 1), (32, 4, 1))
    (_, run) = first.computes[0].split("over hw < ")
    assert run.startswith("64 ")
