"""A warning about an access names the read or the statement that it serves, not the first one of its array."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cugen.cli.main import main

COLUMNS = """\
cugen: 1
kernel: columns
params: {N: 4096}
arrays:
  x: {shape: [N, 32], dtype: float32}
  y: {shape: [3, N], dtype: float32}
compute: |
  y[0, i] = x[i, 3] * 2
  y[1, i] = x[i, 4] + x[i, 27]
  y[2, i] = x[i, 3] - x[i, 16]
"""
FIELDS = """\
cugen: 1
kernel: fields
params: {N: 4096}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N, 12], dtype: float32}
indices: {f: 11}
compute: |
  y[i, 11] = x[i]
  y[i, f] = 0
"""
ROWS = """\
cugen: 1
kernel: rows
params: {M: 512, N: 1024}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, 2, N], dtype: float32}
  z: {shape: [N, M], dtype: float32}
compute: |
  y[m, 0, n] = x[m, n] - mean(x[m, j], j)
  y[m, 1, n] = x[m, n] / sum(x[m, j], j)
  z[n, m] = x[m, n] - max(x[m, j], j)
"""


@pytest.mark.parametrize(
    ("spec", "locations"),
    [
        (COLUMNS, ["8:13 x[i, 3]", "9:13 x[i, 4]", "9:23 x[i, 27]", "10:23 x[i, 16]"]),
        (FIELDS, ["9:3 y[i, 11] = x[i]", "10:3 y[i, f] = 0"]),
        (ROWS, ["11:3 z[n, m] = x[m, n] - max(x[m, j], j)"]),
    ],
    ids=["reads", "stores", "rows"],
)
def test_each_warning_has_the_place_of_its_access(
    spec: str, locations: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(spec)
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    found = re.findall(r"warning\[CG2202\].*\n *--> .*:(\d+:\d+)\n *\|\n *\d+ \| (.*)\n *\| ( *)(\^+) ", printed)
    marked = [(start, line[len(before) : len(before) + len(marks)]) for start, line, before, marks in found]
    assert [f"{start} {text}" for start, text in marked] == locations
