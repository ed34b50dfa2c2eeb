"""Sizes of a manifest, read back by what reads manifests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.abi.sizes import evaluate as read
from cugen.emit.sizes import size
from cugen.plan.symbols import FloorDiv, Maximum, Minimum, Mod, ceil_div, evaluate, integer, symbol

M, N, K = (symbol(name) for name in ("M", "N", "K_"))
NAMES = {"M": "M", "N": "N", "K_": "K"}
OPEN = {M: (0, 10**6), N: (0, 10**6), K: (1, 64)}


def build(operator, a, b):
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "min":
            return Minimum(a, b)
        case "max":
            return Maximum(a, b)
    return {"//": FloorDiv, "%": Mod}[operator](a, Maximum(b, integer(1)))


expressions = st.recursive(
    st.one_of(st.sampled_from((M, N, K)), st.integers(-300, 300).map(integer)),
    lambda inner: st.one_of(
        st.builds(build, st.sampled_from(("+", "-", "*", "//", "%", "min", "max")), inner, inner),
        inner.map(lambda a: a**2),
    ),
    max_leaves=7,
)


@given(expressions, st.integers(0, 999), st.integers(0, 999), st.integers(1, 64))
def test_a_size_reads_back_as_the_expressions_value(expr, m, n, k):
    size_text = size(expr, OPEN, NAMES)
    assert read(size_text, {"M": m, "N": n, "K": k}) == evaluate(expr, {M: m, N: n, K: k})


@given(expressions, st.integers(0, 999), st.integers(0, 999), st.integers(1, 64))
def test_a_size_over_fixed_params_is_a_number(expr, m, n, k):
    values = {M: m, N: n, K: k}
    assert size(expr, {s: (v, v) for s, v in values.items()}, NAMES) == evaluate(expr, values)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (M * N, "M * N"),
        (ceil_div(M, 16), "(M + 15) // 16"),
        (M - 400, "M - 400"),
        (N - M, "N - M"),
        (-M, "-M"),
        (3 - M, "3 - M"),
        (4 * M + 2 * N, "M * 4 + N * 2"),
        ((M + 1) * (N - 1), "(M + 1) * (N - 1)"),
        (M - 2 * N, "M - N * 2"),
        (M**2, "M * M"),
        (Mod(M, integer(8)) * K, "K * (M % 8)"),
        (Minimum(M, N - 1), "minimum(M, N - 1)"),
        (Minimum(integer(3), M - M), 0),
    ],
    ids=str,
)
def test_sizes_read_as_people_write_them(expr, text):
    assert size(expr, OPEN, NAMES) == text


def test_what_has_one_value_is_a_number():
    assert size(FloorDiv(K, integer(100)), OPEN, NAMES) == 0
    assert size(N * 2, {N: (8, 8)}, NAMES) == 16
    assert size(M + N, {M: (0, 9), N: (8, 8)}, NAMES) == "M + 8"


def test_what_is_no_size_is_refused():
    with pytest.raises(TypeError):
        size(M ** symbol("N"), OPEN, NAMES)
