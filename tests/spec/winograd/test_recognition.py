"""Convolutions that Winograd's algorithm computes, in the spellings of the language, and why others aren't."""

from __future__ import annotations

import pytest

from cugen.spec.load import load_text
from cugen.spec.winograd.recognition import Axis, Convolution, convolution_of

X, W, Y = "[2, 6, 9, 8]", "[5, 6, 3, 3]", "[2, 5, 9, 8]"


def recognised(
    value: str,
    *,
    x: str = X,
    w: str = W,
    y: str = Y,
    left: str = "n, o, i, j",
    dtype: str = "float32",
    accumulate: str = "{winograd: true}",
    more: str = "",
) -> Convolution | str:
    (spec,) = load_text(
        f"""
cugen: 1
kernel: k
params: {{stride: 1, pad: 1}}
{more}
arrays:
  x: {{shape: {x}, dtype: {dtype}, boundary: zero}}
  w: {{shape: {w}, dtype: float32, boundary: zero}}
  y: {{shape: {y}, dtype: float32}}
compute: y[{left}] = {value}
accumulate: {accumulate}
""".replace("dtype: float32, boundary: zero}\n  y", "dtype: float32}\n  y")
    )
    return convolution_of(spec.statements[0], spec)


def axes(value: str, **more: str) -> tuple[Axis, Axis]:
    convolution = recognised(value, **more)
    assert isinstance(convolution, Convolution), convolution
    return convolution.axes


def test_taps_run_forwards() -> None:
    down, across = axes("sum(x[n, c, i + r - 1, j + s] * w[o, c, r, s], c, r, s)")
    assert down == Axis("i", "r", of_inputs=2, of_weights=2, first=-1, first_weight=0, weight_step=1)
    assert across == Axis("j", "s", of_inputs=3, of_weights=3, first=0, first_weight=0, weight_step=1)


def test_taps_of_a_gradient_run_backwards() -> None:
    down, _ = axes("sum(w[o, c, r, s] * x[n, c, i - r + 1, j - s + 1], c, r, s)")
    assert down == Axis("i", "r", of_inputs=2, of_weights=2, first=-1, first_weight=2, weight_step=-1)


def test_taps_that_run_backwards_twice_run_forwards() -> None:
    down, _ = axes("sum(w[o, c, 2 - r, s] * x[n, c, i - r + 1, j - s + 1], c, r, s)", more="indices: {r: 3}")
    assert (down.first_weight, down.weight_step) == (0, 1)


def test_a_transposed_convolution_with_stride_one_is_a_convolution() -> None:
    subscripts = "(i + pad - r) // stride, (j + pad - s) // stride"
    where = "(i + pad - r) % stride == 0 and (j + pad - s) % stride == 0"
    assert axes(f"sum(x[n, c, {subscripts}] * w[o, c, r, s], c, r, s, where={where})")[0].first == -1


def test_groups_and_further_taps_are_indices_of_both_operands() -> None:
    grouped = recognised(
        "sum(x[n, g, c, i + r, j + s] * w[g, o, c, r, s], c, r, s)",
        x="[2, 3, 4, 9, 8]",
        w="[3, 5, 4, 3, 3]",
        y="[2, 3, 5, 7, 6]",
        left="n, g, o, i, j",
    )
    assert isinstance(grouped, Convolution)
    assert [index.name for index in grouped.channels] == ["c"]
    volume = recognised(
        "sum(x[c, d + t - 1, i + r, j + s] * w[o, c, t, r, s], c, t, r, s)",
        x="[4, 5, 9, 8]",
        w="[3, 4, 3, 3, 3]",
        y="[3, 5, 7, 6]",
        left="o, d, i, j",
    )
    assert isinstance(volume, Convolution)
    assert [axis.tap for axis in volume.axes] == ["r", "s"]
    assert [index.name for index in volume.channels] == ["c", "t"]


PLAIN = "sum(x[n, c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value": "max(x[n, c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)"}, "isn't made of a single sum"),
        ({"value": f"{PLAIN} + sum(w[o, c, r, s], c, r, s)"}, "isn't made of a single sum"),
        ({"value": PLAIN, "dtype": "float16"}, "two float32 arrays"),
        ({"value": PLAIN, "accumulate": "{type: float64, winograd: true}"}, "two float32 arrays"),
        ({"value": "sum(relu(x[n, c, i + r, j + s]) * w[o, c, r, s], c, r, s)"}, "two float32 arrays"),
        ({"value": PLAIN.replace("r, s)", "r, s, where=i + r > 2)")}, "the sum has a condition"),
        ({"value": "sum(x[n, c, 2 * i + r, j + s] * w[o, c, r, s], c, r, s)"}, "3 x 3 taps with stride 1"),
        ({"value": "sum(x[n, c, i + 2 * r, j + s] * w[o, c, r, s], c, r, s)"}, "3 x 3 taps with stride 1"),
        ({"value": PLAIN, "w": "[5, 6, 3, 5]"}, "3 x 3 taps with stride 1"),
        ({"value": "sum(x[n, o, i + r, j + s] * w[o, 0, r, s], r, s)", "x": Y}, "no channels to sum over"),
        ({"value": "sum(x[n, c, i + r, i + s] * w[o, c, r, s], c, r, s)"}, "in other subscripts, too"),
        ({"value": "sum(x[r, c, i + r, j + s] * w[o, c, r, s], c, r, s)", "x": "[3, 6, 9, 8]"}, "in other subscripts"),
        ({"value": "sum(x[n, c, i + r, j + s] * w[o, 0, r, s], c, r, s)"}, "one of the operands doesn't have"),
        ({"value": "sum(x[0, c, i + r, j + s] * w[o, c, r, s], c, r, s)"}, "results are repeated along an index"),
    ],
)
def test_other_statements_are_left_as_they_are(changes: dict[str, str], reason: str) -> None:
    assert reason in str(recognised(**changes))


def test_a_result_that_is_read_is_left_as_it_is() -> None:
    (spec,) = load_text("""
cugen: 1
kernel: k
arrays:
  x: {shape: [6, 9, 8], dtype: float32, boundary: zero}
  w: {shape: [5, 6, 3, 3], dtype: float32}
  y: {shape: [5, 9, 8], dtype: float32}
compute: y[o, i, j] = 2 * y[o, i, j] + sum(x[c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)
""")
    assert "from its own elements" in str(convolution_of(spec.statements[0], spec))
