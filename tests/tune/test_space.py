"""What is tried: everything that the user left open, nothing else, and the best guesses first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.families.registry import families
from cugen.kernel import generate
from cugen.plan.request import Match, Refusals, Request
from cugen.schedule import planner
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune.space import Candidate, candidates, generators_choice

SUM = """\
cugen: 1
kernel: total
params: {M: 64, N: 4096}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = sum(x[i, j], j)
"""
TWO = """\
cugen: 1
kernel: two
params: {M: 64, N: 48}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [N, M], dtype: float32}
  z: {shape: [M], dtype: float32}
compute: |
  y[j, i] = x[i, j]
  z[i] = sum(x[i, j], j)
"""


def spec_of(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec


def code(spec: Spec) -> list[str]:
    """The lines of the source without those of comments alone, which say by whom the schedule was chosen."""
    return [line for line in generate(spec, analysis=False).source.splitlines() if not line.lstrip().startswith("//")]


def tunables(candidate: Candidate) -> dict[str, int | str | bool]:
    return dict(candidate.schedules[0][1].tunables)


def test_the_first_is_the_generators_choice_and_the_nearest_follow() -> None:
    space = candidates(spec_of(SUM))
    assert space[0] == Candidate(0)
    assert [candidate.number for candidate in space] == list(range(len(space)))
    changed = [len(tunables(candidate)) for candidate in space[1:]]
    assert changed == sorted(changed)
    assert len(set(space)) == len(space)


PRODUCT = """\
cugen: 1
kernel: product
params: {M: 128, N: 2112, K: 7168}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""
ROW = PRODUCT.replace("M: 128", "M: 1")  # in two launches
CHANNELS_LAST = """\
cugen: 1
kernel: conv
params: {B: 2, H: 56, W: 56, C: 64, O: 128}
arrays:
  x: {shape: [B, H, W, C], dtype: float32, boundary: clamp}
  f: {shape: [3, 3, C, O], dtype: float32}
  y: {shape: [B, H, W, O], dtype: float32}
compute: y[b, i, j, o] = sum(x[b, i + r - 1, j + s - 1, c] * f[r, s, c, o], r, s, c)
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SUM, id="sum"),
        pytest.param(TWO, id="two statements"),
        pytest.param(PRODUCT, id="product"),
        pytest.param(ROW, id="row"),
    ],
)
def test_the_generators_choice_in_words_gives_what_it_gives_without(text: str) -> None:
    spec = spec_of(text)
    chosen = generators_choice(spec)
    assert len(chosen) == len(spec.statements)
    assert code(replace(spec, schedules=chosen)) == code(spec)


@pytest.mark.slow
def test_no_words_are_better_than_wrong_ones() -> None:
    spec = spec_of(CHANNELS_LAST)
    assert len(planner.make_plan(spec).kernels) == 2
    assert generators_choice(spec) == ()


def test_what_the_user_fixed_is_in_every_candidate() -> None:
    space = candidates(spec_of(SUM + "schedule: {family: reduce, threads: 128}\n"))
    assert len(space) > 10
    for candidate in space[1:]:
        ((output, schedule),) = candidate.schedules
        assert (output, schedule.family, tunables(candidate)["threads"]) == ("y", "reduce", 128)


def test_launches_are_changed_one_at_a_time_then_two_together() -> None:
    space = candidates(spec_of(TWO))[1:]
    counts = [len(candidate.schedules) for candidate in space]
    assert counts == sorted(counts)
    assert set(counts) == {1, 2}
    assert {output for candidate in space for output, _ in candidate.schedules} == {"y", "z"}


def test_a_family_may_say_what_is_worth_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    (reduce,) = (family for family in families() if family.name == "reduce")

    def match(request: Request) -> Match | Refusals:
        answer = reduce.answer(request)
        if isinstance(answer, Refusals):
            return answer
        schedules = tuple(Schedule(tunables=(("threads", size),)) for size in (256, 64))
        return replace(answer, candidates=lambda: schedules)

    changed = tuple(replace(reduce, match=match) if family is reduce else family for family in families())
    monkeypatch.setattr(planner, "families", lambda: changed)
    space = candidates(spec_of(SUM + "schedule: {family: reduce}\n"))
    assert [tunables(candidate)["threads"] for candidate in space[1:]] == [256, 64]


def test_features_name_every_choice() -> None:
    schedule = Schedule("gemm", (("m", 8),), (("m", 2),), (("k", 4),), (("stages", 3),))
    assert Candidate(1, (("C", schedule),)).features == (
        ("C.family", "gemm"),
        ("C.block.m", 8),
        ("C.thread.m", 2),
        ("C.step.k", 4),
        ("C.stages", 3),
    )


def test_a_statement_with_hoisted_reductions_has_no_schedules() -> None:
    """A schedule for it would keep the inner sum where it is, computed again and again."""
    spec = spec_of("""\
cugen: 1
kernel: scores
params: {M: 64, N: 64, K: 32}
arrays:
  q: {shape: [M, K], dtype: float32}
  k: {shape: [N, K], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = sum(exp(sum(q[i, l] * k[j, l], l)), j)
""")
    outputs = {output for candidate in candidates(spec) for output, _ in candidate.schedules}
    assert outputs
    assert "y" not in outputs
