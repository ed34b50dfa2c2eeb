"""The packages show the map: a folder is what one person keeps in mind, and the layers hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cugen"
MAX_MODULES = 14  # of a folder, beside its packages: about a dozen
MAX_FAMILIES = 15  # entries of cugen/families
MAX_TEST_ID = 110  # characters between the brackets of a parametrised test
FOLDERS = sorted({path.parent for root in (PACKAGE, ROOT / "benchmarks") for path in root.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_folder_has_about_a_dozen_modules(folder: Path) -> None:
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= MAX_MODULES


def test_the_families_are_few_boxes() -> None:
    entries = [path for path in (PACKAGE / "families").iterdir() if not path.name.startswith("__")]
    assert len(entries) <= MAX_FAMILIES


def test_no_package_imports_one_above_it() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_id_of_a_parametrised_test_is_short_and_of_one_line(collected: tuple[str, ...]) -> None:
    """A spec or a long schedule as a parameter needs `pytest.param(..., id=...)`."""
    assert collected
    ids = {nodeid: nodeid.partition("[")[2] for nodeid in collected}
    assert [nodeid for nodeid, text in ids.items() if len(text) > MAX_TEST_ID or "\\n" in text] == []
