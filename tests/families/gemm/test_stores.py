"""Stores through shared memory: when they are chosen, their sectors and bank conflicts, and results of every form."""

from __future__ import annotations

from random import Random

import pytest

from cugen.kernel_report import analyze

TEXT = """
params: {{B: {batch}, M: {m}, N: {n}, K: {k}}}
arrays:
  x: {{shape: [B, M, K], dtype: {dtype}}}
  y: {{shape: [B, K, N], dtype: {dtype}}}
  bias: {{shape: [N], dtype: float32}}
  z: {{shape: [B, M, N], dtype: {output}}}
compute: z[b, m, n] = {value}
schedule: {{{schedule}}}
"""
PRODUCT = "sum(x[b, m, k] * y[b, k, n], k)"
SIMT = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 16}, stages: 2"
TENSOR = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 64}, stages: 3, cores: tensor"
SPLITS = ("", "split_k: 2, reduction: workspace", "stream_k: 1")


def gemm(m, n, k, *, batch=1, dtype="float32", output="float32", value=PRODUCT, schedule=f"{SIMT}, stores: shared"):
    text = TEXT.format(batch=batch, m=m, n=n, k=k, dtype=dtype, output=output, value=value, schedule=schedule)
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


def stores_of(kernel, array="z"):
    (launch,) = analyze(kernel).kernels
    return [a for a in launch.accesses if a.access.array.name == array and a.access.kind == "store"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("n", "dtype", "shared"),
    [(4096, "float32", False), (4095, "float32", True), (4098, "float32", True), (4096, "bfloat16", True)],
)
def test_they_are_chosen_where_those_of_registers_are_not_coalesced(planned, n, dtype, shared):
    kernel = planned(gemm(4096, n, 72, dtype=dtype, output=dtype, schedule=""))
    assert any("stores through shared memory" in reason for reason in kernel.reasons) is shared


def test_a_warp_stores_consecutive_elements(made):
    direct, shared = (
        stores_of(made(gemm(64, 127, 64, schedule=f"{SIMT}, stores: {stores}"))) for stores in ("registers", "shared")
    )
    assert max(store.ratio for store in shared) < 1.3
    assert max(store.ratio for store in direct) > 2


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [SIMT, TENSOR], ids=["cuda", "tensor"])
def test_the_tile_in_shared_memory_is_free_of_bank_conflicts(made, schedule):
    dtype = "float16" if "tensor" in schedule else "float32"
    kernel = made(gemm(64, 128, 128, dtype=dtype, output=dtype, schedule=f"{schedule}, stores: shared"))
    (launch,) = analyze(kernel).kernels
    exchanged = [a for a in launch.accesses if a.access.array.name == "c_tile"]
    assert exchanged
    assert {a.verdict for a in exchanged} == {"ideal"}


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("stores: shared", "c_tile"),
        ("stores: shared, split_k: 2, reduction: workspace", "partials"),
        ("stores: shared, stream_k: 1", "partials"),
        ("split_k: 2, reduction: cluster", "partials"),
        ("sliced_k: 2", "partials"),
    ],
)
def test_what_is_stored_in_shared_memory_is_called_partials_where_partial_sums_are_added(made, more, name):
    source = made(gemm(64, 128, 128, schedule=f"{SIMT}, {more}")).source
    assert f"float (*{name})[" in source


def test_stores_where_partial_sums_are_added_in_shared_memory_are_refused(reasons):
    (reason,) = reasons("gemm", gemm(64, 64, 64, schedule=f"{SIMT}, sliced_k: 2, stores: registers"))
    assert reason.key == "schedule.stores"


def drawn(seed: int) -> str:
    random = Random(seed)
    is_tensor = random.random() < 0.5
    dtype = random.choice(("float16", "bfloat16", "int8")) if is_tensor else "float32"
    output = "int32" if dtype == "int8" else random.choice((dtype, "float32"))
    value = random.choice((PRODUCT, f"maximum({PRODUCT} + bias[n], 0)")) if dtype != "int8" else PRODUCT
    split = random.choice(SPLITS)
    k = random.choice((128, 256)) if "split_k" in split else random.randint(1, 150)
    schedule = ", ".join(filter(None, (TENSOR if is_tensor else SIMT, "stores: shared", split)))
    sizes = random.choice((1, 31, 32, 33, 65, 70)), random.choice((1, 7, 63, 64, 65, 100, 129))
    return gemm(*sizes, k, batch=random.choice((1, 1, 3)), dtype=dtype, output=output, value=value, schedule=schedule)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
def test_results_agree_with_the_reference(prove, seed):
    prove(drawn(seed))
