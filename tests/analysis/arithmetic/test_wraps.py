"""An operation is reported to wrap exactly where some input makes it wrap."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cugen.analysis.arithmetic.wraps import Wrap, wraps
from cugen.spec.load import load_text
from tests.drawn import examples

ARRAYS = {
    "x": "{shape: [N], dtype: TYPE}",
    "y": "{shape: [N], dtype: TYPE}",
    "z": "{shape: [N, K], dtype: TYPE}",
    "wide": "{shape: [N], dtype: int32}",
    "ids": "{shape: [N], dtype: int32}",
    "f": "{shape: [N], dtype: float32}",
    "lut": "{shape: [100], dtype: uint8}",
    "few": "{shape: [4], dtype: uint8, values: [1, 2, 3, 4]}",
}
SCALARS = {"s": "{dtype: uint8}", "seven": "{dtype: uint8, value: 7}"}


def wraps_of(
    *statements: str, dtype: str = "uint8", out: str = "int64", k: int = 4, more: str = ""
) -> tuple[Wrap, ...]:
    """What wraps in a spec with these statements, the last of which writes `out`."""
    names = set(re.findall(r"\w+", " ".join(statements)))
    lines = ["cugen: 1", "kernel: drawn", f"params: {{N: 300, K: {k}}}", more, "arrays:"]
    lines += [f"  {name}: {text.replace('TYPE', dtype)}" for name, text in ARRAYS.items() if name in names]
    lines += [f"  out: {{shape: [N], dtype: {out}}}", "compute:", *(f"  - {statement}" for statement in statements)]
    if scalars := [f"  {name}: {text}" for name, text in SCALARS.items() if name in names]:
        lines += ["scalars:", *scalars]
    (spec,) = load_text("\n".join(lines))
    return wraps(spec)


@dataclass(frozen=True)
class Tree:
    """An expression of x[i] and y[i] with its text; `op` is an operator, or `x`, `y` or a number."""

    op: Any
    parts: tuple[Tree, ...] = ()

    @property
    def text(self) -> str:
        match self.op, self.parts:
            case (int(), _):
                return f"({self.op})" if self.op < 0 else str(self.op)
            case (("x" | "y"), _):
                return f"{self.op}[i]"
            case "where", (a, b, c, d):
                return f"where({a.text} < {b.text}, {c.text}, {d.text})"
            case (("minimum" | "maximum"), (a, b)):
                return f"{self.op}({a.text}, {b.text})"
            case "abs", (a,):
                return f"abs({a.text})"
            case (("-" | "~"), (a,)):
                return f"({self.op}{a.text})"
        a, b = self.parts
        return f"({a.text} {self.op} {b.text})"


def evaluated(tree: Tree, values: dict[str, np.ndarray], runs: np.ndarray, low: int, high: int) -> tuple[Any, bool]:
    """The values in the type, and whether an operation that runs wraps, by NumPy in 64 bits."""
    if isinstance(tree.op, int):
        return np.full(runs.shape, tree.op), False
    if tree.op in ("x", "y"):
        return values[tree.op], False
    if tree.op == "where":
        (a, first), (b, second) = (evaluated(part, values, runs, low, high) for part in tree.parts[:2])
        c, third = evaluated(tree.parts[2], values, runs & (a < b), low, high)
        d, fourth = evaluated(tree.parts[3], values, runs & ~(a < b), low, high)
        return np.where(a < b, c, d), first or second or third or fourth
    parts = [evaluated(part, values, runs, low, high) for part in tree.parts]
    a, b = parts[0][0], parts[-1][0]
    bits = (high - low).bit_length()
    with np.errstate(divide="ignore"):
        result = {
            "+": lambda: a + b,
            "-": lambda: a - b if len(parts) == 2 else -a,
            "*": lambda: a * b,
            "//": lambda: np.where(b == 0, 0, a // np.where(b == 0, 1, b)),
            "%": lambda: np.where(b == 0, 0, a % np.where(b == 0, 1, b)),
            "&": lambda: a & b,
            "|": lambda: a | b,
            "~": lambda: high - a if low == 0 else -1 - a,
            "<<": lambda: np.where((b >= 0) & (b < bits), a << (b % bits), 0),
            ">>": lambda: np.where((b >= 0) & (b < bits), a >> (b % bits), np.where(a < 0, -1, 0)),
            "minimum": lambda: np.minimum(a, b),
            "maximum": lambda: np.maximum(a, b),
            "abs": lambda: np.abs(a),
        }[tree.op]()
    outside = bool(np.any(runs & ((result < low) | (result > high))))
    return (result - low) % (1 << bits) + low, outside or any(wraps for _, wraps in parts)


def trees(low: int, high: int) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(st.sampled_from([Tree("x"), Tree("y")]), st.integers(low, high).map(Tree))
    variables = st.sampled_from([Tree("x"), Tree("y")])

    def grown(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        binary = ("+", "-", "*", "//", "%", "&", "|", "<<", ">>", "minimum", "maximum")
        return st.one_of(
            st.builds(lambda op, a, b: Tree(op, (a, b)), st.sampled_from(binary), variables, inner),
            st.builds(lambda op, a, b: Tree(op, (a, b)), st.sampled_from(binary), inner, variables),
            st.builds(lambda op, a: Tree(op, (a,)), st.sampled_from(("-", "~", "abs")), variables),
            st.builds(lambda a, b, c, d: Tree("where", (a, b, c, d)), variables, inner, inner, variables),
        )

    return st.recursive(leaves, grown, max_leaves=6)


@given(st.sampled_from(["uint8", "int8"]), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_wrap_is_found_exactly_where_some_input_wraps(dtype: str, data: st.DataObject) -> None:
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    tree = data.draw(trees(low, high).filter(lambda tree: "[i]" in tree.text))
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(low, high + 1), np.arange(low, high + 1)))
    _, some_input_wraps = evaluated(tree, {"x": x, "y": y}, np.ones(x.shape, bool), low, high)
    assert bool(wraps_of(f"out[i] = {tree.text}", dtype=dtype)) == some_input_wraps, tree.text


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 8))
@example(77, 150, 8)
@settings(max_examples=examples(10), deadline=None)
def test_a_weighted_sum_wraps_where_its_weights_exceed_the_type(a: int, b: int, shift: int) -> None:
    text = f"out[i] = ({a} * x[i] + {b} * y[i]) >> {shift}"
    assert bool(wraps_of(text)) == (a + b > 1)
    assert not wraps_of(text.replace("x[i]", "cast(x[i], int32)").replace("y[i]", "cast(y[i], int32)"))


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["out[i] = minimum(cast(x[i], int32) + y[i], 255)"], id="a cast of one operand"),
        pytest.param(["out[i] = where(x[i] > y[i], x[i] - y[i], y[i] - x[i])"], id="a guarded difference"),
        pytest.param(["out[i] = x[i] - x[i]"], id="a difference of one element"),
        pytest.param(["out[i] = maximum(x[i], y[i]) - minimum(x[i], y[i])"], id="a distance"),
        pytest.param(["out[i] = (x[i] & 15) * 17"], id="few bits"),
        pytest.param(["out[i] = wide[i] * 1000 + 5"], id="elements of 32 bits are not known"),
        pytest.param(["out[i] = wide[i] % 100 + 5"], id="a remainder"),
        pytest.param(["out[i] = few[i % 4] * 50"], id="baked values"),
        pytest.param(["out[i] = cast(300 + i, uint8)"], id="a cast that wraps is meant"),
        pytest.param(["out[i] = sum(z[i, k] * z[i, k], k)"], id="a short sum"),
        pytest.param(["t[i] = x[i] & 1", "out[i] = t[i] + 254"], id="a temporary of few values"),
        pytest.param(["out[i] = cast(f[i], uint8) + 0"], id="what floats become is not known"),
        pytest.param(["out[i] = max(z[i, k], k) - min(z[i, k], k)"], id="extremes of a row"),
        pytest.param(["out[i] = x[i] * seven // 7 if x[i] < 30 else 0"], id="a known scalar and a guard"),
    ],
)
def test_what_no_input_wraps_has_no_finding(statements: list[str]) -> None:
    assert wraps_of(*statements) == ()


@pytest.mark.parametrize(
    ("statements", "results"),
    [
        pytest.param(["out[i] = x[i] - y[i]"], [-255], id="a difference"),
        pytest.param(["out[i] = lut[ids[i]] + 100"], [355], id="a gather"),
        pytest.param(["t[i] = x[i] & 3", "out[i] = t[i] + 254"], [257], id="a temporary"),
        pytest.param(["out[i] = x[i] + s"], [510], id="a scalar"),
        pytest.param(["out[i] = x[i] + i"], [299, 405], id="an index in the type of the array"),
        pytest.param(["out[i] = cast(x[i], int32) << 30"], [255 << 30], id="32 bits of known operands"),
    ],
)
def test_what_wraps_is_shown_with_its_result(statements: list[str], results: list[int]) -> None:
    assert [wrap.result for wrap in wraps_of(*statements)] == results


def test_adjacent_elements_are_different_ones() -> None:
    (wrap,) = wraps_of("out[i] = x[i] - where(i > 0, x[i - 1], 0)")
    assert wrap.result == -255


def test_what_is_stored_into_a_narrower_type_wraps_there() -> None:
    (wrap,) = wraps_of("out[i] = cast(x[i], int32) + y[i]", out="uint8")
    assert (type(wrap.expr).__name__, wrap.result) == ("Cast", 510)
    assert wraps_of("out[i] = minimum(cast(x[i], int32) + y[i], 255)", out="uint8") == ()
    assert wraps_of("out[i] = cast(cast(x[i], int32) + y[i], uint8)", out="uint8") == ()


def test_adding_to_a_narrow_output_wraps() -> None:
    (wrap,) = wraps_of("out[i] += x[i]", out="uint8")
    assert wrap.result == 510


@pytest.mark.parametrize(("k", "wraps_at"), [(33_025, []), (33_026, [33_026 * 255 * 255])])
def test_a_sum_wraps_from_the_number_of_terms_on_that_its_type_holds(k: int, wraps_at: list[int]) -> None:
    product = "sum(z[i, k] * z[i, k], k)"
    assert [wrap.result for wrap in wraps_of(f"out[i] = {product}", k=k)] == wraps_at


@pytest.mark.parametrize(("k", "wraps_at"), [(128, []), (129, [129 * 255])])
def test_a_sum_that_its_array_cannot_hold_wraps_in_the_store(k: int, wraps_at: list[int]) -> None:
    results = wraps_of("out[i] = sum(z[i, k], k)", k=k, out="int16")
    assert [(type(wrap.expr).__name__, wrap.result) for wrap in results] == [("Cast", total) for total in wraps_at]
    assert wraps_of("out[i] = cast(sum(z[i, k], k), int16)", k=k, out="int16") == ()


def test_a_sum_in_a_wider_type_does_not_wrap() -> None:
    assert wraps_of("out[i] = sum(z[i, k] * z[i, k], k)", k=200_000, dtype="int8")
    assert not wraps_of("out[i] = sum(z[i, k] * z[i, k], k)", k=200_000, dtype="int8", more="accumulate: int64")


def test_the_operations_of_an_expression_are_found_operands_first_with_one_root() -> None:
    results = wraps_of("out[i] = (77 * x[i] + 150 * y[i]) >> 8")
    assert [wrap.result for wrap in results] == [77 * 255, 150 * 255, 509]
    assert len({id(wrap.root) for wrap in results}) == 1
