"""Attention in one launch: every spelling, type, size and mask, elements that aren't finite, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import draw, known_params
from cugen.runtime.verify import verify

SOFTMAX = """
  s[b, i, j] = sum(q[b, i, d] * k[b, j, d], d) * 0.25
  p[b, i, j] = softmax(s[b, i, j], j)
  o[b, i, e] = sum(p[b, i, j] * v[b, j, e], j)
"""
EXPONENTIALS = """
  s[b, i, j] = sum(q[b, i, d] * k[b, j, d], d) * 0.25
  p[b, i, j] = exp(s[b, i, j] - max(s[b, i, l], l))
  o[b, i, e] = sum(p[b, i, j] * v[b, j, e], j) / sum(p[b, i, j], j)
"""
STEPS = """
  s[b, i, j] = sum(k[b, j, d] * q[b, i, d], d)
  m[b, i] = max(s[b, i, j], j)
  z[b, i] = sum(exp(0.25 * (s[b, i, j] - m[b, i])), j)
  o[b, i, e] = sum(v[b, j, e] * exp(0.25 * (s[b, i, j] - m[b, i])), j) / z[b, i]
"""
SINGLE_STATEMENT = "\n  o[b, i, e] = sum(softmax(sum(q[b, i, d] * k[b, j, d], d) * 0.25, j) * v[b, j, e], j)\n"
CAUSAL = """
  s[b, i, j] = where(j <= i, sum(q[b, i, d] * k[b, j, d], d) * 0.25, -inf)
  p[b, i, j] = softmax(s[b, i, j], j)
  o[b, i, e] = sum(p[b, i, j] * v[b, j, e], j)
"""
WINDOW = CAUSAL.replace("j <= i", "j <= i + 3 and j > i - 40")
SPELLINGS = {"softmax": SOFTMAX, "exponentials": EXPONENTIALS, "steps": STEPS, "one statement": SINGLE_STATEMENT}


def attention(
    compute: str = SOFTMAX,
    sizes: tuple[int | str, int | str, int, int] = (70, 75, 32, 32),
    types: tuple[str, str, str] = ("float16", "float16", "float32"),
    schedule: str = "family: attention",
    arrays: str = "",
    target: str = "sm_90",
) -> str:
    rows, keys, depth, columns = sizes
    of_q, of_v, of_o = types
    return f"""target: {target}
params: {{B: 2, M: {rows}, N: {keys}, D: {depth}, E: {columns}}}
arrays:
  q: {{shape: [B, M, D], dtype: {of_q}}}
  k: {{shape: [B, N, D], dtype: {of_q}}}
  v: {{shape: [B, N, E], dtype: {of_v}}}
  o: {{shape: [B, M, E], dtype: {of_o}}}
{arrays}
schedule: {{{schedule}}}
compute: |
{compute}
"""


def run(kernel, changed: Mapping[str, Mapping[tuple[int, ...], float]]):
    """A verified run on random numbers, of which some elements are `changed`."""
    spec = kernel.spec
    inputs = draw(spec, known_params(spec, {}), 0)
    for name, elements in changed.items():
        for position, value in elements.items():
            inputs.arrays[name][position] = value
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(workers=1, shuffle=3), inputs=inputs)
    assert run.verification.passed, "\n".join(run.verification.messages)
    return run


@pytest.mark.parametrize("compute", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_one_launch_without_scores_in_memory(made, prove, compute):
    text = attention(compute)
    plan = made(text).plan
    assert [kernel.family for kernel in plan.kernels] == ["attention"]
    assert plan.workspace == ()
    prove(text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schedule", ["rows: 16, keys: 64", "rows: 32, keys: 32, warps: 2", "keys: 16, warps: 8"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (64, 64, 64, 64), (33, 130, 17, 24), (130, 33, 96, 40)])
@pytest.mark.parametrize("compute", [EXPONENTIALS, CAUSAL, WINDOW], ids=["all keys", "causal", "window"])
def test_sizes_and_tiles_of_every_kind_are_right(prove, compute, sizes, schedule):
    prove(attention(compute, sizes, schedule=schedule))


@pytest.mark.parametrize("of_v", ["float16", "bfloat16"])
@pytest.mark.parametrize("of_q", ["float16", "bfloat16"])
def test_types_of_16_bits_are_right(prove, of_q, of_v):
    prove(attention(CAUSAL, types=(of_q, of_v, of_v)))


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_sizes_that_are_known_at_launch_are_right(prove, rows):
    prove(attention(CAUSAL, ("dynamic", "dynamic", 32, 32)), {"M": rows, "N": 90})
    prove(attention(SOFTMAX, ("dynamic", "dynamic", 32, 32)), {"M": 65, "N": rows})


def test_scores_have_biases_masks_and_scales(prove):
    compute = """
  s[b, i, j] = sum(q[b, i, d] * k[b, j, d], d) * scale[b] + bias[i, j]
  t[b, i, j] = where(allowed[b, j], s[b, i, j], -1e30)
  p[b, i, j] = softmax(t[b, i, j], j)
  o[b, i, e] += gate[e] * sum(p[b, i, j] * v[b, j, e], j)
"""
    arrays = """
  scale: {shape: [B], dtype: float32}
  bias: {shape: [M, N], dtype: float16}
  allowed: {shape: [B, N], dtype: bool}
  gate: {shape: [E], dtype: float32}
"""
    prove(attention(compute, (70, 75, 32, 17), arrays=arrays), sanitize=True)


def test_heads_share_keys_and_rows_are_padded(prove):
    prove("""
params: {H: 4, G: 2, M: 40, N: 50, D: 24}
arrays:
  q: {shape: [M, H, D], dtype: bfloat16}
  k: {shape: [N, G, D], dtype: bfloat16, pitch: 32}
  v: {shape: [G, N, D], dtype: bfloat16}
  o: {shape: [M, H, D], dtype: bfloat16}
schedule: {family: attention}
compute: |
  s[h, i, j] = sum(q[i, h, c] * k[j, h // 2, c], c) / 5
  p[h, i, j] = softmax(s[h, i, j], j)
  o[i, h, d] = sum(p[h, i, j] * v[h // 2, j, d], j)
""")


@pytest.mark.slow
@pytest.mark.parametrize("compute", [SOFTMAX, CAUSAL, WINDOW], ids=["all keys", "causal", "window"])
def test_no_access_is_outside_and_no_value_unwritten(prove, compute):
    prove(attention(compute, (70, 75, 17, 33)), sanitize=True)
    prove(attention(compute, (70, 75, 17, 33)), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("compute", [SOFTMAX, CAUSAL, WINDOW], ids=["all keys", "causal", "window"])
def test_the_trace_of_all_accesses_is_what_the_plan_says(made, compute):
    kernel = made(attention(compute, (70, 75, 24, 64), schedule="rows: 32, keys: 16, warps: 2"))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


@pytest.mark.parametrize(
    "changed",
    [
        {"v": {(0, 140, 3): np.inf, (1, 20, 4): np.nan}},
        {"q": {(0, 5, 1): np.nan, (1, 6, 2): np.inf}},
        {"k": {(0, 5, 1): -np.inf, (1, 0, 2): np.nan}},
        {"q": {(0, 5, c): 3e4 for c in range(32)}},
    ],
    ids=["v", "q", "k", "large"],
)
@pytest.mark.parametrize("compute", [SOFTMAX, CAUSAL, WINDOW], ids=["all keys", "causal", "window"])
def test_elements_that_are_not_finite_spread_as_in_the_reference(made, compute, changed):
    run(made(attention(compute, (150, 150, 32, 32))), changed)


def test_a_masked_element_that_is_not_finite_makes_its_column_nan_and_no_other(made):
    kernel = made(attention(CAUSAL, (150, 150, 32, 32), schedule="keys: 16, rows: 16, warps: 2"))
    outcome = run(kernel, {"v": {(0, 149, 7): -np.inf}})
    assert outcome.verification.passed


def test_rows_without_a_key_are_nan(made):
    run(made(attention(CAUSAL.replace("j <= i", "j < i - 20"), (90, 90, 32, 32))), {})


SHIFTED = """
  s[b, i, j] = where(j < i - 20, sum(q[b, i, d] * k[b, j, d], d) * 0.25, -inf)
  p[b, i, j] = exp(s[b, i, j] - max(s[b, i, l], l))
  o[b, i, e] = 0.5 * sum(p[b, i, j] * v[b, j, e], j) / (1 + sum(p[b, i, j], j))
"""


def test_rows_without_a_key_are_nan_where_sums_of_0_would_not_be(made, prove):
    run(made(attention(SHIFTED, (90, 90, 32, 32))), {})
    prove(attention(SHIFTED, (90, "dynamic", 32, 32)), {"N": 0})


def test_masked_steps_are_left_out(made):
    source = made(attention(CAUSAL, (512, 512, 64, 64))).source
    assert "j0 < j_stop" in source
    assert "from the tiles with the most keys on" in source
    assert "j_stop" not in made(attention(SOFTMAX, (512, 512, 64, 64))).source


def test_the_planner_takes_it_where_scores_would_be_stored(made):
    large = """
params: {B: 4, H: 16, M: 1024, N: 1024, D: 64, E: 64}
arrays:
  q: {shape: [B, H, M, D], dtype: float16}
  k: {shape: [B, H, N, D], dtype: float16}
  v: {shape: [B, H, N, E], dtype: float16}
  o: {shape: [B, H, M, E], dtype: float16}
compute: |
  s[b, h, i, j] = sum(q[b, h, i, d] * k[b, h, j, d], d) * 0.125
  p[b, h, i, j] = softmax(s[b, h, i, j], j)
  o[b, h, i, e] = sum(p[b, h, i, j] * v[b, h, j, e], j)
"""
    families = [kernel.family for kernel in made(f"target: sm_90\n{large}").plan.kernels]
    assert families == ["attention"]
    stored = large.replace("  o: {", "  p: {shape: [B, H, M, N], dtype: float16, memory: scratch}\n  o: {")
    assert "attention" not in [kernel.family for kernel in made(f"target: sm_90\n{stored}").plan.kernels]
    assert "attention" not in [kernel.family for kernel in made(f"target: sm_75\n{large}").plan.kernels]


WHOLE = "sum(exp(sum(q[b, i, d] * k[b, j, d], d) - max(sum(q[b, i, d] * k[b, l, d], d), l)) * v[b, j, e], j)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            attention("  o[b, i, e] = sum(q[b, i, d], d) * sum(k[b, j, e] * v[b, j, e], j)"),
            "takes sums of exponentials times elements",
        ),
        (attention(f"  o[b, i, e] = {WHOLE}", (70, 75, 300, 32)), "takes rows of 1 to 256 elements along d"),
        (attention(f"  o[b, i, e] = {WHOLE}", types=("float32", "float16", "float32")), "multiplies float16"),
        (attention(f"  o[b, i, e] = {WHOLE}", schedule="block: {i: 64}"), "in place of block sizes"),
        (attention(f"  o[b, i, e] = {WHOLE}", schedule="rows: 24"), "rows may be 16, 32, not 24"),
        (attention(f"  o[b, i, e] = {WHOLE}", target="sm_75"), "sm_75 has no asynchronous copies"),
    ],
    ids=["no softmax", "wide rows", "float32", "block", "rows", "sm_75"],
)
def test_a_refusal_has_a_reason(reasons, text, reason):
    assert any(reason in refusal.reason for refusal in reasons("attention", text))
