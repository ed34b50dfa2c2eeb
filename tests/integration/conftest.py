"""cugen as a stranger has it: a wheel, installed into an environment of its own; and projects of theirs beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT = 300


@dataclass(frozen=True)
class Done:
    """What a program printed, both streams together, and its exit status."""

    status: int
    text: str


@dataclass(frozen=True)
class Environment:
    """An installed cugen. Programs run with it on the PATH, and with nothing of the source tree in sight."""

    folder: Path
    cache: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        (site_packages,) = self.folder.glob("lib/python*/site-packages")
        return site_packages

    def variables(self) -> dict[str, str]:
        # Build tools come as wheels beside the tests; a CUDA compiler may be where toolkits put it.
        folders = [str(self.folder / "bin"), sysconfig.get_path("scripts"), os.environ["PATH"], "/usr/local/cuda/bin"]
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "CXX", "MAKEFLAGS")
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        return inherited | {
            "PATH": os.pathsep.join(folders),
            "CUGEN_CACHE_DIR": str(self.cache),
            "CUGEN_DEVICE": "cpu",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def run(self, words: Sequence[object], folder: Path, more: Mapping[str, str] | None = None) -> Done:
        """Runs a program in `folder`, whatever comes of it."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder,
            env=self.variables() | dict(more or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        return Done(done.returncode, done.stdout)

    def must(self, words: Sequence[object], folder: Path, more: Mapping[str, str] | None = None) -> str:
        """The same for a program that has to succeed; what it printed."""
        done = self.run(words, folder, more)
        assert done.status == 0, f"{' '.join(map(str, words))}\n{done.text}"
        return done.text

    def install(self, project: Path | str, *options: str) -> str:
        """Installs a project or wheel with what this environment has, and nothing from elsewhere."""
        words = ["install", "--quiet", "--no-deps", "--no-build-isolation", *options, project]
        return self.must([self.python, "-m", "pip", *words], self.folder)


def new_environment(folder: Path, cache: Path, wheel: Path) -> Environment:
    """An environment with cugen from its wheel. After its own packages it finds those that the tests run with:
    dependencies, build tools, and another cugen, which its own hides, and which must not count as installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=TIMEOUT)
    made = Environment(folder, cache)
    (made.packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    made.install(str(wheel), "--ignore-installed")
    assert (made.packages / "cugen").is_dir()
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cugen's wheel, built from a copy of the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    left = shutil.ignore_patterns(".*", "__pycache__", "generated", "tests", "benchmarks", "build")
    shutil.copytree(ROOT, folder / "cugen", ignore=left)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, folder / "cugen"], check=True, timeout=TIMEOUT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with cugen from its wheel, for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("installed")
    return new_environment(folder / "venv", folder / "cache", wheel)


@pytest.fixture
def own_environment(wheel: Path, tmp_path: Path) -> Environment:
    """One for a test that changes what is installed."""
    return new_environment(tmp_path / "venv", tmp_path / "cache", wheel)
