"""Host programs of specs, and what they print on the CPU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pytest

from cugen.emit.files import PROGRAMS
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME, cpu_text
from cugen.emit.host.program.program import program
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_all, load_text
from cugen.toolchain import host as host_compiler

ROOT = Path(__file__).parents[4]
WARNINGS = ("-Wall", "-Wextra", "-Werror")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def gallery_kernel() -> Callable[[str], Kernel]:
    """A kernel of the gallery by its name, which is that of its file."""

    def make(name: str) -> Kernel:
        specs = {spec.kernel: spec for spec in load_all(ROOT / "specs" / f"{name}.yaml")}
        return generate(specs[name], analysis=False)

    return cache(make)


@pytest.fixture(scope="session")
def kernel_of() -> Callable[[str], Kernel]:
    def make(text: str) -> Kernel:
        (spec,) = load_text(text)
        return generate(spec, analysis=False)

    return cache(make)


def _write(folder: Path, kernel: Kernel, kind: str) -> Path:
    """Writes the program of a kernel with all that it is compiled with; the path of the program."""
    (folder / f"{kernel.name}.cu").write_text(kernel.source)
    (folder / f"{kernel.name}.json").write_text(kernel.manifest.to_json())
    for file, text in kernel.headers.items():
        (folder / file).write_text(text)
    path = folder / f"{kernel.name}{PROGRAMS[kind]}"
    path.write_text(program(kind, kernel.context, kernel.manifest))
    return path


@pytest.fixture
def write_program(tmp_path: Path) -> Callable[[Kernel, str], Path]:
    return partial(_write, tmp_path)


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The object file that launches kernels on the CPU, by sanitizers."""

    def make(sanitizers: str) -> Path:
        folder = tmp_path_factory.mktemp("runtime")
        # It switches stacks, and tells AddressSanitizer, which must not look at its own code.
        defined = ["-DCUGEN_ADDRESS_SANITIZER"] if sanitizers else []
        _build(folder, [*_flags(""), *defined, "-c", RUNTIME, "-o", "runtime.o"])
        return folder / "runtime.o"

    return cache(make)


@pytest.fixture
def run_on_cpu(tmp_path: Path, runtime: Callable[[str], Path]) -> Run:
    """Builds the program of a kernel for the CPU, without a warning, and runs it."""

    def run(
        kernel: Kernel, kind: str = "main", sanitizers: str = "", edit: Callable[[str], str] = str
    ) -> subprocess.CompletedProcess[str]:
        path = _write(tmp_path, kernel, kind)
        path.write_text(edit(path.read_text()))
        (tmp_path / "kernel_cpu.cpp").write_text(cpu_text(tmp_path / f"{kernel.name}.cu"))
        flags = _flags(sanitizers)
        objects = [runtime(sanitizers)]
        for source, warnings in ((path, WARNINGS), (tmp_path / "kernel_cpu.cpp", ())):
            objects.append(tmp_path / f"{source.stem}.o")
            _build(tmp_path, [*flags, *warnings, "-c", source, "-o", objects[-1]])
        _build(tmp_path, [*flags, *objects, "-o", "program"])
        environment = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0"}
        return subprocess.run([tmp_path / "program"], text=True, capture_output=True, timeout=120, env=environment)

    return run


def _flags(sanitizers: str) -> list[object]:
    flags = [*COMPILER_FLAGS, "-O1", f"-I{INCLUDES}"]
    if sanitizers:
        flags += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    return list(flags)


def _build(folder: Path, words: Sequence[object]) -> None:
    command = [*host_compiler.compiler().command, *words]
    done = subprocess.run(list(map(str, command)), cwd=folder, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
