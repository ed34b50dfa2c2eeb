"""Every access of a histogram is proved to be in bounds: that of a key by its guard, or by its type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis.bounds.proof import bounds_of, prove_bounds
from cugen.plan.nodes import AtomicAdd, For, If, Node, Section
from cugen.plan.traversal.walking import walk_nodes

VECTOR = """
params: {N: %s, G: %d}
arrays:
  k: {shape: [N], dtype: %s}
  h: {shape: [G], dtype: int64}
compute: h[g] = sum(k[i] == g, i)
schedule: {family: histogram, split_k: %d}
"""
ROWS = """
params: {R: 33, L: 150}
arrays:
  k: {shape: [R, L], dtype: uint8}
  h: {shape: [R, 8, 8], dtype: int32}
compute: h[r, a, b] = sum(k[r, i] // 8 == a and k[r, i] %% 8 == b%s, i)
schedule: {family: histogram}
"""
KEY_OF_32_BITS = VECTOR % (20_011, 256, "int32", 1)


@pytest.mark.parametrize(
    "text",
    [
        KEY_OF_32_BITS,
        VECTOR % (20_011, 256, "uint8", 4),
        VECTOR % ("dynamic", 100, "int64", 1),
        VECTOR % ("dynamic", 100, "uint32", 4),
        (VECTOR % ("dynamic", 100, "uint32", 4)).replace("G: 100", "G: {range: [0, 999]}"),
        VECTOR % (3_000_000_000, 256, "uint8", 4),
        ROWS % "",
        ROWS % " and k[r, 0] > i",
    ],
    ids=["one block", "parts", "dynamic", "dynamic parts", "dynamic bins", "beyond 32 bits", "rows", "condition"],
)
def test_every_access_is_proved_to_be_in_bounds(made, text):
    claims = bounds_of(made(text).plan)
    assert {claim.verdict for claim in claims} == {"proved"}
    assert "atomic" in {claim.access.kind for claim in claims}


def without_guards(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes with atomics that no guard is round."""
    changed: list[Node] = []
    for node in nodes:
        match node:
            case If(then=(AtomicAdd(),)):
                changed += node.then
            case For() | Section():
                changed.append(replace(node, body=without_guards(node.body)))
            case _:
                changed.append(node)
    return tuple(changed)


def test_an_atomic_without_its_guard_is_not_proved(made):
    plan = made(KEY_OF_32_BITS).plan
    (kernel,) = plan.kernels
    kernel = replace(kernel, parts=tuple((name, without_guards(part)) for name, part in kernel.parts))
    assert any(isinstance(node, AtomicAdd) for node in walk_nodes(kernel.body))
    verdicts = {claim.access.kind: claim.verdict for claim in prove_bounds(kernel, plan.context)}
    assert verdicts["atomic"] == "unknown"
    assert verdicts["store"] == "proved"


def test_a_key_whose_type_has_no_other_values_needs_no_guard(made):
    assert "if (" not in made(VECTOR % (20_011, 256, "uint8", 1)).source.partition("#if defined")[0]
    assert " < G) {" in made(VECTOR % (20_011, 255, "uint8", 1)).source
