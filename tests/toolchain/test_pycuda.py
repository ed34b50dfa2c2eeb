"""PyCUDA's build: the headers that it takes, and what it says where it fails."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cugen.toolchain import locations, pycuda
from cugen.toolchain.errors import BuildError, ToolMissing

ROOT = Path(__file__).parents[2]
HEADERS = ("cuda.h", "cudaProfiler.h")
NVCC = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\necho "#\\$ TOP={root}/bin/.."\n'


def toolkit(root: Path, *headers: str) -> Path:
    """A toolkit in `root`; returns the folder of its headers."""
    (root / "bin").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "bin/nvcc").write_text(NVCC.format(root=root))
    (root / "bin/nvcc").chmod(0o755)
    for header in headers or HEADERS:
        (root / "include" / header).touch()
    return root / "include"


@pytest.fixture
def only_named_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkits of this machine are out of sight."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    usual = locations._candidates
    monkeypatch.setattr(locations, "_candidates", lambda: (path for path in usual() if path != Path("/usr/local/cuda")))


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.usefixtures("only_named_folders")
def test_the_headers_of_a_toolkit_that_is_named_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(monkeypatch, toolkit(tmp_path / "other").parent / "bin")
    headers = toolkit(tmp_path / "cuda")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert pycuda.header_folders() == (headers,)


@pytest.mark.usefixtures("only_named_folders")
def test_the_headers_beside_the_nvcc_of_path_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = toolkit(tmp_path / "cuda")
    on_path(monkeypatch, tmp_path / "cuda/bin")
    assert pycuda.header_folders() == (headers,)


def test_the_headers_of_the_usual_place_are_taken_where_no_other_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usr/local").mkdir(parents=True)
    headers = toolkit(tmp_path / "opt/cuda-13.0")
    (tmp_path / "usr/local/cuda").symlink_to(tmp_path / "opt/cuda-13.0")
    usual = locations._candidates
    moved = {Path("/usr/local/cuda"): tmp_path / "usr/local/cuda"}
    monkeypatch.setattr(locations, "_candidates", lambda: (moved.get(path, path) for path in usual()))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    assert [folder.resolve() for folder in pycuda.header_folders()] == [headers]


@pytest.mark.usefixtures("only_named_folders")
def test_a_link_to_nvcc_leads_to_the_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = toolkit(tmp_path / "cuda")
    (tmp_path / "far/bin").mkdir(parents=True)
    (tmp_path / "far/bin/nvcc").symlink_to(tmp_path / "cuda/bin/nvcc")
    on_path(monkeypatch, tmp_path / "far/bin")
    assert pycuda.header_folders() == (headers,)


@pytest.mark.usefixtures("only_named_folders")
def test_a_script_that_calls_nvcc_leads_to_the_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = toolkit(tmp_path / "cuda")
    script = tmp_path / "far/bin/nvcc"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\nexec {tmp_path}/cuda/bin/nvcc "$@"\n')
    script.chmod(0o755)
    on_path(monkeypatch, script.parent)
    assert pycuda.header_folders() == (headers,)


@pytest.mark.usefixtures("only_named_folders")
def test_wheels_have_all_headers_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = toolkit(tmp_path / "nvidia/cu13")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert pycuda.header_folders() == (headers,)


@pytest.mark.usefixtures("only_named_folders")
def test_older_wheels_have_each_header_in_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = toolkit(tmp_path / "nvidia/cuda_runtime", "cuda.h")
    profiler = toolkit(tmp_path / "nvidia/cuda_profiler_api", "cudaProfiler.h")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert pycuda.header_folders() == (runtime, profiler)


@pytest.mark.usefixtures("only_named_folders")
def test_a_missing_header_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolMissing, match=r"(?s)CUDA's header cuda\.h was not found.*pip install 'cugen\[cuda\]'"):
        pycuda.header_folders()
    monkeypatch.setenv("CUDA_HOME", str(toolkit(tmp_path / "cuda", "cuda.h").parent))
    with pytest.raises(ToolMissing, match=r"(?s)cudaProfiler\.h was not found.*pip install nvidia-cuda-profiler-api"):
        pycuda.header_folders()


@pytest.mark.parametrize(
    ("missing", "words"), [("pip", "python -m ensurepip"), ("Python.h", "apt install python3-dev")]
)
def test_what_the_build_needs_is_asked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, words: str
) -> None:
    if missing == "pip":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ToolMissing, match=rf"(?s){missing} was not found.*{words}"):
        pycuda.build((toolkit(tmp_path / "cuda"),), tmp_path / "log", lambda seconds: None)


def test_headers_that_do_not_compile_end_the_build_at_once(tmp_path: Path) -> None:
    headers = toolkit(tmp_path / "cuda")
    (headers / "cuda.h").write_text("#error no such thing\n" * 3)
    log = tmp_path / "log"
    with pytest.raises(BuildError, match=r"(?s)CG4005.*compiler says: \S+cuda\.h:1:2: error: #error no such") as failed:
        pycuda.build((headers,), log, lambda seconds: None)
    assert len(str(failed.value).splitlines()) == 4
    assert str(log) in str(failed.value)
    assert log.read_text().count("no such thing") >= 3


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("error: externally-managed-environment\n\nTo install ...", ("belongs to the system", "python3 -m venv")),
        (
            "ERROR: Could not find a version\nERROR: No matching distribution found for pycuda>=2025.1",
            ("pip found no `pycuda>=2025.1`", "pip config list"),
        ),
        ("ERROR: [Errno 13] Permission denied: '/usr/x'", ("may not write to /usr/x", "python3 -m venv")),
        (
            "  src/cpp/cuda.hpp:14:10: fatal error: cuda.h: No such file or directory\n  error: command 'g++' failed",
            ("src/cpp/cuda.hpp:14:10: fatal error: cuda.h", "CUDA_HOME"),
        ),
        ("lines\nERROR: a new mistake\nlines", ("pip says: a new mistake", "the log")),
        ("Killed", ("pip failed", "the log")),
    ],
    ids=["system's Python", "no index", "no permission", "compiler", "pip", "killed"],
)
def test_a_failure_of_pip_is_told_in_a_line_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, words: tuple[str, str]
) -> None:
    code = f"import sys; print({output!r}); sys.exit(1)"
    monkeypatch.setattr(pycuda, "_pip_command", lambda *_, **__: [sys.executable, "-c", code])
    seconds: list[float] = []
    with pytest.raises(BuildError) as failed:
        pycuda.build((toolkit(tmp_path / "cuda"),), tmp_path / "log", seconds.append)
    assert all(word in str(failed.value) for word in words)
    assert len(str(failed.value).splitlines()) == 4
    assert (tmp_path / "log").read_text() == f"{output}\n"
    assert seconds[0] >= 0


def test_pip_is_told_the_headers_and_a_library_that_stands_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = toolkit(tmp_path / "with a space")
    calls: list[tuple[dict[str, object], str, str]] = []

    def run(command: list[str], environment: dict[str, str], *_: object) -> int:
        (options,) = (word for word in command if word.startswith("--config-settings="))
        words = shlex.split(options.removeprefix("--config-settings=--global-option="))
        settings = dict(word.removeprefix("--conf:").split("=", 1) for word in words)
        values = {name: ast.literal_eval(value) for name, value in settings.items()}
        dump = ["readelf", "-d", f"{values.pop('CUDADRV_LIB_DIR')[0]}/libcuda.so"]
        library = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
        calls.append((values, environment["LDFLAGS"], library))
        return 0

    monkeypatch.setattr(pycuda, "_run", run)
    monkeypatch.setenv("LDFLAGS", "-Wl,-O1")
    pycuda.build((headers,), tmp_path / "log", lambda seconds: None)
    ((values, flags, library),) = calls
    assert values == {"CUDA_ENABLE_CURAND": False, "CUDA_INC_DIR": [str(headers)]}
    assert flags == "-Wl,-O1 -Wl,--no-as-needed"
    assert "soname: [libcuda.so.1]" in library


def test_pycuda_is_named_as_the_extra_names_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert pycuda.REQUIREMENT in extras["gpu"]
    assert "cugen[cuda]" in extras["gpu"]


@pytest.mark.usefixtures("only_named_folders")
def test_the_state_is_that_of_this_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert pycuda.state() == pycuda.State()
    folder = tmp_path / "pycuda-2026.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: pycuda\nVersion: 2026.1\n")
    (tmp_path / "pycuda").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for line, error in (
        ("", ""),
        ("raise ImportError('libcuda.so.1: cannot open')", "ImportError: libcuda.so.1: cannot open"),
        ("raise ImportError('undefined symbol: cuX')", "ImportError: undefined symbol: cuX"),
        ("import os; os._exit(9)", "its import ends Python with status 9"),
    ):
        (tmp_path / "pycuda/driver.py").write_text(line)
        os.utime(tmp_path / "pycuda/driver.py", (1, len(line)))
        state = pycuda.state()
        assert state == pycuda.State("2026.1", error)
        assert state.needs_driver == ("libcuda" in error)
