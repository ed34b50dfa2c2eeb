"""Long sums of few results: GEMMs over ranges of K in a batch, and the sum of these."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.plan.context import Context
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def covariance(dtype="float32", features=48, samples=200000, target="sm_90a", x="d, n", **keys) -> str:
    shape = x.replace("d", "D").replace("n", "N")
    of_a, of_b = (x.replace("d", name) for name in "ab")
    more = "".join(f"{key}: {value}\n" for key, value in keys.items())
    return f"""
target: {target}
params: {{D: {features}, N: {samples}}}
arrays:
  x: {{shape: [{shape}], dtype: {dtype}}}
  g: {{shape: [D, D], dtype: {"float64" if dtype == "float64" else "float32"}}}
compute: g[a, b] = sum(x[{of_a}] * x[{of_b}], n)
{more}"""


def launches(text: str) -> list[tuple[str, int]]:
    """The families, and the blocks of their launches."""
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    context = kernel.plan.context
    return [(launch.family, blocks_of(launch.grid, context)) for launch in kernel.plan.kernels]


def blocks_of(grid, context: Context) -> int:
    x, y, z = (context.static(extent) for extent in grid)
    return x * y * z


@pytest.mark.parametrize(("dtype", "family"), [("float32", "gemm"), ("float64", "gemm"), ("bfloat16", "wgmma")])
@pytest.mark.parametrize("x", ["d, n", "n, d"])
def test_ranges_of_k_fill_the_device(dtype, family, x):
    (first, blocks), (second, _) = launches(covariance(dtype, x=x))
    assert (first, second) == (family, "reduce")
    assert blocks >= 100


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"samples": 200003}, id="a prime K"),
        pytest.param({"samples": 2048}, id="a short K"),
        pytest.param({"features": 4096, "samples": 8192}, id="tiles that fill the device"),
        pytest.param({"schedule": "{family: gemm}"}, id="a schedule"),
    ],
)
def test_other_products_are_one_launch(case):
    assert len(launches(covariance(**case))) == 1


def test_an_array_that_is_read_in_another_way_is_not_split():
    text = covariance().replace("compute: ", "compute: |\n  y[d] = x[d, 3]\n  ").replace("arrays:", "arrays:\n  Y")
    text = text.replace("  Y\n", "  y: {shape: [D], dtype: float32}\n")
    assert "gemm" in dict(launches(text))
    assert "reduce" not in dict(launches(text))


def check(text: str) -> None:
    """Fails unless the CPU device's results equal the reference's, by two launches."""
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    assert len(kernel.plan.kernels) == 2
    device = CpuDevice(sanitize=True, workers=1, shuffle=5)
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("features", "samples"), [(24, 100000), (17, 3 << 16)])
def test_results_are_right(dtype, features, samples):
    check(covariance(dtype, features, samples))


@pytest.mark.slow
def test_results_are_added_to_with_an_epilogue():
    check(covariance(features=20, samples=100000).replace("g[a, b] = sum", "g[a, b] += 0.5 * sum"))
