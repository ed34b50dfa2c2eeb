"""Release flags and arrival counters of split-K and stream-K: zero before and after each launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.manifest import ArrayArgument
from cugen.families.gemm.selection import search_space
from cugen.families.gemm.stream_k_schedule import schedule_stream_k
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of

TEXT = """
params: {M: 65, N: 97, K: 256}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, %s}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("split", ["split_k: 4, reduction: workspace", "stream_k: 1"])
def test_launches_on_the_same_workspace_start_and_end_with_zeros(made, monkeypatch, split):
    def on_7_blocks(tiles, k_tiles, _, waves, threads):
        return schedule_stream_k(tiles, k_tiles, 7, waves, threads)

    monkeypatch.setattr(search_space, "schedule_stream_k", on_7_blocks)
    kernel = made(TEXT % split)
    flags, partials = kernel.manifest.workspace
    shown = ArrayArgument(flags.name, "inout", flags.dtype, flags.shape, (1,), flags.elements, 4)
    manifest = replace(kernel.manifest, arguments=(*kernel.manifest.arguments, shown), workspace=(partials,))
    generator = np.random.default_rng(5)
    inputs = {
        "A": generator.standard_normal((65, 256)).astype(np.float32),
        "B": generator.standard_normal((256, 97)).astype(np.float32),
        flags.name: np.zeros(flags.shape, np.uint32),
    }
    for seed in range(3):
        job = make_job(kernel.source, manifest, Inputs(inputs, {}), {})
        outputs = outputs_of(job, CpuDevice(workers=2, shuffle=seed).run(job))
        assert np.allclose(outputs["C"], inputs["A"].astype(np.float64) @ inputs["B"], atol=1e-3)
        assert not outputs[flags.name].any()
        inputs[flags.name] = outputs[flags.name]
