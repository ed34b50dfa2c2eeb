"""The bytes of a wave of blocks in each partition are those that a walk over its half-warps counts."""

from __future__ import annotations

from math import gcd

import pytest

from cugen.analysis.totals.partitions import PartitionSpread
from cugen.kernel_report import LaunchReport, analyze
from cugen.spec.load import load_text

ROWS = """\
cugen: 1
kernel: rows
target: TARGET
params: {M: SIZE}
arrays:
  x: {shape: [M, 32], dtype: float32, pitch: PITCH}
  y: {shape: [M, 32], dtype: float32}
compute: y[i, j] = 2 * x[i, j]
schedule: {family: direct, block: {i: 8, j: 32}}
"""
DEEP = """\
cugen: 1
kernel: turn
target: TARGET
params: {N: SIZE}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, pad: 1}PITCH}
  B: {shape: [N, N], dtype: float32}
compute: B[n, m] = A[m, n]
"""
PARTITIONS = {"sm_10": 6, "sm_13": 8}


def launch(text: str, target: str, size: int | str, pitch: int | str) -> LaunchReport:
    (spec,) = load_text(text.replace("TARGET", target).replace("SIZE", str(size)).replace("PITCH", str(pitch)))
    (report,) = analyze(spec).kernels
    return report


def spread(report: LaunchReport, array: str) -> PartitionSpread:
    (only,) = (each for each in report.facts.partitions if each.access.array.name == array)
    return only


def walk(rows: int, pitch: int, partitions: int) -> tuple[int, ...]:
    """Bytes in each partition of `rows` rows of 32 floats, half-warp by half-warp."""
    counts = [0] * partitions
    for row in range(rows):
        for half in range(2):
            first = 4 * (row * pitch + 16 * half)
            counts[first // 256 % partitions] += 64
    return tuple(counts)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [40, 3000])  # less than a wave, and more, with a last block that is cut
@pytest.mark.parametrize("pitch", [32, 64, 96, 384, 512, 528, 2048])
@pytest.mark.parametrize("target", PARTITIONS)
def test_a_walk_over_half_warps_counts_the_same(target: str, pitch: int, size: int) -> None:
    report = launch(ROWS, target, size, pitch)
    assert report.facts.waves is not None
    rows = min(8 * report.facts.waves.at_once, size)
    assert spread(report, "x").moved == walk(rows, pitch, PARTITIONS[target])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 6, 8, 12])
@pytest.mark.parametrize("target", PARTITIONS)
def test_rows_so_many_partitions_apart_use_all_but_their_common_divisor(target: str, chunks: int) -> None:
    moved = spread(launch(ROWS, target, 3000, 64 * chunks), "x").moved
    partitions = PARTITIONS[target]
    assert sum(count > 0 for count in moved) == partitions // gcd(chunks, partitions)


@pytest.mark.parametrize("target", PARTITIONS)
def test_the_pitch_is_the_smallest_of_those_that_spread_best(target: str) -> None:
    camping = spread(launch(ROWS, target, 3000, 1536), "x")
    assert camping.crowding == PARTITIONS[target]
    partitions = PARTITIONS[target]
    rows = sum(camping.moved) // 128
    tried = range(1536 + 16, 1536 + 64 * partitions + 1, 16)
    assert camping.pitch == min(tried, key=lambda pitch: (max(walk(rows, pitch, partitions)), pitch))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("target", "pitch"), [("sm_10", 2080), ("sm_13", 2112)])
def test_a_transpose_of_2048_rows_camps_until_its_rows_have_that_pitch(target: str, pitch: int) -> None:
    before = spread(launch(DEEP, target, 2048, ""), "A")
    assert before.pitch == pitch
    assert dict(before.steps)["blockIdx.x"] == 32 * 2048 * 4
    after = spread(launch(DEEP, target, 2048, f", pitch: {pitch}"), "A")
    assert (after.pitch, after.crowding < before.crowding) == (0, True)


def test_rows_that_spread_by_themselves_get_no_pitch() -> None:
    report = launch(DEEP, "sm_13", 2112, "")
    assert [each.pitch for each in report.facts.partitions] == [0, 0]


def test_a_read_of_one_element_by_all_blocks_crowds_one_partition_and_no_pitch_helps() -> None:
    text = ROWS.replace("2 * x[i, j]", "2 * x[0, 0]").replace(
        "shape: [M, 32], dtype: float32, pitch: PITCH", "shape: [1, 1], dtype: float32"
    )
    camping = spread(launch(text, "sm_13", 3000, 32), "x")
    assert (camping.crowding, camping.pitch) == (8, 0)


def test_an_array_that_is_not_in_all_partitions_gets_no_pitch() -> None:
    assert {each.pitch for each in launch(DEEP, "sm_13", 16, "").facts.partitions} == {0}


def test_rows_of_vectors_that_begin_anywhere_are_counted() -> None:
    text = ROWS.replace("shape: [M, 32], dtype: float32, pitch: PITCH", "shape: [M, 513], dtype: float32")
    whole = text.replace("[M, 32]", "[M, 513]").replace("schedule: {family: direct, block: {i: 8, j: 32}}\n", "")
    report = launch(whole, "sm_13", 512, "")
    assert any(each.access.width > 1 for each in report.facts.partitions)
    assert all(each.crowding < 2 and each.pitch == 0 for each in report.facts.partitions)


@pytest.mark.slow
def test_addresses_that_depend_on_data_and_sizes_without_a_value_have_no_figure() -> None:
    gather = """\
cugen: 1
kernel: pick
target: sm_13
arrays:
  ids: {shape: [4096], dtype: int32}
  x: {shape: [4096], dtype: float32}
  y: {shape: [4096], dtype: float32}
compute: y[i] = x[ids[i]]
"""
    assert {each.access.array.name for each in launch(gather, "sm_13", "", "").facts.partitions} == {"ids", "y"}
    assert launch(DEEP, "sm_13", "dynamic", "").facts.partitions == ()


def test_there_are_none_from_2_0_on() -> None:
    assert launch(DEEP, "sm_20", 2048, "").facts.partitions == ()


def test_the_report_says_what_is_published_and_what_is_not() -> None:
    old = [text for topic, text in launch(DEEP, "sm_13", 2048, "").sentences if topic == "dram"]
    assert old[0] == "C1060 has GDDR3: 512 bits × 800 MHz × 2 are 102.4 GB/s (Tesla C1060 board specification)"
    assert old[1].startswith("a burst is 32 bytes, a sector: 4 transfers of a channel of 64 bits")
    assert old[2].startswith("8 partitions, each with every 8th 256 bytes (Ruetsch")
    assert "1 of 8 partitions, 100.0% of the bytes to the busiest; rows of 2,112 elements spread them" in old[3]
    new = [text for topic, text in launch(DEEP, "sm_90", 2048, "").sentences if topic == "dram"]
    assert new[0] == "H200 has HBM3e of 4,800.0 GB/s; its width and clock have no source here"
    assert new[-1] == "how addresses are hashed over channels and banks is not documented from 2.0 on: no figure"
    assert not [topic for topic, _ in launch(DEEP, "sm_50", 2048, "").sentences if topic == "dram"]
