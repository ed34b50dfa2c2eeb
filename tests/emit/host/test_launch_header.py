"""The shared header of an output folder: who sees the typed launchers, and several versions in one program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

import cugen.emit.host.launch_header
from cugen.emit.environment import environment, template_folder
from cugen.emit.files import LAUNCH_HEADER
from cugen.emit.host.cpu import INCLUDES
from cugen.emit.host.launch_header import launch_header
from cugen.emit.inputs import input_files
from cugen.kernel import generate
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: KERNEL
arrays: {x: {shape: [8], dtype: float32}, y: {shape: [8], dtype: float32}}
compute: y[i] = 2 * x[i]
"""
OTHER_VERSION = "9.8.7.dev1"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


class Recording(jinja2.FileSystemLoader):
    """Loads templates, and keeps their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.names: list[str] = []

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        self.names.append(template)
        return super().get_source(environment, template)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`first/` has a kernel by this version, `second/` one by another, whose messages are in capitals."""
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE SHARED HEADER IS UNTESTED")
    for name in ("first", "second"):
        (kernel,) = map(generate, load_text(SPEC.replace("KERNEL", name)))
        (tmp_path / name).mkdir()
        for file, text in kernel.headers.items():
            (tmp_path / name / file).write_text(text)
    changed = launch_header(OTHER_VERSION).replace("is a null pointer", "IS A NULL POINTER")
    (tmp_path / "second" / LAUNCH_HEADER).write_text(changed)
    return tmp_path


def compiled(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*words, *WARNINGS, f"-isystem{INCLUDES}"], cwd=folder, text=True, capture_output=True, timeout=60
    )


TYPED = '#include "first/first.h"\nbool f(float* x) { return bool(first_launch({x, 8}, {x, 8}, nullptr)); }\n'
PLAIN = '#include "first/first.h"\ncudaError_t f(float* x, float* y) { return first_launch(x, y, 0); }\n'


@pytest.mark.slow
@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_the_c_header_brings_the_typed_launcher_to_cpp(folder: Path, standard: str) -> None:
    (folder / "typed.cpp").write_text(TYPED)
    done = compiled(folder, "g++", f"-std={standard}", "-fsyntax-only", "typed.cpp")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", [("first.h", "first.hpp"), ("first.hpp", "first.h"), ("first.hpp",)])
def test_headers_can_be_included_in_any_order(folder: Path, order: tuple[str, ...]) -> None:
    for option in ("-DOTHER", "-DCUGEN_C_ONLY"):
        text = "".join(f'#include "first/{file}"\n' for file in order)
        (folder / "typed.cpp").write_text(text + TYPED)
        done = compiled(folder, "g++", "-std=c++17", option, "-fsyntax-only", "typed.cpp")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_macro_hides_the_typed_launcher_and_all_that_it_includes(folder: Path) -> None:
    (folder / "typed.cpp").write_text(TYPED)
    done = compiled(folder, "g++", "-std=c++17", "-DCUGEN_C_ONLY", "-fsyntax-only", "typed.cpp")
    assert done.returncode != 0
    assert "first_launch" in done.stderr
    (folder / "plain.cpp").write_text(PLAIN)
    for path in (folder / "first").glob("*.hpp"):
        path.unlink()
    assert compiled(folder, "g++", "-std=c++98", "-DCUGEN_C_ONLY", "-fsyntax-only", "plain.cpp").returncode == 0


def test_c_sees_functions_alone(folder: Path) -> None:
    for path in (folder / "first").glob("*.hpp"):
        path.unlink()
    (folder / "plain.c").write_text(PLAIN)
    done = compiled(folder, "gcc", "-std=c11", "-fsyntax-only", "plain.c")
    assert (done.returncode, done.stderr) == (0, "")


USE = """
#include "KERNEL/KERNEL.h"
#include <cstdio>
extern "C" cudaError_t KERNEL_launch(const float*, float*, cudaStream_t) { return cudaSuccess; }
void KERNEL()
{
    float y[8];
    const cugen::Error<cudaError_t> error = KERNEL_launch({static_cast<float*>(nullptr), 8}, {y, 8}, nullptr);
    std::printf("%s\\n", error.message.c_str());
}
"""
BOTH = """
#include <cstdio>
INCLUDES
void first();
void second();
int main()
{
    first();
    second();
    float y[8];
    std::printf("%s\\n", first_launch({static_cast<float*>(nullptr), 8}, {y, 8}, nullptr).message.c_str());
    std::printf("%s\\n", second_launch({static_cast<float*>(nullptr), 8}, {y, 8}, nullptr).message.c_str());
}
"""


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("option", ["-O0", "-O2"])
def test_two_versions_are_linked_into_one_program_and_do_not_mix(folder: Path, option: str) -> None:
    for name in ("first", "second"):
        (folder / f"{name}.cpp").write_text(USE.replace("KERNEL", name))
        done = compiled(folder, "g++", "-std=c++17", option, "-c", f"{name}.cpp")
        assert (done.returncode, done.stderr) == (0, "")
    said = {"first": "`x` is a null pointer", "second": "`x` IS A NULL POINTER"}
    for order in (("first", "second"), ("second", "first")):
        text = BOTH.replace("INCLUDES", "\n".join(f'#include "{name}/{name}.h"' for name in order))
        (folder / "main.cpp").write_text(text)
        # A translation unit with both takes one copy, and its launchers are not those of the others.
        for objects in (("first.o", "second.o"), ("second.o", "first.o")):
            done = compiled(folder, "g++", "-std=c++17", option, "main.cpp", *objects, "-o", "main")
            assert (done.returncode, done.stderr) == (0, "")
            done = subprocess.run([folder / "main"], capture_output=True, text=True, timeout=60)
            assert done.stdout.splitlines() == [said["first"], said["second"], said[order[0]], said[order[0]]]


def test_a_kernel_of_another_version_takes_the_header_of_its_folder(folder: Path) -> None:
    (folder / "second" / LAUNCH_HEADER).rename(folder / "first" / LAUNCH_HEADER)
    (folder / "typed.cpp").write_text(TYPED)
    assert compiled(folder, "g++", "-std=c++17", "-fsyntax-only", "typed.cpp").returncode == 0


def test_the_namespace_is_that_of_the_version() -> None:
    assert "inline namespace v9_8_7_dev1 {" in launch_header(OTHER_VERSION)


def test_the_inputs_are_all_templates_that_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of another template must not rebuild what includes the header."""
    loader = Recording(template_folder())
    env = environment()
    env.loader = loader
    monkeypatch.setattr(cugen.emit.host.launch_header, "environment", lambda: env)
    launch_header()
    assert {Path(path).name for path in input_files(())} == {*loader.names, "version.py"}


@pytest.mark.slow
def test_c_knows_the_type_of_bool_arrays_and_scalars(folder: Path) -> None:
    text = SPEC.replace("KERNEL", "flags").replace("float32", "bool").replace("2 * x[i]", "x[i] and c")
    (kernel,) = map(generate, load_text(text + "scalars: {c: {dtype: bool}}\n"))
    for file, content in kernel.headers.items():
        (folder / file).write_text(content)
    for compiler, standard, suffix in (("gcc", "c11", "c"), ("g++", "c++17", "cpp")):
        (folder / f"flags.{suffix}").write_text('#include "flags.h"\ntypedef int used;\n')
        done = compiled(folder, compiler, f"-std={standard}", "-fsyntax-only", f"flags.{suffix}")
        assert (done.returncode, done.stderr) == (0, "")
