"""Sectors of a warp are those of the addresses of its lanes, in the order of the indices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.context import make_context
from cugen.rewrite.stored.sectors import requested_sectors
from cugen.spec.load import load_text

BYTES = {"float64": 8, "float32": 4, "float16": 2, "int8": 1}


@given(st.sampled_from(list(BYTES)), *[st.integers(1, 40)] * 4, st.integers(0, 9))
def test_sectors_are_those_of_the_addresses_of_the_lanes(dtype, rows, columns, row_step, step, first):
    width = columns * step + first
    (spec,) = load_text(
        f"""cugen: 1
kernel: k
arrays:
  x: {{shape: [{rows * row_step}, {width}], dtype: {dtype}}}
  y: {{shape: [{rows}, {columns}], dtype: {dtype}}}
compute: y[i, j] = x[{row_step} * i, {step} * j + {first}]
"""
    )
    (statement,) = spec.statements
    points = [(i, j) for i in range(rows) for j in range(columns)][:32]
    addresses = [(row_step * i * width + step * j + first) * BYTES[dtype] for i, j in points]
    sectors = len({address // 32 for address in addresses})
    assert requested_sectors(statement.value, statement.indices, make_context(spec)) == sectors


def test_a_gather_has_a_sector_for_each_lane():
    (spec,) = load_text(
        """cugen: 1
kernel: k
arrays:
  x: {shape: [1000], dtype: float32}
  n: {shape: [100], dtype: int32}
  y: {shape: [100], dtype: float32}
compute: y[i] = x[n[i]]
"""
    )
    (statement,) = spec.statements
    assert requested_sectors(statement.value, statement.indices, make_context(spec)) == 32 + 4
