"""With `--gnu` findings begin as those of compilers do, so that editors and build tools find the place."""

from __future__ import annotations

import re

# What VS Code's matcher `$gcc` reads, with the code in brackets that cugen adds.
HEAD = re.compile(r"^(.*):(\d+):(\d+):\s+(error|warning):\s+(.*) \[(CG\d{4})\]$", re.MULTILINE)


def test_a_refused_spec_is_reported_at_its_line_and_column(cli, spec):
    spec.write_text(spec.read_text().replace("y: {shape: [N], dtype: float32}", "y: {shape: [N], dtype: float33}"))
    answer = cli("generate", spec, "--gnu", "-o", spec.parent)
    assert answer.status == 2
    assert HEAD.findall(answer.err) == [(str(spec), "7", "26", "error", "there is no dtype `float33`", "CG1028")]
    assert "7 |   y: {shape: [N], dtype: float33}" in answer.err
    assert "-->" not in answer.err


def test_every_file_has_its_own_head_and_one_without_a_line_gets_the_first(cli, spec, tmp_path):
    spec.write_text("cugen: 1\n")
    answer = cli("generate", spec, tmp_path / "absent.yaml", "--gnu")
    locations = {(file, line) for file, line, *_ in HEAD.findall(answer.err)}
    assert locations == {(str(spec), "1"), (str(tmp_path / "absent.yaml"), "1")}


def test_passed_limits_of_a_check_are_reported_so_too(cli, spec):
    text = spec.read_text().replace("compute: y[i] = 2 * x[i]", "compute: y[i] = 2 * x[i * 7 % N]")
    spec.write_text(text + "check: {sectors: 1.0}\n")
    answer = cli("check", spec, "--gnu", "--quiet")
    assert answer.status == 1
    assert [(file, severity) for file, _, _, severity, *_ in HEAD.findall(answer.out)] == [(str(spec), "error")]
