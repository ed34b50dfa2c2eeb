"""Every spec of every page is right on the CPU device, or refused with the codes that are named beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cugen.cli.main import main
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Param
from tests.docs.pages import PAGES, Block, blocks, name_of

SPECS = [
    pytest.param(block, id=f"{name_of(page)}-{number}-{kernel}{'-'.join(['', *block.codes])}")
    for page in PAGES
    for number, block in enumerate(filter(lambda block: block.is_spec, blocks(page)), 1)
    for kernel in re.findall(r"^kernel: (\w+)", block.text, re.MULTILINE)[:1]
]
# The README's is of the gallery, and that of a new family needs the family: tests/gallery runs both.
RUN_ELSEWHERE = ("README", "docs/adding-a-family.md")
ACCEPTED = [case for case in SPECS if not case.values[0].codes and not str(case.id).startswith(RUN_ELSEWHERE)]


def value_of(param: Param) -> int:
    """A value for a dynamic param: the greatest that is allowed up to 100, or else the least."""
    return max(min(param.maximum, 100) // param.multiple_of * param.multiple_of, param.minimum)


def test_the_manual_has_specs_and_refused_ones() -> None:
    assert len(ACCEPTED) > 50
    assert len(SPECS) - len(ACCEPTED) > 10


@pytest.mark.parametrize("block", SPECS)
def test_a_spec_of_a_page_loads_or_is_refused_as_it_says(block: Block) -> None:
    codes: list[str] = []
    try:
        for spec in load_text(block.text):
            if block.codes:
                make_plan(spec)
    except SpecError as error:
        codes = sorted({diagnostic.code for diagnostic in error.diagnostics})
    assert codes == block.codes


@pytest.mark.sampled(94)
@pytest.mark.whole
@pytest.mark.parametrize("block", ACCEPTED)
def test_a_spec_of_a_page_is_right_on_the_cpu_device(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(block.text)
    values = {
        f"{param.name}={value_of(param)}" for spec in load_text(block.text) for param in spec.params if param.is_dynamic
    }
    settings = [word for value in sorted(values) for word in ("--set", value)]
    assert main(["run", str(path), "--device", "cpu", *settings]) == 0
