"""`examples/setuptools`, `hatch` and `scikit-build-core`: packages whose kernels are made when they are installed."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
SUFFIXES = (".cu", ".h", ".hpp", ".json")


@dataclass(frozen=True)
class Case:
    """A project, its kernel, and a line of Python with what it prints once the project is installed."""

    folder: str
    kernel: str
    program: str
    printed: str


CASES = (
    Case(
        "setuptools",
        "running_sum",
        "import runningsum; print(runningsum.running_sum([1] * 4000)[-2:])",
        "[3999.0, 4000.0]\n",
    ),
    Case(
        "hatch",
        "row_softmax",
        "import rowsoftmax; print(rowsoftmax.softmax([[0.0] * 256, [float(i == 3) * 50 for i in range(256)]])[1][3])",
        "1.0\n",
    ),
    Case(
        "scikit-build-core",
        "row_norm",
        "import rownorm; print(rownorm.row_norms([[3, 4, 0], [0, 5, 12]]))",
        "[5.0, 13.0]\n",
    ),
)


@pytest.fixture(params=CASES, ids=lambda case: case.folder)
def case(request):
    return request.param


@pytest.fixture
def project(case, tmp_path):
    return Path(shutil.copytree(EXAMPLES / case.folder, tmp_path / "project"))


def times(project):
    return {path: path.stat().st_mtime_ns for path in project.rglob("*") if path.is_file()}


def changed(project, before):
    """What was regenerated, and what was compiled."""
    now = {path for path, time in times(project).items() if before.get(path) != time}
    return (
        {path.name for path in now if "kernels" in path.parts and path.suffix in SUFFIXES},
        {path.name for path in now if path.suffix == ".o"},
    )


def test_an_installed_package_computes_and_only_what_changed_is_made_again(case, project, own_environment):
    environment = own_environment

    def install():
        before = times(project)
        environment.install(project, "--force-reinstall")
        assert environment.must([environment.python, "-c", case.program], project.parent) == case.printed
        return changed(project, before)

    written, compiled = install()
    assert {f"{case.kernel}{suffix}" for suffix in SUFFIXES} <= written
    assert any(case.kernel in name for name in compiled)
    assert install() == (set(), set())

    (spec,) = project.glob("kernels/*.yaml")
    text = spec.read_text()
    spec.write_text(re.sub("doc: .*", "doc: described otherwise", text))
    written, compiled = install()
    assert written == {f"{case.kernel}{suffix}" for suffix in SUFFIXES}
    assert 1 <= len(compiled) <= 2  # the kernel, and what includes its header
    assert install() == (set(), set())

    for made in project.rglob(f"{case.kernel}.h"):
        made.unlink()
    written, _ = install()
    assert written == {f"{case.kernel}.h"}

    spec.write_text(text.replace("dtype: float32", "dtype: float33", 1))
    done = environment.run(
        [environment.python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", project], project.parent
    )
    assert done.status != 0
    assert re.search(rf"{case.kernel}\.yaml:6:\d+: error: there is no dtype `float33` \[CG1028\]", done.text)


@pytest.mark.parametrize("folder", ["setuptools", "hatch"])
def test_the_wheel_of_a_package_holds_its_kernels_and_is_for_one_platform(folder, tmp_path, installed):
    project = shutil.copytree(EXAMPLES / folder, tmp_path / "project")
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, project]
    installed.must([installed.python, "-m", "pip", *words], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert not wheel.name.endswith("-any.whl")
    names = installed.must([installed.python, "-m", "zipfile", "-l", wheel], tmp_path)
    for suffix in (*SUFFIXES, ".so"):
        assert re.search(rf"/\w+\{suffix}\b", names), suffix
    assert "/cugen_launch.hpp " in names


def test_a_build_without_configuration_is_not_touched(tmp_path, installed):
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "plain"\nversion = "1.0"\n[tool.setuptools]\npy-modules = []\n'
    )
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, tmp_path]
    installed.must([installed.python, "-m", "pip", *words], tmp_path)
    assert [path.name for path in tmp_path.glob("*.whl")] == ["plain-1.0-py3-none-any.whl"]
