"""Elements that differ in a number: arrays of vectors, and loops that load and store them."""

from __future__ import annotations

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty

PLANES = 5


def planes(statements: str) -> str:
    return f"""
target: sm_90
arrays:
  x: {{shape: [{PLANES}, 4096], dtype: float32}}
  y: {{shape: [{PLANES}, 4096], dtype: float32}}
compute: |
{statements}schedule: {{family: map, vector: 4}}
"""


MIRRORED = planes("".join(f"  y[{n}, i] = x[{PLANES - 1 - n}, i] + 2 * x[{n}, i]\n" for n in range(PLANES)))


def test_vectors_of_planes_are_moved_by_loops(made):
    source = made(MIRRORED).source
    assert f"Vector<float, 4> x4[{PLANES}];" in source
    assert "x4[number] = load<4>(&x[number * 4096 + i]);" in source
    assert "store<4>(&y[number * 4096 + i], y4[number]);" in source


def test_planes_are_right_and_each_access_is_where_the_analysis_has_it(made, check):
    kernel = made(MIRRORED)
    check(kernel, CpuDevice())
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []
