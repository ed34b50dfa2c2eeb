"""`unroll`: every loop that a family prints is unrolled as asked, or refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.kernel import Kernel, generate
from cugen.schedule.unrolling import FULLY, Unrolling, loops_of
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Options, Schedule, Spec

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
REASONS = (
    r"its variable selects registers of .+; rolled, they would be in local memory",
    r"its trips are stages of a pipeline, which are proved one by one",
    r"its trips are the steps of a pipeline, which is proved for any number of them",
    r"the number of its trips isn't known when the kernel is compiled",
)
PRAGMAS = {FULLY: "#pragma unroll", 1: "#pragma unroll 1", 3: "#pragma unroll 3"}
_LOOP = re.compile(r"\s*for \((?:int|long long) (\w+) ")
SUM = """\
cugen: 1
kernel: sums
params: {M: dynamic, N: 40}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = sum(x[i, j], j)
"""


def loops(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """The variable of each loop of the kernels, and the line before it."""
    kernels = kernel.source.partition('extern "C" __global__')[2].partition("#if defined(__CUDACC__)")[0]
    lines = kernels.splitlines()
    for before, line in pairwise(lines):
        if loop := _LOOP.match(line):
            yield loop[1], before.strip()


def with_unroll(spec: Spec, unroll: dict[str, int]) -> Spec:
    written = spec.schedules or (("", Schedule()),)
    options = [(name, replace(s, options=replace(s.options, unroll=tuple(unroll.items())))) for name, s in written]
    return replace(spec, schedules=tuple(options))


def pragmas(schedule: str) -> list[tuple[str, str]]:
    (spec,) = load_text(f"{SUM}schedule: {schedule}\n")
    return list(loops(generate(spec, analysis=False)))


def refusals(text: str) -> list[str]:
    (spec,) = load_text(text)
    with pytest.raises(SpecError) as caught:
        generate(spec, analysis=False)
    assert {d.code for d in caught.value.diagnostics} == {"CG2111"}
    return [f"{d.message} {d.help}" for d in caught.value.diagnostics]


@pytest.mark.sampled(216)
@pytest.mark.parametrize("factor", PRAGMAS)
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_each_loop_of_the_gallery_is_unrolled_as_asked_or_refused_with_the_reason(path: Path, factor: int) -> None:
    spec = load_all(path)[0]
    made = generate(with_unroll(spec, {}), analysis=False)
    names = {name for planned in made.plan.kernels for name in loops_of(planned)}
    assert {name for name, _ in loops(made)} == names  # none but those of the plan
    refused: dict[str, str] = {}
    for planned in made.plan.kernels:
        unrolling = Unrolling(dict.fromkeys(names, factor))
        changed = unrolling.apply(planned)
        refused |= unrolling.refused
        assert prove_pipeline(changed) == prove_pipeline(planned)
    for reason in refused.values():
        assert any(re.fullmatch(known, reason) for known in REASONS), reason
    requested = dict.fromkeys(sorted(names - refused.keys()), factor)
    printed = list(loops(generate(with_unroll(spec, requested), analysis=False)))
    assert {before for name, before in printed if name in requested} <= {PRAGMAS[factor]}
    assert {name for name, _ in printed} == names


def test_a_factor_is_that_of_the_pragma() -> None:
    assert pragmas("{family: direct, unroll: {j: 4}}") == [("j", "#pragma unroll 4")]
    assert pragmas("{family: direct, unroll: {j: 1}}") == [("j", "#pragma unroll 1")]
    assert pragmas("{family: direct, unroll: {j: full}}") == [("j", "#pragma unroll")]


def test_the_choice_of_a_family_is_left_alone() -> None:
    (plain,), (limited,) = load_text(SUM), load_text(f"{SUM}schedule: {{max_registers: 64}}\n")
    (first,), (second,) = (generate(spec, analysis=False).plan.kernels for spec in (plain, limited))
    assert (first.family, first.block, first.reasons) == (second.family, second.block, second.reasons)


def test_a_number_is_the_tunable_of_a_family() -> None:
    assert ("j", "#pragma unroll 2") in pragmas("{family: reduce, unroll: 2}")


@pytest.mark.parametrize(
    ("name", "factor", "words"),
    [
        ("k", 4, "no loop of the source is over `k` known loops: j"),
        ("jj", 1, "no loop of the source is over `jj` known loops: j"),
    ],
)
def test_a_loop_that_is_not_there_is_refused_with_those_that_are(name: str, factor: int, words: str) -> None:
    (message,) = refusals(f"{SUM}schedule: {{family: direct, unroll: {{{name}: {factor}}}}}\n")
    assert words in message


def test_too_many_copies_are_refused() -> None:
    text = SUM.replace("N: 40", "N: 5000")
    (message,) = refusals(f"{text}schedule: {{family: direct, unroll: {{j: full}}}}\n")
    assert "5000 trips, and at most 1024 copies" in message


@pytest.mark.parametrize("value", ["0", "1025", "half", "-1", "true", "[1]"])
def test_a_value_that_is_no_factor_is_refused(value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(f"{SUM}schedule: {{unroll: {{j: {value}}}}}\n")
    assert [d.code for d in caught.value.diagnostics] <= ["CG1029"]


def test_options_by_output_are_those_of_its_kernel() -> None:
    both = "compute: |\n  y[i] = sum(x[i, j], j)\n  z[i, j] = 2 * x[i, j]"
    text = SUM.replace("compute: y[i] = sum(x[i, j], j)", both)
    text = text.replace("  y:", "  z: {shape: [M, N], dtype: float32}\n  y:")
    (spec,) = load_text(f"{text}schedule: {{y: {{family: direct, unroll: {{j: 8}}, carveout: 10}}}}\n")
    made = generate(spec, analysis=False)
    assert [planned.options for planned in made.plan.kernels] == [
        Options(unroll=(("j", 8),), carveout=10),
        Options(),
    ]
