"""What a notebook shows: the figures of the analysis, the source in colours, and no text of a spec as markup."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cugen
from cugen.result import Result

ROOT = Path(__file__).parents[2]
HOSTILE = """\
cugen: 1
kernel: copy
doc: "</style><script>{{ 7 * 7 }}</script>"
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i]
"""
FILES = ("transpose_shared.yaml", "gemm_f32.yaml", "attention_causal.yaml", "gather.yaml", "rms_norm_dynamic.yaml")


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[unescape(re.sub(r"<[^>]*>", "", c)) for c in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def is_balanced(html: str) -> bool:
    void, open_ = {"br", "rect"}, []
    for end, tag in re.findall(r"<(/?)([a-z]+)", html):
        if tag in void:
            continue
        if not end:
            open_.append(tag)
        elif not open_ or open_.pop() != tag:
            return False
    return not open_


@pytest.mark.sampled(5)
@pytest.mark.parametrize("file", FILES)
def test_a_report_has_each_access_with_its_figures(file: str) -> None:
    report = cugen.analyze(cugen.generate(cugen.load(ROOT / "specs" / file)))
    html = report._repr_html_()
    rows = [row for row in cells(html) if len(row) == 8 and row[0] != "access"]
    accesses = [access for launch in report.kernels for access in launch.accesses]
    assert [row[0] for row in rows] == [access.text for access in accesses]
    for row, access in zip(rows, accesses, strict=True):
        assert row[7].split()[-1] == access.verdict
        if access.totals is not None:
            assert (row[3], row[4], row[6]) == (
                f"{access.cost:,}",
                f"{access.ideal:,}",
                f"{access.ratio:.2f}",
            )
    for launch in report.kernels:
        assert f"{launch.facts.occupancy.occupancy.fraction:.1%}" in html
    assert is_balanced(html)
    assert len(html) < 40_000


@pytest.mark.sampled(6)
@pytest.mark.parametrize("file", FILES)
def test_a_kernel_has_its_source_with_the_verdicts_of_lines(file: str) -> None:
    kernel = cugen.generate(cugen.load(ROOT / "specs" / file))
    html = kernel._repr_html_()
    source = re.search(r"<pre>(.*)</pre>", html, re.DOTALL)
    assert source is not None
    lines = [unescape(line)[7:] for line in re.sub(r"<[^>]*>", "", source[1]).splitlines()]
    assert lines == kernel.source.splitlines()
    marked = {int(n) for n in re.findall(r'<span class="line [a-z]+".*?<span class="at">\s*(\d+)', source[1])}
    analysed = [access for report in kernel.reports for access in report.accesses]
    assert marked == {kernel.line_of_access()[report.access.serial] for report in analysed}
    assert is_balanced(html)


def test_a_kernel_without_an_analysis_has_no_verdicts() -> None:
    kernel = cugen.generate(cugen.load(HOSTILE), analysis=False)
    assert "Accesses" not in kernel._repr_html_()


def test_text_of_a_spec_is_never_markup() -> None:
    kernel = cugen.generate(cugen.load(HOSTILE))
    assert "&lt;/style&gt;&lt;script&gt;{{ 7 * 7 }}" in kernel._repr_html_()
    for html in (kernel._repr_html_(), cugen.analyze(kernel)._repr_html_()):
        assert "<script" not in html
        assert html.count("</style>") == 1


def test_a_result_is_a_dict_that_shows_shapes_and_ranges() -> None:
    result = Result(
        y=np.array([[1.5, -2], [np.inf, 4]], np.float32),
        h=np.arange(8).astype(ml_dtypes.bfloat16),
        flag=np.array(True),
        none=np.zeros((0, 3), np.int32),
    )
    assert repr(result) == "<Result y: float32 (2, 2), h: bfloat16 (8,), flag: bool (), none: int32 (0, 3)>"
    assert [row[:5] for row in cells(result._repr_html_())[1:]] == [
        ["y", "2 × 2", "float32", "-2", "4"],
        ["h", "8", "bfloat16", "0", "7"],
        ["flag", "scalar", "bool", "1", "1"],
        ["none", "0 × 3", "int32", "", ""],
    ]
    assert "1.5, -2, inf, 4; 1 not finite" in re.sub(r"<[^>]*>", "", result._repr_html_())
    assert is_balanced(result._repr_html_())
    assert dict(result) == {**result}


def test_integers_of_a_result_are_exact() -> None:
    page = Result({"n": np.array([-1234567, 2**62 + 1])})._repr_html_()
    assert ">-1234567</td>" in page
    assert f"{2**62 + 1}</td>" in page
    assert f"<code>-1234567, {2**62 + 1}</code>" in page
