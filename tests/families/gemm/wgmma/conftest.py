"""Specs of GEMMs for wgmma, and their contractions."""

from __future__ import annotations

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.plan.context import make_context
from cugen.schedule.planner import requests
from cugen.schedule.runs import group
from cugen.spec.load import load_text

# Subscripts of A and B by layout: those of A in `n` and of B in `t` are K-major.
READS = {"nn": ("m, k", "k, n"), "nt": ("m, k", "n, k"), "tn": ("k, m", "k, n"), "tt": ("k, m", "n, k")}
RESULTS = {"int8": "int32", "uint8": "int32", "float32": "float32"}


def product(
    m: object = 256,
    n: object = 256,
    k: object = 256,
    *,
    dtype: str = "bfloat16",
    b_dtype: str = "",
    result: str = "",
    layout: str = "nt",
    batch: int = 0,
    terms: str = "A[{a}] * B[{b}], k",
    compute: str = "C[{c}] = sum({terms})",
    more: str = "",
    fp8: str = "fast",
    target: str = "sm_90a",
    schedule: str = "family: wgmma",
) -> str:
    """The text of a spec. `terms` and `compute` may have the subscripts of A, B and C, `more` further arrays."""
    a, b = READS[layout]
    of_batch = "z, " if batch else ""
    reads = {"a": of_batch + a, "b": of_batch + b, "c": f"{of_batch}m, n"}
    result = result or RESULTS.get(dtype, "bfloat16")
    return f"""
target: {target}
params: {{M: {m}, N: {n}, K: {k}{f", Z: {batch}" if batch else ""}}}
arrays:
  A: {{shape: [{reads["a"].upper()}], dtype: {dtype}}}
  B: {{shape: [{reads["b"].upper()}], dtype: {b_dtype or dtype}}}
  C: {{shape: [{reads["c"].upper()}], dtype: {result}}}
{more}
compute: {compute.format(terms=terms.format(**reads), **reads)}
accumulate: {{tf32: true, fp8: {fp8}}}
schedule: {{{schedule}}}
"""


def contraction_of(text: str) -> Contraction:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    context = make_context(spec)
    contraction = recognise(next(iter(requests(context, group(context)))), takes_windows=True)
    assert isinstance(contraction, Contraction)
    return contraction
