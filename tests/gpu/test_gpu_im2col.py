"""Convolutions by wgmma on a GPU of sm_90, whose windows TMA copies in im2col mode: images of one to three dimensions,
strides, dilated and flipped taps, padded channels, clusters and single images."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

PLANE = ("N, H, W, C", "K, 3, 3, C", "N, H, W, K")
SAME = "y[n, h, q, k] = sum(x[n, h + r - 1, q + s - 1, c] * w[k, r, s, c], r, s, c)"


def convolution(
    shapes: tuple[str, str, str] = PLANE,
    compute: str = SAME,
    *,
    dtype: str = "bfloat16",
    result: str = "float32",
    schedule: str = "",
    **sizes: object,
) -> str:
    x, w, y = shapes
    params = {"N": 3, "D": 5, "H": 17, "W": 19, "C": 64, "K": 128, **sizes}
    used = {name: value for name, value in params.items() if name in f"{x}, {w}, {y}".split(", ")}
    return f"""
cugen: 1
kernel: conv
target: sm_90a
params: {{{", ".join(f"{name}: {value}" for name, value in used.items())}}}
arrays:
  x: {{shape: [{x}], dtype: {dtype}, boundary: zero}}
  w: {{shape: [{w}], dtype: {dtype}}}
  y: {{shape: [{y}], dtype: {result}}}
accumulate: {{tf32: true}}
compute: {compute}
schedule: {{family: wgmma{schedule}}}
"""


CASES = {
    "a line": convolution(("N, W, C", "K, 5, C", "N, W, K"), "y[n, q, k] = sum(x[n, q + s - 2, c] * w[k, s, c], s, c)"),
    "strides and dilations": convolution(
        ("N, H, W, C", "K, 3, 5, C", "N, 9, 8, K"),
        "y[n, h, q, k] = sum(x[n, 2*h + r - 1, 2*q + 2*s - 4, c] * w[k, r, s, c], r, s, c)",
    ),
    "a volume, filters along K": convolution(
        ("N, D, H, W, C", "3, 3, 2, C, K", "N, 3, H, 7, K"),
        "y[n, d, h, q, k] = sum(x[n, 2*d + t - 1, h + r - 2, 2*q + 3*s - 1, c] * w[t, r, s, c, k], t, r, s, c)",
        dtype="float16",
        result="float16",
    ),
    "flipped taps": convolution(compute=SAME.replace("h + r - 1, q + s - 1", "h - r + 1, q - s + 1")),
    "tf32": convolution(dtype="float32"),
    "int8": convolution(dtype="int8", result="int32"),
    "float8": convolution(dtype="float8_e4m3", C=128),
    "split-K": convolution(N=1, H=7, W=7, C=512, schedule=", split_k: 4"),
    "multicast": convolution(schedule=", multicast: 2"),
    "multicast of a single image": convolution(N=1, H=13, W=13, schedule=", multicast: 2"),
    "padded channels": convolution(C=40, K=72, result="bfloat16"),
    "padded channels, filters along K": convolution(
        ("N, H, W, C", "3, 3, C, K", "N, H, W, K"), SAME.replace("w[k, r, s, c]", "w[r, s, c, k]"), C=72, K=72
    ),
    "channels first in the result": convolution(
        ("N, H, W, C", "K, 3, 3, C", "N, K, H, W"), SAME.replace("y[n, h, q, k]", "y[n, k, h, q]")
    ),
    "filters for each image": convolution(
        ("N, H, W, C", "N, K, 3, 3, C", "N, H, W, K"), SAME.replace("w[k", "w[n, k"), schedule=", multicast: 2"
    ),
    "many images": convolution(N=64, H=28, W=28, C=128, result="bfloat16"),
}


@pytest.fixture(scope="module", autouse=True)
def hopper(device: GpuDevice) -> None:
    capability = driver().capability(0)
    if capability != "sm_90":
        pytest.skip(f"NO GPU OF sm_90, NOT TESTED: this is {capability}")


@pytest.mark.parametrize("text", CASES.values(), ids=list(CASES))
def test_convolutions_are_within_their_bounds(device: GpuDevice, text: str) -> None:
    (spec,) = load_text(text)
    kernel = generate(spec, analysis=False)
    run = verify(spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("images", [0, 1, 7])
def test_the_number_of_images_is_that_of_the_call(device: GpuDevice, images: int) -> None:
    (spec,) = load_text(convolution(N="dynamic"))
    kernel = generate(spec, analysis=False)
    run = verify(spec, kernel.source, kernel.manifest, device, params={"N": images})
    assert run.verification.passed, run.verification.messages
