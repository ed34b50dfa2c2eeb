"""Programs round a kernel on a GPU: their result, their bandwidths, and copies that overlap with launches."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest

from cugen.emit.files import PROGRAMS
from cugen.emit.host.program.program import program
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_all, load_text

pytestmark = pytest.mark.gpu

SPECS = Path(__file__).parents[2] / "specs"
GALLERY = (
    "saxpy",
    "matmul_tiled",
    "softmax",
    "heat_torus",
    "gather",
    "gemm_f16",
    "suffix_sums",
    "tone_curve",
    "gemm_tensor_bf16",
    "gemm_wgmma_fp8",
)
PLACED = """
cugen: 1
kernel: placed
params: {N: {default: 1000000}}
arrays:
  x: {shape: [N], dtype: float32, memory: mapped}
  w: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32, memory: managed}
  z: {shape: [N], dtype: float32, memory: mapped}
compute: |
  y[i] += w[i] * x[i]
  z[i] = 2 * x[i]
"""
RUNS = 3  # the GPU and the bus may be in use by others
# As many sines for each element that launches take about as long as copies.
BALANCED = """
cugen: 1
kernel: balanced
params: {M: {default: 65536}, N: 1024}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[i, j] = sum(sin(k * x[i, j]), k)
indices: {k: 64}
"""


def run(kernel: Kernel, kind: str, folder: Path) -> str:
    """What the program prints, compiled without a warning."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    source = folder / f"{kernel.name}{PROGRAMS[kind]}"
    source.write_text(program(kind, kernel.context, kernel.manifest))
    (folder / f"{kernel.name}.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (folder / name).write_text(text)
    target = kernel.spec.target
    number = target.removeprefix("sm_")
    code = ["-gencode", f"arch=compute_{number},code={target}"] if target.endswith("a") else ["-arch=native"]
    warnings = ["-Xcompiler", "-Wall,-Wextra,-Werror"]
    command = [nvcc, "-std=c++17", *code, *warnings, source.name, f"{kernel.name}.cu", "-o", "program"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert (built.returncode, built.stderr) == (0, "")
    done = subprocess.run([folder / "program"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.parametrize("name", GALLERY)
def test_a_program_finds_no_wrong_element_and_prints_bandwidths_beside_peaks(device, tmp_path, name):
    (spec, *_) = load_all(SPECS / f"{name}.yaml")
    if spec.target.endswith("a") and spec.target != f"{device.capability}a":
        pytest.skip(f"NO GPU OF {spec.target}, NOT TESTED")
    printed = run(generate(spec, analysis=False), "main", tmp_path)
    assert re.search(r"^\w+: \d+ elements checked, 0 wrong;", printed, re.MULTILINE)
    shares = re.findall(r"^(copy in, pinned|kernel|copy out, pinned) .* GB/s, ([\d.]+) % of", printed, re.MULTILINE)
    assert [what for what, _ in shares] == ["copy in, pinned", "kernel", "copy out, pinned"]
    assert all(float(share) > 0 for _, share in shares)


def test_managed_and_mapped_arrays_are_read_and_written_where_they_are(device, tmp_path):
    (spec,) = load_text(PLACED)
    printed = run(generate(spec, analysis=False), "main", tmp_path)
    assert re.search(r"^kernel, mapped arrays .* GB/s", printed, re.MULTILINE)
    assert printed.count(" 0 wrong;") == 2


def test_copies_overlap_with_launches_by_their_events(device, tmp_path):
    (spec,) = load_text(BALANCED)
    kernel = generate(spec, analysis=False)
    for _ in range(RUNS):
        printed = run(kernel, "main-overlap", tmp_path)
        (ratio,) = re.findall(r": ([\d.]+) times the longest of the three$", printed, re.MULTILINE)
        if (overlap := least_overlap(printed)) > 0.5 and float(ratio) <= 1.15:
            break
    assert overlap > 0.5
    assert float(ratio) <= 1.15


def least_overlap(printed: str) -> float:
    """How long copies in, kernels and copies out ran at the same time, two by two, as a share of the shorter of the
    two: the least of these. The parts of each follow each other."""
    rows = re.findall(r"^ +\d+((?: +\d+\.\d{4}){6})$", printed, re.MULTILINE)
    times = [tuple(map(float, row.split())) for row in rows]
    stages = [[(t[2 * stage], t[2 * stage + 1]) for t in times] for stage in range(3)]
    for stage in stages:
        assert all(before[1] <= after[0] + 1e-3 for before, after in pairwise(stage))
    shares = []
    for first, second in combinations(stages, 2):
        common = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in product(first, second))
        shares.append(common / min(sum(end - begin for begin, end in stage) for stage in (first, second)))
    return min(shares)
