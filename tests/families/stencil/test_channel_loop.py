"""Convolutions with a channel loop: register windows per channel, accumulators of several output channels."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses

SUM = "relu(sum(x[n, c, i + r - 1, j + s - 1] * w[k, c, r, s], c, r, s) + b[k])"


def convolution(
    channels: int | str,
    outputs: int,
    h: int,
    w: int | str,
    compute: str = SUM,
    *,
    dtype: str = "float32",
    to: str = "float32",
    boundary: str = "zero",
    size: tuple[str, str] = ("H", "W"),
    rows: int = 0,
) -> str:
    biased = "b[k]" in compute
    return (
        f"params: {{B: 2, C: {channels}, K: {outputs}, H: {h}, W: {w}}}\narrays:\n"
        f"  x: {{shape: [B, C, H, W], dtype: {dtype}, boundary: {boundary}}}\n"
        f"  w: {{shape: [K, C, 3, 3], dtype: {dtype}}}\n"
        + ("  b: {shape: [K], dtype: float32}\n" if biased else "")
        + f"  y: {{shape: [B, K, {size[0]}, {size[1]}], dtype: {to}}}\n"
        + (f"schedule: {{family: stencil, rows: {rows}}}\n" if rows else "")
        + f"compute: y[n, k, i, j] = {compute}\n"
    )


def test_the_row_of_an_output_is_defined_only_where_it_is_used(made):
    text = convolution("{multiple_of: 8}", 2, 64, 1, "sum(x[n, c, i + r - 1, j + s - 1] * w[k, c, r, s], c, r, s)")
    source = made(text.replace("H: 64", "H: {multiple_of: 8}")).source
    assert source.count("const int i = ") == 1  # of the store; the windows are indexed by the row of the thread


def test_output_channels_share_a_window(planned):
    kernel = planned(convolution(16, 16, 512, 512))
    assert kernel.family == "stencil"
    (sums,) = {a.array.symbol: a.array for a in accesses(kernel.body) if a.array.symbol == "sums"}.values()
    assert tuple(map(int, sums.shape)) == (4, 4, 4)  # channels, rows, columns


def test_few_channels_are_unrolled(planned):
    kernel = planned(convolution(3, 4, 224, 224, SUM.replace(" + b[k]", "")))
    assert all(a.array.symbol != "sums" for a in accesses(kernel.body))


def test_one_channel_reduction_is_taken(reasons):
    text = convolution(64, 64, 56, 56, f"{SUM} + max(x[n, d, i, j + t], d, t)").replace(
        "compute", "indices: {t: 9}\ncompute"
    )
    assert any("takes one reduction over channels" in refusal.reason for refusal in reasons("stencil", text))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("channels", "outputs", "h", "w"), [(40, 10, 30, 33), (17, 4, 1, 4)])
@pytest.mark.parametrize("rows", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_convolutions_of_any_size(prove, channels, outputs, h, w, rows):
    prove(convolution(channels, outputs, h, w, rows=rows), sanitize=w == 33)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "to", "compute"),
    [
        ("float16", "float16", "cast(sum(x[n, c, i + r - 1, j + s - 1] * w[k, c, r, s], c, r, s), float16)"),
        ("int8", "int32", "sum(cast(x[n, c, i + r - 1, j + s - 1], int32) * w[k, c, r, s], c, r, s)"),
        ("float32", "float32", "max(x[n, c, i + r - 1, j + s - 1] * w[k, c, r, s], c, r, s) + i"),
        ("float32", "float32", "sum(x[n, c, i - 1, j + s] + w[k, c, 0, s], c, s, where=c > 2 and x[n, c, i, j] > 0)"),
    ],
)
def test_other_types_and_reductions(prove, dtype, to, compute):
    prove(convolution(40, 6, 20, 32, compute, dtype=dtype, to=to, rows=2))


@pytest.mark.slow
def test_strided_convolutions(prove):
    compute = "sum(x[n, c, 2 * i + r - 1, 2 * j + s - 1] * w[k, c, r, s], c, r, s)"
    prove(convolution(40, 6, 20, 32, compute, size=("H // 2", "W // 2"), rows=2))


@pytest.mark.parametrize("channels", [0, 5])
def test_a_number_of_channels_given_at_run_time(prove, channels):
    compute = SUM.replace(" + b[k]", "")
    prove(convolution("dynamic", 6, 20, "dynamic", compute, boundary="wrap", rows=2), {"C": channels, "W": 21})
