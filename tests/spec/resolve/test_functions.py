"""Functions that are defined by an expansion have the right values, also where exp overflows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate as evaluate_spec
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    ScalarValue,
    Select,
    walk,
)
from cugen.spec.load import load_text
from cugen.spec.prove.integers import evaluate
from cugen.spec.resolve.calls.functions import FUNCTIONS

Compute = Callable[..., Any]
Data = Mapping[str, Any]
OPS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("exp", "expm1", "log1p", "log", "erf", "tanh", "sqrt")},
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
    "abs": abs,
    "maximum": max,
    "minimum": min,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "ne": lambda a, b: a != b,
    "eq": lambda a, b: a == b,
}
REDUCE: dict[str, Callable[..., Any]] = {"sum": math.fsum, "max": max, "min": min, "prod": math.prod}


def run(expr: Expr, data: Data) -> Any:
    """Evaluates a small tree in double precision."""
    match expr:
        case Const(value=value):
            return value
        case ScalarValue(name=name) | IndexValue(name=name) | ParamValue(name=name):
            return data[name]
        case Read(array=array, subscripts=subscripts):
            value = data[array]
            for subscript in subscripts:
                value = value[run(subscript, data)]
            return value
        case Cast(arg=arg, to=to):
            return float(run(arg, data)) if to.is_float else int(run(arg, data))
        case Select(condition=condition, then=then, orelse=orelse):
            return run(then if run(condition, data) else orelse, data)
        case Reduce(kind=kind, body=body, indices=(Index(name, extent),), where=where):
            points = [{**data, name: k} for k in range(evaluate(extent, {}))]
            return REDUCE[kind]([run(body, p) for p in points if where is None or run(where, p)])
        case Op(name=name, args=args):
            return OPS[name](*(run(arg, data) for arg in args))
    raise AssertionError(expr)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ELEMENTWISE: dict[str, Callable[[float], float]] = {
    "relu(x)": lambda x: max(x, 0),
    "leaky_relu(x)": lambda x: x if x > 0 else 0.01 * x,
    "leaky_relu(x, 0.2)": lambda x: x if x > 0 else 0.2 * x,
    "elu(x, a=2)": lambda x: x if x > 0 else 2 * math.expm1(x),
    "selu(x)": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "sigmoid(x)": sigmoid,
    "silu(x)": lambda x: x * sigmoid(x),
    "softplus(x)": lambda x: x if x > 700 else math.log1p(math.exp(x)),
    "gelu(x)": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh(x)": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardtanh(x)": lambda x: min(max(x, -1), 1),
    "softsign(x)": lambda x: x / (1 + abs(x)),
    "clamp(x, -2, 3)": lambda x: min(max(x, -2), 3),
}


@pytest.mark.parametrize("call", ELEMENTWISE)
@pytest.mark.parametrize("x", [-1e6, -800.0, -30.0, -1.5, -1e-3, 0.0, 1e-3, 0.7, 2.0, 30.0, 800.0, 1e6])
def test_an_expansion_has_the_value_that_its_name_promises(compute: Compute, call: str, x: float) -> None:
    value = compute(f"y = {call}", scalars="{x: {dtype: float64}}", y="; float64").value
    assert run(value, {"x": x}) == pytest.approx(ELEMENTWISE[call](x), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "bool"])
@pytest.mark.parametrize("name", ["sigmoid", "silu", "softplus", "softsign", "softmax", "log_softmax"])
def test_expansions_of_integers_are_those_of_the_same_numbers_as_floats(
    compute: Compute, name: str, dtype: str
) -> None:
    row = np.array([-128, 127, 3] if dtype.startswith("int") else [0, 255, 128]).astype(dtype)
    call = f"{name}(x[i]{', i' if 'softmax' in name else ''})"
    of_integers = compute(f"y[i] = {call}", x=f"3; {dtype}", y="3; float64").spec
    of_floats = compute(f"y[i] = {call}", x="3; float64", y="3; float64").spec
    (result,) = evaluate_spec(of_integers, {"x": row}).values()
    (expected,) = evaluate_spec(of_floats, {"x": row.astype(np.float64)}).values()
    np.testing.assert_allclose(result.value, expected.value, rtol=1e-6)


ROW = [1000.0, -3.0, 2.5, 999.0, 0.0]
SHIFTED = [math.exp(x - 1000.0) for x in ROW]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("mean(x[k], k)", sum(ROW) / 5),
        ("mean(x[k], k, where=x[k] > 0)", (1000 + 2.5 + 999) / 3),
        ("var(x[k], k)", sum((x - sum(ROW) / 5) ** 2 for x in ROW) / 5),
        ("var(x[k], k, ddof=1)", sum((x - sum(ROW) / 5) ** 2 for x in ROW) / 4),
        ("var(x[k], k, where=x[k] < 3)", sum((x - (-0.5 / 3)) ** 2 for x in (-3.0, 2.5, 0.0)) / 3),
        ("norm(x[k], k)", math.sqrt(sum(x * x for x in ROW))),
        ("norm(x[k], k, p=1)", sum(map(abs, ROW))),
        ("norm(x[k], k, p=inf)", 1000),
        ("norm(x[k], k, p=-inf)", 0),
        ("norm(x[k], k, p=0)", 4),
        ("norm(x[k], k, p=3)", sum(abs(x) ** 3 for x in ROW) ** (1 / 3)),
    ],
)
def test_a_reduction_that_is_expanded_has_its_usual_value(compute: Compute, call: str, value: float) -> None:
    tree = compute(f"y = {call}", x="5; float64", y="; float64").value
    assert run(tree, {"x": ROW}) == pytest.approx(value)


@pytest.mark.parametrize("condition", ["", ", where=x[k] > 0"])
def test_norms_and_variances_of_too_few_terms_have_the_values_of_the_manual(condition: str) -> None:
    (spec,) = load_text(
        "cugen: 1\nkernel: few\nparams: {N: dynamic}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  greatest: {shape: [], dtype: float32}\n"
        "  one: {shape: [], dtype: float32}\n  two: {shape: [], dtype: float32}\ncompute: |\n"
        f"  greatest = norm(x[k], k, p=inf{condition})\n"
        f"  one = var(x[k], k, ddof=1{condition})\n  two = var(x[k], k, ddof=2{condition})\n"
    )
    for row, greatest, first_variance, second_variance in (
        ([], 0, math.nan, math.nan),
        ([3], 3, math.nan, math.nan),
        ([1, 3], 3, 2, math.inf),
    ):
        results = evaluate_spec(spec, {"x": np.array(row, np.float32)}, params={"N": len(row)})
        values = [result.value.item() for result in results.values()]
        np.testing.assert_equal(values, [greatest, first_variance, second_variance])


@pytest.mark.parametrize("position", range(5))
def test_softmax_subtracts_the_maximum(compute: Compute, position: int) -> None:
    softmax = compute("y[j] = softmax(x[j], j)", x="5; float64", y="5; float64").value
    assert run(softmax, {"x": ROW, "j": position}) == pytest.approx(SHIFTED[position] / sum(SHIFTED))
    logarithm = compute("y[j] = log_softmax(x[j], j)", x="5; float64", y="5; float64").value
    assert run(logarithm, {"x": ROW, "j": position}) == pytest.approx(ROW[position] - 1000 - math.log(sum(SHIFTED)))


def test_softmax_works_along_an_index_that_a_sum_binds(compute: Compute) -> None:
    text = "o[q, d] = sum(softmax(s[q, k], k) * v[k, d], k)"
    assert compute(text, s="4, 8", v="8, 5", o="4, 5").codes == []


def test_expansions_share_equal_subtrees(compute: Compute) -> None:
    value = compute("y[i, j] = softmax(x[i, j], j)", x="4, 5", y="4, 5").value
    maxima = [part for part in walk(value) if isinstance(part, Reduce) and part.kind == "max"]
    assert len(maxima) == 2
    assert maxima[0] == maxima[1]


def test_an_argument_is_read_once_however_often_it_occurs_in_the_expansion(compute: Compute) -> None:
    nested = "gelu(" * 12 + "x[i]" + ")" * 12
    assert "CG1106" in compute(f"y[i] = {nested}", x="8", y="8").codes
    assert compute("y[i] = gelu(gelu(gelu(x[i])))", x="8", y="8").codes == []


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.expansion])
def test_every_expansion_in_the_table_can_be_used(name: str, compute: Compute) -> None:
    function = FUNCTIONS[name]
    arguments = ", ".join(default or "x" for _, default in function.arguments)
    assert compute(f"y = {name}({arguments})", scalars="{x: {dtype: float32}}", y="; float32").codes == []


@pytest.mark.parametrize(
    "call",
    [
        *("exp()", "exp(1, 2)", "clamp(1, 2)", "relu(1, a=2)", "leaky_relu(1, 2, a=3)", "sum(x[k])", "fma(1, 2)"),
        *("sum()", "cast(1, float)", "cast(1, 2)", "inside(1)", "cumsum(x[k], k, exclusive=1)", "argmax(x[k], k, j)"),
    ],
)
def test_wrong_arguments_are_rejected_with_the_usage(compute: Compute, call: str) -> None:
    result = compute(f"y[k] = {call}" if "cum" in call else f"y[i] = {call}", x="8", y="8")
    assert "CG1203" in result.codes
    assert all(diagnostic.help for diagnostic in result.diagnostics)
