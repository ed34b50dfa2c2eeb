"""Stream-K by wgmma: right results for every overlap of tiles and ranges of k-tiles, and the same bits in any order."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from cugen.abi.manifest import ArrayArgument
from cugen.families.gemm.stream_k_schedule import schedule_stream_k
from cugen.families.gemm.wgmma.split import work_units
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import product
from tests.families.gemm.wgmma.test_wgmma import EPILOGUES, OPERANDS

BLOCKS = ((64, 32), (64, 48), (64, 80), (128, 64), (192, 32), (256, 32))


@pytest.fixture
def resident(monkeypatch):
    """Makes the target a device with so many multiprocessors."""

    def set_resident(count: int) -> None:
        def schedule(tiles, k_tiles, _, waves, threads):
            return schedule_stream_k(tiles, k_tiles, count, waves, threads)

        monkeypatch.setattr(work_units, "schedule_stream_k", schedule)

    return set_resident


def stream_k(m, n, k, waves=1, *, block=(64, 64), **options):
    schedule = f"family: wgmma, block: {{m: {block[0]}, n: {block[1]}}}, stream_k: {waves}"
    return product(m, n, k, schedule=schedule, **options)


def draw(seed: int) -> tuple[str, int, str]:
    """A GEMM with stream-K, the number of multiprocessors, and the mode in which it is run."""
    source = random.Random(seed)
    a, b, results = OPERANDS[seed % len(OPERANDS)]
    sums = "int32" if "int8" in a else "float32"
    fp8 = source.choice(("fast", "exact"))
    block_m, block_n = source.choice(BLOCKS)
    m, n = (source.randrange(1, 3) * tile + source.randrange(-9, 9) for tile in (block_m, block_n))
    k = source.randrange(2, 40) * 32 + source.choice((0, 0, 3, 16))
    kind, compute = source.choice(list(EPILOGUES.items()))
    batch = source.choice((0, 0, 2))
    of_batch = "Z, " if batch else ""
    more = {
        "bias": f"  bias: {{shape: [N], dtype: {sums}}}",
        "residual": f"  R: {{shape: [{of_batch}M, N], dtype: {sums}}}",
    }
    text = stream_k(
        m,
        n,
        k,
        source.choice((1, 2)),
        block=(block_m, block_n),
        dtype=a,
        b_dtype=b,
        result=source.choice(results),
        layout=source.choice(("nn", "nt", "tn", "tt")),
        batch=batch,
        compute=compute,
        more=more.get(kind.split()[0], ""),
        fp8=fp8,
    )
    return text, source.choice((2, 3, 5, 7, 11)), source.choice(("", "", "sanitize", "races"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(64))
def test_a_drawn_gemm_equals_the_reference(made, prove, resident, seed: int) -> None:
    text, count, mode = draw(seed)
    resident(count)
    assert made(text).plan.kernels[-1].family == "wgmma"
    prove(text, sanitize=mode == "sanitize", races=mode == "races")


@pytest.mark.slow
def test_the_draws_share_tiles_of_every_type(made, resident) -> None:
    shared = set[str]()
    for seed in range(64):
        text, count, _ = draw(seed)
        resident(count)
        if "stream-K" in made(text).plan.kernels[-1].reasons[0]:
            shared.add(OPERANDS[seed % len(OPERANDS)][0])
    assert shared == {a for a, _, _ in OPERANDS}


def test_it_is_one_launch_of_as_many_blocks_as_are_resident(made) -> None:
    kernel = made(stream_k(2056, 5000, 1304, block=(256, 192), layout="nn"))
    (launch,) = kernel.plan.kernels
    assert kernel.manifest.launches[0].grid == (132, 1, 1)
    assert [(space.name, space.left_zero, space.elements) for space in kernel.manifest.workspace] == [
        ("C_flags", True, 133),
        ("C_partials", False, 132 * 256 * 192),
    ]
    assert "stream-K: 132 blocks compute a whole tile each, then divide the k-tiles of 111 tiles" in launch.reasons[0]


def test_producer_and_consumers_call_one_function_for_a_work_unit(made) -> None:
    source = made(stream_k(2056, 5000, 1304)).source
    assert source.count("k_work_unit(block_id, work_unit);") == 2
    assert source.count("const int range_begin = ") == 1


def test_a_block_of_one_work_unit_has_no_loop_over_them(made) -> None:
    kernel = made(stream_k(512, 512, 4096, block=(128, 64)))
    assert kernel.source.count("k_work_unit(block_id);") == 2
    assert "work_unit <" not in kernel.source


def test_partial_sums_are_stored_in_whole_vectors_of_16_bytes(made) -> None:
    source = made(stream_k(2056, 5000, 1304)).source
    assert "store<4>(&C_partials[" in source
    assert "load<4>(&C_partials[" in source


@pytest.mark.parametrize(("m", "n", "k"), [(6144, 2304, 8192), (256, 256, 524_288), (1024, 1024, 1024)])
def test_unasked_there_is_none(planned, m, n, k) -> None:
    assert "stream-K" not in planned(product(m, n, k, layout="nn", schedule="family: wgmma")).reasons[0]


def test_whole_tiles_for_every_block_need_no_stream_k(planned) -> None:
    assert not planned(stream_k(64, 64, 256)).workspace


@pytest.mark.parametrize(
    ("sizes", "more", "why"),
    [
        (("dynamic", 512, 4096), "", "needs static sizes"),
        ((60_000, 40_000, 4096), "", "too many waves"),
        ((512, 512, 4096), ", split_k: 2", "exclude each other"),
        ((512, 512, 4096), ", multicast: 2", "share no tiles"),
    ],
    ids=["dynamic", "large", "split", "multicast"],
)
def test_an_invalid_stream_k_is_refused(reasons, sizes, more, why) -> None:
    text = stream_k(*sizes, result="float32").replace("stream_k: 1", f"stream_k: 1{more}")
    assert [why in refusal.reason for refusal in reasons("wgmma", text)] == [True]


@pytest.fixture
def operands():
    draw_normal = partial(np.random.default_rng(6).standard_normal, dtype=np.float32)
    values = {"A": draw_normal((150, 2000)), "B": draw_normal((2000, 136))}
    return {name: value.astype(ml_dtypes.bfloat16) for name, value in values.items()}


def test_reruns_in_any_order_of_blocks_give_the_same_bits(made, resident, operands) -> None:
    resident(7)
    kernel = made(stream_k(150, 136, 2000, layout="nn"))
    job = make_job(kernel.source, kernel.manifest, Inputs(operands, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(4)]
    first, *reruns = (outputs_of(job, device.run(job))["C"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(repeated == first for repeated in reruns)


@pytest.mark.slow
def test_launches_on_the_same_workspace_start_and_end_with_zeros(made, resident, operands) -> None:
    resident(7)
    kernel = made(stream_k(150, 136, 2000, layout="nn", result="float32"))
    flags, partials = kernel.manifest.workspace
    shown = ArrayArgument(flags.name, "inout", flags.dtype, flags.shape, (1,), flags.elements, 4)
    manifest = replace(kernel.manifest, arguments=(*kernel.manifest.arguments, shown), workspace=(partials,))
    inputs = {**operands, flags.name: np.zeros(flags.shape, np.uint32)}
    expected = operands["A"].astype(np.float64) @ operands["B"].astype(np.float64)
    for seed in range(3):
        job = make_job(kernel.source, manifest, Inputs(inputs, {}), {})
        outputs = outputs_of(job, CpuDevice(workers=2, shuffle=seed).run(job))
        assert np.allclose(outputs["C"], expected, atol=1e-2)
        assert not outputs[flags.name].any()
        inputs[flags.name] = outputs[flags.name]


@pytest.mark.slow
def test_traced_accesses_match_the_plan(made, resident) -> None:
    resident(4)
    kernel = made(stream_k(130, 100, 640, result="float32"))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


@pytest.mark.slow
@pytest.mark.parametrize("block", [(64, 256), (128, 256), (192, 128), (256, 192)], ids=str)
def test_it_compiles_without_warnings_and_spills(made, block) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    kernel = made(stream_k(2056, 5000, 1304, block=block))
    assert compile_cubin(kernel.source, "k", "sm_90a").warnings == ()
