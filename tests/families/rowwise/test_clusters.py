"""Long rows by thread block clusters: when, the generated kernel, and correctness."""

from __future__ import annotations

import re

import pytest

from cugen.analysis.verdicts.report import analyze_kernel
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.toolchain.cuda import compile_cubin, compilers

SOFTMAX = ("y[i, j] = softmax(x[i, j], j)",)
LAYER_NORM = (
    "mu[i] = mean(x[i, j], j)",
    "scale[i] = rsqrt(var(x[i, j], j) + 1e-5)",
    "y[i, j] = (x[i, j] - mu[i]) * scale[i]",
)


def slow(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.slow)


def rows(m, n, statements=SOFTMAX, dtype="float32", *, schedule="", more="", target="sm_90"):
    text = "".join(f"  {statement}\n" for statement in statements)
    tunables = f"schedule: {{{schedule}}}\n" if schedule else ""
    return (
        f"params: {{M: {m}, N: {n}}}\ntarget: {target}\n"
        f"arrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n  y: {{shape: [M, N], dtype: {dtype}}}\n{more}"
        f"compute: |\n{text}{tunables}"
    )


SMALL = "family: rowwise, cluster: %d, threads: %d"


# When a row takes a cluster


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("n", "dtype", "cluster", "threads"),
    [
        (32768, "float32", 1, 1024),
        (32769, "float32", 4, 512),
        (65536, "float32", 4, 512),
        (65536, "bfloat16", 2, 512),
        (50257, "bfloat16", 1, 1024),
        (60001, "bfloat16", 2, 512),
        (65537, "float32", 8, 512),
        (131072, "float32", 8, 512),
        (131072, "bfloat16", 4, 512),
        (262144, "float32", 8, 512),
        (524288, "float32", 8, 1024),
        ("{range: [40000, 60000]}", "float32", 4, 512),
        ("{range: [400, 60000]}", "float32", 1, 1024),
        ("dynamic", "float32", 1, 256),
    ],
)
def test_clusters_are_as_large_as_caches_a_row_in_half_of_the_registers(planned, n, dtype, cluster, threads):
    kernel = planned(rows(2048, n, dtype=dtype))
    assert (kernel.cluster, kernel.threads) == (cluster, threads)
    assert ("a cluster of" in kernel.reasons[0]) == (cluster > 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("n", "dtype"), [(131072, "float32"), (262144, "float32"), (393216, "bfloat16"), (60001, "bfloat16")]
)
def test_two_blocks_of_a_cluster_fit_a_multiprocessor(planned, n, dtype):
    kernel = planned(rows(2048, n, dtype=dtype))
    assert kernel.threads == 512
    assert 0 < 2 * (kernel.shared_bytes + kernel.dynamic_shared_bytes) <= 227 * 1024


def test_narrow_elements_of_clusters_are_in_shared_memory_as_loaded(made):
    source = made(rows(40, 393216, dtype="bfloat16")).source
    assert "__nv_bfloat16* x_shared = reinterpret_cast<__nv_bfloat16*>(shared_memory);" in source
    assert "store<8>(&x_shared[" in source


def test_a_target_without_clusters_has_one_block_per_row(planned, reasons):
    assert planned(rows(2048, 65536, target="sm_80")).cluster == 1
    (refusal,) = reasons("rowwise", rows(2048, 65536, schedule="cluster: 4", target="sm_80"))
    assert refusal.key == "schedule.cluster"
    assert "sm_80 has no clusters" in refusal.reason


@pytest.mark.parametrize("schedule", ["cluster: 2, rows: 2", "cluster: 2, threads: 16", "cluster: 3"])
def test_an_impossible_cluster_is_refused(reasons, schedule):
    keys = {refusal.key for refusal in reasons("rowwise", rows(100, 4096, schedule=schedule))}
    assert keys == {"schedule.cluster"}


def test_strided_rows_have_no_clusters(reasons):
    text = rows(1024, 100, ("y[i, j] = softmax(x[i, j], i)",), schedule="cluster: 2")
    assert [refusal.key for refusal in reasons("rowwise", text)] == ["schedule.cluster"]


def test_few_rows_take_one_launch_where_clusters_fill_the_device(made):
    assert [kernel.family for kernel in made(rows(16, 131072)).plan.kernels] == ["rowwise"]
    assert len(made(rows(2, 131072)).plan.kernels) > 1


# The generated kernel


def test_each_element_is_loaded_once_by_one_block_of_the_cluster(made):
    kernel = made(rows(40, 131072))
    (plan,) = kernel.plan.kernels
    loads = [a for a in accesses(plan.body) if a.kind == "load" and a.array.name == "x"]
    assert len(loads) == 2  # one for registers, one for shared memory
    assert "__cluster_dims__(8, 1, 1) __launch_bounds__(512)" in kernel.source
    assert "const auto cluster = cooperative_groups::this_cluster();" in kernel.source
    calls = ("barrier_arrive", "barrier_wait", "sync")
    assert [kernel.source.count(f"cluster.{call}();") for call in calls] == [1, 1, 2]
    assert "grid (320, 1, 1), block (512, 1, 1), clusters of 8" in kernel.source
    (launch,) = kernel.manifest.launches
    assert (launch.grid, launch.cluster) == ((320, 1, 1), 8)


def test_distributed_shared_memory_is_unknown_to_the_analysis_and_all_else_exact(planned):
    report = analyze_kernel(planned(rows(40, 65536)), "sm_90", {"M": 40, "N": 65536})
    verdicts = {access.text: access.verdict for access in report.accesses}
    remote = {text for text in verdicts if "map_shared_rank" in text}
    assert {verdicts[text] for text in remote} == {"unknown"}
    assert {verdicts[text] for text in verdicts.keys() - remote} == {"ideal"}
    assert len(remote) == 2


def test_an_array_may_be_named_cluster(made):
    text = rows(2, 300, ("y[i, j] = softmax(cluster[i, j], j)",), schedule=SMALL % (2, 32))
    assert "const float* __restrict__ cluster_," in made(text.replace("  x:", "  cluster:")).source


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n", [32769, 65536, 131072])
def test_two_blocks_fit_in_the_register_file(made, n, dtype):
    for statements in (SOFTMAX, LAYER_NORM):
        source = made(rows(256, n, statements, dtype)).source
        for compiler in compilers() if dtype == "float32" else compilers()[:1]:
            cubin = compile_cubin(source, "k", "sm_90", prefer=compiler.name)
            resources = cubin.kernels["k"]
            assert not cubin.warnings
            assert resources.registers <= 64
            assert resources.spill_stores == resources.spill_loads == 0


# Correctness


@pytest.mark.parametrize("cluster", [slow(2), slow(4), 8])
@pytest.mark.parametrize("n", [1, 1025, *map(slow, [2, 31, 32, 63, 64, 65, 257, 512, 1023, 1024, 2048, 4099])])
def test_rows_of_any_length(prove, n, cluster):
    prove(rows(3, n, schedule=SMALL % (cluster, 32)))


@pytest.mark.slow
@pytest.mark.parametrize("statements", [SOFTMAX, LAYER_NORM])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_all_types(prove, dtype, statements):
    for n in (520, 777):
        prove(rows(3, n, statements, dtype, schedule=SMALL % (4, 32)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [32769, 40000, 50257, 65536, 131072])
def test_long_rows(prove, n):
    prove(rows(2, n, schedule="family: rowwise"))


KINDS = {
    "sum": "float32",
    "prod": "float32",
    "max": "float32",
    "min": "float32",
    "argmax": "int64",
    "argmin": "int64",
    "any": "bool",
    "all": "bool",
}


@pytest.mark.parametrize("kind", ["argmax", *(slow(kind) for kind in KINDS if kind != "argmax")])
def test_reductions_of_every_kind(prove, kind):
    body = "x[i, j] > 0" if kind in ("any", "all") else "x[i, j]"
    statements = ("y[i, j] = x[i, j] - max(x[i, k], k)", f"z[i] = {kind}({body}, j)")
    more = f"  z: {{shape: [M], dtype: {KINDS[kind]}}}\n"
    prove(rows(3, 700, statements, more=more, schedule=SMALL % (4, 32)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(prove, dtype):
    statements = ("y[i, j] = x[i, j] - min(x[i, k], k)",)
    prove(rows(3, 700, statements, dtype, schedule=SMALL % (4, 32)))


def test_outputs_of_one_value_per_row(prove):
    statements = (
        "m[i] = max(x[i, j], j)",
        "s[i] = sum(exp(x[i, j] - m[i]), j)",
        "loss[i] = log(s[i]) + m[i] - x[i, label[i]]",
    )
    arrays = "  label: {shape: [M], dtype: int64}\n  loss: {shape: [M], dtype: float32}\n"
    text = rows(5, 600, statements, more=arrays, schedule=SMALL % (4, 64))
    prove(text.replace("  y: {shape: [M, N], dtype: float32}\n", ""))


@pytest.mark.slow
@pytest.mark.parametrize("registers", [0, 8, 16])
def test_elements_beyond_the_registers(prove, registers):
    for n in (1000, 9001):
        prove(rows(2, n, schedule=f"{SMALL % (4, 32)}, registers: {registers}"))


@pytest.mark.slow
def test_every_size_of_a_dynamic_kernel(prove):
    text = rows("dynamic", "{range: [0, 5000]}", schedule=SMALL % (4, 32))
    for m, n in ((0, 5), (3, 0), (1, 1), (3, 1025)):
        prove(text, {"M": m, "N": n})


@pytest.mark.slow
@pytest.mark.parametrize("length", ["{range: [40000, 60000]}", "{range: [40000, 60000], multiple_of: 8}"])
def test_long_rows_of_a_dynamic_length(prove, length):
    for m, n in ((0, 40000), (40, 40000), (1, 59992), (2, 49152)):
        prove(rows("dynamic", length), {"M": m, "N": n})


@pytest.mark.slow
def test_rows_of_several_indices(prove):
    text = (
        "params: {A: 3, B: 2, C: 2, D: 2, N: 300}\n"
        "arrays:\n  x: {shape: [A, B, C, D, N], dtype: float32}\n  y: {shape: [A, B, C, D, N], dtype: float32}\n"
        f"compute: y[a, b, c, d, j] = softmax(x[a, b, c, d, j], j)\nschedule: {{{SMALL % (2, 32)}}}\n"
    )
    prove(text)
    prove(text.replace("A, B, C, D, N]", "N]").replace("A: 3, B: 2, C: 2, D: 2, ", "").replace("a, b, c, d, j", "j"))


@pytest.mark.slow
def test_nan_and_infinities_reach_all_blocks(prove):
    odd = "(log(x[i, {0}]) / where(i == 1, 0, 1))"
    for cluster in (2, 8):
        statement = f"y[i, j] = exp({odd.format('j')} - max({odd.format('k')}, k))"
        prove(rows(3, 2000, (statement,), schedule=SMALL % (cluster, 32)))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"sanitize": True}, {"races": True}, {"races": True, "shuffle": 2}], ids=str)
@pytest.mark.parametrize("statements", [SOFTMAX, LAYER_NORM])
def test_clean_under_sanitizers_and_the_race_check(made, check, statements, settings):
    for schedule in (SMALL % (4, 64), f"{SMALL % (4, 64)}, registers: 8"):
        for n in (1000, 1023):
            check(made(rows(3, n, statements, schedule=schedule)), CpuDevice(**settings))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_barrier_gives_wrong_results(made, missing):
    kernel = made(rows(3, 2000, schedule=SMALL % (4, 64)))
    parts = re.split(r"cluster.(?:barrier_wait|sync)\(\);", kernel.source)
    assert len(parts) == 4
    source = "cluster.sync();".join(parts[: missing + 1]) + "cluster.sync();".join(parts[missing + 1 :])
    for seed in range(3):
        assert not verify(kernel.spec, source, kernel.manifest, CpuDevice(shuffle=seed)).verification.passed


@pytest.mark.slow
def test_results_are_bitwise_reproducible(made):
    kernel = made(rows(6, 3001, schedule=SMALL % (8, 64)))
    results = set()
    for seed in range(20):
        run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(shuffle=seed))
        results.add(run.outcome.buffers["y"].tobytes())
    assert len(results) == 1
