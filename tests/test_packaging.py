"""What is shipped: all of the data, one version, and an installation that works away from its source."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import cugen
from cugen.cli.shell.share import share_files

ROOT = Path(__file__).parents[1]
_CODE = {".py", ".pyc"}


def _build(target: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (made,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_its_data(wheel: Path) -> None:
    def below(folder: str, packaged: str) -> set[str]:
        paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {f"{packaged}/{path.relative_to(ROOT / folder).as_posix()}" for path in paths}

    data = {"templates": "cugen/_data/templates", "specs": "cugen/_data/specs"}
    expected = below("cugen", "cugen").union(*(below(*names) for names in data.items()))
    shared = {f"cugen-{cugen.__version__}.data/data/share/{name}" for name in share_files()}
    assert _names(wheel) == expected | shared
    kinds = {Path(name).suffix for name in expected} - _CODE
    assert kinds >= {".j2", ".yaml", ".json", ".cmake", ".mk", ".h", ".md", ".typed", ".txt"}


def test_the_wheel_says_the_version_of_the_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    assert f"Version: {cugen.__version__}" in lines
    assert "Requires-Python: >=3.11" in lines
    assert wheel.name == f"cugen-{cugen.__version__}-py3-none-any.whl"


def test_the_changelog_has_this_version() -> None:
    assert f"\n## {cugen.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
def test_a_wheel_from_the_source_distribution_is_the_same(
    wheel: Path, source_distribution: Path, tmp_path: Path
) -> None:
    with tarfile.open(source_distribution) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
        archive.extractall(tmp_path / "source", **safely)
    (unpacked,) = (tmp_path / "source").iterdir()
    again = _build("wheel", unpacked, tmp_path)
    assert _names(again) == _names(wheel)
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py", "docs/spec.md"):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.fixture(scope="module")
def installed(source_distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`cugen`, installed by pip from the source distribution into an environment of its own, run in an empty folder."""
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"
    (packages,) = (home / "venv" / "lib").glob("python3*/site-packages")
    # What cugen depends on, and the build's backend, are those of the tests; they come after what is installed here.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    call = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        source_distribution,
    ]
    subprocess.run([*map(str, call), "--ignore-installed"], check=True, capture_output=True, timeout=300)
    (home / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str) -> str:
        command = [str(home / "venv" / "bin" / "cugen"), *words]
        done = subprocess.run(
            command, cwd=home / "empty", capture_output=True, text=True, timeout=120, check=True, env=environment
        )
        return done.stdout

    return run


@pytest.mark.slow
def test_an_installed_cugen_works_away_from_its_source(installed: Callable[..., str]) -> None:
    assert installed("--version") == f"cugen {cugen.__version__}\n"
    assert installed("config", "--completion", "bash").startswith("#")
    for fact in ("templates", "schema", "includes", "cmakedir", "makefile", "runtime"):
        path = Path(installed("config", f"--{fact}").strip())
        assert path.exists(), fact
        assert ROOT not in path.parents, fact
    installed("new", "mine")
    installed("new", "softmax", "--from", "softmax")
    written = installed("generate", "mine.yaml", "softmax.yaml", "-o", "kernels").split()[1::2]
    assert sorted({Path(name).stem for name in written}) == ["cugen_launch", "mine", "softmax"]
    folder = Path(installed("config", "--templates").strip()).parents[6] / "empty"
    made_by = f"Made by cugen {cugen.__version__} from mine.yaml"
    assert made_by in (folder / "kernels" / "mine.cu").read_text()
    assert made_by in (folder / "kernels" / "mine.h").read_text()
    assert f'"version": "{cugen.__version__}"' in (folder / "kernels" / "mine.json").read_text()
    assert installed("explain", "CG1048").startswith("# CG1048")
    installed("run", "mine.yaml", "--device", "cpu")
