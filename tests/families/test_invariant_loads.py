"""Loads of convolutions are printed outside of the loops that don't change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.nodes import Define, For, Guard, If, Load, Node
from cugen.plan.symbols import Integer
from cugen.plan.traversal.sections import dissolved
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text
from tests.fuzz.drawing import Drawing
from tests.fuzz.operators import convolution, transposed_convolution

Planned = Callable[[str], PlannedKernel]
Prove = Callable[..., None]

DIRECT_3D = """
params: {F: 3, C: 2, R: %s}
arrays:
  x: {shape: [2, C, 5, 6, 7], dtype: float32, boundary: zero}
  w: {shape: [F, C, R, 2, R], dtype: float32}
  s: {shape: [F, C], dtype: float32}
  y: {shape: [2, F, 5, 6, 7], dtype: float32}
indices: {r: R, t: R, q: 2, c: C}
compute: y[n, f, i, j, k] = sum(x[n, c, i + r - 1, j + q, k + t - 1] * w[f, c, r, q, t] * s[f, c], c, r, q, t)
schedule: {family: direct}
"""
PARTIAL_PLANES = """
params: {F: 5, C: 3, N: 2}
arrays:
  x: {shape: [N, C, 9, 20, 8], dtype: float32, boundary: zero}
  w: {shape: [F, C, 4, 3, 3], dtype: float32}
  b: {shape: [F], dtype: float32}
  y: {shape: [N, F, 3, 20, 8], dtype: float32}
indices: {r: 4, s: 3, t: 3, c: C}
compute: y[n, f, i, j, k] = relu(sum(x[n, c, 3*i + r - 2, j + s - 1, k + t - 1] * w[f, c, r, s, t], c, r, s, t) + b[f])
schedule: {family: stencil}
"""
TRANSPOSED = """
params: {F: 4, C: 6}
arrays:
  x: {shape: [C, 5, 4, 3], dtype: float32, boundary: zero}
  w: {shape: [C, F // 2, 3, 3, 3], dtype: float32}
  b: {shape: [F], dtype: float32}
  y: {shape: [F, 11, 9, 7], dtype: float32}
indices: {r: 3, s: 3, t: 3, c: C // 2}
compute: y[f, i, j, k] = sum(
  x[f // 2 * 3 + c, (i - r) / 2, (j - s) / 2, (k - t) / 2] * w[f // 2 * 3 + c, f % 2, r, s, t], c, r, s, t) + b[f]
"""


def invariant_loads(nodes: tuple[Node, ...]) -> Iterator[Load]:
    """Loads in an innermost loop without its variable in their address or guard, nor in a condition that they are
    under."""
    for node in nodes:
        if isinstance(node, For):
            yield from _invariant(node.body, {node.loop.index.symbol})
            yield from invariant_loads(node.body)
        elif isinstance(node, If):
            yield from invariant_loads((*node.then, *node.orelse))


def _invariant(nodes: tuple[Node, ...], changing: set[Integer]) -> Iterator[Load]:
    for node in nodes:
        if isinstance(node, Define) and node.index.definition.free_symbols & changing:
            changing.add(node.index.symbol)
        elif isinstance(node, If) and isinstance(node.condition, Guard):
            yield from _invariant((*node.then, *node.orelse), set(changing))
        elif isinstance(node, Load) and node.access.array.space != "register" and not _symbols(node) & changing:
            yield node


def _symbols(load: Load) -> set[Integer]:
    terms = load.guard.terms if load.guard else ()
    return {
        symbol
        for part in (*load.access.subscripts, *(side for term in terms for side in (term.left, term.right)))
        for symbol in part.free_symbols
    }


def kernels(text: str) -> Iterator[PlannedKernel]:
    (spec,) = load_text(text)
    yield from (kernel for kernel in make_plan(spec).kernels if kernel.family in ("direct", "stencil"))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(3))
def test_drawn_convolutions_load_outside_of_loops_what_these_do_not_change(batch: int) -> None:
    for seed in range(200 + 50 * batch, 250 + 50 * batch):
        drawing = Drawing(Random(seed), is_dynamic=seed % 4 == 0)
        (transposed_convolution if seed % 3 == 0 else convolution)(drawing)
        for kernel in kernels(drawing.text()):
            assert not list(invariant_loads(dissolved(kernel.body))), seed


def test_a_bias_is_loaded_before_the_planes_of_which_some_are_out_of_bounds(planned: Planned) -> None:
    kernel = planned(PARTIAL_PLANES)
    assert not list(invariant_loads(dissolved(kernel.body)))


@pytest.mark.parametrize("taps", [2, "dynamic"])
def test_a_scale_of_channels_is_loaded_in_their_loop(planned: Planned, taps: int | str) -> None:
    (loop,) = (node for node in dissolved(planned(DIRECT_3D % taps).body) if isinstance(node, For))
    (scale,) = (node for node in loop.body if isinstance(node, Load))
    assert scale.access.array.name == "s"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", [PARTIAL_PLANES, DIRECT_3D % 2, TRANSPOSED], ids=["planes", "direct", "transposed"])
def test_convolutions_in_three_dimensions_are_right(prove: Prove, text: str) -> None:
    prove(text)


@pytest.mark.parametrize("taps", [0, 1, 3])
def test_a_convolution_is_right_where_loops_over_its_taps_are_empty(prove: Prove, taps: int) -> None:
    prove(DIRECT_3D % "dynamic", {"R": taps})
