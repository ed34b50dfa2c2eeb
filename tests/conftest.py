"""What every test folder may use."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files that tests compare with, such as generated/, in place of comparing",
    )


@pytest.fixture
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether this run rewrites what it would compare with."""
    return bool(pytestconfig.getoption("--update-golden"))
