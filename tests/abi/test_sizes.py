"""Sizes and conditions of a manifest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.abi.sizes import evaluate, holds


@given(m=st.integers(0, 10**6), k=st.integers(0, 1000))
def test_text_means_what_python_means(m: int, k: int) -> None:
    params = {"M": m, "K": k}
    assert evaluate("(M + 15) // 16", params) == (m + 15) // 16
    assert evaluate("M * K - -3 % 2", params) == m * k - -3 % 2
    assert evaluate("minimum(M, K) + maximum(M, 2 ** 3)", params) == min(m, k) + max(m, 8)
    assert holds("0 <= K < 1001 and not M < 0", params)
    assert holds("M % 8 == 0 or M % 8 != 0", params)


def test_integers_stand_for_themselves() -> None:
    assert evaluate(17, {}) == 17


def test_division_by_zero_yields_zero_as_in_the_language() -> None:
    assert evaluate("M // K", {"M": 5, "K": 0}) == 0
    assert evaluate("M % K", {"M": 5, "K": 0}) == 0


def test_exact_division_refuses_a_remainder() -> None:
    assert evaluate("M / 4", {"M": 8}) == 2
    with pytest.raises(ValueError, match="remainder"):
        evaluate("M / 4", {"M": 9})


@pytest.mark.parametrize("text", ["__import__('os')", "M.real", "[1][0]", "lambda: 1", "1.5", "M +", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a shape expression|not an expression"):
        evaluate(text, {"M": 1})


def test_a_param_may_have_a_name_that_is_a_keyword_of_python() -> None:
    assert evaluate("lambda + 1", {"lambda": 2}) == 3


def test_powers_are_bounded() -> None:
    with pytest.raises(ValueError, match="exponent of 1000000"):
        evaluate("9 ** M", {"M": 10**6})


def test_a_missing_param_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        evaluate("N + 1", {"M": 1})
