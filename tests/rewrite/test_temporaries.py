"""Parts of statements that are stored in temporaries of their own."""

from __future__ import annotations

from cugen.plan.context import make_context
from cugen.rewrite.align_reductions import with_common_indices
from cugen.rewrite.fuse_dimensions import joined_name, with_fused_dimensions
from cugen.rewrite.temporaries import steps_of, temporary
from cugen.spec.expressions import Const, Index, IndexValue
from cugen.spec.load import load_text
from cugen.spec.types import INT64

SPEC = """
cugen: 1
kernel: k
params: {M: 4, N: 8}
arrays:
  x: {shape: [M, N, N], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = 2 * sum(x[i, j, k], j, k)
"""


def spec():
    (loaded,) = load_text(SPEC)
    return loaded


def test_a_temporary_is_dense_and_says_what_it_is():
    (statement,) = spec().statements
    stored = temporary("t", statement.indices, statement.value.args[1], "half of y", statement)
    assert stored.statement.text == "t[i] = half of y"
    assert stored.statement.span == statement.span
    assert stored.read.subscripts == (IndexValue("i"),)
    assert stored.array.is_temporary


def test_the_steps_of_temporaries_are_open_unless_they_are_tuned():
    (statement,) = spec().statements
    names = ("t", "u")
    temporaries = [temporary(name, statement.indices, statement.value, "y", statement) for name in names]
    steps = steps_of(temporaries, statement, tuned=("t",))
    assert [s.target for s in steps.statements] == ["t", "u", "y"]
    assert (steps.open, steps.tuned, steps.again) == (("u",), ("t",), ())


def test_the_same_statements_are_fused_once():
    context = make_context(spec())
    fused, again = (
        with_fused_dimensions(with_common_indices(context.spec.statements, context), context) for _ in range(2)
    )
    assert fused is again
    assert [index.name for index in fused.statements[0].value.args[1].indices] == ["jk"]


def test_the_parts_of_an_index_have_its_name_where_they_are_fused_again():
    slow, fast, column = (Index(name, Const(8, INT64)) for name in ("k_outer", "k_inner", "n_inner"))
    assert joined_name(slow, fast, (slow, fast), set()) == "k"
    assert joined_name(slow, column, (slow, column), set()) == "k_outer_n_inner"
