"""The family that the guide adds works as the guide says: its files are taken from the page."""

from __future__ import annotations

import re
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

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-family.md").read_text()


def block(language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert match
    return match[1]


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    """The page's family, installed for one test."""
    module = types.ModuleType("cugen.families.strided")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block("python"), "strided.py", "exec"), module.__dict__)
    added: Family = module.FAMILY
    known = (*families(), added)
    monkeypatch.setattr(planner, "families", lambda: known)
    plain = environment.environment

    def with_template(overrides: Templates = ()) -> jinja2.Environment:
        env = plain(overrides)
        assert env.loader
        env.loader = jinja2.ChoiceLoader([jinja2.DictLoader({"strided.cu.j2": block("jinja")}), env.loader])
        return env

    monkeypatch.setattr(source, "environment", with_template)
    return added


@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 100003])
def test_the_added_family_computes_what_the_spec_says(family: Family, size: int) -> None:
    (spec,) = load_text(block("yaml"), params={"N": size})
    kernel = generate(spec)
    assert [part.family for part in kernel.plan.kernels] == [family.name]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(shuffle=1))
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("blocks: 32", "blocks: 33"), "strided: blocks may be 32, 64, 128, 256, 512, not 33"),
        (("blocks: 32", "block: {i: 64}"), "strided: has a fixed block and step"),
    ],
)
def test_the_added_family_refuses_what_it_cannot_honour(family: Family, change: tuple[str, str], reason: str) -> None:
    (spec,) = load_text(block("yaml").replace(*change))
    with pytest.raises(SpecError, match=re.escape(reason)):
        generate(spec)
