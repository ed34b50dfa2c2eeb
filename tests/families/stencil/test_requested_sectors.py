"""Strided and dilated stencils request no more sectors than `direct`, which loads each point of each output."""

from __future__ import annotations

from random import Random

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

TOLERANCE = 1.1  # ratio of sectors that count as equal
DRAWN, BATCHES = 200, 8


def drawn_stencil(seed: int) -> str:
    """A stencil of 1 to 3 dimensions with strides and dilations, plain, by channels or in groups."""
    random = Random(seed)
    rank = random.choice((1, 1, 2, 2, 3))
    names, taps = "ijk"[:rank], "rst"[:rank]
    sides = [max(8, int({1: 1 << 22, 2: 2048, 3: 160}[rank] * 2 ** -random.uniform(0, 3))) for _ in names]
    counts = [random.randint(2, {1: 9, 2: 5, 3: 3}[rank]) for _ in names]
    strides, dilations = (
        [random.choice((1, 2, 2, 3, 4)) for _ in names[1:]] + [random.choice((2, 3, 4))] for _ in "sd"
    )
    columns = list(zip(names, taps, sides, counts, strides, dilations, strict=True))
    reads = ", ".join(f"{stride}*{name} + {dilation}*{tap}" for name, tap, _, _, stride, dilation in columns)
    inner = ", ".join(str(stride * side + d * (count - 1)) for _, _, side, count, stride, d in columns)
    outer, over, subscripts, window = (", ".join(map(str, each)) for each in (sides, taps, names, counts))
    indices = ", ".join(f"{tap}: {count}" for tap, count in zip(taps, counts, strict=True))
    dtype, n, groups = (
        random.choice(("float32", "float16", "float64")),
        random.choice((1, 2, 8)),
        random.choice((0, 1, 2)),
    )
    c, f = groups * random.choice((1, 2, 4)), groups * random.choice((1, 2, 4, 8))
    if groups:
        channel = "c" if groups == 1 else f"f // {f // groups} * {c // groups} + c"
        shapes = {"x": f"{n}, {c}, {inner}", "w": f"{f}, {c // groups}, {window}", "y": f"{n}, {f}, {outer}"}
        indices += f", c: {c // groups}"
        value = f"y[n, f, {subscripts}] = sum(x[n, {channel}, {reads}] * w[f, c, {over}], c, {over})"
    else:
        shapes = {"x": f"{n}, {inner}", "w": window, "y": f"{n}, {outer}"}
        value = f"y[n, {subscripts}] = sum(x[n, {reads}] * w[{over}], {over})"
    arrays = ", ".join(f"{name}: {{shape: [{shape}], dtype: {dtype}}}" for name, shape in shapes.items())
    return f"cugen: 1\nkernel: k\narrays: {{{arrays}}}\nindices: {{{indices}}}\ncompute: {value}\n"


def sectors(text: str) -> int:
    """Sectors of all global accesses of a spec's kernels; 0 for those of unknown cost."""
    (spec,) = load_text(text)
    accesses = [access for report in generate(spec).reports for access in report.accesses]
    return sum(a.totals.sectors for a in accesses if a.space == "global" and a.totals is not None)


def faulty(seeds: range) -> list[int]:
    """Seeds whose plan requests more than `direct`."""
    texts = {seed: drawn_stencil(seed) for seed in seeds}
    direct = "schedule: {family: direct}\n"
    return [seed for seed, text in texts.items() if sectors(text) > TOLERANCE * sectors(text + direct)]


@pytest.mark.slow
def test_some_strided_and_dilated_stencils_request_no_more_sectors_than_direct():
    assert faulty(range(12)) == []


def test_terms_that_many_threads_sum_are_not_stored():
    assert faulty(range(101, 102)) == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_strided_and_dilated_stencils_request_no_more_sectors_than_direct(batch):
    each = DRAWN // BATCHES
    assert faulty(range(each * batch, each * (batch + 1))) == []


def test_a_dilated_row_loads_only_the_columns_that_are_read():
    (spec,) = load_text(
        drawn_stencil(0).split("arrays:")[0]
        + """arrays:
  x: {shape: [8, 4505362], dtype: float64}
  w: {shape: [8], dtype: float64}
  y: {shape: [8, 1501778], dtype: float64}
indices: {r: 8}
compute: y[n, i] = sum(x[n, 3 * i + 4 * r] * w[r], r)
"""
    )
    assert "for (int column = 0; column < 29; column += 4)" in generate(spec).source
