"""What `cugen check` prints for programs: JSON, GitHub's annotations and SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cugen
from cugen.cli.text.check_github import github_text
from cugen.spec.diagnostics import Diagnostic
from cugen.spec.expressions import Span

Cli = Callable[..., Any]
SCHEMA = Path(__file__).parents[2] / "data" / "sarif_subset.schema.json"

COLLIDING = """\
cugen: 1
kernel: turn
target: sm_90
params: {M: 128, N: 64}
arrays:
  A: {shape: [M, N], dtype: float32, memory: shared}
  B: {shape: [N, M], dtype: float32}
compute: B[n, m] = A[m, n]
schedule: {block: {m: 32, n: 32}, thread: {n: 4}}
check: {bank_conflicts: 1}
"""


@pytest.fixture
def colliding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec whose tile collides, in the folder `kernels` of the current one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernels" / "turn, 1.yaml"
    path.parent.mkdir()
    path.write_text(COLLIDING)
    return path


def sarif(cli: Cli, *words: object) -> Any:
    """The one run of a valid log."""
    log = json.loads(cli("check", "--format", "sarif", *words).out)
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    assert [error.message for error in validator.iter_errors(log)] == []
    (run,) = log["runs"]
    return run


def test_json_is_one_object_with_every_access_and_finding(cli: Cli, colliding: Path, spec: Path) -> None:
    answer = cli("check", colliding, spec, "--format", "json")
    content = json.loads(answer.out)
    assert (answer.status, answer.err) == (1, "")
    assert content["passed"] is False
    assert content["refused"] == []
    square, scale = content["kernels"]
    assert (square["kernel"], square["passed"], scale["kernel"], scale["passed"]) == (
        "turn",
        False,
        "scale",
        True,
    )
    (launch,) = square["launches"]
    assert (launch["grid"], launch["block"], launch["shared_bytes"]) == ([4, 2, 1], [32, 8, 1], 4096)
    assert [access["verdict"] for access in launch["accesses"]] == ["ideal", "ideal", "costly", "ideal"]
    (finding,) = square["findings"]
    assert (finding["code"], finding["line"], finding["key"]) == ("CG2201", 6, "arrays.A.memory")
    assert finding["related"][0]["file"] == "turn.cu"
    assert scale["findings"] == []


def test_the_keys_of_json_are_stable(cli: Cli, colliding: Path) -> None:
    content = json.loads(cli("check", colliding, "--format", "json").out)
    kernel = content["kernels"][0]
    launch = kernel["launches"][0]
    assert list(content) == ["passed", "kernels", "refused"]
    assert list(kernel) == [
        "kernel", "file", "target", "params", "passed", "limits", "compiler", "launches", "findings"
    ]  # fmt: skip
    assert list(kernel["limits"]) == [
        "bank_conflicts", "sectors", "occupancy", "spills", "local", "mixed_warps",
        "lanes", "traffic", "waves", "grid", "roofline", "doubles", "allow_unknown",
    ]  # fmt: skip
    assert list(launch) == [
        "kernel", "family", "grid", "block", "shared_bytes", "registers", "spill_bytes", "local_bytes", "occupancy",
        "blocks_per_sm", "limited_by", "branches", "accesses", "bounds",
    ]  # fmt: skip
    assert list(launch["accesses"][0]) == [
        "text", "line", "array", "kind", "space", "bytes_per_lane", "unit", "cost", "ideal", "ratio", "per_request",
        "verdict", "claim", "reason", "doubt",
    ]  # fmt: skip
    assert list(launch["bounds"][0]) == ["text", "array", "space", "kind", "verdict", "reason"]
    assert list(kernel["findings"][0]) == [
        "code", "severity", "message", "file", "line", "column", "end_line", "end_column", "key", "label", "notes",
        "help", "related", "launch",
    ]  # fmt: skip


def test_an_annotation_is_one_line_with_what_separates_its_parts_escaped(cli: Cli, colliding: Path) -> None:
    answer = cli("check", colliding, "--format", "github")
    (line,) = answer.out.splitlines()
    command, _, after_command = line.removeprefix("::").partition(" ")
    properties, _, message = after_command.partition("::")
    assert (answer.status, command) == (1, "error")
    assert properties == (
        "file=kernels/turn%2C 1.yaml,line=6,endLine=6,col=46,endColumn=52,title=CG2201 arrays.A.memory"
    )
    assert message.startswith("`tile[tx][ty + r]` has 32-way bank conflicts on sm_90: ")
    assert "%0Anote: the limit is `check.bank_conflicts: 1` in line 10%0Ahelp: " in message


def test_what_a_workflow_command_would_read_is_escaped() -> None:
    finding = Diagnostic(
        "CG2201", "50 % of it:\r\n::stop, all", "a:b.yaml", Span(1, 2, 3, 4), "k,e:y", severity="warning"
    )
    assert github_text([finding]) == (
        "::warning file=a%3Ab.yaml,line=1,endLine=3,title=CG2201 k%2Ce%3Ay::50 %25 of it:%0D%0A::stop, all"
    )


@given(st.text(), st.text(), st.text())
def test_an_annotation_can_be_read_back_whatever_is_in_it(message: str, file: str, key: str) -> None:
    line = github_text([Diagnostic("CG2201", message, file or ".", Span(1, 2, 1, 3), key)])
    assert "\n" not in line
    assert "\r" not in line
    properties, _, data = line.removeprefix("::error ").partition("::")
    read = dict(part.split("=", 1) for part in properties.split(","))
    assert list(read) == ["file", "line", "endLine", "col", "endColumn", "title"]
    assert unescaped(read["title"]) == f"CG2201 {key}".strip()
    assert unescaped(data) == message


def unescaped(text: str) -> str:
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_without_findings_there_are_no_annotations(cli: Cli, spec: Path) -> None:
    answer = cli("check", spec, "--format", "github")
    assert (answer.status, answer.out) == (0, "")


def test_sarif_points_at_the_spec_and_relates_the_generated_line(cli: Cli, colliding: Path) -> None:
    run = sarif(cli, colliding)
    (result,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("CG2201", 0, "error")
    page = (Path(cugen.__file__).parent / "explain" / "CG2201.md").read_text()
    assert rule["help"] == {"text": page, "markdown": page}
    assert rule["shortDescription"]["text"] == "A shared access with bank conflicts"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "kernels/turn%2C%201.yaml", "uriBaseId": "%SRCROOT%"}
    assert (location["region"]["startLine"], location["region"]["startColumn"], location["region"]["endColumn"]) == (
        6,
        46,
        52,
    )
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "turn.cu"
    assert "tile[tx][ty + r]" in related["physicalLocation"]["region"]["snippet"]["text"]
    assert related["message"]["text"] == "lanes 0 and 1: bytes 0 and 128 of tile, both in bank 0"


def test_a_clean_spec_gives_a_valid_log_without_results(cli: Cli, spec: Path) -> None:
    run = sarif(cli, spec)
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


def fingerprints(run: Any) -> list[str]:
    return [result["partialFingerprints"]["cugenFinding/v1"] for result in run["results"]]


def test_a_fingerprint_outlives_lines_figures_and_limits(cli: Cli, colliding: Path) -> None:
    before = fingerprints(sarif(cli, colliding))
    moved = COLLIDING.replace("params: {M: 128", "# a comment\n\nparams: {M: 256").replace(
        "conflicts: 1", "conflicts: 2"
    )
    colliding.write_text(moved)
    assert fingerprints(sarif(cli, colliding)) == before
    colliding.write_text(COLLIDING.replace("kernel: turn", "kernel: other"))
    assert fingerprints(sarif(cli, colliding)) != before


# Two launches with the same two costly loads each.
AGAIN = """\
cugen: 1
kernel: again
params: {N: 6000}
arrays:
  point: {shape: [N, 3], dtype: float32}
  total: {shape: [N], dtype: float32, memory: scratch}
  length: {shape: [N], dtype: float32}
compute: |
  total[i] = point[i, 0] + point[i, 1]
  length[i] = point[i, 0] + point[i, 1] + total[N - 1 - i]
schedule: {family: direct}
"""


def test_each_finding_has_a_fingerprint_of_its_own(cli: Cli, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    again.write_text(AGAIN)
    run = sarif(cli, Path(__file__).parents[3] / "specs" / "array_of_structures.yaml", again)
    prints = fingerprints(run)
    assert len(prints) == 1 + 2 * 2
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_a_refused_spec_is_reported_in_every_format(cli: Cli, tmp_path: Path, form: str) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("cugen: 1\nkernel: bad\nkernle: 1\n")
    answer = cli("check", bad, "--format", form)
    assert (answer.status, answer.err) == (2, "")
    assert "CG1013" in answer.out
    assert "CG1014" in answer.out
    if form == "sarif":
        assert {result["ruleId"] for result in sarif(cli, bad)["results"]} == {"CG1013", "CG1014"}
