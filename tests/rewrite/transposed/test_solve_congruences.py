"""Reductions run over the solutions of the congruences among their conditions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.reference.evaluate import evaluate
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.rewrite.transposed.solve_congruences import with_solved_congruences
from cugen.runtime.inputs import draw as draw_inputs
from cugen.runtime.inputs import known_params
from cugen.schedule.planner import make_plan
from cugen.schedule.splitting.context import plan_context
from cugen.spec.expressions import Op, Read, Reduce, free_indices, walk
from cugen.spec.load import load_text
from cugen.spec.prove.affine import text_of
from tests.rewrite.transposed.drawing import SPELLINGS, Transposed, draw

ARRAYS = (
    "x: {shape: [H], dtype: int32, boundary: zero}\n  w: {shape: [R], dtype: int32}\n  y: {shape: [P], dtype: int32}"
)

FLOATS = ARRAYS.replace("int32", "float32")


def spec_of(compute: str, params: str = "H: 9, R: 5, P: 20", arrays: str = ARRAYS):
    (spec,) = load_text(f"cugen: 1\nkernel: f\nparams: {{{params}}}\narrays:\n  {arrays}\ncompute: {compute}\n")
    return with_canonical_expressions(spec)


def solved(spec):
    return replace(spec, statements=(with_solved_congruences(spec.statements[0], spec),))


def reduction_of(spec) -> Reduce:
    (reduction,) = (node for node in walk(spec.statements[0].value) if isinstance(node, Reduce))
    return reduction


def divided(spec) -> list[str]:
    """The divisions that depend on an index of the reduction, and the exact ones."""
    reduction = reduction_of(spec)
    names = {index.name for index in reduction.indices}
    divisions = (n for n in walk(reduction) if isinstance(n, Op) and n.name in ("floordiv", "mod"))
    exact = (str(node.exact) for node in walk(reduction) if isinstance(node, Read) and node.exact)
    return [*(text_of(node) for node in divisions if names & free_indices(node)), *exact]


def is_equal(spec, rewritten, dynamic: dict[str, int] | None = None) -> bool:
    inputs = draw_inputs(spec, known_params(spec, dynamic or {}), 1).arrays
    results = (evaluate(each, inputs, params=dynamic or {})["y"].value for each in (spec, rewritten))
    return np.array_equal(*results)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_drawn_transposed_convolutions_have_the_same_results_without_divisions(spelling):
    source = Random(spelling)
    for _ in range(12):
        drawn = draw(source, spelling, dtype="int32", is_dynamic=source.random() < 0.3)
        (spec,) = load_text(drawn.text)
        spec = with_canonical_expressions(spec)
        assert is_equal(spec, solved(spec), drawn.dynamic), drawn
        assert divided(solved(spec)) == [], drawn


def test_taps_are_an_arithmetic_progression():
    spec = solved(spec_of("y[i] = sum(x[(i + 1 - r) // 2] * w[r], r, where=(i + 1 - r) % 2 == 0)"))
    reduction = reduction_of(spec)
    assert [(index.name, text_of(index.extent)) for index in reduction.indices] == [("r_outer", "3")]
    x, w = (node for node in walk(reduction.body) if isinstance(node, Read))
    assert [text_of(sub) for sub in (*x.subscripts, *w.subscripts)] == [
        "(i + 1) // 2 - r_outer",
        "(i + 1) % 2 + 2 * r_outer",
    ]
    assert reduction.where == Op("lt", (w.subscripts[0], reduction.where.args[1]), reduction.where.dtype)


def test_whole_numbers_of_taps_have_no_condition():
    spec = solved(spec_of("y[i] = sum(x[(i - r) / 3] * w[r], r)", "H: 9, R: 6, P: 20"))
    assert reduction_of(spec).where is None


@pytest.mark.parametrize("kind", ["max", "min", "prod"])
def test_other_reductions_have_the_same_results(kind):
    spec = spec_of(f"y[i] = {kind}(x[(i + 2 - 2 * r) // 3] * w[r], r, where=(i + 2 - 2 * r) % 3 == 0)")
    assert divided(solved(spec)) == []
    assert is_equal(spec, solved(spec))


def test_a_shared_factor_leaves_a_condition_on_the_output():
    spec = spec_of("y[i] = sum(x[(i + 1 - 2 * r) // 4] * w[r], r, where=(i + 1 - 2 * r) % 4 == 0)")
    assert divided(solved(spec)) == []
    assert is_equal(spec, solved(spec))


@pytest.mark.parametrize("remainder", [0, 1, 2])
def test_a_fixed_remainder_gives_as_many_terms_as_there_are(remainder):
    spec = spec_of(f"y[i] = sum(x[i + r // 3] * w[r], r, where=r % 3 == {remainder})")
    assert text_of(reduction_of(solved(spec)).indices[0].extent) == str(len(range(remainder, 5, 3)))
    assert is_equal(spec, solved(spec))


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param("sum(x[(i - r) // S] * w[r], r, where=(i - r) % S == 0)", id="dynamic modulus"),
        pytest.param("sum(x[(i - r) // 3] * w[r], r, where=(i - r) % 3 <= 1)", id="two remainders"),
        pytest.param("sum(x[i - r] * w[r], r, where=w[r] % 2 == 0)", id="data"),
        pytest.param("sum(x[i - r // 2] * w[r], r, where=(i - r // 2) % 2 == 0)", id="a quotient"),
        pytest.param("sum(x[(i - r - q) // 2] * w[r] * w[q], r, q, where=(i - r - q) % 2 == 0)", id="two indices"),
        pytest.param(
            "cast(argmax(x[(i - r) // 2] * w[r], r, where=(i - r) % 2 == 0 and i > 99), int32)", id="position"
        ),
    ],
)
def test_other_conditions_are_left(compute):
    params = "H: 9, R: 5, P: 20, S: {range: [1, 5]}" if "S" in compute else "H: 9, R: 5, P: 20"
    spec = spec_of(f"y[i] = {compute}", params)
    assert with_solved_congruences(spec.statements[0], spec) is spec.statements[0]


def test_rows_that_a_family_reduces_keep_their_condition():
    arrays = "x: {shape: [64, 4096], dtype: float32}\n  y: {shape: [64], dtype: float32}"
    spec = spec_of("y[i] = sum(x[i, j], j, where=(i + j) % 3 == 0)", "N: 1", arrays)
    assert plan_context(spec).spec.statements == spec.statements


@pytest.mark.parametrize("value", ["silu({})", "({0}) * tanh({0})", "maximum({0}, 0) + 0.1 * minimum({0}, 0)"])
def test_a_sum_that_an_epilogue_reads_twice_stays_one_sum(value):
    spec = solved(spec_of(f"y[i] = {value.format('sum(x[(i + 1 - r) / 2] * w[r], r)')}", arrays=FLOATS))
    assert len({node for node in walk(spec.statements[0].value) if isinstance(node, Reduce)}) == 1
    assert [kernel.family for kernel in make_plan(spec).kernels] == ["stencil"]


def test_a_step_of_the_schedule_keeps_its_index():
    drawn = Transposed("remainder", (20,), (40,), (4,), (2,), (1,), (1,))
    (spec,) = load_text(f"{drawn.text}\nschedule: {{family: staged, step: {{r0: 2}}}}\n")
    assert plan_context(spec).spec.statements == spec.statements


def test_the_transposed_convolution_of_the_gallery_has_register_windows():
    drawn = Transposed("exact", (17, 20), (34, 40), (4, 4), (2, 2), (1, 1), (1, 1))
    (spec,) = load_text(drawn.text)
    (kernel,) = generate(spec, analysis=False).plan.kernels
    assert kernel.family == "stencil"


TWO_BANDS = ARRAYS + "\n  z: {shape: [H], dtype: int32, boundary: zero}\n  v: {shape: [R], dtype: int32}"


@pytest.mark.parametrize("sign", ["+", "-"])
def test_terms_of_two_arrays_at_one_quotient_run_over_its_solutions(sign):
    spec = spec_of(f"y[p] = sum(x[(p + 1 - r) / 2] * w[r] {sign} z[(p + 1 - r) / 2] * v[r], r)", arrays=TWO_BANDS)
    assert not divided(solved(spec))
    assert is_equal(spec, solved(spec))


def test_terms_at_different_quotients_or_of_which_one_always_counts_are_left():
    for addend in ("z[(p - r) / 2] * v[r]", "z[p // 3] * v[r]"):
        spec = spec_of(f"y[p] = sum(x[(p + 1 - r) / 2] * w[r] + {addend}, r)", arrays=TWO_BANDS)
        assert reduction_of(solved(spec)) == reduction_of(spec)
