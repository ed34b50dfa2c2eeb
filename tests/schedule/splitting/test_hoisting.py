"""Nested reductions are hoisted into temporaries where that is safe and profitable."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.hoist_reductions import hoisted
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

ATTENTION = """
cugen: 1
kernel: attention
params: {N: 37, D: 20}
scalars: {scale: {dtype: float32, value: 0.25}}
arrays:
  q: {shape: [N, D], dtype: float32}
  k: {shape: [N, D], dtype: float32}
  p: {shape: [N, N], dtype: float32}
compute: p[i, j] = softmax(where(j <= i, scale * sum(q[i, d] * k[j, d], d), -inf), j)
"""


def spec_of(compute: str, arrays: str, params: str = "{M: 30, N: 33, K: 40}", more: str = ""):
    lines = ["cugen: 1", "kernel: nested", f"params: {params}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        lines.append(f"  {name}: {{shape: {shape}, dtype: float32}}")
    (spec,) = load_text("\n".join([*lines, f"compute: {compute}", more]))
    return spec


def temporaries(spec) -> dict[str, tuple[str, ...]]:
    """The temporaries that hoisting adds, with the names of their indices."""
    made = {array.name for array in spec.arrays}
    return {s.target: tuple(i.name for i in s.indices) for s in hoisted(spec).statements if s.target not in made}


def passes(spec) -> bool:
    kernel = generate(spec, analysis=False)
    return verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.slow
def test_the_scores_of_an_attention_are_computed_once():
    (spec,) = load_text(ATTENTION)
    assert temporaries(spec) == {"p_sum": ("i", "j")}
    assert [kernel.family for kernel in generate(spec, analysis=False).plan.kernels] == ["tiled", "rowwise"]
    assert passes(spec)


def test_an_attention_in_one_statement_is_two_gemms_and_a_softmax():
    spec = spec_of(
        "o[i, d] = sum(softmax(sum(q[i, e] * k[j, e], e) / 5, j) * v[j, d], j)",
        "q [M, K]; k [N, K]; v [N, K]; o [M, K]",
    )
    assert temporaries(spec) == {"o_sum": ("i", "j_2"), "o_weights": ("i", "j_2")}
    assert [kernel.family for kernel in generate(spec, analysis=False).plan.kernels] == ["tiled", "rowwise", "tiled"]
    assert passes(spec)


def test_products_of_groups_of_k_are_matrices_in_memory():
    spec = spec_of(
        "y[m, n] = sum(s[m, g] * sum(a[m, g, k] * b[n, g, k], k), g)",
        "a [M, G, K]; b [N, G, K]; s [M, G]; y [M, N]",
        "{M: 30, N: 33, G: 3, K: 20}",
    )
    assert temporaries(spec) == {"y_sum": ("g", "m", "n")}


BLOCK_SCALED = """
cugen: 1
kernel: k
params: {M: 4096, N: 4096, K: 7168}
indices: {k: LENGTH}
arrays:
  a: {shape: [M, K], dtype: float8_e4m3}
  b: {shape: [N, K], dtype: float8_e4m3}
  s: {shape: [M, K // LENGTH], dtype: float32}
  c: {shape: [M, N], dtype: bfloat16}
compute: c[m, n] = sum(s[m, g] * sum(a[m, LENGTH * g + k] * b[n, LENGTH * g + k], k), g)
"""


@pytest.mark.parametrize(
    ("target", "length", "temporary"),
    [
        pytest.param("sm_90", 128, "c_sum", id="much bandwidth"),
        pytest.param("sm_89", 128, "s_operand", id="little"),
        pytest.param("sm_90", 64, "s_operand", id="twice the partial sums"),
        pytest.param("sm_90a", 128, None, id="no launch for either"),
    ],
)
def test_partial_sums_are_stored_where_that_takes_less_time_than_operands_times_scales(target, length, temporary):
    """By the traffic of partial sums, and the arithmetic of operands in float32 in place of float8."""
    (spec,) = load_text(BLOCK_SCALED.replace("LENGTH", str(length)), target=target)
    stored = generate(spec, analysis=False).plan.workspace
    assert temporary in [array.name for array in stored] if temporary else stored == ()


def test_the_scores_of_grouped_queries_are_computed_once():
    spec = spec_of(
        "p[h, t] = softmax(sum(q[h, d] * k[t, h // 4, d], d), t)",
        "q [H, D]; k [T, H // 4, D]; p [H, T]",
        "{H: 8, T: 33, D: 20}",
    )
    assert temporaries(spec) == {"p_sum": ("h", "t")}


def test_sums_whose_split_dimensions_a_family_takes_are_not_nested():
    arrays = "x [8 * K]; q [M, K]; s [M, K // 16]; y [M]"
    compute = "y[m] = sum(x[k * 8 + j] * (q[m, k] - j) * s[m, k // 16], k, j)"
    made = generate(spec_of(compute, arrays, "{M: 4096, K: 512}", "indices: {j: 8}"), remarks="none")
    assert [launch.family for launch in made.plan.kernels] == ["reduce"]


def test_norms_inside_a_mean_are_hoisted():
    spec = spec_of("y = mean(relu(norm(a[i, k] - b[i, k], k) - norm(a[i, k], k)), i)", "a [M, K]; b [M, K]; y []")
    assert len(temporaries(spec)) == 2
    assert passes(spec)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", ["argmax(x[i, k], k)", "argmin(x[i, k], k) == i"])
def test_positions_inside_a_reduction_are_hoisted(value):
    spec = spec_of(f"y = sum(x[i, 0] * ({value}), i)", "x [M, K]; y []")
    assert list(temporaries(spec).values()) == [("i",)]
    assert [kernel.family for kernel in generate(spec, analysis=False).plan.kernels] == ["reduce", "reduce"]
    assert passes(spec)


@pytest.mark.slow
def test_a_sum_that_outputs_share_is_computed_once():
    spec = spec_of("y[l, i, j] = sum(a[i, k] * b[k, j], k) + c[l]", "a [M, K]; b [K, N]; c [70]; y [70, M, N]")
    kernels = generate(spec, analysis=False).plan.kernels
    assert [(kernel.family, kernel.computes[0].split(" = ")[0]) for kernel in kernels] == [
        ("tiled", "y_sum[i, j]"),
        ("map", "y[l, i, j]"),
    ]
    assert passes(spec)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("terms", "outputs", "launches"),
    [(5, 40, 2), (16, 40, 2), (5, 3, 1), (4, 40, 1)],
    ids=["few terms", "more terms", "few outputs of each", "hardly any terms"],
)
def test_a_short_sum_that_many_outputs_share_is_computed_once(terms, outputs, launches):
    spec = spec_of(
        "y[i, j, l] = x[i, j, l] * sigmoid(sum(a[i, k] * b[j, k], k))",
        f"a [M, {terms}]; b [N, {terms}]; x [M, N, {outputs}]; y [M, N, {outputs}]",
        params="{M: 130, N: 133}",
    )
    kernels = generate(spec, analysis=False).plan.kernels
    assert len(kernels) == launches
    assert launches == 1 or kernels[-1].family == "map"


def test_a_sum_that_few_outputs_share_stays_in_their_launch():
    spec = spec_of("y[l, i, j] = sum(a[i, k] * b[k, j], k) + c[l]", "a [M, K]; b [K, N]; c [7]; y [7, M, N]")
    assert len(generate(spec, analysis=False).plan.kernels) == 1


def test_the_temporary_has_the_dimension_order_of_the_statement():
    spec = spec_of("y[j, i] = max(sum(a[l, k] * b[j, k], k) + a[i, 0], l)", "a [M, K]; b [N, K]; y [N, M]")
    assert temporaries(spec) == {"y_sum": ("j", "l")}
    assert passes(spec)


@pytest.mark.parametrize(
    ("compute", "arrays"),
    [
        ("y[i] = sum(sum(a[i, k], k) * b[i, j], j)", "a [M, K]; b [M, N]; y [M]"),  # the same in every step
        ("y[i] = sum(exp(sum(a[j, d] * b[i, d], d)), j)", "a [N, 16]; b [M, 16]; y [M]"),  # short, and used once
        ("y[i] = sum(where(j > 0, sum(a[i, j - 1 + k], k), 0), j)", "a [M, 80]; y [M]"),  # outside unless guarded
        ("y[i] = max(sum(a[i + k, d] * b[j, k, d], k, d), j)", "a [50, 9]; b [30, 20, 9]; y [31]"),  # a window
    ],
)
def test_short_invariant_or_guarded_reductions_are_not_hoisted(compute, arrays):
    spec = spec_of(compute, arrays, more="indices: {j: 33, k: 40}" if "j - 1" in compute else "")
    assert hoisted(spec) is spec


def test_scheduled_statements_are_not_rewritten():
    spec = spec_of(
        "y[i] = sum(exp(sum(a[j, k] * b[i, k], k)), j)", "a [N, K]; b [M, K]; y [M]", more="schedule: {family: direct}"
    )
    assert hoisted(spec) is spec
