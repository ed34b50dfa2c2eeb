"""Stencils of narrow elements in rows of odd length: vectors from the first aligned element of a row on."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.plan.alignment import unaligned
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

JACOBI = "y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) / 4"

SUM = JACOBI.replace(" / 4", "")


def stencil(height: int | str, width: int | str, dtype: str = "bfloat16", compute: str = JACOBI, more: str = "") -> str:
    return f"""cugen: 1
kernel: k
target: sm_90
params: {{H: {height}, W: {width}}}
arrays:
  x: {{shape: [H, W], dtype: {dtype}, boundary: zero}}{more}
  y: {{shape: [H, W], dtype: {dtype}}}
compute: |
  {compute}
"""


def widths(text: str) -> set[int]:
    (kernel,) = generate(load_text(text)[0], analysis=False).plan.kernels
    return {access.width for access in accesses(kernel.body) if access.array.space != "register"}


@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 8), ("float16", 8), ("uint8", 16)])
@pytest.mark.parametrize("length", [2051, 4097, 21_573])
def test_rows_of_odd_length_are_moved_in_vectors(length, dtype, width):
    assert widths(stencil(500, length, dtype, SUM)) == {1, width}


def test_a_schedule_that_names_the_family_changes_nothing():
    assert widths(stencil(500, 2051) + "schedule: {family: stencil}\n") == {1, 8}


@pytest.mark.parametrize("length", [1357, 2053, 4097])
def test_every_access_is_proved_inside_and_aligned(length):
    kernel = generate(load_text(stencil(500, length))[0])
    assert not [access for k in kernel.plan.kernels for access in unaligned(k.body, kernel.plan.context)]
    (proved, total) = re.search(r"// bounds +(\d+) of (\d+) accesses proved", kernel.source).groups()
    assert proved == total


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(stencil(500, 2048), id="aligned rows"),
        pytest.param(stencil(500, 255), id="short rows"),
        pytest.param(stencil(500, 2051, "float32"), id="elements of a word"),
        pytest.param(stencil(500, "dynamic"), id="rows of any length"),
        pytest.param(stencil(500, 2051).replace("boundary: zero", "boundary: clamp"), id="a row for those outside"),
        pytest.param(stencil(500, 2051) + "schedule: {family: stencil, rows: 4}\n", id="a schedule"),
    ],
)
def test_others_have_register_windows(text):
    assert "funnel_shift" not in generate(load_text(text)[0], analysis=False).source


BOX = "y[i, j] = " + " + ".join(f"x[i + {a}, j + {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1)).replace("+ -", "- ")
TWO = "y[i, j] = x[i - 1, j] + 2 * x[i + 1, j] - z[i, j - 1] * z[i, j] + j"
FAR = "y[i, j] = x[i - 2, j - 3] + x[i, j] + x[i + 1, j + 9]"
TESTED = "y[i, j] = x[i, j] + (z[i - 1, j] if i > 0 else 1) + (z[i, j + 1] if j + 1 < W else 2)"
INPUT = "\n  z: {shape: [H, W], dtype: DTYPE}"
OUTSIDE = "\n  z: {shape: [H, W], dtype: DTYPE, boundary: zero}"


@pytest.mark.sampled(31)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
@pytest.mark.parametrize("height", [1, 2, 9, 17])
@pytest.mark.parametrize(
    ("compute", "more"),
    [
        pytest.param(SUM, "", id="jacobi"),
        pytest.param(BOX, "", id="box"),
        pytest.param(TWO, OUTSIDE, id="two inputs"),
        pytest.param(FAR, "", id="far columns"),
        pytest.param(TESTED, INPUT, id="conditions in place of a boundary"),
    ],
)
def test_results_are_right(compute, more, height, dtype):
    length = 2049 + 2 * height
    (spec,) = load_text(stencil(height, length, dtype, compute, more.replace("DTYPE", dtype)))
    kernel = generate(spec, analysis=False)
    assert "funnel_shift" in kernel.source
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, "\n".join(run.verification.messages)


def test_statements_over_the_same_points_share_vectors():
    compute = JACOBI + "\n  u[i, j] = x[i, j] - y[i, j]"
    text = stencil(40, 2051, "float16", compute, "\n  u: {shape: [H, W], dtype: float16}")
    kernel = generate(load_text(text)[0], analysis=False)
    assert "store<8>(&u[" in kernel.source
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, "\n".join(run.verification.messages)
