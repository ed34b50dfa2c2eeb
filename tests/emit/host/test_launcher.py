"""The host function: what it checks, allocates, uploads and launches; compiled, linked and called where nvcc is."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME, cpu_text
from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain import host as host_compiler
from cugen.toolchain import locations, nvcc

NAMES = ("number", "full", "large_tiles", "outside", "plain")  # of kernels in launchers.yaml


@pytest.fixture(scope="module")
def kernels(kernel_named):
    return {name: kernel_named(name) for name in NAMES}


@pytest.fixture
def host(kernels):
    """The lines of a launcher, from its name on."""

    def lines(name):
        text = kernels[name].source.split("#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)")[1]
        return [line.strip() for line in text.splitlines() if line.strip()]

    return lines


def test_every_value_that_the_spec_forbids_is_refused_before_anything_happens(host):
    text = "\n".join(host("full"))
    conditions = re.findall(r"if \((.*)\)\nreturn cudaErrorInvalidValue;", text)
    assert conditions == [
        "M < 4 || M > 100000 || M % 4 != 0",
        "N < 0",
        "!(floor_modulo((long long)(M - N), 4LL) == 0)",
        "!(M >= N)",
    ]
    assert text.index("M >= N") < text.index("cudaMallocAsync")


def test_a_requirement_over_fixed_params_was_settled_when_the_spec_was_read(host):
    assert not any("K > 3" in line for line in host("full"))


def test_arguments_come_in_the_order_of_the_spec_the_stream_last(host):
    lines = host("full")
    start = lines.index('extern "C" cudaError_t full_launch(')
    assert lines[start + 1 : start + 10] == [
        "const float* A,",
        "const float* W,",
        "__nv_bfloat16* status_,",
        "__half s_value,",
        "int v,",
        "int M,",
        "int N,",
        "void* workspace,",
        "cudaStream_t stream)",
    ]


def test_pieces_of_the_workspace_are_aligned_as_allocations_are(host):
    lines = host("full")
    assert "__half* const u = static_cast<__half*>(workspace);" in lines
    assert (
        "float* const t = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((2 * M + 255) / 256));"
        in lines
    )


def test_constants_are_uploaded_from_device_and_host(host):
    lines = host("full")
    assert "cudaMemcpyToSymbolAsync(s, &s_value, 2, 0, cudaMemcpyHostToDevice, stream);" in lines
    assert "cudaMemcpyToSymbolAsync(W_constant, W, 32, 0, cudaMemcpyDeviceToDevice, stream);" in lines


def test_constants_wait_before_the_uploads_and_are_recorded_after_the_last_launch(host):
    lines = host("full")
    body = lines[lines.index('extern "C" cudaError_t full_launch(') :]
    steps = (
        "_mutex)",
        "full_wait(",
        "cudaMallocAsync(",
        "cudaMemcpyToSymbolAsync(",
        "<<<",
        "cudaEventRecord(",
        "cudaFreeAsync(",
    )
    positions = [[number for number, line in enumerate(body) if step in line] for step in steps]
    assert all(before[-1] < after[0] for before, after in pairwise(positions))


def test_a_launcher_without_constants_has_no_lock(host):
    assert not any("mutex" in line or "cudaEvent" in line for line in host("large_tiles"))


CLASHES = """
cugen: 1
kernel: lock
params: {launched: dynamic}
scalars: {lock_mutex: {dtype: float32, memory: constant}}
arrays:
  lock_wait: {shape: [launched], dtype: float32}
  y: {shape: [launched], dtype: float32}
compute: y[i] = lock_wait[i] * lock_mutex
"""
CALLS = """
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>
#include <cuda_runtime.h>

// What the launcher calls, by streams that are numbers.
static cudaError_t wait(cudaStream_t stream)
{
    std::printf("wait %zu\\n", size_t(stream));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return cudaSuccess;
}
static cudaError_t record(cudaStream_t stream) { std::printf("record %zu\\n", size_t(stream)); return cudaSuccess; }
static cudaError_t create(cudaEvent_t* event) { *event = cudaEvent_t(8); return cudaSuccess; }
#define cudaEventCreateWithFlags(event, flags) create(event)
#define cudaStreamWaitEvent(stream, event, flags) wait(stream)
#define cudaEventRecord(event, stream) record(stream)
#include "lock_cpu.cpp"

int main()
{
    std::vector<std::thread> threads;
    for (size_t number = 1; number <= 2; ++number)
        threads.emplace_back([=] {
            float x[100], y[100];
            for (int call = 0; call < 50; ++call) {
                for (float& value : x)
                    value = float(call);
                lock_launch(x, y, float(number), 100, cudaStream_t(number));
                for (float value : y)
                    if (value != float(call) * float(number))
                        std::printf("wrong\\n");
            }
        });
    for (std::thread& thread : threads)
        thread.join();
}
"""


@pytest.mark.slow
def test_calls_of_several_threads_run_one_after_the_other_whatever_the_names_are(tmp_path):
    """On the CPU: the file is compiled for it, with calls that print what they do."""
    (spec,) = load_text(CLASHES)
    kernel = generate(spec, analysis=False)
    (tmp_path / "lock.cu").write_text(kernel.source)
    (tmp_path / "lock.json").write_text(kernel.manifest.to_json())
    for file, text in kernel.headers.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "lock_cpu.cpp").write_text(cpu_text(tmp_path / "lock.cu"))
    (tmp_path / "main.cpp").write_text(CALLS)
    flags = [*COMPILER_FLAGS, "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDES}", "-o", "program"]
    command = [*host_compiler.compiler().command, *flags, "main.cpp", RUNTIME]
    built = subprocess.run(list(map(str, command)), cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 200)
    for waits, records in zip(lines[::2], lines[1::2], strict=True):
        assert (waits.split()[0], records) == ("wait", f"record {waits.split()[1]}")


def test_an_empty_grid_is_not_launched(host):
    condition, launch = host("outside")[-5:-3]
    assert re.fullmatch(r"if \(.*\bM\b.* > 0\)", condition)
    assert launch.startswith("outside<<<")
    assert not any(line.startswith("if") for line in host("plain"))


def test_more_shared_memory_than_48_kib_is_opted_into(host, kernels):
    (launch,) = kernels["large_tiles"].manifest.launches
    assert launch.dynamic_shared_bytes > 48 * 1024
    attribute = f"cudaFuncAttributeMaxDynamicSharedMemorySize, {launch.dynamic_shared_bytes}"
    assert f"cudaFuncSetAttribute(large_tiles, {attribute});" in host("large_tiles")


def test_a_launcher_without_needs_only_launches(host):
    lines = host("plain")
    body = lines[lines.index("{") + 1 : lines.index("}")]
    assert len(body) == 2
    assert re.fullmatch(r"plain<<<dim3\(1\), dim3\(\d+\), 0, stream>>>\(A, Y\);", body[0])
    assert body[1] == "return cudaGetLastError();"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("compiler", "language", "standard"), [("gcc", "c", "c11"), ("g++", "c++", "c++17")])
def test_the_header_serves_c_and_cpp(kernels, name, compiler, language, standard, tmp_path):
    folders = locations.include_folders()
    if not folders or shutil.which(compiler) is None:
        pytest.skip(f"NO CUDA HEADERS OR NO {compiler}, THE HEADER IS UNTESTED")
    for file, text in kernels[name].headers.items():
        (tmp_path / file).write_text(text)
    use = f'#include "{name}.h"\n#include "{name}.h"\ntypedef int used;\n'
    includes = [part for folder in folders for part in ("-isystem", str(folder))]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", *warnings, *includes, "-I", ".", "-"]
    done = subprocess.run(command, input=use, cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


MAIN = """
#include <cstdio>
#include "full.cu"
#include "outside.cu"
#include "number.cu"
#include "number.h"
#include "full.h"
#include "outside.h"
static int full(int m, int n) { return full_launch(nullptr, nullptr, nullptr, __half(), 0, m, n, nullptr, nullptr); }
int main()
{
    printf("%zu %zu\\n", full_workspace_bytes(128, 0), full_workspace_bytes(132, 0));
    printf("%d %d %d %d %d\\n", full(0, 0), full(6, 2), full(100004, 0), full(8, -4), full(8, 3));
    printf("%d %d\\n", full(8, 12), outside_launch(nullptr, -1, nullptr));
    printf("%d\\n", number_launch({static_cast<double*>(nullptr), 8}, {static_cast<double*>(nullptr)}, nullptr).status);
}
"""


@pytest.mark.slow
def test_the_whole_file_compiles_and_refuses_bad_calls(kernels, tmp_path):
    """The checks come before the first call of CUDA, so they run where there is no GPU."""
    if nvcc.find() is None:
        pytest.skip("NO NVCC, HOST CODE OF KERNELS IS UNTESTED")
    for name in ("full", "outside", "number"):
        (tmp_path / f"{name}.cu").write_text(kernels[name].source)
        for file, text in kernels[name].headers.items():
            (tmp_path / file).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN)
    flags = ["-arch=sm_90", "-std=c++17", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-o", "program"]
    command = [str(nvcc.require().path), *flags, "main.cu"]
    built = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    invalid = "1"  # cudaErrorInvalidValue
    assert done.stdout.split() == ["512", "768", *[invalid] * 8]
