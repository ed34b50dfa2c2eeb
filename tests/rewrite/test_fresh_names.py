from __future__ import annotations

from cugen.kernel import generate
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.spec.expressions import Const, Index
from cugen.spec.load import load_text
from cugen.spec.types import INT64

SPEC = """
cugen: 1
kernel: k
params: {M: 4}
scalars:
  a: {dtype: float32, value: 2}
arrays:
  x: {shape: [M], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = a * x[i]
"""


def test_a_fresh_name_is_taken() -> None:
    taken = {"t", "t_"}
    assert fresh("t", taken) == "t__"
    assert "t__" in taken


def test_arrays_params_scalars_and_indices_share_one_namespace() -> None:
    (spec,) = load_text(SPEC)
    assert taken_names(spec) == {"x", "y", "M", "a"}
    assert taken_names(spec, [Index("i", Const(4, INT64))]) == {"x", "y", "M", "a", "i"}


def test_a_temporary_is_not_named_like_a_param() -> None:
    (spec,) = load_text(
        """
cugen: 1
kernel: k
params: {y_parts: 16777216}
arrays:
  x: {shape: [y_parts], dtype: float32}
  y: {shape: [], dtype: float32}
compute: y = sum(x[i], i)
"""
    )
    declared = generate(spec, analysis=False).plan.context.spec
    assert [array.name for array in declared.arrays] == ["x", "y", "y_parts_"]
