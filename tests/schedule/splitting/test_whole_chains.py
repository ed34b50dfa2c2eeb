"""Chains in one statement: whatever temporaries they are spelt with, unless something else needs one of these."""

from __future__ import annotations

import pytest

from cugen.schedule.planner import make_plan
from cugen.schedule.splitting.canonical_form import with_canonical_form
from cugen.schedule.splitting.whole_chains import with_whole_chains
from cugen.spec.load import load_text

HEAD = """cugen: 1
kernel: chain
target: sm_90
params: {B: 64, T: 1024, D: 64}
arrays:
  q: {shape: [B, T, D], dtype: float16}
  k: {shape: [B, T, D], dtype: float16}
  v: {shape: [B, T, D], dtype: float16}
  o: {shape: [B, T, D], dtype: float16}
"""
BY_SOFTMAX = """
  s[b, i, j] = sum(q[b, i, d] * k[b, j, d], d)
  p[b, i, j] = softmax(s[b, i, j], j)
  o[b, i, d] = sum(p[b, i, j] * v[b, j, d], j)
"""
BY_STEPS = """
  s[b, i, j] = sum(q[b, i, c] * k[b, j, c], c)
  m[b, i] = max(s[b, i, l], l)
  e[b, i, j] = exp(s[b, i, j] - m[b, i])
  z[b, i] = sum(e[b, i, j], j)
  o[b, i, d] = sum(e[b, i, r] * v[b, r, d], r) / z[b, i]
"""


def whole(compute: str, arrays: str = "", schedule: str = ""):
    (spec,) = load_text(f"{HEAD}{arrays}{schedule}compute: |\n{compute}")
    return with_whole_chains(with_canonical_form(spec))


@pytest.mark.parametrize("compute", [BY_SOFTMAX, BY_STEPS], ids=["softmax", "steps"])
def test_a_chain_is_one_statement(compute):
    (statement,) = whole(compute).statements
    assert statement.target == "o"


def test_a_temporary_that_is_declared_or_read_elsewhere_stays():
    declared = "  p: {shape: [B, T, T], dtype: float16, memory: scratch}\n"
    assert len(whole(BY_SOFTMAX, declared).statements) == 3
    result = "  z: {shape: [B, T], dtype: float32}\n"
    assert len(whole(BY_STEPS, result).statements) == 5


def test_another_family_that_the_schedule_names_has_its_statements():
    assert len(whole(BY_SOFTMAX, schedule="schedule: {family: gemm}\n").statements) == 3


def test_a_tunable_asks_for_the_family_that_has_it():
    (statement,) = whole(BY_SOFTMAX, schedule="schedule: {keys: 32}\n").statements
    assert statement.target == "o"


def test_few_rows_are_left_to_launches_of_their_own():
    (spec,) = load_text(f"{HEAD}compute: |\n{BY_SOFTMAX}".replace("B: 64, T: 1024", "B: 1, T: 512"))
    assert "attention" not in [kernel.family for kernel in make_plan(spec).kernels]


def test_operands_that_earlier_launches_store_are_those_of_a_chain():
    text = f"{HEAD}compute: |\n{BY_SOFTMAX}"
    text = text.replace("  o: {", "  x: {shape: [B, T, D], dtype: float16}\n  o: {")
    text = text.replace(
        "q: {shape: [B, T, D], dtype: float16}", "q: {shape: [B, T, D], dtype: float16, memory: scratch}"
    )
    (spec,) = load_text(text.replace("compute: |\n", "compute: |\n  q[b, i, d] = 2 * x[b, i, d]\n"))
    assert [kernel.family for kernel in make_plan(spec).kernels] == ["map", "attention"]


def test_a_temporary_of_an_array_that_is_written_after_it_stays():
    text = f"{HEAD}compute: |\n{BY_SOFTMAX}".replace("  o[b", "  k[b, i, d] = 1\n  o[b", 1)
    (spec,) = load_text(text)
    assert len(with_whole_chains(with_canonical_form(spec)).statements) == 4
