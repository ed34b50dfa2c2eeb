"""Reductions of gathered rows, as those of an embedding bag: each thread loads a vector of its columns."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses

BAG = """
params: {{B: {b}, K: {k}, E: {e}, R: 50, H: {heads}, P: 4}}
arrays:
  x: {{shape: [R, E], dtype: {dtype}}}
  z: {{shape: [R, P, E], dtype: {dtype}}}
  t: {{shape: [B, K], dtype: int32}}
  n: {{shape: [B], dtype: int32}}
  w: {{shape: [B, H, K], dtype: float32}}
  y: {{shape: [{shape}], dtype: {result}}}
indices: {{k: K}}
compute: "{statement}"
"""


def bag(statement: str, b: int = 300, k: int = 40, e: int = 64, heads: int = 4, **types: str) -> str:
    """A spec of a statement, with the arrays that it reads."""
    shape = "B, H, E" if "y[b, h" in statement else "B, E"
    text = BAG.format(statement=statement, b=b, k=k, e=e, heads=heads, shape=shape, **{"dtype": "float32"} | types)
    unread = [line for line in text.splitlines() if line[:2] == "  " and f"{line[2]}[" not in statement]
    return "\n".join(line for line in text.splitlines() if line not in unread)


FORMS = {
    "a sum": "y[b, e] = sum(x[t[b, k], e], k)",
    "weighted": "y[b, e] = sum(w[b, 0, k] * x[t[b, k], e], k)",
    "a mean less the first": "y[b, e] = mean(x[t[b, k], e], k) - x[t[b, 0], e]",
    "the largest": "y[b, e] = max(x[t[b, k], e], k)",
    "with a length for each result": "y[b, e] = sum(x[t[b, k], e] if k < n[b] % K else 0, k)",
    "of pages": "y[b, e] = sum(z[t[b, k // P], k % P, e], k)",
    "that few results share": "y[b, h, e] = sum(w[b, h, k] * x[t[b, k], e], k)",
}


@pytest.mark.sampled(42)
@pytest.mark.parametrize(
    "types", [("float32", "float32"), ("float16", "float16"), ("int8", "float32")], ids=lambda t: t[0]
)
@pytest.mark.parametrize("sizes", [(300, 40, 64), (7, 1, 129), (33, 300, 8), (1, 17, 48)], ids=str)
@pytest.mark.parametrize("statement", FORMS.values(), ids=list(FORMS))
def test_gathered_rows_are_reduced(prove, statement, sizes, types):
    dtype, result = types
    prove(bag(statement, *sizes, dtype=dtype, result=result))


@pytest.mark.parametrize("statement", FORMS.values(), ids=list(FORMS))
def test_threads_load_vectors_of_gathered_rows(planned, statement):
    kernel = planned(bag(statement, 16384, 32, 128, dtype="float16", result="float16"))
    assert kernel.family == "reduce"
    assert {a.width for a in accesses(kernel.body) if a.array.name in "xz"} >= {8}


def test_rows_that_many_results_share_are_left_to_others(reasons):
    text = bag(FORMS["that few results share"], heads=16, result="float32")
    assert any("several results share" in refusal.reason for refusal in reasons("reduce", text))


def test_the_row_of_a_page_is_gathered_once_for_its_elements(made):
    source = made(bag(FORMS["of pages"], 3000, 256, 64, result="float32")).source
    page, element = source.index("for (int k_outer"), source.index("for (int k_inner")
    assert page < source.index("= t[") < element


def test_short_gathered_rows_share_a_block(planned):
    """A block of one row's 16 vectors would be half a warp."""
    assert planned(bag(FORMS["a sum"], 100_000, 16, 64, result="float32")).block == (16, 1, 16)
