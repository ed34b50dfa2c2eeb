"""Build step of Python build systems: generates the kernels of `[tool.cugen]` and compiles its library."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path

from cugen.cli.main import main
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME, cpu_path
from cugen.integrations.config import Library, Project
from cugen.integrations.objects import Compiler, up_to_date
from cugen.machine.target import Target
from cugen.toolchain import host, nvcc

DEVICES = ("auto", "gpu", "cpu")
_WORK = Path("build") / "cugen"  # in the project's folder: objects and intermediate files


class BuildFailed(Exception):
    """A step failed; the reason was printed to standard error."""


def build(project: Project) -> tuple[Path, ...]:
    """Updates all files of the project and returns their paths. Raises BuildFailed, ToolMissing or CompileError."""
    made = _generate(project)
    if project.library is None:
        return made
    return (*made, _compile(project, project.library, [path for path in made if path.suffix == ".cu"]))


def _generate(project: Project) -> tuple[Path, ...]:
    """Generates the kernels and returns their files."""
    words = ["generate", "--gnu", "--quiet", "--emit", "cu,launch", "-o", str(project.output)]
    words += [*project.options, *map(str, project.specs)]
    _must(words)
    listed = io.StringIO()
    with contextlib.redirect_stdout(listed):
        _must([*words, "--list"])
    return tuple(map(Path, listed.getvalue().splitlines()))


def _compile(project: Project, library: Library, kernels: Sequence[Path]) -> Path:
    """Compiles the shared library incrementally."""
    work = project.folder / _WORK
    work.mkdir(parents=True, exist_ok=True)
    include = f"-I{project.output}"
    if _device() == "gpu":
        target = next(
            (t for o, t in zip(project.options, project.options[1:], strict=False) if o == "--target"), "sm_90"
        )
        command = [str(nvcc.require().path), "-std=c++17", "-O3", *code_flags(target), "-Xcompiler=-fPIC", include]
        sources = [*library.sources, *kernels]
        compiler = Compiler(tuple(command), work)
    else:
        _must(["cpu", "--quiet", "-o", str(work), *map(str, kernels)])
        command = [*host.compiler().command, *COMPILER_FLAGS, "-O2", "-fPIC", f"-I{INCLUDES}", include]
        sources = [*library.sources, RUNTIME, *(cpu_path(kernel, work) for kernel in kernels)]
        compiler = Compiler(tuple(command), work)
    objects = [compiler.compile(source) for source in sources]
    path = library.path.with_name(f"{library.path.name}.so")
    if not up_to_date(path, objects):
        path.parent.mkdir(parents=True, exist_ok=True)
        compiler.link(objects, path)
    return path


def code_flags(target: str) -> tuple[str, ...]:
    """Flags of nvcc for machine code of a target.

    `-arch=sm_90a` of nvcc 13.0 compiles for compute_90 as well, which lacks the instructions of sm_90a."""
    if Target(target).is_architecture_specific:
        return (f"-gencode=arch={target.replace('sm_', 'compute_')},code={target}",)
    return (f"-arch={target}",)


def _device() -> str:
    """Device of the build: `gpu` or `cpu` from CUGEN_DEVICE, else `gpu` if nvcc is installed."""
    requested = os.environ.get("CUGEN_DEVICE", "auto")
    if requested not in DEVICES:
        raise BuildFailed(f"CUGEN_DEVICE is `{requested}`; valid values: {', '.join(DEVICES)}")
    if requested == "auto":
        return "gpu" if nvcc.find() else "cpu"
    return requested


def _must(words: Sequence[str]) -> None:
    if main(words):
        raise BuildFailed(f"`cugen {words[0]}` failed; see the message above")
