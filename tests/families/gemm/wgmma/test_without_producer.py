"""GEMMs by wgmma without a producer: right results, refusals, searches, and machine code without spills."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cugen.families.gemm.config import WARP
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.cost_model import predict
from cugen.families.gemm.wgmma.selection import candidates, configs, schedule_of
from cugen.machine.wgmma import WARPGROUP
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.model import Schedule
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import contraction_of, product
from tests.families.gemm.wgmma.test_configs import instruction_of
from tests.families.gemm.wgmma.test_wgmma import EPILOGUES, OPERANDS

BLOCKS = ((64, 32), (64, 80), (64, 128), (128, 64), (128, 112), (192, 64), (256, 32))


def without_producer(
    *sizes: object, block: tuple[int, int] = (128, 64), more: str = "", arrays: str = "", **options
) -> str:
    schedule = f"family: wgmma, producer: none, swap_ab: false, block: {{m: {block[0]}, n: {block[1]}}}{more}"
    return product(*sizes, more=arrays, schedule=schedule, **options)


def draw(seed: int) -> tuple[str, dict[str, int], str]:
    """A GEMM, the params of its call, and the mode in which it is run."""
    source = random.Random(seed)
    a, b, results = OPERANDS[seed % len(OPERANDS)]
    sums = "int32" if "int8" in a else "float32"
    block_m, block_n = source.choice(BLOCKS)
    m, n = (source.randrange(1, 3) * tile + source.randrange(-9, 9) for tile in (block_m, block_n))
    k = source.randrange(1, 20) * 32 + source.choice((0, 0, 3, 16))
    kind, compute = source.choice(list(EPILOGUES.items()))
    batch = source.choice((0, 0, 2))
    of_batch = "Z, " if batch else ""
    arrays = {
        "bias": f"  bias: {{shape: [N], dtype: {sums}}}",
        "residual": f"  R: {{shape: [{of_batch}M, N], dtype: {sums}}}",
    }
    params = {"M": m, "K": k} if source.random() < 0.3 else {}
    text = without_producer(
        "dynamic" if params else m,
        n,
        f"{{range: [{min(k, 129)}, 4096]}}" if params else k,
        block=(block_m, block_n),
        more=source.choice(("", ", stages: 2", ", stages: 3", ", raster: 2")),
        dtype=a,
        b_dtype=b,
        result=source.choice(results),
        layout=source.choice(("nn", "nt", "tn", "tt")),
        batch=batch,
        compute=compute,
        arrays=arrays.get(kind.split()[0], ""),
        fp8=source.choice(("fast", "exact")),
    )
    return text, params, source.choice(("", "", "sanitize", "races"))


@pytest.mark.sampled(96)
@pytest.mark.parametrize("seed", range(70))
def test_a_drawn_gemm_equals_the_reference(made, prove, seed: int) -> None:
    text, params, mode = draw(seed)
    kernel = made(text).plan.kernels[-1]
    assert "one thread of which copies" in kernel.reasons[0]
    prove(text, params, sanitize=mode == "sanitize", races=mode == "races")


def test_the_draws_meet_every_case() -> None:
    texts = [draw(seed)[0] for seed in range(70)]
    features = ("bias", "R[", "+=", "maximum", "dynamic", "Z: 2", "stages: 2", "raster: 2", "fp8: exact")
    for feature in (*features, *{operand for a, b, _ in OPERANDS for operand in (a, b)}):
        assert any(feature in text for text in texts), feature


@pytest.mark.slow
def test_a_convolution_has_no_producer_either(made, prove) -> None:
    text = """
target: sm_90a
params: {N: 2, H: 9, W: 8, C: 64, K: 32}
arrays:
  x: {shape: [N, H, W, C], dtype: bfloat16, boundary: zero}
  f: {shape: [K, 3, 3, C], dtype: bfloat16}
  y: {shape: [N, H, W, K], dtype: bfloat16}
compute: y[n, p, q, k] = sum(x[n, p + r - 1, q + s - 1, c] * f[k, r, s, c], r, s, c)
schedule: {family: wgmma, producer: none, stages: 3}
"""
    assert made(text).source.count("tma_load_im2col_4d(&xs[") == 2  # before the main loop, and in it
    prove(text, races=True)


FAULTY = without_producer(136, 136, 520, block=(128, 64), more=", stages: 3")
FULL_WAIT = "mbarrier_wait(&full[stage], full_parity);"
BYTES = ", 2 * BK * BM + 2 * BK * BN);"
# What is replaced, in which of its places, and by what; the kind of the fault, and a part of its message.
PLANTED = {
    "no wait for a full stage": (FULL_WAIT, 0, "", "race", "has not written yet: no wait for it"),
    "the other parity": ("full_parity = 0", 0, "full_parity = 1", "race", "has not written yet"),
    "no wait for wgmma": ("wgmma_wait<1>();", 0, "", "race", "a TMA load to operands of the wgmma"),
    "no wait for the sums": ("wgmma_wait<0>();", 0, "", "undefined", "a thread ends before the wgmma"),
    "no barrier before a refill": ("__syncthreads();", 1, "", "race", "has read, with no barrier since then"),
    "no barrier after the initialisation": ("__syncthreads();", 0, "", "race", "with no barrier since"),
    "too few bytes": (BYTES, 1, ", 2 * BK * BM);", "race", "has not written yet"),
    "too many bytes": (BYTES, 0, ", 2 * BK * BM + 2 * BK * BN + 16);", "hang", "lacks 0 of 1 arrivals and 16 bytes"),
    "a copy beyond the last": (" && prefetch_k < K", 0, "", "undefined", "the block ends before the TMA load"),
    "a k-tile that is not copied": ("prefetch_k < K", 0, "prefetch_k + BK < K", "hang", "lacks 1 of 1 arrivals"),
    "a refill of the current stage": ("(stage + STAGES - 1) % STAGES", 0, "stage", "race", "operands of the wgmma"),
    "copies by two threads": (
        "thread == 0 && prefetch_k",
        0,
        "thread < 2 && prefetch_k",
        "undefined",
        "has had all its 1",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "number", "planted", "kind", "message"), PLANTED.values(), ids=list(PLANTED))
def test_a_planted_fault_is_found(made, text: str, number: int, planted: str, kind: str, message: str) -> None:
    kernel = made(FAULTY)
    parts = kernel.source.split(text)
    source = text.join(parts[: number + 1]) + planted + text.join(parts[number + 1 :])
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, limit_seconds=20.0))
    (fault,) = run.outcome.faults
    assert (fault.kind, message in fault.message) == (kind, True), fault


def test_unasked_there_is_a_producer(planned) -> None:
    kernel = planned(product(4096, 4096, 4096, schedule="family: wgmma"))
    assert "consumer warpgroups" in kernel.reasons[0]
    assert kernel.threads % WARPGROUP == WARP


def test_a_block_has_its_consumers_alone_and_one_output_tile(planned) -> None:
    kernel = planned(without_producer(4096, 4096, 4096, block=(128, 256)))
    assert kernel.threads == 2 * WARPGROUP
    assert kernel.grid[0] == 32 * 16


def test_k_tiles_that_fit_the_stages_need_no_barrier_in_the_main_loop(made) -> None:
    source = made(without_producer(256, 256, 192, more=", stages: 3")).source
    assert source.count("__syncthreads();") == 1
    assert source.count("tma_load_2d(&As[") == 1


@pytest.mark.parametrize("shared", ["split_k: 2", "stream_k: 1", "multicast: 2"])
def test_blocks_without_a_producer_share_nothing(reasons, shared: str) -> None:
    (refusal,) = reasons("wgmma", without_producer(512, 512, 4096, more=f", {shared}"))
    assert "without one a block computes an output tile alone" in refusal.reason
    assert refusal.key == f"schedule.{shared.partition(':')[0]}"


def test_a_search_times_both_forms_unless_the_schedule_says_which() -> None:
    def forms(schedule: str) -> set[bool]:
        contraction = contraction_of(product(2048, 2048, 2048, schedule=f"family: wgmma{schedule}"))
        found = configs(contraction, instruction_of(contraction), is_search=True)
        return {config.has_producer for config in found}

    assert forms("") == {True, False}
    assert forms(", producer: warp") == forms(", split_k: 1") == {True}
    assert forms(", producer: none") == {False}


def test_the_model_expects_no_gain_of_a_tile_without_a_producer() -> None:
    """Nobody copies the first k-tiles of an output tile during the epilogue of the one before."""
    contraction = contraction_of(product(4096, 4096, 4096, schedule="family: wgmma, block: {m: 128, n: 256}"))
    (form,) = configs(contraction_of(without_producer(4096, 4096, 4096, block=(128, 256))), instruction_of(contraction))
    specialised = replace(form, has_producer=True)
    assert predict(contraction, form) > predict(contraction, specialised)


def test_a_searched_schedule_gives_its_config() -> None:
    contraction = contraction_of(product(2048, 2048, 2048, schedule="family: wgmma, producer: none"))
    (first, *_) = candidates(contraction, instruction_of(contraction))
    assert dict(first.tunables)["producer"] == "none"
    made = contraction_of(product(2048, 2048, 2048, schedule=_text_of(first)))
    (config,) = configs(made, instruction_of(made))
    assert schedule_of(made, config) == first


def _text_of(schedule: Schedule) -> str:
    block = ", ".join(f"{name}: {size}" for name, size in schedule.block)
    tunables = ", ".join(f"{name}: {value}" for name, value in schedule.tunables)
    return f"family: wgmma, block: {{{block}}}, {tunables}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        pytest.param("bfloat16", {"layout": "nt"}, id="bfloat16"),
        pytest.param("float16", {"layout": "nn"}, marks=pytest.mark.slow, id="float16"),
        pytest.param("float8_e4m3", {"fp8": "fast"}, marks=pytest.mark.slow, id="float8"),
        pytest.param("float8_e4m3", {"fp8": "exact"}, marks=pytest.mark.slow, id="exact float8"),
        pytest.param("int8", {}, marks=pytest.mark.slow, id="int8"),
        pytest.param("float32", {}, marks=pytest.mark.slow, id="tf32"),
    ],
)
def test_the_largest_accumulators_need_no_spills(made, dtype: str, more: dict[str, str]) -> None:
    """Of 255 registers, without setmaxnreg; ptxas neither spills nor serialises wgmmas (C7510, C7511)."""
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    schedule = "family: wgmma, producer: none, swap_ab: false"
    open_text = product(2056, 5000, 1304, dtype=dtype, schedule=schedule, **more)
    contraction = contraction_of(open_text)
    largest = max(configs(contraction, instruction_of(contraction)), key=_accumulators)
    block = int(largest.block_m), int(largest.block_n)
    kernel = made(without_producer(2056, 5000, 1304, dtype=dtype, block=block, **more))
    compiled = compile_cubin(kernel.source, "k", "sm_90a")
    assert compiled.warnings == ()
    assert not any(used.spill_stores for used in compiled.kernels.values())


def _accumulators(config: WgmmaConfig) -> int:
    return config.thread_m * config.thread_n
