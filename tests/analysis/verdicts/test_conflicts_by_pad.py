"""Conflicts by pad equal those of a kernel generated with that pad, and the law says the same."""

from __future__ import annotations

import re
from math import gcd

import pytest

from cugen.analysis.verdicts.conflicts_by_pad import conflicts_by_pad, padded_accesses
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.spec.load import load_text

SIZES = {"M": 40, "N": 52}


def transposed(pad: int, dtype: str = "float32"):
    return launch(f"""
cugen: 1
kernel: turned
params: {{M: 40, N: 52}}
arrays:
  A: {{shape: [M, N], dtype: {dtype}, memory: {{space: shared, pad: {pad}}}}}
  B: {{shape: [N, M], dtype: {dtype}}}
compute: B[n, m] = A[m, n]
""")


def product(pad: int, schedule: str = "block: {i: 16, j: 16}"):
    return launch(f"""
cugen: 1
kernel: product
params: {{M: 40, N: 52}}
arrays:
  A: {{shape: [M, N], dtype: float32, memory: shared}}
  B: {{shape: [M, N], dtype: float32, memory: {{space: shared, pad: {pad}}}}}
  C: {{shape: [M, M], dtype: float32}}
compute: C[i, j] = sum(A[i, k] * B[j, k], k)
schedule: {{{schedule}}}
""")


def launch(text: str):
    (spec,) = load_text(text)
    return generate(spec).plan.kernels[0]


def analysed(kernel, array: str, target: str, bank_bytes: int | None = None) -> tuple[int, int]:
    """Cost and ideal of all accesses to the array's tile."""
    actual = analyze_kernel(kernel, target, SIZES, bank_bytes=bank_bytes).accesses
    mine = [r for r in actual if r.space == "shared" and r.access.array.name == array]
    return sum(r.cost for r in mine), sum(r.ideal for r in mine)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_13", "sm_20", "sm_35", "sm_90"])
@pytest.mark.parametrize("make", [transposed, product])
def test_each_pad_costs_what_the_kernel_generated_with_it_costs(make, target):
    array = "A" if make is transposed else "B"
    table = conflicts_by_pad(make(0), array, target, SIZES)
    assert [pad for pad, _, _ in table] == list(range(33))
    for pad in (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31):
        assert table[pad][1:] == analysed(make(pad), array, target), pad


@pytest.mark.slow
def test_the_bank_mode_of_kepler_enters():
    for mode in (4, 8):
        table = conflicts_by_pad(transposed(0), "A", "sm_35", SIZES, bank_bytes=mode)
        assert table[3][1:] == analysed(transposed(3), "A", "sm_35", mode)


def test_the_column_of_a_square_tile_follows_the_greatest_common_divisor():
    column = next(a for a in padded_accesses(transposed(0), "tile", "sm_90", SIZES) if a.text == "tile[tx][ty + r]")
    assert column.formula == "gcd(32 + pad, 32)"
    assert [worst for _, _, _, worst in column.costs] == [gcd(32 + pad, 32) for pad in range(33)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("target", ["sm_13", "sm_20", "sm_35", "sm_90"])
@pytest.mark.parametrize("make", [transposed, product])
def test_a_law_gives_back_the_wavefronts_of_every_pad(make, target):
    for access in padded_accesses(make(0), "A" if make is transposed else "B", target, SIZES):
        for pad, _, _, worst in access.costs:
            assert said(access.formula, pad) == worst, (access.formula, pad)


def said(formula: str, pad: int) -> int:
    """What a law says of a pad."""
    divisor = re.fullmatch(r"gcd\((\d+) \+ pad, (\d+)\)", formula)
    if divisor:
        return gcd(int(divisor[1]) + pad, int(divisor[2]))
    for value, where in re.findall(r"(\d+) at (.*?)(?=, \d+ at |, else |$)", formula):
        if holds(where, pad):
            return int(value)
    otherwise = re.search(r"else (\d+)$", formula)
    assert otherwise, formula
    return int(otherwise[1])


def holds(where: str, pad: int) -> bool:
    if where in ("every pad", "odd pads", "even pads"):
        return where == "every pad" or (where == "odd pads") == bool(pad % 2)
    modulus = re.match(r"pad mod (\d+) = ", where)
    number = pad % int(modulus[1]) if modulus else pad
    runs = where.split(" = ")[1] if modulus else where.removeprefix("pad ")
    spans = [[int(end) for end in run.split("..")] for run in re.split(r", | or ", runs)]
    return any(span[0] <= number <= span[-1] for span in spans)


def test_a_tile_is_known_by_its_name_in_c_too_and_any_other_name_is_refused():
    assert conflicts_by_pad(transposed(0), "tile", "sm_90", SIZES) == conflicts_by_pad(
        transposed(0), "A", "sm_90", SIZES
    )
    with pytest.raises(ValueError, match="turned has no shared tile 'B'"):
        conflicts_by_pad(transposed(0), "B", "sm_90", SIZES)
