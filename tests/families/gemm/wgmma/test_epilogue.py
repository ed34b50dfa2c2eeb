"""Epilogues that store by TMA: which bounds they check, and which earlier stores they wait for."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.families.gemm.wgmma.conftest import product

SUMS, WITH_BIAS, WITH_RESIDUAL = "sum({terms})", "sum({terms}) + bias[n]", "sum({terms}) + R[m, n]"
MORE = {
    SUMS: "",
    WITH_BIAS: "  bias: {shape: [N], dtype: float32}",
    WITH_RESIDUAL: "  R: {shape: [M, N], dtype: bfloat16}",
}


@pytest.mark.parametrize(
    ("m", "n", "value", "checks"),
    [
        pytest.param(200, 104, SUMS, [], id="no array is read"),
        pytest.param("dynamic", 128, WITH_BIAS, [], id="an array of the columns, which are whole tiles"),
        pytest.param("dynamic", 192, WITH_BIAS, ["n0 + 64 * chunk < N"], id="columns of whole chunks"),
        pytest.param(200, 104, WITH_BIAS, ["n < N"], id="columns of parts of chunks"),
        pytest.param(200, 128, WITH_RESIDUAL, ["m < M"], id="rows"),
        pytest.param(200, 192, WITH_RESIDUAL, ["n0 + 64 * chunk < N", "m < M"], id="rows, and columns of whole chunks"),
        pytest.param(200, 104, WITH_RESIDUAL, ["m < M && n < N"], id="rows and columns"),
        pytest.param(256, 256, WITH_RESIDUAL, [], id="whole tiles"),
    ],
)
def test_indices_are_checked_where_arrays_are_read(m: object, n: int, value: str, checks: list[str]) -> None:
    """TMA leaves out results beyond the output."""
    schedule = "family: wgmma, block: {m: 64, n: 128}"
    text = product(m, n, 128, compute=f"C[{{c}}] = {value}", more=MORE[value], schedule=schedule)
    source = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False).source
    (epilogue,) = re.findall(r"c_swizzle = .*?\n}\n", source, re.DOTALL)
    conditions = re.findall(r"if \((.*)\) {", epilogue)
    assert [condition for condition in conditions if "thread" not in condition] == checks


@pytest.mark.parametrize(
    ("m", "n", "k", "waits"),
    [
        pytest.param(64, 64, 128, 0, id="one chunk of the only output tile"),
        pytest.param(64, 128, 128, 0, id="a buffer for each of its chunks"),
        pytest.param(64, 256, 128, 0, id="a buffer for each of four, beside two stages"),
        pytest.param(64, 256, 320, 1, id="more chunks than buffers, beside five"),
        pytest.param(64 * 133, 64, 128, 1, id="an output tile after another"),
        pytest.param(64 * 133, 128, 320, 1, id="an output tile after another, stored at once"),
    ],
)
def test_a_buffer_is_waited_for_where_it_is_used_again(m: int, n: int, k: int, waits: int) -> None:
    text = product(m, n, k, schedule=f"family: wgmma, block: {{m: 64, n: {n}}}")
    source = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False).source
    (epilogue,) = re.findall(r"c_swizzle = .*?\n}\n", source, re.DOTALL)
    assert epilogue[: epilogue.index("tma_store_2d")].count("tma_store_wait_read<") == waits


@pytest.mark.parametrize(("stages", "loops"), [(4, 2), (5, 1)], ids=["it has", "more stages"])
def test_a_tile_is_stored_after_one_barrier_where_memory_has_a_buffer_for_each_part(stages: int, loops: int) -> None:
    """One loop writes all parts, and another one stores them."""
    text = product(64, 256, 512, schedule=f"family: wgmma, block: {{m: 64, n: 256}}, stages: {stages}, split_k: 1")
    source = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False).source
    (epilogue,) = re.findall(r"c_swizzle = .*?\n}\n", source, re.DOTALL)
    assert epilogue[: epilogue.index("tma_store_2d")].count("for (int chunk") == loops


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("n", "is_by_tma"), [(101, False), (102, True)])
def test_aligned_rows_of_an_odd_number_of_columns_are_stored_by_element(n: int, is_by_tma: bool) -> None:
    """A lane has pairs of columns in registers, of which the last would be one column."""
    text = product(64, n, 64, more="", schedule="family: wgmma").replace(
        "C: {shape: [M, N], dtype: bfloat16", "C: {shape: [M, N], dtype: bfloat16, pitch: {align: 16}"
    )
    assert "pitch" in text
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    assert ("tma_store_2d" in kernel.source) == is_by_tma
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages
