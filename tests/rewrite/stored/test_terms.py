"""Terms that read an array at other elements than their own are stored before their reduction, where that pays."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from cugen.kernel import generate
from cugen.rewrite.stored import terms as stored_terms
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def spec_of(params: str, arrays: str, compute: str, indices: str = ""):
    lines = ["cugen: 1", "kernel: f", f"params: {{{params}}}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        lines.append(f"  {name}: {{shape: {shape}, dtype: float32}}")
    more = [f"indices: {{{indices}}}"] if indices else []
    (spec,) = load_text("\n".join([*lines, *more, f"compute: {compute}"]))
    return spec


def families_of(spec) -> list[str]:
    return [launch.family for launch in generate(spec, analysis=False).plan.kernels]


HANKEL = "y = sum(x[i + j] * w[i, j], i, j)"
BOTH = "y = sum(x[i + j] * w[i, j], i, j) + max(x[2 * u + v] * w[u, v], u, v)"
FLIPPED = "y = max(x[i, j] * x[j, M - 1 - i], i, j)"
CASES = [
    pytest.param("x [M + N - 1]; w [M, N]; y []", HANKEL, "", {"map", "reduce"}, id="a Hankel matrix"),
    pytest.param("x [M + N - 1]; w [M, N]; y []", BOTH, "u: M // 2", {"map", "reduce"}, id="two of them"),
    pytest.param("x [M, M]; y []", FLIPPED, "", {"transpose", "reduce"}, id="a flipped matrix"),
]


@pytest.mark.parametrize(("arrays", "compute", "indices", "families"), CASES)
def test_terms_are_stored_for_families_that_reduce(arrays, compute, indices, families):
    assert set(families_of(spec_of("M: 2000, N: 3000", arrays, compute, indices))) == families


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("arrays", "compute", "indices", "families"), CASES)
def test_their_results_are_right(arrays, compute, indices, families):
    with patch.object(stored_terms, "MIN_TERMS", 1):
        kernel = generate(spec_of("M: 370, N: 530", arrays, compute, indices), analysis=False)
    assert "y_terms" in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.parametrize(
    ("params", "arrays", "compute", "indices"),
    [
        pytest.param("M: 37, N: 130", "x [M + N - 1]; w [M, N]; y []", HANKEL, "", id="few terms"),
        pytest.param("N: 9000", "x [N]; y [N]", "y[i] = sum(exp(x[N - 1 - i] - x[j]), j)", "", id="all pairs"),
        pytest.param(
            "M: 2000, N: 3000",
            "x [M, N]; y [N]",
            "y[j] = sum(abs(x[i, j] - x[i, 0]) * x[M - 1 - i, N - 1 - j], i, where=i > j)",
            "",
            id="guarded reads",
        ),
    ],
)
def test_few_terms_all_pairs_and_guarded_ones_are_not(params, arrays, compute, indices):
    names = [array.name for array in generate(spec_of(params, arrays, compute, indices), analysis=False).plan.workspace]
    assert not any("terms" in name for name in names)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 5, 300])
def test_terms_of_a_reduction_in_a_scan_are_not(n):
    compute = "y[i] = cumsum(sum(x[j] * x[i], j), i, exclusive=true)"
    kernel = generate(spec_of(f"N: {n}", "x [N]; y [N]", compute), analysis=False)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


PERMUTED = {
    "an energy of orbitals": "y = sum(x[i, j, k, l] * (2 * x[i, j, k, l] - x[i, l, k, j]) / (w[i] + v[j]), i, j, k, l)",
    "an array and its transpose": "y = max(abs(x[i, j, k, l] - x[k, l, i, j]), i, j, k, l)",
}


@pytest.mark.parametrize("name", PERMUTED)
def test_terms_of_an_array_in_two_orders_are_stored_where_parts_of_one_index_leave_the_device_idle(name):
    used = "; w [A]; v [B]" if "w[" in PERMUTED[name] else ""
    spec = spec_of("A: 24, B: 60", f"x [A, B, A, B]; y []{used}", PERMUTED[name])
    assert set(families_of(spec)) == {"transpose", "reduce"}
    with patch.object(stored_terms, "MIN_TERMS", 1):
        kernel = generate(spec_of("A: 6, B: 17", f"x [A, B, A, B]; y []{used}", PERMUTED[name]), analysis=False)
    assert "y_terms" in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_terms_of_a_matrix_and_its_transpose_are_not_where_blocks_share_out_its_rows():
    assert set(families_of(spec_of("N: 3000", "x [N, N]; y []", "y = sum(abs(x[i, j] - x[j, i]), i, j)"))) == {
        "rowwise",
        "reduce",
    }
