"""Names of kernels and of what specs declare."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.parse.names import RESERVED, kernel_name_problem, name_problem
from cugen.spec.resolve.calls.functions import FUNCTIONS
from cugen.spec.types import DTYPES


@pytest.mark.parametrize("name", ["matmul", "softmax", "_", "x1", "A_b", "nearby", "grid"])
def test_a_good_kernel_name_has_no_problem_but_a_leading_underscore_has(name: str) -> None:
    assert (kernel_name_problem(name) is None) == (not name.startswith("_"))


@pytest.mark.parametrize(
    "name", ["if", "class", "half", "exp", "printf", "blockIdx", "9a", "a.b", "a__b", "_A", "", "é"]
)
def test_the_suggestion_for_a_bad_kernel_name_is_a_good_one(name: str) -> None:
    problem = kernel_name_problem(name)
    assert problem is not None
    suggested = re.search(r"`(.+)`", problem[1])
    assert suggested is not None
    assert kernel_name_problem(suggested[1]) is None


@given(st.text(max_size=20))
def test_a_suggested_name_can_be_used(name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        suggested = re.search(r"`(.+)`", problem[1])
        assert suggested is not None
        assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", suggested[1])


@pytest.mark.parametrize("name", ["inf", "nan", "pi", "true", "false", "and", "or", "not", "if", "else"])
def test_words_of_the_language_are_reserved(name: str) -> None:
    assert name in RESERVED
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", [*FUNCTIONS, *DTYPES])
def test_functions_and_types_leave_their_names_to_the_user(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["norm", "random", "max", "cudaMalloc", "minimum", "stream", "EOF", "CUGEN_LOAD"])
def test_a_kernel_cannot_have_a_name_that_its_file_or_the_headers_need(name: str) -> None:
    assert kernel_name_problem(name) is not None
