"""What is said of texture fetches: the sectors of loads where that is measured, assumed or unknown elsewhere."""

from __future__ import annotations

import pytest

from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.spec.load import load_text


def fetches(target: str, memory: str = "texture", offset: str = "") -> tuple[AccessReport, ...]:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
target: {target}
params: {{N: 4096}}
arrays:
  x: {{shape: [N], dtype: float32, memory: {memory}, boundary: zero}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[i{offset}]
schedule: {{family: direct}}
""")
    (kernel,) = generate(spec, analysis=False).plan.kernels
    return tuple(a for a in analyze_kernel(kernel, target, {"N": 4096}).accesses if a.access.array.name == "x")


@pytest.mark.parametrize("offset", ["", " + 1", " - 8", " - 1"])
def test_a_fetch_costs_the_sectors_of_a_load_with_its_guard(offset: str) -> None:
    (fetch,), (load,) = fetches("sm_90", offset=offset), fetches("sm_90", "readonly", offset)
    assert fetch.text == load.text.replace("x[", "tex1Dfetch<float>(x_texture, ").replace("]", ")")
    assert (fetch.space, fetch.verdict, fetch.totals) == (load.space, load.verdict, load.totals)


def test_where_it_was_not_measured_the_rule_is_assumed() -> None:
    (fetch,) = fetches("sm_80")
    assert fetch.verdict == "assumed"
    assert fetch.doubt == "a texture fetch moves the sectors that a load moves"
    assert fetch.cost == fetches("sm_90")[0].cost


def test_the_separate_texture_cache_of_old_targets_is_unknown() -> None:
    (fetch,) = fetches("sm_37")
    assert fetch.verdict == "unknown"
    assert fetch.doubt == "the texture cache of sm_37 is not modelled"


@pytest.mark.parametrize(("memory", "tests"), [("texture", 0), ("readonly", 2)])
def test_a_fetch_that_tests_its_bounds_is_no_branch(memory: str, tests: int) -> None:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{N: 1000}}
arrays:
  x: {{shape: [N], dtype: float32, memory: {memory}, boundary: zero}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[i - 1] + x[i + 1]
schedule: {{family: direct}}
""")
    (launch,) = analyze(generate(spec)).kernels
    assert len([branch for branch in launch.facts.branches if branch.kind == "load"]) == tests
