"""Trees are rebuilt from changed children, and nodes replaced from the root down."""

from __future__ import annotations

from cugen.spec.expressions import Cast, Const, Index, IndexValue, Op, Read, Reduce, Scan
from cugen.spec.rewriting import converted, replaced
from cugen.spec.types import FLOAT32, INT64

ROW, COLUMN = IndexValue("i"), IndexValue("j")
ZERO = Const(0, INT64)
X = Read("x", (ROW, Op("add", (ROW, COLUMN), INT64)), FLOAT32, exact=((ROW, 2),))


def test_nodes_are_replaced_in_subscripts_and_exact_divisions_too():
    at_zero = Read("x", (ZERO, Op("add", (ZERO, COLUMN), INT64)), FLOAT32, exact=((ZERO, 2),))
    assert replaced(X, {ROW: ZERO}.get) == at_zero


def test_loops_are_entered():
    total = Reduce("sum", X, (Index("j", Const(4, INT64)),), FLOAT32)
    scan = Scan("sum", X, Index("j", Const(4, INT64)), "i", FLOAT32)
    y = Read("y", (), FLOAT32)
    assert replaced(total, {X: y}.get).body == y
    assert replaced(scan, {X: y}.get).body == y


def test_what_replaces_a_node_is_not_rewritten_again():
    assert replaced(ROW, {ROW: Op("add", (ROW, COLUMN), INT64), COLUMN: ZERO}.get) == Op("add", (ROW, COLUMN), INT64)


def test_an_expression_is_cast_only_to_a_type_that_it_does_not_have():
    assert converted(X, INT64) == Cast(X, INT64)
    assert converted(X, FLOAT32) is X
