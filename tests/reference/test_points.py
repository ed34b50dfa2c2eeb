"""Elements that are requested at points: a statement is evaluated in full where that takes fewer operations."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from cugen.reference import evaluate as module
from cugen.reference.cost import requested_indices
from cugen.reference.evaluate import evaluate
from cugen.reference.interpreter import Interpreter
from cugen.runtime.inputs import draw, known_params
from cugen.spec.expressions import Scan
from cugen.spec.load import load_text

TEXT = """
cugen: 1
kernel: f
params: {M: 30, N: 40}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: %s, dtype: float32}
compute: |
  t[i, j] = log_softmax(x[i, j], j)
  %s
"""


def lazy_statements(shape: str, statement: str, points: list[int]) -> list[int]:
    """The numbers of the statements of which single elements are evaluated; results at the points are checked."""
    (spec,) = load_text(TEXT % (shape, statement))
    inputs = draw(spec, known_params(spec, {}), 1).arrays
    numbers: list[int] = []
    original = module._Run._lazy_contents

    def recorded(run, number, before):
        numbers.append(number)
        return original(run, number, before)

    with patch.object(module, "MAX_FULL_OPERATIONS", 0), patch.object(module._Run, "_lazy_contents", recorded):
        result = evaluate(spec, inputs, points={"y": np.array(points)})["y"]
    np.testing.assert_array_equal(result.value.ravel(), evaluate(spec, inputs)["y"].value.ravel()[points])
    return numbers


def test_a_temporary_that_is_read_as_a_whole_is_evaluated_as_a_whole():
    assert lazy_statements("[]", "y = sum(exp(t[i, j]) * t[i, j], i, j)", [0]) == []


@pytest.mark.parametrize(("shape", "statement"), [("[M, N]", "y[i, j] = 2 * t[i, j]"), ("[M]", "y[i] = t[i, 0]")])
def test_of_one_that_is_read_at_few_points_these_are_evaluated(shape, statement):
    assert lazy_statements(shape, statement, [3, 7]) == [0, 1]


ATTENTION = """
cugen: 1
kernel: f
params: {T: 50, D: 8}
arrays:
  q: {shape: [T, D], dtype: float32}
  k: {shape: [T, D], dtype: float32}
  o: {shape: [T, D], dtype: float32}
compute: |
  s[i, j] = sum(q[i, d] * k[j, d], d)
  w[i, j] = softmax(s[i, j], j)
  o[i, e] = sum(w[i, j] * k[j, e], j)
"""


def test_points_lead_to_whole_rows_of_what_is_summed():
    (spec,) = load_text(ATTENTION)
    s, w, o = requested_indices(spec, {"o": 3}, {"T": 50, "D": 8})
    assert s["j"] == w["j"] == 50
    assert w["i"] == 3
    assert s["i"] == 12  # each of the four reads of it in a softmax
    assert o == {"i": 3, "e": 1}


def test_single_elements_beside_whole_rows_are_as_many_points():
    """As in a contrastive loss, whose own element is left out of the sum over its row."""
    text = TEXT % ("[M]", "y[i] = sum(exp(t[i, j]), j) - t[i, 0]")
    (spec,) = load_text(text)
    t, _ = requested_indices(spec, {"y": 3}, {"M": 30, "N": 40})
    assert t == {"i": 3 * 40 + 3, "j": 1}


def test_a_row_that_several_points_read_is_reduced_once():
    (spec,) = load_text(ATTENTION)
    inputs = draw(spec, known_params(spec, {}), 1).arrays
    whole = evaluate(spec, inputs)["o"]
    reduced: list[int] = []
    original = Interpreter._reduced

    def recorded(interpreter, node, scope):
        reduced.append(max(np.size(values) for values in scope.values.values()))
        return original(interpreter, node, scope)

    points = np.arange(16, 40)  # of three rows
    with patch.object(module, "MAX_FULL_OPERATIONS", 0), patch.object(Interpreter, "_reduced", recorded):
        part = evaluate(spec, inputs, points={"o": points})["o"]
    np.testing.assert_allclose(part.value.ravel(), whole.value.ravel()[points], rtol=1e-6)
    assert np.all(part.bound.ravel() >= 0)
    assert 3 in reduced


@pytest.mark.parametrize("kind", ["sum", "max", "argmax"])
def test_what_points_share_equals_what_each_computes(kind):
    text = TEXT % ("[M, N]", f"y[i, j] = cast({kind}(x[i, k], k), float32) + x[i, j]")
    (spec,) = load_text(text.replace("  t[i, j] = log_softmax(x[i, j], j)\n", ""))
    inputs = draw(spec, known_params(spec, {}), 1).arrays
    points = np.arange(100)
    with patch.object(module, "MAX_FULL_OPERATIONS", 0):
        part = evaluate(spec, inputs, points={"y": points})["y"]
    np.testing.assert_array_equal(part.value.ravel(), evaluate(spec, inputs)["y"].value.ravel()[points])


def test_points_of_one_long_row_share_its_scan(monkeypatch):
    (spec,) = load_text("""
cugen: 1
kernel: running
params: {N: 4000}
arrays:
  x: {shape: [N], dtype: float64}
  y: {shape: [N], dtype: float64}
compute: y[i] = cumsum(x[i], i)
""")
    x = np.random.default_rng(1).uniform(-1, 1, 4000)
    points = np.array([3, 17, 3999, 2000])
    few = patch.object(module, "MAX_FULL_OPERATIONS", 0), patch.object(module, "MAX_ARRAY_ELEMENTS", 100)
    with few[0], few[1], patch.object(Interpreter, "evaluate", autospec=True, side_effect=Interpreter.evaluate) as runs:
        result = evaluate(spec, {"x": x}, points={"y": points})["y"]
    scans = [call for call in runs.call_args_list if isinstance(call.args[1], Scan)]
    assert len(scans) == 1
    np.testing.assert_allclose(result.value, np.cumsum(x)[points], rtol=1e-12)
