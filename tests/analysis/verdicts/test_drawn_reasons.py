"""Reasons evaluated: the figure of an access is derived again from the numbers that its reason prints."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.kernel import generate
from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.spec.load import load_text

TARGETS = ("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_30", "sm_35", "sm_52", "sm_61", "sm_75", "sm_90", "sm_120")
DTYPES = {"int8": 1, "int16": 2, "float32": 4, "int64": 8}
COUNT = r"(\d[\d,]*)"


def drawn(number: int) -> Iterator[tuple[AccessReport, int, Target]]:
    """The global accesses of a drawn strided copy, with their bytes per lane."""
    rng = random.Random(number)
    target = known_target(TARGETS[number % len(TARGETS)])
    dtype, size = rng.choice(list(DTYPES.items()))
    stride = rng.choice([0, 1, 1, 1, 2, 3, 4, 8, 16, 33])
    offset = rng.choice([0, 0, 1, 3, 8, 16, 24, rng.randrange(64)])
    # Several rows in a warp, which begin at other alignments; rows of whole warps without guards.
    width = rng.choice([8, 16, 32, 64])
    pitch = stride * 64 + rng.choice([0, 1, 8, 32, 40])
    text = f"""
cugen: 1
kernel: copied
arrays:
  x: {{shape: [{8 * pitch + 64 * stride + offset + 64}], dtype: {dtype}}}
  y: {{shape: [8, 64], dtype: {dtype}}}
compute: y[r, c] = x[{pitch} * r + {stride} * c + {offset}]
schedule: {{family: direct, block: {{r: {max(32 // width, 1) * rng.choice([1, 2])}, c: {width}}}}}
"""
    (spec,) = load_text(text, target=target.name)
    for report in analyze_kernel(generate(spec, analysis=False).plan.kernels[0], target, {}).accesses:
        yield report, size, target


def sectors_of(lanes: list[int], width: int, target: Target, kind: str) -> int:
    """Sectors of a warp's addresses by the rules of the programming guide, counted without the analysis."""
    bypasses_l1 = kind == "store" or target.capability >= (3, 0)
    if target.global_rule == "sectors" or (target.global_rule == "lines" and bypasses_l1):
        per = 32 if not target.global_split else 128 // max(4, width)
        groups = [lanes] if target.global_rule == "sectors" else [lanes[n : n + per] for n in range(0, 32, per)]
        return sum(len({a // 32 for a in group}) for group in groups)
    if target.global_rule == "lines":
        per = 128 // max(4, width)
        return sum(4 * len({a // 128 for a in lanes[n : n + per]}) for n in range(0, 32, per))
    total = 0
    for half in (lanes[:16], lanes[16:]):
        if target.global_rule == "in_order":
            in_order = all(a == half[0] + width * n for n, a in enumerate(half))
            is_coalesced = width >= 4 and in_order and half[0] % min(16 * width, 128) == 0
            total += 16 * width // 32 if is_coalesced else 16
            continue
        segment = {1: 32, 2: 64}.get(width, 128)
        for start in {a // segment * segment for a in half}:
            inside = [a for a in half if a // segment * segment == start]
            total += smallest(start, segment, min(inside), max(inside) + width) // 32
    return total


def smallest(start: int, size: int, first: int, stop: int) -> int:
    """The smallest aligned segment of 32 bytes or more that holds the bytes."""
    while size > 32 and (stop <= start + size // 2 or first >= start + size // 2):
        size //= 2
        start += size if first >= start + size else 0
    return size


def addresses(report: AccessReport) -> list[int]:
    """The addresses of the first warp's lanes, up to a constant, by the reason's formula and its lane ranges."""
    formula = re.search(r"address = ([^;]*);", report.reason)
    ranges = re.findall(r"([\w.]+) = (\d+)\.\.(\d+)", report.reason.split(";")[1])
    assert formula, report.reason
    lanes = list[int]()
    text = formula[1].replace(".", "_")
    outer = ranges[1] if len(ranges) > 1 else ("", "0", "0")
    for slow in range(int(outer[1]), int(outer[2]) + 1):
        for fast in range(int(ranges[0][1]), int(ranges[0][2]) + 1):
            names = {ranges[0][0].replace(".", "_"): fast, outer[0].replace(".", "_"): slow}
            free = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text), 0)
            lanes.append(int(eval(text, {"__builtins__": {}}, free | names)))
    return lanes


def check(number: int) -> None:
    for report, width, target in drawn(number):
        each = report.per_request
        assert each is not None
        stated = re.findall(rf"moves {COUNT} sectors?(?: in ([\dx +]+) bytes)?, ideal {COUNT}", report.reason)
        assert stated, report.reason
        sectors, transactions, ideal = stated[-1]
        assert (int(sectors), int(ideal)) == (each.worst, each.worst_ideal), report.reason
        if transactions:
            terms = [term.split(" x ") for term in transactions.split(" + ")]
            assert sum(int(count) * int(size) for count, size in terms) == 32 * each.worst
            assert f" in {transactions} bytes" in report.claim
        start = re.search(r"worst warp begins at byte (\d+) of (\d+)", report.reason)
        assert (start is not None) == (each.worst > each.worst_ideal)
        lanes = addresses(report)
        assert len(lanes) == 32
        if start:
            lanes = [address - min(lanes) + int(start[1]) for address in lanes]
            assert sectors_of(lanes, width, target, report.access.kind) == each.worst, report.reason
        if contiguous := re.search(r"(\d+) contiguous bytes|misaligned by (\d+) bytes", report.claim):
            assert max(lanes) - min(lanes) + width == width * len(set(lanes))
            is_costly = contiguous[2] is not None or "not coalesced" in report.claim
            assert is_costly == (each.worst > each.worst_ideal), report.claim
        if "bytes apart" in report.claim:
            assert f"{sorted(set(lanes))[1] - min(lanes)} bytes apart" in report.claim


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_the_figures_of_drawn_accesses_follow_from_their_reasons(start: int) -> None:
    for number in range(start, start + 50):
        check(number)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("start", range(300, 10000, 970))
def test_the_figures_of_ten_thousand_drawn_accesses_follow_from_their_reasons(start: int) -> None:
    for number in range(start, start + 970):
        check(number)


def drawn_constants(number: int) -> tuple[AccessReport, set[int], int, Target]:
    """A read of a drawn constant table: its report, the addresses of the launch, the table's bytes, the target."""
    rng = random.Random(number)
    target = known_target(TARGETS[number % len(TARGETS)])
    dtype, size = rng.choice(list(DTYPES.items()))
    count = rng.choice([16, 500, 512, 1000, 1024, 2000, 2048, 4096, 65536 // size])
    divisor, stride = rng.choice([1, 32, 64, 4096]), rng.choice([1, 1, 2, 3])
    offset = rng.randrange(count)
    text = f"""
cugen: 1
kernel: weighted
arrays:
  t: {{shape: [{count}], dtype: {dtype}, memory: constant}}
  y: {{shape: [4096], dtype: {dtype}}}
compute: y[i] = t[(i // {divisor} * {stride} + {offset}) % {count}]
schedule: {{family: direct, block: {{i: 128}}}}
"""
    (spec,) = load_text(text, target=target.name)
    accesses = analyze_kernel(generate(spec, analysis=False).plan.kernels[0], target, {}).accesses
    addresses = {size * ((i // divisor * stride + offset) % count) for i in range(4096)}
    return next(report for report in accesses if report.space == "constant"), addresses, size * count, target


@pytest.mark.sampled(5)
@pytest.mark.parametrize("number", range(60))
def test_constants_that_exceed_the_cache_are_named_by_the_reasons_of_their_reads(number: int) -> None:
    report, addresses, table, target = drawn_constants(number)
    stated = re.search(rf"reads up to {COUNT} bytes of constants", report.reason)
    read = int(stated[1].replace(",", "")) if stated else 0
    levels = [
        int(level.replace(",", "")) for level in re.findall(rf"(?:more than the|SM caches) {COUNT}", report.reason)
    ]
    caches = [target.constant_first_level_bytes, target.constant_cache_bytes]
    if stated:
        assert len(addresses) <= read <= table
        assert levels == [level for level in caches if read <= caches[1] or level == caches[1]]
        assert read > levels[0]
        assert (report.verdict == "assumed") >= (read > caches[1])
        assert ("; exceeds the cache" in report.claim) == (read > caches[1])
    else:
        assert max(addresses) - min(addresses) < caches[0]
