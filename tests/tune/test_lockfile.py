"""The lock file as it is written: its exact text, and that it merges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.schedule.lock import Entry, Lock, Time, read, read_text_of
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Schedule
from cugen.tune.lockfile import block, text, update
from tests.drawn import examples

TOTAL = Entry(
    "total",
    "8f0c1d9e63b1a7f2",
    "sm_90",
    "NVIDIA H200",
    (("y", Schedule("reduce", tunables=(("threads", 256), ("unroll", 8)))),),
    Time(12.1234567, 9.84),
    Time(12.9, 10.3),
    "0.1.0",
    True,
    ((("y", Schedule("reduce", tunables=(("threads", 512),))),), Time(12.2, 9.9)),
    (("N", 4096),),
)
PRODUCT = Entry(
    "product",
    "0123456789012345",
    "sm_80",
    "NVIDIA A100-SXM4-80GB",
    (
        ("C", Schedule("gemm", (("m", 128), ("n", 64)), (("m", 8), ("n", 8)), (("k", 16),), (("how", "a b"),))),
        ("D", Schedule("map", tunables=(("shifted", True),))),
    ),
    Time(123456.7, 0.5),
    Time(123456.7, 0.5),
    "1.0rc1",
)
GOLDEN = """\
# Schedules that `cugen tune` found: a block for each kernel and device, by name. `cugen generate` takes them from here.
cugen_lock: 1
kernels:

- kernel: product
  spec: "0123456789012345"
  target: sm_80
  device: NVIDIA A100-SXM4-80GB
  schedule:
    C: {family: gemm, block: {m: 128, n: 64}, thread: {m: 8, n: 8}, step: {k: 16}, how: a b}
    D: {family: map, shifted: true}
  sums: as untuned
  time_us: {cold: 123500, warm: 0.5}
  untuned_us: {cold: 123500, warm: 0.5}
  cugen: "1.0rc1"

- kernel: total
  spec: "8f0c1d9e63b1a7f2"
  target: sm_90
  device: NVIDIA H200
  at: {N: 4096}
  schedule:
    y: {family: reduce, threads: 256, unroll: 8}
  sums: in another order
  time_us: {cold: 12.12, warm: 9.84}
  untuned_us: {cold: 12.9, warm: 10.3}
  runner_up:
    schedule:
      y: {family: reduce, threads: 512}
    time_us: {cold: 12.2, warm: 9.9}
  cugen: "0.1.0"
"""


def test_the_text_is_this() -> None:
    assert text(Lock("cugen.lock", (TOTAL, PRODUCT))) == GOLDEN


def test_reading_gives_back_what_was_written() -> None:
    entries = read_text_of(GOLDEN).entries
    assert entries[1] == replace(TOTAL, time=Time(12.12, 9.84))
    assert text(Lock("cugen.lock", entries)) == GOLDEN


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Cn", "Co")), min_size=1, max_size=12)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
blocks = st.dictionaries(names, st.integers(1, 32), max_size=2).map(lambda listed: tuple(listed.items()))
ones = st.dictionaries(names, st.just(1), max_size=2).map(lambda listed: tuple(listed.items()))
tunables = st.dictionaries(
    names.filter(lambda name: name not in ("family", "block", "thread", "step")),
    st.integers(0, 4096) | st.booleans() | words,
    max_size=3,
).map(lambda listed: tuple(listed.items()))
schedules = st.dictionaries(names, st.builds(Schedule, st.none() | names, blocks, ones, blocks, tunables), max_size=2)
times = st.floats(0.01, 1e7).map(lambda value: float(f"{value:.4g}"))
entries = st.builds(
    Entry,
    names,
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    st.sampled_from(["sm_80", "sm_90a"]),
    words,
    schedules.map(lambda listed: tuple(listed.items())),
    st.builds(Time, times, times),
    st.builds(Time, times, times),
    words,
    st.booleans(),
)


@settings(max_examples=examples(30))
@given(entries)
def test_whatever_is_written_reads_back(entry: Entry) -> None:
    assert read_text_of(text(Lock("cugen.lock", (entry,)))).entries == (entry,)


@settings(max_examples=examples(30))
@given(st.lists(entries, unique_by=lambda entry: entry.sort_key, max_size=4), st.integers(0, 4))
def test_the_union_of_two_files_has_the_blocks_of_both(listed: list[Entry], cut: int) -> None:
    """So that a merge of branches that added different entries is the file that holds both."""
    first_text, second_text = (text(Lock("cugen.lock", tuple(part))) for part in (listed[:cut], listed[cut:]))
    blocks = sorted(map(block, listed), key=[block(e) for e in sorted(listed, key=lambda e: e.sort_key)].index)
    head = text(Lock("cugen.lock"))
    assert text(Lock("cugen.lock", tuple(listed))) == head + "".join(f"\n{part}" for part in blocks)
    assert all(part in first_text or part in second_text for part in blocks)


def test_an_update_keeps_other_entries(tmp_path: Path) -> None:
    path = tmp_path / "cugen.lock"
    update(path, [TOTAL])
    update(path, [PRODUCT])
    update(path, [replace(TOTAL, time=Time(12.1234, 9.84))])
    assert path.read_text() == GOLDEN
    assert [entry.kernel for entry in read(path).entries] == ["product", "total"]


def test_an_update_leaves_a_broken_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "cugen.lock"
    path.write_text("<<<<<<< HEAD\n")
    with pytest.raises(SpecError, match="unfinished merge"):
        update(path, [TOTAL])
    assert path.read_text() == "<<<<<<< HEAD\n"
