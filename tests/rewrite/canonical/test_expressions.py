"""Statements that mean the same have one canonical form, and it keeps their results."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.spec.expressions import IndexValue
from cugen.spec.load import load_text

SHAPES = {"x": "[M, N], dtype: float32", "k": "[M, N], dtype: int32", "y": "[M], dtype: float32"}


def spec_of(compute: str):
    """The spec of a statement over `x` (or the integers `k`) into `y`, or into all of `x`."""
    arrays = [f"  {name}: {{shape: {shape}}}" for name, shape in SHAPES.items() if f"{name}[" in compute]
    indices = ["indices: {j: N}"] if "j // S" in compute or "j + i" in compute else []
    lines = ["cugen: 1", "kernel: f", "params: {M: 6, N: 8, S: 4, G: 1}", "arrays:", *arrays, *indices]
    (spec,) = load_text("\n".join([*lines, f"compute: {compute}"]))
    return spec


def value_of(spec):
    return with_canonical_expressions(spec).statements[0].value


@pytest.mark.parametrize(
    ("spelt", "plain"),
    [
        ("sum(x[0 + i, j] * 1 + 0, j)", "sum(x[i, j], j)"),
        ("1 * sum(0 + (x[i, j] * x[i, j]) / 1, j)", "sum(x[i, j] * x[i, j], j)"),
        ("sum(x[i * 1 + 1 - 1, j], j) - 0", "sum(x[i, j], j)"),
        ("sum(- -x[i, j], j) ** 1", "sum(x[i, j], j)"),
        ("sum(x[i, j // S * S + j % S], j)", "sum(x[i, j], j)"),
        ("sum(x[i // (M // G) * (N // G) + i, j], j)", "sum(x[i, j], j)"),
        ("sum(x[i % M, (j + i // (2 * M)) % (N + G)], j)", "sum(x[i, j], j)"),
        ("max(max(x[p, j], j), p) + x[i, 0]", "max(x[p, j], p, j) + x[i, 0]"),
        ("sum(sum(x[p, j], j, where=j > p), p) * x[i, 0]", "sum(x[p, j], p, j, where=j > p) * x[i, 0]"),
        ("max(x[i, j] if inside(x[i, j]) else 3, j)", "max(x[i, j], j)"),
        ("max(x[i, j] if inside(x[i, j]) and j > i else 3, j)", "max(x[i, j] if j > i else 3, j)"),
        ("sum(x[i, j] if j <= i else 0.0, j)", "sum(x[i, j], j, where=j <= i)"),
        ("sum(0 if j > i else x[i, j], j)", "sum(x[i, j], j, where=j <= i)"),
        ("sum(0 if not j <= i else x[i, j], j)", "sum(x[i, j], j, where=j <= i)"),
        ("sum(0 if j > i or j == 2 else x[i, j], j)", "sum(x[i, j], j, where=j <= i and j != 2)"),
        ("sum((x[i, j] if j <= i else 0) if j > 1 else 0, j)", "sum(x[i, j], j, where=j > 1 and j <= i)"),
        ("sum(x[i, j] if j <= i else 0, j, where=j > 1)", "sum(x[i, j], j, where=j > 1 and j <= i)"),
        ("sum(x[i, j] if x[i, j] > 0 else 0, j, where=j > i)", "sum(x[i, j], j, where=j > i and x[i, j] > 0)"),
        ("sum(0 if x[i, j] > 0 else x[i, j], j)", "sum(x[i, j], j, where=not x[i, j] > 0)"),
        ("sum(x[i, j] if j <= minimum(i, 3) else 0, j)", "sum(x[i, j], j, where=j <= i and j <= 3)"),
        ("sum(x[i, j], j, where=minimum(i, 5) > j)", "sum(x[i, j], j, where=j < i and j < 5)"),
        ("max(x[i, j], j, where=j > 0 and j >= maximum(i, 1))", "max(x[i, j], j, where=j > 0 and (i <= j and 1 <= j))"),
        ("sum(0 if abs(i - j) > 2 else x[i, j], j)", "sum(x[i, j], j, where=i - j <= 2 and -(i - j) <= 2)"),
        (
            "sum(x[i, j], j, where=maximum(abs(i - j), j) < 4)",
            "sum(x[i, j], j, where=i - j < 4 and -(i - j) < 4 and j < 4)",
        ),
        ("sum(x[i, j], j, where=2 * j < 2 * N)", "sum(x[i, j], j)"),
        ("sum(x[i, j], j, where=3 * i < S)", "sum(x[i, j], j) if 3 * i < S else 0"),
        ("sum(x[i, j], j, where=i < 2 and j > i)", "sum(x[i, j], j, where=j > i) if i < 2 else 0"),
        ("sum(sum(x[p, j], j, where=p < 3), p) + x[i, 0]", "sum(x[p, j], p, j, where=p < 3) + x[i, 0]"),
        ("sum(x[i, j] if i + j < M + N and j > i else 0, j)", "sum(x[i, j], j, where=j > i)"),
        (
            "sum(x[i, j], j, where=j >= 0 and j > i and x[i, j] > 0)",
            "sum(x[i, j] if x[i, j] > 0 else 0, j, where=j > i)",
        ),
        ("sum(sum(x[p, j], j, where=j > p), p, where=p < i)", "sum(x[p, j], p, j, where=p < i and j > p)"),
    ],
)
def test_a_spelling_has_the_form_of_the_plain_one_and_its_results(spelt, plain):
    spec, expected = spec_of(f"y[i] = {spelt}"), spec_of(f"y[i] = {plain}")
    assert value_of(spec) == value_of(expected)
    inputs = {"x": np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)}
    result = evaluate(spec, inputs)["y"]
    assert result.accepts(evaluate(with_canonical_expressions(spec), inputs)["y"].value).all()


@pytest.mark.parametrize(
    "value",
    [
        "x[i, 0] + 0",
        "0 - x[i, 0]",
        "max(x[i, j] if j > i else 0, j)",
        "sum(x[i, j] if j > i else 1, j)",
        "sum(x[i, j] + 1, j)",
        "sum(max(x[p, j], j), p) + x[i, 0]",
        "sum(x[i, j], j, where=minimum(i, 3) < j)",
        "sum(x[i, j], j, where=abs(i - j) >= 2)",
        "sum(x[i, j], j, where=2 * j < 2 * N - 2)",
        "max(x[i, j], j, where=3 * i < S)",
        "sum(x[i, j], j, where=k[i, 0] > 0)",
        "sum(x[i, j], j, where=j < minimum(k[i, 0], 3))",
    ],
)
def test_what_changes_a_bit_or_a_meaning_stays(value):
    spec = spec_of(f"y[i] = {value}")
    assert with_canonical_expressions(spec) is spec


def test_integers_lose_any_zero():
    assert value_of(spec_of("y[i] = k[i, 0] + 0")) == value_of(spec_of("y[i] = k[i, 0]"))


def test_subscripts_on_the_left_are_indices_too():
    (statement,) = with_canonical_expressions(spec_of("x[0 + i, 1 * j] = 2.0 * k[i, j]")).statements
    assert statement.subscripts == (IndexValue("i"), IndexValue("j"))
