"""Baked tables without a placement: in constant memory where they are small, and each warp reads one address."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: weighted
target: TARGET
params: {M: 40, N: SIZE}
arrays:
  t: {shape: [COUNT], dtype: float32, values: VALUES}
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[i, j] = x[i, j] * VALUE
"""


def text_of(value: str, count: int = 8, size: str = "100", target: str = "sm_90") -> str:
    text = SPEC.replace("VALUES", str(list(range(count)))).replace("VALUE", value)
    return text.replace("COUNT", str(count)).replace("SIZE", size).replace("TARGET", target)


def made(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec)


def declared_as(kernel: Kernel, name: str = "t") -> str:
    """The qualifier of a table."""
    (line,) = (line for line in kernel.source.splitlines() if f" {name}[" in line and line.startswith("__"))
    return line.split()[0]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("value", "count", "size", "qualifier"),
    [
        ("t[2] + t[1]", 8, "100", "__constant__"),
        ("sum(t[k], k)", 512, "100", "__constant__"),
        ("sum(t[k], k)", 513, "100", "__device__"),  # more than the first level of the cache
        ("t[j % 8]", 8, "100", "__device__"),
        ("(t[3] + t[j % 8])", 8, "100", "__device__"),  # one read of two is uniform
        ("t[i % 8]", 8, "128", "__constant__"),  # a row is a warp's vectors
        ("t[i % 8]", 8, "100", "__device__"),  # a row is 25 vectors, and a warp has some of the next one
        ("t[(i * N + j) // 512 % 8]", 8, "100", "__device__"),  # warps that cross a multiple of 512
    ],
)
def test_a_table_is_in_constant_memory_where_all_reads_are_proved_uniform(value, count, size, qualifier):
    kernel = made(text_of(value, count, size))
    assert declared_as(kernel) == qualifier
    (line,) = (line for line in kernel.source.splitlines() if line.startswith("// t "))
    assert ("constant, since all reads are uniform" in line) == (qualifier == "__constant__")
    if qualifier == "__constant__":
        reads = [a for report in kernel.reports for a in report.accesses if a.space == "constant"]
        assert {(a.verdict, a.cost == a.ideal) for a in reads} == {("ideal", True)}


def test_a_table_at_subscripts_from_memory_stays_in_global_memory():
    text = text_of("t[ids[i, j]]").replace("  y:", "  ids: {shape: [M, N], dtype: int32}\n  y:")
    assert declared_as(made(text)) == "__device__"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "qualifier"), [("t[3]", "__constant__"), ("t[(i + j) % 8]", "__device__")])
def test_the_proof_holds_for_all_sizes_of_a_dynamic_param(value, qualifier):
    assert declared_as(made(text_of(value, size="dynamic"))) == qualifier


def test_a_placement_of_the_spec_is_kept():
    for memory in ("global", "readonly"):
        text = text_of("t[2]").replace("dtype: float32, values", f"dtype: float32, memory: {memory}, values")
        assert declared_as(made(text)) == "__device__"


@pytest.mark.slow
def test_tables_fill_the_first_level_of_the_cache_together_in_their_order():
    more = "".join(f"  {name}: {{shape: [200], dtype: float32, values: {[1] * 200}}}\n" for name in "uv")
    text = text_of("(sum(t[k], k) + u[0] + v[0])", 300).replace("  x:", f"{more}  x:", 1)
    assert [declared_as(made(text), name) for name in "tuv"] == ["__constant__", "__constant__", "__device__"]


def test_an_input_is_never_placed_there():
    text = text_of("t[2]").replace(f", values: {list(range(8))}", "")
    assert "__constant__" not in made(text).source


def test_weights_of_a_stencil_stay_literals():
    text = """
cugen: 1
kernel: blur
arrays:
  w: {shape: [3], dtype: float32, values: [0.25, 0.5, 0.25]}
  x: {shape: [30, 256], dtype: float32, boundary: clamp}
  y: {shape: [30, 256], dtype: float32}
compute: y[i, j] = sum(w[k] * x[i, j + k - 1], k)
"""
    assert "const float w_values[3] = {0.25f, 0.5f, 0.25f}" in made(text).source


def test_results_and_the_trace_of_accesses_are_right():
    kernel = made(text_of("(t[2] + sum(t[k], k))"))
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []
