"""What every test folder may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A slow machine is no failure, and what fails here must fail again elsewhere. `--hypothesis-profile=search` looks
# for what nobody has seen yet.
settings.register_profile("project", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=3000)
settings.load_profile("project")

Golden = Callable[[Path, str], None]
Part = Callable[[Path, str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files that tests compare with, such as generated/, in place of comparing",
    )


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    """Compares a text with a file; with `--update-golden` it writes the file instead."""

    def compare(path: Path, text: str) -> None:
        if pytestconfig.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            pytest.fail(f"{path.name} is stale; if the change is meant, run pytest --update-golden")

    return compare


@pytest.fixture
def golden_part(golden: Golden) -> Part:
    """Compares a text with what stands in a Markdown file between `<!-- name -->` and `<!-- end -->`."""

    def compare(path: Path, name: str, text: str) -> None:
        before, found, rest = path.read_text().partition(f"<!-- {name} -->\n")
        assert found, f"{path.name} has no part {name}"
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"the part {name} of {path.name} has no end"
        golden(path, f"{before}{found}{text}{end}{after}")

    return compare
