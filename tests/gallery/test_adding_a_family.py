"""The guide to a new family works as it stands: its files, changes and commands are taken from the page."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import jinja2
import pytest

from cugen.emit import environment, source
from cugen.emit.overrides import Templates
from cugen.families.base import Family
from cugen.families.registry import families
from cugen.kernel import generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule import planner
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-family.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {path: text for language, path, text in BLOCKS if path and language != "diff"}
CHANGES = [(path, text) for language, path, text in BLOCKS if language == "diff"]
COMMANDS = [line for language, _, text in BLOCKS if language == "console" for line in text.splitlines()]
NOT_COPIED = (".git", ".venv", "venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
LIMIT_SECONDS = 1800  # of one command


def changed(text: str, diff: str) -> str:
    """A file's text after a hunk without line numbers, whose old lines the file has once."""
    lines = [line if line.strip() else " \n" for line in diff.splitlines(keepends=True)]
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"the page changes lines that the file has {text.count(old)} times:\n{old}"
    return text.replace(old, new)


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    """The page's family, installed for one test."""
    module = types.ModuleType("cugen.families.strided.family")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    path = "cugen/families/strided/family.py"
    exec(compile(FILES[path], path, "exec"), module.__dict__)
    added: Family = module.FAMILY
    known = (*families(), added)
    monkeypatch.setattr(planner, "families", lambda: known)
    plain = environment.environment

    def with_template(overrides: Templates = ()) -> jinja2.Environment:
        env = plain(overrides)
        assert env.loader
        name = "strided.cu.j2"
        env.loader = jinja2.ChoiceLoader([jinja2.DictLoader({name: FILES[f"templates/{name}"]}), env.loader])
        return env

    monkeypatch.setattr(source, "environment", with_template)
    return added


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 100003])
def test_the_added_family_computes_what_the_spec_says(family: Family, size: int) -> None:
    (spec,) = load_text(FILES["specs/scale_strided.yaml"], params={"N": size})
    kernel = generate(spec)
    assert [part.family for part in kernel.plan.kernels] == [family.name]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(shuffle=1))
    assert run.verification.passed, run.verification.messages


def test_the_kernel_is_the_one_that_the_page_shows(family: Family) -> None:
    (spec,) = load_text(FILES["specs/scale_strided.yaml"])
    (shown,) = (text for language, _, text in BLOCKS if language == "cuda")
    assert shown in generate(spec).source


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("blocks: 32", "blocks: 33"), "strided: blocks may be 32, 64, 128, 256, 512, not 33"),
        (("blocks: 32", "block: {i: 64}"), "strided: has no block to choose; `blocks` sets the grid"),
    ],
    ids=["33 blocks", "block"],
)
def test_the_added_family_refuses_what_it_cannot_honour(family: Family, change: tuple[str, str], reason: str) -> None:
    (spec,) = load_text(FILES["specs/scale_strided.yaml"].replace(*change))
    with pytest.raises(SpecError, match=re.escape(reason)):
        generate(spec)


@pytest.mark.parametrize(("path", "diff"), CHANGES, ids=[path for path, _ in CHANGES])
def test_a_change_of_the_page_fits_the_file(path: str, diff: str) -> None:
    assert changed((ROOT / path).read_text(), diff) != (ROOT / path).read_text()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_who_follows_the_page_has_a_family_that_passes_every_test(tmp_path: Path) -> None:
    """The page applied to a copy of the repository, and its commands run there."""
    copy = tmp_path / "cugen"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for path, text in FILES.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        assert not (copy / path).exists()
        (copy / path).write_text(text)
    for path, diff in CHANGES:
        (copy / path).write_text(changed((copy / path).read_text(), diff))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy),
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "1",  # other tests run beside this one
    }
    assert len(COMMANDS) > 10
    for line in COMMANDS:
        command = shlex.split(line, comments=True)
        done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert done.returncode == 0, f"{line}\n{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert (copy / "generated" / "scale_strided.cu").read_text() == (copy / "build" / "scale_strided.cu").read_text()
