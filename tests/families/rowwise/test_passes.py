"""Which values a pass over a row computes once, as a named local."""

from __future__ import annotations

from cugen.families.rowwise.passes.schedule import RowPass, use_counts
from cugen.spec.expressions import Cast, Const, Index, IndexValue, Op, Read, Reduce, Select
from cugen.spec.types import BFLOAT16, BOOL, FLOAT32, INT64

COLUMN = IndexValue("j")
SCORE = Read("s", (COLUMN,), FLOAT32)
ROUNDED = Cast(Op("exp", (SCORE,), FLOAT32), BFLOAT16)
WEIGHT = Select(Op("le", (COLUMN, Const(3, INT64)), BOOL), ROUNDED, Const(0.0, FLOAT32), FLOAT32)


def test_a_value_that_a_pass_stores_is_used_where_a_reduction_adds_up_the_very_value():
    total = Reduce("sum", WEIGHT, (Index("j", Const(8, INT64)),), FLOAT32)
    counts = use_counts(RowPass((total,), (), cached=(WEIGHT,), reused=(SCORE,)))
    assert (counts[WEIGHT], counts[SCORE]) == (1, 1)
