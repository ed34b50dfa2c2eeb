"""What contributors read is so: the map of packages, the functions, commands, files, and what CI runs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAP, _, LIFE = ARCHITECTURE.partition("## The life of a spec")
ROWS = re.findall(r"^\| (`cugen\..*?) \| .* \| (.*) \|$", MAP, re.MULTILINE)  # packages, what they import
FUNCTIONS = sorted(set(re.findall(r"`(cugen(?:\.\w+){2,})`", LIFE)))
PATHS = sorted(set(re.findall(r"`((?:cugen|templates|specs|tests|docs|benchmarks|examples)/[\w./-]*)`", ARCHITECTURE)))
CI_RUN = (ROOT / ".ci" / "run").read_text()


def named(dotted: str) -> Any:
    """What a dotted name stands for: a module, then attributes."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            value = getattr(value, name)
        return value
    raise ModuleNotFoundError(dotted)


def imported(package: str) -> set[str]:
    """The other packages of cugen that the modules of one import."""
    texts = [path.read_text() for path in (ROOT / "cugen" / package).rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"^ *from cugen\.(\w+)", text, re.MULTILINE)}
    return names - {package, "version"}


def test_the_map_has_every_package_and_no_other() -> None:
    names = {name for packages, _ in ROWS for name in re.findall(r"`cugen\.(\w+)`", packages)}
    entries = {p.stem for p in (ROOT / "cugen").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert names == entries - {"__init__", "__main__", "version", "moved"}


@pytest.mark.parametrize(
    ("packages", "imports"), ROWS, ids=[packages[1 : packages.index("`", 1)] for packages, _ in ROWS]
)
def test_a_package_imports_what_the_map_says(packages: str, imports: str) -> None:
    if imports != "those above":
        assert imported(packages.removeprefix("`cugen.").removesuffix("`")) <= set(re.findall(r"`(\w+)`", imports))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_life_of_a_spec_exists(name: str) -> None:
    assert callable(named(name))


@pytest.mark.parametrize("path", PATHS)
def test_a_place_for_changes_exists(path: str) -> None:
    assert (ROOT / path).exists() or list(ROOT.glob(path))


def test_recipes_are_those_that_contributors_read_of() -> None:
    recipes = set(re.findall(r"^(\w+):(?!=)", (ROOT / "justfile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`just (\w+)`", CONTRIBUTING)) == recipes


def test_hooks_on_commits_are_the_lint_of_ci() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"].removesuffix(" --force-exclude") for repo in config["repos"] for hook in repo["hooks"]]
    assert entries == ["ruff check", "ruff format", "mypy", "lint-imports"]
    assert [entry for entry in entries if not re.search(rf"^{entry}\b", CI_RUN, re.MULTILINE)] == []


def test_ci_runs_the_quick_lane_and_then_everything() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert jobs["quick"]["steps"][-1]["run"].endswith("-m quick")
    assert jobs["all"]["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_form_for_reports_is_valid_yaml(form: Path) -> None:
    assert yaml.safe_load(form.read_text())
