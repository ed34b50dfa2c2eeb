"""The launcher of several variants: its text, that a C++ compiler takes it, and which variant it calls."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from cugen.abi.choice import Candidate, fastest
from cugen.emit.host.apis import DRIVER
from cugen.emit.host.embed import Image, embed
from cugen.emit.host.variants import VariantsHeaders, make_entry, variants_headers
from cugen.kernel import Kernel, generate
from cugen.kernel_choice import block_cost
from cugen.spec.load import load_text
from cugen.spec.siblings import siblings
from cugen.toolchain import host, locations, process
from cugen.toolchain.errors import ToolMissing

SPEC = """\
cugen: 1
kernel: product
variants: {tile: [8, 32, 16]}
params: {M: {range: [1, 1000]}, K: 30, N: 50}
scalars: {c: {dtype: float32}}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = c * sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""
DYNAMIC = SPEC.replace("memory: shared", "memory: {space: shared, dynamic: true, pad: 200}")
TWO_LAUNCHES = """\
cugen: 1
kernel: share
variants: {size: [64, 128]}
params: {M: {range: [1, 1000]}}
arrays:
  reason: {shape: [M], dtype: float16}
  part: {shape: [M], dtype: float32, memory: scratch}
  device: {shape: [M], dtype: float32}
compute: |
  part[i] = 2 * reason[i]
  device[i] = part[i] / sum(part[j], j)
schedule: {family: direct, block: {i: $size}}
"""
BY_SIZE = (
    TWO_LAUNCHES.replace("M: {range: [1, 1000]}", "M: $size")
    .replace("[64, 128]", "[64, 128, dynamic]")
    .replace(", block: {i: $size}", "")
)


@dataclass(frozen=True)
class Family:
    """The variants' headers under their name, and the kernels."""

    name: str
    headers: VariantsHeaders
    kernels: tuple[Kernel, ...]

    @property
    def header(self) -> str:
        return self.headers.header


@cache
def family(text: str = SPEC, *, is_modelled: bool = True) -> Family:
    (group,) = siblings(load_text(text))
    kernels = tuple(map(generate, group.specs))
    costs = [block_cost(kernel) if is_modelled else None for kernel in kernels]
    entries = [make_entry(k.context, k.plan, k.manifest, cost) for k, cost in zip(kernels, costs, strict=True)]
    return Family(group.name, variants_headers(group, entries), kernels)


def files(made: Family) -> dict[str, str]:
    texts = {f"{made.name}.h": made.header, f"{made.name}.hpp": made.headers.typed_header}
    return texts | {name: text for kernel in made.kernels for name, text in kernel.headers.items()}


def test_the_largest_is_tried_first_where_no_cost_is_known() -> None:
    attempts = re.findall(r"if \((threads .*)\) \{\n +\*variant = (.);", family(is_modelled=False).header)
    assert attempts == [
        ("threads >= 1024 && shared >= 8192", "0"),
        ("threads >= 256 && shared >= 2048", "1"),
        ("threads >= 64 && shared >= 512", "2"),
    ]
    calls = re.findall(r"(\w+ ?\d?):\n +return ::product__(\d+)_launch\(A, B, C, c, M, stream\);", family().header)
    assert calls == [("case 0", "32"), ("case 1", "16"), ("default", "8")]


def test_the_parameters_are_those_of_the_variants_and_a_reason() -> None:
    def parameters(name: str, header: str) -> list[str]:
        match = re.search(rf"cudaError_t {name}_launch\((.*?)\)", header, re.DOTALL)
        assert match is not None
        return [text.strip() for text in match[1].split(",")]

    made = family()
    launcher = parameters(made.name, made.header)
    assert launcher[-1] == "std::string* reason = nullptr"
    for kernel in made.kernels:
        assert parameters(kernel.name, kernel.header) == launcher[:-1]


def test_a_variant_that_asks_for_as_much_as_one_before_is_not_tried() -> None:
    text = SPEC.replace("{tile: [8, 32, 16]}", "{tile: [8, 16], spills: [1, 2]}\ncheck: {spills: $spills}")
    made = family(text, is_modelled=False)
    assert set(re.findall(r"return ::(\w+)_launch", made.header)) == {"product__16__1", "product__8__1"}
    assert made.header.count('#include "product__') == 4


def test_dynamic_tiles_are_held_to_what_the_device_gives_on_request() -> None:
    header = family(DYNAMIC).header
    assert "cudaDevAttrMaxSharedMemoryPerBlockOptin" in header
    assert "cudaDevAttrMaxSharedMemoryPerBlock," not in header


def test_a_workspace_is_passed_on_and_holds_what_any_variant_needs() -> None:
    header = family(TWO_LAUNCHES).header
    assert "inline size_t share_workspace_bytes(int M)" in header
    assert re.findall(r"::(\w+)_workspace_bytes\(M\)", header) == ["share__128", "share__64"]
    assert "::share__64_launch(reason, device, M, workspace, stream)" in header


def test_names_of_arrays_do_not_meet_those_of_the_launcher() -> None:
    header = family(TWO_LAUNCHES).header
    assert "std::string* reason_ = nullptr" in header
    assert "cudaGetDevice(&device_)" in header


def test_the_same_variants_give_the_same_text() -> None:
    assert family().headers == family.__wrapped__().headers


@pytest.mark.slow
def test_the_driver_has_the_same_launchers(tmp_path: Path) -> None:
    made = family(BY_SIZE)
    (group,) = siblings(load_text(BY_SIZE))
    entries = [make_entry(kernel.context, kernel.plan, kernel.manifest) for kernel in made.kernels]
    headers = variants_headers(group, entries, DRIVER)
    assert "cuda_runtime" not in headers.header + headers.typed_header
    for kernel in made.kernels:
        embedded = embed(kernel.context, kernel.plan, kernel.manifest, Image(b"code", ("sm_90",), "nobody"))
        for name, text in embedded.texts(kernel.name).items():
            (tmp_path / name).write_text(text)
    (tmp_path / "share_embed.h").write_text(headers.header)
    (tmp_path / "share_embed.hpp").write_text(headers.typed_header)
    (tmp_path / "use.cpp").write_text('#include "share_embed.h"\n#include "share_embed.h"\n')
    options = [f"-isystem{folder}" for folder in locations.include_folders()]
    command = [*compiler(), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]
    finished = process.run([*command, *options, "use.cpp"], "use.cpp", tmp_path)
    assert (finished.status, finished.output) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [SPEC, DYNAMIC, TWO_LAUNCHES, BY_SIZE], ids=["static", "dynamic", "workspace", "sizes"]
)
def test_a_cxx_compiler_takes_it_with_the_headers_of_cuda(text: str, tmp_path: Path) -> None:
    folders = locations.include_folders()
    if not folders or not any((folder / "cuda_runtime_api.h").is_file() for folder in folders):
        pytest.skip("NO HEADERS OF CUDA: THE LAUNCHER OF VARIANTS IS NOT COMPILED WITH THEM")
    made = family(text)
    for name, content in files(made).items():
        (tmp_path / name).write_text(content)
    # Twice in one program, as headers are.
    (tmp_path / "use.cpp").write_text(f'#include "{made.name}.h"\n#include "{made.name}.h"\n')
    options = [f"-isystem{folder}" for folder in folders]
    command = [*compiler(), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]
    finished = process.run([*command, *options, "use.cpp"], "use.cpp", tmp_path)
    assert (finished.status, finished.output) == (0, "")


def compiler() -> tuple[str, ...]:
    try:
        return host.compiler().command
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE LAUNCHER OF VARIANTS IS UNTESTED: {error}")


SIZES = """\
cugen: 1
kernel: product
variants: {n: [dynamic, 64], k: [32, 64], tile: [8, 16]}
params: {M: $n, K: $k, N: {range: [1, 100]}}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""
USE_OF_SIZES = """\
#include <cstdio>
#include <cstdlib>
#include "product.h"

static int threads;

cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrMaxThreadsPerBlock ? threads
        : attribute == cudaDevAttrMultiProcessorCount ? 132 : 49152;
    return cudaSuccess;
}

#define OCCUPANCY(name, blocks_of_all_threads) \
    extern "C" cudaError_t product__##name##_blocks_per_sm(int* blocks) \
    { \
        *blocks = blocks_of_all_threads; \
        return cudaSuccess; \
    }

#define FIXED(name, blocks_of_all_threads) \
    OCCUPANCY(name, blocks_of_all_threads) \
    extern "C" cudaError_t product__##name##_launch(const float*, const float*, float*, int N, cudaStream_t) \
    { \
        std::printf("%s N=%d", #name, N); \
        return cudaSuccess; \
    }
#define OPEN(name, blocks_of_all_threads) \
    OCCUPANCY(name, blocks_of_all_threads) \
    extern "C" cudaError_t product__##name##_launch(const float*, const float*, float*, int M, int N, cudaStream_t) \
    { \
        std::printf("%s M=%d N=%d", #name, M, N); \
        return cudaSuccess; \
    }
FIXED(64__32__8, 32) FIXED(64__32__16, 8) FIXED(64__64__8, 32) FIXED(64__64__16, 8)
OPEN(dynamic__32__8, 32) OPEN(dynamic__32__16, 8) OPEN(dynamic__64__8, 32) OPEN(dynamic__64__16, 8)

static float a[4096], b[8000], c[8000];

int main(int, char** numbers)
{
    threads = std::atoi(numbers[1]);
    const int M = std::atoi(numbers[2]), K = std::atoi(numbers[3]), N = std::atoi(numbers[4]);
    std::string reason;
    const cudaError_t status = product_launch(a, b, c, M, K, N, nullptr, &reason);
    std::printf("|%d|%s\\n", status, reason.c_str());
    const auto error = product_launch({a, M, K}, {b, K, N}, {c, M, N}, nullptr);
    std::printf("|%d|%s\\n", error.status, error.message.c_str());
}
"""
NO_VARIANT = "`product` has no variant for M = 64, K = 63; there are variants for "


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("threads", "sizes", "answer"),
    [
        (1024, (64, 64, 7), "64__64__16 N=7|0|"),
        (1024, (64, 32, 7), "64__32__16 N=7|0|"),
        (255, (64, 32, 7), "64__32__8 N=7|0|"),
        (1024, (63, 32, 7), "dynamic__32__16 M=63 N=7|0|"),
        (1024, (0, 64, 7), "dynamic__64__16 M=0 N=7|0|"),
        (1024, (64, 63, 7), f"|1|{NO_VARIANT}M = 64, K = 32; M = 64, K = 64; any M, K = 32; any M, K = 64"),
        (1, (64, 64, 7), "|9|`product__dynamic__64__8` needs 64 threads and 512 bytes of shared memory per block; "
         "the device allows 1 threads and 49152 bytes of shared memory"),
    ],
)  # fmt: skip
def test_a_variant_for_the_sizes_runs_and_one_for_any_where_there_is_none(
    threads: int, sizes: tuple[int, ...], answer: str
) -> None:
    compiler()
    sources = files(family(SIZES)) | {"main.cpp": USE_OF_SIZES, "cuda_runtime_api.h": RUNTIME}
    built = host.build(sources, "main.cpp", ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-I."))
    finished = process.run([str(built.path), *map(str, (threads, *sizes))], "main.cpp")
    raw, spans = finished.output.splitlines()
    assert (raw, spans) == (answer, answer)


RUNTIME = """\
#pragma once
#include <cstddef>
typedef struct stream* cudaStream_t;
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNoDevice = 100
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
inline const char* cudaGetErrorString(cudaError_t) { return "refused"; }
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
"""

PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include "product.h"

static int current, threads, shared, on_request, sms = 132;

cudaError_t cudaGetDevice(int* device)
{
    *device = 3;
    return current == 3 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device)
{
    if (device != 3)
        return cudaErrorNoDevice;
    *value = attribute == cudaDevAttrMaxThreadsPerBlock ? threads
        : attribute == cudaDevAttrMaxSharedMemoryPerBlock ? shared
        : attribute == cudaDevAttrMultiProcessorCount ? sms : on_request;
    return cudaSuccess;
}

static float a, b, result;

#define VARIANT(tile) \\
    static int resident_##tile = 2048 / (tile * tile); \\
    extern "C" cudaError_t product__##tile##_blocks_per_sm(int* blocks) \\
    { \\
        *blocks = resident_##tile; \\
        return cudaSuccess; \\
    } \\
    extern "C" cudaError_t product__##tile##_launch( \\
        const float* A, const float* B, float* C, float c, int M, cudaStream_t stream) \\
    { \\
        bool same = A == &a && B == &b && C == &result && c == 2.5f && M == 7 && stream == nullptr; \\
        std::printf("%d %s", tile, same ? "with all arguments" : "with others"); \\
        return cudaSuccess; \\
    }
VARIANT(8)
VARIANT(16)
VARIANT(32)

int main(int, char** limits)
{
    current = std::atoi(limits[1]);
    threads = std::atoi(limits[2]);
    shared = std::atoi(limits[3]);
    on_request = std::atoi(limits[4]);
    std::string reason;
    cudaError_t status = product_launch(&a, &b, &result, 2.5f, 7, nullptr, &reason);
    std::printf("|%d|%s\\n", status, reason.c_str());
    if (product_launch(&a, &b, &result, 2.5f, 7, nullptr) != status)
        std::printf("without a reason it is another status\\n");
}
"""

Launch = Callable[..., str]


@pytest.fixture
def launch() -> Launch:
    """What a launch says on a device with these limits: the variant that ran, the status, and the reason."""
    compiler()

    def run(text: str = SPEC, *, device: int = 3, threads: int = 1024, shared: int = 49152, on_request: int = 0) -> str:
        sources = files(family(text)) | {"main.cpp": PROGRAM, "cuda_runtime_api.h": RUNTIME}
        flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-I.")
        built = host.build(sources, "main.cpp", flags)
        numbers = map(str, (device, threads, shared, on_request))
        finished = process.run([str(built.path), *numbers], "main.cpp")
        assert finished.status == 0
        return finished.output.splitlines()[0]

    return run


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("threads", "shared", "taken"),
    [(1024, 49152, 32), (1024, 8192, 32), (1024, 8191, 16), (1023, 8192, 16), (255, 49152, 8), (64, 512, 8)],
)
def test_the_largest_within_both_limits_runs(launch: Launch, threads: int, shared: int, taken: int) -> None:
    assert launch(threads=threads, shared=shared) == f"{taken} with all arguments|0|"


@pytest.mark.parametrize(("threads", "shared"), [(63, 49152), (1024, 511), (0, 0)])
def test_where_none_fits_nothing_runs_and_the_reason_has_both_numbers(
    launch: Launch, threads: int, shared: int
) -> None:
    assert launch(threads=threads, shared=shared) == (
        "|9|`product__8` needs 64 threads and 512 bytes of shared memory per block; "
        f"the device allows {threads} threads and {shared} bytes of shared memory"
    )


def test_dynamic_tiles_may_be_larger_than_static_ones(launch: Launch) -> None:
    needed = max(kernel.manifest.launches[0].dynamic_shared_bytes for kernel in family(DYNAMIC).kernels)
    assert needed > 49152
    assert launch(DYNAMIC, on_request=needed).startswith("32 ")
    assert launch(DYNAMIC, on_request=needed - 1).startswith("16 ")


def test_without_a_device_the_runtimes_own_error_comes_back(launch: Launch) -> None:
    assert launch(device=0) == "|100|"


CHOOSING = """\
#include <cstdio>
#include <cstdlib>
#include "product.h"

static int sms, resident[3];

cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrMultiProcessorCount ? sms
        : attribute == cudaDevAttrMaxThreadsPerBlock ? 1024 : 49152;
    return cudaSuccess;
}

#define VARIANT(number, tile) \\
    extern "C" cudaError_t product__##tile##_blocks_per_sm(int* blocks) \\
    { \\
        *blocks = resident[number]; \\
        return cudaSuccess; \\
    } \\
    extern "C" cudaError_t product__##tile##_launch(const float*, const float*, float*, float, int, cudaStream_t) \\
    { \\
        return cudaSuccess; \\
    }
VARIANT(0, 32)
VARIANT(1, 16)
VARIANT(2, 8)

int main(int count, char** numbers)
{
    for (int first = 1; first + 4 < count; first += 5) {
        sms = std::atoi(numbers[first + 1]);
        for (int k = 0; k < 3; ++k)
            resident[k] = std::atoi(numbers[first + 2 + k]);
        int variant = -1;
        const cudaError_t status = product_variant(std::atoi(numbers[first]), &variant, nullptr);
        std::printf("%d %d\\n", status, variant);
    }
}
"""
RESIDENT = tuple(itertools.product((0, 1, 2), (0, 1, 8), (0, 4, 32)))  # blocks of 32, 16 and 8 threads squared


def test_a_choice_is_that_of_python_whatever_the_sizes_and_the_device() -> None:
    compiler()
    made = family()
    built = host.build(
        files(made) | {"main.cpp": CHOOSING, "cuda_runtime_api.h": RUNTIME},
        "main.cpp",
        ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-I."),
    )
    calls = list(itertools.product((1, 33, 257, 1000), (1, 20, 132), RESIDENT))
    numbers = [str(number) for M, sms, resident in calls for number in (M, sms, *resident)]
    finished = process.run([str(built.path), *numbers], "main.cpp")
    largest_first = sorted(made.kernels, key=lambda kernel: -int(kernel.name.rpartition("_")[2]))
    costs = [cost for kernel in largest_first if (cost := block_cost(kernel)) is not None]
    expected = []
    for M, sms, resident in calls:
        blocks = [-(-M // tile) * -(-50 // tile) for tile in (32, 16, 8)]
        expected.append(fastest(list(map(Candidate, costs, blocks, resident)), sms))
    assert finished.output.splitlines() == [f"0 {number}" for number in expected]
    assert set(expected) == {0, 1, 2}
