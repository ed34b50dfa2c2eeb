"""Real kernels through every CUDA compiler of this machine; without a GPU."""

import re
from pathlib import Path

import pytest

from cugen.toolchain import cuda, locations, nvcc, nvrtc
from cugen.toolchain.binary import elf
from cugen.toolchain.errors import CompileError, ToolMissing

TILE = """\
#include <cuda_fp16.h>
__constant__ float taps[37];
extern "C" __global__ void __launch_bounds__(256) tile(const float* __restrict__ a, float* __restrict__ b, __half s) {
    __shared__ float t[16][17];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 16 + threadIdx.x] * taps[threadIdx.x];
    __syncthreads();
    b[threadIdx.y * 16 + threadIdx.x] = t[threadIdx.x][threadIdx.y] + __half2float(s);
}
extern "C" __global__ void plain(float* b) { b[threadIdx.x] = 1.0f; }
"""
SPILLING = """\
extern "C" __global__ void spilling(const float* __restrict__ a, float* __restrict__ b, int n) {
    float v[48];
#pragma unroll
    for (int i = 0; i < 48; ++i) v[i] = a[i * 1024 + threadIdx.x];
    for (int k = 0; k < n; ++k) {
#pragma unroll
        for (int i = 0; i < 48; ++i) v[i] = v[i] * v[(i + 7) % 48] + 1.0f;
    }
#pragma unroll
    for (int i = 0; i < 48; ++i) b[i * 1024 + threadIdx.x] = v[i];
}
"""
SPILLED = SPILLING[SPILLING.index("{") + 1 : SPILLING.rindex("}")].replace("a[", "c[").replace("b[", "c[49152 + ")
SPILLED = SPILLED.replace("k < n", "k < a")
WGMMA = """\
extern "C" __global__ void __launch_bounds__(128) product(float* c, unsigned long long a, unsigned long long b) {{
    float d[4] = {{}};
    {fence} {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, 1, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%0, %1, %2, %3}}, %4, %5, p, 1, 1, 0, 0;}}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }}
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}}
"""
FENCE = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
COMPILERS = [compiler.name for compiler in cuda.compilers()]
TARGETS = ["sm_75", "sm_80", "sm_90"]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache_folder(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One cache for the file: nvcc takes half a second for each kernel."""
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(shared_folder))
    return shared_folder


def figure(log: str, kernel: str, pattern: str) -> int:
    """A number from what `ptxas -v` printed of one kernel; 0 where it is silent."""
    part = log.split(f"Compiling entry function '{kernel}'")[1].split("Compiling entry function")[0]
    match = re.search(pattern, part)
    return int(match.group(1)) if match else 0


def test_this_machine_has_nvrtc() -> None:
    assert "nvrtc" in COMPILERS


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_resources_of_a_kernel_with_a_tile_and_a_constant_table(compiler: cuda.CompilerName, target: str) -> None:
    cubin = cuda.compile_cubin(TILE, "tile", target, prefer=compiler)
    assert list(cubin.kernels) == ["plain", "tile"]
    tile = cubin.kernels["tile"]
    assert tile.shared_bytes == 16 * 17 * 4
    assert tile.constant_bytes == 37 * 4
    assert (tile.spill_stores, tile.spill_loads, tile.stack_bytes) == (0, 0, 0)
    assert cubin.kernels["plain"].shared_bytes == 0
    assert cubin.compiler.startswith(compiler)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_register_limit_spills_and_the_figures_are_those_of_ptxas(compiler: cuda.CompilerName, target: str) -> None:
    cubin = cuda.compile_cubin(SPILLING, "spilling", target, prefer=compiler, flags=["--maxrregcount=32"])
    kernel = cubin.kernels["spilling"]
    assert kernel.registers == figure(cubin.log, "spilling", r"Used (\d+) registers") == 32
    assert kernel.stack_bytes == figure(cubin.log, "spilling", r"(\d+) bytes stack frame") > 0
    assert kernel.spill_stores == figure(cubin.log, "spilling", r"(\d+) bytes spill stores") > 0
    assert kernel.spill_loads == figure(cubin.log, "spilling", r"(\d+) bytes spill loads") > 0


@pytest.mark.covering
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_cubin_and_ptxas_agree_on_registers_and_shared_memory(compiler: cuda.CompilerName, target: str) -> None:
    cubin = cuda.compile_cubin(TILE, "tile", target, prefer=compiler)
    for name, kernel in cubin.kernels.items():
        assert kernel.registers == figure(cubin.log, name, r"Used (\d+) registers")
        assert kernel.shared_bytes == figure(cubin.log, name, r"(\d+) bytes smem")


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])  # later ones don't print it
def test_the_cubin_and_ptxas_agree_on_the_argument_bank(target: str) -> None:
    cubin = cuda.compile_cubin(TILE, "tile", target)
    sections = elf.kernels(cubin.image)
    assert sections["tile"].argument_bytes == figure(cubin.log, "tile", r"(\d+) bytes cmem\[0\]")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_second_compilation_comes_from_the_cache_with_the_same_bytes(compiler: cuda.CompilerName) -> None:
    source = TILE + "// another\n"
    first = cuda.compile_cubin(source, "tile", "sm_80", prefer=compiler)
    second = cuda.compile_cubin(source, "tile", "sm_80", prefer=compiler)
    assert (first.cached, second.cached) == (False, True)
    assert (second.image, second.log, second.kernels) == (first.image, first.log, first.kernels)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_errors_and_warnings_refer_to_the_stem(compiler: cuda.CompilerName) -> None:
    source = 'extern "C" __global__ void f(float* a) {\n    int unused = 3;\n    a[0] = missing;\n}\n'
    with pytest.raises(CompileError) as caught:
        cuda.compile_cubin(source, "gemm", "sm_80", prefer=compiler)
    assert caught.value.source_name == "gemm.cu"
    assert 'gemm.cu(3): error: identifier "missing" is undefined' in caught.value.output
    cubin = cuda.compile_cubin(source.replace("missing", "1.0f"), "gemm", "sm_80", prefer=compiler)
    assert [(w.file, w.line) for w in cubin.warnings] == [("gemm.cu", 2)]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_target_that_the_compiler_does_not_know_has_a_code_of_its_own(compiler: cuda.CompilerName) -> None:
    with pytest.raises(CompileError, match="can't compile for sm_20") as caught:
        cuda.compile_cubin(TILE, "tile", "sm_20", prefer=compiler)
    assert caught.value.code == "CG4003"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_architecture_specific_targets_compile(compiler: cuda.CompilerName) -> None:
    assert "tile" in cuda.compile_cubin(TILE, "tile", "sm_90a", prefer=compiler).kernels


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_wgmmas_that_ptxas_serialises_are_an_error(compiler: cuda.CompilerName) -> None:
    pipelined, serialised = (WGMMA.format(fence=fence) for fence in (FENCE, "if (threadIdx.x < 32)"))
    assert "product" in cuda.compile_cubin(pipelined, "product", "sm_90a", prefer=compiler).kernels
    for _ in range(2):  # from the cache, too
        with pytest.raises(CompileError, match=r"serialises the wgmmas of product \(C75\d\d, due to") as caught:
            cuda.compile_cubin(serialised, "product", "sm_90a", prefer=compiler)
        assert caught.value.code == "CG4001"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_registers_that_spill_in_a_loop_around_wgmmas_are_an_error(compiler: cuda.CompilerName) -> None:
    source, flags = WGMMA.format(fence=FENCE), ["--maxrregcount=32"]
    compiled = cuda.compile_cubin(SPILLING + source, "product", "sm_90a", prefer=compiler, flags=flags)
    assert compiled.kernels["spilling"].spill_stores > 0  # a kernel without wgmmas
    before, product, after = re.split(r"(?=asm volatile\(\"wgmma.fence)|(?=    c\[)", source)
    looped = before + SPILLED.replace("++k) {", "++k) {\n" + product) + after
    looped = looped.replace("__launch_bounds__(128)", "")
    with pytest.raises(CompileError, match="product spills registers beside wgmma"):
        cuda.compile_cubin(
            looped.replace("__launch_bounds__(128)", ""), "product", "sm_90a", prefer=compiler, flags=flags
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_registers_that_spill_after_a_loop_around_wgmmas_are_none(compiler: cuda.CompilerName) -> None:
    source = WGMMA.format(fence=FENCE).replace("__launch_bounds__(128)", "")
    before, product, after = re.split(r"(?=asm volatile\(\"wgmma.fence)|(?=    c\[)", source)
    looped = f"{before} for (unsigned long long t = 0; t < b; ++t) {{{product}}} {SPILLED} {after}"
    compiled = cuda.compile_cubin(looped, "product", "sm_90a", prefer=compiler, flags=["--maxrregcount=32"])
    assert compiled.kernels["product"].spill_stores > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_ptx_is_for_the_virtual_architecture(compiler: cuda.CompilerName) -> None:
    ptx = cuda.compile_ptx(TILE, "tile", "sm_80", prefer=compiler)
    assert ".target sm_80" in ptx
    assert ".entry tile(" in ptx
    assert "\0" not in ptx


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_floating_point_is_not_made_fast(compiler: cuda.CompilerName) -> None:
    source = 'extern "C" __global__ void f(float* a) { a[0] = a[1] / a[2]; }\n'
    assert "div.rn.f32" in cuda.compile_ptx(source, "f", "sm_80", prefer=compiler)


def test_host_code_behind_the_usual_guard_is_not_seen_by_nvrtc() -> None:
    source = TILE + "#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)\n#include <cuda_runtime.h>\n#endif\n"
    assert "tile" in cuda.compile_cubin(source, "tile", "sm_80", prefer="nvrtc").kernels


def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "roots", lambda: iter(()))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)


def test_without_any_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere(monkeypatch)
    assert cuda.compilers() == ()
    with pytest.raises(ToolMissing, match=r"(?s)CG4002.*CUDA compiler.*pip install 'cuda-toolkit\[nvrtc"):
        cuda.compile_cubin(TILE, "tile", "sm_80")


def test_a_requested_compiler_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere(monkeypatch)
    with pytest.raises(ToolMissing, match=r"(?s)nvcc was not found.*cuda-toolkit\[nvcc"):
        nvcc.require()
    with pytest.raises(ToolMissing, match=r"(?s)NVRTC .* was not found.*cuda-toolkit\[nvrtc"):
        nvrtc.require()


def test_without_headers_a_source_that_includes_them_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "include_folders", lambda library: ())
    with pytest.raises(ToolMissing, match="headers"):
        cuda.compile_cubin(TILE, "tile", "sm_80", prefer="nvrtc")
    assert "spilling" in cuda.compile_cubin(SPILLING, "spilling", "sm_80", prefer="nvrtc").kernels
