"""Convolutions whose operands are copied with the channels last: which are, in which order, and their values."""

from __future__ import annotations

import pytest

from cugen.families.contraction import channels_last
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

FIRST = ("N, C, H, W", "n, c, h + r - 1, q + s - 1")
LAST = ("N, H, W, C", "n, h + r - 1, q + s - 1, c")
FILTERS_FIRST = ("K, C, 3, 3", "k, c, r, s")
FILTERS_LAST = ("K, 3, 3, C", "k, r, s, c")


def convolution(
    x: tuple[str, str] = FIRST,
    w: tuple[str, str] = FILTERS_FIRST,
    *,
    dtype: str = "bfloat16",
    result: str = "float32",
    target: str = "sm_90a",
    compute: str = "sum(x[{x}] * w[{w}], c, r, s)",
    sums: str = "",
    **sizes: object,
) -> str:
    params = {"N": 8, "H": 32, "W": 32, "C": 64, "K": 64, **sizes}
    return f"""
cugen: 1
kernel: conv
target: {target}
params: {{{", ".join(f"{name}: {size}" for name, size in params.items())}}}
arrays:
  x: {{shape: [{x[0]}], dtype: {dtype}, boundary: zero}}
  w: {{shape: [{w[0]}], dtype: {dtype}}}
  y: {{shape: [N, K, H, W], dtype: {result}}}
compute: "y[n, k, h, q] = {compute.format(x=x[1], w=w[1])}"
{sums}
"""


def copies(text: str) -> tuple[dict[str, str], str]:
    """The shapes of the copies by their names, and the family of the convolution."""
    (spec,) = load_text(text)
    plan = make_plan(spec)
    assert len(plan.kernels) == len(plan.workspace) + 1
    shapes = {array.name: " ".join(map(str, array.shape)) for array in plan.workspace}
    return shapes, plan.kernels[-1].family


X_LAST, W_LAST = {"x_last": "N H W C"}, {"w_last": "K 3 3 C"}
COPIED = {
    "both": (convolution(), X_LAST | W_LAST, "wgmma"),
    "filters alone": (convolution(LAST), W_LAST, "wgmma"),
    "images alone": (convolution(w=FILTERS_LAST), X_LAST, "wgmma"),
    "by mma.sync": (convolution(target="sm_80"), X_LAST | W_LAST, "gemm"),
    "single bytes": (convolution(dtype="int8", result="int32", C=256, K=256), X_LAST | W_LAST, "wgmma"),
    "filters of single bytes along K": (
        convolution(LAST, ("3, 3, C, K", "r, s, c, k"), dtype="int8", result="int32", C=256, K=256),
        W_LAST,
        "wgmma",
    ),
    "images between the channels": (
        convolution(("H, N, C, W", "h + r - 1, n, c, q + s - 1")),
        {"x_last": "H N W C"} | W_LAST,
        "gemm",
    ),
    "a batch known at launch": (convolution(N="dynamic"), X_LAST | W_LAST, "wgmma"),
    "split contracted dimensions of wide filters": (
        convolution(w=("C, K, 3, 3", "c, k, r, s"), dtype="float32"),
        {"w_last": "K C 3 3"},
        "gemm",
    ),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("text", "shapes", "family"), COPIED.values(), ids=list(COPIED))
def test_operands_are_copied_with_the_channels_last(text: str, shapes: dict[str, str], family: str) -> None:
    assert copies(text) == (shapes, family)


AS_THEY_ARE = {
    "channels last": convolution(LAST, FILTERS_LAST),
    "filters along K": convolution(LAST, ("3, 3, C, K", "r, s, c, k")),
    "wide images, whose elements are copied one by one": convolution(dtype="float32"),
    "images that are contiguous along another output": convolution(
        ("C, H, W, N", "c, h + r - 1, q + s - 1, n"), FILTERS_FIRST
    ),
    "few multiply-adds": convolution(N=1, H=16, W=16),
    "two channels": convolution(compute="sum(x[{x}] * w[{w}], c, r, s) + sum(x[{x}] * w[{w}], c, r, s, where=c < 3)"),
    "a channel that moves": convolution(("N, C, H, W", "n, c - r, h + r - 1, q + s - 1"), dtype="bfloat16"),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("text", AS_THEY_ARE.values(), ids=list(AS_THEY_ARE))
def test_other_operands_stay_as_they_are(text: str) -> None:
    (spec,) = load_text(text)
    assert [array.name for array in make_plan(spec).workspace if array.name.endswith("_last")] == []


def test_copies_have_names_that_the_spec_has_not() -> None:
    text = convolution().replace("x:", "w_last:").replace("x[", "w_last[")
    shapes, _ = copies(text)
    assert shapes == {"w_last_last": "N H W C", "w_last_": "K 3 3 C"}


def test_a_dense_copy_with_sums_in_its_extents_is_not_copied_again() -> None:
    # The strides of the gradient were compared with products of its extents without expanding them: no plan ended.
    text = """
cugen: 1
kernel: k
target: sm_90a
params: {N: 8, C: 64, F: 96, H: 56, W: 57, R: 3, Q: 3}
arrays:
  x: {shape: [N, C, H, W], dtype: float16, boundary: zero}
  g: {shape: [N, F, (H + 1 - R) // 2 + 1, (W + 1 - Q) // 2 + 1], dtype: float16}
  y: {shape: [F, C, R, Q], dtype: float16}
compute: y[f, c, r, q] = sum(x[n, c, 2 * i + r - 1, 2 * j + q - 1] * g[n, f, i, j], n, i, j)
"""
    (spec,) = load_text(text)
    assert [array.name for array in make_plan(spec).workspace if array.name.endswith("_last")] == ["x_last", "g_last"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of any size are copied."""
    monkeypatch.setattr(channels_last, "_MIN_MULTIPLY_ADDS", 0)


def made(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


VALUES = {
    "bfloat16": convolution(N=3, H=5, W=7, C=24, K=40),
    "int8": convolution(N=3, H=5, W=7, C=32, K=40, dtype="int8", result="int32"),
    "a bias": convolution(N=2, H=6, W=5, C=16, K=24, compute="relu(0.5 * sum(w[{w}] * x[{x}], c, r, s) + k)"),
    "filters of 32 bits": convolution(
        w=("C, K, 3, 3", "c, k, r, s"), N=2, H=6, W=5, C=12, K=24, dtype="float32", target="sm_80"
    ),
    "dilated taps": convolution(("N, C, H, W", "n, c, h + 2*r - 2, q - s + 1"), N=2, H=6, W=5, C=16, K=24),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("text", VALUES.values(), ids=list(VALUES))
def test_a_convolution_of_copies_equals_the_reference(small: None, text: str, target: str) -> None:
    kernel = made(text.replace("target: sm_90a", f"target: {target}"))
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True, shuffle=5))
    assert run.verification.passed, run.verification.messages


@pytest.mark.slow
@pytest.mark.parametrize("images", [1, 4])
def test_copies_have_the_images_of_the_call(small: None, images: int) -> None:
    kernel = made(convolution(N="dynamic", H=5, W=7, C=16, K=32))
    assert next(space.elements for space in kernel.manifest.workspace) == "N * 560"
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params={"N": images})
    assert run.verification.passed, run.verification.messages
