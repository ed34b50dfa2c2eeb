"""Advice of `cugen check` on global memory is tried: a spec that follows it is planned and moves fewer sectors."""

from __future__ import annotations

import re

import pytest

from cugen.analysis.limits.advice import ADJACENT, MAX_TRIED_ARRAYS, Advisor
from cugen.analysis.limits.fixes import state_of
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

VECTORS = """\
cugen: 1
kernel: vectors
params: {N: 60000}
arrays:
  point: {shape: [N, 3], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = point[i, 0] + point[i, 1] + point[i, 2]
"""
TRANSPOSED = """\
cugen: 1
kernel: turned
params: {M: 500, N: 700}
arrays:
  A: {shape: [M, N], dtype: float32}
  x: {shape: [N], dtype: float32}
  y: {shape: [N, M], dtype: float32}
compute: y[j, i] = 2 * A[i, j] + x[j]
schedule: {family: map}
"""
STEPS = """\
cugen: 1
kernel: steps
arrays:
  x: {shape: [4096], dtype: float32}
  y: {shape: [1024], dtype: float32}
compute: y[i] = x[4 * i]
"""


def advice(text: str, array: str) -> str:
    (spec,) = load_text(text)
    return Advisor(spec, make_plan, {}).advise(array)


def sectors(text: str) -> int:
    (spec,) = load_text(text)
    return state_of([spec], make_plan, {}).sectors


@pytest.mark.parametrize(("text", "array"), [(VECTORS, "point"), (TRANSPOSED, "A")], ids=["vectors", "transposed"])
def test_each_change_that_is_advised_moves_the_sectors_that_are_claimed(text: str, array: str) -> None:
    found = advice(text, array)
    before = re.match(r"all accesses move ([\d,]+) sectors", found)
    assert before is not None
    assert int(before[1].replace(",", "")) == sectors(text)
    changes = re.findall(r"`([^`]+: [^`]+)`, with which all accesses move ([\d,]+)", found)
    assert changes
    for change, moved in changes:
        changed = re.sub(rf"({array}: {{.*)}}", rf"\1, {change}}}", text)
        assert sectors(changed) == int(moved.replace(",", ""))


def test_a_placement_that_no_family_takes_is_not_advised() -> None:
    with pytest.raises(SpecError, match="CG2102"):
        sectors(TRANSPOSED.replace("float32}\n  x", "float32, memory: shared}\n  x"))
    assert "shared" not in advice(TRANSPOSED, "A")


def test_where_nothing_helps_it_says_what_was_tried() -> None:
    assert advice(STEPS, "x") == f"{ADJACENT}; tried for `x` without effect: `memory: shared`"


def test_few_arrays_are_tried() -> None:
    arrays = "".join(f"  x{n}: {{shape: [64, 3], dtype: float32}}\n" for n in range(6))
    total = " + ".join(f"x{n}[i, 0]" for n in range(6))
    (spec,) = load_text(
        f"cugen: 1\nkernel: k\narrays:\n{arrays}  y: {{shape: [64], dtype: float32}}\ncompute: y[i] = {total}\n"
    )
    planned = []

    def plan(spec):
        planned.append(spec)
        return make_plan(spec)

    advisor = Advisor(spec, plan, {})
    texts = [advisor.advise(f"x{n}") for n in (*range(6), *range(6))]
    assert texts[:6] == texts[6:]
    assert texts[MAX_TRIED_ARRAYS:6] == [ADJACENT] * (6 - MAX_TRIED_ARRAYS)
    assert len(planned) <= 1 + 3 * MAX_TRIED_ARRAYS
