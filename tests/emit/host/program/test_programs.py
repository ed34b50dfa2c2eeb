"""Programs of the gallery: written as committed, compiled without a warning, run, and right in their own eyes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.emit.host.program.program import program
from cugen.toolchain import locations, nvcc

DATA = Path(__file__).parents[3] / "data" / "programs"
# Types, textures, constants, gathers, boundaries, scans, temporaries, a workspace, `+=`, a table, sm_90a.
GALLERY = (
    "saxpy",
    "matmul_tiled_even",
    "softmax",
    "heat_torus",
    "life",
    "gather",
    "gemm_f16",
    "suffix_sums",
    "blur_separable",
    "gemm_slices",
    "tone_curve",
    "argmax",
    "pitched_copy",
    "gemm_tensor_int8",
    "full_sum",
    "conv_transposed",
    "gemm_wgmma_fp8",
    "n_body",
    "polynomial",
    "bias_relu",
)
OVERLAPPING = ("rms_norm_dynamic", "gemm_tensor_bf16", "matmul_small")


@pytest.mark.parametrize(
    ("name", "kind", "file"),
    [
        ("saxpy", "main", "saxpy_main.cpp"),
        ("matmul_tiled", "main", "matmul_tiled_main.cpp"),
        ("rms_norm_dynamic", "main-overlap", "rms_norm_dynamic_main_overlap.cpp"),
    ],
)
def test_a_committed_program_is_what_the_spec_gives(gallery_kernel, golden, name, kind, file):
    kernel = gallery_kernel(name)
    golden(DATA / file, program(kind, kernel.context, kernel.manifest))


@pytest.mark.slow
@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", GALLERY)
def test_a_program_runs_on_the_cpu_and_finds_no_wrong_element(gallery_kernel, run_on_cpu, name):
    done = run_on_cpu(gallery_kernel(name))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^\w+: \d+ elements checked, 0 wrong;", done.stdout, re.MULTILINE)
    rates = re.findall(r"^(copy in, pageable|copy in, pinned|kernel|copy out, \w+) .* GB/s", done.stdout, re.MULTILINE)
    assert rates == ["copy in, pageable", "copy in, pinned", "kernel", "copy out, pinned", "copy out, pageable"]


def test_ends_of_ranges_are_sorted(kernel_of, run_on_cpu):
    kernel = kernel_of("""
cugen: 1
kernel: segments
params: {N: 2000, G: 30}
arrays:
  x: {shape: [N], dtype: float32}
  start: {shape: [G + 1], dtype: int32}
  total: {shape: [G], dtype: float32}
indices: {g: G}
compute: total[g] = sum(x[i], i, where=start[g] <= i and i < start[g + 1])
""")
    text = program("main", kernel.context, kernel.manifest)
    assert "    draw_integers(host.start, start_elements, -1, 2001);\n    std::sort(host.start, host.start" in text
    done = run_on_cpu(kernel)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY[:10])
def test_a_program_runs_under_sanitizers(gallery_kernel, run_on_cpu, name):
    done = run_on_cpu(gallery_kernel(name), sanitizers="address,undefined")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OVERLAPPING)
def test_parts_are_computed_and_a_timeline_is_printed(gallery_kernel, run_on_cpu, name):
    done = run_on_cpu(gallery_kernel(name), "main-overlap")
    assert (done.returncode, done.stderr) == (0, "")
    lines = re.findall(r"^ +(\d+)((?: +\d+\.\d{4}){6})$", done.stdout, re.MULTILINE)
    (parts,) = re.findall(r": (\d+) parts of \d+ rows", done.stdout)
    assert [int(number) for number, _ in lines] == list(range(int(parts)))
    for _, text in lines:
        times = list(map(float, text.split()))
        assert times == sorted(times)
    assert re.search(r"overlapped [\d.]+ ms: [\d.]+ times the longest of the three$", done.stdout, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "main") for name in GALLERY), *((name, "main-overlap") for name in OVERLAPPING)]
)
def test_nvcc_has_no_warning(gallery_kernel, write_program, tmp_path, name, kind):
    if (tool := nvcc.find()) is None:
        pytest.skip("NO nvcc, THE PROGRAMS ARE NOT COMPILED FOR A GPU")
    path = write_program(gallery_kernel(name), kind)
    includes = [f"-isystem={folder}" for folder in locations.include_folders()]
    warnings = ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings"]
    command = [tool.path, "-std=c++17", *warnings, *includes, "-c", path.name, "-o", "program.o"]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


WRONG = """
cugen: 1
kernel: plus
params: {N: 1000}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i] + 1
schedule: {family: direct}
"""


@pytest.mark.slow
def test_a_wrong_kernel_is_found(kernel_of, run_on_cpu):
    kernel = kernel_of(WRONG)
    wrong = kernel.source.replace("+ 1.0f", "+ 1.00001f")
    assert wrong != kernel.source
    done = run_on_cpu(replace(kernel, source=wrong))
    assert done.returncode == 1
    assert "y: 1000 elements checked, 1000 wrong; largest error 1e-05" in done.stdout


@pytest.mark.slow
def test_a_call_of_cuda_that_fails_ends_the_program(kernel_of, run_on_cpu):
    done = run_on_cpu(kernel_of(WRONG), edit=lambda text: text.replace("(&properties, 0)", "(&properties, 7)"))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r".*plus_main.cpp:\d+: cudaGetDeviceProperties\(&properties, 7\)\n  invalid argument\n", done.stderr
    )
