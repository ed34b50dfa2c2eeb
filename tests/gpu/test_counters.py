"""Nsight Compute's counters of this machine's GPU against the predictions."""

import json

import pytest

from cugen.emit.resources import data_folder
from tests.benchmarks import benchmark

pytestmark = pytest.mark.gpu

KERNELS = (
    "matmul_tiled_even",
    "transpose_swizzled",
    "blur5x5",
    "layer_norm",
    "full_sum",
    "ladder_1_naive",
    "ladder_6_stages",
    "ladder_8_wide",
    "gemm_wgmma_f16",
    "gemm_wgmma_fp8",
)


def test_counters_of_gallery_kernels_equal_their_predictions(tmp_path):
    counters = benchmark("machine.counters")
    if reason := counters.missing():
        pytest.skip(f"NO GPU, NOT TESTED: {reason}")
    specs = data_folder("specs")
    counters.capture(tmp_path, specs, KERNELS)
    assert counters.compare(tmp_path, specs, tmp_path / "result.json") == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["summary"]["counters"]["equal"] >= 8 * len(KERNELS)
