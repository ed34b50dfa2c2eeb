"""Long sums over windows with few results: all results of a block in one walk over the terms."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.rewrite.indices.window_sums import with_window_sums
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

GRADIENT = """cugen: 1
kernel: gradient
params: {{B: {b}, C: {c}, H: {h}, W: {w}, K: {k}}}
arrays:
  x: {{shape: [B, C, H, W], dtype: {dtype}, boundary: zero}}
  dy: {{shape: [B, C, H, W], dtype: {dtype}}}
  dw: {{shape: [C, K, K], dtype: float32}}
compute: dw[c, r, s] = sum(dy[n, c, i, j] * x[n, c, i + r - K // 2, j + s - K // 2], n, i, j)
"""


def gradient(b: int = 32, c: int = 256, h: int = 28, w: int = 28, k: int = 3, dtype: str = "float32") -> Spec:
    return loaded(GRADIENT.format(b=b, c=c, h=h, w=w, k=k, dtype=dtype))


def loaded(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec


def lags(compute: str, n: int, count: int, rows: int = 1) -> Spec:
    return loaded(
        f"cugen: 1\nkernel: lags\nparams: {{B: {rows}, N: {n}, L: {count}}}\narrays:\n"
        "  x: {shape: [B, N], dtype: float32, boundary: zero}\n  y: {shape: [B, N], dtype: float32}\n"
        f"  r: {{shape: [B, L], dtype: float32}}\ncompute: r[b, l] = {compute}\n"
    )


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_the_gradient_of_depthwise_weights_has_a_sum_for_each_weight_of_a_channel() -> None:
    spec = gradient()
    assert len(with_window_sums(spec).statements) == 9
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.family == "reduce"
    assert launch.threads >= 128
    assert "float sum_2_1 = 0.0f;" in generate(spec, remarks="none").source


def test_sizes_that_the_call_tells_have_the_sums_of_typical_ones() -> None:
    ranges = {"B: 32": "B: {range: [0, 64], default: 32}", "H: 28, W: 28": "H: 28, W: {range: [0, 400], default: 28}"}
    text = GRADIENT.format(b=32, c=6, h=28, w=28, k=3, dtype="float32")
    for fixed, dynamic in ranges.items():
        text = text.replace(fixed, dynamic)
    spec = loaded(text)
    assert len(with_window_sums(spec).statements) == 9
    kernel = generate(spec, analysis=False)
    for params in ({"B": 2, "W": 19}, {"B": 1, "W": 0}):
        run = verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params=params)
        assert run.verification.passed, run.verification.messages


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "spec",
    [
        gradient(b=3, c=5, h=23, w=19),
        gradient(b=2, c=3, h=40, w=14, k=5, dtype="bfloat16"),
        gradient(b=9, c=33, h=11, w=13, k=2),
        lags("sum(y[b, t] * x[b, t + l], t)", n=5003, count=12),
        lags("max(abs(x[b, t] - y[b, (t + l) % N]), t)", n=1031, count=3, rows=7),
        lags("mean(x[b, t + 2 * l - 3] * y[b, t] ** 2, t) / (1 + l)", n=2050, count=5, rows=3),
    ],
    ids=lambda spec: f"{spec.kernel} {'x'.join(str(p.value) for p in spec.params)}",
)
def test_the_sums_are_right(spec: Spec) -> None:
    assert len(with_window_sums(spec).statements) > 1
    assert passes(generate(spec, remarks="none"))


CHANNELS_LAST = """cugen: 1
kernel: gradient
params: {{B: {b}, C: {c}, H: {h}, W: {w}}}
arrays:
  x: {{shape: [B, H, W, C], dtype: bfloat16, boundary: zero}}
  dy: {{shape: [B, H, W, C], dtype: bfloat16}}
  dw: {{shape: [3, 3, C], dtype: float32}}
compute: dw[r, s, c] = sum(dy[n, i, j, c] * x[n, i + r - 1, j + s - 1, c], n, i, j)
"""


def test_pixels_beyond_the_boundary_are_vectors_of_zeros_channels_last() -> None:
    kernel = generate(loaded(CHANNELS_LAST.format(b=32, c=256, h=28, w=28)), analysis=False)
    assert kernel.plan.kernels[0].family == "reduce"
    assert "bfloat16, 4> x4 = {};" in kernel.source  # 9 sums of 4 channels are as many as a thread has registers for
    assert "sum_for_dw_2_2_parts4" in kernel.source
    assert passes(generate(loaded(CHANNELS_LAST.format(b=30, c=24, h=9, w=7)), remarks="none"))


@pytest.mark.parametrize(
    "spec",
    [
        gradient(k=6),
        gradient(c=300_000, b=1),
        gradient(b=1, h=20, w=20),
        lags("sum(x[b, t + l] * y[b, t], t)", n=5000, count=1),
        lags("sum(x[b, t] * y[b, t] * l, t)", n=5000, count=4),
        lags("sum(x[l, t] * y[b, t], t)", n=5000, count=4, rows=4),
    ],
    ids=["many weights", "many results", "few terms", "one lag", "no window", "a GEMM"],
)
def test_other_sums_are_left_as_they_are(spec: Spec) -> None:
    assert with_window_sums(spec) is spec


def test_the_gradient_of_dense_weights_is_left_to_tensor_products() -> None:
    text = GRADIENT.format(b=4, c=32, h=28, w=28, k=3, dtype="float32")
    text = text.replace("dw: {shape: [C, K, K]", "dw: {shape: [C, C, K, K]").replace("dw[c, r, s]", "dw[o, c, r, s]")
    spec = loaded(text.replace("dy[n, c, i, j]", "dy[n, o, i, j]"))
    assert with_window_sums(spec) is spec


def test_a_statement_with_a_schedule_is_left_as_it_is() -> None:
    spec = loaded(GRADIENT.format(b=32, c=256, h=28, w=28, k=3, dtype="float32") + "schedule: {family: correlation}\n")
    assert with_window_sums(spec) is spec
