"""`pytest -m quick` runs what `data/quick.yaml` lists, and a kernel of each family is among it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from cugen.families.registry import families
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_all

TESTS = Path(__file__).parent
QUICK: dict[str, list[str]] = yaml.safe_load((TESTS / "data" / "quick.yaml").read_text())


@pytest.mark.parametrize("entry", [entry for entries in QUICK.values() for entry in entries])
def test_an_entry_of_the_list_names_tests(entry: str) -> None:
    path, _, test = entry.partition("::")
    assert (TESTS / path).exists()
    assert not test or f"def {test.partition('[')[0]}(" in (TESTS / path).read_text()


def test_a_kernel_of_each_family_runs() -> None:
    of_families = {match[1] for entry in QUICK["run"] if (match := re.match(r"families/(\w+)/", entry))}
    names = {re.sub(r".*\[(.*)\]", r"\1", entry) for entry in QUICK["run"] if entry.startswith("gallery/")}
    paths = sorted((TESTS.parent / "specs").glob("*.yaml"))
    specs = {spec.kernel: spec for path in paths for spec in load_all(path)}
    planned = {kernel.family for name in names for kernel in make_plan(specs[name]).kernels}
    assert planned | of_families == {family.name for family in families()}


def test_this_test_is_quick_and_slow_ones_are_not(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("quick")
    items = request.session.items
    assert [item.nodeid for item in items if item.get_closest_marker("slow") and item.get_closest_marker("quick")] == []
