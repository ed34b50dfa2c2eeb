"""What bad specs get from `cugen generate`: the right code, the right place, a cure, and no file.

Each case of tests/data/bad_specs is a spec as somebody might write it, with `«»` round each place that a finding must
underline. Below it stand the findings, in the order of their places: `--> CODE words of the help`, with `+->` for one
at the place of the one before, and `==>` for one that has no place. `... words` may stand anywhere in the finding
above, and `$ words` are arguments of the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "bad_specs"
FINDING = re.compile(
    r"error(?:\[(?P<code>\w+)\])?: (?P<message>.*)\n"
    r"(?: +--> (?P<file>.+?)(?::(?P<line>\d+):(?P<column>\d+))?\n)?"
    r"(?: +\|\n\d+ \| .*\n +\| +(?P<marks>\^+).*\n)?"
    r"(?P<rest>(?: += .*\n?)*)"
)


@dataclass
class Expected:
    code: str
    help: str
    mark: str
    words: list[str] = field(default_factory=list)


@dataclass
class Case:
    text: str
    arguments: list[str]
    findings: list[Expected]


def read_cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for path in sorted(DATA.glob("*.txt")):
        for part in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, _, body = part.partition("\n")
            case = Case("", [], [])
            for line in body.rstrip("\n").split("\n"):
                mark, _, words = line.partition(" ")
                if mark in ("-->", "+->", "==>"):
                    code, _, help = words.partition(" ")
                    case.findings.append(Expected(code, help, mark))
                elif mark == "..." and case.findings:
                    case.findings[-1].words.append(words)
                elif mark == "$":
                    case.arguments += words.split()
                else:
                    case.text += line + "\n"
            title = f"{path.stem}: {name}"
            assert title not in cases
            cases[title] = case
    return cases


def unmarked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """The spec without its marks, and what they mark: line, column and length."""
    spans = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        while (start := line.find("«")) >= 0:
            end = line.index("»") - 1
            line = line.replace("«", "", 1).replace("»", "", 1)
            spans.append((number, start + 1, max(1, end - start)))
        lines[number - 1] = line
    return "\n".join(lines), spans


CASES = read_cases()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_a_bad_spec_gets_what_it_deserves(name, cli, tmp_path):
    case = CASES[name]
    text, spans = unmarked(case.text)
    spec, out = tmp_path / "bad.yaml", tmp_path / "out"
    spec.write_text(text, encoding="utf-8")

    answer = cli("generate", spec, "-o", out, *case.arguments)

    assert answer.status == 2, answer.err
    assert not out.exists()
    assert answer.out == ""
    findings = list(FINDING.finditer(answer.err))
    assert [match["code"] or "-" for match in findings] == [expected.code for expected in case.findings], answer.err
    marked = iter(spans)
    last: tuple[int, int, int] | None = None
    for match, expected in zip(findings, case.findings, strict=True):
        if expected.mark == "==>":
            assert match["line"] is None
        else:
            last = next(marked) if expected.mark == "-->" else last
            assert (int(match["line"]), int(match["column"]), len(match["marks"])) == last, answer.err
        help = re.search(r"^ += help: (.+)$", match["rest"], re.MULTILINE)
        assert help, f"no cure: {answer.err}"
        assert expected.help in help[1], answer.err
        assert expected.code == "-" or f"cugen explain {expected.code}" in match["rest"]
        for words in expected.words:
            assert words in match[0], answer.err
    assert list(marked) == [], answer.err


def test_the_cases_show_most_codes_of_specs():
    from cugen.spec.codes import CODES as DOCUMENT
    from cugen.spec.codes_expressions import CODES as EXPRESSIONS

    shown = {finding.code for case in CASES.values() for finding in case.findings}
    # Findings about bytes, files and calls, which other tests show.
    elsewhere = {"CG1001", "CG1002", "CG1004", "CG1050", "CG1051", "CG1106"}
    assert {*DOCUMENT, *EXPRESSIONS} - shown - elsewhere == set()
