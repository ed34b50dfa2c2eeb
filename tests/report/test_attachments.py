"""What a page has beside the analysis: a baseline, counters of a GPU, and machine code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cugen.analysis.launches.comparison import ADDED, BETTER, REMOVED, SAME, UNKNOWN, WORSE, compare
from cugen.kernel import generate
from cugen.report.attachments import counters
from cugen.report.attachments.machine_code import sass_of
from cugen.report.html import page_html
from cugen.spec.load import load
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
CAPTURE = ROOT / "docs" / "results" / "counters_h200.json"


def padded(pad: int) -> str:
    return re.sub(r"pad: \d+", f"pad: {pad}", (SPECS / "transpose_padded.yaml").read_text())


@pytest.mark.slow
def test_the_access_whose_conflicts_go_is_better_and_the_others_are_the_same(page_of):
    before, after = page_of(padded(0)), page_of(padded(1))
    comparison = compare(before.compared, after.compared)
    (launch,) = comparison.launches
    changes = {(pair.array, pair.space, pair.role): pair.change for pair in launch.pairs}
    assert changes == {
        ("A", "global", "read"): SAME,
        ("A", "shared", "write"): SAME,
        ("A", "shared", "read"): BETTER,
        ("B", "global", "write"): SAME,
    }
    (load,) = (pair for pair in launch.pairs if pair.change == BETTER)
    costs = [
        next(entry.report for entry in page.entries if entry.report.text == load.before.accesses[0].text).cost
        for page in (before, after)
    ]
    assert [load.before.cost, load.after.cost] == costs
    assert [pair.change for pair in compare(after.compared, before.compared).launches[0].pairs].count(WORSE) == 1


def test_figures_are_sums_of_the_analysis(page_of):
    before, after = page_of(padded(0)), page_of(padded(1))
    figures = {figure.name: figure for figure in compare(before.compared, after.compared).figures}
    wavefronts = figures["wavefronts of shared memory"]
    for page, text in ((before, wavefronts.before), (after, wavefronts.after)):
        assert text == f"{sum(e.report.cost for e in page.entries if e.report.space == 'shared'):,}"
    assert wavefronts.change == BETTER
    assert figures["sectors of global and local memory"].change == SAME


@pytest.mark.slow
def test_accesses_of_another_family_are_added_removed_or_summed(page_of):
    naive, tiled = (page_of((SPECS / name).read_text()) for name in ("matmul_naive.yaml", "gemm_f32.yaml"))
    comparison = compare(naive.compared, tiled.compared)
    changes = {pair.change for launch in comparison.launches for pair in launch.pairs}
    assert ADDED in changes
    assert REMOVED in {
        pair.change for launch in compare(tiled.compared, naive.compared).launches for pair in launch.pairs
    }
    (reads,) = (
        pair for pair in comparison.launches[0].pairs if (pair.array, pair.space, pair.role) == ("A", "global", "read")
    )
    assert (len(reads.before.accesses), len(reads.after.accesses)) == (1, 2)
    assert reads.after.cost == sum(access.cost for access in reads.after.accesses)
    assert sum(map(comparison.count, (BETTER, WORSE, SAME, ADDED, REMOVED, UNKNOWN))) == len(
        comparison.launches[0].pairs
    )
    assert "Compared with matmul_naive" in page_html(tiled, comparison=comparison)


def test_counters_are_those_of_the_file(gallery_pages):
    content = counters.read(CAPTURE.read_text())
    (page,) = gallery_pages("gemm_f32.yaml")
    known = counters.counters_of(page, content)
    (row,) = (row for row in content["kernels"] if row["kernel"] == "gemm_f32")
    (launch,) = known.launches
    assert not launch.other_plan
    assert {m.name: m.counted for m in launch.metrics} == {n: m["measured"] for n, m in row["counters"].items()}
    lines = {entry.number: entry.line for entry in page.entries}
    now, then = sorted(lines[number] for number in known.accesses), sorted(a["line"] for a in row["accesses"])
    assert [line - now[0] for line in now] == [line - then[0] for line in then]  # the head may have grown since
    text = page_html(page, counters=known)
    assert "counted on NVIDIA H200" in text
    assert all(f"{m.counted:,}" in text for m in launch.metrics)


@pytest.mark.slow
def test_counters_of_other_sizes_are_not_those_of_the_accesses(page_of):
    content = counters.read(CAPTURE.read_text())
    larger = page_of((SPECS / "transpose_shared.yaml").read_text().replace("M: 256", "M: 512"))
    (launch,) = counters.counters_of(larger, content).launches
    assert launch.other_plan
    assert counters.counters_of(larger, content).accesses == {}
    assert counters.counters_of(page_of(padded(1).replace("transpose_padded", "other")), content) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kernels": []}', '{"kernels": [1]}', '{"kernels": 3}'])
def test_another_file_holds_no_counters(text):
    with pytest.raises(counters.UnreadableCounters):
        counters.read(text)


def test_a_damaged_file_of_counters_is_refused(gallery_pages):
    (page,) = gallery_pages("gemm_f32.yaml")
    content = json.loads(CAPTURE.read_text())
    for row in content["kernels"]:
        del row["counters"]
    with pytest.raises(counters.UnreadableCounters, match="counters"):
        counters.counters_of(page, content)


@pytest.mark.slow
def test_each_line_has_its_machine_code(page_of):
    kernel = generate(load(SPECS / "transpose_padded.yaml"))
    text = disassemble(compile_cubin(kernel.source, kernel.name, "sm_90").image)
    page = page_of(padded(1))
    sass = sass_of(page, text)
    opcodes = {"load": {"global": "LDG", "shared": "LDS"}, "store": {"global": "STG", "shared": "STS"}}
    for entry in page.entries:
        wanted = opcodes[entry.report.access.kind][entry.report.space]
        assert any(f" {wanted}" in instruction for instruction in sass[entry.line])
    assert f"SASS of line {page.entries[0].line}" in page_html(page, sass=sass)
    assert sass_of(page, "nothing") == {}
