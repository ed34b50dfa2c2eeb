"""Short reductions over pairs are computed where they are read, in whichever way they are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.launches.price import plan_prices, total
from cugen.kernel import Kernel, generate
from cugen.plan.traversal.walking import accesses
from cugen.rewrite.sums.short_reductions import with_short_reductions, without_loops
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.expressions import Reduce, walk
from cugen.spec.load import load_text
from cugen.spec.model import Spec

HEAD = """cugen: 1
kernel: pairs
params: {M: %s, N: %s, D: %s}
arrays:
  p: {shape: [M, D], dtype: %s}
  q: {shape: [N, D], dtype: %s}
  y: {shape: [M], dtype: float32}
compute: |
"""
SPELLINGS = {
    "a temporary": "d[i, j] = %s\n  y[i] = %s(d[i, j], j)",
    "a temporary of a temporary": "d[i, j] = %s\n  e[i, j] = d[i, j]\n  y[i] = %s(e[i, j], j)",
    "nested": "y[i] = {1}({0}, j)",
}


def spec_of(compute: str, m: int = 8192, n: int = 8192, d: int = 3, dtype: str = "float32", more: str = "") -> Spec:
    head = HEAD % (m, n, d, dtype, dtype)
    (spec,) = load_text(f"{head}  {compute}\n{more}")
    return spec


def nearest(spelling: str, term: str, kind: str) -> str:
    return SPELLINGS[spelling].replace("%s", "{0}", 1).replace("%s", "{1}").format(term, kind)


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def reductions(spec: Spec) -> list[int]:
    """How many reductions each statement has."""
    return [sum(isinstance(node, Reduce) for node in walk(s.value)) for s in with_short_reductions(spec).statements]


@pytest.mark.slow
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_pairs_of_two_sets_of_points_are_never_stored(spelling: str) -> None:
    kernel = generate(spec_of(nearest(spelling, "sum((p[i, c] - q[j, c]) ** 2, c)", "min")), analysis=False)
    written = generate(
        spec_of("y[i] = min((p[i, 0] - q[j, 0]) ** 2 + (p[i, 1] - q[j, 1]) ** 2 + (p[i, 2] - q[j, 2]) ** 2, j)"),
        analysis=False,
    )
    prices = [total(plan_prices(k.plan, {})) for k in (kernel, written)]
    assert [launch.family for launch in kernel.plan.kernels] == [launch.family for launch in written.plan.kernels]
    assert prices[0] == prices[1]
    assert prices[0].moved < 8192 * 8192


LEFT = {
    "a result of all pairs": "d[i, j] = sum((p[i, c] - q[j, c]) ** 2, c)\n  y[i] = d[i, 0] + max(d[i, j], j)",
    "many terms": "d[i, j] = sum((p[i, c] - q[j, c]) ** 2, c)\n  y[i] = min(d[i, j], j)",
    "terms under a condition": "d[i, j] = sum(p[i, c] * q[j, c], c, where=c != 1)\n  y[i] = min(d[i, j], j)",
    "a sum of each row": "s[i] = sum(p[i, c] ** 2, c)\n  y[i] = sum(s[i] * q[j, 0], j)",
}


@pytest.mark.parametrize("name", LEFT)
def test_other_reductions_are_left_as_they_are(name: str) -> None:
    spec = spec_of(LEFT[name], d=40 if name == "many terms" else 3)
    assert with_short_reductions(spec) is spec


def test_statements_with_a_placement_or_a_schedule_are_left_as_they_are() -> None:
    nested = nearest("nested", "sum((p[i, c] - q[j, c]) ** 2, c)", "min")
    assert reductions(spec_of(nested)) == [1]
    assert reductions(spec_of(nested, more="schedule: {family: staged}\n")) == [2]
    placed = HEAD.replace("q: {", "q: {memory: shared, ") % (64, 64, 3, "float32", "float32")
    (spec,) = load_text(f"{placed}  {nested}\n")
    assert reductions(spec) == [2]


@pytest.mark.parametrize(("dimensions", "left"), [(3, [0, 1]), (8, [1, 1])])
def test_fewer_terms_are_repeated_by_outputs_that_share_a_result(dimensions: int, left: list[int]) -> None:
    forces = HEAD.replace("y: {shape: [M]", "y: {shape: [M, D]") % (64, 64, dimensions, "float32", "float32")
    squares = "d[i, j] = sum((p[i, c] - q[j, c]) ** 2, c)"
    (spec,) = load_text(f"{forces}  {squares}\n  y[i, e] = sum((q[j, e] - p[i, e]) * rsqrt(d[i, j] + 1) ** 3, j)\n")
    assert reductions(spec) == left


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_nearest_of_some_points_is_found(spelling: str) -> None:
    compute = nearest(spelling, "sum((p[i, c] - q[j, c]) ** 2, c)", "min")
    assert passes(generate(spec_of(compute, 13, 70), analysis=False))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 300), st.integers(1, 9)),
    dtype=st.sampled_from(["float32", "float16", "float64", "int32", "int8"]),
    term=st.sampled_from(
        [
            "sum((p[i, c] - q[j, c]) ** 2, c)",
            "max(abs(p[i, c] - q[j, c]), c)",
            "prod(p[i, c] + q[j, c], c)",
            "sum(p[i, c] * q[j, c], c) + min(q[j, e] - p[i, e], e)",
            "sum(p[i, c] == q[j, c], c)",
            "mean(p[i, c] * q[j, c], c)",
        ]
    ),
    kind=st.sampled_from(["sum", "max", "min", "mean"]),
    spelling=st.sampled_from(sorted(SPELLINGS)),
)
def test_results_are_those_of_the_reference(
    sizes: tuple[int, int, int], dtype: str, term: str, kind: str, spelling: str
) -> None:
    assert passes(generate(spec_of(nearest(spelling, term, kind), *sizes, dtype), analysis=False))


SMALL = """cugen: 1
kernel: few_terms
params: {N: 1001, B: 5, C: %s}
arrays:
  m: {shape: [%s], dtype: float32}
  x: {shape: [%s], dtype: %s}
  y: {shape: [%s], dtype: %s}
compute: y[%s] = %s
"""


def small(y: str, m: str, x: str, value: str, *, c: int = 3, dtype: str = "float32") -> Spec:
    shapes = [subscripts.translate(str.maketrans("nbijk", "NBCCC")) for subscripts in (m, x, y)]
    (spec,) = load_text(SMALL % (c, shapes[0], shapes[1], dtype, shapes[2], dtype, y, value.format(m=m, x=x)))
    return spec


COLOURS = "sum(m[{m}] * x[{x}], k)"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize(
    ("y", "m", "x", "value"),
    [
        pytest.param("n, i", "i, k", "n, k", COLOURS, id="colours"),
        pytest.param("i, n", "i, k", "k, n", COLOURS, id="planes"),
        pytest.param("b, n, i", "b, i, k", "n, k", COLOURS, id="points moved by several matrices"),
        pytest.param("n, i", "i", "n, k", "m[i] * x[n, i] + max(x[{x}], k)", id="what a pixel's colours share"),
        pytest.param("n, i, j", "i, j", "n, k", "m[{m}] * x[n, i] - sum(x[{x}] * m[i, k], k)", id="tensors"),
    ],
)
def test_no_short_sum_of_colours_or_coordinates_takes_a_thread_for_each(
    y: str, m: str, x: str, value: str, dtype: str
) -> None:
    if dtype == "uint8":
        value = f"cast(clamp({value}, 0, 255), uint8)"
    kernel = generate(small(y, m, x, value, dtype=dtype), analysis=False)
    (launch,) = kernel.plan.kernels
    assert launch.family in ("map", "rowwise")
    assert passes(kernel)


@pytest.mark.parametrize(
    ("value", "c"),
    [(COLOURS, 9), ("sum(m[{m}] * x[{x}], k, where=k <= i)", 3), ("m[i, 0] * sum(x[{x}], k)", 5)],
    ids=["many terms", "a condition", "many terms that outputs share"],
)
def test_other_short_sums_stay_loops(value: str, c: int) -> None:
    spec = small("n, i", "i, k" if "{m}" in value else "i, j", "n, k", value, c=c)
    assert without_loops(spec.statements[0], spec) is None


QUATERNIONS = """cugen: 1
kernel: products
params: {B: %s, J: 24}
indices: {k: 3}
arrays:
  a: {shape: [B, J, 4], dtype: float32}
  b: {shape: [J, 4], dtype: float32}
  c: {shape: [B, J, 4], dtype: float32}
compute: |
  x[n, j] = a[n, j, 3] * b[j, 0] + a[n, j, 0] * b[j, 3]
  w[n, j] = a[n, j, 3] * b[j, 3] - sum(a[n, j, k] * b[j, k], k)
  r[n, j] = rsqrt(x[n, j] ** 2 + w[n, j] ** 2 + 1)
  c[n, j, 0] = x[n, j] * r[n, j]
  c[n, j, 1] = a[n, j, 1]
  c[n, j, 2] = a[n, j, 2]
  c[n, j, 3] = w[n, j] * r[n, j]
"""


def test_sums_of_one_vector_are_terms_beside_what_else_reads_it() -> None:
    (spec,) = load_text(QUATERNIONS % 100_003)
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.family == "map"
    assert {access.width for access in accesses(launch.body)} == {4}


def test_sums_of_one_vector_are_right_as_terms() -> None:
    (spec,) = load_text(QUATERNIONS % 43)
    assert passes(generate(spec))


def test_sums_of_longer_rows_stay_loops() -> None:
    text = QUATERNIONS.replace("a: {shape: [B, J, 4]", "a: {shape: [B, J, 12]").replace(
        "b: {shape: [J, 4]", "b: {shape: [J, 12]"
    )
    (spec,) = load_text(text.replace("{k: 3}", "{k: 8}") % 100_003)
    assert generate(spec, analysis=False).plan.kernels[0].family == "reduce"


DETERMINANTS = """cugen: 1
kernel: determinants
params: {M: %s}
arrays:
  a: {shape: [M, 3, 3], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: |
  y[m] = sum(a[m, 0, k] * (a[m, 1, (k + 1) %% 3] * a[m, 2, (k + 2) %% 3]
    - a[m, 1, (k + 2) %% 3] * a[m, 2, (k + 1) %% 3]), k)
"""


def test_sums_at_rotated_indices_are_terms_that_read_vectors() -> None:
    kernel = generate(load_text(DETERMINANTS % 3_000_000)[0], analysis=False)
    (launch,) = kernel.plan.kernels
    assert launch.family == "map"
    assert {access.width for access in accesses(launch.body) if access.array.symbol == "a"} == {2}


def test_sums_at_rotated_indices_are_right() -> None:
    assert passes(generate(load_text(DETERMINANTS % 41)[0], analysis=False))


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float16", "int8"])
def test_a_sum_of_one_term_has_no_loop(dtype: str) -> None:
    (spec,) = load_text(f"""
cugen: 1
kernel: outer
params: {{M: 65, N: 70, K: 1}}
arrays:
  a: {{shape: [M, K], dtype: {dtype}}}
  b: {{shape: [K, N], dtype: {dtype}}}
  c: {{shape: [M, N], dtype: {dtype}}}
compute: c[m, n] = sum(a[m, k] * b[k, n], k)
""")
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["map"]
    assert passes(kernel)
