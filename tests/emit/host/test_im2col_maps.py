"""Tensor maps in im2col mode: the launcher, the embedded C and the manifest have the same numbers, and the CPU device's
function requires what the driver does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cugen.abi.manifest import Manifest, TensorMapEntry
from cugen.abi.tensor_maps import tensor_memory
from cugen.emit.host.cpu import INCLUDES
from cugen.emit.host.embed import Image, embed
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from cugen.toolchain import host, nvcc
from cugen.toolchain.errors import ToolMissing
from tests.emit.host.recording_driver import played

FORMS = {
    3: ("N, W, C", "K, 3, C", "N, 5, K", "y[n, q, k] = sum(x[n, 2*q + s - 1, c] * w[k, s, c], s, c)"),
    4: (
        "N, H, W, C",
        "K, 3, 3, C",
        "N, H, 5, K",
        "y[n, h, q, k] = sum(x[n, h + r - 2, 2*q + s - 1, c] * w[k, r, s, c], r, s, c)",
    ),
    5: (
        "N, D, H, W, C",
        "K, 2, 3, C",
        "N, 2, H, 5, K",
        "y[n, d, h, q, k] = sum(x[n, 3*d + t - 1, h, 2*q + s - 1, c] * w[k, t, s, c], t, s, c)",
    ),
}
SIZES = {"N": 6, "D": 4, "H": 7, "W": 9, "C": 64, "K": 32}


def convolution(rank: int, images: str = "dynamic") -> Kernel:
    x, w, y, compute = FORMS[rank]
    params = ", ".join(f"{n}: {images if n == 'N' else SIZES[n]}" for n in SIZES if n in (x + w + y).replace(",", ""))
    (spec,) = load_text(f"""
cugen: 1
kernel: conv
target: sm_90a
params: {{{params}}}
arrays:
  x: {{shape: [{x}], dtype: bfloat16, boundary: zero}}
  w: {{shape: [{w}], dtype: bfloat16}}
  y: {{shape: [{y}], dtype: float32}}
compute: {compute}
schedule: {{family: wgmma}}
""")
    return generate(spec, analysis=False)


@pytest.fixture(scope="module")
def kernels() -> dict[int, Kernel]:
    return {rank: convolution(rank) for rank in FORMS}


def images_of(manifest: Manifest) -> TensorMapEntry:
    (entry,) = [entry for entry in manifest.tensor_maps if entry.steps]
    return entry


def test_the_manifest_has_the_pixels_along_each_dimension_the_fastest_first(kernels: dict[int, Kernel]) -> None:
    manifest = kernels[5].manifest
    assert manifest.requires == ("tensor_maps", "tensor_maps_im2col")
    assert Manifest.from_json(manifest.to_json()) == manifest
    entry = images_of(manifest)
    assert (entry.name, entry.argument, entry.dtype) == ("x_map", "x", "bfloat16")
    assert (entry.sizes, entry.strides) == ((64, 9, 7, 4, "N"), (128, 1152, 8064, 32256))
    assert (entry.lower, entry.upper, entry.steps) == ((-1, 0, -1), (-1, 0, -1), (2, 1, 3))
    assert (entry.box[0], entry.box[2:], entry.swizzle) == (64, (1, 1, 1), 128)


def numbers(entry: TensorMapEntry, manifest: Manifest, images: int) -> str:
    """The arguments of the encoding function, as the programs below print them."""
    params = {**manifest.params, "N": images}
    (memory,) = [memory for name, _, memory in tensor_memory(manifest, params) if name == entry.name]
    if not entry.steps:
        return "tiled"
    steps = (1, *memory.steps, 1)
    rows = (memory.sizes, memory.strides, memory.lower, memory.upper, memory.box[:2], steps)
    return "; ".join(" ".join(map(str, row)) for row in (*rows, (9, 3, 2)))


ENCODER = r"""
#include <stdio.h>

static void print_numbers(unsigned rank, const unsigned long long* sizes, const unsigned long long* strides,
    const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* steps, int type,
    int swizzle, int promotion)
{
    for (unsigned i = 0; i < rank; ++i) printf(i ? " %llu" : "%llu", sizes[i]);
    for (unsigned i = 0; i + 1 < rank; ++i) printf(i ? " %llu" : "; %llu", strides[i]);
    for (unsigned i = 0; i + 2 < rank; ++i) printf(i ? " %d" : "; %d", lower[i]);
    for (unsigned i = 0; i + 2 < rank; ++i) printf(i ? " %d" : "; %d", upper[i]);
    printf("; %u %u", channels, pixels);
    for (unsigned i = 0; i < rank; ++i) printf(i ? " %u" : "; %u", steps[i]);
    printf("; %d %d %d\n", type, swizzle, promotion);
}
"""
# The driver's functions, which print what they get.
DRIVER = (
    ENCODER
    + r"""
#include "conv_embed.h"

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
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
    const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    printf("tiled\n");
    return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType type, cuuint32_t rank, void*,
    const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill)
{
    const unsigned long long *extents = (const unsigned long long*)sizes, *pitches = (const unsigned long long*)strides;
    print_numbers(rank, extents, pitches, lower, upper, channels, pixels, steps, type, swizzle, promotion);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
    void**, void**)
{
    return CUDA_SUCCESS;
}

int main()
{
    for (int images : {6, 0})
        printf("%d\n", conv_launch(reinterpret_cast<__nv_bfloat16*>(0x1000), reinterpret_cast<__nv_bfloat16*>(0x2000),
            reinterpret_cast<float*>(0x3000), images, nullptr));
    return 0;
}
"""
)


def ran(words: list[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("rank", FORMS)
def test_the_embedded_c_gives_the_driver_the_numbers_of_the_manifest(
    kernels: dict[int, Kernel], rank: int, tmp_path: Path
) -> None:
    kernel = kernels[rank]
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90a",), "nobody"))
    entries = kernel.manifest.tensor_maps
    expected = [numbers(entry, kernel.manifest, 6) for entry in entries]
    # Without images only the map of the filters is encoded.
    assert played(tmp_path, texts.texts("conv"), DRIVER) == [*expected, "0", "tiled", "0"]


CPU = r"""
#include <cuda_runtime.h>
#include "encoder.h"

FUNCTION

int main()
{
    alignas(16) static char data[64];
    CUtensorMap map;
    const long long N = IMAGES, D = 4, H = 7, W = 9, C = 64;
    (void)D, (void)H;
    const void* x = data;
    const int status = CALL, &map);
    printf("%d %d\n", status, map.is_im2col);
    unsigned steps[5] = {1, map.steps[0], map.steps[1], map.steps[2], 1};
    steps[map.rank ? map.rank - 1 : 0] = 1;
    const int lower[3] = {map.lower[0], map.lower[1], map.lower[2]};
    const int upper[3] = {map.upper[0], map.upper[1], map.upper[2]};
    unsigned long long sizes[5], strides[5];
    for (int i = 0; i < 5; ++i) {
        sizes[i] = map.sizes[i];
        strides[i] = map.strides[i];
    }
    print_numbers(map.rank, sizes, strides + 1, lower, upper, map.box[0], map.box[1], steps, 9, 3, 2);
    return 0;
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The output of a program with the CPU device's headers."""
    try:
        command = host.compiler().command
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE ENCODING OF TENSOR MAPS IS UNTESTED: {error}")

    def run(text: str) -> str:
        folder = tmp_path_factory.mktemp("encoding")
        (folder / "encoder.h").write_text(ENCODER)
        (folder / "main.cpp").write_text(text)
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-isystem{INCLUDES}"]
        ran([*command, *flags, "main.cpp", "-o", "program"], folder)
        return ran(["./program"], folder)

    return run


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rank", FORMS)
def test_the_launcher_encodes_the_numbers_of_the_manifest(
    kernels: dict[int, Kernel], compiled: Callable[[str], str], rank: int
) -> None:
    source = kernels[rank].source
    start = source.index("template <int rank>\nstatic cudaError_t conv_im2col_map")
    function = source[start : source.index('extern "C" cudaError_t', start)]
    call = source.index("conv_im2col_map(CU_TENSOR_MAP")
    arguments = source[call : source.index(", &x_map)", call)]
    text = CPU.replace("FUNCTION", function).replace("CALL", arguments)
    manifest = kernels[rank].manifest
    found = compiled(text.replace("IMAGES", "6")).splitlines()
    assert found == ["0 1", numbers(images_of(manifest), manifest, 6)]
    assert compiled(text.replace("IMAGES", "0")).startswith("0 0\n")  # a map of zeros


REQUIREMENTS = r"""
#include <cuda_runtime.h>
#include <stdio.h>

int main()
{
    alignas(16) static char data[64];
    CUtensorMap map;
    for (int rank = 2; rank <= 6; ++rank)
        for (const auto& change : {CHANGES}) {
            cuuint64_t sizes[6] = {64, 9, 9, 9, 9, 9}, strides[5] = {128, 1152, 10368, 93312, 839808};
            int lower[4] = {}, upper[4] = {};
            cuuint32_t steps[6] = {1, 1, 1, 1, 1, 1}, channels = 64, pixels = 64;
            int offset = 0;
            change(sizes, strides, lower, upper, steps, channels, pixels, offset, rank);
            printf("%d", cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, data + offset, sizes,
                strides, lower, upper, channels, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
        }
    return 0;
}
"""
# A change of the arguments, and whether the driver takes it at 3, 4 and 5 dimensions.
CHANGES = {
    "": True,
    "offset = 8;": False,
    "sizes[1] = 0;": False,
    "strides[0] = 120;": False,
    "channels = 0;": False,
    "channels = 256;": True,
    "channels = 257;": False,
    "channels = 4;": False,  # rows of 8 bytes
    "pixels = 0;": False,
    "pixels = 1024;": True,
    "pixels = 1025;": False,
    "steps[1] = 0;": False,
    "steps[1] = 8;": True,
    "steps[1] = 9;": False,
    "upper[0] = -9;": False,  # no pixel
    "upper[0] = -8;": True,
    "lower[0] = 9;": False,
    "lower[0] = limit(rank) * -1;": True,
    "lower[0] = -limit(rank) - 1;": False,
    "upper[0] = limit(rank) - 1;": True,
    "upper[0] = limit(rank);": False,
}


@pytest.mark.slow
def test_the_cpu_devices_function_requires_what_the_driver_does(compiled: Callable[[str], str]) -> None:
    head = "cuuint64_t* sizes, cuuint64_t* strides, int* lower, int* upper, cuuint32_t* steps, cuuint32_t& channels"
    head += ", cuuint32_t& pixels, int& offset, int rank"
    unused = "(void)sizes, (void)strides, (void)lower, (void)upper, (void)steps, (void)channels, (void)pixels;"
    limit = "auto limit = [](int r) { return r == 3 ? 32768 : r == 4 ? 128 : 16; };"
    body = f"{unused} (void)offset; {limit} (void)limit, (void)rank;"
    functions = ", ".join(f"+[]({head}) {{ {body} {change} }}" for change in CHANGES)
    found = compiled(REQUIREMENTS.replace("CHANGES", functions))
    by_rank = [found[n : n + len(CHANGES)] for n in range(0, len(found), len(CHANGES))]
    taken = "".join("0" if allowed else "1" for allowed in CHANGES.values())
    refused = "1" * len(CHANGES)
    assert by_rank == [refused, taken, taken, taken, refused]


@pytest.mark.slow
@pytest.mark.parametrize("rank", FORMS)
def test_nvcc_takes_the_whole_file_without_a_warning(kernels: dict[int, Kernel], rank: int, tmp_path: Path) -> None:
    if nvcc.find() is None:
        pytest.skip("NO NVCC, HOST CODE OF KERNELS IS UNTESTED")
    (tmp_path / "k.cu").write_text(kernels[rank].source)
    flags = ["-gencode", "arch=compute_90a,code=sm_90a", "-std=c++17", "-Werror", "all-warnings"]
    command = [str(nvcc.require().path), *flags, "-Xcompiler", "-Wall,-Wextra", "-c", "k.cu", "-o", "k.o"]
    built = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert built.returncode == 0, built.stderr
