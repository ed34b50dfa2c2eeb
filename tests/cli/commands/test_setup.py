"""`cugen setup gpu`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.runtime import gpu
from cugen.toolchain import pycuda
from cugen.toolchain.pycuda import State

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[3]
BROKEN = State("2026.1", "ImportError: undefined symbol: cuCtxCreate_v4")
WITHOUT_DRIVER = State("2026.1", "ImportError: libcuda.so.1: cannot open shared object file")
HEADERS = (Path("/cuda/include"),)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """What PyCUDA is now, and after each build."""
    coming: list[State] = []

    def build(headers: tuple[Path, ...], log: Path, progress: Callable[[float], None]) -> None:
        assert headers == HEADERS
        progress(0.0)
        progress(34.2)
        del coming[0]

    monkeypatch.setattr(pycuda, "state", lambda: coming[0])
    monkeypatch.setattr(pycuda, "header_folders", lambda: HEADERS)
    monkeypatch.setattr(pycuda, "build", build)
    return coming


@pytest.mark.parametrize(
    ("state", "words"),
    [(State("2026.1"), "PyCUDA 2026.1 works\n"), (WITHOUT_DRIVER, "PyCUDA 2026.1 is built; to use it, install NVIDIA")],
    ids=["works", "without a driver"],
)
def test_nothing_is_built_where_pycuda_is(cli: Cli, states: list[State], state: State, words: str) -> None:
    states[:] = [state]
    answer = cli("setup", "gpu")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith(words)


@pytest.mark.parametrize("before", [State(), BROKEN], ids=["not installed", "broken"])
def test_pycuda_is_built_with_one_line_of_progress(cli: Cli, states: list[State], before: State) -> None:
    states[:] = [before, State("2026.1")]
    answer = cli("setup", "gpu")
    assert answer.status == 0
    assert answer.out == "PyCUDA 2026.1 works\n"
    assert answer.err == "building PyCUDA against /cuda/include\n"
    states[:] = [before, State("2026.1")]
    assert cli("setup", "gpu", "--quiet").err == ""


def test_on_a_terminal_the_line_counts_the_seconds_and_vanishes(
    cli: Cli, states: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    states[:] = [State(), State("2026.1")]
    lines = cli("setup", "gpu").err.split("\r")
    assert lines == [
        "",
        "building PyCUDA against /cuda/include: 0 s\033[K",
        "building PyCUDA against /cuda/include: 34 s\033[K",
        "\033[K",
    ]


def test_a_log_that_cannot_be_written_is_named(
    cli: Cli, states: list[State], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states += [State()]
    (tmp_path / "cache").touch()
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(pycuda, "build", lambda headers, log, progress: log.write_text(""))
    answer = cli("setup", "gpu")
    assert (answer.status, answer.out) == (2, "")
    assert "setup-gpu.log: Not a directory" in answer.err


def test_a_module_that_the_driver_is_too_old_for_is_no_success(cli: Cli, states: list[State]) -> None:
    states[:] = [State(), BROKEN]
    answer = cli("setup", "gpu")
    assert (answer.status, answer.out) == (3, "")
    assert "error[CG4005]" in answer.err
    assert "undefined symbol: cuCtxCreate_v4" in answer.err
    assert "update NVIDIA's driver" in answer.err


@pytest.mark.parametrize("words", [(), ("cpu",)], ids=["nothing", "cpu"])
def test_only_gpu_is_set_up(cli: Cli, words: tuple[str, ...]) -> None:
    answer = cli("setup", *words)
    assert (answer.status, answer.out) == (2, "")


@pytest.mark.slow
def test_pycuda_is_built_in_a_fresh_environment_from_wheels_alone(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    hidden = ("CUDA_HOME", "CUDA_PATH", "PYTHONPATH", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables |= {"PATH": f"{environment}/bin:/usr/bin:/bin", "CUGEN_CACHE_DIR": str(tmp_path / "cache")}

    def run(*command: str, **more: str) -> str:
        done = subprocess.run(command, env={**variables, **more}, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("pip", "install", "--quiet", f"{ROOT}[cuda]")
    said = run("cugen", "setup", "gpu", CFLAGS="-O0", CXXFLAGS="-O0")  # less than half the time
    assert re.search(rf"^building PyCUDA against {environment}/lib\S*/nvidia/cu13/include$", said, re.MULTILINE), said
    assert re.search(r"^PyCUDA 20\S+ (works|is built; to use it, install NVIDIA's driver)", said, re.MULTILINE), said
    if gpu.available():  # its module is imported with a library in which no function of the driver finds a GPU
        (module,) = environment.glob("lib/python*/site-packages/pycuda/_driver.*.so")
        names = re.findall(r" U (cu\w+)", run("nm", "-D", "--undefined-only", str(module)))
        functions = [f"int {name}(void) {{ return 100; }}" for name in names if name != "cuGetErrorString"]
        functions.append('int cuGetErrorString(int status, const char **text) { *text = "no GPU here"; return 0; }')
        (tmp_path / "driver.c").write_text("\n".join(functions))
        run("gcc", "-shared", str(tmp_path / "driver.c"), "-o", str(tmp_path / "libcuda.so.1"))
        call = "import pycuda.driver as d\ntry: d.init()\nexcept d.RuntimeError as error: print(error)"
        said = run("python", "-c", call, LD_LIBRARY_PATH=str(tmp_path))
        assert "cuInit failed: no GPU here" in said
