"""Kernels compared: each step of the ladder is better in what docs/ladder.md says of it, access by access."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from cugen.analysis.launches.comparison import (
    ADDED,
    BETTER,
    REMOVED,
    SAME,
    WORSE,
    Compared,
    Comparison,
    Launch,
    compare,
)
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.spec.load import load, load_all
from cugen.spec.model import Spec
from cugen.toolchain.cuda import compile_cubin

SPECS = Path(__file__).parents[3] / "specs"
LADDER = {"M": 4096, "N": 4096, "K": 4096}
SECTORS, WAVEFRONTS = "sectors of global and local memory", "wavefronts of shared memory"
TILES = {"A: shared read", "A: shared write", "B: shared read", "B: shared write"}


def compared(spec: Spec, *, compiles: bool = False) -> Compared:
    kernel = generate(spec)
    resources = compile_cubin(kernel.source, kernel.name, kernel.manifest.target).kernels if compiles else None
    report = analyze(kernel, resources=resources)
    launches = (
        Launch(each.kernel, planned.family, each.accesses, each.facts)
        for each, planned in zip(report.kernels, kernel.plan.kernels, strict=True)
    )
    return Compared(spec, tuple(launches))


def changed(comparison: Comparison, change: str) -> set[str]:
    """The accesses with a change, as `A: shared read`."""
    return {
        f"{p.array}: {p.space} {p.role}" for launch in comparison.launches for p in launch.pairs if p.change == change
    }


def figures(comparison: Comparison, change: str) -> set[str]:
    return {figure.name for figure in comparison.figures if figure.change == change}


@pytest.mark.slow
def test_each_step_of_the_ladder_names_what_it_improves() -> None:
    kernels = [compared(spec, compiles=True) for spec in load_all(SPECS / "product_ladder.yaml", LADDER)]
    steps = dict(enumerate((compare(old, new) for old, new in pairwise(kernels)), start=2))
    assert {number: changed(step, BETTER) for number, step in steps.items()} == {
        2: {"A: global read", "C: global write"},
        3: {"A: global read", "B: global read"},
        4: {"A: global read", "B: global read", "A: shared write", "B: shared write", "B: shared read"},
        5: {"A: global read", "B: global read", "A: shared write", "B: shared write", "A: shared read"},
        6: {"A: shared read", "B: shared read"},
        7: set(),
        8: {"A: global read", "A: shared write", "B: shared read"},
        9: set(),
    }
    assert {number: changed(step, ADDED) - TILES for number, step in steps.items() if changed(step, ADDED)} == {
        3: set(),
        9: {f"{name}: global {role}" for name in ("C_flags", "C_partials") for role in ("read", "write")}
        | {"C_flags: global atomic", "shared_block_id: shared read", "shared_block_id: shared write"},
    }
    better = {number: figures(step, BETTER) for number, step in steps.items()}
    assert all(SECTORS in better[number] for number in (2, 3, 4, 5, 8))
    assert all(WAVEFRONTS in better[number] for number in (4, 5, 6, 8))
    assert "occupancy" in better[6]
    assert "block slots in use over all waves" in better[9]
    assert all("modelled time" in better[number] for number in steps if number != 7)
    assert steps[7].settings == (("schedule.order", "rows", "serpentine"),)
    assert {figure.change for figure in steps[7].figures} == {SAME}
    assert [number for number, step in steps.items() if not step.is_worse] == [3, 7]


def test_what_a_step_improves_is_worse_the_other_way_round() -> None:
    naive, coalesced = (compared(spec) for spec in load_all(SPECS / "product_ladder.yaml")[:2])
    there, back = compare(naive, coalesced), compare(coalesced, naive)
    assert changed(there, BETTER) == changed(back, WORSE)
    assert changed(there, WORSE) == changed(back, BETTER)
    assert figures(there, BETTER) == figures(back, WORSE)
    (pair,) = (p for p in there.launches[0].pairs if p.array == "A")
    assert pair.growth == pytest.approx(1 / 32 - 1)
    assert back.is_worse


def test_a_kernel_is_the_same_as_itself() -> None:
    kernel = compared(load(SPECS / "transpose_padded.yaml"))
    comparison = compare(kernel, kernel)
    assert {pair.change for launch in comparison.launches for pair in launch.pairs} == {SAME}
    assert {figure.change for figure in comparison.figures} == {SAME}
    assert comparison.settings == ()
    assert comparison.before.endswith("(baseline)")
    assert not comparison.is_worse


def test_tiles_that_go_are_removed_and_not_better() -> None:
    naive, shared = (compared(load(SPECS / f"transpose_{name}.yaml")) for name in ("naive", "shared"))
    comparison = compare(shared, naive)
    assert changed(comparison, REMOVED) == {"A: shared read", "A: shared write"}
    assert WAVEFRONTS in figures(comparison, REMOVED)
