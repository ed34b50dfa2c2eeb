"""A build that is killed between two files of a step: the next one mends the folder, whatever the build system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cugen.cli.main import main
from cugen.emit.host.cpu import cpu_path, cpu_text

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_SPEC = """\
cugen: 1
kernel: scale
params: {{N: $n}}
arrays:
  x: {{shape: [N], dtype: float32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = {factor} * x[i]
variants: {{n: [10, 20]}}
"""
# Renames of `generate` before which a build is killed: none, the depfile and some of the files are new; or all, and the
# step that follows.
_POINTS = ("0", "2", "6", "10", "cpu")

# cugen, which kills all processes of its build at that point.
_CUGEN = f"""#!{sys.executable}
import os, signal, sys
sys.path.insert(0, {str(_ROOT)!r})
from cugen.cli.main import main
point = os.environ.get("KILL_AT")
replace, done = os.replace, 0

def kill():
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if process != os.getpid() and os.getsid(process) == os.getsid(0):
            os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def killing(source, target):
    global done
    if "outlines" not in str(target):
        if str(done) == point:
            kill()
        done += 1
    replace(source, target)

if sys.argv[1] == point:
    kill()
os.replace = killing
sys.exit(main())
"""

_MAKEFILE = """\
include $(shell $(CUGEN) config --makefile)
$(eval $(call cugen_kernels,kernels,scale.yaml,))
own := $(filter-out %/cugen_cpu.o,$(kernels_objects))
all: $(own:.cpu.o=.cu) $(own:.cpu.o=.json) $(own:.cpu.o=_cpu.cpp) $(kernels_headers)
.DEFAULT_GOAL := all
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.21)
project(killed LANGUAGES CXX)
find_package(cugen CONFIG REQUIRED)
cugen_generate(OUT_VAR kernels SPECS scale.yaml OUTPUT_DIR out)
add_custom_target(kernels ALL DEPENDS ${kernels})
"""


class _Project:
    """Kernels of a spec whose step is run by the build system."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder = folder
        cugen = folder / "bin" / "cugen"
        cugen.parent.mkdir()
        cugen.write_text(_CUGEN)
        cugen.chmod(0o755)
        self.write_spec(2)
        self.output = folder / "build" / ("kernels" if system == "make" else "out")
        if system == "make":
            (folder / "Makefile").write_text(_MAKEFILE)
            self.command = ["make", f"CUGEN={cugen}", "CUGEN_OUT=build"]
        else:
            (folder / "CMakeLists.txt").write_text(_CMAKE)
            options = [f"-DCUGEN_EXECUTABLE={cugen}", f"-Dcugen_DIR={_ROOT / 'cugen' / 'cmake'}"]
            assert self._run(["cmake", "-S", ".", "-B", "build", "-G", system, *options]) == 0
            self.command = ["cmake", "--build", "build"]

    def write_spec(self, factor: int) -> None:
        (self.folder / "scale.yaml").write_text(_SPEC.format(factor=factor))

    def build(self, kill_at: str = "") -> int:
        return self._run(self.command, kill_at)

    def contents(self) -> dict[str, bytes]:
        suffixes = (".cu", ".cpp", ".h", ".hpp", ".json")
        return {path.name: path.read_bytes() for path in self.output.iterdir() if path.suffix in suffixes}

    def mended_contents(self) -> dict[str, bytes]:
        """Builds, and compares all files with the spec."""
        assert self.build() == 0
        assert main(["generate", str(self.folder / "scale.yaml"), "-o", str(self.output), "--check", "-q"]) == 0
        for source in self.output.glob("*.cu"):
            assert cpu_path(source).read_text() == cpu_text(source)
        assert len(list(self.output.glob("*.cu"))) == 2
        return self.contents()

    def _run(self, words: list[str], kill_at: str = "") -> int:
        variables = {"CUGEN_DEVICE": "cpu", "CUGEN_CACHE_DIR": str(self.folder / "cache"), "KILL_AT": kill_at}
        return subprocess.run(
            words, cwd=self.folder, env={**os.environ, **variables}, timeout=300, start_new_session=True, check=False
        ).returncode


@pytest.mark.parametrize("system", ["make", "Unix Makefiles", "Ninja"])
def test_a_killed_build_is_mended_by_the_next(tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = {"make": "make", "Unix Makefiles": "cmake", "Ninja": "ninja"}[system]
    if shutil.which(program) is None or not Path("/proc/self").exists():
        pytest.skip(f"no `{program}` here, or no /proc")
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))
    project = _Project(tmp_path, system)
    assert project.build(kill_at="cpu") != 0
    after = project.mended_contents()
    for factor, kill_at in enumerate(_POINTS, 3):
        before = after
        project.write_spec(factor)
        assert project.build(kill_at) != 0
        between = project.contents()
        after = project.mended_contents()
        assert (between == before) == (kill_at == "0")
        assert between != after or kill_at == "cpu"
