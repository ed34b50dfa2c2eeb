"""A made-up target is read with bounds, and all its errors are reported at once."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import cugen
from cugen.machine import known_targets, target
from cugen.machine.occupancy import occupancy
from cugen.spec.diagnostics import SpecError
from cugen.spec.parse.target_file import FIGURES, TARGET_KEYS, read_target, read_target_text

SCHEMA = json.loads((Path(cugen.__file__).parent / "spec" / "schema" / "cugen-target-1.json").read_text())
TEXTBOOK = """\
cugen_target: 1
name: textbook
threads_per_sm: 1536
registers_per_sm: 16384
register_unit: 1
"""


@pytest.mark.parametrize(("registers", "threads"), [(10, 1536), (11, 1024)])
def test_the_sm_of_a_textbook_has_its_occupancy(registers: int, threads: int) -> None:
    found = occupancy(read_target_text(TEXTBOOK), 512, registers)
    assert found.blocks_per_sm * 512 == threads


def test_what_the_file_leaves_out_is_that_of_another_target() -> None:
    made_up = read_target_text("cugen_target: 1\nname: more\nlike: sm_20\nshared_per_sm: 65536\n")
    assert made_up.shared_per_sm == 65536
    assert made_up.blocks_per_sm == target("sm_20").blocks_per_sm
    assert made_up.register_doubled == target("sm_20").register_doubled


def test_warps_follow_from_threads_unless_the_file_has_them() -> None:
    assert read_target_text(TEXTBOOK).warps_per_sm == 48
    assert read_target_text(f"{TEXTBOOK}warps_per_sm: 40\n").warps_per_sm == 40


def test_all_errors_are_reported_at_once_with_their_lines() -> None:
    text = """\
cugen_target: 2
like: sm_91
thread_per_sm: 3
threads_per_sm: many
registers_per_sm: 99999999999
shared_per_sm: 1000
shared_per_block: 2000
"""
    with pytest.raises(SpecError) as caught:
        read_target_text(text)
    found = sorted((d.span.line, d.code) for d in caught.value.diagnostics)
    codes = ["CG1013", "CG1029", "CG1049", "CG1014", "CG1015", "CG1029", "CG1029"]
    assert found == sorted(zip((1, 1, 2, 3, 4, 5, 7), codes, strict=True))


@pytest.mark.parametrize("figure", ["warps_per_sm: 49", "shared_per_sm: 1000\nshared_opt_in: 1001"])
def test_figures_that_contradict_each_other_are_refused(figure: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_target_text(f"{TEXTBOOK}{figure}\n")
    assert [d.code for d in caught.value.diagnostics] == ["CG1029"]


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "---\n{}\n---\n{}\n", "[1, 2]", "cugen_target: 1\nname: ' '\n", 'cugen_target: 1\nname: "a\\nb"\n'],
    ids=["nothing", "no YAML", "two documents", "a list", "an empty name", "a name of two lines"],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        read_target_text(text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        read_target(tmp_path / "none.yaml")
    assert [d.code for d in caught.value.diagnostics] == ["CG1001"]


def test_the_schema_has_the_keys_and_bounds_of_the_reader() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert tuple(SCHEMA["properties"]) == TARGET_KEYS
    assert SCHEMA["properties"]["like"]["enum"] == list(known_targets())
    for name, (low, high) in FIGURES.items():
        assert (SCHEMA["properties"][name]["minimum"], SCHEMA["properties"][name]["maximum"]) == (low, high)
