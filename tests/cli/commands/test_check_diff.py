"""`cugen check --diff OLD NEW`: what got better and worse, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
LADDER = Path(__file__).parents[3] / "specs" / "product_ladder.yaml"

TRANSPOSE = """\
cugen: 1
kernel: turn
params: {M: 128, N: 64}
arrays:
  A: {shape: [M, N], dtype: float32, memory: {space: shared, pad: PAD}}
  B: {shape: [N, M], dtype: float32}
compute: B[n, m] = A[m, n]
schedule: {block: {m: 32, n: 32}, thread: {n: 4}}
"""


@pytest.fixture
def padded(tmp_path: Path) -> Callable[[int], Path]:
    """A transpose whose tile has a pad."""

    def write(pad: int) -> Path:
        path = tmp_path / f"pad_{pad}.yaml"
        path.write_text(TRANSPOSE.replace("PAD", str(pad)))
        return path

    return write


def test_a_pad_makes_the_reads_of_the_tile_better_and_nothing_worse(cli: Cli, padded: Callable[[int], Path]) -> None:
    answer = cli("check", "--diff", padded(0), padded(1))
    assert answer.status == 0
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["memory", "of", "A", "shared", "→", "shared,", "pad", "1"] in lines
    (better,) = (line for line in lines if line[:4] == ["better", "A:", "shared", "read"])
    assert better[4:9] == ["8,192", "→", "256", "wavefronts", "-97%"]
    assert answer.out.endswith("accesses: 1 better, 3 same; no total is worse\n")


def test_a_conflict_that_comes_back_is_exit_status_1(cli: Cli, padded: Callable[[int], Path]) -> None:
    answer = cli("check", "--diff", padded(1), padded(0))
    assert answer.status == 1
    assert "accesses: 1 worse, 3 same; worse in total: wavefronts of shared memory" in answer.out
    quiet = cli("check", "--diff", padded(1), padded(0), "--quiet")
    assert quiet.status == 1
    assert " same " not in quiet.out.partition("accesses:")[0]


def test_kernels_of_one_file_are_two_schedules(cli: Cli) -> None:
    answer = cli("check", "--diff", f"{LADDER}:ladder_2_coalesced", f"{LADDER}:ladder_3_shared")
    assert "ladder_3_shared of product_ladder.yaml compared with ladder_2_coalesced" in answer.out
    assert "added   A: shared read" in answer.out
    chosen = cli("check", "--diff", f"{LADDER}:ladder_2_coalesced", LADDER, "--kernel", "ladder_3_shared")
    assert chosen.out == answer.out


def test_the_json_has_each_access_with_its_change(cli: Cli, padded: Callable[[int], Path]) -> None:
    answer = cli("check", "--diff", padded(0), padded(1), "--format", "json")
    content = json.loads(answer.out)
    assert content["passed"]
    (comparison,) = content["comparisons"]
    assert list(comparison) == ["before", "after", "passed", "settings", "totals", "launches"]
    (launch,) = comparison["launches"]
    (better,) = (access for access in launch["accesses"] if access["change"] == "better")
    assert (better["array"], better["space"], better["role"], better["unit"]) == ("A", "shared", "read", "wavefronts")
    assert (better["before"]["cost"], better["after"]["cost"]) == (8192, 256)


def test_the_schedules_of_two_lock_files_are_compared(cli: Cli, locked: Callable[[str, int], Path]) -> None:
    old = locked("old.lock", 1)
    spec = old.parent / "open.yaml"
    answer = cli("check", "--diff", old, spec)
    assert answer.out.startswith("scale of open.yaml compared with scale of open.yaml with old.lock\n")
    assert ["schedule.y.vector", "1", "→", "4"] in [line.split() for line in answer.out.splitlines()]
    same = cli("check", "--diff", old, spec, "--lock", old)
    assert "schedule.y.vector" not in same.out


def test_a_schedule_that_no_longer_fits_is_no_baseline_in_silence(cli: Cli, locked: Callable[[str, int], Path]) -> None:
    old = locked("old.lock", 16)
    answer = cli("check", "--diff", old, old.parent / "open.yaml")
    assert "warning[CG2105]: the schedule of old.lock for `scale` on NVIDIA H200 no longer fits" in answer.err
    assert ["schedule.y.vector", "-", "→", "4"] in [line.split() for line in answer.out.splitlines()]


def test_a_lock_file_without_the_kernel_is_no_baseline(cli: Cli, locked: Callable[[str, int], Path]) -> None:
    old = locked("old.lock", 1)
    spec = old.parent / "open.yaml"
    edited = spec.with_name("edited.yaml")
    edited.write_text(spec.read_text().replace("2 * x", "3 * x"))
    for words in ((edited,), (spec, "--device-name", "H100")):
        answer = cli("check", "--diff", old, *words)
        assert (answer.status, answer.out) == (2, "")
        assert "old.lock` has no schedule of this version of scale" in answer.err
    old.write_text("cugen_lock: 7\nkernels: []\n")
    assert "CG2106" in cli("check", "--diff", old, spec).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--diff", "OLD", "NEW", "--format", "sarif"], "`--diff` has no `--format sarif`"),
        (["--diff", "OLD", LADDER], "has no kernel ladder_1_naive"),
        (["--diff", "OLD:nothing", "NEW"], "nothing"),
        (["--diff", "missing.yaml", "NEW"], "missing.yaml"),
    ],
    ids=["a format of findings", "no kernel of that name", "an unknown kernel", "a missing file"],
)
def test_a_wrong_call_says_what_is_wrong(
    cli: Cli, padded: Callable[[int], Path], words: list[str], message: str
) -> None:
    known = {"OLD": str(padded(0)), "NEW": str(padded(1)), "OLD:nothing": f"{padded(0)}:nothing"}
    answer = cli("check", *(known.get(str(word), word) for word in words))
    assert answer.status == 2
    assert message in answer.err
