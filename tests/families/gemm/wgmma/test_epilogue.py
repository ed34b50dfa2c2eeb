"""Epilogues that store by TMA: which bounds they check, and which earlier stores they wait for."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.plan.nodes import StoreMatrix
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import product

SUMS, WITH_BIAS, WITH_RESIDUAL = "sum({terms})", "sum({terms}) + bias[n]", "sum({terms}) + R[m, n]"
MORE = {
    SUMS: "",
    WITH_BIAS: "  bias: {shape: [N], dtype: float32}",
    WITH_RESIDUAL: "  R: {shape: [M, N], dtype: bfloat16}",
}


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "is_by_tma"), [(101, False), (102, True)])
def test_aligned_rows_of_an_odd_number_of_columns_are_stored_by_element(n: int, is_by_tma: bool) -> None:
    """A lane has pairs of columns in registers, of which the last would be one column."""
    text = product(64, n, 64, more="", schedule="family: wgmma, swap_ab: false").replace(
        "C: {shape: [M, N], dtype: bfloat16", "C: {shape: [M, N], dtype: bfloat16, pitch: {align: 16}"
    )
    assert "pitch" in text
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    assert ("tma_store_2d" in kernel.source) == is_by_tma
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages


# Matrices of 8 x 8 by stmatrix, on request

STMATRIX = "family: wgmma, epilogue: stmatrix"
DEVICES = {"sanitised": {"sanitize": True}, "races": {"races": True, "uninitialised": True}}


def source_of(text: str) -> str:
    return generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False).source


def test_pairs_are_stored_unasked() -> None:
    assert "stmatrix" not in source_of(product(4096, 4096, 4096))


@pytest.mark.sampled(30)
@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("value", [SUMS, WITH_BIAS, WITH_RESIDUAL], ids=["sums", "bias", "residual"])
@pytest.mark.parametrize("block", [(64, 64), (128, 96), (64, 80), (256, 32)], ids=str)
def test_stored_matrices_equal_the_reference(block: tuple[int, int], value: str, device: dict[str, bool]) -> None:
    """In swizzled rows of 128, 64 and 32 bytes; of rows and columns beyond the output, too."""
    compute = f"C[{{c}}] = {value}"
    schedule = f"{STMATRIX}, block: {{m: {block[0]}, n: {block[1]}}}"
    text = product(264, 104, 136, compute=compute, more=MORE[value], schedule=schedule)
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    assert "stmatrix_x4(&c_tile[" in kernel.source
    device_of = CpuDevice(workers=1, shuffle=3, **device)
    run = verify(kernel.spec, kernel.source, kernel.manifest, device_of)
    assert run.verification.passed, "\n".join(run.verification.messages)


def test_a_matrix_without_the_fence_of_its_lanes_is_a_race() -> None:
    """The rows that lanes write are those that TMA reads."""
    text = product(64, 64, 128, schedule=f"{STMATRIX}, block: {{m: 64, n: 64}}")
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    before, _, after = kernel.source.rpartition("fence_proxy_async();")  # of the epilogue
    (fault,) = verify(kernel.spec, before + after, kernel.manifest, CpuDevice(races=True)).outcome.faults
    assert (fault.kind, "no fence.proxy.async since" in fault.message) == ("race", True)


@pytest.mark.parametrize(
    ("result", "more"),
    [("float32", ""), ("bfloat16", ", split_k: 2")],
    ids=["elements of 32 bits", "partial sums"],
)
def test_results_that_registers_store_have_no_matrices(reasons, result: str, more: str) -> None:
    text = product(128, 128, 512, result=result, schedule=f"{STMATRIX}{more}")
    (refusal,) = reasons("wgmma", text)
    assert refusal.key == "schedule.epilogue"
    assert "has `stmatrix` for results that TMA stores" in refusal.reason


def test_no_split_of_k_is_chosen_for_matrices(planned) -> None:
    sizes = 64, 64, 16384
    assert planned(product(*sizes, schedule="family: wgmma")).cluster > 1
    kernel = planned(product(*sizes, schedule=STMATRIX))
    assert any(isinstance(node, StoreMatrix) for node in walk_nodes(kernel.body))


def test_matrices_take_as_many_wavefronts_as_pairs() -> None:
    """Four of an instruction for four matrices, by the model; the instructions are a quarter."""

    def stores(schedule: str) -> dict[str, tuple[int, int]]:
        text = product(256, 256, 256, schedule=f"{schedule}, block: {{m: 128, n: 128}}")
        report = analyze(generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0]))
        (launch,) = report.kernels
        found = [a for a in launch.accesses if a.access.array.symbol == "c_tile" and "store" in a.access.kind]
        return {a.access.kind: (a.totals.wavefronts, a.totals.requests) for a in found}

    (pairs,), (matrices,) = stores("family: wgmma").values(), stores(STMATRIX).values()
    assert pairs[0] == matrices[0]
    assert pairs[1] == 4 * matrices[1]


@pytest.mark.slow
@pytest.mark.parametrize("block", [(128, 256), pytest.param((256, 192), marks=pytest.mark.slow)], ids=str)
def test_matrices_need_no_spills(made, block: tuple[int, int]) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    kernel = made(product(4096, 4096, 4096, schedule=f"{STMATRIX}, block: {{m: {block[0]}, n: {block[1]}}}"))
    assert compile_cubin(kernel.source, "k", "sm_90a").warnings == ()


@pytest.mark.slow
def test_traced_rows_are_those_of_the_plan(made) -> None:
    kernel = made(product(72, 40, 72, schedule=f"{STMATRIX}, block: {{m: 64, n: 80}}"))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches


# Rows of elements below a word that TMA can't store, through shared memory

ROWS = "family: wgmma, swap_ab: {swap}, block: {{{m}: {bm}, {n}: {bn}}}{more}"


def rows(m: int, n: int, *, swap: bool, block: tuple[int, int] = (64, 64), value: str = SUMS, more: str = "") -> str:
    """The text of a GEMM whose rows of C are odd."""
    names = ("n", "m") if swap else ("m", "n")
    schedule = ROWS.format(swap=str(swap).lower(), m=names[0], n=names[1], bm=block[0], bn=block[1], more=more)
    return product(m, n, 136, compute=f"C[{{c}}] = {value}", more=MORE[value], schedule=schedule)


@pytest.mark.sampled(33)
@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("value", [SUMS, WITH_BIAS, WITH_RESIDUAL], ids=["sums", "bias", "residual"])
@pytest.mark.parametrize("block", [(64, 64), (128, 96), (192, 40), (256, 32)], ids=str)
@pytest.mark.parametrize("swap", [False, True], ids=["plain", "swapped"])
def test_odd_rows_equal_the_reference(swap: bool, block: tuple[int, int], value: str, device: dict[str, bool]) -> None:
    block = block if swap or block[1] % 16 == 0 else (block[0], 48)
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{rows(267, 269, swap=swap, block=block, value=value)}")[0])
    assert "c_rows[" in kernel.source
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, shuffle=3, **device))
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.parametrize("swap", [False, True], ids=["plain", "swapped"])
def test_odd_rows_pass_through_shared_memory_without_bank_conflicts(swap: bool) -> None:
    report = analyze(generate(load_text(f"cugen: 1\nkernel: k\n{rows(256, 193, swap=swap)}")[0]))
    through = [a for a in report.kernels[-1].accesses if a.access.array.symbol == "c_rows"]
    assert {a.access.kind for a in through} == {"load", "store"}
    assert all(a.verdict == "ideal" for a in through)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [2, 70, 101])
@pytest.mark.parametrize("swap", [False, True], ids=["plain", "swapped"])
def test_rows_of_words_that_begin_within_a_sector_are_right(n: int, swap: bool, prove) -> None:
    text = (
        rows(100, n, swap=swap)
        .replace("bfloat16", "int8")
        .replace("C: {shape: [M, N], dtype: int8", "C: {shape: [M, N], dtype: int32")
    )
    assert "c_rows[" in source_of(text)
    prove(text, races=True)


def test_even_rows_are_stored_in_pairs_unless_operands_are_swapped() -> None:
    assert ["c_rows[" in source_of(rows(256, 194, swap=swap)) for swap in (False, True)] == [False, True]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("swap", [False, True], ids=["plain", "swapped"])
def test_odd_rows_of_distributed_tiles_are_right(swap: bool, prove) -> None:
    prove(rows(320, 513, swap=swap, block=(64, 64), more=", stream_k: 1"), races=True)
