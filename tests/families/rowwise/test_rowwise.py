"""Rows reduced and mapped in one launch: which statements share a kernel, refusals, and rows of any size."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.plan.traversal.walking import accesses

SOFTMAX = ("y[i, j] = softmax(x[i, j], j)",)


BY_HAND = (
    "m[i] = max(x[i, j], j)",
    "e[i, j] = exp(x[i, j] - m[i])",
    "s[i] = sum(e[i, j], j)",
    "y[i, j] = e[i, j] / s[i]",
)


LAYER_NORM = (
    "mu[i] = mean(x[i, j], j)",
    "scale[i] = rsqrt(var(x[i, j], j) + 1e-5)",
    "y[i, j] = (x[i, j] - mu[i]) * scale[i]",
)


NORM = ("y[i, j] = x[i, j] / norm(x[i, k], k)",)


def slow(value: object) -> object:
    """A parameter for the slow tests only."""
    return pytest.param(value, marks=pytest.mark.slow)


def spec(params: str, arrays: dict[str, tuple[str, str]], statements: tuple[str, ...], more: str = "") -> str:
    declared = "".join(f"  {name}: {{shape: [{s}], dtype: {d}}}\n" for name, (s, d) in arrays.items())
    text = "".join(f"  {statement}\n" for statement in statements)
    return f"params: {{{params}}}\narrays:\n{declared}compute: |\n{text}{more}"


def rows(m, n, statements=SOFTMAX, dtype="float32", out=None, schedule=""):
    more = f"schedule: {{{schedule}}}\n" if schedule else ""
    return spec(f"M: {m}, N: {n}", {"x": ("M, N", dtype), "y": ("M, N", out or dtype)}, statements, more)


# Which statements share a kernel


@pytest.mark.parametrize("statements", [SOFTMAX, BY_HAND, LAYER_NORM, NORM])
def test_a_norm_is_one_launch_however_it_is_written(made, statements):
    kernel = made(rows(100, 256, statements))
    assert [k.family for k in kernel.plan.kernels] == ["rowwise"]
    assert kernel.plan.workspace == ()


def test_softmax_by_name_and_by_formula_has_the_same_accesses(made):
    counts = [[a.kind for a in accesses(made(rows(100, 256, s)).plan.kernels[0].body)] for s in (SOFTMAX, BY_HAND)]
    assert counts[0] == counts[1] == ["load", "store"]


def test_outputs_per_row_and_per_element_share_a_kernel(planned):
    arrays = {"x": ("M, N", "float32"), "mean": ("M", "float32"), "rstd": ("M", "float32"), "y": ("M, N", "float32")}
    text = spec(
        "M: 64, N: 128",
        arrays,
        (
            "mean[i] = mean(x[i, j], j)",
            "rstd[i] = rsqrt(var(x[i, j], j) + 1e-5)",
            "y[i, j] = (x[i, j] - mean[i]) * rstd[i]",
        ),
    )
    assert sorted(planned(text).arguments) == ["mean", "rstd", "x", "y"]


def test_a_transposed_output_is_a_separate_launch(made):
    arrays = {"x": ("M, N", "float32"), "y": ("M, N", "float32"), "z": ("N, M", "float32")}
    kernel = made(
        spec("M: 64, N: 96", arrays, ("m[i] = max(x[i, j], j)", "y[i, j] = x[i, j] - m[i]", "z[j, i] = y[i, j]"))
    )
    assert [k.family for k in kernel.plan.kernels] == ["rowwise", "transpose"]


@pytest.mark.slow
def test_an_output_of_another_layout_is_transposed_by_a_separate_launch(made, prove):
    arrays = {"x": ("M, N", "float32"), "y": ("M, N", "float32"), "z": ("M, N", "float16")}
    text = spec("M: 40, N: 36", arrays, (*BY_HAND, "z[i, j] = y[i, j] * 2")).replace(
        "float16}", "float16, layout: column}"
    )
    assert [k.family for k in made(text).plan.kernels] == ["rowwise", "transpose"]
    prove(text)
    prove(rows(9, 64, BY_HAND).replace("y: {shape: [M, N],", "y: {shape: [M, N], layout: column,"))


def test_a_row_result_of_another_kernel_is_stored_in_the_workspace(made):
    arrays = {"x": ("M, N", "float32"), "y": ("M, N", "float32"), "z": ("M, M", "float32")}
    kernel = made(
        spec("M: 64, N: 96", arrays, ("m[i] = max(x[i, j], j)", "y[i, j] = x[i, j] - m[i]", "z[p, q] = m[p] + m[q]"))
    )
    assert [k.family for k in kernel.plan.kernels] == ["rowwise", "map"]
    assert [array.name for array in kernel.plan.workspace] == ["m"]


def test_a_plain_sum_of_rows_is_left_to_reduce(planned):
    text = spec("M: 300, N: 513", {"x": ("M, N", "float32"), "y": ("M", "float32")}, ("y[i] = sum(x[i, j], j)",))
    assert planned(text).family == "reduce"


# How a row is mapped to threads


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("n", "dtype", "block"),
    [
        (4, "float32", (1, 128, 1)),
        (64, "float32", (8, 16, 1)),
        (256, "float32", (32, 4, 1)),
        (257, "float32", (32, 4, 1)),
        (1024, "float32", (128, 1, 1)),
        (4096, "float32", (256, 1, 1)),
        (32768, "float32", (1024, 1, 1)),
        (1024, "bfloat16", (32, 4, 1)),
        (32768, "bfloat16", (1024, 1, 1)),
    ],
)
def test_long_rows_have_more_threads(planned, n, dtype, block):
    assert planned(rows(2048, n, dtype=dtype)).block == block


def test_threads_and_rows_follow_the_tunables(planned):
    assert planned(rows(300, 512, schedule="threads: 64, rows: 4")).block == (64, 4, 1)
    assert planned(rows(300, 512, schedule="threads: 512")).block == (512, 1, 1)


def test_each_element_is_loaded_once_where_a_row_fits_registers(made):
    for n in (64, 1000, 4096, 32768):
        kernel = made(rows(64, n)).plan.kernels[0]
        loads = {a.array.name for a in accesses(kernel.body) if a.kind == "load" and a.array.space == "global"}
        sites = [a for a in accesses(kernel.body) if a.kind == "load" and a.array.space == "global"]
        assert loads == {"x"}
        assert len({id(a) for a in sites}) <= 2  # full vectors, and the guarded last one


def test_vector_accesses_where_alignment_is_known(made):
    assert "Vector<float, 4> row4" in made(rows(64, 256)).source
    assert "Vector<float, 2> row2" in made(rows(64, 254)).source
    assert "Vector" not in made(rows(64, 61)).source
    assert "Vector<float, 4> row4" in made(rows(64, "{range: [64, 1024], multiple_of: 64}")).source
    assert "Vector" not in made(rows(64, "{range: [64, 1024]}")).source


def test_only_the_last_elements_are_guarded(made):
    source = made(rows(64, 61)).source
    assert "if (threadIdx.x + 56 < N)" in source
    assert "if (j < N)" not in source


def test_an_exponential_is_computed_once_for_each_element(made):
    assert made(rows(64, 256)).source.count("expf(") == 1
    assert made(rows(64, 256, BY_HAND)).source.count("expf(") == 1


def test_a_value_overwrites_the_registers_of_one_that_is_not_read_again(made):
    source = made(rows(64, 61)).source
    assert "float row[8];" in source
    assert "row[s] = x[i * N + j];" in source
    assert "const float exp_value = expf(row[s] - largest);" in source
    assert "row[s] = exp_value;" in source
    assert "float x_row[" in made(rows(64, 61, LAYER_NORM)).source


@pytest.mark.sampled(2)
@pytest.mark.parametrize("storage", ["", "registers: 0"])
def test_a_value_is_read_before_another_one_overwrites_it(prove, storage):
    """exp(a - r) goes into the buffer of x, from which the larger exp(2 * (x - r)) is computed after it."""
    statements = (
        "r[i] = max(x[i, k] + a[i, k] + b[i, k], k)",
        "e[i, j] = exp(a[i, j] - r[i])",
        "f[i, j] = exp(2 * (x[i, j] - r[i]))",
        "y[i, j] = a[i, j] + e[i, j] / sum(e[i, k], k) + f[i, j] / sum(f[i, k], k) + sum(b[i, k] - r[i], k)",
    )
    arrays = dict.fromkeys("xaby", ("M, N", "float32"))
    options = ", ".join(filter(None, ("family: rowwise", storage)))
    prove(spec("M: 5, N: 301", arrays, statements, f"schedule: {{{options}}}\n"))


def test_adjacent_threads_take_adjacent_rows_where_these_are_contiguous(planned):
    kernel = planned(rows(100, 320, ("y[i, j] = softmax(x[i, j], i)",)))
    assert kernel.block == (32, 8, 1)
    assert {str(a.subscripts[1]) for a in accesses(kernel.body) if a.array.name == "y"} == {"j"}


BAND = """
params: {T: 96, D: %s, W: 64}
arrays:
  p: {shape: [T, W], dtype: float32}
  v: {shape: [T, D], dtype: float16}
  o: {shape: [T, D], dtype: float32}
compute: o[i, d] = sum(p[i, w] * v[i - w, d], w, where=w <= i)
schedule: {family: rowwise}
"""


@pytest.mark.parametrize(
    ("columns", "definition"), [(64, "row = blockIdx.x * 32 + threadIdx.x"), (12, "threadIdx.x * 4")]
)
def test_adjacent_threads_take_adjacent_rows_that_share_all_that_is_not_contiguous_along_them(
    made, prove, columns, definition
):
    assert definition in made(BAND % columns).source
    prove(BAND % columns, races=True)


# What is refused


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("y[i, j] = cumsum(x[i, j], j) / sum(x[i, k], k)", "here is a scan"),
        ("y[i, j] = 2 * x[i, j]", "here is none"),
        ("y[i, j] = sum(x[i, k] * x[k, j], k)", "several results share"),
        ("y[i, j] = sum(x[i, k], k) + sum(x[k, j], k)", "reduces rows along"),
    ],
)
def test_a_refusal_has_a_reason(reasons, statement, reason):
    refusals = reasons("rowwise", rows(64, 64, (statement,)))
    assert any(reason in refusal.reason for refusal in refusals), refusals


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        ("block: {i: 8}", "schedule.block"),
        ("step: {j: 8}", "schedule.step"),
        ("thread: {i: 2}", "schedule.thread"),
        ("threads: 48", "schedule.threads"),
        ("threads: 512, rows: 4", "schedule.rows"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(reasons, schedule, key):
    assert [refusal.key for refusal in reasons("rowwise", rows(100, 100, schedule=schedule))] == [key]


def test_elements_that_other_threads_computed_take_another_launch(made):
    arrays = {"x": ("M, N", "float32"), "y": ("M, N", "float32"), "z": ("M, N", "float32")}
    statements = ("y[i, j] = x[i, j] - max(x[i, k], k)", "z[i, j] = y[i, N - 1 - j]")
    assert len(made(spec("M: 9, N: 33", arrays, statements)).plan.kernels) == 2


# Correctness


@pytest.mark.sampled(22)
@pytest.mark.parametrize("statements", [SOFTMAX, BY_HAND, LAYER_NORM])
@pytest.mark.parametrize("n", [1, 7, 33, 257, 1025, *map(slow, [2, 3, 4, 31, 32, 100, 256, 1000, 2048])])
def test_rows_of_any_length(prove, n, statements):
    prove(rows(13 if n < 300 else 3, n, statements))


@pytest.mark.slow
@pytest.mark.parametrize("n", [4096, 4100, 8192, 16384, 32768, 32771, 50000])
def test_long_rows(prove, n):
    for statements in (SOFTMAX, LAYER_NORM):
        prove(rows(2, n, statements, schedule="family: rowwise"))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 16, 256, *map(slow, [2, 4, 8, 32, 64, 1024])])
def test_rows_by_any_number_of_threads(prove, threads):
    prove(rows(7, 100, schedule=f"threads: {threads}"))
    prove(rows(7, 37, LAYER_NORM, schedule=f"threads: {threads}"))


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "count"), [(8, 4), (32, 4), (64, 2), (128, 8), (1, 16)])
def test_blocks_of_several_rows(prove, threads, count):
    for m in (1, count, count + 1):
        prove(rows(m, 100, schedule=f"threads: {threads}, rows: {count}"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", *map(slow, ["float64", "float16", "float8_e4m3", "float8_e5m2"])])
def test_all_types(prove, dtype):
    for statements in (SOFTMAX, LAYER_NORM):
        for n in (7, 200, 1024):
            prove(rows(5, n, statements, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("length", ["{range: [0, 5000]}", "dynamic"])
def test_every_size_of_a_dynamic_kernel(prove, length):
    text = rows("dynamic", length, BY_HAND)
    for m, n in ((0, 5), (3, 0), (1, 1), (9, 31), (8, 33), (3, 1025)):
        prove(text, {"M": m, "N": n})


def test_dynamic_rows_get_threads_for_a_typical_length(planned):
    kernel = planned(rows("dynamic", "dynamic"))
    assert kernel.block == (256, 1, 1)
    assert kernel.dynamic_shared_bytes == 0
    assert any("all others are reloaded" in reason for reason in kernel.reasons)


def test_a_dynamic_length_that_is_a_multiple(prove):
    text = rows("dynamic", "{range: [64, 1024], multiple_of: 64}")
    for m, n in ((5, 64), (1, 1024), (3, 192)):
        prove(text, {"M": m, "N": n})


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 20),
    n=st.integers(1, 700),
    statements=st.sampled_from([SOFTMAX, BY_HAND, LAYER_NORM, NORM]),
    dtype=st.sampled_from(["float32", "float16", "float64"]),
    axis=st.booleans(),
)
def test_any_size(prove, m, n, statements, dtype, axis):
    transposed = tuple(
        s.replace("x[i, j]", "x[j, i]").replace("x[i, k]", "x[k, i]").replace("y[i, j]", "y[j, i]") for s in statements
    )
    if not axis:
        prove(rows(m, n, statements, dtype))
    elif statements is not SOFTMAX:
        prove(rows(n, m, transposed, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("statements", [SOFTMAX, LAYER_NORM])
def test_kernels_compile_without_warnings(compiled, statements):
    for n in (1000, 257, "dynamic"):
        compiled(rows(64, n, statements))


def test_a_pass_computes_nothing_that_an_earlier_one_has_stored(compiled):
    compiled("""\
params: {M: 63, N: 5}
arrays:
  x: {shape: [M, 2], dtype: float32}
  u: {shape: [N, 2], dtype: float32}
  hit: {shape: [M, N], dtype: bool}
  first: {shape: [M], dtype: float32}
  which: {shape: [M], dtype: int64}
compute: |
  near[i, j] = max(minimum(u[j, d] / x[i, d], (u[j, d] + 1) / x[i, d]), d)
  far[i, j] = min(maximum(u[j, d] / x[i, d], (u[j, d] + 1) / x[i, d]), d)
  hit[i, j] = far[i, j] >= near[i, j]
  enter[i, j] = near[i, j] if hit[i, j] else inf
  first[i] = min(enter[i, j], j)
  which[i] = argmin(enter[i, j], j)
""")
