"""Every code of the planner has a page, whose first spec shows it and whose second one cures it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cugen
from cugen.kernel import generate
from cugen.schedule.codes import CODES
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

PACKAGE = Path(cugen.__file__).parent
LOCKS = ("CG2105", "CG2106", "CG2107", "CG2109", "CG2113")  # no text of a spec can show them: see test_lock.py
WARNINGS = ("CG2108", "CG2112")  # that `generate` adds: see test_kernel_price.py and test_kernel_types.py


def codes_of(text: str) -> list[str]:
    (spec,) = load_text(text)
    try:
        generate(spec)
    except SpecError as error:
        return [finding.code for finding in error.diagnostics]
    return []


@pytest.mark.parametrize("code", [code for code in CODES if code not in (*LOCKS, *WARNINGS)])
def test_a_page_shows_its_finding_and_the_cure(code: str) -> None:
    page = (PACKAGE / "explain" / f"{code}.md").read_text()
    assert page.startswith(f"# {code}: {CODES[code]}\n\n")
    bad, good = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert codes_of(bad) == [code]
    assert codes_of(good) == []


def test_each_code_that_the_planner_reports_has_a_title() -> None:
    files = (*(PACKAGE / "schedule").glob("*.py"), PACKAGE / "kernel_price.py", PACKAGE / "kernel_types.py")
    reported = {
        code for file in files for code in re.findall(r'"(CG\d{4})"', file.read_text()) if file.name != "codes.py"
    }
    assert reported == set(CODES)


def test_the_reason_of_the_family_that_would_take_the_statements_is_the_first_note() -> None:
    text = """\
cugen: 1
kernel: scale
arrays: {x: {shape: [64], dtype: float32}, y: {shape: [64], dtype: float32}}
compute: y[i] = 2 * x[i]
schedule: {vector: 3}
"""
    (spec,) = load_text(text)
    with pytest.raises(SpecError) as caught:
        generate(spec)
    (found,) = caught.value.diagnostics
    assert found.notes[0] == "map: vector may be 1, 2, 4, 8, 16, not 3"
    assert found.notes[1].startswith("direct: ")
    assert found.notes[-1].startswith("other families don't take these statements")
    assert len(found.notes) <= 4


@pytest.mark.parametrize(
    ("compute", "tunable", "words"),
    [
        ("y[i] = sum(x[i, j], j)", "unroll: full", 'unroll may be 1, 2, 4, 8, 16, not "full"'),
        ("y[i] = sum(x[i, j], j)", "unroll: true", "unroll may be 1, 2, 4, 8, 16, not true"),
        ("y[i] = sum(x[i, j], j)", 'unroll: "4"', 'unroll may be 1, 2, 4, 8, 16, not "4"'),
        ("z[i, k] = x[i, k] / sum(x[i, j], j)", "vectors: many", "has no tunable 'vectors'"),
    ],
)
def test_a_tunable_of_another_type_is_refused_and_its_values_listed(compute: str, tunable: str, words: str) -> None:
    written = "y: {shape: [1024]" if compute.startswith("y") else "z: {shape: [1024, 64]"
    text = f"""
cugen: 1
kernel: rows
arrays: {{x: {{shape: [1024, 64], dtype: float32}}, {written}, dtype: float32}}}}
compute: {compute}
schedule: {{{tunable}}}
"""
    (spec,) = load_text(text)
    with pytest.raises(SpecError) as caught:
        generate(spec)
    (error,) = caught.value.diagnostics
    assert error.code == "CG2103"
    assert any(words in note for note in error.notes)


def test_a_reason_of_a_family_is_given_once() -> None:
    text = """
cugen: 1
kernel: product
target: sm_80
params: {M: dynamic, N: dynamic, K: 64}
arrays:
  A: {shape: [M, K], dtype: float32, memory: {space: shared, stages: 2}}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 32, n: 32}, thread: {m: 2, n: 2}, step: {k: 16}}
"""
    (spec,) = load_text(text)
    with pytest.raises(SpecError) as caught:
        generate(spec)
    (error,) = caught.value.diagnostics
    assert "rowwise: takes the tunables `threads` and `rows`, not a block or step" in error.notes
    assert len(set(error.notes)) == len(error.notes)
