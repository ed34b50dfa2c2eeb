"""What version 0.1 told its users still holds: the names of its documents, its specs, its lock file, its manifests.

`data/release_0_1` has these as they were released.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import cugen
from cugen.abi.manifest import Manifest
from cugen.cli.main import COMMANDS
from cugen.families.registry import families
from cugen.kernel import generate
from cugen.schedule.aliases import FAMILIES, TUNABLES, VALUES
from cugen.schedule.lock import Schedules, filled, read
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Schedule, Spec
from tests.benchmarks import benchmark

RELEASE = Path(__file__).parent / "data" / "release_0_1"
PAGES = sorted(RELEASE.rglob("*.md"))
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """The info string and the text of each fenced block of a language."""
    return re.findall(rf"^```{language}([^\n]*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(RELEASE.rglob("*.py")):
        yield str(path.relative_to(RELEASE)), path.read_text()
    for page in PAGES:
        for number, (_, text) in enumerate(blocks(page, "python"), 1):
            yield f"{page.relative_to(RELEASE)}:{number}", text


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Each module of cugen's that a source imports, with the name from it; empty for the module itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cugen":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "cugen")


IMPORTS = sorted({pair for _, text in sources() for pair in imported(text)})
DOTTED = re.compile(r"`(cugen(?:\.\w+)+)(?:\(.*?\))?`")
NAMES = sorted({name for page in PAGES for name in DOTTED.findall(page.read_text())} - {"cugen.lock"})  # a file
COMMAND_LINES = sorted(
    {
        line.split(" #")[0].split(" && ")[-1].strip()
        for page in PAGES
        for _, text in blocks(page, "console")
        for line in text.splitlines()
        if re.match(r"(.* && )?cugen [a-z]+", line)
    }
)
SPECS = [
    pytest.param(info.split()[1:], text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (info, text) in enumerate(blocks(page, "yaml"))
    if text.startswith("cugen: 1")
]
SPEC_FILES = sorted(path for path in RELEASE.rglob("*.yaml") if path.read_text().lstrip("# \n").startswith("cugen"))


def test_the_documents_have_something_to_hold_them_to() -> None:
    assert len(IMPORTS) > 10
    assert len(COMMAND_LINES) > 10
    assert len(SPECS) > 10
    assert len(SPEC_FILES) > 10


@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_an_import_of_the_documents_works(module: str, name: str) -> None:
    loaded = importlib.import_module(module)
    assert not name or hasattr(loaded, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_dotted_name_of_the_documents_exists(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return
    pytest.fail(f"{name} can't be imported")


def test_the_package_that_had_the_name_of_a_function_leaves_the_function_alone() -> None:
    importlib.import_module("cugen.run.limits")
    assert isinstance(cugen.run, types.FunctionType)


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_command_line_of_the_documents_is_parsed(line: str) -> None:
    _, command, *words = shlex.split(re.split(r" [|>]", line)[0])
    assert command in COMMANDS
    parser = argparse.ArgumentParser(command, allow_abbrev=False)
    importlib.import_module(f"cugen.cli.commands.{command}").add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings} | {"-q", "--quiet", "--gnu"}
    assert [word for word in words if word.startswith("-") and word.split("=")[0] not in known] == []


@pytest.mark.parametrize(("codes", "text"), SPECS)
def test_a_spec_of_the_documents_is_read_as_it_was(codes: list[str], text: str) -> None:
    if not codes:
        assert load_text(text)
        return
    with pytest.raises(SpecError) as refused:
        load_text(text)
    assert sorted({finding.code for finding in refused.value.diagnostics}) == codes


@pytest.mark.parametrize("path", SPEC_FILES, ids=lambda path: path.stem)
def test_a_released_spec_still_gives_kernels(path: Path) -> None:
    for spec in load_all(path):
        assert generate(spec, analysis=False).source


def tuned_products() -> dict[str, Spec]:
    """The specs that the released lock file has schedules for."""
    cases = benchmark("gemm.products_cases").tuned()
    return {spec.kernel: spec for case in cases for spec in load_text(case.spec)}


@pytest.mark.slow
def test_every_schedule_of_the_released_lock_file_is_still_taken() -> None:
    specs = tuned_products()
    entries = read(RELEASE / "cugen.lock").entries
    assert len(entries) > 10
    for entry in entries:
        spec = specs[entry.kernel]
        schedules: list[Schedules] = [entry.schedules, *(entry.runner_up[:1] if entry.runner_up else ())]
        for chosen in filter(None, schedules):
            assert generate(replace(spec, schedules=filled(spec, chosen)), analysis=False).source


@pytest.mark.parametrize("path", sorted((RELEASE / "generated").glob("*.json")), ids=lambda path: path.stem)
def test_a_released_manifest_is_read(path: Path) -> None:
    assert Manifest.from_json(path.read_text()).kernel == path.stem


def test_an_old_name_stands_for_one_that_some_family_has() -> None:
    tunables = {tunable.name: tunable for family in families() for tunable in family.tunables}
    assert set(TUNABLES.values()) <= set(tunables)
    assert set(TUNABLES) & set(tunables) == set()
    assert all(value in tunables[name].values for (name, _), value in VALUES.items())
    assert set(FAMILIES.values()) <= {family.name for family in families()}


GEMV = "y[m, n] = sum(x[m, k] * W[k, n], k)"
SAME = [
    ("M: 2, N: 4096, K: 4096", "x: [M, K], W: [K, N], y: [M, N]", GEMV, "family: skinny, columns: 2, parts: 4"),
    ("N: 2000003", "x: [N], y: [N]", "y[i] = cumsum(x[i], i)", "family: scan, how: passes"),
    ("M: 3001, N: 40", "x: [M, N], y: [M, N]", "y[i, j] = cumsum(x[i, j], i)", "family: scan, strips: 8"),
    ("M: 4, N: 1000003", "x: [M, N], y: [M]", "y[i] = sum(x[i, j], j)", "family: reduce, parts: 8"),
]


@pytest.mark.parametrize(("params", "arrays", "compute", "schedule"), SAME, ids=lambda text: text.split(":")[0])
def test_the_old_name_of_a_tunable_gives_the_kernel_of_the_new_one(
    params: str, arrays: str, compute: str, schedule: str
) -> None:
    shapes = re.sub(r"(\w+): (\[[^]]*\])", r"\1: {shape: \2, dtype: float32}", arrays)
    current = re.sub(r"(\w+):", lambda key: f"{TUNABLES.get(key[1], key[1])}:", schedule)
    current = re.sub(r"algorithm: passes", "algorithm: multi_pass", current)
    assert current != schedule
    text = f"cugen: 1\nkernel: k\nparams: {{{params}}}\narrays: {{{shapes}}}\ncompute: {compute}\nschedule: "
    old, new = (generate(load_text(f"{text}{{{words}}}")[0], analysis=False) for words in (schedule, current))
    assert old.source.split("extern")[1:] == new.source.split("extern")[1:]


def test_the_old_name_of_a_family_is_the_family() -> None:
    (spec,) = load_all(RELEASE / "specs" / "blur_fused.yaml")
    schedule = (("", replace(dict(spec.schedules).get("", Schedule()), family="cascade")),)
    assert [k.family for k in generate(replace(spec, schedules=schedule)).plan.kernels] == ["fused_stencil"]


def test_the_family_of_the_released_guide_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, source), *_ = blocks(RELEASE / "docs" / "adding-a-family.md", "python")
    module = types.ModuleType("cugen.families.strided")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, "strided.py", "exec"), module.__dict__)
    (spec,) = load_text(blocks(RELEASE / "docs" / "adding-a-family.md", "yaml")[0][1])
    assert module.FAMILY.name == spec.schedules[0][1].family
