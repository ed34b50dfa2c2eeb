"""Tensor maps in the launchers: those of the runtime API on the CPU's headers, those of the driver API, and nvcc's
opinion."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.abi.manifest import Manifest, TensorMapEntry
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME, cpu_text
from cugen.emit.host.embed import Image, embed
from cugen.emit.host.tensor_maps import data_type, swizzle_mode
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from cugen.toolchain import host, nvcc
from cugen.toolchain.errors import ToolMissing
from tests.emit.host.recording_driver import played

SPEC = """
cugen: 1
kernel: product
target: sm_90a
params: {M: dynamic, N: 136, K: {multiple_of: 8, range: [8, 4096]}}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [N, K], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {family: wgmma}
"""
CHAIN = """
cugen: 1
kernel: chain
target: sm_90a
params: {M: dynamic}
arrays:
  A: {shape: [M, 128], dtype: float32}
  B: {shape: [128, 128], dtype: float32}
  C: {shape: [M, 128], dtype: float32}
accumulate: {tf32: true}
compute:
  - T[m, n] = sum(A[m, k] * B[n, k], k)
  - C[m, n] = sum(T[m, k] * B[n, k], k)
schedule: {family: wgmma}
"""


def generated(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


@pytest.fixture(scope="module")
def product() -> Kernel:
    return generated(SPEC)


@pytest.fixture(scope="module")
def chain() -> Kernel:
    return generated(CHAIN)


def host_part(kernel: Kernel) -> str:
    """The launcher, without line breaks in its calls."""
    return " ".join(kernel.source.split("#if defined(__CUDACC__) &&")[1].split())


def test_the_manifest_lists_the_maps_before_the_arguments(product: Kernel) -> None:
    manifest = product.manifest
    assert manifest.requires == ("tensor_maps",)
    assert Manifest.from_json(manifest.to_json()) == manifest
    (launch,) = manifest.launches
    assert launch.tensor_maps == ("A_map", "B_map", "C_map")
    assert launch.arguments == ("M", "K")
    assert [(e.name, e.argument, e.dtype, e.sizes, e.strides) for e in manifest.tensor_maps] == [
        ("A_map", "A", "bfloat16", ("K", "M"), ("K * 2",)),
        ("B_map", "B", "bfloat16", ("K", 136), ("K * 2",)),
        ("C_map", "C", "bfloat16", (136, "M"), (272,)),
    ]
    assert [(e.box[0], e.swizzle) for e in manifest.tensor_maps[:2]] == [(64, 128)] * 2
    assert [a.alignment for a in manifest.arguments[:3]] == [16, 16, 16]


def test_launches_name_the_maps_of_their_operands(chain: Kernel) -> None:
    """In the order of the spec, then those of the workspace; that of B serves both launches."""
    entries = {entry.name: entry for entry in chain.manifest.tensor_maps}
    assert len(entries) == len(chain.manifest.tensor_maps)
    first, second = ([entries[name] for name in launch.tensor_maps[:2]] for launch in chain.manifest.launches)
    (workspace,) = chain.manifest.workspace
    assert [entry.argument for entry in (*first, *second)] == ["A", "B", "B", workspace.name]
    assert all(entry.tf32 for entry in (*first, *second))
    assert first[1] == second[0]


def test_maps_of_the_same_name_are_numbered_where_they_differ(chain: Kernel) -> None:
    first, second = chain.plan.kernels
    (array, *others) = first.tensor_maps
    assert array.tensor_map is not None
    reboxed = replace(array, tensor_map=replace(array.tensor_map, box=(8, 32)))
    plan = replace(chain.plan, kernels=(first, replace(second, tensor_maps=(reboxed, *others))))
    names = plan.tensor_maps()
    assert (names[array], names[reboxed]) == ("A_map", "A_map_")
    assert len(set(names.values())) == len(names) == len(others) + 2


def test_a_map_of_the_workspace_is_encoded_after_its_allocation(chain: Kernel) -> None:
    text = host_part(chain)
    assert text.index("cudaMallocAsync") < text.index("= chain_tensor_map(") < text.index("<<<")
    assert "if (status != cudaSuccess && allocates) cudaFreeAsync(workspace, stream);" in text


def test_the_context_is_current_before_a_map_is_encoded(product: Kernel) -> None:
    text = host_part(product)
    assert text.count("cudaFuncSetAttribute(") == 1
    assert text.index("cudaFuncSetAttribute(") < text.index("= product_tensor_map(")


def test_a_user_may_have_the_launchers_names() -> None:
    kernel = generated(SPEC.replace("A:", "product_tensor:").replace("A[", "product_tensor["))
    assert kernel.manifest.launches[0].tensor_maps[0] == "product_tensor_map_"


@pytest.mark.parametrize(
    ("dtype", "tf32", "name"),
    [
        ("bfloat16", False, "BFLOAT16"),
        ("float32", False, "FLOAT32"),
        ("float32", True, "TFLOAT32"),
        ("float8_e4m3", False, "UINT8"),
        ("int8", False, "UINT8"),
        ("int32", False, "INT32"),
    ],
)
def test_an_element_type_has_the_drivers_name(dtype: str, tf32: bool, name: str) -> None:
    assert data_type(dtype, tf32=tf32) == f"CU_TENSOR_MAP_DATA_TYPE_{name}"


def test_a_swizzle_has_the_drivers_name() -> None:
    assert [swizzle_mode(size) for size in (0, 64)] == ["CU_TENSOR_MAP_SWIZZLE_NONE", "CU_TENSOR_MAP_SWIZZLE_64B"]


ENCODE = """
#include <cuda_runtime.h>
#include <stdio.h>

FUNCTION

int main()
{
    alignas(16) static char data[64];
    CUtensorMap map;
    for (int offset : {8, 0, 16}) {
        const int status = product_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, data + offset, {40, 3, 2}, {96, 288},
            {64, 2, 1}, CU_TENSOR_MAP_SWIZZLE_128B, &map);
        printf("%d %d\\n", status, int(map.address - reinterpret_cast<unsigned char*>(data)));
    }
    for (int i = 0; i < 3; ++i)
        printf("%d %d %d\\n", int(map.sizes[i]), int(map.strides[i]), int(map.box[i]));
    printf("%u %u %u %u\\n", map.rank, map.swizzle_bytes, map.element_bytes, map.rounds_to_tf32);
    printf("%d\\n", product_tensor_map(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, data, {8, 2}, {40}, {8, 2},
        CU_TENSOR_MAP_SWIZZLE_32B, &map));
    printf("%d ", product_tensor_map(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, data, {8, 0}, {32}, {8, 2},
        CU_TENSOR_MAP_SWIZZLE_32B, &map));
    printf("%u\\n", map.rank);
    return 0;
}
"""


def test_the_launchers_function_encodes_what_it_is_given(product: Kernel, tmp_path: Path) -> None:
    """On the CPU device's headers: misaligned addresses and strides are invalid values, an empty array's map zeros."""
    try:
        command = host.compiler().command
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE ENCODING OF TENSOR MAPS IS UNTESTED: {error}")
    start = product.source.index("template <int rank>\nstatic cudaError_t product_tensor_map")
    function = product.source[start : product.source.index('extern "C" cudaError_t')]
    (tmp_path / "main.cpp").write_text(ENCODE.replace("FUNCTION", function))
    words = [*command, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-isystem{INCLUDES}", "main.cpp", "-o", "program"]
    built = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    assert done.stdout.splitlines() == [
        "1 8",  # cudaErrorInvalidValue
        "0 0",
        "0 16",
        *("40 2 64", "3 96 2", "2 288 1"),
        "3 128 2 0",
        "1",
        "0 0",
    ]


CALL = """
#include <cuda_runtime.h>
#include <stdio.h>
#include "product.h"

int main()
{
    const int M = 67, N = 136, K = 72;
    __nv_bfloat16 *a, *b, *c;
    cudaMalloc(&a, (M * K + 8) * sizeof(*a));
    cudaMalloc(&b, N * K * sizeof(*b));
    cudaMalloc(&c, M * N * sizeof(*c));
    for (int i = 0; i < M * K + 8; ++i) a[i] = __float2bfloat16_rn(i % 5 - 2);
    for (int i = 0; i < N * K; ++i) b[i] = __float2bfloat16_rn(i % 3 - 1);
    for (int offset : {0, 8, 1}) {
        const int status = product_launch(a + offset, b, c, M, K, nullptr);
        int wrong = 0;
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n) {
                int sum = 0;
                for (int k = 0; k < K; ++k) sum += ((m * K + k + offset) % 5 - 2) * ((n * K + k) % 3 - 1);
                wrong += __bfloat162float(c[m * N + n]) != sum;
            }
        printf("%d %d\\n", status, offset % 8 ? 0 : wrong);
    }
    return 0;
}
"""


@pytest.mark.slow
def test_the_launcher_computes_on_the_cpu(product: Kernel, tmp_path: Path) -> None:
    """At two addresses; a third isn't aligned."""
    try:
        command = host.compiler().command
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE LAUNCHER IS UNTESTED: {error}")
    (tmp_path / "product.cu").write_text(product.source)
    (tmp_path / "product.json").write_text(product.manifest.to_json())
    for file, text in product.headers.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "product_cpu.cpp").write_text(cpu_text(tmp_path / "product.cu"))
    (tmp_path / "main.cpp").write_text(CALL)
    words = [*command, *COMPILER_FLAGS, "-O2", f"-I{INCLUDES}", "-I.", "main.cpp", "product_cpu.cpp", str(RUNTIME)]
    built = subprocess.run([*words, "-o", "program"], cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    assert (done.stdout.splitlines(), done.stderr) == (["0 0", "0 0", "1 0"], "")


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("spec", [SPEC, CHAIN], ids=["product", "chain"])
def test_nvcc_takes_the_whole_file_without_a_warning(spec: str, tmp_path: Path) -> None:
    if nvcc.find() is None:
        pytest.skip("NO NVCC, HOST CODE OF KERNELS IS UNTESTED")
    kernel = generated(spec)
    (tmp_path / "k.cu").write_text(kernel.source)
    flags = ["-gencode", "arch=compute_90a,code=sm_90a", "-std=c++17", "-Werror", "all-warnings"]
    command = [str(nvcc.require().path), *flags, "-Xcompiler", "-Wall,-Wextra", "-c", "k.cu", "-o", "k.o"]
    built = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert built.returncode == 0, built.stderr


DRIVER = """
#include "EMBEDDED"
#include <stdio.h>

CUresult cuLibraryLoadData(CUlibrary* l, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
    unsigned)
{
    *l = reinterpret_cast<CUlibrary>(1);
    return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel*, CUlibrary, const char*) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice*) { return CUDA_SUCCESS; }
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    printf("type %d, %p: %d x %d, stride %d, box %u x %u, steps %u %u, modes %d %d %d %d, rank %u\\n", type, address,
        static_cast<int>(sizes[0]), static_cast<int>(sizes[1]), static_cast<int>(strides[0]), box[0], box[1], steps[0],
        steps[1], interleave, swizzle, promotion, fill, rank);
    map->opaque[0] = reinterpret_cast<unsigned long long>(address);
    return reinterpret_cast<unsigned long long>(address) % 16 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
    void** arguments, void**)
{
    for (int i = 0; i < 3; ++i)
        printf("%llx ", static_cast<unsigned long long>(static_cast<CUtensorMap*>(arguments[i])->opaque[0]));
    printf("%d %d\\n", *static_cast<int*>(arguments[3]), *static_cast<int*>(arguments[4]));
    return CUDA_SUCCESS;
}

static int call(unsigned long long a, int rows)
{
    return product_launch(reinterpret_cast<__nv_bfloat16*>(a), reinterpret_cast<__nv_bfloat16*>(0x2000),
        reinterpret_cast<__nv_bfloat16*>(0x3000), rows, 48, nullptr);
}

int main()
{
    for (unsigned long long a : {0x1000, 0x1008})
        printf("%d\\n", call(a, 100));
    printf("%d\\n", call(0x1000, 0));
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_the_driver_encodes_the_maps_and_gets_them_before_the_arguments(
    product: Kernel, tmp_path: Path, compiler: str
) -> None:
    texts = embed(product.context, product.plan, product.manifest, Image(bytes(64), ("sm_90a",), "nobody"))
    main = DRIVER.replace("EMBEDDED", "product_embed.h")
    lines = played(tmp_path, texts.texts(product.name), main, compiler)

    def encoded(sizes: str, entry: TensorMapEntry) -> str:
        swizzle = {32: 1, 64: 2, 128: 3}[entry.swizzle]
        box = " x ".join(map(str, entry.box))
        return f"type 9, {sizes}, box {box}, steps 1 1, modes 0 {swizzle} 2 0, rank 2"

    a_map, b_map, c_map = product.manifest.tensor_maps
    b = encoded("0x2000: 48 x 136, stride 96", b_map)
    assert lines == [
        encoded("0x1000: 48 x 100, stride 96", a_map),
        b,
        encoded("0x3000: 136 x 100, stride 272", c_map),
        "1000 2000 3000 100 48",
        "0",
        encoded("0x1008: 48 x 100, stride 96", a_map),
        "1",  # CUDA_ERROR_INVALID_VALUE
        b,  # of no rows, neither A nor C has a map
        "0",
    ]
