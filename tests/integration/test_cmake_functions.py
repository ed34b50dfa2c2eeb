"""What the functions of `find_package(cugen)` do beyond the example: limits, drift, bare sources, variants, and paths
with blanks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Embedding needs the driver's headers, which come with a toolkit; machine code by itself needs NVRTC alone.
TOOLKIT = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
KINDS = ["cubin", *(["embed"] if TOOLKIT else [])]
TRANSPOSE = Path(__file__).parents[2] / "examples" / "pre-commit" / "kernels" / "turn.yaml"
HEAD = """\
cmake_minimum_required(VERSION 3.21)
project(scratch LANGUAGES CXX)
find_package(cugen CONFIG REQUIRED)
"""


@pytest.fixture
def folder(tmp_path):
    """With a kernel whose tile has no bank conflicts; without `pad` it has."""
    made = tmp_path / "a project (1)"
    made.mkdir()
    shutil.copy(TRANSPOSE, made)
    return made


def configure(environment, folder, text, generator="Ninja"):
    (folder / "CMakeLists.txt").write_text(HEAD + text)
    words = ["-G", generator, "-B", "build", f"-Dcugen_DIR={environment.packages / 'cugen' / 'cmake'}"]
    return environment.run(["cmake", *words], folder)


def build(environment, folder):
    return environment.run(["cmake", "--build", "build"], folder)


def conflicting(folder):
    spec = folder / "turn.yaml"
    spec.write_text(spec.read_text().replace(", pad: 1", ""))


FINDING = re.compile(r"turn\.yaml:6:\d+: error: .*bank conflicts.* \[CG2201\]$", re.MULTILINE)


@pytest.mark.parametrize(
    ("level", "said", "passes"), [("error", True, False), ("warn", True, True), ("off", False, True)]
)
def test_limits_of_a_spec_fail_the_build_or_warn_or_are_left_alone(installed, folder, level, said, passes):
    assert configure(installed, folder, f"cugen_add_library(turn SPECS turn.yaml CHECK {level})").status == 0
    assert build(installed, folder).status == 0
    conflicting(folder)
    done = build(installed, folder)
    assert ((done.status == 0), bool(FINDING.search(done.text))) == (passes, said)


def test_a_test_of_ctest_fails_where_committed_files_are_stale(installed, folder):
    text = "enable_testing()\ncugen_add_check(NAME drift SPECS turn.yaml GENERATED_DIR committed DEFINES N=96)\n"
    installed.must(["cugen", "generate", "-o", "committed", "--set", "N=96", "turn.yaml"], folder)
    assert configure(installed, folder, text).status == 0
    ctest = ["ctest", "--test-dir", "build", "--output-on-failure"]
    installed.must(ctest, folder)
    (folder / "committed" / "turn.h").write_text("// mine\n")
    done = installed.run(ctest, folder)
    assert done.status != 0
    assert "turn.h: edited by hand" in done.text


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_bare_sources_serve_a_target_of_ones_own_in_a_folder_with_blanks(installed, folder, generator):
    text = (
        "cugen_generate(OUT_VAR files SPECS turn.yaml DEFINES M=64 N=64)\n"
        "list(FILTER files EXCLUDE REGEX [[\\.cu$]])\n"
        "add_executable(own main.cpp ${files})\n"
        "target_include_directories(own PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/cugen)\n"
        "target_link_libraries(own PRIVATE cugen::cpu)\n"
    )
    (folder / "main.cpp").write_text(
        '#include "turn.h"\n'
        "static float x[64][64], y[64][64];\n"
        "int main() { x[1][2] = 3; turn_launch(x[0], y[0], nullptr); return y[2][1] != 3; }\n"
    )
    done = configure(installed, folder, text, generator)
    assert done.status == 0, done.text
    done = build(installed, folder)
    assert done.status == 0, done.text
    installed.must([folder / "build" / "own"], folder)
    again = build(installed, folder)
    assert "cugen: turn" not in again.text
    (folder / "turn.yaml").touch()
    assert "cugen: turn" in build(installed, folder).text


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_two_calls_for_one_folder_have_one_step_for_the_header_that_they_share(installed, folder, generator):
    """In one directory of the project and in another, built by several jobs at once."""
    text = (folder / "turn.yaml").read_text()
    for name in ("left", "right", "nested"):
        (folder / f"{name}.yaml").write_text(text.replace("kernel: turn", f"kernel: {name}"))
    calls = (
        "cugen_generate(OUT_VAR {0} SPECS ${{CMAKE_SOURCE_DIR}}/{0}.yaml OUTPUT_DIR ${{CMAKE_BINARY_DIR}}/kernels)\n"
        "list(FILTER {0} EXCLUDE REGEX [[\\.cu$]])\n"
        "add_library({0}_user STATIC ${{PROJECT_SOURCE_DIR}}/{0}.cpp ${{{0}}})\n"
        "target_include_directories({0}_user PRIVATE ${{PROJECT_BINARY_DIR}}/kernels)\n"
        "target_link_libraries({0}_user PRIVATE cugen::cpu)\n"
    )
    (folder / "sub").mkdir()
    (folder / "sub" / "CMakeLists.txt").write_text(calls.format("nested"))
    for name in ("left", "right", "nested"):
        (folder / f"{name}.cpp").write_text(
            f'#include "{name}.h"\n'
            f"bool use(float* x) {{ return bool({name}_launch({{x, 64, 64}}, {{x, 64, 64}}, nullptr)); }}\n"
        )
    text = calls.format("left") + calls.format("right") + "add_subdirectory(sub)\n"
    done = configure(installed, folder, text, generator)
    assert done.status == 0, done.text
    done = installed.run(["cmake", "--build", "build", "--parallel", "4"], folder)
    assert done.status == 0, done.text
    assert len(re.findall(r"cugen: cugen_launch\.hpp$", done.text, re.MULTILINE)) == 1
    header = folder / "build" / "kernels" / "cugen_launch.hpp"
    time = header.stat().st_mtime_ns
    (folder / "left.yaml").touch()
    assert "cugen: left" in build(installed, folder).text
    assert header.stat().st_mtime_ns == time
    assert "cugen: " not in build(installed, folder).text
    header.unlink()
    assert len(re.findall(r"cugen: cugen_launch\.hpp$", build(installed, folder).text, re.MULTILINE)) == 1


def test_specs_of_one_name_in_two_folders_go_into_one_library(installed, folder):
    for folder_name in ("left", "right"):
        (folder / folder_name).mkdir()
        text = (folder / "turn.yaml").read_text().replace("kernel: turn", f"kernel: turn_{folder_name}")
        (folder / folder_name / "turn.yaml").write_text(text)
    done = configure(installed, folder, "cugen_add_library(k SPECS left/turn.yaml right/turn.yaml CHECK error)\n")
    assert done.status == 0, done.text
    done = build(installed, folder)
    assert done.status == 0, done.text
    spec = folder / "left" / "turn.yaml"
    spec.write_text(spec.read_text().replace("doc: ", "doc: once more "))
    said = re.findall(r"\] cugen: (.*)$", build(installed, folder).text, re.MULTILINE)
    assert said == ["turn_left", "checking turn_left"]


def test_variants_give_a_library_with_the_header_that_chooses(installed, folder):
    (folder / "turn.yaml").write_text(
        "cugen: 1\nkernel: turn\nparams: {M: 64, N: 32}\nvariants: {tile: [16, 32]}\n"
        "arrays:\n  x: {shape: [M, N], dtype: float32}\n  y: {shape: [N, M], dtype: float32}\n"
        "compute: y[n, m] = x[m, n]\nschedule:\n  block: {m: $tile, n: $tile}\n"
    )
    (folder / "main.cpp").write_text(
        '#include "turn.h"\n'
        "static float x[64][32], y[32][64];\n"
        "int main() { x[1][2] = 3; return turn_launch(x[0], y[0], nullptr) != cudaSuccess || y[2][1] != 3; }\n"
    )
    text = "cugen_add_library(k SPECS turn.yaml)\nadd_executable(own main.cpp)\ntarget_link_libraries(own PRIVATE k)\n"
    done = configure(installed, folder, text)
    assert done.status == 0, done.text
    done = build(installed, folder)
    assert done.status == 0, done.text
    installed.must([folder / "build" / "own"], folder)


@pytest.mark.parametrize("kind", KINDS)
def test_machine_code_is_made_and_embedded(installed, folder, kind):
    (folder / "main.cpp").write_text('#include "turn_embed.h"\nint start() { return turn_load() != CUDA_SUCCESS; }\n')
    targets = {"cubin": "sm_80", "embed": "sm_80,sm_90"}[kind]
    text = f"cugen_add_library(k SPECS turn.yaml EMIT {kind} TARGET {targets} DEFINES M=64 CHECK error)\n"
    if kind == "embed":
        text += "add_library(own STATIC main.cpp)\ntarget_link_libraries(own PRIVATE k)\n"
    done = configure(installed, folder, text)
    assert done.status == 0, done.text
    done = build(installed, folder)
    assert done.status == 0, done.text
    made = {path.name for path in (folder / "build" / "cugen" / "k").iterdir()}
    assert made >= {"turn.json"} | ({"turn.cubin"} if kind == "cubin" else {"turn_embed.h", "turn_embed.c"})
    assert "cugen: turn" not in build(installed, folder).text


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("cugen_add_library(k)", "SPECS is missing"),
        ("cugen_add_library(k SPECS turn.yaml CHECK maybe)", "CHECK is `maybe`"),
        ("cugen_add_library(k SPECS turn.yaml EMIT ptx)", "EMIT is `ptx`"),
        ("cugen_generate(OUT_VAR v SPECS absent.yaml)", "absent.yaml:1:1: error: "),
        ("cugen_generate(OUT_VAR v SPECS turn.yaml DEFINES Q=1)", "error: "),
        ("cugen_add_check(NAME n SPECS turn.yaml)", "GENERATED_DIR is missing"),
    ],
)
def test_a_wrong_call_is_refused_when_the_project_is_configured(installed, folder, call, reason):
    done = configure(installed, folder, call)
    assert done.status != 0
    assert reason in done.text


def test_other_versions_of_cugen_are_recognised(installed, folder):
    for version, is_accepted in (("0.1", True), ("0.1.0 EXACT", True), ("0.0.9", False), ("1", False), ("0.2", False)):
        (folder / "CMakeLists.txt").write_text(
            HEAD.replace("find_package(cugen CONFIG REQUIRED)", f"find_package(cugen {version} CONFIG REQUIRED)")
        )
        shutil.rmtree(folder / "build", ignore_errors=True)
        words = ["-G", "Ninja", "-B", "build", f"-Dcugen_DIR={installed.packages / 'cugen' / 'cmake'}"]
        assert (installed.run(["cmake", *words], folder).status == 0) == is_accepted, version
