"""Products of inputs and weights are stored before the taps of a transposed convolution are added."""

from __future__ import annotations

import pytest

from cugen.families.gemm.tiled.family import MIN_STORED_CHANNELS
from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.rewrite.transposed.drawing import Transposed

LARGE = Transposed("remainder", (24, 25), (48, 50), (4, 4), (2, 2), (1, 1), (1, 1), 1, 64, 32)


def made(drawn: Transposed, **changes):
    (spec,) = load_text(Transposed(**{**vars(drawn), **changes}).text)
    return generate(spec, analysis=False)


def families(kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


def test_channels_last_are_a_gemm_and_a_sum_without_loops():
    assert families(made(LARGE, is_channels_last=True)) == ["gemm", "map"]


@pytest.mark.slow
def test_register_windows_keep_float32_with_few_channels():
    fewest = MIN_STORED_CHANNELS
    for size, outputs in (((24, 25), (48, 50)), ((200, 200), (400, 400))):
        assert families(made(LARGE, size=size, outputs=outputs, channels=fewest - 1)) == ["stencil"]
        assert families(made(LARGE, size=size, outputs=outputs, channels=fewest)) == ["gemm", "map"]


@pytest.mark.parametrize("changes", [{"is_dynamic": True}, {"channels": 8}, {"size": (3, 3), "outputs": (6, 6)}])
def test_few_products_or_an_unknown_number_are_not_stored(changes):
    assert "gemm" not in families(made(LARGE, is_channels_last=True, **changes))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="channels first"),
        pytest.param({"is_channels_last": True}, id="channels last"),
        pytest.param({"taps": (3, 2), "pad": (0, 1), "outputs": (49, 47)}, id="other numbers of taps"),
        pytest.param({"stride": (3, 2), "dilation": (2, 1), "outputs": (71, 53)}, id="dilated"),
    ],
)
def test_results_are_right(changes):
    kernel = made(LARGE, **changes)
    assert families(kernel) == ["gemm", "map"]
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("w", "weights"),
    [("[64, 64, 2, 2]", "w[c, k, p % 2, q % 2]"), ("[64, 64]", "w[k, c]")],
    ids=["one tap for each output", "an enlarged image"],
)
def test_outputs_of_one_tap_read_its_product(w: str, weights: str) -> None:
    (spec,) = load_text(f"""cugen: 1
kernel: k
arrays:
  x: {{shape: [1, 64, 26, 71], dtype: float32}}
  w: {{shape: {w}, dtype: float32}}
  bias: {{shape: [64], dtype: float32}}
  y: {{shape: [1, 64, 52, 142], dtype: float32}}
compute: y[n, k, p, q] = sum(x[n, c, p // 2, q // 2] * {weights}, c) + bias[k]
""")
    kernel = generate(spec, analysis=False)
    assert families(kernel) == ["gemm", "map"]
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages


def test_products_of_typical_sizes_are_stored_and_right_at_others():
    (spec,) = load_text("""cugen: 1
kernel: upsampled
params: {B: 2, C: 40, K: 37, L: {range: [1, 100000], default: 4096}}
arrays:
  x: {shape: [B, C, L], dtype: float32, boundary: zero}
  w: {shape: [C, K, 16], dtype: float32}
  y: {shape: [B, K, 8 * L], dtype: float32}
compute: y[b, k, p] = sum(x[b, c, (p + 4 - r) / 8] * w[c, k, r], c, r)
""")
    kernel = generate(spec, analysis=False)
    assert families(kernel) == ["gemm", "map"]
    for length in (1, 33):
        run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params={"L": length})
        assert run.verification.passed, run.verification.messages
