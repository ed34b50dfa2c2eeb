"""Reductions of rows by key: threads of a result load vectors of the rows whose key is that of the result."""

from __future__ import annotations

import numpy as np
import pytest

import cugen
from cugen.plan.nodes import If, Load
from cugen.plan.traversal.walking import accesses, walk_nodes

BY_KEY = """
params: {{N: {n}, K: {keys}, E: {e}}}
arrays:
  key: {{shape: [N], dtype: {key}}}
  other: {{shape: [N], dtype: int32}}
  x: {{shape: [N, E], dtype: {dtype}}}
  y: {{shape: [K, E], dtype: {result}}}
compute: "y[k, e] = {value}"
schedule: {{family: reduce}}
"""
FORMS = {
    "sums": "sum(x[n, e], n, where=key[n] == k)",
    "sums of terms": "sum(x[n, e] if key[n] == k else 0, n)",
    "with a weight": "sum(other[n] * x[n, e], n, where=k == key[n])",
    "means": "sum(x[n, e], n, where=key[n] == k) / maximum(sum(1 if key[n] == k else 0, n), 1)",
    "the largest": "max(x[n, e], n, where=key[n] == k)",
    "positions": "argmax(x[n, e], n, where=key[n] == k)",
    "of a part of the key": "sum(x[n, e], n, where=key[n] % 4 == k)",
    "with a second condition": "sum(x[n, e], n, where=key[n] == k and other[n] > e)",
    "with two keys": "sum(x[n, e], n, where=key[n] == k and other[n] == 1)",
}


def by_key(form: str, n: int = 500, keys: int = 7, e: int = 32, key: str = "int32", dtype: str = "float32") -> str:
    """A spec of a form, with the arrays that it reads."""
    value = FORMS[form]
    result = "int64" if "argmax" in value else "float32"
    text = BY_KEY.format(n=n, keys=keys, e=e, key=key, dtype=dtype, result=result, value=value)
    return text if "other[" in value else "\n".join(line for line in text.splitlines() if "other" not in line)


@pytest.mark.sampled(47)
@pytest.mark.parametrize("key", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("sizes", [(500, 7, 32), (63, 3, 129), (1000, 40, 8)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_reduced_by_key(prove, form: str, sizes: tuple[int, int, int], key: str) -> None:
    prove(by_key(form, *sizes, key=key, dtype="float16"))


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_loaded_in_vectors_where_their_key_is_that_of_the_result(made, form: str) -> None:
    kernel = made(by_key(form, 100_000, 100, 512)).plan.kernels[0]
    branches = [node for node in walk_nodes(kernel.body) if isinstance(node, If)]
    loads = [node for branch in branches for node in walk_nodes(branch.then) if isinstance(node, Load)]
    assert {a.width for load in loads for a in accesses((load,)) if a.array.name == "x"} == {4}


def test_single_elements_by_key_are_staged_for_all_results(planned) -> None:
    text = by_key("sums", 1000, 64).replace("schedule: {family: reduce}", "")
    text = text.replace("[N, E]", "[N]").replace("x[n, e]", "x[n]")
    assert planned(text.replace("[K, E]", "[K]").replace("y[k, e]", "y[k]")).family != "reduce"


def test_a_condition_keeps_the_key_of_the_next_in_bounds() -> None:
    """As the padding of a list is marked: there is no key at its position."""
    text = """
cugen: 1
kernel: padded
params: {N: 60, K: 4, E: 32}
arrays:
  source: {shape: [N], dtype: int32}
  key: {shape: [N], dtype: int32}
  x: {shape: [N, E], dtype: float32}
  y: {shape: [K, E], dtype: float32}
compute: "y[k, e] = sum(x[n, e], n, where=source[n] >= 0 and key[source[n]] == k)"
"""
    random = np.random.default_rng(1)
    source = np.where(np.arange(60) % 3, random.permutation(60), -(1 << 30)).astype(np.int32)
    key, x = random.integers(0, 4, 60).astype(np.int32), random.integers(-9, 9, (60, 32)).astype(np.float32)
    chosen = [[n for n in range(60) if source[n] >= 0 and key[source[n]] == k] for k in range(4)]
    y = cugen.run(text, {"source": source, "key": key, "x": x}, device="cpu")["y"]
    assert (y == np.array([x[rows].sum(axis=0) for rows in chosen])).all()
