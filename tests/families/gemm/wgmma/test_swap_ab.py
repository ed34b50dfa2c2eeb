"""GEMMs by wgmma with swapped operands: C is computed transposed, in tiles of any multiple of 8 rows."""

from __future__ import annotations

import random
import re

import pytest

from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.cost_model import predict
from cugen.families.gemm.wgmma.selection import candidates, choose_config, configs, schedule_of
from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import contraction_of, product
from tests.families.gemm.wgmma.test_configs import instruction_of
from tests.families.gemm.wgmma.test_wgmma import EPILOGUES, OPERANDS
from tests.fuzz.bounds import bounds_faults

SWAPPED = "family: wgmma, swap_ab: true"
DEVICES = {"sanitised": {"sanitize": True}, "races": {"races": True, "uninitialised": True}}
BIASES = {
    "of columns": ("bias[n]", "  bias: {shape: [N], dtype: float32}"),
    "of rows": ("bias[m]", "  bias: {shape: [M], dtype: float32}"),
    "residual": ("R[m, n]", "  R: {shape: [M, N], dtype: bfloat16}"),
}
ADDED = "C[{c}] += sum({terms})"
# Rows and columns of tiles: an odd number of 8 rows, several parts of a tile, two matrices of a warpgroup, four warps.
BLOCKS = ((8, 64), (104, 64), (48, 128), (128, 192), (192, 64), (72, 256))

IMAGES = """
target: sm_90a
params: {Z: 2, H: 12, W: 14, I: 32, O: 72}
arrays:
  x: {shape: [Z, H, W, I], dtype: bfloat16}
  w: {shape: [O, 3, 3, I], dtype: bfloat16}
  y: {shape: [Z, 10, 12, O], dtype: bfloat16}
compute: y[z, p, q, o] = sum(x[z, p + r, q + s, i] * w[o, r, s, i], r, s, i)
"""


def kernel_of(text: str) -> Kernel:
    return generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)


def swapped(block: tuple[int, int], more: str = "") -> str:
    return f"{SWAPPED}, block: {{m: {block[0]}, n: {block[1]}}}{more}"


@pytest.mark.sampled(81)
@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("addend", BIASES.values(), ids=list(BIASES))
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_tiles_of_rows_beyond_the_output_equal_the_reference(
    block: tuple[int, int], layout: str, addend: tuple[str, str], device: dict[str, bool]
) -> None:
    """Operands are K-major and MN-major; results are stored by TMA as transposed matrices."""
    read, more = addend
    compute = f"C[{{c}}] = sum({{terms}}) + {read}"
    text = product(280, 264, 136, layout=layout, compute=compute, more=more, schedule=swapped(block))
    kernel = kernel_of(text)
    assert re.search(r"stmatrix_x[24]_trans\(&c_tile\[", kernel.source)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, shuffle=3, **device))
    assert run.verification.passed, "\n".join(run.verification.messages)


def drawn(seed: int) -> str:
    """A GEMM, from its seed alone."""
    source = random.Random(seed)
    a, b, results = OPERANDS[seed % len(OPERANDS)]
    sums = "int32" if "int8" in a else "float32"
    columns = source.choice((64, 128, 192)) if "float8" not in a else 64
    rows = source.choice((16, 48, 64, 96) if "int8" in a else (8, 24, 40, 64, 88, 104))
    forms = ("", ", stages: 2", ", producer: none", ", raster: 3", ", multicast: 2", ", multicast_n: 2")
    form = source.choice(forms if rows % 16 == 0 else forms[:4])
    layout = "nt" if "multicast" in form else source.choice(("nn", "nt", "tn", "tt"))
    kind, compute = source.choice(list(EPILOGUES.items()))
    batch = source.choice((0, 0, 3))
    of_batch = "Z, " if batch else ""
    more = {
        "bias": f"  bias: {{shape: [N], dtype: {sums}}}",
        "residual": f"  R: {{shape: [{of_batch}M, N], dtype: {sums}}}",
    }
    m, n = (source.choice((2 * tile + 2, tile, 2 * tile - 8, 3 * tile + 16)) for tile in (rows, columns))
    return product(
        m,
        n,
        source.choice((16, 80, 144, 208)),
        dtype=a,
        b_dtype=b,
        result=source.choice(results),
        layout=layout,
        batch=batch,
        compute=compute,
        more=more.get(kind.split()[0], ""),
        fp8=source.choice(("fast", "exact")),
        schedule=swapped((rows, columns), form),
    )


@pytest.mark.sampled(60)
@pytest.mark.parametrize("seed", range(120))
def test_a_drawn_gemm_with_swapped_operands_equals_the_reference(made, prove, seed: int) -> None:
    text = drawn(seed)
    assert list(bounds_faults(made(text), {})) == []
    prove(text, {}, sanitize=seed % 3 == 1, races=seed % 3 == 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("result", ["bfloat16", "float32"])
@pytest.mark.parametrize("compute", ["C[{c}] = sum({terms}) + R[m, n]", ADDED], ids=["R", "C"])
def test_a_matrix_whose_rows_begin_anywhere_is_loaded_by_rows(made, prove, compute: str, result: str) -> None:
    """A warp has consecutive elements of one row of C, with and without swapped operands."""
    more = BIASES["residual"][1] if "R[" in compute else ""
    text = product(141, 203, 136, result=result, compute=compute, more=more, schedule=swapped((72, 64)))
    assert "c_rows" in made(text).source
    (kernel,) = analyze(made(text)).kernels
    (loaded,) = (a for a in kernel.accesses if a.access.array.symbol in "RC" and a.access.kind == "load")
    assert loaded.totals is not None
    assert loaded.totals.sectors < 1.6 * loaded.ideal
    prove(text, races=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["multicast: 2", "multicast_n: 2", "stream_k: 1"])
def test_blocks_that_share_work_equal_the_reference(made, prove, form: str) -> None:
    """Stream-K; tiles of B for blocks along M, and of A for blocks along N, as without swapped operands."""
    sizes = (136 * 3, 64 * 47, 320) if "stream" in form else (256, 256, 320)
    block = (136, 64) if "stream" in form else (64, 64)
    text = product(*sizes, schedule=swapped(block, f", {form}"))
    if "multicast" in form:
        shared = "Bs" if form.startswith("multicast:") else "As"
        assert re.findall(r"multicast\(&(\w+)\[", made(text).source) == [shared]
    prove(text)


def test_windows_are_operands_of_either_side(made, prove) -> None:
    """Pixels of a convolution are the columns of an instruction."""
    text = f"{IMAGES}schedule: {{family: wgmma, swap_ab: true}}\n"
    assert "tma_load_im2col_4d(&xs[" in made(text).source
    prove(text)


def test_matrices_are_stored_without_bank_conflicts() -> None:
    for rows in (104, 128):  # two matrices at a time, and four
        report = analyze(kernel_of(product(256, 256, 256, schedule=swapped((rows, 128)))))
        (stored,) = (a for a in report.kernels[0].accesses if a.access.kind == "matrix_store")
        assert stored.totals is not None
        assert stored.totals.wavefronts == stored.ideal


def test_words_are_stored_in_whole_sectors() -> None:
    report = analyze(kernel_of(product(256, 256, 256, result="float32", schedule=swapped((128, 128)))))
    (stored,) = (a for a in report.kernels[0].accesses if a.access.array.symbol == "C")
    assert stored.totals is not None
    assert stored.totals.sectors == 256 * 256 * 4 // 32


def test_names_are_those_of_the_spec() -> None:
    """BM and m0 are of rows of C, though they are columns of an instruction."""
    source = kernel_of(product(400, 400, 128, schedule=swapped((104, 64)))).source
    assert "constexpr int BM = 104, BN = 64" in source
    assert re.search(r"const int m0 = .*BM", source)
    assert re.search(r"\(\*As\)\[BM\]\[BK\]", source)


# What is chosen, and refused


@pytest.mark.parametrize(
    ("text", "swaps"),
    [
        pytest.param(product(2560, 2560, 2560, layout="nn", schedule=""), True, id="tiles of 200 rows leave no tail"),
        pytest.param(product(4096, 4096, 4096, layout="nt", schedule=""), False, id="tiles of 128 x 256 either way"),
        pytest.param(product(2560, 2560, 2560, schedule="family: wgmma, split_k: 1"), False, id="beside split_k"),
        pytest.param(product(2560, 2560, 2560, schedule="family: wgmma, swap_ab: false"), False, id="on request"),
        pytest.param(product(2560, 2560, 2560, result="float32", schedule=""), True, id="results of 32 bits"),
        pytest.param(product(60_000, 40_000, 64, result="float32", schedule=""), False, id="offsets of 64 bits"),
        pytest.param(product(2560, 2560, 2560, result="float32", compute=ADDED, schedule=""), False, id="with a load"),
        pytest.param(product(2560, 2561, 2560, result="float32", compute=ADDED, schedule=""), True, id="by rows"),
        pytest.param(product(2560, 2560, 2560, compute=ADDED, schedule=""), True, id="by rows of 16 bits"),
    ],
)
def test_the_planner_swaps_operands_where_the_model_expects_less_time(text: str, swaps: bool) -> None:
    contraction = contraction_of(text)
    config = choose_config(contraction, instruction_of(contraction))
    assert isinstance(config, WgmmaConfig)
    assert config.swaps_ab == swaps


def test_a_matrix_of_aligned_rows_is_loaded_in_pairs_unless_a_search_asks() -> None:
    more = f"{BIASES['residual'][1]}\n{BIASES['of rows'][1].replace('float32', 'bfloat16')}"
    instruction = instruction_of(contraction_of(product(2560, 2560, 2560, schedule="")))
    for read, swaps in (("R[m, n]", False), ("bias[m]", True)):
        line = next(line for line in more.split("\n") if read.split("[")[0] in line)
        text = product(2560, 2560, 2560, compute=f"C[{{c}}] = sum({{terms}}) + {read}", more=line, schedule="")
        contraction = contraction_of(text)
        assert any(config.swaps_ab for config in configs(contraction, instruction)) == swaps
        assert any(config.swaps_ab for config in configs(contraction, instruction, is_search=True))


def test_images_are_swapped_on_request_alone() -> None:
    contraction = contraction_of(IMAGES)
    offered = list(configs(contraction, instruction_of(contraction), is_search=True))
    assert offered
    assert not any(config.swaps_ab for config in offered)


def test_a_search_has_tiles_that_divide_the_rows_evenly() -> None:
    contraction = contraction_of(product(152, 5392, 1824, schedule=""))
    searched = list(configs(contraction, instruction_of(contraction), is_search=True))
    rows = sorted({int(config.block_n) for config in searched if config.swaps_ab}, reverse=True)
    assert rows[:4] == [152, 80, 56, 40]
    assert any(schedule_of(contraction, config).tunables[-1] == ("swap_ab", True) for config in searched)


def test_a_searched_schedule_requests_its_config() -> None:
    contraction = contraction_of(product(2120, 1312, 2808, schedule=""))
    swaps = [s for s in candidates(contraction, instruction_of(contraction)) if ("swap_ab", True) in s.tunables]
    instruction = instruction_of(contraction)
    for schedule in swaps[:: max(len(swaps) // 12, 1)]:
        block = ", ".join(f"{name}: {size}" for name, size in schedule.block)
        tunables = ", ".join(f"{name}: {str(value).lower()}" for name, value in schedule.tunables)
        text = product(2120, 1312, 2808, schedule=f"family: wgmma, block: {{{block}}}, {tunables}")
        requested = contraction_of(text)
        config = choose_config(requested, instruction)
        assert schedule_of(requested, config).tunables == schedule.tunables  # type: ignore[arg-type]
        assert predict(requested, config) > 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "reason", "key"),
    [
        (", block: {m: 100}", "has tiles with N of 64, 128, 192, 256, and M a multiple of 8 up to 256", "block"),
        (", block: {n: 96}", "has tiles with N of 64, 128, 192, 256, and M a multiple of 8 up to 256", "block"),
        (", split_k: 2", "has `swap_ab` without `split_k`", "swap_ab"),
        (", epilogue: stmatrix", "writes the transposed tiles of `swap_ab` in one way", "epilogue"),
        (", multicast: 4, multicast_n: 4", "shares tiles of B and of A in clusters of up to 8 blocks", "multicast"),
        (", block: {n: 64, m: 48}, multicast_n: 4", "shares tiles of A in clusters", "multicast_n"),
    ],
)
def test_other_schedules_are_refused(reasons, more: str, reason: str, key: str) -> None:
    refusals = reasons("wgmma", product(256, 256, 512, schedule=f"{SWAPPED}{more}"))
    assert [r for r in refusals if reason in r.reason and r.key == f"schedule.{key}"], refusals


@pytest.mark.parametrize(("rows", "is_taken"), [(40, False), (48, True)])
def test_rows_of_integers_are_multiples_of_16(reasons, rows: int, is_taken: bool) -> None:
    """As the instruction has no others beyond 24 (PTX ISA)."""
    refusals = reasons("wgmma", product(256, 256, 256, dtype="int8", schedule=swapped((rows, 64))))
    assert any("M a multiple of 16 up to 256" in refusal.reason for refusal in refusals) != is_taken


# Machine code, and traces


@pytest.mark.slow
@pytest.mark.parametrize("block", [(152, 64), (256, 128), (112, 256), (248, 128), (128, 192)], ids=str)
@pytest.mark.parametrize("addend", ["", " + bias[n]", " + R[m, n]"])
def test_swapped_operands_need_no_spills(made, block: tuple[int, int], addend: str) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    more = "\n".join(text for read, text in BIASES.values() if read in addend)
    compute = f"C[{{c}}] = maximum(sum({{terms}}){addend}, 0)"
    kernel = made(product(4096, 4096, 4096, compute=compute, more=more, schedule=swapped(block)))
    assert compile_cubin(kernel.source, "k", "sm_90a").warnings == ()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [40, 48])
def test_traced_rows_of_transposed_matrices_are_those_of_the_plan(made, rows: int) -> None:
    kernel = made(product(72, 40, 72, schedule=swapped((rows, 64))))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
