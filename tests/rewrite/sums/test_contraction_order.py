"""Sums of products of several arrays take the order with the fewest multiply-adds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.plan.context import make_context
from cugen.reference.evaluate import evaluate
from cugen.rewrite.sums.contraction_order import with_contraction_order
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.drawn import examples

CHAIN = "y[m, n] = sum(a[m, k] * b[k, l] * c[l, n], k, l)"
CHAIN_ARRAYS = "a [M, K]; b [K, L]; c [L, N]; y [M, N]"
SIZES = "M: 129, N: 65, K: 131, L: 67"


def spec_of(compute: str, arrays: str, params: str = SIZES, more: str = "", dtype: str = "float32"):
    lines = ["cugen: 1", "kernel: f", f"params: {{{params}}}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        lines.append(f"  {name}: {{shape: {shape}, dtype: {dtype}}}")
    (spec,) = load_text("\n".join([*lines, f"compute: {compute}", more]))
    return spec


def ordered(spec):
    return with_contraction_order(spec.statements[0], make_context(spec))


def families_of(spec) -> list[str]:
    return [launch.family for launch in generate(spec, analysis=False).plan.kernels]


@pytest.mark.parametrize(
    ("value", "nested", "multiply_adds"),
    [
        ("sum(a[m, k] * b[k, l] * c[l, n], k, l)", "sum(sum(b[k, l] * c[l, n], l) * a[m, k], k)", 2 * 7 * 3 * 5),
        ("sum(c[l, n] / b[k, l] * a[m, k], l, k)", "sum(sum(c[l, n] / b[k, l], l) * a[m, k], k)", 2 * 7 * 3 * 5),
        ("sum(a[m, k] * b[k, l], k, l)", "sum(sum(b[k, l], l) * a[m, k], k)", 5 * 7 + 2 * 5),
        ("sum(a[m, k] * d[l] * c[l, n] * e[k], k, l)", "sum(sum(d[l] * c[l, n], l) * a[m, k] * e[k], k)", 3 * 5 + 105),
    ],
)
def test_the_order_with_the_fewest_multiply_adds_is_taken(value, nested, multiply_adds):
    arrays = {"a": "[M, K]", "b": "[K, L]", "c": "[L, N]", "d": "[L]", "e": "[K]"}
    declared = "; ".join(f"{name} {shape}" for name, shape in arrays.items() if f"{name}[" in value) + "; y [M, N]"
    params = "M: 7, N: 3, K: 5, L: 7" if "d[" not in value else "M: 7, N: 3, K: 5, L: 5"
    spec, expected = (spec_of(f"y[m, n] = {v}", declared, params) for v in (value, nested))
    made = ordered(spec)
    assert made is not None
    assert made.multiply_adds < made.original_multiply_adds
    assert made.statement.value == expected.statements[0].value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("sum(a[m, k] * b[k, n], k)", id="a GEMM"),
        pytest.param("sum(a[m, k] * b[k, l] * c[l, n], k, l, where=k < l)", id="a condition"),
        pytest.param("max(a[m, k] * b[k, l] * c[l, n], k, l)", id="a maximum"),
        pytest.param("sum(a[m, k] * max(b[k, l], l) * c[k, n], k)", id="a nested reduction"),
        pytest.param("sum(a[m, k] * b[k, n] * c[k, n], k)", id="one index"),
    ],
)
def test_other_sums_stay_as_they_are(value):
    arrays = {"a": "[M, K]", "b": "[K, L]", "c": "[L, N]"}
    if "b[k, n]" in value:
        arrays |= {"b": "[K, N]"}
    if "c[k, n]" in value:
        arrays |= {"c": "[K, N]"}
    declared = "; ".join(f"{name} {shape}" for name, shape in arrays.items() if f"{name}[" in value) + "; y [M, N]"
    assert ordered(spec_of(f"y[m, n] = {value}", declared, "M: 7, N: 3, K: 5, L: 7")) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("compute", "arrays", "families"),
    [
        (CHAIN, CHAIN_ARRAYS, ["gemm", "gemm"]),
        (
            "y[m] = sum(a[m, k] * b[k, l] * a[m, l], k, l)",
            "a [M, K]; b [K, K]; y [M]",
            ["gemm", "reduce"],
        ),
    ],
    ids=["a chain", "a quadratic form"],
)
def test_products_of_three_arrays_are_gemms_and_right(compute, arrays, families):
    spec = spec_of(compute, arrays)
    kernel = generate(spec, analysis=False)
    assert families_of(spec) == families
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("compute", "arrays"),
    [
        ("y[m] = sum(a[m, k] * b[l, k], k, l)", "a [M, K]; b [L, K]; y [M]"),
        ("y = sum(a[m, k] * b[k, l], k, l, m)", "a [M, K]; b [K, L]; y []"),
    ],
    ids=["a matrix that is summed", "all of a product"],
)
def test_an_index_of_one_matrix_alone_is_summed_first(compute, arrays):
    spec = spec_of(compute, arrays, "M: 300, K: 301, L: 302")
    kernel = generate(spec, analysis=False)
    assert set(families_of(spec)) == {"reduce"}
    assert len(families_of(spec)) > 1
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_short_sums_and_those_with_a_schedule_are_one_launch():
    assert families_of(spec_of(CHAIN, CHAIN_ARRAYS, "M: 9, N: 8, K: 7, L: 5")) == ["direct"]
    assert families_of(spec_of(CHAIN, CHAIN_ARRAYS, more="schedule: {family: direct}")) == ["direct"]


@pytest.mark.slow
def test_accesses_of_a_chain_are_as_predicted():
    kernel = generate(spec_of(CHAIN, CHAIN_ARRAYS))
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_drawn_products_have_the_results_of_one_sum(data):
    sizes = {name: data.draw(st.integers(1, 5), name) for name in "mnkl"}
    subscripts = data.draw(st.lists(st.sampled_from(["mk", "kl", "ln", "k", "l", "ml", "nk"]), min_size=2, max_size=5))
    names = dict.fromkeys("".join(subscripts))
    summed = [name for name in "kl" if name in names]
    reads = [f"x{number}[{', '.join(indices)}]" for number, indices in enumerate(subscripts)]
    arrays = [f"x{number} [{', '.join(str(sizes[i]) for i in indices)}]" for number, indices in enumerate(subscripts)]
    outputs = [name for name in "mn" if name in names]
    y = f"y [{', '.join(str(sizes[name]) for name in outputs)}]"
    operator = data.draw(st.sampled_from([" * ", " / "]))
    value = f"sum({reads[0]} * {operator.join(reads[1:])}, {', '.join(summed)})"
    target = f"y[{', '.join(outputs)}]" if outputs else "y"
    spec = spec_of(f"{target} = {value}", "; ".join([*arrays, y]), "")
    made = ordered(spec)
    if made is None:
        return
    rng = np.random.default_rng(len(subscripts))
    shapes = {f"x{number}": [sizes[i] for i in indices] for number, indices in enumerate(subscripts)}
    inputs = {name: rng.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items()}
    nested = replace(spec, statements=(made.statement,))
    assert evaluate(spec, inputs)["y"].accepts(evaluate(nested, inputs)["y"].value).all()
