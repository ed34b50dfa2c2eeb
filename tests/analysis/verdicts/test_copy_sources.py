"""Asynchronous copies as an sm_90 device counted them, from lanes that read anywhere, and as they were compiled."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.analysis import warp_request
from cugen.analysis.totals.sites import BLOCK, THREAD
from cugen.analysis.verdicts import copy_sources
from cugen.compiled.kernels import DIVERGED_AFTER_WAIT
from cugen.compiled.predictions import predictions
from cugen.emit.resources import data_folder
from cugen.machine.requests import async_copies
from cugen.plan.symbols import FloorDiv, Minimum, Mod
from cugen.toolchain.cuda import compile_cubin, compile_ptx, compilers
from tests.benchmarks import benchmark

ROOT = Path(__file__).parents[3]
X = THREAD[0]


@dataclass(frozen=True)
class Row:
    width: int
    note: str
    sources: tuple[int | None, ...]
    lanes: tuple[int | None, ...]
    wavefronts: int
    sectors: int

    def excess(self) -> int:
        """Wavefronts beyond the predicted ones."""
        cost = warp_request("shared", "async_copy", self.width, self.lanes, "sm_90", sources=self.sources)
        return self.wavefronts - cost.wavefronts


def measured() -> list[Row]:
    def numbers(text: str) -> tuple[int | None, ...]:
        return tuple(None if part == "-" else int(part) for part in text.split())

    with (ROOT / "tests" / "data" / "sm90_copies.csv").open() as file:
        return [
            Row(
                int(row["width"]),
                row["note"],
                numbers(row["sources"]),
                numbers(row["lanes"]),
                int(row["wavefronts"]),
                int(row["sectors"]),
            )
            for row in csv.DictReader(file)
        ]


ROWS = measured()
REGULAR = [row for row in ROWS if not row.note.startswith("random")]


@pytest.mark.parametrize("width", [4, 8])
def test_copies_through_l1_cost_what_was_counted_wherever_regular_lanes_read_and_write(width):
    rows = [row for row in REGULAR if row.width == width]
    assert len(rows) > 80
    assert [(row.note, row.excess()) for row in rows if row.excess()] == []


def test_copies_of_16_bytes_whose_quarters_read_lines_cost_what_was_counted():
    def line(part: tuple[int | None, ...]) -> bool:
        return part[0] is not None and part == tuple(part[0] // 128 * 128 + 16 * lane for lane in range(8))

    rows = [row for row in ROWS if row.width == 16 and all(line(row.sources[q : q + 8]) for q in range(0, 32, 8))]
    assert len(rows) > 10
    assert [(row.note, row.excess()) for row in rows if row.excess()] == []


def test_scattered_copies_cost_up_to_five_wavefronts_more_and_say_so():
    rows = [row for row in ROWS if row.note.startswith("random") and row.width < 16]
    wrong = [row for row in rows if row.excess()]
    requests = [warp_request("shared", "async_copy", r.width, r.lanes, "sm_90", sources=r.sources) for r in wrong]
    assert wrong
    assert all(request.assumed for request in requests)
    assert {row.excess() for row in wrong} <= {-1, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("width", [4, 8])
def test_copies_through_l1_read_each_sector_once(width):
    rows = [row for row in ROWS if row.width == width]
    assert all(row.sectors == warp_request("global", "load", width, row.sources, "sm_90").sectors for row in rows)


def test_copies_of_16_bytes_fetch_a_line_s_part_once_for_each_sector_that_they_write():
    for row in ROWS:
        distinct = len(set(row.lanes)) == len(row.lanes)  # of lanes that copy to one place, one alone counts
        if row.width == 16 and (distinct or None in row.lanes):
            ends = zip(row.sources, row.lanes, strict=True)
            moves = {(a // 128, b // 32) for a, b in ends if a is not None and b is not None}
            assert row.sectors == len(moves), row.note


def test_copy_sources_are_described_only_if_all_warps_copy_in_the_same_way():
    k_major = FloorDiv(X, 8) * 64 + Mod(X, 8) + BLOCK[0] * 4
    sources = copy_sources.lane_sources(k_major, (64, 1, 1), 4)
    assert sources == tuple(lane // 8 * 256 + lane % 8 * 4 for lane in range(32))
    assert copy_sources.lane_sources(X * X, (64, 1, 1), 4) is None
    assert copy_sources.lane_sources(X * BLOCK[0], (64, 1, 1), 4) is None


def test_copies_start_lines_where_every_counter_steps_by_lines():
    assert copy_sources.starts_lines(4 * X + 256 * Minimum(BLOCK[0] + 8, BLOCK[1]), 4)
    assert not copy_sources.starts_lines(4 * X + 16 * BLOCK[0], 4)
    assert not copy_sources.starts_lines(4 * X + 16, 4)


def test_lanes_in_pairs_share_a_sector():
    assert async_copies.are_sector_pairs(tuple(16 * lane for lane in range(32)))
    assert not async_copies.are_sector_pairs(tuple(16 + 16 * lane for lane in range(32)))
    assert not async_copies.are_sector_pairs((None, *(16 * lane for lane in range(1, 32))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ladder_6_stages", "ladder_9_shared_out"])
def test_copies_of_a_product_are_predicted_whole(name):
    """A is copied from 4 rows of 1 KB that begin in one bank; of B each warp copies 512 bytes in a row."""
    if not any(c.name == "nvrtc" and c.version == "13.0" for c in compilers()):
        pytest.skip("the figures are those of code that NVRTC 13.0 compiled")
    counters = benchmark("machine.counters")
    (kernel,) = counters.kernels(data_folder("specs"), (name,))
    image = compile_cubin(kernel.source, kernel.name, "sm_90", prefer="nvrtc").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90", prefer="nvrtc")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    written = [a for a in launch.accesses if a.access.kind == "async_copy"]
    actual: Counter[str] = Counter()
    for access in written:
        assert access.executions
        actual["executions"] += access.executions
        actual["wavefronts"] += sum(totals.wavefronts for totals in access.compiled)
    assert actual["wavefronts"] == 4 * actual["executions"]
    predicted = predictions(launch)
    assert predicted["smsp__sass_inst_executed_op_ldgsts.sum"].value == actual["executions"]
    wavefronts = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
    assert predicted[wavefronts].value == actual["wavefronts"]
    stores = predicted["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"]
    assert (stores.value is None) == (name == "ladder_9_shared_out")
    assert DIVERGED_AFTER_WAIT in stores.reason or stores.value


@pytest.mark.slow
def test_zeros_are_written_by_instructions_of_their_own():
    if not any(c.name == "nvrtc" and c.version == "13.0" for c in compilers()):
        pytest.skip("the figures are those of code that NVRTC 13.0 compiled")
    counters = benchmark("machine.counters")
    (kernel,) = counters.kernels(data_folder("specs"), ("gemm_int8",))
    image = compile_cubin(kernel.source, kernel.name, "sm_90", prefer="nvrtc").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90", prefer="nvrtc")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    (read,) = (a for a in launch.accesses if a.access.array.symbol == "B")
    (written,) = (a for a in launch.accesses if a.access.kind == "async_copy")
    assert all(i.operands[-1] != "!PT" for i in read.instructions)
    assert {i.operands[-1] for i in written.instructions} > {"!PT"}
    (stored, zeros) = (a for a in launch.accesses if a.access.array.symbol == "As" and a.access.kind == "store")
    assert not zeros.instructions
    assert any(change.startswith("merged") for change in stored.changes)
    assert sum(totals.lanes for totals in stored.compiled) == stored.written.lanes + zeros.written.lanes
