"""The cost of each memory access is in the generated file: beside the code, or in the table of the head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cugen.analysis.verdicts.report import AccessReport
from cugen.emit.inputs import RemarksMode
from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.plan.traversal.walking import accesses
from cugen.spec.model import Spec

MAX_COLUMNS = 120
_ROW = re.compile(r"//   (?P<access>\S.*?)  +(?P<claim>\S.*?)(?:, at (?P<count>\d+) places)?")
_COST = re.compile(r"(?<!assumed): (?:assumed: |unknown: |never runs|\d+ (?:wavefront|sector|request))")
_HEADING = re.compile(r"// Ideal accesses(?: of (\w+))?, without a remark in the code:")


def bare(text: str) -> str:
    """Without white space, and without casts, which reports leave out."""
    return "".join(text.split()).replace("(longlong)", "").replace("(int)", "")


def reports(kernel: Kernel) -> dict[int, tuple[str, AccessReport]]:
    """The kernel's name and the report of each access of device memory and of shared memory, by its serial number."""
    return {
        report.access.serial: (launch.kernel, report)
        for launch in analyze(kernel).kernels
        for report in launch.accesses
    }


def statements(kernel: Kernel) -> dict[int, tuple[int, str, str]]:
    """The line of the statement of each access, the comment above it, and itself, by the access' serial number."""
    planned = [access.serial for launch in kernel.plan.kernels for access in accesses(launch.body)]
    lines = kernel.source.splitlines()
    texts = {}
    for number, line in kernel.access_lines().items():
        first = line - 1
        while not re.search(r"(^ *//.*|[;{}]|^)$", lines[first - 1]) or "__threadfence();" in lines[first - 1]:
            first -= 1
        top = first
        while lines[top - 1].lstrip().startswith("//"):
            top -= 1
        comment = "".join(text.lstrip().removeprefix("//") for text in lines[top:first])
        last = next(n for n in range(line - 1, len(lines)) if re.search(r"[;{]$", lines[n]))
        texts[planned[number]] = first, bare(comment), bare("".join(lines[first : last + 1]))
    return texts


def table(kernel: Kernel) -> list[tuple[str, str, str]]:
    """Kernel, access and claim of the rows of the head; a row with a count as often as it says."""
    rows = []
    name = None
    for line in kernel.source.replace("\n//       ", "  ").splitlines():  # the claim of a long access
        if heading := _HEADING.fullmatch(line):
            name = heading[1] or kernel.name
        elif name and (row := _ROW.fullmatch(line)):
            rows += [(name, elements_of_matrices(bare(row["access"])), bare(row["claim"]))] * int(row["count"] or 1)
        else:
            name = None
    return rows


def elements_of_matrices(statement: str) -> str:
    """The statement with the first elements of wgmma's matrices, whose k is added to a descriptor."""
    statement = re.sub(r"k_major_matrix\(&([^(]+)\[0\],(\w+)\)", r"\1[\2]", statement)
    return re.sub(r"mn_major_matrix<\d+>\(&([^(]+)\[0\]\[0\],(\w+)\)", r"\1[\2][0]", statement)


@pytest.mark.sampled(154)
@pytest.mark.parametrize("mode", ["worst", "all"])
def test_each_access_has_its_verdict_and_reason_in_the_file(spec: Spec, mode: RemarksMode) -> None:
    kernel = generate(spec, remarks=mode)
    printed = statements(kernel)
    listed = table(kernel)
    remarked: set[tuple[int, str, str]] = set()  # equal ones of a statement are printed once
    for serial, (name, report) in reports(kernel).items():
        line, comment, statement = printed[serial]
        text, claim = bare(report.text), bare(report.claim)
        if tensor_map := re.fullmatch(r"(\w+_map)\((.*)\)", text):  # of which TMA copies the box at these coordinates
            assert f"(&{tensor_map[1]}," in statement or f",&{tensor_map[1]}," in statement
            offsets = r"(,[^,]+)+" if "_im2col_" in statement else ""
            assert re.search(re.escape(f",{tensor_map[2]}") + offsets + r"\);$", statement)
        else:
            assert text in elements_of_matrices(statement)
        if mode == "worst" and report.verdict == "ideal":
            listed.remove((name, text, claim))
        else:
            text = re.sub(r"^tex1Dfetch<\w+>\((\w+),(.*)\)$", r"\1at\2", text)  # the comment has no call
            text = re.sub(r"^tex2D<\w+>\((\w+),.*\)$", r"\1", text)
            assert f"{text}:{claim}" in comment
            remarked.add((line, text, claim))
    assert listed == []
    code = re.sub(r"\n +//", "", kernel.source)
    assert len(_COST.findall(code)) == len(remarked)


def test_committed_sources_have_no_line_over_120_columns(root: Path) -> None:
    sources = [path for path in sorted((root / "generated").iterdir()) if path.suffix in (".cu", ".h", ".hpp")]
    long = [
        f"{path.name}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_COLUMNS and ") = *reinterpret_cast<" not in line  # which has no operator to break at
    ]
    assert sources
    assert long == []
