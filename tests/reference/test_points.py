"""Elements that are requested at points: a statement is evaluated in full where that takes fewer operations."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from cugen.reference import evaluate as module
from cugen.reference.evaluate import evaluate
from cugen.runtime.inputs import draw, known_params
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
