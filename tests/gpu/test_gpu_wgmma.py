"""GEMMs by wgmma and TMA on a GPU of sm_90: every type and layout, edges of tiles, the generated launchers, and CUDA
graphs, whose launches keep the tensor maps of their capture."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.emit.host.embed import Image, embed
from cugen.kernel import Kernel, generate
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.toolchain import locations
from cugen.toolchain.cuda import compile_cubin

pytestmark = pytest.mark.gpu

LAYOUTS = {"nt": ("[M, K]", "A[m, k]", "[N, K]", "B[n, k]"), "nn": ("[M, K]", "A[m, k]", "[K, N]", "B[k, n]")}
LAYOUTS |= {"tn": ("[K, M]", "A[k, m]", "[K, N]", "B[k, n]"), "tt": ("[K, M]", "A[k, m]", "[N, K]", "B[n, k]")}
# Types of operands and results, the layout, M, N and K; rows that TMA copies are multiples of 16 bytes.
CASES = [
    ("bfloat16", "bfloat16", "nt", 4096, 4096, 4096),
    ("bfloat16", "bfloat16", "nt", 1021, 509, 264),
    ("bfloat16", "float32", "nt", 65, 7, 8),
    ("bfloat16", "bfloat16", "nn", 515, 776, 1032),
    ("bfloat16", "bfloat16", "tn", 776, 520, 1001),
    ("bfloat16", "bfloat16", "tt", 264, 1001, 72),
    ("float16", "float16", "nt", 1021, 509, 264),
    ("float16", "float32", "tn", 136, 264, 4097),
    ("int8", "int32", "nt", 517, 391, 528),
    ("uint8", "int32", "nt", 129, 257, 2064),
    ("float32", "float32", "nt", 517, 391, 132),
    ("float8_e4m3", "float32", "nt", 517, 391, 528),
    ("float8_e5m2", "bfloat16", "nt", 129, 257, 144),
]


@pytest.fixture(scope="module", autouse=True)
def hopper(device: GpuDevice) -> None:
    capability = driver().capability(0)
    if capability != "sm_90":
        pytest.skip(f"NO GPU OF sm_90, NOT TESTED: this is {capability}")


def spec_of(
    operand: str,
    result: str,
    layout: str,
    m: object,
    n: object,
    k: object,
    *,
    batch: str = "",
    value: str = "{sum}",
    fp8: str = "fast",
    schedule: str = "",
) -> str:
    a_shape, a, b_shape, b = LAYOUTS[layout]
    precision = {"float32": "accumulate: {tf32: true}\n", "float8_e4m3": f"accumulate: {{fp8: {fp8}}}\n"}
    precision["float8_e5m2"] = precision["float8_e4m3"]
    c = "C[m, n]"
    if batch:
        a_shape, b_shape = (shape.replace("[", f"[{batch}, ") for shape in (a_shape, b_shape))
        a, b, c = (text.replace("[", "[z, ") for text in (a, b, c))
    bias = "  bias: {shape: [N], dtype: float32}\n" if "bias" in value else ""
    return (
        f"cugen: 1\nkernel: product\ntarget: sm_90a\nparams: {{M: {m}, N: {n}, K: {k}}}\narrays:\n"
        f"  A: {{shape: {a_shape}, dtype: {operand}}}\n  B: {{shape: {b_shape}, dtype: {operand}}}\n{bias}"
        f"  C: {{shape: [{f'{batch}, ' if batch else ''}M, N], dtype: {result}}}\n{precision.get(operand, '')}"
        f"compute: {c} = {value.format(sum=f'sum({a} * {b}, k)')}\nschedule: {{family: wgmma{schedule}}}\n"
    )


def generated(text: str) -> Kernel:
    (spec,) = load_text(text)
    kernel = generate(spec)
    assert kernel.manifest.tensor_maps
    return kernel


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_products_are_within_their_bounds(device: GpuDevice, case: tuple[str, str, str, int, int, int]) -> None:
    kernel = generated(spec_of(*case))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


def test_batches_are_within_their_bounds(device: GpuDevice) -> None:
    kernel = generated(spec_of("bfloat16", "bfloat16", "nt", 131, 264, 72, batch="5"))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


# Consumers that take registers of the producer, with accumulators for a computed epilogue or two sets of sums; tiles of
# an MN-major B whose last block is partly used.
WIDE = {
    "bias and activation": ("bfloat16", "nt", "m: 128, n: 256", "gelu_tanh({sum} + bias[n])"),
    "columns of whole chunks": ("bfloat16", "nn", "m: 128, n: 160", "{sum} + bias[n]"),
    "two matrices": ("float16", "tn", "m: 256, n: 192", "{sum}"),
    "promoted sums": ("float8_e4m3", "nt", "m: 128, n: 192", "{sum}"),
    "half a block": ("float16", "nn", "m: 192, n: 96", "{sum}"),
}


@pytest.mark.parametrize("sizes", [(1016, 512, 272), (200, 264, 1040)], ids=["few k-tiles", "many"])
@pytest.mark.parametrize("case", WIDE.values(), ids=list(WIDE))
def test_wide_tiles_are_within_their_bounds(
    device: GpuDevice, case: tuple[str, str, str, str], sizes: tuple[int, int, int]
) -> None:
    operand, layout, block, value = case
    schedule = f", block: {{{block}}}"
    kernel = generated(spec_of(operand, "bfloat16", layout, *sizes, value=value, fp8="exact", schedule=schedule))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


# Scales of rows and of blocks of columns, of single columns, and of tiles.
SCALED = ("S[m, k // 128] * R[n // 128, k // 128]", "R[n, k // 128]", "S[m // 64, k // 128]")


@pytest.mark.parametrize(
    "schedule", ["", ", block: {m: 64, n: 64}, split_k: 2", ", block: {m: 24, n: 128}, swap_ab: true"]
)
@pytest.mark.parametrize("sizes", [(129, 256, 400), (1016, 512, 2176)], ids=["few k-tiles", "many"])
@pytest.mark.parametrize("scales", SCALED)
def test_scaled_sums_are_within_their_bounds(
    device: GpuDevice, scales: str, sizes: tuple[int, int, int], schedule: str
) -> None:
    text = spec_of("float8_e4m3", "float32", "nt", *sizes, fp8="exact", schedule=schedule)
    arrays = "".join(
        f"  {name}: {{shape: [{size}, {-(-sizes[2] // 128)}], dtype: float32}}\n"
        for name, size in (("S", "M"), ("R", "N"))
        if f"{name}[" in scales
    )
    kernel = generated(text.replace("  C: {", f"{arrays}  C: {{").replace("sum(", f"sum({scales} * "))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


# Forms that are taken on request alone.
REQUESTED = (
    "producer: none",
    "epilogue: stmatrix",
    "producer: none, epilogue: stmatrix",
    "stream_k: 1, epilogue: stmatrix",
)


@pytest.mark.parametrize(
    "sizes", [(1016, 512, 272), (200, 264, 1040), (2056, 5000, 1304)], ids=["few", "many", "waves"]
)
@pytest.mark.parametrize("block", ["m: 128, n: 256", "m: 64, n: 80", "m: 192, n: 96"])
@pytest.mark.parametrize("form", REQUESTED)
def test_requested_forms_are_within_their_bounds(
    device: GpuDevice, form: str, block: str, sizes: tuple[int, int, int]
) -> None:
    schedule = f", block: {{{block}}}, {form}"
    kernel = generated(spec_of("bfloat16", "bfloat16", "nn", *sizes, value="{sum} + bias[n]", schedule=schedule))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("value", ["{sum}", "{sum} + bias[n]"], ids=["sums", "bias"])
@pytest.mark.parametrize("result", ["bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("block", ["m: 152, n: 128", "m: 256, n: 64", "m: 104, n: 256", "m: 120, n: 192"])
@pytest.mark.parametrize("form", ["", ", stream_k: 1", ", producer: none"])
def test_swapped_operands_are_within_their_bounds(
    device: GpuDevice, form: str, block: str, layout: str, result: str, value: str
) -> None:
    schedule = f", swap_ab: true, block: {{{block}}}{form}"
    kernel = generated(spec_of("bfloat16", result, layout, 2056, 5000, 1304, value=value, schedule=schedule))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("sizes", [(1016, 512, 272), (2056, 5000, 1304)], ids=["few", "waves"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("cluster", [(2, 2), (2, 4), (4, 2)], ids=str)
@pytest.mark.parametrize("swap", ["", ", swap_ab: true"], ids=["plain", "swapped"])
def test_tiles_of_both_operands_that_blocks_share_are_within_their_bounds(
    device: GpuDevice, swap: str, cluster: tuple[int, int], layout: str, sizes: tuple[int, int, int]
) -> None:
    along_m, along_n = cluster
    block = f"block: {{m: {64 * along_n}, n: {64 * along_m}}}"
    schedule = f", {block}, multicast: {along_m}, multicast_n: {along_n}{swap}"
    kernel = generated(spec_of("bfloat16", "bfloat16", layout, *sizes, schedule=schedule))
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("sizes", [(1016, 512, 272), (320, 640, 1040), (2056, 5000, 1304)], ids=["few", "odd", "waves"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("result", ["bfloat16", "float32"])
@pytest.mark.parametrize("shared", ["multicast: 2", "multicast: 4", "multicast_n: 2", "multicast_n: 4"])
def test_tiles_that_blocks_share_are_within_their_bounds(
    device: GpuDevice, shared: str, result: str, layout: str, sizes: tuple[int, int, int]
) -> None:
    block = "m: 256, n: 64" if "multicast_n" in shared else "m: 64, n: 256"
    kernel = generated(
        spec_of("bfloat16", result, layout, *sizes, value="{sum} + bias[n]", schedule=f", block: {{{block}}}, {shared}")
    )
    run = verify(kernel.spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


SIZES = "{multiple_of: 8, range: [8, 8192]}"


@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (131, 264, 72), (0, 8, 8), (3000, 1000, 40)])
def test_sizes_are_those_of_the_call(device: GpuDevice, m: int, n: int, k: int) -> None:
    kernel = generated(spec_of("bfloat16", "bfloat16", "nn", "dynamic", SIZES, SIZES))
    params = {"M": m, "N": n, "K": k}
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
    assert run.verification.passed, run.verification.messages


def test_a_call_through_the_driver_encodes_maps_of_its_arrays(device: GpuDevice) -> None:
    """At two addresses and sizes, with the same function, and in a graph of PyTorch."""
    torch = pytest.importorskip("torch", reason="NO PYTORCH, NOT TESTED")
    kernel = generated(spec_of("bfloat16", "float32", "nt", "dynamic", SIZES, SIZES))
    function = kernel.compile()
    for m, n, k in ((131, 264, 72), (64, 8, 8)) * 2:
        a = torch.randint(-3, 4, (m, k), device="cuda").bfloat16()
        b = torch.randint(-3, 4, (n, k), device="cuda").bfloat16()
        c = torch.empty((m, n), device="cuda")
        function(A=a, B=b, C=c, stream=torch.cuda.current_stream())
        assert torch.equal(c, a.float() @ b.float().T)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(A=a, B=b, C=c, stream=torch.cuda.current_stream())
    a.copy_(torch.randint(-3, 4, a.shape, device="cuda"))
    c.zero_()
    graph.replay()
    assert torch.equal(c, a.float() @ b.float().T)


MAIN = """
#include <cstdio>
#include <thread>
#include <vector>
HEADERS

#define CHECK(call) do { const int code = (call); if (code != 0) { \\
    std::printf("%s: %d\\n", #call, code); return 1; } } while (0)

static const int M = 517, N = 264, K = 136;
static __nv_bfloat16 *a[3], *b, *c;

static int element(int i, int copy) { return (i % 5 - 2) * (copy + 1); }

static bool is_right(int rows, int copy)
{
    std::vector<__nv_bfloat16> result(M * N);
    cudaMemcpy(result.data(), c, M * N * sizeof(__nv_bfloat16), cudaMemcpyDeviceToHost);
    for (int m = 0; m < rows; ++m)
        for (int n = 0; n < N; ++n) {
            int sum = 0;
            for (int k = 0; k < K; ++k)
                sum += element(m * K + k, copy) * ((n * K + k) % 3 - 1);
            if (float(result[m * N + n]) != float(__nv_bfloat16(float(sum)))) {
                std::printf("C[%d, %d] is %g, not %d\\n", m, n, float(result[m * N + n]), sum);
                return false;
            }
        }
    return true;
}

int main()
{
    std::vector<__nv_bfloat16> values(M * K);
    for (int copy = 0; copy < 3; ++copy) {
        for (int i = 0; i < M * K; ++i)
            values[i] = float(element(i, copy));
        CHECK(cudaMalloc(&a[copy], M * K * sizeof(__nv_bfloat16)));
        CHECK(cudaMemcpy(a[copy], values.data(), M * K * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));
    }
    for (int i = 0; i < N * K; ++i)
        values[i] = float(i % 3 - 1);
    CHECK(cudaMalloc(&b, N * K * sizeof(__nv_bfloat16)));
    CHECK(cudaMemcpy(b, values.data(), N * K * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&c, M * N * sizeof(__nv_bfloat16)));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 2; ++round)
        for (int copy = 0; copy < 2; ++copy)
            for (int rows : {M, 63}) {
                CHECK(cudaMemset(c, 0xff, M * N * sizeof(__nv_bfloat16)));
                CHECK(cudaDeviceSynchronize());
                CHECK(product_launch(a[copy], b, c, rows, N, K, stream));
                CHECK(cudaStreamSynchronize(stream));
                if (!is_right(rows, copy))
                    return 1;
            }
    // The maps of the third address are encoded while the stream is captured.
    cudaGraph_t graph;
    cudaGraphExec_t play;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(product_launch(a[2], b, c, M, N, K, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&play, graph, 0));
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaMemsetAsync(c, 0xff, M * N * sizeof(__nv_bfloat16), stream));
        CHECK(cudaGraphLaunch(play, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (!is_right(M, 2))
            return 1;
    }
    CHECK(product_launch(a[0], b, c, 0, N, K, stream));
    // A thread that has made no other call of CUDA.
    int status = -1;
    CHECK(cudaMemset(c, 0xff, M * N * sizeof(__nv_bfloat16)));
    CHECK(cudaDeviceSynchronize());
    std::thread other([&] { status = THREAD product_launch(a[0], b, c, M, N, K, stream); });
    other.join();
    CHECK(status);
    CHECK(cudaStreamSynchronize(stream));
    if (!is_right(M, 0))
        return 1;
    if (product_launch(a[0] + 1, b, c, M, N, K, stream) != 1) {
        std::printf("an address that isn't aligned was taken\\n");
        return 1;
    }
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    std::printf("done\\n");
    return 0;
}
"""


@pytest.fixture(scope="module")
def product() -> Kernel:
    return generated(spec_of("bfloat16", "bfloat16", "nt", "dynamic", SIZES, SIZES))


def test_the_launcher_encodes_maps_of_its_arrays(product: Kernel, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (tmp_path / "product.cu").write_text(product.source)
    for name, text in product.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN.replace("HEADERS", '#include "product.h"').replace("THREAD ", ""))
    target = ["-gencode", "arch=compute_90a,code=sm_90a"]  # `-arch=sm_90a` of nvcc 13.0 compiles for compute_90 too
    command = [nvcc, *target, "-std=c++17", "-o", "run", "product.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_launcher_of_machine_code_in_a_c_array_does_so_too(product: Kernel, tmp_path: Path) -> None:
    """A thread makes the context current itself, as the driver API has it."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    cubin = compile_cubin(product.source, product.name, "sm_90a", lines=False)
    files = embed(product.context, product.plan, product.manifest, Image(cubin.image, ("sm_90a",), cubin.compiler))
    for name, text in files.texts(product.name).items():
        (tmp_path / name).write_text(text)
    main = MAIN.replace("HEADERS", '#include "product_embed.h"\n#include <cuda_runtime.h>')
    (tmp_path / "main.cu").write_text(main.replace("THREAD ", "cudaSetDevice(0) ? -1 : "))
    includes = [f"-isystem{folder}" for folder in locations.include_folders()]
    command = ["gcc", "-std=c11", "-c", "product_embed.c", *includes]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    command = [nvcc, "-std=c++17", "-o", "run", "main.cu", "product_embed.o", "-l:libcuda.so.1"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")
