"""Substitution in expression trees preserves meaning and avoids capture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.traversal.substitution import as_reduction, substitute
from cugen.spec.expressions import (
    Boundary,
    Cast,
    Const,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Scan,
    Select,
    free_indices,
    walk,
)
from cugen.spec.types import BOOL, FLOAT32, INT64

NAMES = ("i", "j", "k")
ROW, COLUMN, K = map(IndexValue, NAMES)


def meaning(expr, env):
    """An interpreter for int64 trees; an element of A is a number that all its subscripts decide."""
    match expr:
        case Const(value=value):
            return value
        case IndexValue(name=name):
            return env[name]
        case Read():
            return sum((n + 3) * meaning(sub, env) for n, sub in enumerate(expr.subscripts))
        case Cast(arg=arg):
            return meaning(arg, env)
        case Select():
            return meaning(expr.then if meaning(expr.condition, env) else expr.orelse, env)
        case Op(name=name, args=args):
            a, b = (meaning(arg, env) for arg in args)
            return {"add": a + b, "mul": a * b, "lt": a < b, "le": a <= b, "ge": a >= b, "gt": a > b, "and": a and b}[
                name
            ]
        case Reduce(kind="sum"):
            return sum(meaning(expr.body, inner) for inner in _points(expr.indices, env) if _holds(expr.where, inner))
        case Scan(kind="sum"):
            here, count = env[expr.outer], expr.inner.extent.value
            steps = range(here + (1 if expr.exclusive else 0), count) if expr.reverse else range(here + 1)
            if expr.exclusive and not expr.reverse:
                steps = range(here)
            inner = [{**env, expr.inner.name: step} for step in steps if step < count]
            return sum(meaning(expr.body, point) for point in inner if _holds(expr.where, point))
    raise TypeError(expr)


def _points(indices, env):
    points = [env]
    for index in indices:
        points = [{**point, index.name: n} for point in points for n in range(index.extent.value)]
    return points


def _holds(where, env):
    return where is None or meaning(where, env)


def comparison(left, right):
    return Op("lt", (left, right), BOOL)


def summed(body, names, where):
    chosen = tuple(Index(name, Const(2, INT64)) for name in names)
    return Reduce("sum", body, chosen, INT64, None if where is None else comparison(*where))


expressions = st.recursive(
    st.one_of(st.integers(-3, 3).map(lambda v: Const(v, INT64)), st.sampled_from((ROW, COLUMN, K))),
    lambda inner: st.one_of(
        st.builds(lambda name, a, b: Op(name, (a, b), INT64), st.sampled_from(("add", "mul")), inner, inner),
        st.builds(lambda a, b: Read("A", (a, b), INT64), inner, inner),
        st.builds(lambda a, b, c: Select(comparison(a, b), b, c, INT64), inner, inner, inner),
        st.builds(
            summed,
            inner,
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
            st.none() | st.tuples(inner, inner),
        ),
    ),
    max_leaves=6,
)
index_values = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-4, 4)))


@given(expressions, st.dictionaries(st.sampled_from(NAMES), expressions), index_values)
def test_substitution_commutes_with_evaluation(expr, replacements, env):
    inner = env | {name: meaning(value, env) for name, value in replacements.items()}
    assert meaning(substitute(expr, replacements), env) == meaning(expr, inner)


@given(expressions)
def test_nothing_to_replace_changes_nothing(expr):
    assert substitute(expr, {}) == expr


@given(expressions, expressions)
def test_a_replaced_index_is_gone_unless_its_replacement_has_it(expr, value):
    result = free_indices(substitute(expr, {"i": value}))
    expected = free_indices(expr) - {"i"} | (free_indices(value) if "i" in free_indices(expr) else frozenset())
    assert result == expected


def test_a_bound_index_is_renamed_to_avoid_capture():
    reduction = Reduce("sum", Read("A", (ROW, K), INT64), (Index("k", Const(2, INT64)),), INT64)
    result = substitute(reduction, {"i": K})
    assert result.indices == (Index("k_", Const(2, INT64)),)
    assert result.body == Read("A", (K, IndexValue("k_")), INT64)


def test_a_bound_index_is_not_replaced():
    reduction = Reduce("sum", Read("A", (ROW, K), INT64), (Index("k", Const(2, INT64)),), INT64)
    assert substitute(reduction, {"k": COLUMN}) == reduction


def test_a_new_name_avoids_the_other_bound_names():
    pair = (Index("k", Const(2, INT64)), Index("k_", Const(2, INT64)))
    reduction = Reduce("sum", Read("A", (ROW, K, IndexValue("k_")), INT64), pair, INT64)
    result = substitute(reduction, {"i": K})
    assert [index.name for index in result.indices] == ["k__", "k_"]
    assert result.body.subscripts == (K, IndexValue("k__"), IndexValue("k_"))


def test_reads_are_offered_with_their_new_subscripts_innermost_first():
    offered = []

    def rule(read):
        offered.append(read)
        return Const(7, INT64) if read.array == "ids" else None

    expr = Read("A", (Read("ids", (ROW,), INT64),), INT64)
    assert substitute(expr, {"i": COLUMN}, rule) == Read("A", (Const(7, INT64),), INT64)
    assert offered == [Read("ids", (COLUMN,), INT64), Read("A", (Const(7, INT64),), INT64)]


def test_an_exact_division_takes_its_dividend_along():
    read = Read("A", (ROW,), FLOAT32, Boundary("zero"), exact=((ROW, 2),))
    assert substitute(read, {"i": COLUMN}) == Read("A", (COLUMN,), FLOAT32, Boundary("zero"), exact=((COLUMN, 2),))


def scan(reverse=False, exclusive=False, where=None):
    inner = Index("t", Const(4, INT64))
    return Scan("sum", Read("A", (IndexValue("t"), COLUMN), INT64), inner, "i", INT64, exclusive, reverse, where)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("where", [None, comparison(IndexValue("t"), COLUMN)], ids=["all", "where"])
@pytest.mark.parametrize("outer_index", range(4))
def test_a_value_of_a_scan_is_a_reduction(reverse, exclusive, where, outer_index):
    env = {"i": outer_index, "j": 2}
    result = scan(reverse, exclusive, where)
    assert meaning(as_reduction(result), env) == meaning(result, env)


def test_a_scan_stays_one_where_its_index_is_only_renamed():
    result = substitute(scan(), {"i": K, "j": ROW})
    assert isinstance(result, Scan)
    assert (result.outer, result.body) == ("k", Read("A", (IndexValue("t"), ROW), INT64))


def test_a_scan_at_an_expression_becomes_a_reduction():
    result = substitute(scan(), {"i": Op("add", (K, Const(1, INT64)), INT64)})
    assert isinstance(result, Reduce)
    assert not any(isinstance(node, Scan) for node in walk(result))
    assert meaning(result, {"k": 1, "j": 2}) == meaning(scan(), {"i": 2, "j": 2})


def test_params_and_constants_stay():
    expr = Op("add", (ParamValue("N"), Const(1, INT64)), INT64)
    assert substitute(expr, {"N": ROW}) == expr
