"""Sums over sums are distributed where the order of summation then takes less work."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.sums.distributed_sums import with_distributed_sums
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.expressions import bound_indices
from cugen.spec.load import load_text

LINEAR = "h[n, v] = sum(x[n, k] * w[v, k], k) + b[v]"
OF_ROWS = [
    pytest.param(f"{LINEAR}\ny[n] = sum(h[n, v], v)", id="a linear layer"),
    pytest.param(f"{LINEAR}\ny[n] = relu(mean(h[n, v] * 2, v) - 1)", id="a mean of multiples"),
    pytest.param("y[n] = sum(3 * (b[v] - sum(x[n, k] * w[v, k], k)) / 7, v)", id="in one statement"),
    pytest.param(f"{LINEAR}\ny[n] = sum(h[n, v] - r[n, v], v)", id="a residual"),
    pytest.param(f"{LINEAR}\nt[n, v] = h[n, v] + r[n, v]\ny[n] = sum(t[n, v], v)", id="temporaries of temporaries"),
    pytest.param("h[n, c] = sum(x[n, k] * w[c, k], k)\ny[n] = sum(h[n, k] * b[k], k)", id="names that clash"),
]
OTHERS = [
    pytest.param("h[n, v] = relu(sum(x[n, k] * w[v, k], k))\ny[n] = sum(h[n, v], v)", id="no sum of sums"),
    pytest.param("h[n, v] = sum(x[n, k] * w[v, k], k)\ny[n] = max(h[n, v], v)", id="a maximum"),
    pytest.param(f"{LINEAR}\ny[n] = sum(h[n, v], v, where=v < n)", id="a condition"),
    pytest.param("h[n, v] = sum(x[n, k] * w[v, k], k)\ny[n] = sum(h[n, v] * h[n, v], v)", id="a square"),
    pytest.param("c[n, v] = sum((x[n, k] - mean(x[n, l], l)) * w[v, k], k)", id="a product of what has no mean"),
]
SHAPES = {"x": "[N, K]", "w": "[V, K]", "b": "[V]", "r": "[N, V]", "c": "[N, V]", "y": "[N]"}


def kernel_of(compute: str, sizes: str, dtype: str = "float32"):
    used = {name: shape for name, shape in SHAPES.items() if f"{name}[" in compute}
    arrays = [f"  {name}: {{shape: {shape}, dtype: {dtype}}}" for name, shape in used.items()]
    body = [f"  {line}" for line in compute.splitlines()]
    (spec,) = load_text(
        "\n".join(["cugen: 1", "kernel: f", f"params: {{{sizes}}}", "arrays:", *arrays, "compute: |", *body])
    )
    return generate(spec, analysis=False)


def launched(kernel) -> set[str]:
    return {launch.family for launch in kernel.plan.kernels}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compute", OF_ROWS)
def test_a_sum_over_the_rows_of_a_product_is_no_product(compute):
    assert launched(kernel_of(compute, "N: 2048, K: 1024, V: 1024")) == {"reduce"}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("compute", OF_ROWS)
def test_its_results_are_right(compute, dtype):
    if dtype == "int32":
        compute = compute.replace(" / 7", "").replace("mean", "sum")
    kernel = kernel_of(compute, "N: 130, K: 129, V: 129", dtype)
    assert "gemm" not in launched(kernel)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_a_sum_over_an_index_of_the_result_s_name_has_another():
    """Linear attention: both statements call the position t."""
    compute = "s[d, e] = sum(k[t, d] * v[t, e], t)\no[t, e] = sum(q[t, d] * s[d, e], d)"
    arrays = "".join(f"  {name}: {{shape: [T, D], dtype: float32}}\n" for name in "qkvo")
    params = "params: {T: 2048, D: 16}"
    text = f"cugen: 1\nkernel: f\n{params}\narrays:\n{arrays}compute: |\n  {compute}\n".replace("\no[", "\n  o[")
    (spec,) = load_text(text)
    distributed = with_distributed_sums(spec, 1)
    assert distributed is not None
    bound = [index.name for index in bound_indices(distributed[1].value)]
    assert len({*bound, "t", "e"}) == len(bound) + 2
    kernel = generate(spec, analysis=False)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compute", OTHERS)
def test_other_reductions_of_sums_stay_as_they_are(compute):
    assert launched(kernel_of(compute, "N: 2048, K: 1024, V: 1024")) & {"gemm", "wgmma"}


def test_a_result_that_others_read_too_stays():
    compute = f"{LINEAR}\ny[n] = sum(h[n, v], v)\nr[n, v] = h[n, v] * 2"
    assert "gemm" in launched(kernel_of(compute, "N: 2048, K: 1024, V: 1024"))


def test_short_sums_stay_in_one_launch():
    assert len(kernel_of(f"{LINEAR}\ny[n] = sum(h[n, v], v)", "N: 8, K: 8, V: 8").plan.kernels) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", ["t{0}[n] * t{0}[n]", "t{0}[n] + t{0}[n] * b[n]"])
def test_a_chain_of_temporaries_that_are_read_twice_each_is_planned(step):
    """With all of them inlined, a value of 2^30 terms would come of it."""
    chain = "\n".join(f"t{n}[n] = {step.format(n - 1)}" for n in range(1, 31))
    assert kernel_of(f"t0[n] = sum(x[n, k], k)\n{chain}\ny[n] = t30[n]", "N: 4096, K: 512, V: 4096").source
