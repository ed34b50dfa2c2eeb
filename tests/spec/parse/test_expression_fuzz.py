"""Any text in `compute` gives a typed tree with its invariants, or diagnostics, never a crash."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import OPERATORS, Cast, Op, Read, Reduce, Scan, Select, free_indices, walk
from cugen.spec.parse import grammar
from cugen.spec.parse.syntax import Text
from cugen.spec.types import BOOL

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
ARRAYS = {
    "x": "N, 4",
    "h": "N, 4; float16; boundary: zero",
    "b": "N; int8",
    "u": "N; uint32",
    "m": "N; bool",
    "c": ";  int32",
    "y": "N, 4",
}

LEAVES = (
    *("x[i, j]", "h[i, j + 1]", "b[i]", "u[i]", "m[i]", "c", "i", "j", "N", "2", "0.5", "300", "pi", "inf", "true"),
    *("alpha", "x[i, k]", "x[b[i], j]", "x[i - 1, j]", "zz", "x", "x[i]", "-1", "h[2 * i, j / 2]"),
)
OPERATORS_WRITTEN = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", "==", "!=", "and", "or")


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(OPERATORS_WRITTEN)
    unary = st.sampled_from(["-", "~", "not ", "+"])
    names = ["exp", "relu", "gelu", "softplus", "abs", "round", "sqrt", "sign", "silu", "inside", "foo"]
    reductions = ["sum", "max", "mean", "var", "norm", "argmax", "any", "prod", "cumsum", "softmax", "cummax"]
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("{}{}".format, unary, inner),
        st.builds("{}({})".format, st.sampled_from(names), inner),
        st.builds("{}({}, {})".format, st.sampled_from(reductions), inner, st.sampled_from(["k", "k", "k", "j", "N"])),
        st.builds("sum({}, k, where={})".format, inner, inner),
        st.builds("where({}, {}, {})".format, inner, inner, inner),
        st.builds("cast({}, {})".format, inner, st.sampled_from(["int8", "float16", "bool", "float64", "uint8"])),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("x[{}, j]".format, inner),
        st.builds("var({}, k, ddof={})".format, inner, inner),
    )


@RELAXED
@given(
    st.recursive(st.sampled_from(LEAVES), grow, max_leaves=8),
    st.sampled_from(["4", "dynamic"]),
    st.sampled_from(["", "float64"]),
)
def test_every_expression_is_resolved_or_rejected_with_a_span_and_help(
    compute: Callable[..., Any], text: str, size: str, accumulate: str
) -> None:
    more = {"accumulate": accumulate} if accumulate else {}
    if re.search(r"\bk\b", text):
        more["indices"] = "{k: 4}"
    result = compute(
        f"y[i, j] = {text}",
        params=f"{{N: {size}}}",
        scalars="{alpha: {dtype: float16}}",
        **more,
        **{name: shape for name, shape in ARRAYS.items() if name == "y" or re.search(rf"\b{name}\b", text)},
    )
    for diagnostic in result.diagnostics:
        assert diagnostic.span.line
        assert diagnostic.help
        assert diagnostic.code in diagnostic.render()
    if result.spec is not None:
        check_invariants(result)


def check_invariants(result: Any) -> None:
    statement = result.spec.statements[-1]
    assert free_indices(statement.value) <= {index.name for index in statement.indices}
    assert statement.value.dtype == result.spec.array(statement.target).dtype.compute
    for part in walk(statement.value):
        assert part.dtype.compute == part.dtype
        match part:
            case Op(name=name, args=args):
                assert len(args) == OPERATORS[name]
                assert len({arg.dtype for arg in args} - {BOOL}) <= 1 or all(arg.dtype.is_integer for arg in args)
                assert name not in ("and", "or", "not") or all(arg.dtype == BOOL for arg in args)
            case Select(condition=condition, then=then, orelse=orelse):
                assert condition.dtype == BOOL
                assert then.dtype == orelse.dtype == part.dtype
            case Reduce(kind=kind, body=body, where=where):
                assert kind.startswith("arg") or body.dtype == part.dtype
                assert where is None or where.dtype == BOOL
                inner = {i.name for p in walk(body) if isinstance(p, Reduce) for i in p.indices}
                assert not inner & {index.name for index in part.indices}
            case Scan(body=body):
                assert body.dtype == part.dtype
            case Read(subscripts=subscripts):
                assert all(subscript.dtype.is_integer for subscript in subscripts)
            case Cast(arg=arg, to=to):
                assert arg.dtype != to


@RELAXED
@given(st.text(alphabet="xyijk0159.e[](),+-*/%<>=!&|^~ \n#_NifelsandorwhQ@\"'é", max_size=60))
def test_no_text_crashes_the_parser(text: str) -> None:
    positions = tuple((1, column) for column in range(1, len(text) + 2))
    for parse in (grammar.parse_expression, grammar.parse_statements):
        report = Reporter("fuzz", text)
        assert parse(Text(text, positions), report) or report.failed


@RELAXED
@given(st.text(alphabet="y[i]=x+*(sum,k) 12\n", max_size=60))
def test_no_block_crashes_the_resolver(compute: Callable[..., Any], text: str) -> None:
    result = compute(text, x="4", y="4")
    assert result.diagnostics or result.spec is not None
