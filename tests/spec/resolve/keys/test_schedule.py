"""Schedules and limits: valid keys, and checks that need only the spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cugen.spec.model import Spec

PRODUCT = """\
cugen: 1
kernel: product
arrays:
  A: {shape: [64, 32], dtype: float32}
  B: {shape: [32, 48], dtype: float32}
  C: {shape: [64, 48], dtype: float32}
  s: {shape: [64], dtype: float32}
compute:
  - C[m, n] = sum(A[m, k] * B[k, n], k)
  - s[r] = sum(C[r, c], c)
"""


def test_a_flat_schedule_is_for_all_outputs(load_one: Callable[[str], Spec]) -> None:
    spec = load_one(PRODUCT + "schedule: {family: gemm, block: {m: 16, c: 4}, warps: 4, split: true, order: rows}\n")
    ((name, schedule),) = spec.schedules
    assert (name, schedule.family, schedule.block) == ("", "gemm", (("m", 16), ("c", 4)))
    assert schedule.tunables == (("warps", 4), ("split", True), ("order", "rows"))
    assert schedule.span_of("block.m").line == 11


def test_a_schedule_may_be_given_for_each_output(load_one: Callable[[str], Spec]) -> None:
    spec = load_one(PRODUCT + "schedule:\n  C: {block: {m: 16, n: 16}}\n  s: {block: {r: 64}}\n")
    assert [(name, s.block) for name, s in spec.schedules] == [("C", (("m", 16), ("n", 16))), ("s", (("r", 64),))]


@pytest.mark.parametrize(
    ("schedule", "code", "key"),
    [
        ("{block: {q: 16}}", "CG1041", "schedule.block.q"),
        ("{block: {A: 16}}", "CG1041", "schedule.block.A"),
        ("{s: {block: {m: 16}}}", "CG1041", "schedule.s.block.m"),
        ("{D: {block: {m: 16}}}", "CG1043", "schedule.D"),
        ("{blok: {m: 16}, family: gemm}", "CG1014", "schedule.blok"),
        ("{block: {m: 0}}", "CG1029", "schedule.block.m"),
        ("{block: {m: 65537}}", "CG1029", "schedule.block.m"),
        ("{block: {m: 1.5}}", "CG1015", "schedule.block.m"),
        ("{block: 16}", "CG1015", "schedule.block"),
        ("{block: [16, 16]}", "CG1015", "schedule.block"),
        ("{block: {m: 16}, thread: {m: 5}}", "CG1042", "schedule.thread.m"),
        ("{block: {m: 64, n: 32}, thread: {m: 1}}", "CG3001", "schedule.block"),
        ("{family: 3}", "CG1015", "schedule.family"),
        ("{warps: 1.5}", "CG1015", "schedule.warps"),
        ("{warps: [1]}", "CG1015", "schedule.warps"),
        ("[block]", "CG1015", "schedule"),
    ],
)
def test_schedules_that_are_rejected(diagnose: Callable[..., Any], schedule: str, code: str, key: str) -> None:
    assert [(d.code, d.key) for d in diagnose(PRODUCT + f"schedule: {schedule}\n")] == [(code, key)]


def test_a_block_without_threads_leaves_their_number_to_the_generator(diagnose: Callable[..., Any]) -> None:
    assert diagnose(PRODUCT + "schedule: {block: {m: 128, n: 128}}\n") == ()


def test_limits_keep_their_spans(load_one: Callable[[str], Spec]) -> None:
    check = load_one(PRODUCT + "check: {occupancy: 0.5, spills: 0, mixed_warps: 3, unknown: allow}\n").check
    assert (check.occupancy, check.spills, check.mixed_warps, check.allow_unknown) == (0.5, 0, 3.0, True)
    assert check.bank_conflicts is None
    assert dict(check.spans)["spills"].column == 33


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("{bank_conflicts: 0.5}", "CG1029"),
        ("{occupancy: 1.5}", "CG1029"),
        ("{occupancy: .nan}", "CG1029"),
        ("{sectors: .inf}", "CG1029"),
        ("{spills: 1.5}", "CG1015"),
        ("{sectors: true}", "CG1015"),
        ("{sector: 2}", "CG1014"),
        ("{unknown: true}", "CG1052"),
        ("3", "CG1015"),
    ],
)
def test_limits_that_are_rejected(diagnose: Callable[..., Any], check: str, code: str) -> None:
    assert [d.code for d in diagnose(PRODUCT + f"check: {check}\n")] == [code]
